# amaranth: UnusedElaboratable=no
"""The stream blocks: proved on small instances, tried on larger ones, and broken on purpose."""

import inspect
import random
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.law import StreamLaw, attach_law
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
from joinery_synth.prove import ProofError, prove
from joinery_tb.simulate import STALLS, run_stream, streams_of

PAIR = data.StructLayout({"key": 3, "value": signed(5)})
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
        for row, above in zip(rows, rows[1:], strict=False):
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
    """What is held is offered within two cycles, ready or not; where there is room, it is ready."""
    capacity = getattr(dut, "depth", 2)
    held = Signal(range(capacity + 1))
    late = Signal(range(4))
    m.d.sync += held.eq(held + Cat(moves(i) for i in all_of(dut.i)).any() - moves(dut.o))
    with m.If((held != 0) & ~dut.o.valid):
        m.d.sync += late.eq(late + 1)
    with m.Else():
        m.d.sync += late.eq(0)
    slack = 1 if getattr(dut, "style", "") == "block" else 0
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
    """No input sees more than one transfer of each other input while it waits."""
    for k, i in enumerate(dut.i):
        passed = Signal(range(len(dut.i) + 1), name=f"passed_{k}")
        with m.If(~i.valid | i.ready):
            m.d.sync += passed.eq(0)
        with m.Elif(Cat(moves(other) for other in dut.i).any()):
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


def broken(block: type, old: str, new: str) -> Any:
    """Return ``block`` with one expression of its source replaced by a wrong one."""
    source = textwrap.dedent(inspect.getsource(block))
    assert source.count(old) == 1, f"{block.__name__} has {source.count(old)} of {old!r}"
    namespace = dict(vars(inspect.getmodule(block)))
    exec(source.replace(old, new), namespace)
    return namespace[block.__name__]


TWO, THREE, FACTOR = {"depth": 2}, {"depth": 3}, {"factor": 2}
BLOCK = {"depth": 3, "style": "block"}

