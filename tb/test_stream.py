# amaranth: UnusedElaboratable=no
"""The stream blocks in simulation: against plain Python under stalls, and cycle by cycle."""

import random
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.stream import (
    Arbiter,
    Buffer,
    Fork,
    Merger,
    MergeTree,
    Narrow,
    Queue,
    Widen,
    part_layout,
    word_layout,
)
from joinery_tb.simulate import STALLS, run_stream

PAIR = data.StructLayout({"key": 3, "value": signed(5)})

# ---------------------------------------------------------------------------------------------
# Simulation against plain Python, under stalls on both sides
# ---------------------------------------------------------------------------------------------

few = settings(max_examples=25, deadline=None, derandomize=True)
patterns = st.lists(st.booleans(), max_size=6).map(lambda pauses: (*pauses, False))
stalls = st.one_of(st.sampled_from(sorted(map(str, STALLS))).map(STALLS.__getitem__), patterns)
seeds = st.integers(0, 2**32 - 1)


def pairs(count: int, *, seed: int = 0) -> list[dict[str, int]]:
    draw = random.Random(seed)
    return [{"key": draw.randrange(8), "value": draw.randrange(-16, 16)} for _ in range(count)]


def numbered(leaves: int, count: int) -> dict[str, list[int]]:
    return {f"i[{leaf}]": [leaf * 64 + k for k in range(count)] for leaf in range(leaves)}


