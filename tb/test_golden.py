"""The golden job against brute force, on random small inputs with everything awkward in them."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from joinery.expr import (
    Abs,
    Arith,
    Bitwise,
    Bool,
    Column,
    Compare,
    Const,
    Expr,
    Logic,
    Negate,
    Not,
    Number,
    evaluate,
)
from joinery.tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    Field,
    IntType,
    Schema,
    StringType,
    TimestampType,
)
from joinery_gen.golden import GoldenResult, arrivals, run_golden
from joinery_gen.golden.expressions import natural_type, raw_name, to_natural, to_raw, translate
from joinery_gen.golden.job import data_hash, golden_frames
from joinery_gen.golden.reference import Tuple, reference
from joinery_gen.golden.session import MEANING, start_spark
from joinery_gen.query import (
    AggregateOutput,
    AggregateQuery,
    JoineryError,
    JoinQuery,
    KeyedRowWindow,
    KeyOutput,
    Output,
    Query,
    RowWindow,
    SlidingWindow,
    Source,
    Stream,
    TimeWindow,
    WindowEndOutput,
)

SCHEMA = Schema(
    (
        Field("t", TimestampType("s")),
        Field("k", IntType(8)),
        Field("x", DecimalType(6, 2)),
        Field("y", IntType(64)),
        Field("n", StringType(4)),
        Field("big", DecimalType(24, 3)),
        Field("f", BoolType()),
    )
)
ALWAYS = Compare("=", Const.number(0), Const.number(0))


# Little helpers that write what a parser would have made.


def col(source: str, name: str) -> Column:
    return Column(source, name, SCHEMA[name])


def query_of(body: JoinQuery | AggregateQuery) -> Query:
    return Query("test", repr(body), tuple({s.stream for s in body.sources}), body)


def source(alias: str, window: RowWindow | TimeWindow | SlidingWindow | KeyedRowWindow) -> Source:
    return Source(alias, Stream("stream", SCHEMA), window)


def join_of(
    left: RowWindow | TimeWindow, right: RowWindow | TimeWindow, predicate: Expr = ALWAYS
) -> Query:
    outputs = tuple(
        Output(f"{side}_{name}", col(side, name)) for side in "rs" for name in SCHEMA.names
    )
    outputs += (Output("Sum", Arith("+", col("r", "x"), col("s", "k"))),)
    return query_of(JoinQuery(source("r", left), source("s", right), predicate, outputs))


def aggregate_of(
    window: SlidingWindow | KeyedRowWindow,
    *functions: str,
    where: Expr | None = None,
    by: Sequence[str] = (),
) -> Query:
    ends = (WindowEndOutput("t", col("a", "t")),) if isinstance(window, SlidingWindow) else ()
    keys = tuple(KeyOutput(name, col("a", name)) for name in by)
    numbers = ("x", "y", "big")
    values = tuple(
        AggregateOutput(f"{function} of {name}", function, col("a", name))
        for function in functions
        for name in numbers
        if not (function == "sum" and name == "y")  # may not fit 64 bits, by definition
    )
    outputs = (*ends, *keys, AggregateOutput("count", "count", None), *values)
    group = tuple(col("a", name) for name in by)
    return query_of(AggregateQuery(source("a", window), where, group, outputs))


# Data: raw values in, prepared folder out, and back from the result.


def arrow_type(kind: ColumnType) -> pa.DataType:
    match kind:
        case IntType():
            return pa.int64()
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case StringType():
            return pa.string()
        case BoolType():
            return pa.bool_()
    return pa.timestamp("us")


def prepare(folder: Path, query: Query, rows: Mapping[str, Sequence[Tuple]]) -> Path:
    for each in query.sources:
        tuples = rows[each.alias]
        columns = {
            field.name: pa.array(
                [field.type.decode(values[field.name]) for _, values in tuples],
                arrow_type(field.type),
            )
            for field in each.schema
        }
        columns["_arrival"] = pa.array([arrival for arrival, _ in tuples], pa.int64())
        pq.write_table(pa.table(columns), folder / f"{each.alias}.parquet")
    sources = {alias: {"rows": len(tuples), "sha256": "0"} for alias, tuples in rows.items()}
    manifest = {"query": query.hash, "arrivals": sum(map(len, rows.values())), "sources": sources}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def raw_rows(query: Query, out: Path) -> Counter[tuple[int, ...]]:
    table = pq.read_table(out)
    columns = []
    for field in query.body.schema:
        assert table.schema.field(field.name).type == arrow_type(field.type), field
        column = table[field.name]
        if isinstance(field.type, TimestampType):  # Python has no year 10000, and a window may
            micros = 1_000_000 // field.type.per_second
            columns.append([value // micros for value in column.cast(pa.int64()).to_pylist()])
        else:
            columns.append([field.type.encode(value) for value in column.to_pylist()])
    return Counter(zip(*columns, strict=True))


def check(spark: SparkSession, query: Query, rows: Mapping[str, Sequence[Tuple]]) -> GoldenResult:
    """Run both, and hold one against the other."""
    with TemporaryDirectory() as folder:
        inputs, out = Path(folder), Path(folder, "out.parquet")
        result = run_golden(query, prepare(inputs, query, rows), out, spark=spark)
        expected, late = reference(query, rows)
        assert raw_rows(query, out) == Counter(expected)
        assert (result.rows, result.late) == (len(expected), late)
        about = json.loads((out / "_joinery.json").read_text())
        assert (about["rows"], about["late"], about["query"]) == (len(expected), late, query.hash)
    return result


NAMES = ["", "a", "ab", "b", "é", "zzzz"]
FAR_TIMES = [-62_135_596_800, -1, 0, 5, 253_402_300_000]


def random_streams(
    seed: int, aliases: str, size: int, clock: str, reach: int = 0
) -> dict[str, list[Tuple]]:
    """Streams under one arrival order, with ties, disorder and the edges of every type.

    Their times run on with some disorder (``steady``), are in no order, are very far apart, or
    (``edges``) differ in most pairs by exactly ``reach``, by one more, or not at all.
    """
    random = Random(seed)
    pick = {
        "steady": lambda arrival: arrival - 10 + random.randint(-8, 8),
        "shuffled": lambda arrival: random.randint(-20, 40),
        "far": lambda arrival: random.choice(FAR_TIMES),
        "edges": lambda arrival: random.choice([-1, 1]) * random.choice([0, reach, reach + 1]),
    }[clock]

    def near_zero(name: str) -> int:
        edge = random.random() < 0.1
        return (
            random.choice([SCHEMA[name].low, SCHEMA[name].high]) if edge else random.randint(-4, 4)
        )

    rows: dict[str, list[Tuple]] = {alias: [] for alias in aliases}
    for arrival in range(size):
        values = {
            "t": pick(arrival),
            "k": random.randint(-1, 2),
            **{name: near_zero(name) for name in ("x", "y", "big")},
            "n": StringType(4).encode(random.choice(NAMES)),
            "f": random.randint(0, 1),
        }
        rows[random.choice(aliases)].append((arrival, values))
    return rows


def streams(aliases: str) -> st.SearchStrategy[dict[str, list[Tuple]]]:
    # Rows drawn one by one come out as a handful of zeros, which fill no window; hence the seed.
    return st.builds(
        random_streams,
        st.integers(0, 1 << 32),
        st.just(aliases),
        st.sampled_from([7, 20, 40]),
        st.sampled_from(["steady", "steady", "shuffled", "far"]),
    )


@st.composite
def reaches_and_streams(draw: st.DrawFn) -> tuple[int, dict[str, list[Tuple]]]:
    """The range of a time window and two streams, most of them with many pairs at its ends."""
    reach = draw(st.sampled_from([0, 1, 3, 9, 10**5, 10**12]))
    clocks = ["edges", "edges", "steady"] if reach < 10**12 else ["far"]
    seed, size = draw(st.integers(0, 1 << 32)), draw(st.sampled_from([7, 20, 40]))
    return reach, random_streams(seed, "rs", size, draw(st.sampled_from(clocks)), reach)


R, S = "r", "s"
predicates = st.sampled_from(
    [
        ALWAYS,
        Compare("=", col(R, "k"), col(S, "k")),
        Compare("=", col(S, "x"), Arith("+", col(R, "k"), Const.number(100, 2))),
        Logic(
            "AND", (Compare("=", col(R, "n"), col(S, "n")), Compare("=", col(S, "f"), col(R, "f")))
        ),
        Compare("<=", Abs(Arith("-", col(R, "x"), col(S, "x"))), Const.number(2, 2)),
        Logic(
            "AND",
            (
                Compare("=", col(R, "k"), col(S, "k")),
                Logic("OR", (Compare("<", col(R, "y"), col(S, "y")), Not(col(R, "f")))),
                Compare(">=", col(S, "n"), Const.text("ab")),
            ),
        ),
        Logic(
            "OR", (Compare("=", col(R, "k"), col(S, "k")), Compare("=", col(R, "y"), col(S, "y")))
        ),
        Compare("=", col(R, "k"), Const.number(1)),
        Compare("<>", Arith("*", col(R, "big"), col(S, "x")), Const.number(0)),
    ]
)
few = settings(
    deadline=None,
    max_examples=15,
    phases=(Phase.generate,),  # a run takes a second, and shrinking would take hundreds of them
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True, params=[4], ids=["bins of 4"])
def _small_bins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make small inputs cross many bins of the arrival order."""
    monkeypatch.setattr(arrivals, "LEAST_BIN", request.param)


