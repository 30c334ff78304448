"""The one place where the cores are told what to do, and where a tuple is let in or refused."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..join import JoinPair
from .core import command_signature
from .segment import slot_layout

__all__ = ["Sequencer"]


class Sequencer(wiring.Component):
    """Turn transfers into steps of the cores; drain them at the end.

    A step shifts a window, or both, and scans the other. It takes ``left_cycles`` for a left
    tuple, ``right_cycles`` for a right one, the larger of the two for both, and the next one
    follows without a gap. All that goes to the cores comes from registers; a shift of the right
    window lies one cycle after the last command of its step.

    Parameters
    ----------
    pair : JoinPair
    left_cycles, right_cycles : int
        Cycles to compare a left (right) tuple with the right (left) rows of a core.
    drain_steps : int
        Steps without tuples after which all rows that must meet have met.
    flight_cycles : int
        So long after the last step, every match of it shows in ``busy`` or has left.
    sheds : bool
        Refuse a tuple that would have to wait for room for results, instead of letting it wait.

    Members
    -------
    i : In(stream.Signature(pair.transfer))
    command : Out(command_signature)
    shift_left, shift_right : Out(1)
    left, right : Out(slots)
        The rows that are shifted in, beside their ``shift``.
    probe_left, probe_right : Out(slots)
        The rows that are compared, one cycle after ``scan``.
    room : In(1)
        Steps go on only while this is high.
    busy : In(1)
        Matches have been found that have not left yet.
    o_end : Out(stream.Signature(0))
        The end, after everything has left.
    stalled : Out(1)
        The cores could work, but there is no room for results.
    decided, refused : Out(1)
        A transfer with data was taken in the last cycle; it was refused.
    """

    NOTICE = 1
    """Scans that still come, counted from the cycle after ``room`` went low: one register."""

    i: stream.Interface
    command: Any
    shift_left: Signal
    shift_right: Signal
    left: Any
    right: Any
    probe_left: Any
    probe_right: Any
    room: Signal
    busy: Signal
    o_end: stream.Interface
    stalled: Signal
    decided: Signal
    refused: Signal

    def __init__(
        self,
        pair: JoinPair,
        *,
        left_cycles: int,
        right_cycles: int,
        drain_steps: int,
        flight_cycles: int,
        sheds: bool,
    ) -> None:
        self.left_cycles = left_cycles
        self.right_cycles = right_cycles
        self.span = max(left_cycles, right_cycles)
        self.drain_steps = drain_steps
        self.flight_cycles = flight_cycles
        self.sheds = sheds
        left, right = slot_layout(pair.left.layout), slot_layout(pair.right.layout)
        super().__init__(
            {
                "i": In(stream.Signature(pair.transfer)),
                "command": Out(command_signature(self.span)),
                "shift_left": Out(1),
                "shift_right": Out(1),
                "left": Out(left),
                "right": Out(right),
                "probe_left": Out(left),
                "probe_right": Out(right),
                "room": In(1),
                "busy": In(1),
                "o_end": Out(stream.Signature(0)),
                "stalled": Out(1),
                "decided": Out(1),
                "refused": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i = self.i.payload

        begin = Signal()  # a step begins in this cycle, as there is room
        step_left, step_right = Signal(), Signal()  # what it shifts
        held_left, held_right = Signal(), Signal()
        busy = Signal()  # indices of the current step are left for later cycles
        issue, last = Signal(), Signal()  # an index is decided now; it is the step's last
        index, final = Signal(range(self.span)), Signal(range(self.span))
        index_now, final_now = Signal.like(index), Signal.like(final)
        near = Signal()  # the next index is the last of its step
        draining = Signal()

        # Where no index is issued, none of these matters.
        with m.If(busy):
            m.d.comb += [
                step_left.eq(held_left),
                step_right.eq(held_right),
                index_now.eq(index),
                final_now.eq(final),
                last.eq(near),
            ]
        with m.Else():
            m.d.comb += [
                step_left.eq(i.has_left | draining),
                step_right.eq(i.has_right | draining),
                final_now.eq(
                    Mux(
                        step_left & step_right,
                        self.span - 1,
                        Mux(step_left, self.left_cycles - 1, self.right_cycles - 1),
                    )
                ),
                last.eq(final_now == 0),
            ]
        m.d.comb += issue.eq(self.room & (begin | busy))
        with m.If(self.room):
            m.d.sync += [
                index.eq(index_now + 1),
                final.eq(final_now),
                near.eq(index_now + 1 == final_now),
                held_left.eq(step_left),
                held_right.eq(step_right),
                busy.eq((begin | busy) & ~last),
            ]

        accept, refuse, free = Signal(), Signal(), Signal()
        m.d.comb += free.eq(self.room & ~busy)
        m.d.sync += [
            self.decided.eq((accept | refuse) & ~i.end),
            self.refused.eq(refuse),
        ]
        self._send(m, accept, begin & step_left, issue, step_left, step_right, last, index_now)

        steps_left = Signal(range(self.drain_steps + 1))
        drained, landed = Signal(), Signal()  # no steps are left; the last one's matches show
        flight = Signal(range(self.flight_cycles + 1))
        m.d.sync += self.command.clear.eq(0)
        with m.FSM():
            with m.State("accept"):
                m.d.comb += [
                    self.i.ready.eq(free | refuse),
                    accept.eq(self.i.valid & free),
                    refuse.eq(self.i.valid & ~i.end & ~self.room & self.sheds),
                    begin.eq(accept & ~i.end & (i.has_left | i.has_right)),
                    self.stalled.eq(~self.room & (busy | self.i.valid)),
                ]
                m.d.sync += [
                    steps_left.eq(self.drain_steps),
                    drained.eq(self.drain_steps == 0),
                    flight.eq(0),
                    landed.eq(0),
                ]
                with m.If(accept & i.end):
                    m.next = "drain"
            with m.State("drain"):
                m.d.comb += [
                    draining.eq(1),
                    begin.eq(free & ~drained),
                    self.stalled.eq(~self.room),
                ]
                with m.If(free & ~drained):
                    m.d.sync += [steps_left.eq(steps_left - 1), drained.eq(steps_left == 1)]
                with m.If(drained & ~busy):
                    m.next = "settle"
            with m.State("settle"):
                m.d.sync += flight.eq(flight + 1)
                m.d.sync += landed.eq(landed | (flight == self.flight_cycles - 1))
                with m.If(landed & ~self.busy):
                    m.next = "end"
            with m.State("end"):
                m.d.comb += self.o_end.valid.eq(1)
                with m.If(self.o_end.ready):
                    m.d.sync += self.command.clear.eq(1)
                    m.next = "accept"
        return m

    def _send(
        self,
        m: Module,
        accept: Value,
        shift_left: Value,
        issue: Signal,
        step_left: Signal,
        step_right: Signal,
        last: Signal,
        index: Signal,
    ) -> None:
        """Register the commands. All that concerns the right window takes one more cycle than what
        concerns the left one: a scan sees the left row already in its place, and the right row on
        its way in."""
        i = self.i.payload
        shift_right_soon = Signal()
        right_soon = Signal.like(self.right)
        m.d.sync += [
            self.shift_left.eq(shift_left),
            self.command.scan_left.eq(issue & step_left),
            self.command.scan_right.eq(issue & step_right),
            self.command.index.eq(index),
            shift_right_soon.eq(issue & step_right & last),
            self.shift_right.eq(shift_right_soon),
            self.probe_left.eq(self.left),
            self.right.eq(right_soon),
        ]
        with m.If(accept):  # and stays so until the next one; the end brings empty rows
            m.d.sync += [
                self.left.row.eq(i.left),
                self.left.valid.eq(i.has_left & ~i.end),
                right_soon.row.eq(i.right),
                right_soon.valid.eq(i.has_right & ~i.end),
            ]
        m.d.comb += self.probe_right.eq(self.right)
