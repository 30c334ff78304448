"""Query texts and the model they stand for."""

import datetime as dt
import hashlib
import operator
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.expr import Bool, Column, Compare, Const, Logic, Not, Number, evaluate
from joinery.tuples import (
    BoolType,
    DecimalType,
    Field,
    IntType,
    Schema,
    StringType,
    TimestampType,
)
from joinery_gen.parse import parse, parse_file
from joinery_gen.query import (
    AggregateOutput,
    AggregateQuery,
    JoinQuery,
    KeyedRowWindow,
    KeyOutput,
    RowWindow,
    SlidingWindow,
    TimeWindow,
    WindowEndOutput,
)

QUERIES = sorted((Path(__file__).parents[1] / "gen" / "queries").glob("*.cql"))

STREAMS = """
CREATE STREAM r (a TINYINT, b DECIMAL(4,2), c UINT(4), f BOOLEAN, n STRING(4), t TIMESTAMP(s));
CREATE STREAM s (a TINYINT, d DECIMAL(3,1), g BOOLEAN, n STRING(3), t TIMESTAMP(s), u INT(12));
"""


def body_of(select: str):
    return parse(STREAMS + select).body


def join_of(select: str = "*", rest: str = "") -> JoinQuery:
    body = body_of(f"SELECT {select} FROM r [ROWS 2], s [ROWS 3] {rest}")
    assert isinstance(body, JoinQuery)
    return body


def aggregate_of(select: str, rest: str = "", window: str | None = None) -> AggregateQuery:
    window = window or "[RANGE 60 SECONDS SLIDE 20 SECONDS WATTR t]"
    body = body_of(f"SELECT {select} FROM r {window} {rest}")
    assert isinstance(body, AggregateQuery)
    return body


def condition(text: str):
    return join_of(rest=f"WHERE {text}").predicate


def names(body) -> list[str]:
    return [output.name for output in body.outputs]


# Streams


@pytest.mark.parametrize(
    ("written", "column"),
    [
        ("TINYINT", IntType(8)),
        ("SMALLINT", IntType(16)),
        ("INT", IntType(32)),
        ("BIGINT", IntType(64)),
        ("INT(1)", IntType(1)),
        ("INT(20)", IntType(20)),
        ("INT(64)", IntType(64)),
        ("UINT(1)", IntType(1, signed=False)),
        ("UINT(63)", IntType(63, signed=False)),
        ("BOOLEAN", BoolType()),
        ("DECIMAL(10,2)", DecimalType(10, 2)),
        ("DECIMAL(18)", DecimalType(18, 0)),
        ("DECIMAL ( 5 , 5 )", DecimalType(5, 5)),
        ("STRING(1)", StringType(1)),
        ("STRING(64)", StringType(64)),
        ("TIMESTAMP(s)", TimestampType("s")),
        ("TIMESTAMP(ms)", TimestampType("ms")),
        ("TIMESTAMP(us)", TimestampType("us")),
        ("timestamp(MS)", TimestampType("ms")),
        ("decimal(3,1)", DecimalType(3, 1)),
    ],
)
def test_column_types(written, column):
    query = parse(
        f"CREATE STREAM x (k INT, v {written}); SELECT p.k FROM x [ROWS 1] p, x [ROWS 1] q"
    )
    assert query.streams[0].schema == Schema((Field("k", IntType(32)), Field("v", column)))


def test_streams_keep_their_order_and_may_be_unused():
    query = parse(STREAMS + "SELECT count(*) FROM s [PARTITION BY a ROWS 2]")
    assert [stream.name for stream in query.streams] == ["r", "s"]
    assert query.streams[1].schema.names == ("a", "d", "g", "n", "t", "u")
    assert query.sources == (query.body.source,)
    assert query.body.source.schema is query.streams[1].schema