windows_of_rows = st.sampled_from([1, 2, 3, 7, 1000])


@few
@given(streams("rs"), windows_of_rows, windows_of_rows, predicates)
def test_row_window_join(
    spark: SparkSession,
    rows: dict[str, list[Tuple]],
    left: int,
    right: int,
    predicate: Expr,
) -> None:
    check(spark, join_of(RowWindow(left), RowWindow(right), predicate), rows)


@few
@given(reaches_and_streams(), predicates)
def test_time_window_join(
    spark: SparkSession, drawn: tuple[int, dict[str, list[Tuple]]], predicate: Expr
) -> None:
    reach, rows = drawn
    window = TimeWindow(reach, "t")
    check(spark, join_of(window, window, predicate), rows)


sliding = st.builds(
    SlidingWindow,
    st.sampled_from([1, 6, 10, 60]),
    st.sampled_from([1, 4, 6, 25]),
    st.just("t"),
    st.sampled_from([0, 3, 1000]),
)
wheres = st.sampled_from(
    [
        None,
        None,
        Compare(">", col("a", "y"), Const.number(0)),
        Compare("=", col("a", "n"), Const.text("ab")),
    ]
)
groups = st.sampled_from([(), (), ("n",), ("k", "f")])


@few
@given(streams("a"), sliding, wheres, groups)
def test_sliding_aggregate(
    spark: SparkSession,
    rows: dict[str, list[Tuple]],
    window: SlidingWindow,
    where: Expr | None,
    by: tuple[str, ...],
) -> None:
    functions = ("sum", "min", "max", "avg", "median")
    check(spark, aggregate_of(window, *functions, where=where, by=by), rows)


