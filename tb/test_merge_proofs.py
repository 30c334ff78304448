# amaranth: UnusedElaboratable=no
"""The merging networks proved on small instances, and broken on purpose to see each proof fail."""

from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from joinery.law import attach_law
from joinery.merge import FsmTreeNetwork, RingNetwork, TreeNetwork
from joinery.merge import fsm_tree as fsm_module
from joinery.merge import ring as ring_module
from joinery.merge import tree as tree_module
from joinery.stream import MergeTree
from joinery_synth.prove import prove
from joinery_tb.mutants import broken
from joinery_tb.simulate import run_stream


def moves(each: Any) -> Any:
    return each.valid & each.ready


def levels_of(network: Any) -> int:
    return len(MergeTree.count_mergers(-(-network.inputs // network.lanes), network.fan_in))


class Marked(wiring.Component):
    """A network of one-bit results, one of which at most is marked while it is inside.

    When results come, which of them is marked, and when the outputs are ready is free. What goes
    in comes out once if a mark comes out only when it went in, a mark that went in alone comes out,
    and the results inside are as many as ``busy`` and the outputs show. None is held back: one is
    offered within ``latency`` cycles.
    """

    def __init__(self, network: Any, *, latency: int) -> None:
        self.network = network
        self.latency = latency
        super().__init__(
            {
                "valid": In(network.inputs),
                "mark": In(range(network.inputs + 1)),
                "ready": In(network.lanes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.network = network = self.network
        held = Signal(range(network.rows + network.inputs + 1))
        marked = Signal()
        late = Signal(range(self.latency + 1))
        offered = sum(o.valid for o in network.o)

        for k, i in enumerate(network.i):
            waiting = Signal(name=f"waiting_{k}")
            m.d.comb += i.valid.eq(self.valid[k] | waiting)
            m.d.comb += i.payload.eq((self.mark == k + 1) & ~marked)
            m.d.sync += waiting.eq(i.valid & ~i.ready)
        for k, o in enumerate(network.o):
            m.d.comb += o.ready.eq(self.ready[k])
            m.d.comb += Assert(~(o.valid & marked & (held == 1)) | o.payload)
            attach_law(m, o, name=f"law_{k}", domain="comb")
        enters = sum(moves(i) & i.payload for i in network.i)
        leaves = sum(moves(o) & o.payload for o in network.o)
        m.d.sync += marked.eq(marked + enters - leaves)
        m.d.sync += held.eq(held + sum(map(moves, network.i)) - sum(map(moves, network.o)))
        m.d.sync += late.eq(Mux((held == 0) | (offered != 0), 0, late + 1))
        m.d.comb += [
            Assert(sum(o.valid & o.payload for o in network.o) <= marked),
            Assert(offered <= held),
            Assert(held <= network.rows),
            Assert(network.busy == (held != 0)),
            Assert(late < self.latency),
        ]
        return m


class Crowded(wiring.Component):
    """A network whose inputs never run dry, with one result marked at a time.

    While the marked one is inside, at most twice as many others leave as the network holds.
    """

    def __init__(self, network: Any) -> None:
        self.network = network
        super().__init__({"mark": In(range(network.inputs + 1)), "ready": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.network = network = self.network
        o = network.o[0]
        marked = Signal()
        passed = Signal(range(2 * network.rows + 2))
        for k, i in enumerate(network.i):
            m.d.comb += [i.valid.eq(1), i.payload.eq((self.mark == k + 1) & ~marked)]
        enters = sum(moves(i) & i.payload for i in network.i)
        m.d.comb += o.ready.eq(self.ready)
        m.d.sync += marked.eq(marked + enters - (moves(o) & o.payload))
        m.d.sync += passed.eq(Mux(marked, passed + moves(o), 0))
        m.d.comb += Assert(passed <= 2 * network.rows)
        return m


def marked_tree(**options: Any) -> Marked:
    network = TreeNetwork(1, **options)
    return Marked(network, latency=levels_of(network))


def marked_ring(**options: Any) -> Marked:
    network = RingNetwork(1, **options)
    return Marked(network, latency=1 + levels_of(network))


def marked_fsm_tree(**options: Any) -> Marked:
    network = FsmTreeNetwork(1, **options)
    return Marked(network, latency=1 + 4 * len(network.depths))


PROOFS: dict[str, Callable[[], Any]] = {
    "tree_2": lambda: marked_tree(inputs=2),
    "tree_3": lambda: marked_tree(inputs=3, fan_in=2, depth=[2, 1]),
    "tree_3_lanes_2": lambda: marked_tree(inputs=3, lanes=2),
    "ring_1": lambda: marked_ring(inputs=1, depth=3),
    "ring_2": lambda: marked_ring(inputs=2, depth=2),
    "ring_2_crowded": lambda: Crowded(RingNetwork(1, inputs=2, depth=2)),
    "ring_2_crowded_deeper": lambda: Crowded(RingNetwork(1, inputs=2, depth=3)),
    "fsm_tree_1": lambda: marked_fsm_tree(inputs=1),
    "fsm_tree_2": lambda: marked_fsm_tree(inputs=2),
}


@pytest.mark.parametrize("name", PROOFS)
def test_proof(name: str) -> None:
    result = prove(PROOFS[name](), mode="reach", timeout=300)
    assert result, result.log


BOUNDED: dict[str, tuple[Callable[[], Any], int]] = {
    "tree_5": (lambda: marked_tree(inputs=5, fan_in=3), 8),
    "ring_3": (lambda: marked_ring(inputs=3, depth=2), 6),
    "fsm_tree_3": (lambda: marked_fsm_tree(inputs=3), 16),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_proof(name: str) -> None:
    make, depth = BOUNDED[name]
    result = prove(make(), mode="bmc", depth=depth, timeout=300)
    assert result, result.log


# ---------------------------------------------------------------------------------------------
# Each proof must fail for a network that was broken on purpose
# ---------------------------------------------------------------------------------------------


MUTANTS: list[tuple[str, Any, str, str, str]] = [
    ("tree_2", tree_module, "collect", "streams[source], i)", "streams[sources[0]], i)"),
    ("tree_2", tree_module, "collect", "Cat(busy).any()", "Cat(busy).any() & network.o[0].ready"),
    (
        "tree_2",
        tree_module,
        "collect",
        "flipped(o))",
        "flipped(o)); m.d.comb += tree.o.ready.eq(1)",
    ),
    ("tree_3_lanes_2", tree_module, "collect", "Cat(busy).any()", "busy[0]"),
    ("ring_2", ring_module, "RingNode", "self.level < self.depth - kept", "1"),
    ("ring_2", ring_module, "RingNode", "own_port.any()", "1"),
    ("ring_2", ring_module, "RingNode", "second, first_takes)", "second, C(0, PORTS.size))"),
    ("ring_2", ring_module, "RingNode", "~port.own & free.up &", "free.up &"),
    ("ring_2", ring_module, "RingNode", "from_up | from_down | from_own", "from_up | from_own"),
    ("ring_2", ring_module, "RingNode", "busy.eq(queue.level.any() |", "busy.eq("),
    ("ring_2", ring_module, "RingNode", "valid.eq(up.own | down.own", "valid.eq(up.own"),
    ("ring_2_crowded", ring_module, "RingNode", "init=self.first", "init=0"),
    ("ring_2_crowded", ring_module, "RingNode", "kept.eq(refused)", "kept.eq(0)"),
    ("fsm_tree_2", fsm_module, "FsmMerger", "self.depth - PLACES_LEFT", "self.depth"),
    ("fsm_tree_2", fsm_module, "FsmMerger", 'f"WRITE_{k}"', '"WRITE_0"'),
    ("fsm_tree_2", fsm_module, "FsmMerger", "self.o.valid & self.o.ready),", "self.o.valid),"),
    ("fsm_tree_2", fsm_module, "FsmMerger", "(reading | waiting)", "reading"),
    ("fsm_tree_2", fsm_module, "FsmMerger", "queue.level + sum(valid)", "queue.level"),
    (
        "fsm_tree_2",
        fsm_module,
        "FsmMerger",
        "valid[k].eq(i.valid & i.ready)",
        "valid[k].eq(i.valid)",
    ),
]


@pytest.mark.parametrize("index", range(len(MUTANTS)))
def test_mutant_fails(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proof, module, name, old, new = MUTANTS[index]
    monkeypatch.setattr(module, name, broken(getattr(module, name), old, new))
    result = prove(PROOFS[proof](), mode="reach", timeout=300)
    assert not result, result.log


@pytest.mark.parametrize("lost", [False, True])
def test_mutant_of_a_larger_ring_fails(lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes are each other's neighbour on both sides, so that links are never contended."""
    if lost:
        node = broken(ring_module.RingNode, "(rather_up | ~free.down)", "rather_up")
        monkeypatch.setattr(ring_module, "RingNode", node)
    network = RingNetwork(10, inputs=5, depth=2)
    sent = {f"i[{k}]": range(64 * k, 64 * k + 20) for k in range(5)}
    received = run_stream(network, sent, stall_in=0.5, stall_out=0.5).outputs["o[0]"]
    assert (len(received) < 100) == lost


@pytest.mark.parametrize(("inputs", "depth"), [(4, 2), (8, 4)])
@pytest.mark.parametrize("turns", [True, False])
def test_ring_keeps_no_result_for_ever(
    inputs: int, depth: int, turns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without turns, full FIFOs and the tree's round fall into step, and some never leave."""
    if not turns:
        node = broken(ring_module.RingNode, "init=self.first", "init=0")
        monkeypatch.setattr(ring_module, "RingNode", node)
    network = RingNetwork(16, inputs=inputs, depth=depth)
    entered: dict[int, int] = {}
    longest = 0

    async def bench(ctx: Any) -> None:
        nonlocal longest
        ctx.set(network.o[0].ready, 1)
        for cycle in range(8 * network.rows):
            for k, i in enumerate(network.i):
                ctx.set(i.valid, 1)
                ctx.set(i.payload, cycle * inputs + k)
                if ctx.get(i.ready):
                    entered[cycle * inputs + k] = cycle
            if ctx.get(network.o[0].valid):
                entered.pop(ctx.get(network.o[0].payload))
            longest = max(longest, cycle - min(entered.values()))
            await ctx.tick()

    simulator = Simulator(network)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert (longest < 2 * network.rows) == turns