def test_a_name_may_be_quoted_and_may_be_a_keyword_then():
    query = parse(
        'CREATE STREAM "from" ("select" INT, "where" INT);'
        'SELECT x."select", y."where" AS "group" FROM "from" [ROWS 1] AS x JOIN "from" AS "y"'
        '[ROWS 2] ON "x"."select" = y."select"'
    )
    assert names(query.body) == ["select", "group"]
    assert query.body.predicate == Compare(
        "=", Column("x", "select", IntType(32)), Column("y", "select", IntType(32))
    )


# Windows


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("[ROWS 1]", RowWindow(1)),
        ("[rows 1000000000]", RowWindow(1_000_000_000)),
        ("[ROWS 5.0]", RowWindow(5)),
        ("[RANGE 3 SECONDS WATTR t]", TimeWindow(3, "t")),
        ("[WATTR t RANGE 3 SECONDS]", TimeWindow(3, "t")),
        ("[RANGE 0 SECONDS WATTR t]", TimeWindow(0, "t")),
        ('[RANGE 1 MINUTE WATTR "t" SLACK 2 HOURS]', TimeWindow(60, "t", 7200)),
        ("[SLACK 1 DAY WATTR t RANGE 1.5 MINUTES]", TimeWindow(90, "t", 86_400)),
        ("[range 2000 milliseconds wattr t slack 0 second]", TimeWindow(2, "t", 0)),
        ("[RANGE 3000000 MICROSECONDS WATTR t]", TimeWindow(3, "t")),
    ],
)
@pytest.mark.parametrize(
    "order", ["r {} AS x, r {} AS y", "r AS x {} JOIN r y {}", "r {} x, r y {}"]
)
def test_windows_of_joins(window, expected, order):
    body = body_of("SELECT x.a FROM " + order.format(window, window))
    assert (body.left.window, body.right.window) == (expected, expected)
    assert (body.left.alias, body.right.alias) == ("x", "y")


def test_windows_of_a_join_may_differ_in_rows_and_slack():
    body = body_of("SELECT r.a FROM r [ROWS 2], s [ROWS 70]")
    assert (body.left.window, body.right.window) == (RowWindow(2), RowWindow(70))
    body = body_of(
        "SELECT r.a FROM r [RANGE 9 SECONDS WATTR t SLACK 1 SECOND], s [RANGE 9 SECONDS WATTR t]"
    )
    assert (body.left.window, body.right.window) == (TimeWindow(9, "t", 1), TimeWindow(9, "t"))


@pytest.mark.parametrize(
    ("window", "expected", "keys"),
    [
        ("[RANGE 60 SECONDS SLIDE 20 SECONDS WATTR t]", SlidingWindow(60, 20, "t"), []),
        ("[WATTR t SLIDE 1 MINUTE SLACK 5 SECONDS RANGE 1 MINUTE]",
         SlidingWindow(60, 60, "t", 5), []),
        ("[PARTITION BY a ROWS 64 SLIDE 16]", KeyedRowWindow(64, 16), ["a"]),
        ("[ROWS 2 PARTITION BY a]", KeyedRowWindow(2, 1), ["a"]),
        ("[SLIDE 9 ROWS 2 PARTITION BY n, a, f]", KeyedRowWindow(2, 9), ["n", "a", "f"]),
        ("[PARTITION BY a RANGE 60 SECONDS SLIDE 20 SECONDS WATTR t SLACK 1 SECOND]",
         SlidingWindow(60, 20, "t", 1), ["a"]),
        ('[RANGE 6 SECONDS SLIDE 2 SECONDS partition by "a", n WATTR t]',
         SlidingWindow(6, 2, "t"), ["a", "n"]),
    ],
)  # fmt: skip
def test_windows_of_aggregates(window, expected, keys):
    body = aggregate_of("count(*)", window=window)
    assert body.source.window == expected
    assert [column.name for column in body.group_by] == keys
    assert body.partitioned == bool(keys)


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 1_000), ("us", 1_000_000)])
@pytest.mark.parametrize(
    ("word", "seconds"), [("SECOND", 1), ("MINUTE", 60), ("HOUR", 3600), ("DAY", 86_400)]
)
def test_times_are_in_the_unit_of_the_wattr_column(unit, per_second, word, seconds):
    query = parse(
        f"CREATE STREAM x (t TIMESTAMP({unit}));"
        f"SELECT count(*) FROM x [RANGE 5 {word}S SLIDE 1 {word} WATTR t SLACK 2.0 {word}S]"
    )
    one = seconds * per_second
    assert query.body.source.window == SlidingWindow(5 * one, one, "t", 2 * one)


