"""Places of panes in memory.

The rows of the pane memory are given out in turn, by *place*: a pane's place is its number minus
an offset, which grows wherever time leaps over panes that no tuple can come to any more; the leap
is told to the walker as a gap in front of a place. So a gap of any length takes no rows, and no
more panes are ever open than SLACK spans. There is one gap at most in front of a place: the pane
after a gap has its place, even if no tuple comes to it.
"""

from typing import Any

from amaranth.hdl import Module, Mux, ResetSignal, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .front import event_layout, larger
from .plan import PanePlan

__all__ = ["PanePlaces"]


class PanePlaces(wiring.Component):
    """Give every tuple its pane's place, and tell what is closed.

    Latency: 1 cycle. Throughput: an event per cycle while ``en`` is high.

    Members
    -------
    en : In(1)
    i : In(event)
    put : Out(lanes), places : Out(ArrayLayout(place, lanes))
        Lanes with a tuple that counts, and where; they stand until ``en``.
    closed : Out(place)
        Panes at places below are closed.
    gap : Out(stream.Signature(plan.gap))
    restart : Out(place)
        Where places begin after a reset.
    """

    en: Signal
    i: Any
    put: Signal
    places: Any
    closed: Signal
    gap: stream.Interface
    restart: Signal

    def __init__(self, plan: PanePlan) -> None:
        self.plan = plan
        super().__init__(
            {
                "en": In(1),
                "i": In(event_layout(plan)),
                "put": Out(plan.lanes),
                "places": Out(data.ArrayLayout(plan.place, plan.lanes)),
                "closed": Out(plan.place),
                "gap": Out(stream.Signature(plan.gap)),
                "restart": Out(plan.place),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan, event = self.plan, self.i
        seen = Signal()
        top = Signal(plan.number)  # the first pane without a place
        offset, new_offset = Signal(plan.place), Signal(plan.place)
        begin = Signal(plan.place, init=plan.slots, reset_less=True)  # its place, once it has one
        closed = Signal(plan.place, init=plan.slots, reset_less=True, name="closed_places")
        jump, new_top = Signal(), Signal(plan.number)
        m.d.comb += [
            jump.eq(event.moved & (~seen | (event.first > top))),
            new_offset.eq(Mux(jump, event.first - begin, offset)),
            new_top.eq(larger(Mux(jump, event.first + 1, top), event.reach)),
            self.closed.eq(closed),
            self.restart.eq(begin),
        ]
        with m.If(self.gap.ready):
            m.d.sync += self.gap.valid.eq(0)
        with m.If(self.en):
            m.d.sync += [
                self.put.eq(event.kept),
                self.gap.valid.eq(jump | event.end),
                self.gap.payload.end.eq(event.end),
                self.gap.payload.place.eq(begin),
                self.gap.payload.number.eq(event.first),
                self.gap.payload.phases.eq(event.phases),
            ]
            m.d.sync += [self.places[k].eq(event.panes[k] - new_offset) for k in range(plan.lanes)]
            with m.If(event.moved):
                m.d.sync += [seen.eq(1), top.eq(new_top), offset.eq(new_offset)]
            with m.If(event.end):
                m.d.sync += seen.eq(0)
        # What was written before a reset must not be found after it: places go on.
        with m.If(ResetSignal()):
            m.d.sync += closed.eq(begin)
        with m.Elif(self.en & event.moved):
            m.d.sync += [begin.eq(new_top - new_offset), closed.eq(event.bound - new_offset)]
        with m.Elif(self.en & event.end):
            m.d.sync += closed.eq(begin)
        return m
