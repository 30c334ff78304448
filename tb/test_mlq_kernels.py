# amaranth: UnusedElaboratable=no
# (an aggregator whose parameters are refused is left half made)
"""Kernels, alone and behind the queues, against plain Python."""

import random
import re
from typing import Any

import pytest
from amaranth.hdl import Shape, Value, signed, unsigned
from amaranth.lib import data
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.mlq import FUNCTIONS, Fold, KeyedAggregate, Level, Queues, WindowAggregator
from joinery.mlq.kernels import Kernel
from joinery_tb.mlq import QueueBench, keyed_windows, make_memories
from joinery_tb.simulate import STALLS, run_stream

EXPECTED = {
    "count": {"": len},
    "sum": {"": sum},
    "min": {"": min},
    "max": {"": max},
    "avg": {"sum": sum, "count": len},
    "median": {"twice": lambda v: sorted(v)[(len(v) - 1) // 2] + sorted(v)[len(v) // 2]},
}


def run_kernel(
    kernel: Kernel, windows: list[list[list[int | None]]], **stalls: Any
) -> tuple[list[Any], int]:
    """Send windows, each as parts, each of one value or none per lane."""
    parts = [
        {
            "last": number == len(window) - 1,
            "count": sum(value is not None for part in window for value in part),
            "mask": sum((value is not None) << k for k, value in enumerate(part)),
            "values": [value or 0 for value in part],
        }
        for window in windows
        for number, part in enumerate(window)
    ]
    run = run_stream(kernel, {"i": parts}, **stalls)
    return run.outputs["o"], run.cycles


@settings(max_examples=12)
@given(st.data())
def test_every_kernel_on_random_windows(data: st.DataObject) -> None:
    function = data.draw(st.sampled_from(list(FUNCTIONS)))
    part = data.draw(st.sampled_from(list(FUNCTIONS[function])))
    lanes = data.draw(st.integers(1, 5))
    shape = data.draw(
        st.sampled_from([unsigned(1), unsigned(4), unsigned(6), signed(5), signed(9)])
    )
    low = -(1 << shape.width - 1) if shape.signed else 0
    value = st.one_of(st.none(), st.integers(low, low + (1 << shape.width) - 1))
    window = st.lists(st.lists(value, min_size=lanes, max_size=lanes), min_size=1, max_size=4)
    windows = [
        w
        for w in data.draw(st.lists(window, max_size=12))
        if any(value is not None for each in w for value in each)
    ]
    kernel = FUNCTIONS[function][part](shape, lanes=lanes, rows=4 * lanes, parts=4)
    found, _ = run_kernel(
        kernel,
        windows,
        stall_in=data.draw(st.sampled_from(list(STALLS.values()))),
        stall_out=data.draw(st.sampled_from(list(STALLS.values()))),
    )
    assert found == [
        EXPECTED[function][part]([value for each in w for value in each if value is not None])
        for w in windows
    ]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_kernel_takes_a_part_every_cycle(function: str) -> None:
    draw = random.Random(2)
    windows: list[list[list[int | None]]] = [
        [[draw.randrange(256) for _ in range(4)] for _ in range(3)] for _ in range(60)
    ]
    for kernel in FUNCTIONS[function].values():
        _, cycles = run_kernel(kernel(unsigned(8), lanes=4, rows=12, parts=3), windows)
        assert cycles <= 180 + 25


def test_the_median_of_odd_and_even_counts() -> None:
    kernel = FUNCTIONS["median"]["twice"](signed(12), lanes=2, rows=6, parts=3)
    windows: list[list[list[int | None]]] = [
        [[7, None]],
        [[7, -9]],
        [[-2048, 2047], [0, None]],
        [[2047, 2047], [-2048, -2048]],
        [[None, 3], [5, None], [3, 8]],
    ]
    assert run_kernel(kernel, windows)[0] == [14, -2, 0, -1, 8]


def test_a_kernel_of_ones_own_is_a_dozen_lines() -> None:
    class Either(Fold):
        """The bits that any value has."""

        @classmethod
        def result_shape(cls, shape: Shape, rows: int) -> Shape:
            return shape

        @classmethod
        def lift(cls, value: Any) -> Value:
            return Value.cast(value)

        @classmethod
        def join(cls, first: Value, second: Value) -> Value:
            return first | second

    kernel = Either(unsigned(4), lanes=2, rows=4, parts=2)
    assert run_kernel(kernel, [[[1, 4]], [[None, 2], [8, 2]]])[0] == [5, 10]


COLUMNS = data.StructLayout({"speed": unsigned(6), "climb": signed(6)})
AGGREGATES = [
    KeyedAggregate("number", "count"),
    KeyedAggregate("least", "min", "climb"),
    KeyedAggregate("most", "max", "climb"),
    KeyedAggregate("total", "sum", "climb"),
    KeyedAggregate("speed", "avg", "speed"),
    KeyedAggregate("middle", "median", "climb"),
]


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize(("rows", "slide"), [(9, 4), (12, 1)])
def test_aggregates_of_windows_behind_the_queues(rows: int, slide: int, stall: str) -> None:
    levels = (Level(2, 2, duplex=True), Level(4, 2), Level(16, 4, 4, 2))
    queues = Queues(levels, rows=12, slots=4, width=12)
    dut = WindowAggregator(queues, COLUMNS, AGGREGATES, key_width=5, ways=2, depth=4)
    bench: Any = QueueBench(dut, make_memories(levels, slots=4, width=12))
    draw = random.Random(rows)
    tuples = [(draw.randrange(3), draw.getrandbits(12)) for _ in range(70)]
    sent = [
        {"end": 0, "key": key, "value": {"speed": value & 63, "climb": climb(value)}}
        for key, value in tuples
    ]
    end = {"end": 1, "key": 0, "value": {"speed": 0, "climb": 0}}

    def set_sizes(ctx: Any) -> None:
        ctx.set(bench.rows, rows)
        ctx.set(bench.slide, slide)

    run = run_stream(
        bench,
        {"i": [*sent, end]},
        stall_in=STALLS[stall],
        stall_out=STALLS[stall],
        idle=100,
        watch=set_sizes,
    )
    *found, last = run.outputs["o"]
    assert last["end"]
    assert [(row["key"], row["value"]) for row in found] == [
        (
            key,
            {
                "number": rows,
                "least": min(map(climb, window)),
                "most": max(map(climb, window)),
                "total": sum(map(climb, window)),
                "speed_sum": sum(value & 63 for value in window),
                "speed_count": rows,
                "middle_twice": EXPECTED["median"]["twice"](list(map(climb, window))),
            },
        )
        for key, window in keyed_windows(tuples, rows, slide)
    ]


def climb(value: int) -> int:
    return (value >> 6) - (64 if value >> 11 else 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: KeyedAggregate("a", "mode", "x"),
            "An aggregate is count, sum, min, max, avg, median, not 'mode'",
        ),
        (lambda: KeyedAggregate("a", "min"), "Aggregate a: min needs a column"),
        (
            lambda: FUNCTIONS["sum"][""](unsigned(4), lanes=0, rows=1, parts=1),
            "Kernel lanes must be a positive integer, not 0",
        ),
        (
            lambda: aggregator([KeyedAggregate("a", "min", "height")]),
            "Aggregate a: there is no column 'height'",
        ),
        (lambda: aggregator([]), "An aggregator needs at least one aggregate"),
        (
            lambda: aggregator(AGGREGATES, width=5),
            "Columns of 12 bits are no values of 5",
        ),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def aggregator(aggregates: list[KeyedAggregate], width: int = 12) -> WindowAggregator:
    queues = Queues((Level(4),), rows=4, slots=4, width=width)
    return WindowAggregator(queues, COLUMNS, aggregates, key_width=5)
