# amaranth: UnusedElaboratable=no
# (an aggregator whose parameters are refused is left half made)
"""Windows of time on multi-level queues, against the definition."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from amaranth.hdl import signed
from amaranth.lib import data
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.mlq import KeyedAggregate, KeyedTimeAggregator, Level, Queues, TimeWindows
from joinery_tb.mlq import QueueBench, make_memories
from joinery_tb.simulate import STALLS, Run, run_stream

COLUMNS = data.StructLayout({"height": signed(6)})
AGGREGATES = [
    KeyedAggregate("number", "count"),
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
        "low": ordered[0],
        "high": ordered[-1],
        "mean_sum": sum(values),
        "mean_count": len(values),
        "middle_twice": ordered[(len(values) - 1) // 2] + ordered[len(values) // 2],
    }


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
    aggregates: Sequence[KeyedAggregate] = AGGREGATES,
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
    assert [sorted(rows, key=lambda row: row[:2]) for rows in found.streams] == [
        rows for rows, _ in expected
    ]
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


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("name", HIERARCHIES)
def test_windows_on_every_hierarchy(name: str, stall: str) -> None:
    levels, timing = HIERARCHIES[name]
    windows = TimeWindows(range=12, slide=4, slack=6)
    items = draw_items(60, 3, seed=1, disorder=10)
    found = check(
        make(windows, levels), items, timing=timing, stall_in=STALLS[stall], stall_out=STALLS[stall]
    )
    assert found.late
    assert len(found.streams[0]) > 60


def test_one_tuple() -> None:
    windows = TimeWindows(range=12, slide=4)
    check(make(windows, HIERARCHIES["bram"][0]), [Item(1001, 3, -7)])
