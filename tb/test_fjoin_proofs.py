# amaranth: UnusedElaboratable=no
"""No match of a join pipeline is lost, repeated or invented: proved on small instances.

The solver chooses the tuples, how many each batch and its window have, the stalls, and one pair to
watch, by giving a tuple of each side an id of its own. In every run of a number of cycles this pair
leaves once if its tuples came in the same batch and have the same key, and else never. So it is for
every pair, since any may be the one that is watched. Each proof is seen to fail on a broken design.
"""

from typing import Any

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from joinery.expr import Column, Compare
from joinery.fjoin import FJoinPipeline, cluster, edge, head, pipeline
from joinery.join import JoinPair
from joinery.law import attach_law
from joinery.tuples import Field, IntType, Schema
from joinery_synth.prove import prove
from joinery_tb.mutants import broken

BIT = IntType(1, signed=False)
ROW = Schema((Field("key", BIT),))
PAIR = JoinPair(
    ("r", "s"), ROW, ROW, Compare("=", Column("r", "key", BIT), Column("s", "key", BIT)), (), ()
)
CYCLES = 21
"""Room for a batch of two tuples with a window of two, and stalls of a few cycles."""

IDS = {"stream": (1, 2), "window": (7, 0)}
"""The ids of tuples that are not watched, and of the one that is; any two are in order."""


class Watched(wiring.Component):
    """A pipeline whose inputs and output are free, and what the definition says of one pair."""

    def __init__(self, *, units: int, cluster: int, lanes: int) -> None:
        self.pipeline = FJoinPipeline(
            PAIR, side="left", units=units, cluster=cluster, lanes=lanes, id_bits=3, time_bits=2,
            depth=16,
        )  # fmt: skip
        super().__init__(
            {
                f"{role}_{name}": In(1)
                for role in ("stream", "window")
                for name in ("valid", "end", "key", "watched")
            }
            | {"ready": In(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.pipeline = unit = self.pipeline
        started = Signal()
        m.d.sync += started.eq(1)
        m.d.comb += [unit.o.ready.eq(self.ready), Assume(~ResetSignal() | ~started)]
        attach_law(m, unit.o, name="law", domain="comb")
        left, right = (Side(m, self, role) for role in IDS)
        size = Signal(range(unit.shape.units + 1))
        with m.If(left.moves):
            m.d.sync += size.eq(Mux(left.end, 0, size + 1))
        m.d.comb += Assume(~left.port.valid | left.end | (size < unit.shape.units))

        wanted = left.seen & right.seen & (left.batch == right.batch) & (left.key == right.key)
        batch, came = Signal(BATCH_BITS), Signal()
        out = unit.o.payload
        leaves = unit.o.valid & unit.o.ready
        found = [
            lane.valid & (lane.match.stream == IDS["stream"][1])
            & (lane.match.window == IDS["window"][1])
            for lane in out.lanes
        ]  # fmt: skip
        is_watched = leaves & ~out.end & Cat(found).any()
        ends = leaves & out.end
        with m.If(is_watched):
            m.d.sync += came.eq(1)
        with m.If(ends):
            m.d.sync += batch.eq(batch + 1)
        m.d.comb += [
            Assert(~is_watched | (wanted & ~came & (batch == left.batch) & (sum(found) == 1))),
            Assert(~ends | ~wanted | (batch != left.batch) | came),
        ]
        return m


BATCH_BITS = 3


class Side:
    """Drives an input with what is free, holds it until it is taken, and keeps what is watched.

    ``moves`` tells of a transfer, ``end`` whether it is one. Of the tuple that is watched, ``seen``
    says that it came, ``batch`` with which, and ``key`` is its own.
    """

    def __init__(self, m: Module, design: Watched, role: str) -> None:
        self.port = port = getattr(design.pipeline, f"i_{role}")
        valid, end, key, watched = (
            getattr(design, f"{role}_{name}") for name in ("valid", "end", "key", "watched")
        )
        free = Cat(end, key, watched)
        held, waits = Signal(3, name=f"{role}_held"), Signal(name=f"{role}_waits")
        now = Signal(3, name=f"{role}_now")
        batch = Signal(BATCH_BITS, name=f"{role}_batch")
        self.end, row = now[0], port.payload.tuple
        self.moves = port.valid & port.ready
        self.seen = Signal(name=f"{role}_seen")
        self.batch = Signal(BATCH_BITS, name=f"{role}_watched_batch")
        self.key = Signal(name=f"{role}_watched_key")
        plain, special = IDS[role]
        m.d.comb += [
            now.eq(Mux(waits, held, free)),
            port.valid.eq(valid | waits),
            port.payload.end.eq(now[0]),
            row.columns.key.eq(now[1]),
            row.id.eq(Mux(now[2], special, plain)),
            row.time.eq(0),
            Assume(~(port.valid & now[2] & self.seen)),
        ]
        m.d.sync += [waits.eq(port.valid & ~port.ready), held.eq(now)]
        with m.If(self.moves & now[0]):
            m.d.sync += batch.eq(batch + 1)
        with m.If(self.moves & ~now[0] & now[2]):
            m.d.sync += [self.seen.eq(1), self.batch.eq(batch), self.key.eq(now[1])]


def check(units: int, cluster_units: int, lanes: int, cycles: int = CYCLES) -> Any:
    design = Watched(units=units, cluster=cluster_units, lanes=lanes)
    return prove(design, mode="bmc", depth=cycles, timeout=300)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2, 1), (2, 1, 2)])
def test_each_pair_once(sizes: tuple[int, int, int]) -> None:
    result = check(*sizes)
    assert result, result.log


MUTANTS = [
    (cluster, "Cluster", "tested & Cat(found)", "tested"),
    (cluster, "Cluster", "full & step.flows", "step.flows"),
    (edge, "Picker", "self.o.ready & last", "self.o.ready"),
    (edge, "Picker", "last.eq(self.i.payload.single)", "last.eq(1)"),
    (head, "Sequencer", "flows.eq(~i.end)", "flows.eq(~i.end & (slot == 0) & ~waiting[0])"),
]


@pytest.mark.parametrize("index", range(len(MUTANTS)))
def test_mutant_fails(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, old, new = MUTANTS[index]
    mutant = broken(getattr(module, name), old, new)
    for place in (module, pipeline):
        if hasattr(place, name):
            monkeypatch.setattr(place, name, mutant)
    result = check(2, 2, 1)
    assert not result, result.log