@few
@given(
    streams("a"),
    st.builds(KeyedRowWindow, st.sampled_from([1, 2, 4, 6, 100]), st.sampled_from([1, 3, 4, 9])),
    wheres,
    st.sampled_from([("k",), ("n",), ("big", "f")]),
)
def test_keyed_row_windows(
    spark: SparkSession,
    rows: dict[str, list[Tuple]],
    window: KeyedRowWindow,
    where: Expr | None,
    by: tuple[str, ...],
) -> None:
    functions = ("sum", "min", "max", "avg", "median")
    check(spark, aggregate_of(window, *functions, where=where, by=by), rows)


# The corners that chance might miss.


def stamped(*times: int) -> dict[str, list[Tuple]]:
    blank = dict.fromkeys(SCHEMA.names, 0)
    return {"a": [(arrival, {**blank, "t": t}) for arrival, t in enumerate(times)]}


FORMS = {
    "rows": join_of(RowWindow(4), RowWindow(9), Compare("<", col(R, "k"), col(S, "k"))),
    "rows, keys": join_of(RowWindow(4), RowWindow(9), Compare("=", col(R, "k"), col(S, "k"))),
    "time": join_of(TimeWindow(9, "t"), TimeWindow(9, "t")),
    "sliding": aggregate_of(SlidingWindow(10, 4, "t", 3), "avg", "median"),
    "sliding, keys": aggregate_of(SlidingWindow(10, 4, "t", 3), "min", by=["n"]),
    "keyed rows": aggregate_of(KeyedRowWindow(4, 2), "sum", "median", by=["k"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_input_gives_no_rows_and_the_schema(spark: SparkSession, form: str) -> None:
    query = FORMS[form]
    result = check(spark, query, {each.alias: [] for each in query.sources})
    assert (result.rows, result.late) == (0, 0)


@pytest.mark.parametrize("form", FORMS)
def test_no_cross_product_and_no_window_function_without_a_partition(
    spark: SparkSession, form: str, tmp_path: Path
) -> None:
    query = FORMS[form]
    blank = dict.fromkeys(SCHEMA.names, 0)
    aliases = [each.alias for each in query.sources]
    rows: dict[str, list[Tuple]] = {alias: [] for alias in aliases}
    for arrival in range(10):
        rows[aliases[arrival % len(aliases)]].append((arrival, blank))
    frames = golden_frames(spark, query, str(prepare(tmp_path, query, rows)), 10)
    for frame in frames:
        plan = "" if frame is None else frame._jdf.queryExecution().executedPlan().toString()
        assert "CartesianProduct" not in plan
        assert "NestedLoop" not in plan
        assert "SinglePartition" not in plan  # where all rows of a plain window function would go
        assert "Python" not in plan


def test_all_but_the_first_are_late(spark: SparkSession) -> None:
    query = aggregate_of(SlidingWindow(10, 10, "t"))
    result = check(spark, query, stamped(100, *range(50)))
    assert (result.rows, result.late) == (1, 50)


def test_a_tuple_is_late_once_its_pane_has_closed(spark: SparkSession) -> None:
    # Panes are 2 long. The watermark after 10 is 7: the pane of 5 ended at 6, that of 6 is open.
    query = aggregate_of(SlidingWindow(6, 4, "t", 3))
    assert check(spark, query, stamped(10, 6, 5)).late == 1
    assert check(spark, query, stamped(9, 5)).late == 1  # ended at 6, and the watermark is 6
    assert check(spark, query, stamped(8, 5)).late == 0


def test_filtered_tuples_move_the_watermark(spark: SparkSession) -> None:
    query = aggregate_of(SlidingWindow(10, 10, "t"), where=Compare("<", col("a", "t"), _time(50)))
    result = check(spark, query, stamped(5, 100, 7))
    assert (result.rows, result.late) == (1, 1)


def _time(seconds: int) -> Const:
    return Const(seconds, Number(seconds, seconds, 0, "s"))


def test_one_big_bin_gives_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "LEAST_BIN", 1 << 14)
    assert check(spark, aggregate_of(SlidingWindow(6, 4, "t", 3)), stamped(*range(40, 0, -1))).late


@pytest.mark.parametrize("reach", [0, 3])
def test_both_ends_of_a_time_window_belong_to_it(spark: SparkSession, reach: int) -> None:
    blank = dict.fromkeys(SCHEMA.names, 0)
    others = [(arrival + 1, {**blank, "t": arrival - 5}) for arrival in range(11)]
    window = TimeWindow(reach, "t")
    result = check(spark, join_of(window, window), {"r": [(0, blank)], "s": others})
    assert result.rows == 2 * reach + 1


def test_averages_round_half_away_from_zero(spark: SparkSession) -> None:
    # One in 20,000 is 0.00005, in the middle between two results.
    base = dict.fromkeys(SCHEMA.names, 0)
    for sign in (1, -1):
        tuples = [(i, {**base, "y": sign if i == 0 else 0}) for i in range(20_000)]
        query = query_of(
            AggregateQuery(
                source("a", KeyedRowWindow(20_000, 20_000)),
                None,
                (col("a", "k"),),
                (AggregateOutput("mean", "avg", col("a", "y")),),
            )
        )
        with TemporaryDirectory() as folder:
            out = Path(folder, "out")
            run_golden(query, prepare(Path(folder), query, {"a": tuples}), out, spark=spark)
            assert pq.read_table(out)["mean"].to_pylist() == [sign * Decimal("0.0001")]


# Expressions.

numbers = st.sampled_from(["k", "x", "y", "big"]).map(lambda name: col("a", name))
constants = st.builds(Const.number, st.integers(-300, 300), st.integers(0, 3))
arithmetic: st.SearchStrategy[Expr] = st.recursive(
    numbers | constants,
    lambda inner: (
        st.builds(Arith, st.sampled_from("+-*"), inner, inner)
        | st.builds(Negate, inner)
        | st.builds(Abs, inner)
    ),
    max_leaves=3,
)
integers = st.sampled_from([col("a", "k"), col("a", "y"), Const.number(5), Const.number(-6)])
bitwise = st.builds(Bitwise, st.sampled_from("&|^"), integers, integers)
comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
texts = st.sampled_from([col("a", "n"), Const.text("ab"), Const.text(""), Const.text("é")])
tests = (
    st.builds(Compare, comparisons, arithmetic, arithmetic)
    | st.builds(Compare, comparisons, texts, texts)
    | st.builds(Compare, comparisons, bitwise, integers)
    | st.just(col("a", "f"))
    | st.just(Const(1, Bool()))
)
conditions: st.SearchStrategy[Expr] = st.recursive(
    tests,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(Logic, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=1).map(tuple))
    ),
    max_leaves=4,
)


