"""The walk over closed panes, in order, and over the gaps between them as far as windows reach."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
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


@dataclass(frozen=True)
class _Near:
    """What lies at the place of the walker.

    ``at_gap``: the ``gap``, which is in front of it; ``walkable``: there is more of it, and windows
    are not empty.
    """

    gap: Any
    at_gap: Value
    walkable: Value
    is_closed: Value


class PaneWalker(wiring.Component):
    """Take a step per cycle.

    Latency: the step of a pane leaves 1 cycle after ``closed`` has passed it; 2 where the plan is
    relaxed, and what is closed and where the gap in front lies is found out in the cycle before.

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
        The pane of the step, one step later.
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
        plan = self.plan
        lengths: Any = self.setting if plan.settings else plan
        self._place = place = Signal(
            plan.place, init=plan.slots, reset_less=True, name="next_place"
        )
        phases = Signal(plan.phases)
        self._left = left = Signal(range(plan.most_panes))  # panes until every window is empty
        most_left = Signal.like(left)
        key = Signal(range(self.keys))
        fresh, in_gap = Signal(), Signal()
        awake = Signal()  # low in the cycle after a reset

        # A gap is walked until windows are empty; then the rest of it is skipped at no cost.
        first_key, last_key = Signal(), Signal()
        at_gap, walks, skips = Signal(), Signal(), Signal()
        self._walks, self._skips = walks, skips
        takes, closes = Signal(), Signal()
        self._passes, self._leaves = Signal(), Signal()  # a pane, with all keys; and its place
        look = self._look_ahead if plan.relaxed else self._look
        near = look(m, awake, most_left)
        gap = near.gap
        m.d.comb += [
            most_left.eq(lengths.most_panes - 1),
            first_key.eq(key == 0),
            last_key.eq(key == self.keys - 1),
            at_gap.eq(near.at_gap & first_key),
            walks.eq(Mux(first_key, at_gap & near.walkable, in_gap)),
            skips.eq(at_gap & ~walks),
        ]
        is_fresh = Signal()
        phases_here = Signal(plan.phases)
        next_place, next_key = Signal(plan.place), Signal.like(key)
        m.d.comb += [
            phases_here.eq(Mux(skips, gap.phases, phases)),
            is_fresh.eq(fresh | (skips & (left == 0))),
            closes.eq(~walks & ~(skips & gap.end) & (~first_key | near.is_closed)),
            takes.eq(walks | closes),
            self._passes.eq(takes & last_key),
            self._leaves.eq(closes & last_key),
            self.place.eq(place),
            self.row.eq(Cat(key, place[: plan.slot_bits])),
            self.next_row.eq(Cat(next_key, next_place[: plan.slot_bits])),
            next_place.eq(place),
            next_key.eq(key),
        ]
        with m.If(~awake):
            m.d.comb += next_place.eq(self.restart)
        with m.Elif(self.go & self._leaves):
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
                phases.eq(phases_here),
                fresh.eq(is_fresh),
                in_gap.eq(walks),
            ]
            for k in range(len(plan.windows)):
                m.d.sync += self.step.ends[k].eq(phases_here[k] == 0)
        with m.If(self.go & self._passes):
            m.d.sync += [
                fresh.eq(0),
                left.eq(Mux(walks, left - 1, most_left)),
            ]
            for k in range(len(plan.windows)):
                after = phases_here[k] + 1
                m.d.sync += phases[k].eq(Mux(after == lengths.windows[k].step, 0, after))
        m.d.sync += [awake.eq(1), place.eq(next_place), key.eq(next_key)]

        # The number is needed last of all, so it is found last.
        number, here, behind = (
            Signal(plan.number, name=name) for name in ("next", "here", "behind")
        )
        skipped, passed = Signal(), Signal()
        m.d.comb += here.eq(Mux(skipped, behind, number))
        with m.If(self.go):
            m.d.sync += [
                skipped.eq(skips),
                behind.eq(gap.number),
                passed.eq(self._passes),
                self.number.eq(here),
                number.eq(Mux(passed, here + 1, here)),
            ]
        return m

    def _look(self, m: Module, awake: Value, most_left: Value) -> "_Near":
        """Compare the place with those of the gap in front and of what is closed."""
        gap, place = self.gap.payload, self._place[: self.plan.near]
        walked = Signal.like(self._left)  # panes of the gap
        with m.If(self._skips & self.go):
            m.d.sync += walked.eq(0)
        with m.Elif(self._passes & self._walks & self.go):
            m.d.sync += walked.eq(walked + 1)
        m.d.comb += self.gap.ready.eq(self._skips & self.go)
        return _Near(
            gap=gap,
            at_gap=self.gap.valid & (gap.place == place),
            walkable=(self._left != 0) & (walked != gap.length),
            is_closed=awake & (place != self.closed[: self.plan.near]),
        )

    def _look_ahead(self, m: Module, awake: Value, most_left: Value) -> "_Near":
        """The same, found out a cycle before: with both places that may follow.

        All this moves when steps do, so that no choice in it depends on that.
        """
        plan, coming = self.plan, self.gap.payload
        gap: Any = Signal(plan.gap, name="gap_in_front")
        valid = Signal()
        following = Signal(plan.near)  # the place after this one
        loads, at_gap, is_closed = Signal(), Signal(), Signal()
        rest = Signal(range(plan.most_panes))  # panes of the gap
        some_left, some_rest, walkable = Signal(), Signal(), Signal()
        left_next, rest_next = Signal(), Signal()

        def is_next(place: Value) -> Value:
            here = self._place[: plan.near]
            return Mux(self._leaves, place == following, place == here)

        walked = self._walks & self._passes
        m.d.comb += [
            loads.eq(~valid | self._skips),
            self.gap.ready.eq(loads & self.go),
            left_next.eq(
                Mux(walked, self._left != 1, Mux(self._passes, most_left != 0, some_left))
            ),
            rest_next.eq(Mux(loads, coming.length != 0, Mux(walked, rest != 1, some_rest))),
        ]
        with m.If(self.go):
            m.d.sync += [
                at_gap.eq(Mux(loads, self.gap.valid & is_next(coming.place), is_next(gap.place))),
                is_closed.eq(awake & ~is_next(self.closed[: plan.near])),
                some_left.eq(left_next),
                some_rest.eq(rest_next),
                walkable.eq(left_next & rest_next),
            ]
            with m.If(loads):
                m.d.sync += [
                    valid.eq(self.gap.valid),
                    gap.eq(coming),
                    rest.eq(coming.length),
                ]
            with m.Elif(walked):
                m.d.sync += rest.eq(rest - 1)
        with m.If(~awake):
            m.d.sync += following.eq(self.restart + 1)
        with m.Elif(self.go & self._leaves):
            m.d.sync += following.eq(following + 1)
        return _Near(
            gap=gap,
            at_gap=at_gap,
            walkable=walkable,
            is_closed=is_closed,
        )
