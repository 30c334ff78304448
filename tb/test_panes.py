# amaranth: UnusedElaboratable=no
"""The panes engine against the definition, and its cycles."""

import re
from collections import Counter

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator
from hypothesis import example, given, settings
from hypothesis import strategies as st

from joinery.aggregate import Aggregate, PaneQuery, PaneStream
from joinery.expr import Column, Compare, Const
from joinery.number import Divider, Reciprocal
from joinery.panes import PaneAggregation
from joinery.tuples import Field, IntType, Schema, TimestampType
from joinery_tb.panes import expected_rows, items_to_transfers, run_engine
from joinery_tb.simulate import STALLS

SCHEMA = Schema((Field("time", TimestampType("ms")), Field("v", IntType(8))))
V = Column("t", "v", SCHEMA["v"])
POSITIVE = Compare(">", V, Const.number(0))
COUNT = Aggregate("n", "count")
MAX = Aggregate("high", "max", V)
ALL = (
    COUNT,
    Aggregate("total", "sum", V),
    Aggregate("mean", "avg", V),
    Aggregate("low", "min", V),
    MAX,
)
EPOCH_MS = 1_700_000_000_000
YEAR = 365 * 86_400_000


def source_of(slack=0):
    return PaneStream("t", SCHEMA, "time", slack)


def check(engine, inputs, **options):
    """Run inputs, each a list of items, and compare every row and the late counts."""
    source = engine.source
    transfers = [items_to_transfers(source, items, lanes=engine.lanes) for items in inputs]
    found = run_engine(engine, transfers, **options)
    late = [0] * len(engine.queries)
    for items, rows in zip(inputs, found.rows, strict=True):
        for k, query in enumerate(engine.queries):
            expected, more = expected_rows(source, query, items, pane=engine.pane)
            assert Counter(rows[k]) == expected
            ends = [row[0] for row in rows[k]]
            assert ends == sorted(ends)
            late[k] += more
    assert found.late == late
    assert found.errors == 0
    return found


@st.composite
def item_lists(draw, most=40):
    """Items in disorder, with gaps, punctuations and extreme values."""
    time = draw(st.sampled_from([0, -30, EPOCH_MS, SCHEMA["time"].low + 20]))
    steps = st.one_of(st.integers(0, 3), st.sampled_from([5, 17, 40, YEAR]))
    values = st.one_of(st.sampled_from([-128, 127]), st.integers(-128, 127))
    items = []
    for step, back, value, mark in draw(
        st.lists(st.tuples(steps, st.integers(0, 9), values, st.integers(0, 5)), max_size=most)
    ):
        time += step
        here = max(time - back if back > 4 else time, SCHEMA["time"].low)
        items.append(here if mark == 0 else {"time": here, "v": value})
    return items


SHAPES = st.sampled_from(
    [(4, 1), (6, 2), (5, 3), (3, 7), (1, 1), (2, 1), (3, 1), (6, 4), (7, 1), (60, 12), (8, 8)]
)