def fits_spark(expr: Expr) -> bool:
    """No value on the way has more than the 38 digits that Spark holds."""
    widest = expr.type
    own = not isinstance(widest, Number) or max(-widest.low, widest.high) < 10**33
    return own and all(fits_spark(operand) for operand in expr.operands)


@settings(few, max_examples=8)
@given(
    st.lists((arithmetic | bitwise | conditions).filter(fits_spark), min_size=20, max_size=20),
    streams("a"),
)
def test_expressions_mean_what_evaluate_says(
    spark: SparkSession, exprs: list[Expr], rows: dict[str, list[Tuple]]
) -> None:
    session = spark.newSession()
    for name, value in MEANING.items():
        session.conf.set(name, value)
    natural = [
        [field.type.decode(values[field.name]) for field in SCHEMA] for _, values in rows["a"]
    ]
    schema = ", ".join(f"`{field.name}` {natural_type(field.type)}" for field in SCHEMA)
    frame = session.createDataFrame(natural, schema).select(
        [
            to_raw(fn.col(field.name), field.type).alias(raw_name("a", field.name))
            for field in SCHEMA
        ]
    )
    found = frame.select(
        [translate(expr).cast("string").alias(str(i)) for i, expr in enumerate(exprs)]
    ).collect()
    for (_, raw), row in zip(rows["a"], found, strict=True):
        values = {("a", name): value for name, value in raw.items()}
        assert [_integer(text) for text in row] == [evaluate(expr, values) for expr in exprs]


