"""Places of panes in memory.

The rows of the pane memory are given out in turn, by *place*: a pane's place is its number minus
an offset, which grows wherever time leaps over panes that no tuple can come to any more; the leap
is told to the walker as a gap in front of a place. So a gap of any length takes no rows, and no
more panes are ever open than SLACK spans. There is one gap at most in front of a place: the pane
after a gap has its place, even if no tuple comes to it.
"""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..number import less
from .front import event_layout
from .plan import PanePlan

__all__ = ["PanePlaces"]


class PanePlaces(wiring.Component):
    """Give every tuple its pane's place, and tell what is closed.

    Latency: ``plan.place_latency`` cycles. Throughput: an event per cycle while ``en`` is high.

    Members
    -------
    en : In(1)
    i : In(event)
    put : Out(lanes), places : Out(ArrayLayout(place, lanes))
        Lanes with a tuple that counts, and where; they stand until ``en``.
    closed : Out(place)
        Panes at places below are closed.
    gap : Out(stream.Signature(plan.gap))
    soon : Out(ArrayLayout(number, lanes))
        The panes of the tuples whose places are out after the next cycle with ``en``.
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
    soon: Any
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
                "soon": Out(data.ArrayLayout(plan.number, plan.lanes)),
                "offset": Out(plan.place),
                "restart": Out(plan.place),
            }
        )

    @property
    def leap_layout(self) -> data.StructLayout:
        """An event, and whether time leaps with it.

        ``from_first`` are numbers less ``first``; ``reaches``: there is a pane with a place from
        ``first`` on; ``beyond``: there is one that had none, where time does not leap. ``reach``:
        the pane after all with a place, if there is any such. ``missing``: how many panes time
        leaps over, if ``seen``: there were any.
        """
        number = self.plan.number
        distance = Shape(number.width + 1, signed=True)
        return data.StructLayout(
            {
                "event": event_layout(self.plan),
                "jump": 1,
                "reaches": 1,
                "beyond": 1,
                "reach": number,
                "seen": 1,
                "missing": distance,
                "from_first": data.StructLayout(
                    {
                        "panes": data.ArrayLayout(distance, self.plan.lanes),
                        "bound": distance,
                        "reach": distance,
                    }
                ),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        leap = self._leap(m)
        event, jump = leap.event, leap.jump
        offset = Signal(plan.place)
        begin = Signal(plan.place, init=plan.slots, reset_less=True)  # its place, once it has one
        closed = Signal(plan.place, init=plan.slots, reset_less=True, name="closed_places")

        # Both answers to whether time leaps are computed beside the question.
        def place_of(number: Value, from_first: Value) -> Value:
            """The place of a pane, with the offset from this event on."""
            return Mux(jump, from_first + begin, number - offset)

        leaps, stays = Signal(plan.place), Signal(plan.place)
        m.d.comb += [
            # The pane after a leap has a place, even if no tuple came to it.
            leaps.eq(Mux(leap.reaches, leap.from_first.reach + begin, begin + 1)),
            stays.eq(Mux(leap.beyond, leap.reach - offset, begin)),
            self.closed.eq(closed),
            self.restart.eq(begin),
            self.soon.eq(event.panes),
            self.offset.eq(offset),
        ]
        # The walker has no use for more of them than windows reach.
        most, seen = plan.most_panes - 1, Signal()
        missing = Signal(leap.missing.shape())
        m.d.comb += self.gap.payload.length.eq(Mux(seen & (missing < most), missing, most))
        with m.If(self.gap.ready):
            m.d.sync += self.gap.valid.eq(0)
        with m.If(self.en):
            m.d.sync += [
                self.put.eq(event.kept),
                self.gap.valid.eq(jump | event.end),
                self.gap.payload.end.eq(event.end),
                self.gap.payload.place.eq(begin),
                self.gap.payload.number.eq(event.first),
                seen.eq(leap.seen & ~event.end),
                missing.eq(leap.missing),
                self.gap.payload.phases.eq(event.phases),
            ]
            m.d.sync += [
                self.places[k].eq(place_of(event.panes[k], leap.from_first.panes[k]))
                for k in range(plan.lanes)
            ]
            with m.If(jump):
                m.d.sync += offset.eq(event.first - begin)
        # What was written before a reset must not be found after it: places go on.
        awake = Signal()  # low in the cycle after a reset
        m.d.sync += awake.eq(1)
        with m.If(~awake):
            m.d.sync += closed.eq(begin)
        with m.Elif(self.en & event.moved):
            m.d.sync += [
                begin.eq(Mux(jump, leaps, stays)),
                closed.eq(place_of(event.bound, leap.from_first.bound)),
            ]
        with m.Elif(self.en & event.end):
            m.d.sync += closed.eq(begin)
        return m

    def _leap(self, m: Module) -> Any:
        """Find out whether time leaps; in a cycle of its own where the plan has one for it."""
        plan, event = self.plan, self.i
        # The first pane without a place; none is less than any pane, so that time leaps at first.
        top = Signal(plan.number, init=plan.none)
        # A signal each, as some depend on others: simulators would see one that depends on itself.
        fields = {name: field.shape for name, field in self.leap_layout}
        leap: Any = SimpleNamespace(
            **{name: Signal(shape, name=f"leap_{name}") for name, shape in fields.items()}
        )
        if plan.lanes == 1:
            # No pane is before `first` but those of late tuples.
            tuples = event.kept[0]
            m.d.comb += [
                leap.reaches.eq(tuples),
                leap.beyond.eq(tuples & ~less(event.panes[0], top)),
                leap.reach.eq(event.panes[0] + 1),
            ]
        else:
            m.d.comb += [
                leap.reaches.eq(less(event.first, event.reach)),
                leap.beyond.eq(less(top, event.reach)),
                leap.reach.eq(event.reach),
            ]
        m.d.comb += [
            leap.event.eq(event),
            leap.jump.eq(event.moved & less(top, event.first)),
            leap.seen.eq(top != plan.none),
            leap.missing.eq(event.first - top),
            leap.from_first.bound.eq(event.bound - event.first),
            leap.from_first.reach.eq(leap.reach - event.first),
        ]
        m.d.comb += [
            leap.from_first.panes[k].eq(event.panes[k] - event.first) for k in range(plan.lanes)
        ]
        with m.If(self.en & event.moved & (leap.jump | leap.beyond)):
            m.d.sync += top.eq(Mux(leap.reaches, leap.reach, event.first + 1))
        with m.If(event.end):
            m.d.sync += top.eq(plan.none)
        if plan.place_latency == 1:
            return leap
        found: Any = Signal(self.leap_layout, name="found_leap")
        with m.If(self.en):
            m.d.sync += [found[name].eq(getattr(leap, name)) for name in fields]
        return found