def test_fine_units_of_time():
    query = parse(
        "CREATE STREAM x (t TIMESTAMP(us)); SELECT count(*) "
        "FROM x [RANGE 1.5 MILLISECONDS SLIDE .5 MILLISECOND WATTR t SLACK 7 MICROSECONDS]"
    )
    assert query.body.source.window == SlidingWindow(1500, 500, "t", 7)


def test_an_integer_wattr_counts_its_own_steps():
    body = body_of("SELECT count(*) FROM s [RANGE 10 SLIDE 4 WATTR u SLACK 3]")
    assert body.source.window == SlidingWindow(10, 4, "u", 3)
    assert body.source.window.pane == 2
    body = body_of("SELECT x.a FROM s [RANGE 10 WATTR u] x, s [WATTR a RANGE 10] y")
    assert (body.left.window, body.right.window) == (TimeWindow(10, "u"), TimeWindow(10, "a"))


@given(length=st.integers(1, 500), slide=st.integers(1, 500))
def test_a_pane_is_the_largest_that_fits_range_and_slide(length, slide):
    pane = SlidingWindow(length, slide, "t").pane
    assert pane == max(p for p in range(1, 501) if length % p == slide % p == 0)


# FROM, ON, WHERE


@pytest.mark.parametrize(
    "source",
    [
        "r [ROWS 2] JOIN s [ROWS 3] ON r.a = s.a WHERE r.f AND s.g",
        "r [ROWS 2] INNER JOIN s [ROWS 3] ON (r.a = s.a) WHERE (r.f AND s.g)",
        "r [ROWS 2] JOIN s [ROWS 3] ON r.a = s.a AND r.f AND s.g",
        "r [ROWS 2], s [ROWS 3] WHERE r.a = s.a AND (r.f AND s.g)",
        "r [ROWS 2] CROSS JOIN s [ROWS 3] where ((r.a = s.a) and r.f) and s.g",
        "r [rows 2] join s [rows 3] oN r.a = s.a wHeRe f AND g",
        "r [ROWS 2] JOIN s [ROWS 3] WHERE r.a = s.a AND f AND g",
    ],
)
def test_on_and_where_are_one_predicate(source):
    body = body_of(f"SELECT r.a FROM {source}")
    a = Compare("=", Column("r", "a", IntType(8)), Column("s", "a", IntType(8)))
    f, g = Column("r", "f", BoolType()), Column("s", "g", BoolType())
    assert body.predicate == Logic("AND", (a, f, g))
    assert (body.left.alias, body.right.alias) == ("r", "s")


@pytest.mark.parametrize("source", ["r [ROWS 2], s [ROWS 3]", "r [ROWS 2] CROSS JOIN s [ROWS 3]"])
def test_without_a_condition_every_pair_meets(source):
    assert body_of(f"SELECT r.a FROM {source}").predicate == Const(1, Bool())


def test_a_stream_may_be_joined_with_itself():
    body = body_of("SELECT x.a, y.b FROM r [ROWS 2] x, r [ROWS 3] AS y WHERE x.a < y.a")
    assert body.left.stream is body.right.stream
    assert body.sources == (body.left, body.right)
    assert body.predicate.left == Column("x", "a", IntType(8))


def test_clauses_of_an_aggregate():
    body = aggregate_of("count(*)", "WHERE a > 3 GROUP BY n, r.c")
    assert body.where == Compare(">", Column("r", "a", IntType(8)), Const.number(3))
    assert [column.name for column in body.group_by] == ["n", "c"]
    assert not body.partitioned
    assert aggregate_of("count(*)").where is None
    assert aggregate_of("count(*)").group_by == ()