def _integer(text: str) -> int:
    return {"true": 1, "false": 0}[text] if text in ("true", "false") else int(text)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (DecimalType(38, 0), 10**38 - 1),
        (DecimalType(38, 38), -(10**38) + 1),
        (DecimalType(38, 20), 1),
        (DecimalType(18, 18), 10**18 - 1),
        (TimestampType("us"), TimestampType("us").low),
        (TimestampType("ms"), -1),
        (IntType(64), -(1 << 63)),
    ],
)
def test_raw_values_pass_through_spark(spark: SparkSession, kind: ColumnType, raw: int) -> None:
    session = spark.newSession()
    for name, value in MEANING.items():
        session.conf.set(name, value)
    frame = session.createDataFrame([(kind.decode(raw),)], f"v {natural_type(kind)}")
    there = frame.select(to_raw(fn.col("v"), kind).alias("raw"))
    back = there.select("raw", to_natural(fn.col("raw"), kind).alias("v")).collect()[0]
    assert (int(back["raw"]), back["v"]) == (raw, kind.decode(raw))


# What a person can get wrong.


def test_wide_bitwise_is_refused() -> None:
    product = Arith("*", col("a", "y"), col("a", "y"))
    message = (
        "^Spark computes & on integers of 64 bits with their sign, and an operand here can need "
        "128 bits; use narrower columns$"
    )
    with pytest.raises(JoineryError, match=message):
        translate(Bitwise("&", product, Const.number(1)))


