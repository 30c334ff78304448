"""One join core: a segment of each window, and a prober for each direction."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..join import JoinPair
from ..stream import Merger
from .prober import Prober
from .segment import MemorySegment, RegisterSegment, slot_layout

__all__ = ["FLOWS", "STORAGE", "JoinCore", "command_signature"]

STORAGE = {"registers": RegisterSegment, "memory": MemorySegment}
FLOWS = ("chain", "broadcast")


def command_signature(span: int) -> wiring.Signature:
    """What all cores do in a cycle, the same for all of them (section 4.1 of Teubner: lock step).

    A left row is shifted in with the first ``scan`` that sees it, and a right row one cycle after
    the last ``scan`` that must not see it.
    """
    return wiring.Signature(
        {
            "clear": Out(1),
            "scan_left": Out(1),
            "scan_right": Out(1),
            "index": Out(range(span)),
        }
    )


class JoinCore(wiring.Component):
    """Compare probing rows with the rows of the other stream in a core's segments.

    Throughput: ``ways`` rows of the opposite segment per cycle and direction, both directions at
    once; one match per cycle out, from registers.

    In a chain, a row probes in every core that it enters: a left row from its place at the head of
    the left segment, after the shift; a right row from the place it comes from, before the shift.
    So the left one counts as first, and two rows that change places between neighbouring cores in
    the same step still meet once. In a broadcast, a new row probes in all cores at once.

    Parameters
    ----------
    pair : JoinPair
    rows_left, rows_right : int
        Window rows held by this core.
    ways : int
        Comparators per direction.
    span : int
        Indices that a scan of the largest segment takes.
    storage : "registers" or "memory"
    flow : "chain" or "broadcast"
    ops_per_stage, queue_depth, notice : int
        As for ``Prober``; ``notice`` counts from the cycle of a command.

    Members
    -------
    command : In(command_signature(span))
    shift_left, shift_right : In(1)
    i_left, o_left, i_right, o_right : slots
        What is shifted in and out. Left rows go up the chain, right rows come down.
    probe_left, probe_right : In(slots)
        In a broadcast, the rows to compare with the segments, one cycle after ``scan``.
    room, busy : Out(1)
    dropped : Out
        Matches lost in this cycle.
    o : Out(stream.Signature(pair.match))
    """

    command: Any
    shift_left: Signal
    shift_right: Signal
    i_left: Any
    o_left: Any
    i_right: Any
    o_right: Any
    probe_left: Any
    probe_right: Any
    room: Signal
    busy: Signal
    dropped: Signal
    o: stream.Interface

    def __init__(
        self,
        pair: JoinPair,
        *,
        rows_left: int,
        rows_right: int,
        ways: int,
        span: int,
        storage: str,
        flow: str,
        ops_per_stage: int,
        queue_depth: int,
        notice: int | None,
    ) -> None:
        self.pair = pair
        self.rows = {"left": rows_left, "right": rows_right}
        self.ways = ways
        self.span = span
        self.segment = STORAGE[storage]
        self.flow = flow
        # Rows are read two cycles after the command, so two more rounds can be on their way.
        self.probing: dict[str, Any] = {
            "ways": ways,
            "ops_per_stage": ops_per_stage,
            "depth": queue_depth,
            "notice": None if notice is None else notice + 2,
        }
        self.key = (
            pair, rows_left, rows_right, ways, span, storage, flow, ops_per_stage, queue_depth,
            notice,
        )  # fmt: skip
        left, right = slot_layout(pair.left.layout), slot_layout(pair.right.layout)
        super().__init__(
            {
                "command": In(command_signature(span)),
                "shift_left": In(1),
                "shift_right": In(1),
                "i_left": In(left),
                "o_left": Out(left),
                "i_right": In(right),
                "o_right": Out(right),
                "probe_left": In(left),
                "probe_right": In(right),
                "room": Out(1),
                "busy": Out(1),
                "dropped": Out(range(2 * ways + 1)),
                "o": Out(stream.Signature(pair.match)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layouts = {"left": self.pair.left.layout, "right": self.pair.right.layout}
        segments = {
            side: self.segment(layout, rows=self.rows[side], ways=self.ways, span=self.span)
            for side, layout in layouts.items()
        }
        probers = {side: Prober(self.pair, side=side, **self.probing) for side in layouts}
        # Its queue keeps the choice made here and those of the network apart: two short paths.
        m.submodules.outlet = outlet = Merger(self.pair.match, inputs=2)

        # A copy of the command for each core, as it goes to every bit of the rows.
        scan_left, scan_right = Signal(), Signal()
        index = Signal.like(self.command.index)
        m.d.sync += [
            scan_left.eq(self.command.scan_left),
            scan_right.eq(self.command.scan_right),
            index.eq(self.command.index),
        ]

        def attach(side: str) -> None:
            segment = segments[side]
            m.submodules[side] = segment
            m.d.comb += [
                segment.clear.eq(self.command.clear),
                segment.shift.eq(getattr(self, f"shift_{side}")),
                segment.i.eq(getattr(self, f"i_{side}")),
                getattr(self, f"o_{side}").eq(segment.oldest),
                segment.index.eq(index),
            ]

        def probe(side: str, go: Signal, slot: data.View, found: Any) -> None:
            """Hold the probing row beside the rows that are read for it."""
            m.submodules[f"prober_{side}"] = prober = probers[side]
            valid = Signal(name=f"probe_{side}_valid")
            row = Signal(layouts[side], name=f"probe_{side}_row", reset_less=True)
            m.d.sync += [valid.eq(go & slot.valid), row.eq(slot.row)]
            m.d.comb += [
                prober.probe.eq(row),
                prober.valid.eq(Cat(valid & other.valid for other in found)),
            ]
            for other, to in zip(found, prober.rows, strict=True):
                m.d.comb += to.eq(other.row)

        for side in layouts:
            attach(side)
        from_left = segments["left"].newest if self.flow == "chain" else self.probe_left
        from_right = self.i_right if self.flow == "chain" else self.probe_right
        probe("left", scan_left, from_left, segments["right"].o)
        probe("right", scan_right, from_right, segments["left"].o)
        left, right = probers.values()
        m.d.comb += [
            self.room.eq(left.room & right.room),
            self.busy.eq(left.busy | right.busy | outlet.level.any()),
            self.dropped.eq(left.dropped + right.dropped),
        ]
        for prober, i in zip(probers.values(), outlet.i, strict=True):
            wiring.connect(m, prober.o, i)
        wiring.connect(m, outlet.o, wiring.flipped(self.o))
        return m
