# amaranth: UnusedElaboratable=no
# (a queue whose parameters are refused is left half made)
"""Multi-level queues in Amaranth's simulator, against the definition of their windows."""

import random
import re
from typing import Any

import pytest
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.mlq import Level, MultiLevelQueue, Queues, TimedMemory
from joinery.mlq.channel import DuplexChannel
from joinery.mlq.keys import hash_key
from joinery_tb.mlq import QueueBench, keyed_windows, make_memories, run_queue
from joinery_tb.mutants import broken
from joinery_tb.simulate import STALLS

SRAM = {"short": (6, 5), "long": (6, 5), "latency": 4}
DRAM = {"short": (7, 1), "long": (2, 1), "burst_from": 2, "latency": 9}

HIERARCHIES: dict[str, tuple[list[Level], list[Any]]] = {
    "dram": ([Level(32, 8, 8, 2, 2)], [DRAM]),
    "bram+dram": ([Level(2, 2, duplex=True), Level(32, 8, 8, 2, 2)], [None, DRAM]),
    "bram+qdr+dram": (
        [Level(2, 2, duplex=True), Level(8, 4, duplex=True), Level(32, 8, 8, 2, 2)],
        [None, SRAM, DRAM],
    ),
}


def make(
    levels: list[Level], *, rows: int, slots: int = 4, ways: int = 2, depth: int = 4
) -> MultiLevelQueue:
    queues = Queues(tuple(levels), rows=rows, slots=slots, width=12)
    return MultiLevelQueue(queues, key_width=6, ways=ways, depth=depth)


def draw_tuples(keys: int, number: int, seed: int = 0) -> list[tuple[int, int]]:
    """Random keys; each value tells its place, so that nothing can change places unseen."""
    draw = random.Random(seed)
    return [(draw.randrange(keys), place) for place in range(number)]


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("name", HIERARCHIES)
def test_windows_of_the_papers_hierarchies(name: str, stall: str) -> None:
    levels, timing = HIERARCHIES[name]
    tuples = draw_tuples(4, 160)
    dut = make(levels, rows=24)
    (found,), evicted, _ = run_queue(
        dut,
        tuples,
        rows=24,
        slide=3,
        timing=timing,
        stall_in=STALLS[stall],
        stall_out=STALLS[stall],
    )
    assert found == list(keyed_windows(tuples, 24, 3))
    assert not evicted


