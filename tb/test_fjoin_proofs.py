# amaranth: UnusedElaboratable=no
"""No match of a join pipeline is lost, repeated or invented: proved on small instances.

Two promises make it. Whatever the output does, the queue at the edge never refuses a bitmap. And
in every run of a number of cycles, when the end of a batch leaves, as many results have left as
pairs went in, for any tuples, windows and stalls. Each proof is seen to fail on a broken design.
"""

from typing import Any

import pytest
from amaranth.hdl import Assert, Module, Mux, Signal
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
CYCLES = 23


class Counted(wiring.Component):
    """A pipeline whose inputs and output are free; ids are such that every match may leave."""

    def __init__(self, *, units: int, cluster: int, lanes: int) -> None:
        self.pipeline = FJoinPipeline(
            PAIR, side="left", units=units, cluster=cluster, lanes=lanes, id_bits=2, time_bits=2,
            depth=16,
        )  # fmt: skip
        super().__init__(
            {
                f"{role}_{name}": In(1)
                for role in ("stream", "window")
                for name in ("valid", "end", "key")
            }
            | {"ready": In(1)}
        )

    def _offer(self, m: Module, role: str) -> Any:
        """Drive an input with what is free, and hold it until it is taken; return what moves."""
        port = getattr(self.pipeline, f"i_{role}")
        held, waits = Signal(2, name=f"{role}_held"), Signal(name=f"{role}_waits")
        end, key = (getattr(self, f"{role}_{name}") for name in ("end", "key"))
        row = port.payload.tuple
        m.d.comb += [
            port.valid.eq(getattr(self, f"{role}_valid") | waits),
            port.payload.end.eq(Mux(waits, held[1], end)),
            row.columns.key.eq(Mux(waits, held[0], key)),
            row.id.eq(role == "stream"),
            row.time.eq(0),
        ]
        m.d.sync += [
            waits.eq(port.valid & ~port.ready),
            held[0].eq(row.columns.key), held[1].eq(port.payload.end),
        ]  # fmt: skip
        return port.valid & port.ready

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.pipeline = unit = self.pipeline
        moves = {role: self._offer(m, role) for role in ("stream", "window")}
        m.d.comb += unit.o.ready.eq(self.ready)
        attach_law(m, unit.o, name="law", domain="comb")
        # The first batch: its tuples by key, then its window; the tuples are loaded before.
        counts = [Signal(3, name=f"tuples_{key}") for key in (0, 1)]
        loaded, over = Signal(), Signal()
        pairs, results, size = Signal(7), Signal(7), Signal(3)
        stream, window = unit.i_stream.payload, unit.i_window.payload
        with m.If(moves["stream"] & ~loaded):
            m.d.sync += [loaded.eq(stream.end), size.eq(size + 1)]
            for key, count in enumerate(counts):
                m.d.sync += count.eq(count + (~stream.end & (stream.tuple.columns.key == key)))
        with m.If(moves["window"] & ~over):
            met = Mux(window.tuple.columns.key, counts[1], counts[0])
            m.d.sync += [over.eq(window.end), pairs.eq(pairs + Mux(window.end, 0, met))]
        gone = Signal()
        leaves = unit.o.valid & unit.o.ready & ~gone
        m.d.sync += results.eq(
            results + Mux(leaves, sum(lane.valid for lane in unit.o.payload.lanes), 0)
        )
        with m.If(leaves & unit.o.payload.end):
            m.d.sync += gone.eq(1)
        legal = Signal(init=1)  # no batch has more tuples than units
        m.d.sync += legal.eq(
            legal & ~((size == self.pipeline.shape.units) & moves["stream"] & ~loaded & ~stream.end)
        )
        m.d.comb += [
            Assert(
                ~legal | gone | ~(unit.o.valid & unit.o.payload.end) | (over & (results == pairs))
            ),
            Assert(~legal | gone | (results <= pairs)),
        ]
        return m


def check(units: int, cluster_units: int, lanes: int) -> Any:
    design = Counted(units=units, cluster=cluster_units, lanes=lanes)
    return prove(design, mode="bmc", depth=CYCLES, timeout=300)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2, 1)])
def test_as_many_results_as_pairs(sizes: tuple[int, int, int]) -> None:
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
