# amaranth: UnusedElaboratable=no
"""The stream blocks proved on small instances, and broken on purpose to see each check fail."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from joinery.law import attach_law
from joinery.stream import Arbiter, Buffer, Fork, Merger, MergeTree, Narrow, Queue, Widen
from joinery_synth.prove import ProofError, prove
from joinery_tb.mutants import broken
from joinery_tb.simulate import streams_of

TAGGED = data.StructLayout({"source": 2, "number": 1})

# ---------------------------------------------------------------------------------------------
# Proofs: one function per property, each an independent account of what the block promises
# ---------------------------------------------------------------------------------------------


class Harness(wiring.Component):
    """A block with free inputs that keep the stream law, and assertions about what it does."""

    def __init__(self, dut: wiring.Component, *checks: Callable[[Module, Any], None]) -> None:
        self.dut = dut
        self.checks = checks
        super().__init__(dut.signature)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.dut = self.dut
        sources, sinks = streams_of(self.dut)
        outer_sources, outer_sinks = streams_of(self)
        for name, source in sources.items():
            wiring.connect(m, wiring.flipped(outer_sources[name]), source)
            attach_law(m, source, name=f"law_{name}", assume=True, domain="comb")
        for name, sink in sinks.items():
            wiring.connect(m, sink, wiring.flipped(outer_sinks[name]))
        for check in self.checks:
            check(m, self.dut)
        return m


def moves(each: Any) -> Value:
    return each.valid & each.ready


def all_of(streams: Any) -> list[Any]:
    return list(streams) if isinstance(streams, (list, tuple)) else [streams]


def check_law(m: Module, dut: Any) -> None:
    for name, sink in streams_of(dut)[1].items():
        attach_law(m, sink, name=f"law_{name}", domain="comb")


def check_order(m: Module, dut: Any) -> None:
    """What goes in comes out, once, in order: the block equals a shift register that may gap."""
    inputs = all_of(dut.i)
    capacity = getattr(dut, "depth", 2)
    payload = Signal(Value.cast(dut.o.payload).shape())
    rows = [Signal.like(payload, name=f"row_{k}") for k in range(capacity)]
    held = Signal(range(capacity + 1))
    push = Cat(moves(i) for i in inputs).any()
    pop = moves(dut.o)

    for k, i in enumerate(inputs):
        with m.If(moves(i)):
            m.d.comb += payload.eq(i.payload)
            others = Cat(moves(other) for other in inputs[:k] + inputs[k + 1 :])
            m.d.comb += Assert(~others.any())
    m.d.sync += held.eq(held + push - pop)
    with m.If(pop):
        for row, above in pairwise(rows):
            m.d.sync += row.eq(above)
    with m.If(push):
        for k, row in enumerate(rows):
            with m.If(held - pop == k):
                m.d.sync += row.eq(payload)

    m.d.comb += Assert(~dut.o.valid | (held != 0))
    m.d.comb += Assert(~dut.o.valid | (Value.cast(dut.o.payload) == rows[0]))
    m.d.comb += Assert(~push | pop | (held != capacity))
    if hasattr(dut, "level"):
        m.d.comb += Assert(dut.level == held)


def check_progress(m: Module, dut: Any) -> None:
    """What is held is offered within two cycles, or three; where there is room, it is ready."""
    capacity = getattr(dut, "depth", 2)
    held = Signal(range(capacity + 1))
    late = Signal(range(4))
    m.d.sync += held.eq(held + Cat(moves(i) for i in all_of(dut.i)).any() - moves(dut.o))
    with m.If((held != 0) & ~dut.o.valid):
        m.d.sync += late.eq(late + 1)
    with m.Else():
        m.d.sync += late.eq(0)
    slack = {"block": 1, "behind": 2}.get(getattr(dut, "style", ""), 0)
    m.d.comb += Assert((late < slack) | (held == 0) | dut.o.valid)
    for i in all_of(dut.i):
        others = Cat(moves(other) for other in all_of(dut.i) if other is not i)
        m.d.comb += Assert(~i.valid | i.ready | others.any() | (held == capacity))
    if capacity > 1 and not hasattr(dut, "inputs"):
        m.d.comb += Assert(dut.i.ready == (held != capacity))


def check_fork(m: Module, dut: Fork) -> None:
    """Each output gets the present input, once, before the input is taken, and without waiting."""
    for k, o in enumerate(dut.o):
        got = Signal(name=f"got_{k}")
        with m.If(moves(dut.i)):
            m.d.sync += got.eq(0)
        with m.Elif(moves(o)):
            m.d.sync += got.eq(1)
        m.d.comb += Assert(o.valid == (dut.i.valid & ~got))
        m.d.comb += Assert(~o.valid | (o.payload == dut.i.payload))
        m.d.comb += Assert(~moves(dut.i) | got | moves(o))
    m.d.comb += Assert(dut.i.ready | ~Cat(o.ready for o in dut.o).all())


def check_arbiter(m: Module, dut: Arbiter) -> None:
    """The output is one of the inputs, in the same cycle, and waits for nothing."""
    m.d.comb += Assert(dut.o.valid == Cat(i.valid for i in dut.i).any())
    m.d.comb += Assert(moves(dut.o) == Cat(moves(i) for i in dut.i).any())
    for k, i in enumerate(dut.i):
        others = Cat(moves(other) for other in dut.i[:k] + dut.i[k + 1 :])
        m.d.comb += Assert(~moves(i) | ~others.any())
        m.d.comb += Assert(~moves(i) | (i.payload == dut.o.payload))


def check_fair(m: Module, dut: Any) -> None:
    """A waiting input is passed over at most once for each other input.

    It is passed over in every cycle in which another goes first, and in every cycle in which there
    was room for it: an input that nobody looks at waits while nobody goes.
    """
    room = dut.level != dut.depth if hasattr(dut, "level") else dut.o.ready
    for k, i in enumerate(dut.i):
        passed = Signal(range(len(dut.i) + 1), name=f"passed_{k}")
        with m.If(~i.valid | i.ready):
            m.d.sync += passed.eq(0)
        with m.Elif(room | Cat(moves(other) for other in dut.i).any()):
            m.d.sync += passed.eq(passed + 1)
        m.d.comb += Assert(passed < len(dut.i))


def check_widen(m: Module, dut: Widen) -> None:
    """A word is the next parts in order; only the end of the input cuts one short."""
    parts = [Signal(name=f"part_{k}") for k in range(dut.factor)]
    held = Signal(range(dut.factor + 1))
    ended = Signal()
    left = Mux(moves(dut.o) & ~dut.o.p.end, 0, held)
    with m.If(moves(dut.i) & ~dut.i.p.end):
        m.d.sync += held.eq(left + 1)
        for k, part in enumerate(parts):
            with m.If(left == k):
                m.d.sync += part.eq(dut.i.p.data)
    with m.Else():
        m.d.sync += held.eq(left)
    m.d.sync += ended.eq((ended & ~moves(dut.o)) | (moves(dut.i) & dut.i.p.end))

    m.d.comb += Assert(~moves(dut.i) | (left != dut.factor))
    m.d.comb += Assert(~(ended & (held != 0)))
    with m.If(dut.o.valid):
        m.d.comb += Assert(dut.o.p.end == ended)
        m.d.comb += Assert(dut.o.p.count == held)
        m.d.comb += Assert(ended | (held == dut.factor) | ((held != 0) & dut.i.valid & dut.i.p.end))
        for k, part in enumerate(parts):
            m.d.comb += Assert((held <= k) | (dut.o.p.data[k] == part))
    with m.Else():
        # Nothing complete is kept back, and a part is taken at once.
        m.d.comb += Assert(~ended & (held != dut.factor))
        m.d.comb += Assert(dut.i.ready | (dut.i.p.end & (held != 0)))
    cut_short = dut.i.valid & dut.i.p.end & ~dut.o.valid & (held != 0)
    waited = Signal()
    m.d.sync += waited.eq(cut_short)
    m.d.comb += Assert(~waited | dut.o.valid)
    m.d.comb += Assert(~dut.o.ready | dut.i.ready | dut.i.p.end)


def check_narrow(m: Module, dut: Narrow) -> None:
    """The parts of a word come out from the low end; the end comes out as itself."""
    word = dut.i.p
    sent = Signal(range(dut.factor + 1))
    m.d.comb += Assume(word.count <= dut.factor)
    m.d.comb += Assume(~word.end | (word.count == 0))
    m.d.sync += sent.eq(Mux(moves(dut.i), 0, sent + moves(dut.o)))
    m.d.comb += Assert(dut.o.valid == (dut.i.valid & (word.end | (word.count != 0))))
    with m.If(dut.o.valid):
        m.d.comb += Assert(dut.o.p.end == word.end)
        m.d.comb += Assert(word.end | (sent < word.count))
        for k in range(dut.factor):
            m.d.comb += Assert(word.end | (sent != k) | (dut.o.p.data == word.data[k]))
    with m.If(moves(dut.i)):
        m.d.comb += Assert(sent + moves(dut.o) == word.count + word.end)
    last = word.end | (sent + 1 >= word.count)
    m.d.comb += Assert(dut.i.ready | ~dut.i.valid | ~dut.o.ready | ~last)


class NumberedTree(wiring.Component):
    """A tree whose leaves number their transfers, so that only ``valid`` and ``ready`` are free.

    The root must see each leaf's numbers in turn, never more transfers than went in, and all that
    are held, within as many cycles as there are levels.
    """

    def __init__(self, tree: MergeTree) -> None:
        self.tree = tree
        super().__init__({"valid": In(tree.inputs), "ready": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tree = tree = self.tree
        o = tree.o
        capacity = 1
        for groups, depth in zip(tree.groups(), tree.depths, strict=True):
            capacity += depth * sum(len(group) > 1 for group in groups)
        held = Signal(range(capacity + 1))
        late = Signal(range(tree.levels + 1))
        m.d.comb += o.ready.eq(self.ready)
        m.d.sync += held.eq(held + sum(moves(i) for i in tree.i) - moves(o))
        m.d.sync += late.eq(Mux((held == 0) | o.valid, 0, late + 1))
        m.d.comb += Assert(held < capacity)
        m.d.comb += Assert(~o.valid | ((held != 0) & (o.p.source < tree.inputs)))
        m.d.comb += Assert(late < tree.levels)
        for k, i in enumerate(tree.i):
            waiting = Signal(name=f"waiting_{k}")
            sent = Signal(name=f"sent_{k}")
            seen = Signal(name=f"seen_{k}")
            mine = o.valid & (o.p.source == k)
            m.d.comb += i.valid.eq(self.valid[k] | waiting)
            m.d.comb += [i.p.source.eq(k), i.p.number.eq(sent)]
            m.d.comb += Assert(~mine | (o.p.number == seen))
            m.d.sync += waiting.eq(i.valid & ~i.ready)
            m.d.sync += sent.eq(sent ^ moves(i))
            m.d.sync += seen.eq(seen ^ (mine & o.ready))
        attach_law(m, o, name="law_o", domain="comb")
        return m


HOLDING = (check_law, check_order, check_progress)

PROOFS: dict[str, tuple[Callable[[], Any], tuple[Callable[..., None], ...]]] = {
    "buffer": (lambda: Buffer(1), HOLDING),
    "queue_1": (lambda: Queue(1, depth=1), HOLDING),
    "queue_2": (lambda: Queue(1, depth=2), HOLDING),
    "queue_3": (lambda: Queue(1, depth=3), HOLDING),
    "queue_4": (lambda: Queue(1, depth=4), HOLDING),
    "block_queue_2": (lambda: Queue(1, depth=2, style="block"), HOLDING),
    "block_queue_3": (lambda: Queue(1, depth=3, style="block"), HOLDING),
    "behind_queue_2": (lambda: Queue(1, depth=2, style="behind"), HOLDING),
    "behind_queue_3": (lambda: Queue(1, depth=3, style="behind"), HOLDING),
    "beside_queue_2": (lambda: Queue(1, depth=2, style="beside"), HOLDING),
    "beside_queue_3": (lambda: Queue(1, depth=3, style="beside"), HOLDING),
    "prompt_queue_2": (lambda: Queue(1, depth=2, style="prompt"), HOLDING),
    "prompt_queue_4": (lambda: Queue(1, depth=4, style="prompt"), HOLDING),
    "fork_1": (lambda: Fork(1, outputs=1), (check_law, check_fork)),
    "fork_3": (lambda: Fork(1, outputs=3), (check_law, check_fork)),
    "arbiter_1": (lambda: Arbiter(1, inputs=1), (check_law, check_arbiter, check_fair)),
    "arbiter_2": (lambda: Arbiter(1, inputs=2), (check_law, check_arbiter, check_fair)),
    "arbiter_4": (lambda: Arbiter(1, inputs=4), (check_law, check_arbiter, check_fair)),
    "merger_2": (lambda: Merger(1, inputs=2), (*HOLDING, check_fair)),
    "merger_3": (lambda: Merger(1, inputs=3, depth=1), (*HOLDING, check_fair)),
    "widen_1": (lambda: Widen(1, factor=1), (check_law, check_widen)),
    "widen_2": (lambda: Widen(1, factor=2), (check_law, check_widen)),
    "widen_3": (lambda: Widen(1, factor=3), (check_law, check_widen)),
    "narrow_1": (lambda: Narrow(1, factor=1), (check_law, check_narrow)),
    "narrow_2": (lambda: Narrow(1, factor=2), (check_law, check_narrow)),
    "narrow_3": (lambda: Narrow(1, factor=3), (check_law, check_narrow)),
}


@pytest.mark.parametrize("name", PROOFS)
def test_proof(name: str) -> None:
    make, checks = PROOFS[name]
    result = prove(Harness(make(), *checks), mode="reach")
    assert result, result.log


TREES = [(2, 2, 2), (3, 2, 2), (3, 2, (2, 1)), (3, 2, (1, 2)), (3, 3, 3), (4, 2, 1)]


@pytest.mark.parametrize(("inputs", "fan_in", "depth"), TREES)
def test_proof_of_tree(inputs: int, fan_in: int, depth: Any) -> None:
    tree = MergeTree(TAGGED, inputs=inputs, fan_in=fan_in, depth=depth)
    result = prove(NumberedTree(tree), mode="reach")
    assert result, result.log


# ---------------------------------------------------------------------------------------------
# Each check must fail for a block that was broken on purpose
# ---------------------------------------------------------------------------------------------


TWO, THREE, FACTOR = {"depth": 2}, {"depth": 3}, {"factor": 2}
BLOCK = {"depth": 3, "style": "block"}
BESIDE = {"depth": 3, "style": "beside"}
BEHIND = {"depth": 3, "style": "behind"}
PROMPT = {"depth": 4, "style": "prompt"}

MUTANTS: list[tuple[type, dict[str, Any], Callable[..., None], str, str]] = [
    (Buffer, {}, check_law, "self.o.ready | ~self.o.valid", "self.o.ready | self.o.valid"),
    (Buffer, {}, check_order, "spare_full.eq(0)", "spare_full.eq(spare_full)"),
    (Buffer, {}, check_order, "self.i.valid | spare_full", "self.i.valid"),
    (Buffer, {}, check_progress, "ready.eq(~spare_full)", "ready.eq(~spare_full & self.o.ready)"),
    (Queue, {"depth": 1}, check_law, "~self.level | self.o.ready", "1"),
    (Queue, {"depth": 1}, check_progress, "~self.level | self.o.ready", "self.o.ready"),
    (Queue, TWO, check_order, "ready.eq(~full)", "ready.eq(1)"),
    (Queue, TWO, check_order, "self.level + 1, self.level - 1", "self.level + 1, self.level"),
    (Queue, TWO, check_progress, "self.level == self.depth - 1", "self.level == self.depth - 2"),
    (Queue, TWO, check_progress, "push | (self.level != 1)", "self.level > 1"),
    (Queue, THREE, check_order, "row == self.depth - 1", "row == self.depth"),
    (Queue, THREE, check_law, "fetch.eq(pop)", "fetch.eq(self.o.valid)"),
    (Queue, BLOCK, check_law, "+= read.en.eq(fetch)", "+= read.en.eq(1)"),
    (Queue, BLOCK, check_order, "more.eq(self.level > self.o.valid)", "more.eq(self.level != 0)"),
    (Queue, BLOCK, check_progress, "valid.eq(more |", "valid.eq((more & self.i.valid) |"),
    (Queue, BESIDE, check_order, "push & free & ~more", "push & free"),
    (Queue, BESIDE, check_order, "stored.eq(push & ~passes)", "stored.eq(push)"),
    (Queue, BESIDE, check_law, "Mux(passed, beside", "Mux(passes, beside"),
    (Queue, BESIDE, check_progress, "more | passes", "more"),
    (Queue, BEHIND, check_order, "self.level > self.o.valid + given", "self.level != 0"),
    (Queue, BEHIND, check_order, "& (taken | ~given)", ""),
    (Queue, PROMPT, check_order, "~deep.o.valid & front", "front"),
    (Queue, PROMPT, check_order, "push & ~past", "push"),
    (Queue, PROMPT, check_order, "deep.o.ready.eq(front.i.ready)", "deep.o.ready.eq(1)"),
    (Queue, PROMPT, check_progress, "deep.o.valid | (push & past)", "deep.o.valid"),
    (Fork, {"outputs": 2}, check_law, "served.eq(taken)", "served.eq(~taken)"),
    (Fork, {"outputs": 2}, check_fork, "served.eq(taken)", "served.eq(0)"),
    (Fork, {"outputs": 2}, check_fork, "taken.all()", "taken.any()"),
    (Fork, {"outputs": 2}, check_fork, "& ~served[k]", "& ~served[k] & self.o[k].ready"),
    (Arbiter, {"inputs": 3}, check_law, "(grant[k] & ~self.o.ready)", "0"),
    (Arbiter, {"inputs": 3}, check_arbiter, "wanted & lower)", "wanted)"),
    (Arbiter, {"inputs": 3}, check_arbiter, "self.i).any())", "self.i).any() & self.o.ready)"),
    (Arbiter, {"inputs": 3}, check_fair, "grant[:k].any()", "0"),
    (Merger, {"inputs": 2}, check_order, "queue.i)", "queue.i); m.d.comb += queue.i.valid.eq(0)"),
    (Merger, {"inputs": 2}, check_order, "level.eq(queue.level)", "level.eq(0)"),
    (Merger, {"inputs": 2}, check_law, "(self.o))", "(self.o)); m.d.comb += queue.o.ready.eq(1)"),
    (
        Merger,
        {"inputs": 2},
        check_progress,
        "(self.o))",
        "(self.o)); m.d.comb += self.o.valid.eq(0)",
    ),
    (Merger, {"inputs": 2}, check_order, "i[k]), arbiter.i[k])", "i[k]), arbiter.i[0])"),
    (Merger, {"inputs": 2}, check_fair, "i[k]), arbiter.i[k])", "i[k]), arbiter.i[0])"),
    (Widen, FACTOR, check_law, "~self.o.valid | self.o.ready", "1"),
    (Widen, FACTOR, check_widen, "Mux(self.o.valid, 0, self.o.p.count)", "self.o.p.count"),
    (Widen, FACTOR, check_widen, "self.i.ready.eq(free & ~cut)", "self.i.ready.eq(free)"),
    (Widen, FACTOR, check_widen, "self.o.p.end.eq(~cut)", "self.o.p.end.eq(1)"),
    (Widen, FACTOR, check_widen, "self.o.p.data[k]", "self.o.p.data[self.factor - 1 - k]"),
    (Narrow, FACTOR, check_law, "self.o.valid & self.o.ready", "self.o.valid"),
    (Narrow, FACTOR, check_narrow, "sent + 1 == self.i.p.count", "sent == self.i.p.count"),
    (Narrow, FACTOR, check_narrow, "self.i.valid & ~empty", "self.i.valid"),
    (Narrow, FACTOR, check_narrow, "Mux(last, 0, sent + 1)", "sent + 1"),
]


@pytest.mark.parametrize("index", range(len(MUTANTS)))
def test_mutant_fails(index: int) -> None:
    block, parameters, check, old, new = MUTANTS[index]
    whole = prove(Harness(block(1, **parameters), check))
    assert whole, whole.log
    result = prove(Harness(broken(block, old, new)(1, **parameters), check))
    assert not result, result.log


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("streams[source], merger.i[port]", "streams[group[0]], merger.i[port]"),
        ("wiring.flipped(self.o))", "wiring.flipped(self.o)); m.d.comb += streams[0].ready.eq(1)"),
        ("wiring.flipped(self.o))", "wiring.flipped(self.o)); m.d.comb += self.o.valid.eq(0)"),
    ],
)
def test_mutant_of_tree_fails(old: str, new: str) -> None:
    assert not prove(NumberedTree(broken(MergeTree, old, new)(TAGGED, inputs=3)))


# ---------------------------------------------------------------------------------------------
# Why the payloads above are so narrow
# ---------------------------------------------------------------------------------------------


def test_a_wide_payload_has_too_many_states() -> None:
    width = 16
    buffer = 2 * (width + 1)  # two places, and whether each is taken
    laws = 2 * (width + 1)  # at each end, what was offered last, and whether it waits
    model = 2 * width + 2  # what the buffer must hold, and how many, 0 to 2
    message = rf"^{buffer + laws + model} bits of state are too many to visit every state$"
    with pytest.raises(ProofError, match=message):
        prove(Harness(Buffer(width), check_law, check_order))
