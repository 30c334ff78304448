"""A deep join pipeline: batches of stream tuples, past which windows flow at full rate.

The paper's units (section 3.2) hand window tuples on by handshake, every second cycle at best, and
share one chain of result registers. Here nothing between the head and the edge ever waits. A
window tuple goes from cluster to cluster, one per cycle; which units it matches comes to the edge
as a bitmap, a fixed number of cycles after its start. The head lets a window tuple start only while
the edge has places for the bitmaps of all that are on their way, so a stalled output stops the flow
at its source, by one signal that goes to one register.

The stream tuples of the next batch gather beside the units while the present one runs. They move
in behind its last window tuple, cluster by cycle, so that a change of batch takes as many cycles as
a cluster has units, whatever the length of the pipeline.
"""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..join import JoinPair
from ..stream import Buffer
from ..units import place
from .cluster import Cluster
from .edge import Lane, Outlet
from .head import Loader, Sequencer, delayed
from .shape import PipelineShape

__all__ = ["FJoinPipeline"]


class _Hits(NamedTuple):
    """Whether there is a match in a cluster, and the matches; and the same a cycle before, or
    nothing of the last cluster, whose matches come too late for that."""

    now: Value
    soon: Value


class FJoinPipeline(wiring.Component):
    """Join batches of stream tuples, each with its own window.

    Latency: ``shape.flight_cycles + 13`` cycles from a window tuple to its first match. Throughput:
    a window tuple per cycle, as long as its matches are fewer than the lanes; else a match per
    cycle and lane. A change of batch takes ``shape.slots + 1`` cycles at most.

    Critical path: with 64 units of the IP-prefix predicate, from the memory of ids at the edge to
    the register behind it, 128 MHz on an ECP5 of speed grade 6. With 256 units it is at the queue
    of bitmaps, of which there are as many bits as units.

    Batches leave in order, and the end of each is a transfer of its own. A pair leaves once over
    two pipelines that swap their roles: only the tuple that came later finds the other.

    Parameters
    ----------
    pair, side, units, lanes, cluster, id_bits, time_bits, ops_per_stage
        As for ``PipelineShape``.
    depth : int
        Places for bitmaps at the edge of each lane. By default twice what can be on its way, which
        keeps the output busy while the flow stops and starts.

    Members
    -------
    i_stream : In(stream.Signature(shape.transfer("stream")))
        The tuples of a batch, at most ``units``, then its end.
    i_window : In(stream.Signature(shape.transfer("window")))
        The window tuples of a batch, then their end.
    time_range : In(time_bits - 1)
        The largest distance of two times; to be changed while nothing is inside.
    o : Out(stream.Signature(shape.result))
    wrong_order, out_of_range : Out(range(lanes + 1))
        Pairs left out in the last cycle: the window tuple came later; or else the times are too far
        apart.
    """

    i_stream: stream.Interface
    i_window: stream.Interface
    time_range: Signal
    o: stream.Interface
    wrong_order: Signal
    out_of_range: Signal

    def __init__(
        self,
        pair: JoinPair,
        *,
        side: str,
        units: int,
        lanes: int = 1,
        cluster: int = 16,
        id_bits: int = 32,
        time_bits: int = 32,
        ops_per_stage: int = 2,
        depth: int | None = None,
    ) -> None:
        self.shape = shape = PipelineShape(
            pair, side, units, lanes, cluster, id_bits, time_bits, ops_per_stage
        )
        # Two more than are on their way: `room` is a cycle old, and was seen a cycle before that.
        self.reserve = shape.flight_cycles + 2
        self.depth = depth or max(16, 1 << (2 * self.reserve - 1).bit_length())
        if self.depth <= self.reserve:
            raise ValueError(
                f"A queue of {depth} can overflow: the matches of {self.reserve} window tuples may "
                f"be on their way, so the depth must be at least {self.reserve + 1}"
            )
        super().__init__(
            {
                "i_stream": In(stream.Signature(shape.transfer("stream"))),
                "i_window": In(stream.Signature(shape.transfer("window"))),
                "time_range": In(time_bits - 1),
                "o": Out(stream.Signature(shape.result)),
                "wrong_order": Out(range(lanes + 1)),
                "out_of_range": Out(range(lanes + 1)),
            }
        )

    @property
    def predicted(self) -> dict[str, int]:
        """Cycles of the parts of a task, and how many matches leave in one."""
        shape = self.shape
        return {
            "per_window_tuple": 1,
            "per_batch": shape.slots + 1,
            "load": shape.units + 1,
            "latency": shape.flight_cycles + 13,
            "matches_per_cycle": shape.lanes,
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.shape
        m.submodules.loader = loader = Loader(shape)
        m.submodules.sequencer = sequencer = Sequencer(shape)
        m.submodules.batches = batches = Buffer(range(shape.units + 1))
        m.submodules.outlet = outlet = Outlet(shape)
        wiring.connect(m, wiring.flipped(self.i_stream), loader.i)
        wiring.connect(m, wiring.flipped(self.i_window), sequencer.i)
        wiring.connect(m, loader.o, batches.i)
        wiring.connect(m, batches.o, sequencer.batch)
        wiring.connect(m, outlet.o, wiring.flipped(self.o))
        m.d.comb += loader.left.eq(self.o.valid & self.o.ready & self.o.payload.end)

        hits = self._clusters(m, platform, loader.load, sequencer.step)
        arrived = delayed(m, sequencer.tagged, shape.flight_cycles, "arrives", reset_less=False)
        tag = delayed(m, sequencer.tag, shape.flight_cycles, "tags")
        lanes = []
        for number in range(shape.lanes):
            lane = Lane(shape, depth=self.depth, reserve=self.reserve)
            m.submodules[f"lane_{number}"] = lane
            lanes.append(lane)
            store = loader.store
            own, cluster = Const(1), store.cluster
            if shape.lanes > 1:
                bits = shape.lanes.bit_length() - 1
                own, cluster = store.cluster[:bits] == number, store.cluster[bits:]
            m.d.comb += [
                lane.valid.eq(arrived),
                Value.cast(lane.tag).eq(tag),
                lane.store.eq(store),
                lane.store.valid.eq(store.valid & own),
                lane.store.cluster.eq(cluster),
                lane.time_range.eq(self.time_range),
            ]
            own_hits = hits[number :: shape.lanes]
            m.d.comb += lane.marks.eq(Cat(found.now[0] for found in own_hits))
            for seen, found in zip(lane.hits, own_hits, strict=False):
                m.d.comb += seen.eq(found.now[1:])
            # Those that are known a cycle before are looked through in that cycle.
            some = Signal(name=f"some_{number}")
            m.d.sync += some.eq(Cat(found.soon[0] for found in own_hits if len(found.soon)).any())
            late = [found.now[0] for found in own_hits if not len(found.soon)]
            m.d.comb += lane.some.eq(Cat(some, late).any())
            wiring.connect(m, lane.o, outlet.i[number])
        m.d.comb += [
            sequencer.room.eq(Cat(lane.room for lane in lanes).all()),
            self.wrong_order.eq(sum(lane.wrong_order for lane in lanes)),
            self.out_of_range.eq(sum(lane.out_of_range for lane in lanes)),
        ]
        return m

    def _clusters(self, m: Module, platform: object, load: Any, step: Any) -> list[_Hits]:
        """Chain the clusters; return what each found, all for the same window tuple."""
        shape, hits = self.shape, []
        for number, units in enumerate(shape.cluster_sizes):
            cluster = Cluster(shape, units=units)
            m.submodules[f"cluster_{number}"] = place(cluster, platform, shape, units)
            m.d.comb += [
                cluster.index.eq(number),
                cluster.i_load.eq(load),
                cluster.i_step.eq(step),
            ]
            load, step = cluster.o_load, cluster.o_step
            late = shape.clusters - 1 - number
            found = Cat(cluster.hit, cluster.hits)
            soon = delayed(m, found, late - 1, f"hits_{number}") if late else Value.cast(Cat())
            now = delayed(m, soon, 1, f"hits_{number}_now") if late else found
            hits.append(_Hits(now, soon))
        return hits