def test_several_selects_share_their_stream():
    window = "FROM r [RANGE {} SECONDS SLIDE {} SECONDS WATTR t SLACK 5 SECONDS]"
    query = parse(
        f"{STREAMS}"
        f"SELECT a, count(*) {window.format(9, 3)} GROUP BY a;"
        f"SELECT max(b), a, t {window.format(20, 5)} WHERE c > 3 GROUP BY a",
        "both",
    )
    first, second = query.parts
    assert [part.name for part in query.parts] == ["both_1", "both_2"]
    assert first.body == query.body
    assert [part.body.source.window.pane for part in query.parts] == [1, 1]  # 3 and 5 by themselves
    assert (second.body,) == query.more
    assert [part.body.source.window.range for part in query.parts] == [9, 20]
    assert {(part.text, part.hash, part.sources[0].alias) for part in query.parts} == {
        (query.text, query.hash, "r")
    }
    assert first.parts == (first,)


def test_group_by_may_repeat_partition_by():
    body = aggregate_of("n, count(*)", "GROUP BY n, a", "[PARTITION BY a, n ROWS 5]")
    assert [column.name for column in body.group_by] == ["a", "n"]
    assert body.partitioned


# The SELECT list of a join


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("r.a", ["a"]),
        ("b, d", ["b", "d"]),
        ("r.a AS x, s.a y", ["x", "y"]),
        ('r.a AS "x1"', ["x1"]),
        ("(r.a), s.a AS A2", ["a", "A2"]),
        ("*", ["r_a", "b", "c", "f", "r_n", "r_t", "s_a", "d", "g", "s_n", "s_t", "u"]),
        ("r.*", ["a", "b", "c", "f", "n", "t"]),
        ("s.*, c", ["a", "d", "g", "n", "t", "u", "c"]),
        ("r.*, s.a", ["r_a", "b", "c", "f", "n", "t", "a"]),
        ("s.*, r.b AS D", ["a", "s_d", "g", "n", "t", "u", "D"]),
        ("r.*, s.*", ["r_a", "b", "c", "f", "r_n", "r_t", "s_a", "d", "g", "s_n", "s_t", "u"]),
    ],
)
def test_names_of_a_join(select, expected):
    assert names(join_of(select)) == expected


def test_star_gives_the_columns_themselves():
    outputs = {output.name: output for output in join_of("*").outputs}
    assert outputs["r_n"].expr == Column("r", "n", StringType(4))
    assert outputs["s_n"].expr == Column("s", "n", StringType(3))
    assert outputs["u"].type == IntType(12)


@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("b", DecimalType(4, 2)),
        ("c", IntType(4, signed=False)),
        ("r.a + s.a", IntType(16)),
        ("c - c", IntType(8)),
        ("c * c", IntType(16)),
        ("r.a * 1000000", IntType(32)),
        ("r.a * 1000000000", IntType(64)),
        ("r.a * 72057594037927935", IntType(64)),
        ("abs(r.a)", IntType(16)),
        ("-r.a", IntType(16)),
        ("b + d", DecimalType(5, 2)),
        ("b * d", DecimalType(7, 3)),
        ("0.05 * 0.05", DecimalType(4, 4)),
        ("r.a ^ c", IntType(8)),
        ("r.t - s.t", IntType(64)),
        ("r.t + 60", TimestampType("s")),
        ("r.t - u", TimestampType("s")),
        ("r.f AND s.g", BoolType()),
        ("r.a = s.a", BoolType()),
        ("'abc'", StringType(3)),
        ("''", StringType(1)),
        ("5", IntType(8)),
        ("-128", IntType(8)),
        ("128", IntType(16)),
        ("9223372036854775807", IntType(64)),
        ("1.50", DecimalType(3, 2)),
        ("TRUE", BoolType()),
    ],
)
def test_types_of_a_join(expression, column):
    body = join_of(f"{expression} AS x")
    assert body.schema == Schema((Field("x", column),))