@st.composite
def hierarchies(draw: st.DrawFn) -> tuple[list[Level], list[Any], int]:
    rows = draw(st.integers(1, 24))
    number = draw(st.integers(1, 3))
    levels: list[Level] = []
    timing: list[Any] = []
    for k in range(number):
        word = (levels[-1].word if levels else 1) << draw(st.integers(0, 1))
        channels = draw(st.sampled_from([1, 2]))
        values = max(word, (levels[-1].values if levels else 1) << draw(st.integers(0, 2)))
        if k == number - 1:
            whole = max(values, word * channels)
            values = -(-rows // whole) * whole
        time = draw(st.sampled_from([None, SRAM, DRAM]))
        levels.append(
            Level(
                values,
                word,
                granule=draw(st.sampled_from([1, word])),
                channels=channels,
                burst=1 if time is None else draw(st.sampled_from([1, 3])),
                duplex=time is None or draw(st.booleans()),
                pending=draw(st.sampled_from([1, 4, 16])),
            )
        )
        timing.append(time)
    return levels, timing, rows


@settings(max_examples=8)
@given(st.data())
def test_random_hierarchies(data: st.DataObject) -> None:
    levels, timing, most = data.draw(hierarchies())
    rows = data.draw(st.integers(1, most))
    slide = data.draw(st.one_of(st.just(1), st.just(rows), st.integers(1, rows)))
    # With more than four keys, some lose their place to others.
    tuples = draw_tuples(data.draw(st.integers(1, 6)), data.draw(st.integers(0, 100)))
    stalls = st.sampled_from(list(STALLS.values()))
    (found,), evicted, _ = run_queue(
        make(levels, rows=most),
        tuples,
        rows=rows,
        slide=slide,
        timing=timing,
        stall_in=data.draw(stalls),
        stall_out={name: data.draw(stalls) for name in ("o", "o_tag", "o_evicted")},
        seed=data.draw(st.integers(0, 99)),
    )
    assert found == list(keyed_windows(tuples, rows, slide, evicted))


@pytest.mark.parametrize("slide", [1, 5])
def test_an_evicted_key_is_reported_and_starts_anew(slide: int) -> None:
    levels, timing = HIERARCHIES["bram+dram"]
    tuples = draw_tuples(40, 300, seed=slide)
    dut = make(levels, rows=5, slots=16)
    (found,), evicted, _ = run_queue(dut, tuples, rows=5, slide=slide, timing=timing)
    assert len(evicted) > 20
    assert found == list(keyed_windows(tuples, 5, slide, evicted))
    assert found


def test_after_the_end_all_begins_anew() -> None:
    levels, timing = HIERARCHIES["bram+qdr+dram"]
    tuples = draw_tuples(4, 70)
    expected = list(keyed_windows(tuples, 9, 2))
    found, _, _ = run_queue(
        make(levels, rows=20), tuples, rows=9, slide=2, timing=timing, runs=3, stall_out=0.3
    )
    assert found == [expected] * 3


def test_keys_numbered_from_zero_all_find_a_place() -> None:
    levels, timing = HIERARCHIES["bram+dram"]
    keys = random.Random(1).sample(range(64), 64)
    tuples = [(key, 64 * turn + key) for turn in range(3) for key in keys]
    dut = make(levels, rows=3, slots=64, ways=4)
    (found,), evicted, _ = run_queue(dut, tuples, rows=3, slide=3, timing=timing)
    assert not evicted
    assert found == list(keyed_windows(tuples, 3, 3))


@pytest.mark.parametrize("way", range(4))
def test_a_hash_function_is_one_to_one_on_keys_with_equal_upper_bits(way: int) -> None:
    for upper in (0, 1, 6, 1000):
        places = {hash_key(upper << 5 | low, way=way, bits=5, key_width=24) for low in range(32)}
        assert places == set(range(32))


def test_long_bursts_never_keep_a_word_from_being_written_back() -> None:
    timing = {"short": (7, 1), "long": (2, 1), "burst_from": 4, "latency": 20}
    tuples = draw_tuples(8, 380)
    dut = make([Level(64, 4, 4, 2, 8)], rows=64, slots=8, depth=16)
    (found,), _, _ = run_queue(dut, tuples, rows=40, slide=1, timing=[timing])
    assert found == list(keyed_windows(tuples, 40, 1))


def run_close_windows() -> tuple[Any, Any]:
    """Two windows complete one after the other, and values of the second key follow at once.

    They lie where the second window does, which is still to be read.
    """
    keys = [0, 1] * 7 + [0, 1] + [1] * 7 + [0] * 7 + [1, 0]
    tuples = [(key, number) for number, key in enumerate(keys)]
    dut = make([Level(8, duplex=True)], rows=8)
    (found,), _, _ = run_queue(dut, tuples, rows=8, slide=8)
    return found, list(keyed_windows(tuples, 8, 8))


def test_writes_wait_for_what_is_still_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found, expected = run_close_windows()
    assert found == expected
    careless = broken(DuplexChannel, 'needs(waiting, "waiting")', "0")
    monkeypatch.setattr("joinery.mlq.level.DuplexChannel", careless)
    found, expected = run_close_windows()
    assert found != expected


@pytest.mark.parametrize("keys", [1, 4])
def test_level_1_takes_a_value_every_cycle(keys: int) -> None:
    levels = [Level(2, 2, duplex=True), Level(8, 4, duplex=True), Level(32, 8)]
    tuples = [(k % keys, k) for k in range(300)]
    (found,), _, run = run_queue(make(levels, rows=32, depth=16), tuples, rows=32, slide=32)
    assert found == list(keyed_windows(tuples, 32, 32))
    # The table is cleared before the first tuple; then there is one in every cycle.
    assert run.cycles <= 300 + 60


# ---------------------------------------------------------------------------------------------
# Figure 4 of the paper, cycle by cycle
# ---------------------------------------------------------------------------------------------

FIGURE_4 = """
0 1 0 0 0 0 | W1          | 1 .  | . . . .     | . . . . . . . .
0 2 0 0 0 0 | W1          | 1 2  | . . . .     | . . . . . . . .
0 1 0 2 0 0 | R1 W2 W1    | 3 .  | 1 2 . .     | . . . . . . . .
0 2 0 2 0 0 | W1          | 3 4  | 1 2 . .     | . . . . . . . .
0 1 0 4 0 0 | R1 W2 W1    | 5 .  | 1 2 3 4     | . . . . . . . .
0 2 0 0 0 4 | R2 W3 W1    | 5 6  | . . . .     | 1 2 3 4 . . . .
0 1 0 2 0 4 | R1 W2 W1    | 7 .  | 5 6 . .     | 1 2 3 4 . . . .
0 2 0 2 2 4 | A1 A2 A3 W1 | 7 8  | 5 6 . .     | . . 3 4 . . . .
0 1 0 4 2 4 | R1 W2 W1    | 9 .  | 5 6 7 8     | . . 3 4 . . . .
0 2 0 0 4 0 | A1 A2 A3 W3 W1 | 9 10 | . . . .  | . . . . 5 6 7 8
0 1 0 2 4 0 | R1 W2 W1    | 11 . | 9 10 . .    | . . . . 5 6 7 8
0 2 0 2 6 0 | A1 A2 A3 W1 | 11 12 | 9 10 . .   | . . . . . . 7 8
0 1 0 4 6 0 | R1 W2 W1    | 13 . | 9 10 11 12  | . . . . . . 7 8
0 2 0 0 0 4 | A1 A2 A3 W3 W1 | 13 14 | . . . . | 9 10 11 12 . . . .
0 1 0 2 0 4 | R1 W2 W1    | 15 . | 13 14 . .   | 9 10 11 12 . . . .
"""
"""For each tuple: r1 w1 r2 w2 r3 w3; operations; what M1, M2 and M3 hold afterwards.

W is a write, R a read to flush, A a read to aggregate, which also serves a flush by the same tuple.
The paper's third line has only R1, though the text and the contents have the writes as well. Its
contents of M1 on the lines of a flush show the values of before as gone; here a value that was
evicted or moved is a dot.
"""


def test_figure_4() -> None:
    queues = Queues((Level(2), Level(4), Level(8)), rows=8, slots=1, width=12)
    dut = MultiLevelQueue(queues, key_width=6, ways=1)
    memories = make_memories(queues.levels, slots=1, width=12)
    bench = QueueBench(dut, memories)
    found: list[str] = []
    steps: list[str] = []
    words: list[list[int]] = []

    async def watch(ctx: Any) -> None:
        """In every cycle: what the table asks of the levels."""
        while True:
            await ctx.tick()
            if ctx.get(dut.table.o.valid) and ctx.get(dut.table.o.ready):
                move = ctx.get(dut.table.o.p.move)
                levels = [(k + 1, move.levels[f"level_{k}"]) for k in range(3)]
                reads = [
                    f"A{k}" if move.aggregate and level.held else f"R{k}"
                    for k, level in levels
                    if level.flush or (move.aggregate and level.held)
                ]
                steps.append(
                    " ".join(reads + [f"W{k}" for k, level in reversed(levels) if level.write])
                )

    async def drive(ctx: Any) -> None:
        ctx.set(bench.slide, 2)
        ctx.set(bench.o.ready, 1)
        ctx.set(bench.o_tag.ready, 1)
        for number in range(1, 16):
            ctx.set(bench.i.p, {"end": 0, "key": 5, "value": number})
            ctx.set(bench.i.valid, 1)
            await ctx.tick().until(bench.i.ready)
            ctx.set(bench.i.valid, 0)
            for _ in range(40):  # what one tuple causes has come to an end
                if ctx.get(bench.o.valid) and ctx.get(bench.o.p.last):
                    words.append([])
                await ctx.tick()
            pointers = ctx.get(dut.table.memories[0].data[0]).pointers
            places = [(pointers.read[f"level_{k}"], pointers.write[f"level_{k}"]) for k in range(3)]
            shown = [f"{r} {w}" for r, w in places]
            contents = [
                [ctx.get(memories[k][0].memory.data[n]) for n in range((2, 4, 8)[k])]
                for k in range(3)
            ]
            held = _held(places, contents, (2, 4, 8), pointers.count)
            found.append(" | ".join([" ".join(shown), steps[-1], *held]))

    simulator = Simulator(bench)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.add_testbench(watch, background=True)
    simulator.run()
    expected = [
        " | ".join(" ".join(part.split()) for part in line.split("|"))
        for line in FIGURE_4.strip().splitlines()
    ]
    assert found == expected
    assert len(steps) == 15
    assert len(words) == 4


def _held(
    places: list[tuple[int, int]], contents: list[list[int]], values: tuple[int, ...], count: int
) -> list[str]:
    """What each level holds between its pointers; all else is a dot."""
    below = sum(w - r for r, w in places[:-1])
    held = [*(w - r for r, w in places[:-1]), count - below]
    return [
        " ".join(
            str(contents[k][n]) if (n - r) % values[k] < held[k] else "." for n in range(values[k])
        )
        for k, (r, _) in enumerate(places)
    ]


# ---------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Level(3, 2), "A level of 3 values has no whole words of 2"),
        (lambda: Level(4, 3), "Level word must be a power of two, not 3"),
        (lambda: Level(4, pending=3), "Level pending must be a power of two, not 3"),
        (lambda: Level(0), "Level values must be a positive integer, not 0"),
        (lambda: Level(4, 2, 4), "A granule of 4 values is larger than a word"),
        (lambda: Queues((), 1, 1, 1), "Queues have at least one level"),
        (lambda: Queues((Level(1),), 0, 1, 1), "Queues rows must be a positive integer, not 0"),
        (
            lambda: Queues((Level(3), Level(6)), 6, 1, 1),
            "Values of a level that is not the last must be a power of two, not 3",
        ),
        (
            lambda: Queues((Level(4), Level(6)), 6, 1, 1),
            "A level of 6 values takes no whole blocks of 4",
        ),
        (
            lambda: Queues((Level(4, 4), Level(8, 2)), 6, 1, 1),
            "A word of 2 values follows one of 4: levels must not become narrower",
        ),
        (
            lambda: Queues((Level(4),), 5, 1, 1),
            "The last level holds 4 values, and a window has 5",
        ),
        (
            lambda: Queues((Level(3, channels=2),), 3, 1, 1),
            "The last level has 3 words, which is no whole number for each of 2 channels",
        ),
        (
            lambda: MultiLevelQueue(Queues((Level(4),), 4, 4, 1), key_width=4, depth=1),
            "Queue depth must be an integer of at least 2, not 1",
        ),
        (
            lambda: MultiLevelQueue(Queues((Level(4),), 4, 3, 1), key_width=4),
            "Slots must be a power of two, not 3",
        ),
        (
            lambda: MultiLevelQueue(Queues((Level(4),), 4, 2, 1), key_width=4),
            "2 slots are fewer than 4 ways",
        ),
        (
            lambda: MultiLevelQueue(Queues((Level(4),), 4, 4, 1), key_width=0),
            "Key width must be a positive integer, not 0",
        ),
        (
            lambda: TimedMemory(lines=1, word=1, width=1, burst=1, latency=1),
            "TimedMemory latency must be at least 2 cycles, not 1",
        ),
        (
            lambda: TimedMemory(lines=1, word=1, width=1, burst=1, short=(1, 2)),
            "TimedMemory short access time must be a fraction of at least one cycle, not 1/2",
        ),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
