# amaranth: UnusedElaboratable=no
"""No result queue of a handshake join overflows, and no match is lost: proved piece by piece.

The sequencer keeps its promise (after ``room`` fell, no more than ``NOTICE`` scans come), and a
prober whose caller keeps such a promise loses, repeats and invents nothing, however long its output
waits. A whole join, with little time, gives as many results as there are pairs.
"""

from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from joinery.expr import Column, Compare
from joinery.handshake import HandshakeJoin, engine, prober, sequencer
from joinery.join import JoinPair
from joinery.law import attach_law
from joinery.tuples import Field, IntType, Schema
from joinery_synth.prove import prove
from joinery_tb.mutants import broken

BIT = IntType(1, signed=False)
ROW = Schema((Field("key", BIT), Field("tag", BIT)))
SAME = Compare("=", *(Column(source, "key", ROW["key"]) for source in "rs"))
PAIR = JoinPair(("r", "s"), ROW, ROW, SAME, keep_left=("tag",), keep_right=())
KEYS = JoinPair(("r", "s"), ROW.select({"key"}), ROW.select({"key"}), SAME, ("key",), ())


class Promised(wiring.Component):
    """A prober whose caller stops ``notice`` cycles after ``room`` fell; one match is marked."""

    def __init__(self, *, depth: int, notice: int, ways: int) -> None:
        self.depth, self.notice, self.ways = depth, notice, ways
        super().__init__({"go": In(ways), "same": In(ways), "mark": In(1), "ready": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.prober = unit = prober.Prober(
            PAIR, side="left", ways=self.ways, ops_per_stage=2, depth=self.depth, notice=self.notice
        )
        latency = unit.latency + 1
        most = self.ways * (self.depth + latency)
        low = Signal(range(self.notice + 1))  # cycles for which room has been low
        held, marked, late = (
            Signal(range(most + self.ways + 1)),
            Signal(),
            Signal(range(latency + 1)),
        )
        with m.If(unit.room):
            m.d.sync += low.eq(0)
        with m.Elif(low != self.notice):
            m.d.sync += low.eq(low + 1)
        may_go = unit.room | (low != self.notice)
        m.d.comb += [
            unit.probe.tag.eq(self.mark & ~marked),
            # A probe that is marked meets one row at most: a mark stands for one match.
            unit.valid.eq(Mux(may_go, self.go & Mux(unit.probe.tag, 1, ~0), 0)),
            unit.o.ready.eq(self.ready),
        ]
        for way in range(self.ways):
            m.d.comb += unit.rows[way].key.eq(~self.same[way])
        found = sum((unit.valid & self.same)[way] for way in range(self.ways))
        leaves = unit.o.valid & unit.o.ready
        tag = unit.o.payload.left.tag
        m.d.sync += [
            held.eq(held + found - leaves),
            marked.eq(marked + ((found != 0) & unit.probe.tag) - (leaves & tag)),
            late.eq(Mux((held == 0) | unit.o.valid, 0, late + 1)),
        ]
        m.d.comb += [
            Assert(~unit.o.valid | (held != 0)),
            Assert(~(unit.o.valid & tag) | marked),
            Assert(~(unit.o.valid & marked & (held == 1)) | tag),
            Assert(held <= most),
            Assert(late < latency),
        ]
        attach_law(m, unit.o, name="law", domain="comb")
        return m


class Commanded(wiring.Component):
    """A sequencer with free inputs: a scan comes only if there was room ``NOTICE`` cycles ago, and
    nothing is shifted without one."""

    def __init__(self, *, sheds: bool = False) -> None:
        self.sheds = sheds
        super().__init__(
            {"valid": In(1), "what": In(3), "room": In(1), "busy": In(1), "ready": In(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sequencer = unit = sequencer.Sequencer(
            KEYS, left_cycles=2, right_cycles=3, drain_steps=2, flight_cycles=2, sheds=self.sheds
        )
        m.d.comb += [
            unit.i.valid.eq(self.valid),
            unit.i.payload.end.eq(self.what == 0),
            unit.i.payload.has_left.eq(self.what[0]),
            unit.i.payload.has_right.eq(self.what[1]),
            unit.room.eq(self.room),
            unit.busy.eq(self.busy),
            unit.o_end.ready.eq(self.ready),
        ]
        room = self.room
        for ago in range(1, unit.NOTICE + 1):
            before, room = room, Signal(name=f"room_{ago}_ago")
            m.d.sync += room.eq(before)
        command, scanned_right = unit.command, Signal()
        m.d.sync += scanned_right.eq(command.scan_right)
        m.d.comb += [
            Assert(~(command.scan_left | command.scan_right) | room),
            Assert(~unit.shift_left | (command.scan_left & (command.index == 0))),
            Assert(~unit.shift_right | scanned_right),
        ]
        attach_law(m, unit.o_end, name="law", domain="comb")
        return m


class Counted(wiring.Component):
    """A join of one-bit keys: when the end leaves, as many results have as there are pairs."""

    ROWS = 1

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        super().__init__(
            {"valid": In(1), "what": In(2), "left": In(1), "right": In(1), "ready": In(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.join = join = HandshakeJoin(
            KEYS, rows_left=self.ROWS, rows_right=self.ROWS, **self.settings
        )
        i, o = join.i.payload, join.o.payload
        # What was offered stays until it is taken.
        held: Any = Signal(KEYS.transfer)
        waits = Signal()
        offer: Any = Signal(KEYS.transfer)
        m.d.comb += [
            offer.end.eq(self.what == 0),
            offer.has_left.eq(self.what[0]),
            offer.has_right.eq(self.what[1]),
            offer.left.key.eq(self.left),
            offer.right.key.eq(self.right),
            i.eq(Mux(waits, held, offer)),
            join.i.valid.eq(self.valid | waits),
            join.o.ready.eq(self.ready),
        ]
        m.d.sync += [held.eq(i), waits.eq(join.i.valid & ~join.i.ready)]

        lefts = Signal(2 * self.ROWS)  # a bit that says there is a row, and its key
        rights = Signal(2 * self.ROWS)
        pairs, results = Signal(6), Signal(6)
        taken = join.i.valid & join.i.ready & ~i.end
        lefts_now = Mux(i.has_left, (lefts << 2) | (i.left.key << 1) | 1, lefts)[: 2 * self.ROWS]
        rights_now = Mux(i.has_right, (rights << 2) | (i.right.key << 1) | 1, rights)
        # The left one is first, so the right one finds it.
        found = sum(
            (i.has_left & rights[2 * k] & (rights[2 * k + 1] == i.left.key))
            + (i.has_right & lefts_now[2 * k] & (lefts_now[2 * k + 1] == i.right.key))
            for k in range(self.ROWS)
        )
        with m.If(taken):
            m.d.sync += [lefts.eq(lefts_now), rights.eq(rights_now), pairs.eq(pairs + found)]
        leaves = join.o.valid & join.o.ready
        with m.If(leaves & o.end):
            m.d.sync += [lefts.eq(0), rights.eq(0), pairs.eq(0), results.eq(0)]
        with m.Elif(leaves):
            m.d.sync += results.eq(results + sum(lane.valid for lane in o.lanes))
        m.d.comb += [
            Assert(~(join.o.valid & o.end) | (results == pairs)),
            Assert(results <= pairs),
        ]
        return m


PROOFS: dict[str, tuple[Callable[[], Any], str, int]] = {
    "prober": (lambda: Promised(depth=3, notice=1, ways=1), "reach", 1),
    "prober of two ways": (lambda: Promised(depth=2, notice=0, ways=2), "reach", 1),
    "prober, longer notice": (lambda: Promised(depth=4, notice=2, ways=1), "reach", 1),
    "sequencer": (Commanded, "reach", 1),
    "sequencer that sheds": (lambda: Commanded(sheds=True), "reach", 1),
    "chain": (lambda: Counted(cores=1), "bmc", 14),
    "broadcast": (lambda: Counted(cores=1, flow="broadcast"), "bmc", 14),
}


@pytest.mark.parametrize("name", PROOFS)
def test_proof(name: str) -> None:
    make, mode, depth = PROOFS[name]
    result = prove(make(), mode=mode, depth=depth, timeout=300)
    assert result, result.log


MUTANTS: list[tuple[str, Any, str, str, str]] = [
    ("prober", prober, "Prober", "< self.depth - self.reserve", "<= self.depth - self.reserve"),
    ("prober", prober, "Prober", "tested & Cat(", "Cat("),
    ("prober of two ways", prober, "Expander", "self.o.ready & (after == 0)", "self.o.ready"),
    ("prober of two ways", prober, "Expander", "Mux(after == 0, 0, ~after)", "0"),
    ("sequencer", sequencer, "Sequencer", "self.room & (begin | busy)", "begin | busy"),
    ("sequencer", sequencer, "Sequencer", "free.eq(self.room & ~busy)", "free.eq(~busy)"),
    (
        "sequencer",
        sequencer,
        "Sequencer",
        "begin.eq(free & ~drained)",
        "begin.eq(~busy & ~drained)",
    ),
    ("sequencer that sheds", sequencer, "Sequencer", "self.i.valid & free", "self.i.valid & ~busy"),
    ("chain", sequencer, "Sequencer", "landed & ~self.busy", "landed"),
    (
        "broadcast",
        sequencer,
        "Sequencer",
        "~i.end & (i.has_left | i.has_right)",
        "~i.end & i.has_left",
    ),
]


@pytest.mark.parametrize("index", range(len(MUTANTS)))
def test_mutant_fails(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, module, unit, old, new = MUTANTS[index]
    mutant = broken(getattr(module, unit), old, new)
    for place in (module, engine):
        if hasattr(place, unit):
            monkeypatch.setattr(place, unit, mutant)
    make, mode, depth = PROOFS[name]
    result = prove(make(), mode=mode, depth=depth, timeout=300)
    assert not result, result.log
