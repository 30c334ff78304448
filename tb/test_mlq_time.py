# amaranth: UnusedElaboratable=no
# (an aggregator whose parameters are refused is left half made)
"""Windows of time on multi-level queues, against the definition."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from amaranth.hdl import ResetInserter, Signal, signed
from amaranth.lib import data
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.mlq import KeyedAggregate, KeyedTimeAggregator, Level, Queues, TimeWindows
from joinery_gen.golden.reference import reference
from joinery_gen.parse import parse
from joinery_tb.mlq import QueueBench, make_memories
from joinery_tb.simulate import STALLS, Run, run_stream

COLUMNS = data.StructLayout({"height": signed(6)})
FEW = [KeyedAggregate("number", "count"), KeyedAggregate("total", "sum", "height")]
ALL = [
    *FEW,
    KeyedAggregate("low", "min", "height"),
    KeyedAggregate("high", "max", "height"),
    KeyedAggregate("mean", "avg", "height"),
    KeyedAggregate("middle", "median", "height"),
]
SRAM = {"short": (6, 5), "long": (6, 5), "latency": 4}
DRAM = {"short": (7, 1), "long": (2, 1), "burst_from": 2, "latency": 9}
HIERARCHIES: dict[str, tuple[list[Level], list[Any]]] = {
    "bram": ([Level(32, 4, duplex=True)], [None]),
    "dram": ([Level(32, 8, 8, 2, 2)], [DRAM]),
    "bram+dram": ([Level(2, 2, duplex=True), Level(32, 8, 8, 2, 2)], [None, DRAM]),
    "bram+qdr+dram": (
        [Level(2, 2, duplex=True), Level(8, 4, duplex=True), Level(32, 8, 8, 2, 2)],
        [None, SRAM, DRAM],
    ),
}


class Item(NamedTuple):
    """A tuple, or a punctuation."""

    time: int
    key: int = 0
    value: int = 0
    punctuation: bool = False


Row = tuple[int, int, dict[str, int]]
"""End of the window, key, results."""


def expected_rows(items: Sequence[Item], windows: TimeWindows) -> tuple[list[Row], int]:
    """The rows by definition, in the order of windows and keys, and the number of late tuples."""
    kept: list[Item] = []
    late = 0
    for place, item in enumerate(items):
        pane_end = (item.time // windows.pane + 1) * windows.pane
        before = [each.time for each in items[:place]]
        if item.punctuation:
            continue
        if before and pane_end <= max(before) - windows.slack:
            late += 1
        else:
            kept.append(item)
    members: dict[tuple[int, int], list[int]] = {}
    for item in kept:
        for start in range(item.time - windows.range + 1, item.time + 1):
            if start % windows.slide == 0:
                members.setdefault((start + windows.range, item.key), []).append(item.value)
    return [(end, key, results(values)) for (end, key), values in sorted(members.items())], late


def results(values: list[int]) -> dict[str, int]:
    ordered = sorted(values)
    return {
        "number": len(values),
        "total": sum(values),
        "low": ordered[0],
        "high": ordered[-1],
        "mean_sum": sum(values),
        "mean_count": len(values),
        "middle_twice": ordered[(len(values) - 1) // 2] + ordered[len(values) // 2],
    }


def few(rows: list[Row]) -> list[Row]:
    """Only the results of ``FEW``."""
    names = [each.name for each in FEW]
    return [(end, key, {name: value[name] for name in names}) for end, key, value in rows]


class Found(NamedTuple):
    """What came of a run: the rows of each stream in it, evictions, late tuples, the flag."""

    streams: list[list[Row]]
    evicted: list[Any]
    late: int
    overflow: bool
    run: Run


def make(
    windows: TimeWindows,
    levels: list[Level],
    *,
    rows: int = 32,
    slots: int = 4,
    ways: int = 2,
    aggregates: Sequence[KeyedAggregate] = FEW,
) -> KeyedTimeAggregator:
    width = windows.kept(COLUMNS).size
    queues = Queues(tuple(levels), rows=rows, slots=slots, width=width)
    return KeyedTimeAggregator(
        queues, windows, COLUMNS, aggregates, key_width=5, ways=ways, depth=4
    )


def sent(item: Item) -> dict[str, Any]:
    return {
        "end": 0,
        "punctuation": int(item.punctuation),
        "key": item.key,
        "value": {"height": item.value},
        "time": item.time,
    }


END = {**sent(Item(0)), "end": 1}


def run_timed(
    dut: KeyedTimeAggregator,
    *streams: Sequence[Item],
    timing: Sequence[Any] | None = None,
    idle: int = 400,
    **stalls: Any,
) -> Found:
    queues = dut.queues
    memories = make_memories(queues.levels, slots=queues.slots, width=queues.width, timing=timing)
    bench: Any = QueueBench(dut, memories)
    late = 0
    overflow = False

    def watch(ctx: Any) -> None:
        nonlocal late, overflow
        late += ctx.get(bench.late)
        overflow = bool(ctx.get(bench.overflow))

    run = run_stream(
        bench,
        {"i": [each for items in streams for each in (*map(sent, items), END)]},
        idle=idle,
        watch=watch,
        **stalls,
    )
    found: list[list[Row]] = [[]]
    for row in run.outputs["o"]:
        if row["end"]:
            found.append([])
        else:
            found[-1].append((row["end_time"], row["key"], row["value"]))
    assert not found.pop(), "rows after the last end"
    return Found(found, run.outputs["o_evicted"], late, overflow, run)


def check(dut: KeyedTimeAggregator, *streams: Sequence[Item], **more: Any) -> Found:
    """Run, and hold the rows against the definition: windows in their order, keys in any."""
    found = run_timed(dut, *streams, **more)
    expected = [expected_rows(items, dut.windows) for items in streams]
    ends = [[end for end, _, _ in rows] for rows in found.streams]
    assert ends == [sorted(each) for each in ends]
    choose = few if dut.aggregates == tuple(FEW) else list
    for rows, (by_definition, _) in zip(found.streams, expected, strict=True):
        assert sorted(rows, key=lambda row: row[:2]) == choose(by_definition)
    assert found.late == sum(late for _, late in expected)
    assert not found.evicted
    assert not found.overflow
    return found


def draw_items(number: int, keys: int, *, seed: int, disorder: int = 0) -> list[Item]:
    draw = random.Random(seed)
    items = []
    now = 1000
    for _ in range(number):
        now += draw.choice([0, 0, 1, 1, 2, 5])
        time = max(0, now - draw.randint(0, disorder))
        items.append(Item(time, draw.randrange(keys), draw.randint(-32, 31)))
    return items


@pytest.mark.parametrize(
    ("name", "stall"),
    [("bram", "random"), ("dram", "none"), ("bram+dram", "periodic"), ("bram+qdr+dram", "random")],
)
def test_windows_on_every_hierarchy(name: str, stall: str) -> None:
    levels, timing = HIERARCHIES[name]
    windows = TimeWindows(range=12, slide=4, slack=6)
    items = draw_items(50, 3, seed=1, disorder=10)
    dut = make(windows, levels, aggregates=ALL if name == "bram" else FEW)
    stalls = STALLS[stall]
    found = check(dut, items, timing=timing, stall_in=stalls, stall_out=stalls)
    assert found.late
    assert len(found.streams[0]) > 50


@st.composite
def streams(draw: st.DrawFn) -> list[Item]:
    """Times near each other, early by more or less than any slack, with gaps now and then."""
    now = draw(st.sampled_from([0, 7, 1 << 40]))
    keys = draw(st.sampled_from([1, 2, 4]))
    items = []
    for _ in range(draw(st.integers(0, 40))):
        now += draw(st.one_of(st.integers(0, 3), st.sampled_from([9, 40, 1 << 35])))
        time = max(0, now - draw(st.one_of(st.just(0), st.integers(0, 14))))
        key, value = draw(st.integers(0, keys - 1)), draw(st.integers(-32, 31))
        items.append(Item(time, key, value, punctuation=draw(st.integers(0, 7)) == 7))
    return items


@settings(max_examples=10)
@given(st.data())
def test_random_windows(data: st.DataObject) -> None:
    slide = data.draw(st.integers(1, 6), "slide")
    windows = TimeWindows(
        range=data.draw(st.one_of(st.just(slide), st.integers(slide, 20)), "range"),
        slide=slide,
        slack=data.draw(st.sampled_from([0, 1, 5, 11]), "slack"),
    )
    levels, timing = data.draw(st.sampled_from([HIERARCHIES[name] for name in HIERARCHIES]))
    levels = [*levels[:-1], replace(levels[-1], values=48)]
    items = data.draw(streams(), "items")
    stalls = st.sampled_from(list(STALLS.values()))
    more: dict[str, Any] = {
        "stall_in": data.draw(stalls),
        "stall_out": {name: data.draw(stalls) for name in ("o", "o_evicted")},
        "seed": data.draw(st.integers(0, 99)),
    }
    check(make(windows, levels, rows=45), items, timing=timing, **more)


def test_the_definition_is_that_of_the_golden_result() -> None:
    query = parse(
        "CREATE STREAM s (key UINT(5), height INT(6), time TIMESTAMP(s));"
        "SELECT key, time, count(*) AS number, sum(height) AS total FROM s "
        "[PARTITION BY key RANGE 20 SECONDS SLIDE 6 SECONDS WATTR time SLACK 5 SECONDS];"
    )
    items = draw_items(60, 3, seed=5, disorder=9)
    tuples = [(n, {"key": i.key, "height": i.value, "time": i.time}) for n, i in enumerate(items)]
    rows, late = reference(query, {"s": tuples})
    here, also_late = expected_rows(items, TimeWindows(range=20, slide=6, slack=5))
    assert sorted(rows) == sorted(
        (key, end, value["number"], value["total"]) for end, key, value in here
    )
    assert late == also_late > 0


def test_empty_and_late_and_one_after_another() -> None:
    """No tuple; one; one by whose punctuation all others are late; the first again."""
    windows = TimeWindows(range=12, slide=4, slack=2)
    one = [Item(1001, 3, -7)]
    late = [Item(5000, punctuation=True), *(Item(time) for time in range(40, 60))]
    found = check(make(windows, HIERARCHIES["bram"][0]), [], one, late, [], one)
    assert [len(rows) for rows in found.streams] == [0, 3, 0, 0, 3]
    assert found.late == 20


def test_a_gap_of_years_costs_no_more_than_one_of_minutes() -> None:
    windows = TimeWindows(range=60_000, slide=1_000, slack=5_000)
    year = 365 * 86_400_000
    cycles = []
    for gap in (10 * 60_000, 50 * year):
        begin = 54 * year
        items = [Item(begin, 1, 5), Item(begin + gap, 1, 6), Item(begin + 2 * gap, 2, 7)]
        cycles.append(check(make(windows, HIERARCHIES["bram"][0]), items).run.cycles)
    assert cycles[0] == cycles[1]


def test_a_sweep_costs_two_cycles_per_key_and_its_reads() -> None:
    """One window of 16 keys with a value each: a word is read of each, and all is given up."""
    windows = TimeWindows(range=8, slide=8)
    dut = make(windows, HIERARCHIES["bram"][0], slots=16)
    first = [Item(1000, key, key) for key in range(16)]
    cycles = [
        check(make(windows, HIERARCHIES["bram"][0], slots=16), items).run.cycles
        for items in (first[:1], first)
    ]
    assert len(check(dut, first).streams[0]) == 16
    assert cycles[1] - cycles[0] <= 15 + 2 * 15 + 4


def test_times_before_the_epoch() -> None:
    windows = TimeWindows(range=10, slide=4, slack=3, low=-1000, high=1000)
    draw = random.Random(4)
    items = [Item(time + draw.randint(-4, 0), time % 2, time % 32) for time in range(-40, 20, 3)]
    check(make(windows, HIERARCHIES["bram"][0]), items)


def test_dead_values_wait_behind_live_ones() -> None:
    """The oldest value of the queue is ahead of all others by as much as the slack allows."""
    windows = TimeWindows(range=6, slide=2, slack=20)
    items = [Item(1020, 0, 1)]
    items += [Item(time, 0, time % 32) for time in range(1002, 1020)]
    items += [Item(time, time % 2, 9) for time in range(1020, 1070, 4)]
    check(make(windows, HIERARCHIES["dram"][0]), items, timing=HIERARCHIES["dram"][1])


@pytest.mark.parametrize(("name", "wrong"), [("behind", 1), ("ahead", 3)])
def test_labels_of_too_few_bits_are_seen(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: int
) -> None:
    monkeypatch.setattr(TimeWindows, name, wrong)
    with pytest.raises(AssertionError):
        test_dead_values_wait_behind_live_ones()


def test_a_full_queue_raises_the_flag_and_keeps_what_it_has() -> None:
    windows = TimeWindows(range=8, slide=8)
    levels, timing = HIERARCHIES["bram+dram"]
    items = [*(Item(1000, 1, value) for value in range(12)), Item(1001, 2, 5)]
    for rows, lost in ((12, False), (11, True)):
        found = run_timed(make(windows, levels, rows=rows), items, timing=timing)
        assert found.overflow == lost
        assert sorted((key, value["number"]) for _, key, value in found.streams[0]) == [
            (1, rows),
            (2, 1),
        ]


def test_a_ring_that_is_full_is_not_empty() -> None:
    windows = TimeWindows(range=8, slide=4)
    fits = [Item(1000 + k // 4, 1, k) for k in range(16)]
    levels = [Level(16, 4, duplex=True)]
    later = [Item(1004 + k // 4, 1, k) for k in range(16)]
    found = run_timed(make(windows, levels, rows=16), fits, [*fits[:8], *later[:8]])
    assert not found.overflow
    assert found.streams == [
        few(expected_rows(items, windows)[0]) for items in (fits, [*fits[:8], *later[:8]])
    ]


def test_an_evicted_key_is_reported_and_starts_anew() -> None:
    """As many keys in a window as have no room: each is reported, or gives its row."""
    windows = TimeWindows(range=8, slide=8)
    items = [Item(1000 + key // 10, key, 3) for key in range(20)]
    found = run_timed(make(windows, HIERARCHIES["bram"][0]), items)
    gone = [(each["key"], each["count"]) for each in found.evicted]
    (rows,) = found.streams
    assert len(gone) == 20 - 4
    assert sorted(gone + [(key, value["number"]) for _, key, value in rows]) == [
        (key, 1) for key in range(20)
    ]
    assert all(value == {"number": 1, "total": 3} for _, _, value in rows)


def test_reset_in_the_midst_of_a_sweep() -> None:
    """After reset, at whatever point, a stream gives what it gives alone."""
    windows = TimeWindows(range=8, slide=4, slack=2)
    items = draw_items(14, 3, seed=3)
    expected = few(expected_rows(items, windows)[0])
    for cycles in (37, 61, 90):
        assert after_reset(windows, items, cycles) == expected


def after_reset(windows: TimeWindows, items: list[Item], cycles: int) -> list[Row]:
    """Send ``items`` for so many cycles, reset, send them and an end; return the sorted rows."""
    levels, timing = HIERARCHIES["bram+dram"]
    dut = make(windows, levels)
    memories = make_memories(levels, slots=4, width=dut.queues.width, timing=timing)
    bench: Any = QueueBench(dut, memories)
    reset = Signal()
    rows: list[Row] = []

    async def drive(ctx: Any) -> None:
        left = [*map(sent, items), END]
        ctx.set(bench.o.ready, 1)
        ctx.set(bench.o_evicted.ready, 1)
        for cycle in range(1000):
            ctx.set(reset, cycle == cycles)
            if cycle == cycles:
                left = [*map(sent, items), END]
                rows.clear()
            ctx.set(bench.i.valid, bool(left) and cycle != cycles)
            if left:
                ctx.set(bench.i.p, left[0])
            if left and cycle != cycles and ctx.get(bench.i.ready):
                left.pop(0)
            if ctx.get(bench.o.valid) and not ctx.get(bench.o.p.end):
                row = ctx.get(bench.o.p)
                value = {each.name: row.value[each.name] for each in FEW}
                rows.append((row.end_time, row.key, value))
            elif ctx.get(bench.o.valid) and cycle > cycles:
                return
            await ctx.tick()

    simulator = Simulator(ResetInserter(reset)(bench))
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return sorted(rows, key=lambda row: row[:2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TimeWindows(range=0, slide=1), "RANGE must be an integer of at least 1, not 0"),
        (lambda: TimeWindows(range=4, slide=0), "SLIDE must be an integer of at least 1, not 0"),
        (
            lambda: TimeWindows(range=4, slide=4, slack=-1),
            "SLACK must be an integer of at least 0, not -1",
        ),
        (
            lambda: TimeWindows(range=4, slide=5),
            "SLIDE 5 is longer than RANGE 4, so that some tuples would be in no window",
        ),
        (lambda: TimeWindows(range=4, slide=4, low=2, high=1), "Times from 2 to 1 are none"),
        (
            lambda: KeyedTimeAggregator(
                Queues((Level(4),), rows=4, slots=4, width=6),
                TimeWindows(range=4, slide=4),
                COLUMNS,
                FEW,
                key_width=5,
            ),
            "Columns of 6 bits and labels of 1 are no values of 6",
        ),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