def by_leaf(received: list[int], leaves: int) -> dict[str, list[int]]:
    return {
        f"i[{leaf}]": [each for each in received if each // 64 == leaf] for leaf in range(leaves)
    }


def words_of(parts: list[dict[str, int]], factor: int) -> list[tuple[list[int], int]]:
    """Return the words that ``parts`` fill, each with its ``end``."""
    words: list[tuple[list[int], int]] = []
    word: list[int] = []
    for part in parts:
        if part["end"]:
            words += [(word, 0)] if word else []
            words.append(([], 1))
            word = []
        else:
            word.append(part["data"])
            if len(word) == factor:
                words.append((word, 0))
                word = []
    return words


def parts_of(words: list[tuple[list[int], int]]) -> list[dict[str, int]]:
    parts = []
    for word, end in words:
        parts += [{"data": part, "end": 0} for part in word]
        parts += [{"data": 0, "end": 1}] if end else []
    return parts


@few
@given(
    depth=st.integers(0, 9),
    style=st.sampled_from(Queue.STYLES),
    pauses=st.tuples(stalls, stalls),
    seed=seeds,
)
def test_queue_against_reference(depth: int, style: str, pauses: Any, seed: int) -> None:
    style = style if depth > 1 else "auto"
    dut: Any = Queue(PAIR, depth=depth, style=style) if depth else Buffer(PAIR)
    sent = pairs(30, seed=seed)
    run = run_stream(dut, {"i": sent}, stall_in=pauses[0], stall_out=pauses[1], seed=seed)
    assert run.outputs["o"] == sent


@few
@given(outputs=st.integers(1, 5), pauses=st.tuples(stalls, stalls), seed=seeds)
def test_fork_against_reference(outputs: int, pauses: Any, seed: int) -> None:
    sent = pairs(20, seed=seed)
    dut = Fork(PAIR, outputs=outputs)
    run = run_stream(dut, {"i": sent}, stall_in=pauses[0], stall_out=pauses[1], seed=seed)
    assert run.outputs == {f"o[{k}]": sent for k in range(outputs)}


@few
@given(
    inputs=st.integers(1, 9),
    fan_in=st.integers(2, 4),
    depth=st.integers(1, 3),
    pauses=st.tuples(stalls, stalls),
    seed=seeds,
)
def test_mergers_against_reference(
    inputs: int, fan_in: int, depth: int, pauses: Any, seed: int
) -> None:
    sent = numbered(inputs, 8)
    for dut in (
        Arbiter(10, inputs=inputs),
        Merger(10, inputs=inputs, depth=depth),
        MergeTree(10, inputs=inputs, fan_in=fan_in, depth=depth),
    ):
        run = run_stream(dut, sent, stall_in=pauses[0], stall_out=pauses[1], seed=seed)
        assert by_leaf(run.outputs["o"], inputs) == sent


@few
@given(
    factor=st.integers(1, 5),
    ends=st.lists(st.integers(0, 12), max_size=4),
    pauses=st.tuples(stalls, stalls),
    seed=seeds,
)
def test_width_against_reference(factor: int, ends: list[int], pauses: Any, seed: int) -> None:
    draw = random.Random(seed)
    parts = []
    for length in ends:
        parts += [{"data": draw.randrange(-16, 16), "end": 0} for _ in range(length)]
        parts.append({"data": 0, "end": 1})
    stalled = {"stall_in": pauses[0], "stall_out": pauses[1], "seed": seed}
    widened = run_stream(Widen(signed(5), factor=factor), {"i": parts}, **stalled).outputs["o"]
    words = [(word["data"][: word["count"]], word["end"]) for word in widened]
    assert words == words_of(parts, factor)
    narrowed = run_stream(Narrow(signed(5), factor=factor), {"i": widened}, **stalled).outputs["o"]
    assert [{**part, "data": part["data"] * (1 - part["end"])} for part in narrowed] == parts
    assert parts == parts_of(words)


def test_narrow_drops_words_without_parts() -> None:
    words = [{"data": [1, 2], "count": count, "end": 0} for count in (0, 2, 0, 1)]
    run = run_stream(Narrow(4, factor=2), {"i": words})
    assert [part["data"] for part in run.outputs["o"]] == [1, 2, 1]


# ---------------------------------------------------------------------------------------------
# Cycle counts: no stalls on either side
# ---------------------------------------------------------------------------------------------

LENGTH = 40


@pytest.mark.parametrize(
    ("dut", "latency"),
    [
        (Buffer(PAIR), 1),
        *((Queue(PAIR, depth=depth), 1) for depth in (1, 2, 3, 7, 64)),
        *((Queue(PAIR, depth=depth, style="block"), 2) for depth in (3, 4, 65)),
        *((Queue(PAIR, depth=depth, style="behind"), 3) for depth in (4, 5, 65)),
        *((Queue(PAIR, depth=depth, style="beside"), 1) for depth in (2, 3, 65)),
        *((Queue(PAIR, depth=depth, style="prompt"), 1) for depth in (2, 3, 65)),
        (Fork(PAIR, outputs=3), 0),
    ],
)
def test_one_transfer_per_cycle(dut: Any, latency: int) -> None:
    assert run_stream(dut, {"i": pairs(LENGTH)}).cycles == LENGTH + latency


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("inputs", [1, 2, 3, 8, 11])
def test_mergers_take_one_transfer_per_cycle_from_any_leaf(inputs: int, depth: int) -> None:
    for leaf in range(inputs):
        sent = {f"i[{k}]": list(range(LENGTH)) if k == leaf else [] for k in range(inputs)}
        tree = MergeTree(10, inputs=inputs, fan_in=3, depth=depth)
        latency, place = 0, leaf
        for groups in tree.groups():
            place = next(k for k, group in enumerate(groups) if place in group)
            latency += len(groups[place]) > 1 or len(groups) == 1
        assert run_stream(tree, sent).cycles == LENGTH + latency
    assert run_stream(Arbiter(10, inputs=inputs), sent).cycles == LENGTH
    assert run_stream(Merger(10, inputs=inputs, depth=depth), sent).cycles == LENGTH + 1


@pytest.mark.parametrize("inputs", [2, 3, 9])
def test_mergers_take_one_transfer_per_cycle_from_all_leaves(inputs: int) -> None:
    sent = numbered(inputs, 16)
    tree = MergeTree(10, inputs=inputs)
    assert run_stream(Arbiter(10, inputs=inputs), sent).cycles == inputs * 16
    assert run_stream(Merger(10, inputs=inputs), sent).cycles == inputs * 16 + 1
    assert inputs * 16 < run_stream(tree, sent).cycles <= inputs * 16 + tree.levels


def test_arbiter_goes_round() -> None:
    run = run_stream(Arbiter(10, inputs=3), numbered(3, 4))
    assert [each // 64 for each in run.outputs["o"]] == [0, 1, 2] * 4


@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_width_takes_one_part_per_cycle(factor: int) -> None:
    parts = [{"data": k, "end": 0} for k in range(factor * 12)]
    run = run_stream(Widen(8, factor=factor), {"i": parts})
    assert run.cycles == len(parts) + 1
    assert run_stream(Narrow(8, factor=factor), {"i": run.outputs["o"]}).cycles == len(parts)


def test_queue_fills_to_its_depth() -> None:
    styles = ("distributed", "block", "beside", "prompt")
    for depth, style in ((1, "auto"), *product((2, 5), styles)):
        dut = Queue(8, depth=depth, style=style)
        levels = []
        pauses = (True,) * (depth + 3) + (False,) * (depth + 3)
        run = run_stream(
            dut,
            {"i": range(depth + 2)},
            stall_out=pauses,
            watch=lambda ctx, dut=dut, levels=levels: levels.append(ctx.get(dut.level)),
        )
        assert run.outputs["o"] == list(range(depth + 2))
        assert max(levels) == depth


# ---------------------------------------------------------------------------------------------
# Parameters
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Queue(1, depth=0), "Queue depth must be a positive integer, not 0"),
        (lambda: Queue(1, depth="2"), "Queue depth must be a positive integer, not '2'"),
        (lambda: Queue(1, depth=True), "Queue depth must be a positive integer, not True"),
        (
            lambda: Queue(1, depth=2, style="lut"),
            "Queue style must be auto, distributed, block, behind, beside or prompt, not 'lut'",
        ),
        (
            lambda: Queue(1, depth=1, style="block"),
            "Queue of depth 1 is a register and has no block style",
        ),
        (
            lambda: Queue(1, depth=1, style="prompt"),
            "Queue of depth 1 is a register and has no prompt style",
        ),
        (lambda: Fork(1, outputs=0), "Fork outputs must be a positive integer, not 0"),
        (lambda: Arbiter(1, inputs=-1), "Arbiter inputs must be a positive integer, not -1"),
        (lambda: Merger(1, inputs=0), "Merger inputs must be a positive integer, not 0"),
        (lambda: Merger(1, inputs=2, depth=0), "Merger depth must be a positive integer, not 0"),
        (lambda: MergeTree(1, inputs=0), "MergeTree inputs must be a positive integer, not 0"),
        (
            lambda: MergeTree(1, inputs=4, fan_in=1),
            "MergeTree fan-in must be an integer of at least 2, not 1",
        ),
        (
            lambda: MergeTree(1, inputs=4, depth="22"),
            "MergeTree depth must be a positive integer, not '22'",
        ),
        (
            lambda: MergeTree(1, inputs=4, depth=[2, 0]),
            "MergeTree depth must be a positive integer, not 0",
        ),
        (
            lambda: MergeTree(1, inputs=4, depth=[2]),
            "MergeTree of 4 inputs with fan-in 2 takes 2 depths, one per level, not 1",
        ),
        (lambda: Widen(1, factor=0), "Widen factor must be a positive integer, not 0"),
        (lambda: Narrow(1, factor=0), "Narrow factor must be a positive integer, not 0"),
        (lambda: word_layout(1, factor=0), "Word factor must be a positive integer, not 0"),
    ],
)
def test_parameters_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def test_queue_chooses_its_style() -> None:
    assert Queue(1, depth=Queue.BLOCK_DEPTH).style == "distributed"
    assert Queue(1, depth=Queue.BLOCK_DEPTH + 1).style == "block"


