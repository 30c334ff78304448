"""The golden job against brute force, on random small inputs with everything awkward in them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from joinery.expr import Abs, Arith, Compare, Const, Expr, Logic, Not, Number
from joinery.tuples import TimestampType
from joinery_gen.golden import GoldenResult, arrivals, run_golden
from joinery_gen.golden.job import golden_frames
from joinery_gen.golden.reference import Tuple, reference
from joinery_gen.query import (
    AggregateOutput,
    AggregateQuery,
    KeyedRowWindow,
    Query,
    RowWindow,
    SlidingWindow,
    TimeWindow,
)
from joinery_tb.golden_cases import (
    ALWAYS,
    FORMS,
    SCHEMA,
    aggregate_of,
    arrow_type,
    col,
    join_of,
    prepare,
    query_of,
    random_streams,
    source,
    stamped,
)


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
    for frame in (frames.result, frames.late):
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


def test_punctuations_move_the_watermark_and_count_nowhere(spark: SparkSession) -> None:
    query = aggregate_of(SlidingWindow(10, 10, "t", 3), "sum", by=["k"])
    for times, marked, rows, late in (
        ((5, 12, 7), {1}, 1, 0),  # the watermark is 9, and the pane ends at 10
        ((5, 13, 7), {1}, 1, 1),
        ((13, 5), {1}, 1, 0),
        ((40, 5, 60), {0, 2}, 0, 1),
    ):
        stream = stamped(*times)
        for arrival in marked:
            stream["a"][arrival][1]["_punctuation"] = 1
        result = check(spark, query, stream)
        assert (result.rows, result.late) == (rows, late)


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
