"""One join core: a segment of each window, and a prober for each direction."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..expr import ExprPipeline, pipeline_latency
from ..join import JoinPair
from ..stream import Queue
from .segment import MemorySegment, RegisterSegment, slot_layout

__all__ = ["STORAGE", "JoinCore", "Prober", "command_signature"]

STORAGE = {"registers": RegisterSegment, "memory": MemorySegment}


def command_signature(span: int) -> wiring.Signature:
    """What all cores do in a cycle, the same for all of them (section 4.1 of Teubner: lock step).

    ``shift_left`` comes one cycle before the first ``scan`` that sees the new row, and
    ``shift_right`` in the cycle of the last ``scan`` that must not see it.
    """
    return wiring.Signature(
        {
            "clear": Out(1),
            "shift_left": Out(1),
            "shift_right": Out(1),
            "scan_left": Out(1),
            "scan_right": Out(1),
            "index": Out(range(span)),
        }
    )


class Prober(wiring.Component):
    """Test pairs against the predicate and queue those that match.

    Latency: ``self.latency`` cycles from ``valid`` to the queue. Throughput: a pair per cycle. The
    pair cannot be refused: ``room`` says whether the caller may go on to offer pairs.

    Parameters
    ----------
    pair : JoinPair
    ops_per_stage : int
        Bounds the operators between two registers of the predicate.
    depth : int
        Places in the queue of matches.
    notice : int
        Pairs that may still come, at most, after ``room`` went low; the queue keeps room for them.

    Members
    -------
    valid : In(1)
    operands : In(pair.operands)
    room : Out(1)
    o : Out(stream.Signature(pair.match))
    """

    def __init__(self, pair: JoinPair, *, ops_per_stage: int, depth: int, notice: int) -> None:
        self.pair = pair
        self.ops_per_stage = ops_per_stage
        self.latency = pipeline_latency(pair.predicate, ops_per_stage)
        self.depth = depth
        self.reserve = self.reserve_for(pair, ops_per_stage=ops_per_stage, notice=notice)
        if depth < self.reserve + 1:
            raise ValueError(
                f"A result queue of {depth} can overflow: {self.reserve} pairs may be on their way "
                f"when it asks to wait, so its depth must be at least {self.reserve + 1}"
            )
        super().__init__(
            {
                "valid": In(1),
                "operands": In(pair.operands),
                "room": Out(1),
                "o": Out(stream.Signature(pair.match)),
            }
        )

    @staticmethod
    def reserve_for(pair: JoinPair, *, ops_per_stage: int, notice: int) -> int:
        """Places to keep free: for pairs still to come, and those in the predicate's stages."""
        return notice + pipeline_latency(pair.predicate, ops_per_stage)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.predicate = predicate = ExprPipeline(
            self.pair.predicate, self.pair.operands, ops_per_stage=self.ops_per_stage
        )
        m.submodules.queue = queue = Queue(self.pair.match, depth=self.depth)
        m.d.comb += predicate.i.eq(self.operands)

        # The columns that leave travel beside the predicate.
        left, right = (self.operands[name] for name in self.pair.names)
        valid, match = self.valid, Signal(self.pair.match, name="kept")
        for side, kept in ((left, match.left), (right, match.right)):
            for name in dict(kept.shape()):
                m.d.comb += kept[name].eq(side[name])
        for stage in range(self.latency):
            valid_before, match_before = valid, match
            valid = Signal(name=f"valid_{stage + 1}")
            match = Signal(self.pair.match, name=f"kept_{stage + 1}", reset_less=True)
            m.d.sync += [valid.eq(valid_before), match.eq(match_before)]

        m.d.comb += [
            queue.i.valid.eq(valid & predicate.o),
            queue.i.payload.eq(match),
            self.room.eq(queue.level < self.depth - self.reserve),
        ]
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        return m


