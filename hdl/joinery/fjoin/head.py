"""The head of a pipeline: what stream and window tuples pass before they reach the clusters."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..expr import Column, ExprPipeline
from .shape import BATCHES, PipelineShape
from .split import live_bits

__all__ = ["Loader", "Preparer", "Sequencer", "delayed"]


def delayed(m: Module, value: Any, cycles: int, name: str, *, reset_less: bool = True) -> Value:
    """Return ``value`` as it was ``cycles`` ago, from a shift register."""
    value = Value.cast(value)
    if not cycles:
        return value
    past = Signal(cycles * len(value), name=name, reset_less=reset_less)
    m.d.sync += past.eq(Cat(value, past))
    return past[-len(value) :]


class Preparer(wiring.Component):
    """Compute what the units need of one side's tuples.

    Latency: ``shape.prepare_cycles`` cycles. Throughput: a tuple per cycle.

    Parameters
    ----------
    shape : PipelineShape
    role : "stream" or "window"

    Members
    -------
    i : In(shape.record(role))
    o : Out(shape.kept(role))
    """

    i: Any
    o: Any

    def __init__(self, shape: PipelineShape, *, role: str) -> None:
        self.shape = shape
        self.role = role
        super().__init__({"i": In(shape.record(role)), "o": Out(shape.kept(role))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape, role = self.shape, self.role
        source = shape.source(role)
        operands = data.StructLayout({source: shape.columns(role).layout})
        for name, expr in shape.parts(role).items():
            latency = shape.part_latency(expr)
            pipeline = ExprPipeline(
                expr,
                operands,
                ops_per_stage=None if isinstance(expr, Column) else shape.ops_per_stage,
            )
            m.submodules[name] = pipeline
            m.d.comb += pipeline.i[source].eq(self.i.columns)
            live = Cat(Value.cast(pipeline.o)[bit] for bit in live_bits(expr))
            waits = shape.prepare_cycles - latency
            m.d.comb += self.o[name].eq(delayed(m, live, waits, f"{name}_waits"))
        return m


class Loader(wiring.Component):
    """Send the stream tuples of a batch to the clusters, in turn, while an earlier batch runs.

    Latency: ``shape.prepare_cycles`` cycles. Throughput: a tuple per cycle.

    Tuples wait at ``i`` while two batches are loaded and not yet in the units, or while the results
    of ``BATCHES`` batches have not all left.

    Parameters
    ----------
    shape : PipelineShape

    Members
    -------
    i : In(stream.Signature(shape.transfer("stream")))
        At most ``shape.units`` tuples, then the end of the batch.
    o : Out(stream.Signature(range(shape.units + 1)))
        For each batch, how many tuples it has.
    load : Out(shape.load)
    store : Out(shape.store)
        The same tuples as the edge keeps them; ahead of ``load``.
    left : In(1)
        The last result of a batch leaves.
    """

    i: stream.Interface
    o: stream.Interface
    load: Any
    store: Any
    left: Signal

    def __init__(self, shape: PipelineShape) -> None:
        self.shape = shape
        super().__init__(
            {
                "i": In(stream.Signature(shape.transfer("stream"))),
                "o": Out(stream.Signature(range(shape.units + 1))),
                "load": Out(shape.load),
                "store": Out(shape.store),
                "left": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape, i, store = self.shape, self.i.payload, self.store
        m.submodules.preparer = preparer = Preparer(shape, role="stream")

        batches = Signal(range(BATCHES + 1))  # loaded, with results still to come
        free, ends = Signal(), Signal()
        bank = Signal(range(BATCHES))
        count = Signal(range(shape.units + 1))
        cluster, slot = Signal(range(shape.clusters)), Signal(range(shape.slots))
        m.d.comb += [
            free.eq(batches != BATCHES),
            self.o.valid.eq(self.i.valid & i.end & free),
            self.o.payload.eq(count),
            self.i.ready.eq(self.o.ready & free),
            ends.eq(self.o.valid & self.o.ready),
            store.valid.eq(self.i.valid & self.i.ready & ~i.end),
            store.bank.eq(bank),
            store.cluster.eq(cluster),
            store.slot.eq(slot),
            store.id.eq(i.tuple.id),
            store.time.eq(i.tuple.time),
            preparer.i.eq(i.tuple),
        ]
        m.d.sync += batches.eq(batches + ends - self.left)
        with m.If(ends):
            m.d.sync += [count.eq(0), cluster.eq(0), slot.eq(0), bank.eq(bank + 1)]
        with m.Elif(store.valid):
            m.d.sync += [count.eq(count + 1), cluster.eq(cluster + 1)]
            with m.If(cluster == shape.clusters - 1):
                m.d.sync += [cluster.eq(0), slot.eq(slot + 1)]

        place = Cat(bank[0], cluster, slot)
        load, cycles = self.load, shape.prepare_cycles
        m.d.comb += [
            load.valid.eq(delayed(m, store.valid, cycles, "valid", reset_less=False)),
            Cat(load.bank, load.cluster, load.slot).eq(delayed(m, place, cycles, "place")),
            load.columns.eq(preparer.o),
        ]
        return m


class Sequencer(wiring.Component):
    """Let each batch into the units, then its window past them.

    Latency: ``shape.prepare_cycles`` cycles. Throughput: a window tuple per cycle while there is
    ``room``. A batch costs a cycle for every row of units that it fills, ``shape.slots`` at most,
    and one for the end of its window.

    Parameters
    ----------
    shape : PipelineShape

    Members
    -------
    batch : In(stream.Signature(range(shape.units + 1)))
        A batch is loaded, and has so many tuples. Taken when it is in the units.
    i : In(stream.Signature(shape.transfer("window")))
        The window tuples of a batch, then their end.
    room : In(1)
        Another window tuple may go.
    step : Out(shape.step)
    tagged : Out(1)
    tag : Out(shape.tag)
        A window tuple or an end was taken; ahead of ``step``.
    """

    batch: stream.Interface
    i: stream.Interface
    room: Signal
    step: Any
    tagged: Signal
    tag: Any

    def __init__(self, shape: PipelineShape) -> None:
        self.shape = shape
        super().__init__(
            {
                "batch": In(stream.Signature(range(shape.units + 1))),
                "i": In(stream.Signature(shape.transfer("window"))),
                "room": In(1),
                "step": Out(shape.step),
                "tagged": Out(1),
                "tag": Out(shape.tag),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape, i, cycles = self.shape, self.i.payload, self.shape.prepare_cycles
        m.submodules.preparer = preparer = Preparer(shape, role="window")
        bank = Signal(range(BATCHES))
        refills, flows = Signal(), Signal()
        refill: Any = Signal(shape.step["what"].shape["refill"].shape)
        slot = Signal(range(shape.slots))
        placed = Signal(range(shape.units + 1))
        after = Signal(range(shape.units + shape.clusters + 1), init=shape.clusters)
        waiting, last = Signal(range(shape.units + 1)), Signal()
        m.d.comb += [
            waiting.eq(self.batch.payload - placed),
            last.eq(self.batch.payload <= after),  # placed with this row, they all are
            refill.bank.eq(bank[0]),
            refill.slot.eq(slot),
        ]

        with m.FSM():
            with m.State("REFILL"):
                m.d.comb += [
                    refills.eq(self.batch.valid),
                    refill.present.eq(Mux(last, waiting, shape.clusters)),
                ]
                with m.If(self.batch.valid):
                    m.d.sync += [
                        slot.eq(slot + 1),
                        placed.eq(after),
                        after.eq(after + shape.clusters),
                    ]
                    with m.If(last):
                        m.d.comb += self.batch.ready.eq(1)
                        m.d.sync += [slot.eq(0), placed.eq(0), after.eq(shape.clusters)]
                        m.next = "FLOW"
            with m.State("FLOW"):
                m.d.comb += self.i.ready.eq(self.room)
                with m.If(self.tagged):
                    m.d.comb += flows.eq(~i.end)
                    with m.If(i.end):
                        m.d.sync += bank.eq(bank + 1)
                        m.next = "REFILL"

        m.d.comb += [
            self.tagged.eq(self.i.valid & self.i.ready),
            self.tag.end.eq(i.end),
            self.tag.bank.eq(bank),
            self.tag.id.eq(i.tuple.id),
            self.tag.time.eq(i.tuple.time),
            preparer.i.eq(i.tuple),
            self.step.flows.eq(delayed(m, flows, cycles, "flows", reset_less=False)),
            self.step.refills.eq(delayed(m, refills, cycles, "refills", reset_less=False)),
        ]
        order = delayed(m, refill, cycles, "refill")
        with m.If(self.step.refills):
            m.d.comb += Value.cast(self.step.what.refill).eq(order)
        with m.Else():
            m.d.comb += self.step.what.columns.eq(preparer.o)
        return m