@settings(max_examples=15)
@given(
    shape=SHAPES,
    slack=st.sampled_from([0, 1, 3, 12]),
    where=st.sampled_from([None, POSITIVE]),
    inputs=st.lists(item_lists(), min_size=1, max_size=2),
    stall_in=st.sampled_from(sorted(STALLS)),
    stall_out=st.sampled_from(sorted(STALLS)),
)
@example(  # tuples of one pane in a row, and the next one closes it
    shape=(4, 2), slack=0, where=POSITIVE, stall_in="none", stall_out="none",
    inputs=[[{"time": k // 2, "v": k + 1} for k in range(20)]],
)  # fmt: skip
def test_rows_are_those_of_the_definition(shape, slack, where, inputs, stall_in, stall_out):
    engine = PaneAggregation(source_of(slack), [PaneQuery(where, ALL, *shape)], slots=16)
    check(engine, inputs, stall_in=STALLS[stall_in], stall_out=STALLS[stall_out])


@settings(max_examples=4)
@given(
    lanes=st.sampled_from([2, 4, 8]),
    shape=SHAPES,
    slack=st.sampled_from([0, 1, 5]),
    items=item_lists(),
    stall_out=st.sampled_from(sorted(STALLS)),
)
def test_lanes_change_nothing(lanes, shape, slack, items, stall_out):
    query = PaneQuery(POSITIVE, (COUNT, MAX), *shape)
    engine = PaneAggregation(source_of(slack), [query], lanes=lanes, slots=32)
    check(engine, [items], stall_out=STALLS[stall_out])


@settings(max_examples=6)
@given(items=item_lists(), slack=st.sampled_from([0, 4]))
def test_queries_share_panes(items, slack):
    queries = [
        PaneQuery(None, (COUNT,), 12, 4),
        PaneQuery(POSITIVE, (COUNT, MAX), 6, 2),
        PaneQuery(None, (Aggregate("s", "sum", V),), 4, 6),
    ]
    check(PaneAggregation(source_of(slack), queries, slots=16), [items])


class Cycles:
    """The cycle in which each transfer went in, and each of the first rows came out."""

    def __init__(self, engine, transfers, rows):
        self.taken, self.rows = [], []
        self.stalled = 0

        async def bench(ctx):
            left, cycle = list(reversed(transfers)), 0
            ctx.set(engine.o.ready, 1)
            while len(self.rows) < rows:
                ctx.set(engine.i.valid, bool(left))
                if left:
                    ctx.set(engine.i.payload, left[-1])
                self.stalled += ctx.get(engine.stalled)
                if left and ctx.get(engine.i.ready):
                    left.pop()
                    self.taken.append(cycle)
                if ctx.get(engine.o.valid):
                    assert not ctx.get(engine.o.payload.end)
                    self.rows.append((cycle, ctx.get(engine.o.payload.rows[0].row.query_0)))
                await ctx.tick()
                cycle += 1

        simulator = Simulator(engine)
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()


@pytest.mark.parametrize(
    ("aggregates", "latency"), [((COUNT,), 7), (ALL[:3], 7), ((MAX,), 16), (ALL, 16)]
)
@pytest.mark.parametrize(
    ("shape", "before"), [((1, 1), 0), ((640, 10), 3), ((4096, 1), 0), ((4097, 2), 0), ((10, 4), 1)]
)
def test_latency_from_punctuation_to_row(shape, aggregates, latency, before):
    """A punctuation right behind the first tuple, or later, closes a window's last pane."""
    query = PaneQuery(POSITIVE, aggregates, *shape)
    engine = PaneAggregation(source_of(), [query])
    assert engine.predicted["cycles"]["latency"] == latency
    end = query.slide * (EPOCH_MS // query.slide) + query.range
    pane_start = end - engine.pane
    items = [{"time": pane_start, "v": 5}, *[{"time": pane_start, "v": 0}] * before, end]
    found = Cycles(engine, items_to_transfers(source_of(), items), rows=1)
    cycle, row = found.rows[0]
    assert row.end_time == end
    assert cycle - found.taken[before + 1] == latency


@pytest.mark.parametrize(
    ("aggregates", "latency", "panes"), [((COUNT,), 7, 4096), ((MAX,), 16, 1024)]
)
def test_a_pane_per_tuple(aggregates, latency, panes):
    """Every tuple closes a pane, every pane ends a window of so many: a row per cycle."""
    count = panes + 60
    query = PaneQuery(None, aggregates, panes, 1)
    engine = PaneAggregation(source_of(), [query])
    values = [(k * 7919 + k * k) % 256 - 128 for k in range(count)]
    items = [{"time": EPOCH_MS + k, "v": value} for k, value in enumerate(values)]
    found = Cycles(engine, items_to_transfers(source_of(), items), rows=count - latency - 1)
    assert found.stalled == 0
    assert found.taken == list(range(len(found.taken)))
    assert [cycle for cycle, _ in found.rows] == [1 + latency + k for k in range(len(found.rows))]
    for k, (_, row) in enumerate(found.rows):
        assert row.end_time == EPOCH_MS + k + 1
        if aggregates == (COUNT,):
            assert row.value.n == min(k + 1, panes)
        elif k % 50 == 0 or k > panes:
            assert row.value.high == max(values[max(0, k + 1 - panes) : k + 1])


KEYED = Schema((Field("time", TimestampType("ms")), Field("k", IntType(9)), Field("v", IntType(8))))


@settings(max_examples=8)
@given(
    shape=SHAPES,
    slack=st.sampled_from([0, 3]),
    items=item_lists(40),
    names=st.lists(st.sampled_from([-256, 255, 7, 8]), min_size=40, max_size=40),
    stall_out=st.sampled_from(sorted(STALLS)),
)
def test_keys(shape, slack, items, names, stall_out):
    source = PaneStream("t", KEYED, "time", slack, ("k",))
    items = [
        item if isinstance(item, int) else item | {"k": name}
        for item, name in zip(items, names, strict=False)
    ]
    engine = PaneAggregation(source, [PaneQuery(POSITIVE, ALL, *shape)], slots=16, keys=4)
    check(engine, [items, items], stall_out=STALLS[stall_out], idle=400)


def test_one_key_at_full_rate():
    """Equal keys in neighbouring cycles, in one pane, without a stall."""
    source = PaneStream("t", KEYED, "time", 0, ("k",))
    engine = PaneAggregation(source, [PaneQuery(None, ALL, 200, 100)], keys=2)
    items = [{"time": k, "k": -3, "v": k % 100} for k in range(300)]
    found = check(engine, [items])
    assert found.stalled == 0


def test_too_many_keys():
    """Tuples of keys beyond the table are dropped and flagged; the other keys' rows are right."""
    source = PaneStream("t", KEYED, "time", 0, ("k",))
    query = PaneQuery(None, ALL, 4, 2)
    engine = PaneAggregation(source, [query], keys=2)
    items = [{"time": k, "k": k % 3, "v": k} for k in range(20)]
    found = run_engine(engine, [items_to_transfers(source, items)])
    expected, _ = expected_rows(source, query, items, pane=2)
    assert Counter(found.rows[0][0]) == Counter(
        {row: count for row, count in expected.items() if row[1][0] != 2}
    )
    assert found.errors == 1 << engine.KEYS


@settings(max_examples=6)
@given(
    shape=SHAPES,
    slack=st.sampled_from([0, 3]),
    items=item_lists(30),
    stall_out=st.sampled_from(sorted(STALLS)),
)
def test_sequential_windows(shape, slack, items, stall_out):
    engine = PaneAggregation(
        source_of(slack), [PaneQuery(POSITIVE, ALL, *shape)], slots=16, wlq="sequential"
    )
    check(engine, [items], stall_out=STALLS[stall_out])


ONE = PaneQuery(None, (COUNT,), 4, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lanes": 3}, "Lanes must be 1, 2, 4 or 8, not 3"),
        ({"slots": 12}, "Slots must be a power of two from 4 on, not 12"),
        (
            {"slots": 4},
            "SLACK spans 6 panes of 2, and 4 slots are too few; 8 are enough",
        ),
        ({"keys": 0}, "The most keys must be a positive integer, not 0"),
        ({"wlq": "fast"}, "WLQ must be parallel or sequential, not 'fast'"),
        ({"runtime": 2}, "Runtime must be true or false, not 2"),
        ({"sum_rows": 0}, "The most rows of a window must be positive, not 0"),
    ],
)
def test_wrong_parameters(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PaneAggregation(source_of(10), [ONE], **options)


def test_keys_take_one_lane():
    message = "GROUP BY takes one tuple per transfer, not 2; use one lane"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PaneAggregation(PaneStream("t", KEYED, "time", 0, ("k",)), [ONE], lanes=2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PaneAggregation(source_of(), []), "An aggregate engine needs at least one query"),
        (lambda: PaneStream("t", SCHEMA, "when"), "The tuples carry no column t.when"),
        (lambda: source_of(-1), "SLACK must be 0 or a positive integer, not -1"),
        (lambda: PaneQuery(None, (), 0, 1), "RANGE must be a positive integer, not 0"),
        (lambda: PaneQuery(None, (), 1, -2), "SLIDE must be a positive integer, not -2"),
        (lambda: PaneQuery(V, (), 1, 1), "WHERE takes a condition, not a whole number"),
        (lambda: PaneQuery(None, (COUNT, COUNT), 1, 1), "Aggregate 'n' is declared twice"),
        (
            lambda: Aggregate("m", "mode", V),
            "An aggregate is count, sum, min, max, avg, median, not 'mode'",
        ),
        (
            lambda: PaneAggregation(
                source_of(), [PaneQuery(None, (Aggregate("m", "median", V),), 1, 1)]
            ),
            "Aggregate m: there is no median of panes; engine mlq has it",
        ),
        (lambda: Aggregate("m", "max"), "Aggregate m: max needs an argument"),
        (
            lambda: Aggregate("m", "sum", Column("t", "time", SCHEMA["time"])),
            "Aggregate m: sum takes plain numbers, not a time in ms",
        ),
        (
            lambda: PaneAggregation(
                source_of(),
                [PaneQuery(None, (Aggregate("m", "sum", Column("t", "w", IntType(8))),), 1, 1)],
            ),
            "The tuples carry no column t.w",
        ),
    ],
)
def test_wrong_queries(build, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        build()


def test_too_many_rows():
    """A window of more rows than sums were built for is withheld and flagged, others are right."""
    query = PaneQuery(None, ALL, 6, 2)
    engine = PaneAggregation(source_of(), [query], sum_rows=5)
    items = [{"time": time, "v": 127} for time in (0, 2, 2, 2, 2, 2, 2, 2, 2, 4, 20, 20, 30)]
    found = run_engine(engine, [items_to_transfers(source_of(), items)])
    expected, _ = expected_rows(source_of(), query, items, pane=2)
    assert Counter(found.rows[0][0]) == Counter(
        {row: count for row, count in expected.items() if row[2] <= 5}
    )
    assert found.errors == 1 << engine.ROWS


def test_reset_in_mid_stream():
    """Nothing of what came before a reset is found after it, whenever it comes."""
    query = PaneQuery(None, (COUNT,), 4, 2)
    items = [{"time": EPOCH_MS + k, "v": 0} for k in range(12)]
    transfers = items_to_transfers(source_of(1), items)
    expected, _ = expected_rows(source_of(1), query, items, pane=2)
    for moment in range(1, 24, 2):
        engine = PaneAggregation(source_of(1), [query], slots=8)
        reset = Signal()
        rows = []

        async def bench(ctx, engine=engine, reset=reset, rows=rows, moment=moment):
            ctx.set(engine.o.ready, 1)
            left = list(reversed(transfers))
            for cycle in range(100):
                ctx.set(reset, cycle == moment)
                if cycle == moment + 1:
                    left = list(reversed(transfers))
                    rows.clear()
                ctx.set(engine.i.valid, bool(left))
                if left:
                    ctx.set(engine.i.payload, left[-1])
                if left and ctx.get(engine.i.ready):
                    left.pop()
                if ctx.get(engine.o.valid) and not ctx.get(engine.o.payload.end):
                    row = ctx.get(engine.o.payload.rows[0].row.query_0)
                    rows.append((row.end_time, (), row.value.n))
                await ctx.tick()

        simulator = Simulator(ResetInserter(reset)(engine))
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()
        assert Counter(rows) == expected, moment


def test_divider_is_exact():
    """Around every multiple, and at the ends of the range, for years of microseconds."""
    column = TimestampType("us")
    for divisor in (1, 2, 3, 60, 86_400_000_000, 600_000_007):
        found = Reciprocal.find(divisor, column.low, column.high)
        first, last = column.low // divisor, column.high // divisor
        for quotient in (first + 1, -2, -1, 0, 1, 2, 12_345, last):
            for number in range(quotient * divisor - 2, quotient * divisor + 3):
                if column.low <= number <= column.high:
                    shifted = (number * found.multiplier + found.offset) >> found.shift
                    assert shifted == number // divisor


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("divisor", [1, 7, 60_000, 600_000_007])
def test_divider_divides(divisor, stages):
    """With several offsets, at the ends of the range, and at multiples."""
    column, offsets = TimestampType("ms"), (0, -5, -divisor)
    unit = Divider(column.shape, column.low, column.high,
                   divisor=divisor, offsets=offsets, stages=stages)  # fmt: skip
    numbers = [column.low, -divisor, -1, 0, 1, divisor - 1, divisor, EPOCH_MS, column.high]

    async def bench(ctx):
        ctx.set(unit.en, 1)
        for number in numbers:
            ctx.set(unit.i, number)
            await ctx.tick().repeat(stages)
            for k, offset in enumerate(offsets):
                assert ctx.get(getattr(unit, f"o_{k}")) == (number + offset) // divisor

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_eight_lanes_at_full_rate():
    """Eight tuples per cycle, out of order within SLACK, without a stall."""
    items = [{"time": k // 4 - k % 3, "v": k % 100 - 50} for k in range(640)]
    query = PaneQuery(POSITIVE, (COUNT, MAX), 12, 2)
    found = check(PaneAggregation(source_of(2), [query], lanes=8, slots=64), [items])
    assert found.stalled == 0