class JoinCore(wiring.Component):
    """Compare the rows that enter a core's two segments with the rows of the other stream there.

    Throughput: one row of the opposite segment per cycle and direction, both directions at once.

    A left row is compared from its place at the head of the left segment, after the shift; a right
    row from the place it comes from, before the shift. So the left one counts as first, and two
    rows that change places between neighbouring cores in the same step still meet once.

    Parameters
    ----------
    pair : JoinPair
    rows_left, rows_right : int
        Window rows held by this core.
    span : int
        Largest number of rows that any core of the chain holds on one side.
    storage : "registers" or "memory"
    ops_per_stage, queue_depth, notice : int
        As for ``Prober``; ``notice`` counts from the cycle of a command.

    Members
    -------
    command : In(command_signature(span))
    i_left, o_left, i_right, o_right : slots
        The neighbours' rows. Left rows go up the chain, right rows come down.
    room : Out(1)
    o_met_left, o_met_right : Out(stream.Signature(pair.match))
        Matches found by left rows, and by right rows.
    """

    def __init__(
        self,
        pair: JoinPair,
        *,
        rows_left: int,
        rows_right: int,
        span: int,
        storage: str,
        ops_per_stage: int,
        queue_depth: int,
        notice: int,
    ) -> None:
        self.pair = pair
        self.rows_left = rows_left
        self.rows_right = rows_right
        self.span = span
        self.segment = STORAGE[storage]
        self.ops_per_stage = ops_per_stage
        self.queue_depth = queue_depth
        self.notice = notice
        self.key = (pair, rows_left, rows_right, span, storage, ops_per_stage, queue_depth, notice)
        super().__init__(
            {
                "command": In(command_signature(span)),
                "i_left": In(slot_layout(pair.left.layout)),
                "o_left": Out(slot_layout(pair.left.layout)),
                "i_right": In(slot_layout(pair.right.layout)),
                "o_right": Out(slot_layout(pair.right.layout)),
                "room": Out(1),
                "o_met_left": Out(stream.Signature(pair.match)),
                "o_met_right": Out(stream.Signature(pair.match)),
            }
        )

    def _prober(self) -> Prober:
        # Rows are read one cycle after the command, so one more pair can be on its way.
        return Prober(
            self.pair,
            ops_per_stage=self.ops_per_stage,
            depth=self.queue_depth,
            notice=self.notice + 1,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pair = self.pair
        m.submodules.left = left = self.segment(
            pair.left.layout, rows=self.rows_left, span=self.span
        )
        m.submodules.right = right = self.segment(
            pair.right.layout, rows=self.rows_right, span=self.span
        )
        m.submodules.prober_left = prober_left = self._prober()
        m.submodules.prober_right = prober_right = self._prober()

        def attach(segment: wiring.Component, i: data.View, o: data.View, shift: Signal) -> None:
            m.d.comb += [
                segment.clear.eq(self.command.clear),
                segment.shift.eq(shift),
                segment.i.eq(i),
                o.eq(segment.oldest),
                segment.index.eq(self.command.index),
            ]

        def probe(prober: Prober, name: str, go: Signal, slot: data.View, found: data.View) -> None:
            """Hold the probing row beside the row that is read for it."""
            valid, row = Signal(name=f"{name}_valid"), Signal(slot.row.shape(), name=name)
            m.d.sync += [valid.eq(go & slot.valid), row.eq(slot.row)]
            here, there = pair.names if name == "probe_left" else pair.names[::-1]
            m.d.comb += [
                prober.valid.eq(valid & found.valid),
                prober.operands[here].eq(row),
                prober.operands[there].eq(found.row),
            ]

        attach(left, self.i_left, self.o_left, self.command.shift_left)
        attach(right, self.i_right, self.o_right, self.command.shift_right)
        probe(prober_left, "probe_left", self.command.scan_left, left.newest, right.o)
        probe(prober_right, "probe_right", self.command.scan_right, self.i_right, left.o)
        m.d.comb += self.room.eq(prober_left.room & prober_right.room)
        wiring.connect(m, prober_left.o, wiring.flipped(self.o_met_left))
        wiring.connect(m, prober_right.o, wiring.flipped(self.o_met_right))
        return m
