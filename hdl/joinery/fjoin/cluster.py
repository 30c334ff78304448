"""A cluster of join units, which share the register of the window tuple that is passing."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..expr import ExprPipeline
from ..units import place
from .shape import ROLES, PipelineShape
from .split import live_bits

__all__ = ["Cluster"]


class Cluster(wiring.Component):
    """Hold stream tuples and test each against every window tuple that passes.

    Latency: 1 cycle to the next cluster; ``shape.predicate_cycles + 2`` cycles to ``hits``.
    Throughput: a window tuple per cycle. Nothing in it ever waits.

    The tuples of the next batch gather in a small memory of two banks. A refill moves one of them
    into its unit; slot 0 comes first, and empties all other units.

    Parameters
    ----------
    shape : PipelineShape
    units : int

    Members
    -------
    index : In(range(shape.clusters))
        Which cluster this is; a constant.
    i_load, o_load : In, Out(shape.load)
    i_step, o_step : In, Out(shape.step)
    hits : Out(units)
        Which units hold a tuple that the window tuple of the given cycle matches.
    hit : Out(1)
        One of them does.
    """

    index: Signal
    i_load: Any
    o_load: Any
    i_step: Any
    o_step: Any
    hits: Signal
    hit: Signal

    def __init__(self, shape: PipelineShape, *, units: int) -> None:
        self.shape = shape
        self.units = units
        super().__init__(
            {
                "index": In(range(shape.clusters)),
                "i_load": In(shape.load),
                "o_load": Out(shape.load),
                "i_step": In(shape.step),
                "o_step": Out(shape.step),
                "hits": Out(units),
                "hit": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.shape
        load, step, refill = self.o_load, self.o_step, self.o_step.what.refill
        columns: Any = Signal(shape.load["columns"].shape, name="load_columns", reset_less=True)
        what: Any = Signal(shape.step["what"].shape, name="step_what", reset_less=True)
        m.d.sync += [
            load.valid.eq(self.i_load.valid),
            Cat(load.bank, load.cluster, load.slot).eq(
                Cat(self.i_load.bank, self.i_load.cluster, self.i_load.slot)
            ),
            columns.eq(self.i_load.columns),
            step.flows.eq(self.i_step.flows),
            step.refills.eq(self.i_step.refills),
            what.eq(self.i_step.what),
        ]
        m.d.comb += [load.columns.eq(columns), Value.cast(step.what).eq(what)]

        rows: Memory = Memory(shape=shape.kept("stream"), depth=2 << len(load.slot), init=[])
        m.submodules.rows = rows
        write, read = rows.write_port(), rows.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(load.valid & (load.cluster == self.index)),
            write.addr.eq(Cat(load.slot, load.bank)),
            write.data.eq(load.columns),
            read.addr.eq(Cat(refill.slot, refill.bank)),
        ]

        tested = Signal(self.units)
        found = []
        for unit in range(self.units):
            held: Any = Signal(shape.kept("stream"), name=f"held_{unit}", reset_less=True)
            full = Signal(name=f"full_{unit}")
            with m.If(step.refills & (refill.slot == unit)):
                m.d.sync += [held.eq(read.data), full.eq(self.index < refill.present)]
            with m.Elif(step.refills & (refill.slot == 0)):
                m.d.sync += full.eq(0)
            m.d.comb += tested[unit].eq(full & step.flows)
            found.append(
                self._predicate(m, platform, unit, {"stream": held, "window": step.what.columns})
            )
        for stage in range(shape.predicate_cycles):
            before, tested = tested, Signal(self.units, name=f"tested_{stage + 1}")
            m.d.sync += tested.eq(before)
        hits = tested & Cat(found)
        m.d.sync += [self.hits.eq(hits), self.hit.eq(hits.any())]
        return m

    def _predicate(self, m: Module, platform: object, unit: int, tuples: dict[str, Any]) -> Signal:
        """Add the predicate of one unit; return whether it holds."""
        shape = self.shape
        predicate = ExprPipeline(
            shape.split.predicate, shape.met, ops_per_stage=shape.ops_per_stage
        )
        m.submodules[f"predicate_{unit}"] = place(
            predicate, platform, shape.split.predicate, shape.met, shape.ops_per_stage
        )
        m.d.comb += predicate.en.eq(1)
        for role in ROLES:
            seen = predicate.i[shape.source(role)]
            for name, expr in shape.parts(role).items():
                live, column = live_bits(expr), Value.cast(tuples[role][name])
                bits = [
                    column[live.index(bit)] if bit in live else Const(0)
                    for bit in range(expr.type.bits[0])
                ]
                m.d.comb += seen[name].eq(Cat(bits))
        return predicate.o