MUTANTS: list[tuple[type, dict[str, Any], Callable[..., None], str, str]] = [
    (Buffer, {}, check_law, "self.o.ready | ~self.o.valid", "self.o.ready | self.o.valid"),
    (Buffer, {}, check_order, "spare_full.eq(0)", "spare_full.eq(spare_full)"),
    (Buffer, {}, check_order, "self.i.valid | spare_full", "self.i.valid"),
    (Buffer, {}, check_progress, "ready.eq(~spare_full)", "ready.eq(~spare_full & self.o.ready)"),
    (Queue, {"depth": 1}, check_law, "~self.level | self.o.ready", "1"),
    (Queue, {"depth": 1}, check_progress, "~self.level | self.o.ready", "self.o.ready"),
    (Queue, TWO, check_order, "self.level != self.depth", "1"),
    (Queue, TWO, check_order, "self.level + push - pop", "self.level + push"),
    (Queue, TWO, check_progress, "self.level != self.depth", "self.level != self.depth - 1"),
    (Queue, TWO, check_progress, "self.level != 0)", "(self.level != 0) & self.o.ready)"),
    (Queue, THREE, check_order, "row == self.depth - 1", "row == self.depth"),
    (Queue, THREE, check_law, "fetch.eq(pop)", "fetch.eq(self.o.valid)"),
    (Queue, BLOCK, check_law, "read.en.eq(fetch)", "read.en.eq(1)"),
    (Queue, BLOCK, check_order, "self.level > self.o.valid", "self.level != 0"),
    (Queue, BLOCK, check_progress, "valid.eq(more)", "valid.eq(more & self.i.valid)"),
    (Fork, {"outputs": 2}, check_law, "served.eq(taken)", "served.eq(~taken)"),
    (Fork, {"outputs": 2}, check_fork, "served.eq(taken)", "served.eq(0)"),
    (Fork, {"outputs": 2}, check_fork, "taken.all()", "taken.any()"),
    (Fork, {"outputs": 2}, check_fork, "& ~served[k]", "& ~served[k] & self.o[k].ready"),
    (Arbiter, {"inputs": 3}, check_law, "m.If(held)", "m.If(0)"),
    (Arbiter, {"inputs": 3}, check_arbiter, "first & -first", "first"),
    (Arbiter, {"inputs": 3}, check_arbiter, "requests.any()", "requests.any() & self.o.ready"),
    (Arbiter, {"inputs": 3}, check_fair, "later.eq(~(grant ^ (grant - 1)))", "later.eq(0)"),
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
# The law, and the prover itself
# ---------------------------------------------------------------------------------------------


class Lawless(wiring.Component):
    """A stream whose ``valid`` or payload follows a free input."""

    def __init__(self, *, free: str, domain: str = "comb") -> None:
        self.free = free
        self.domain = domain
        super().__init__({"whim": In(1), "o": Out(stream.Signature(1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.valid.eq(self.whim if self.free == "valid" else 1)
        m.d.comb += self.o.payload.eq(self.whim if self.free == "payload" else 1)
        attach_law(m, self.o, name="law", domain=self.domain)
        return m


@pytest.mark.parametrize("mode", ["reach", "bmc", "induction"])
@pytest.mark.parametrize(("free", "kept"), [("valid", False), ("payload", False), ("", True)])
def test_law(mode: str, free: str, kept: bool) -> None:
    result = prove(Lawless(free=free), mode=mode, depth=4)
    assert result.proved is kept, result.log
    assert kept or result.steps == 2


@pytest.mark.parametrize("free", ["valid", "payload"])
def test_law_in_simulation(free: str) -> None:
    dut = Lawless(free=free, domain="sync")

    async def bench(ctx: Any) -> None:
        ctx.set(dut.whim, 1)
        await ctx.tick()
        ctx.set(dut.whim, 0)
        await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    with pytest.raises(AssertionError, match="^Assertion violated$"):
        simulator.run()


def test_law_refuses() -> None:
    with pytest.raises(ValueError, match=r"^StreamLaw domain must be sync or comb, not 'x'$"):
        StreamLaw(1, domain="x")
    with pytest.raises(ValueError, match=r"^StreamLaw assumes in the comb domain only$"):
        StreamLaw(1, assume=True)


class Counter(wiring.Component):
    """Count from 1 to 9 and start again, claiming never to reach ``never``."""

    def __init__(self, *, never: int | None, assume: bool = False) -> None:
        self.never = never
        self.assume = assume
        super().__init__({"step": In(1), "count": Out(4, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.If(self.step):
            m.d.sync += self.count.eq(Mux(self.count == 9, 1, self.count + 1))
        if self.never is not None:
            m.d.comb += Assert(self.count != self.never)
        if self.assume:
            m.d.comb += Assume(~self.step)
        return m


def test_prove_visits_every_state() -> None:
    result = prove(Counter(never=15))
    assert (result.proved, result.states, result.steps) == (True, 9, 9)


def test_prove_by_induction_needs_an_inductive_claim() -> None:
    assert prove(Counter(never=0), mode="bmc", depth=12)
    assert not prove(Counter(never=15), mode="induction", depth=3)


@pytest.mark.parametrize("mode", ["reach", "bmc", "induction"])
def test_prove_finds_the_shortest_run(mode: str) -> None:
    result = prove(Counter(never=9), mode=mode, depth=12)
    assert (result.proved, result.steps) == (False, 9)


def test_prove_bmc_is_bounded() -> None:
    assert prove(Counter(never=9), mode="bmc", depth=8)


def test_prove_refuses() -> None:
    with pytest.raises(ValueError, match=r"^Proof mode must be reach, bmc or induction, not 'x'$"):
        prove(Counter(never=0), mode="x")
    with pytest.raises(ValueError, match=r"^Proof depth must be a positive integer, not 0$"):
        prove(Counter(never=0), depth=0)
    with pytest.raises(ProofError, match=r"^The design has no assertion, so there is nothing"):
        prove(Counter(never=None))
    with pytest.raises(ProofError, match=r"^The design never leaves its first state"):
        prove(Counter(never=0, assume=True))
    with pytest.raises(ProofError, match=r"^102 bits of state are too many to visit every state$"):
        prove(Harness(Buffer(16), check_law, check_order))


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
@given(depth=st.integers(0, 9), block=st.booleans(), pauses=st.tuples(stalls, stalls), seed=seeds)
def test_queue_against_reference(depth: int, block: bool, pauses: Any, seed: int) -> None:
    style = "block" if block and depth > 1 else "auto"
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
    for depth, style in ((1, "auto"), (2, "auto"), (5, "auto"), (2, "block"), (5, "block")):
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
            "Queue style must be auto, distributed or block, not 'lut'",
        ),
        (
            lambda: Queue(1, depth=1, style="block"),
            "Queue of depth 1 is a register and has no block style",
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
        m.d.sync += stuck.eq(stuck | (moves(self.i) & (self.fault == "stuck")))
        m.d.comb += self.i.ready.eq(self.o.ready & ~stuck)
        m.d.comb += self.o.valid.eq(self.i.valid & ~stuck)
        m.d.comb += self.o.payload.eq(cycle if self.fault == "fickle" else self.i.payload)
        return m


def test_bench_reports_a_stuck_block() -> None:
    with pytest.raises(AssertionError, match=r"^Stuck, with transfers left to send: {'i': 2}"):
        run_stream(Faulty(fault="stuck"), {"i": [1, 2, 3]})


def test_bench_reports_a_broken_law() -> None:
    with pytest.raises(AssertionError, match=r"^o broke the stream law in cycle 1"):
        run_stream(Faulty(fault="fickle"), {"i": [1]}, stall_out=(True, True, False))


def test_bench_refuses() -> None:
    with pytest.raises(ValueError, match=r"^The inputs are \['i'\], not \['x'\]$"):
        run_stream(Buffer(1), {"x": []})
    with pytest.raises(ValueError, match=r"^Stall of o never ends: \(True,\)$"):
        run_stream(Buffer(1), {"i": []}, stall_out=(True,))
