"""The walk over closed panes, in order, and over the gaps between them as far as windows reach."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .plan import PanePlan

__all__ = ["PaneWalker", "step_layout"]


def step_layout(plan: PanePlan, keys: int) -> data.StructLayout:
    """A step of the walk: one pane and key.

    ``fresh``: all windows are empty before this pane. ``empty``: no tuple came to this pane.
    ``ends``: for each query, a window ends with this pane. ``end``: the input has ended, and this
    is no step at all.
    """
    return data.StructLayout(
        {
            "valid": 1,
            "end": 1,
            "fresh": 1,
            "empty": 1,
            "key": range(keys),
            "ends": len(plan.windows),
        }
    )


class PaneWalker(wiring.Component):
    """Take a step per cycle.

    Latency: the step of a pane leaves 1 cycle after ``closed`` has passed it.

    Members
    -------
    closed, restart : In(place)
    gap : In(stream.Signature(plan.gap))
    go : In(1)
        What comes after can take a step.
    place : Out(place)
        The first place not done.
    row, next_row : Out
        The row of the step to come, slot and key; and what it will be in the next cycle.
    step : Out(struct)
    number : Out(number)
        The pane of the step.
    setting : In(plan.setting)
        Only where the plan has settings.
    """

    closed: Signal
    restart: Signal
    gap: stream.Interface
    go: Signal
    place: Signal
    row: Signal
    next_row: Signal
    number: Signal
    step: Any
    setting: Any

    def __init__(self, plan: PanePlan, *, keys: int = 1) -> None:
        self.plan = plan
        self.keys = keys
        super().__init__(
            {
                "closed": In(plan.place),
                "restart": In(plan.place),
                "gap": In(stream.Signature(plan.gap)),
                "go": In(1),
                "place": Out(plan.place),
                "row": Out(range(plan.slots * keys)),
                "next_row": Out(range(plan.slots * keys)),
                "number": Out(plan.number),
                "step": Out(step_layout(plan, keys)),
                **({"setting": In(plan.setting)} if plan.settings else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan, gap = self.plan, self.gap.payload
        lengths: Any = self.setting if plan.settings else plan
        place = Signal(plan.place, init=plan.slots, reset_less=True, name="next_place")
        number = Signal(plan.number)
        phases = Signal(plan.phases)
        left = Signal(range(plan.most_panes))  # panes until every window is empty
        walked = Signal(range(plan.most_panes))  # panes of the gap in front
        key = Signal(range(self.keys))
        fresh, in_gap = Signal(), Signal()
        awake = Signal()  # low in the cycle after a reset

        # A gap is walked until windows are empty; then the rest of it is skipped at no cost.
        first_key, last_key = Signal(), Signal()
        at_gap, walks, skips = Signal(), Signal(), Signal()
        m.d.comb += [
            first_key.eq(key == 0),
            last_key.eq(key == self.keys - 1),
            at_gap.eq(self.gap.valid & (gap.place == place[: plan.near]) & first_key),
            walks.eq(Mux(first_key, at_gap & (left != 0) & (walked != gap.length), in_gap)),
            skips.eq(at_gap & ~walks),
            self.gap.ready.eq(skips & self.go),
        ]
        here, is_fresh = Signal(plan.number), Signal()
        phases_here = Signal(plan.phases)
        takes, closes, is_closed = Signal(), Signal(), Signal()
        next_place, next_key = Signal(plan.place), Signal.like(key)
        m.d.comb += [
            here.eq(Mux(skips, gap.number, number)),
            phases_here.eq(Mux(skips, gap.phases, phases)),
            is_fresh.eq(fresh | (skips & (left == 0))),
            is_closed.eq(place[: plan.near] != self.closed[: plan.near]),
            closes.eq(awake & ~walks & ~(skips & gap.end) & (~first_key | is_closed)),
            takes.eq(walks | closes),
            self.place.eq(place),
            self.row.eq(Cat(key, place[: plan.slot_bits])),
            self.next_row.eq(Cat(next_key, next_place[: plan.slot_bits])),
            next_place.eq(place),
            next_key.eq(key),
        ]
        with m.If(~awake):
            m.d.comb += next_place.eq(self.restart)
        with m.Elif(self.go & closes & last_key):
            m.d.comb += next_place.eq(place + 1)
        with m.If(self.go & takes):
            m.d.comb += next_key.eq(Mux(last_key, 0, key + 1))
        with m.If(self.go):
            m.d.sync += [
                self.step.valid.eq(takes),
                self.step.end.eq(skips & gap.end),
                self.step.fresh.eq(is_fresh),
                self.step.empty.eq(walks),
                self.step.key.eq(key),
                self.number.eq(here),
                number.eq(here),
                phases.eq(phases_here),
                fresh.eq(is_fresh),
                in_gap.eq(walks),
            ]
            for k in range(len(plan.windows)):
                m.d.sync += self.step.ends[k].eq(phases_here[k] == 0)
            with m.If(skips):
                m.d.sync += walked.eq(0)
            with m.Elif(walks & last_key):
                m.d.sync += walked.eq(walked + 1)
            with m.If(takes & last_key):
                m.d.sync += [
                    number.eq(here + 1),
                    fresh.eq(0),
                    left.eq(Mux(walks, left - 1, lengths.most_panes - 1)),
                ]
                for k in range(len(plan.windows)):
                    after = phases_here[k] + 1
                    m.d.sync += phases[k].eq(Mux(after == lengths.windows[k].step, 0, after))
        m.d.sync += [awake.eq(1), place.eq(next_place), key.eq(next_key)]
        return m
