"""Places of panes in memory.

The rows of the pane memory are given out in turn, by *place*: a pane's place is its number minus
an offset, which grows wherever time leaps over panes that no tuple can come to any more; the leap
is told to the walker as a gap in front of a place. So a gap of any length takes no rows, and no
more panes are ever open than SLACK spans. There is one gap at most in front of a place: the pane
after a gap has its place, even if no tuple comes to it.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .front import event_layout
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
    offset : Out(place)
        A pane's number less its place, unless an event that is under way changes it.
    restart : Out(place)
        Where places begin after a reset.
    """

    en: Signal
    i: Any
    put: Signal
    places: Any
    closed: Signal
    gap: stream.Interface
    offset: Signal
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
                "offset": Out(plan.place),
                "restart": Out(plan.place),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan, event = self.plan, self.i
        seen = Signal()
        top = Signal(plan.number)  # the first pane without a place
        offset = Signal(plan.place)
        begin = Signal(plan.place, init=plan.slots, reset_less=True)  # its place, once it has one
        closed = Signal(plan.place, init=plan.slots, reset_less=True, name="closed_places")
        # Both answers to whether time leaps are computed beside the question.
        jump = Signal()
        leaps, stays = Signal(plan.place), Signal(plan.place)

        def place_of(number: Value) -> Value:
            """The place of a pane, with the offset from this event on."""
            return Mux(jump, number - event.first + begin, number - offset)

        reaches, beyond = event.reach > event.first, event.reach > top
        m.d.comb += [
            jump.eq(event.moved & (~seen | (event.first > top))),
            # The pane after a leap has a place, even if no tuple came to it.
            leaps.eq(Mux(reaches, event.reach - event.first + begin, begin + 1)),
            stays.eq(Mux(beyond, event.reach - offset, begin)),
            self.closed.eq(closed),
            self.restart.eq(begin),
            self.offset.eq(offset),
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
            m.d.sync += [self.places[k].eq(place_of(event.panes[k])) for k in range(plan.lanes)]
            with m.If(event.moved):
                m.d.sync += seen.eq(1)
            with m.If(event.end):
                m.d.sync += seen.eq(0)
            with m.If(jump):
                m.d.sync += [
                    offset.eq(event.first - begin),
                    top.eq(Mux(reaches, event.reach, event.first + 1)),
                ]
            with m.Elif(event.moved & beyond):
                m.d.sync += top.eq(event.reach)
        # What was written before a reset must not be found after it: places go on.
        awake = Signal()  # low in the cycle after a reset
        m.d.sync += awake.eq(1)
        with m.If(~awake):
            m.d.sync += closed.eq(begin)
        with m.Elif(self.en & event.moved):
            m.d.sync += [begin.eq(Mux(jump, leaps, stays)), closed.eq(place_of(event.bound))]
        with m.Elif(self.en & event.end):
            m.d.sync += closed.eq(begin)
        return m