# The SELECT list of an aggregate


def test_outputs_of_an_aggregate():
    body = aggregate_of(
        "n, t AS until, count(*), COUNT(a), count(b) AS k, sum(a), (Min(b)), max(a - c) AS reach",
        "GROUP BY n",
    )
    key, end, *rest = body.outputs
    assert key == KeyOutput("n", Column("r", "n", StringType(4)))
    assert end == WindowEndOutput("until", Column("r", "t", TimestampType("s")))
    assert [(o.name, o.function) for o in rest] == [
        ("count", "count"), ("count_a", "count"), ("k", "count"), ("sum_a", "sum"),
        ("min_b", "min"), ("reach", "max"),
    ]  # fmt: skip
    assert all(output.argument is None for output in rest if output.function == "count")
    assert body.schema.names == ("n", "until", "count", "count_a", "k", "sum_a", "min_b", "reach")
    assert body.schema["until"] == TimestampType("s")
    assert body.schema["n"] == StringType(4)


@pytest.mark.parametrize(
    ("call", "column"),
    [
        ("count(*)", IntType(64)),
        ("count(n)", IntType(64)),
        ("sum(a)", IntType(64)),
        ("sum(b)", DecimalType(38, 2)),
        ("sum(b * b)", DecimalType(38, 4)),
        ("min(a)", IntType(8)),
        ("max(c)", IntType(4, signed=False)),
        ("min(b)", DecimalType(4, 2)),
        ("max(t)", TimestampType("s")),
        ("max(t + 1)", TimestampType("s")),
        ("min(a * a)", IntType(16)),
        ("avg(a)", DecimalType(38, 4)),
        ("avg(b)", DecimalType(38, 6)),
        ("median(a)", DecimalType(38, 1)),
        ("median(b)", DecimalType(38, 3)),
    ],
)
def test_types_of_an_aggregate(call, column):
    body = aggregate_of(f"{call} AS x", window="[PARTITION BY n ROWS 3]")
    assert body.schema == Schema((Field("x", column),))


def test_a_key_need_not_be_selected():
    assert names(aggregate_of("count(*)", "GROUP BY n")) == ["count"]


def test_an_unknown_aggregate_has_no_type():
    with pytest.raises(ValueError, match=r"^Unknown aggregate 'mode'$"):
        _ = AggregateOutput("x", "mode", Column("r", "a", IntType(8))).type


# Expressions

A, C = Column("r", "a", IntType(8)), Column("r", "c", IntType(4, signed=False))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r.a BETWEEN 1 AND 2",
         Logic("AND", (Compare(">=", A, Const.number(1)), Compare("<=", A, Const.number(2))))),
        ("r.a IN (1, 2)",
         Logic("OR", (Compare("=", A, Const.number(1)), Compare("=", A, Const.number(2))))),
        ("r.a IN (c)", Compare("=", A, C)),
        ("r.a NOT IN (c)", Not(Compare("=", A, C))),
        ("NOT r.a IN (c)", Not(Compare("=", A, C))),
        ("r.a != c", Compare("<>", A, C)),
        ("r.a == c", Compare("=", A, C)),
        ("r.a = -0.50", Compare("=", A, Const.number(-50, 2))),
        ("r.a = -(5)", Compare("=", A, Const.number(-5))),
        ("r.a = 007", Compare("=", A, Const.number(7))),
        ("r.a = 5.", Compare("=", A, Const.number(5))),
        ("r.n = 'it''s'", Compare("=", Column("r", "n", StringType(4)), Const.text("it's"))),
        ("r.n = '東'", Compare("=", Column("r", "n", StringType(4)), Const.text("東"))),
        ("r.f", Column("r", "f", BoolType())),
        ("TRUE", Const(1, Bool())),
        ("false", Const(0, Bool())),
        ("r.f = TRUE", Compare("=", Column("r", "f", BoolType()), Const(1, Bool()))),
    ],
)  # fmt: skip
def test_expressions(text, expected):
    assert condition(text) == expected