def test_number_of_39_digits_is_refused(spark: SparkSession) -> None:
    message = f"^The number {10**38} has more than 38 digits, the most that Spark holds$"
    with pytest.raises(JoineryError, match=message):
        translate(Const.number(10**38))


def test_missing_manifest(spark: SparkSession, tmp_path: Path) -> None:
    message = f"^There is no manifest.json in {re.escape(str(tmp_path))}; prepare the input first$"
    with pytest.raises(JoineryError, match=message):
        run_golden(FORMS["time"], tmp_path, tmp_path / "out", spark=spark)


def test_missing_source_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    query = FORMS["time"]
    inputs = prepare(tmp_path, query, {"r": [], "s": []})
    (inputs / "s.parquet").unlink()
    message = (
        f"^There is no {re.escape(str(inputs))}/s.parquet; "
        "prepare the input of the query's source 's' first$"
    )
    before = sorted(tmp_path.iterdir())
    with pytest.raises(JoineryError, match=message):
        run_golden(query, inputs, tmp_path / "out", spark=spark)
    assert sorted(tmp_path.iterdir()) == before


def test_missing_column(spark: SparkSession, tmp_path: Path) -> None:
    query = FORMS["sliding"]
    inputs = prepare(tmp_path, query, stamped(1))
    path = inputs / "a.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["x"]), path)
    message = f"^{re.escape(str(path))} has no column 'x'; it was not prepared for this query$"
    with pytest.raises(JoineryError, match=message):
        run_golden(query, inputs, tmp_path / "out", spark=spark)


def test_uncounted_arrivals(spark: SparkSession, tmp_path: Path) -> None:
    query = FORMS["sliding"]
    inputs = prepare(tmp_path, query, stamped(*range(9)))
    manifest = inputs / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"arrivals": 9', '"arrivals": 2'))
    message = (
        "^The prepared input has arrival positions that its manifest.json does not count; "
        "prepare it again$"
    )
    with pytest.raises(JoineryError, match=message):
        run_golden(query, inputs, tmp_path / "out", spark=spark)


def test_an_earlier_result_is_replaced_and_other_folders_are_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = FORMS["sliding"]
    inputs = prepare(tmp_path, query, stamped(1, 2, 3))
    out = tmp_path / "out"
    for _ in range(2):
        rows = run_golden(query, inputs, out, spark=spark).rows
        assert pq.read_table(out).num_rows == rows
    assert {path.suffix for path in out.iterdir()} <= {".parquet", ".json", ""}
    precious = tmp_path / "precious"
    precious.mkdir()
    message = (
        f"^{re.escape(str(precious))} exists and is not a golden result; "
        "it is left alone, name another place$"
    )
    with pytest.raises(JoineryError, match=message):
        run_golden(query, inputs, precious, spark=spark)
    assert precious.is_dir()


def test_a_second_spark_is_refused(spark: SparkSession) -> None:
    message = "^A Spark session is running in this process: pass it as `spark`$"
    with pytest.raises(JoineryError, match=message):
        run_golden(FORMS["time"], Path("in"), Path("out"))


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joinery_gen.golden.session.SparkContext._active_spark_context", None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    message = (
        "^Spark needs Java 17 or later, and none was found; install it with: "
        "sudo apt-get install openjdk-17-jre-headless$"
    )
    with pytest.raises(JoineryError, match=message):
        start_spark()


def test_data_hash_is_of_the_data_alone() -> None:
    one = {"query": "1", "sources": {"r": {"sha256": "x"}, "s": {"sha256": "y"}}}
    other = {"query": "2", "sources": {"s": {"sha256": "y"}, "r": {"sha256": "x", "from": "f"}}}
    swapped = {"query": "1", "sources": {"r": {"sha256": "y"}, "s": {"sha256": "x"}}}
    assert data_hash(one) == data_hash(other) != data_hash(swapped)
