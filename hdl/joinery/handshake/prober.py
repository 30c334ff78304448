"""Testing a row against rows of the other stream, several at a time."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..expr import ExprPipeline, pipeline_latency
from ..join import JoinPair
from ..stream import Queue
from ..units import place

__all__ = ["Expander", "Prober", "hit_layout"]


def hit_layout(pair: JoinPair, side: str, ways: int) -> data.StructLayout:
    """A row of ``side`` that has met rows of the other one: the marked ones of ``rows``."""
    other = "right" if side == "left" else "left"
    return data.StructLayout(
        {
            "hits": ways,
            "probe": pair.match[side].shape,
            "rows": data.ArrayLayout(pair.match[other].shape, ways),
        }
    )


class Expander(wiring.Component):
    """Send the matches of each hit one after the other.

    Latency: 0 cycles. Throughput: one match per cycle. ``i.ready`` depends on ``o.ready``.

    Parameters
    ----------
    pair : JoinPair
    side : "left" or "right"
        The stream of the probing rows.
    ways : int
        Rows of the other stream in a hit; at least one is marked.

    Members
    -------
    i : In(stream.Signature(hit_layout(pair, side, ways)))
    o : Out(stream.Signature(pair.match))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, pair: JoinPair, *, side: str, ways: int) -> None:
        self.side = side
        self.ways = ways
        super().__init__(
            {
                "i": In(stream.Signature(hit_layout(pair, side, ways))),
                "o": Out(stream.Signature(pair.match)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        hit, match = self.i.payload, self.o.payload
        probe, other = (
            (match.left, match.right) if self.side == "left" else (match.right, match.left)
        )
        m.d.comb += [self.o.valid.eq(self.i.valid), probe.eq(hit.probe)]
        if self.ways == 1:
            m.d.comb += [other.eq(hit.rows[0]), self.i.ready.eq(self.o.ready)]
            return m

        sent, left = Signal(self.ways), Signal(self.ways)
        after = Signal(self.ways)  # what is left after the next match
        m.d.comb += [
            left.eq(hit.hits & ~sent),
            after.eq(left & (left - 1)),
            self.i.ready.eq(self.o.ready & (after == 0)),
        ]
        for way in reversed(range(self.ways)):  # the lowest one has the last word
            with m.If(left[way]):
                m.d.comb += other.eq(hit.rows[way])
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += sent.eq(Mux(after == 0, 0, ~after))
        return m


class Prober(wiring.Component):
    """Test a row against ``ways`` rows of the other stream per cycle, and queue the matches.

    Latency: ``self.latency`` cycles from ``valid`` to the queue. Throughput: ``ways`` pairs per
    cycle in, one match per cycle out. Pairs cannot be refused: ``room`` says whether the caller may
    go on to offer some.

    Parameters
    ----------
    pair : JoinPair
    side : "left" or "right"
        The stream of the probing row.
    ways : int
        Predicate evaluators working side by side.
    ops_per_stage : int
        Bounds the operators between two registers of the predicate.
    depth : int
        Places in the queue, each for the matches of one cycle.
    notice : int
        Cycles with pairs that may still come after ``room`` went low; the queue keeps room for
        them. None drops what finds the queue full, and counts it.

    Members
    -------
    probe : In(row of the side)
    rows : In(row of the other side).array(ways)
    valid : In(ways)
        Which of ``rows`` are there to be tested.
    room : Out(1)
    busy : Out(1)
        The queue is not empty.
    dropped : Out(range(ways + 1))
        Matches lost in this cycle; always 0 with ``notice``.
    o : Out(stream.Signature(pair.match))
    """

    probe: Any
    rows: Sequence[Any]
    valid: Signal
    room: Signal
    busy: Signal
    dropped: Signal
    o: stream.Interface

    def __init__(
        self,
        pair: JoinPair,
        *,
        side: str,
        ways: int,
        ops_per_stage: int,
        depth: int,
        notice: int | None,
    ) -> None:
        self.pair = pair
        self.side = side
        self.ways = ways
        self.ops_per_stage = ops_per_stage
        self.latency = pipeline_latency(pair.predicate, ops_per_stage)
        self.depth = depth
        self.reserve = None if notice is None else notice + self.latency
        if self.reserve is not None and depth <= self.reserve:
            raise ValueError(
                f"Result queues of {depth} can overflow: {self.reserve} rounds of matches may be "
                "on their way when a core asks to wait, so the depth must be at least "
                f"{self.reserve + 1}"
            )
        probing, probed = (pair.left, pair.right) if side == "left" else (pair.right, pair.left)
        super().__init__(
            {
                "probe": In(probing.layout),
                "rows": In(probed.layout).array(ways),
                "valid": In(ways),
                "room": Out(1),
                "busy": Out(1),
                "dropped": Out(range(ways + 1)),
                "o": Out(stream.Signature(pair.match)),
            }
        )

    def _predicates(self, m: Module, platform: object) -> Sequence[ExprPipeline]:
        pair = self.pair
        own, other = pair.names if self.side == "left" else pair.names[::-1]
        found = []
        for way in range(self.ways):
            predicate = ExprPipeline(
                pair.predicate, pair.operands, ops_per_stage=self.ops_per_stage
            )
            m.submodules[f"predicate_{way}"] = place(
                predicate, platform, pair.predicate, pair.operands, self.ops_per_stage
            )
            m.d.comb += [
                predicate.en.eq(1),
                predicate.i[own].eq(self.probe),
                predicate.i[other].eq(self.rows[way]),
            ]
            found.append(predicate)
        return found

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout = hit_layout(self.pair, self.side, self.ways)
        predicates = self._predicates(m, platform)
        m.submodules.queue = queue = Queue(layout, depth=self.depth)
        m.submodules.expander = expander = Expander(self.pair, side=self.side, ways=self.ways)

        # The columns that leave travel beside the predicate, and so do the marks of what is tested.
        tested: Signal = self.valid
        hit: Any = Signal(layout, name="kept")
        for row, kept in ((self.probe, hit.probe), *zip(self.rows, hit.rows, strict=True)):
            for name in dict(kept.shape()):
                m.d.comb += kept[name].eq(row[name])
        for stage in range(self.latency):
            tested_before, hit_before = tested, hit
            tested = Signal(self.ways, name=f"tested_{stage + 1}")
            hit = Signal(layout, name=f"kept_{stage + 1}", reset_less=True)
            m.d.sync += [tested.eq(tested_before), hit.eq(hit_before)]

        hits = Signal(self.ways)
        m.d.comb += [
            hits.eq(tested & Cat(predicate.o for predicate in predicates)),
            queue.i.valid.eq(hits.any()),
            queue.i.payload.eq(hit),
            queue.i.payload.hits.eq(hits),
            self.busy.eq(queue.level != 0),
        ]
        if self.reserve is None:
            lost = sum(hits[way] for way in range(self.ways))
            m.d.comb += [self.room.eq(1), self.dropped.eq(Mux(queue.i.ready, 0, lost))]
        else:
            m.d.comb += self.room.eq(queue.level < self.depth - self.reserve)
        wiring.connect(m, queue.o, expander.i)
        wiring.connect(m, expander.o, wiring.flipped(self.o))
        return m