@pytest.mark.parametrize(
    ("literal", "moment"),
    [
        ("2024-05-31 12:00:01", dt.datetime(2024, 5, 31, 12, 0, 1)),
        ("2024-05-31", dt.datetime(2024, 5, 31)),
        ("2024-05-31T12:00:00Z", dt.datetime(2024, 5, 31, 12)),
        ("2024-05-31 12:00:00+02:00", dt.datetime(2024, 5, 31, 10)),
        ("1969-12-31 23:59:59", dt.datetime(1969, 12, 31, 23, 59, 59)),
    ],
)
def test_timestamp_literals_take_the_unit_beside_them(literal, moment):
    since = moment - dt.datetime(1970, 1, 1)
    seconds = since.days * 86_400 + since.seconds
    right = condition(f"r.t = TIMESTAMP '{literal}'").right
    assert right == Const(seconds, Number(seconds, seconds, 0, "s"))
    assert condition(f"(timestamp '{literal}') = r.t").left == right
    body = parse(
        "CREATE STREAM x (t TIMESTAMP(ms));"
        f"SELECT count(*) FROM x [RANGE 2 DAYS SLIDE 1 DAY WATTR t] WHERE t < TIMESTAMP '{literal}'"
    ).body
    assert body.where.right.value == 1000 * seconds


def test_two_timestamp_literals_may_stand_beside_one_column():
    between = condition("r.t BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '1970-01-03'")
    assert [term.right.value for term in between.terms] == [86_400, 172_800]
    chosen = condition("r.t IN (TIMESTAMP '1970-01-01', s.t, TIMESTAMP '1970-01-02')")
    assert [getattr(term.right, "value", None) for term in chosen.terms] == [0, None, 86_400]


# Random expressions: written with as few parentheses as the order of operators allows, and
# evaluated here on the tree that was meant, in fractions.

OR, AND, NOT, EQUALITY, ORDER, RANGE, BITS, SUM, PRODUCT, SIGN, ATOM = range(11)
LEVEL = {
    "OR": OR, "AND": AND, "=": EQUALITY, "<>": EQUALITY, "!=": EQUALITY, "<": ORDER, "<=": ORDER,
    ">": ORDER, ">=": ORDER, "&": BITS, "|": BITS, "^": BITS, "+": SUM, "-": SUM, "*": PRODUCT,
}  # fmt: skip
MEANING = {
    "OR": lambda a, b: a or b, "AND": lambda a, b: a and b,
    "=": operator.eq, "<>": operator.ne, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "+": operator.add, "-": operator.sub, "*": operator.mul,
    "&": lambda a, b: Fraction(int(a) & int(b)), "|": lambda a, b: Fraction(int(a) | int(b)),
    "^": lambda a, b: Fraction(int(a) ^ int(b)),
}  # fmt: skip


def numbers(*, whole: bool):
    """Trees of numbers, the integers only or any."""
    columns = ["r.a", "c", "s.a", "u"] if whole else ["r.a", "c", "b", "d"]
    literals = st.integers(0, 20).map(str)
    if not whole:
        literals |= st.sampled_from(["0.5", "2.25", ".75", "3."])
    leaves = st.sampled_from(columns) | literals
    signs = ["+", "-", "*", "&", "|", "^"] if whole else ["+", "-", "*"]
    return st.recursive(
        leaves.map(lambda text: ("leaf", text)),
        lambda inner: (
            st.tuples(st.sampled_from(signs), inner, inner)
            | st.tuples(st.sampled_from(["minus", "abs"]), inner)
        ),
        max_leaves=5,
    )