def test_first_part_takes_the_low_bits() -> None:
    layout = word_layout(8, factor=4)
    assert layout.const({"data": [1, 2, 3, 4]}).as_value().value == 0x04030201
    assert part_layout(8).size == 9


def test_tree_shares_inputs_evenly() -> None:
    tree = MergeTree(1, inputs=9, fan_in=8)
    assert [[len(group) for group in groups] for groups in tree.groups()] == [[4, 5], [2]]


# ---------------------------------------------------------------------------------------------
# The bench itself
# ---------------------------------------------------------------------------------------------


class Faulty(wiring.Component):
    """A stream that stops taking after the first transfer, or changes its mind while it waits."""

    def __init__(self, *, fault: str) -> None:
        self.fault = fault
        signature = stream.Signature(4)
        super().__init__({"i": In(signature), "o": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cycle = Signal(4)
        stuck = Signal()
        m.d.sync += cycle.eq(cycle + 1)
        m.d.sync += stuck.eq(stuck | (self.i.valid & self.i.ready & (self.fault == "stuck")))
        m.d.comb += self.i.ready.eq(self.o.ready & ~stuck)
        m.d.comb += self.o.valid.eq(self.i.valid & ~stuck)
        m.d.comb += self.o.payload.eq(cycle if self.fault == "fickle" else self.i.payload)
        return m


def test_bench_reports_a_stuck_block() -> None:
    with pytest.raises(AssertionError, match=r"^Stuck, with transfers left to send: {'i': 2}$"):
        run_stream(Faulty(fault="stuck"), {"i": [1, 2, 3]})


def test_bench_reports_a_broken_law() -> None:
    with pytest.raises(AssertionError, match=r"^o broke the stream law in cycle 1$"):
        run_stream(Faulty(fault="fickle"), {"i": [1]}, stall_out=(True, True, False))


def test_bench_refuses() -> None:
    with pytest.raises(ValueError, match=r"^The inputs are \['i'\], not \['x'\]$"):
        run_stream(Buffer(1), {"x": []})
    with pytest.raises(ValueError, match=r"^Stall of o never ends: \(True,\)$"):
        run_stream(Buffer(1), {"i": []}, stall_out=(True,))