NUMBERS = numbers(whole=True) | numbers(whole=False)
COMPARISONS = (
    st.tuples(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]), NUMBERS, NUMBERS)
    | st.tuples(st.sampled_from(["between", "not between"]), NUMBERS, NUMBERS, NUMBERS)
    | st.tuples(
        st.sampled_from(["in", "not in"]), NUMBERS, st.lists(NUMBERS, min_size=1, max_size=3)
    )
    | st.sampled_from(["r.f", "g", "TRUE", "FALSE"]).map(lambda text: ("leaf", text))
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: (
        st.tuples(st.sampled_from(["AND", "OR", "=", "<>"]), inner, inner)
        | st.tuples(st.just("NOT"), inner)
    ),
    max_leaves=6,
)


def written(tree) -> tuple[int, list[str]]:
    """Return how tightly the expression holds together, and its words."""

    def at_least(level, inner):
        found, words = written(inner)
        return words if found >= level else ["(", *words, ")"]

    match tree:
        case ("leaf", text):
            return ATOM, [text]
        case ("minus", inner):
            return SIGN, ["-", *at_least(SIGN, inner)]
        case ("abs", inner):
            return ATOM, ["abs", "(", *written(inner)[1], ")"]
        case ("NOT", inner):
            return NOT, ["NOT", *at_least(NOT, inner)]
        case ("between" | "not between" as word, value, low, high):
            ends = [*at_least(BITS, low), "AND", *at_least(BITS, high)]
            return RANGE, [*at_least(BITS, value), *word.upper().split(), *ends]
        case ("in" | "not in" as word, value, choices):
            listed = [word for choice in choices for word in [",", *written(choice)[1]]][1:]
            return RANGE, [*at_least(BITS, value), *word.upper().split(), "(", *listed, ")"]
    sign, left, right = tree
    level = LEVEL[sign]
    mixed = level == BITS and left[0] in ("&", "|", "^") and left[0] != sign
    first = at_least(ATOM if mixed else level, left)
    return level, [*first, sign, *at_least(level + 1, right)]


def meant(tree, row):
    """The value of a tree."""
    match tree:
        case ("leaf", text):
            known = {"TRUE": True, "FALSE": False} | row
            return known[text] if text in known else Fraction(text)
        case ("minus", inner):
            return -meant(inner, row)
        case ("abs", inner):
            return abs(meant(inner, row))
        case ("NOT", inner):
            return not meant(inner, row)
        case ("between" | "not between" as word, value, low, high):
            inside = meant(low, row) <= meant(value, row) <= meant(high, row)
            return inside == (word == "between")
        case ("in" | "not in" as word, value, choices):
            found = meant(value, row) in [meant(choice, row) for choice in choices]
            return found == (word == "in")
    sign, left, right = tree
    return MEANING[sign](meant(left, row), meant(right, row))


@st.composite
def rows(draw):
    """Raw values by column, and the values that they stand for by the column as it is written."""
    raw = {
        ("r", "a"): draw(st.integers(-128, 127)), ("r", "c"): draw(st.integers(0, 15)),
        ("s", "a"): draw(st.integers(-128, 127)), ("s", "u"): draw(st.integers(-2048, 2047)),
        ("r", "b"): draw(st.integers(-9999, 9999)), ("s", "d"): draw(st.integers(-999, 999)),
        ("r", "f"): draw(st.integers(0, 1)), ("s", "g"): draw(st.integers(0, 1)),
    }  # fmt: skip
    values = {
        "r.a": Fraction(raw["r", "a"]), "c": Fraction(raw["r", "c"]),
        "s.a": Fraction(raw["s", "a"]), "u": Fraction(raw["s", "u"]),
        "b": Fraction(raw["r", "b"], 100), "d": Fraction(raw["s", "d"], 10),
        "r.f": bool(raw["r", "f"]), "g": bool(raw["s", "g"]),
    }  # fmt: skip
    return raw, values


GAPS = st.sampled_from([" ", " ", " ", "\n", "\t", "\r\n", " /* ) */ ", " -- (\n", "\f"])


@settings(max_examples=300)
@given(tree=CONDITIONS, row=rows(), gaps=st.lists(GAPS, min_size=1, max_size=8))
def test_operators_bind_in_the_stated_order(tree, row, gaps):
    raw, values = row
    words = written(tree)[1]
    text = "".join(word + gaps[i % len(gaps)] for i, word in enumerate(words))
    assert evaluate(condition(text), raw) == meant(tree, values)


@settings(max_examples=150)
@given(tree=NUMBERS, row=rows())
def test_numbers_are_exact(tree, row):
    raw, values = row
    (output,) = join_of(" ".join(written(tree)[1]) + " AS x").outputs
    kind = output.expr.type
    assert Fraction(evaluate(output.expr, raw), 10**kind.scale) == meant(tree, values)
    assert kind.low <= evaluate(output.expr, raw) <= kind.high


# Whole files

SHAPES = {
    "auction_max": (SlidingWindow, 2),
    "flights_weather": (RowWindow, 9),
    "ip_prefix": (TimeWindow, 6),
    "order_taxi": (TimeWindow, 5),
    "tick_band": (RowWindow, 6),
    "tick_pairs": (RowWindow, 4),
    "ubsn_count": (SlidingWindow, 2),
    "vehicle_stats": (KeyedRowWindow, 5),
}


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_query_files_are_read(path):
    query = parse_file(path)
    assert query.name == path.stem
    assert query.text == path.read_text()
    assert len(query.body.schema) == len(query.body.outputs) > 0
    for source in query.sources:
        assert source.stream in query.streams


@pytest.mark.parametrize("name", SHAPES)
def test_query_files_have_the_shape_that_the_design_names(name):
    (path,) = [path for path in QUERIES if path.stem == name]
    query = parse_file(path)
    window, outputs = SHAPES[name]
    assert {type(source.window) for source in query.sources} == {window}
    assert len(query.sources) == (2 if window in (RowWindow, TimeWindow) else 1)
    assert len(query.body.outputs) == outputs


def bare(text: str) -> str:
    return re.sub(r"--.*", "", text)


CHANGES = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "cr": lambda text: text.replace("\n", "\r"),
    "tabs": lambda text: text.replace(" ", "\t"),
    "lines": lambda text: bare(text).replace(" ", "  \n "),
    "one line": lambda text: re.sub(r"\s+", " ", bare(text)),
    "without ;": lambda text: text.rstrip().removesuffix(";"),
    "with ;": lambda text: text + ";; -- the end",
    "comments": lambda text: "/* ' \" [ ; */" + bare(text).replace(",", "/* , */,/**/--]\n"),
    "lower": lambda text: re.sub(
        r"\b(SELECT|FROM|WHERE|JOIN|ON|AS|AND|ROWS|RANGE|SLIDE|WATTR|STREAM|MINUTES?|INT)\b",
        lambda word: word[0].lower(),
        text,
    ),
    "upper": lambda text: re.sub(
        r"\b(count|max|min|avg|median|abs)\b", lambda word: word[0].upper(), text
    ),
}


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
@pytest.mark.parametrize("change", CHANGES)
def test_layout_and_case_make_no_difference(path, change):
    text = path.read_text()
    query, same = parse(text), parse(CHANGES[change](text))
    assert (same.streams, same.body) == (query.streams, query.body)


@given(st.text(st.characters(codec="utf-8"), max_size=30).filter(lambda text: "*/" not in text))
def test_the_hash_is_of_the_text_alone(comment):
    text = STREAMS + f"SELECT r.a FROM r [ROWS 1], s [ROWS 1] /*{comment}*/"
    query = parse(text, "one")
    assert query.hash == parse(text, "two").hash == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert query.hash != parse(text + " ", "one").hash


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "marked.cql"
    text = STREAMS + "SELECT r.a FROM r [ROWS 1], s [ROWS 1]"
    path.write_text(text, encoding="utf-8-sig")
    assert (parse_file(path).name, parse_file(str(path)).text) == ("marked", text)
