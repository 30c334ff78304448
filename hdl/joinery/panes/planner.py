"""From settings, as a host gives them, to the constants that the engine works with.

One divider, a bit per cycle, computes all of them in turn: the greatest common divisor by Euclid's
algorithm, what is so many panes, and reciprocals, which are as exact as those of a build (see
`joinery.number`).
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .plan import PanePlan

__all__ = ["PanePlanner"]


@dataclass(frozen=True)
class Division:
    """A step of the plan.

    Without a numerator it is 2 ** shift, rounded up.

    Parameters
    ----------
    keep : list of statements
        Store what is wanted of the quotient or the rest.
    most : int or None
        A request with a larger quotient is refused.
    offset : Value or None
        Takes what must be added to products with the quotient, so that SLACK is subtracted.
    until_even : bool
        Divide the divisor by the rest, and so on, until nothing is left.
    """

    numerator: Value | None
    divisor: Value
    keep: Any = ()
    most: int | None = None
    offset: Any = None
    until_even: bool = False


class PanePlanner(wiring.Component):
    """Check a request, and compute what it takes.

    Parameters
    ----------
    plan : PanePlan
        Of a build with settings.

    Members
    -------
    asked : In(settings), apply : In(1)
        A request; it replaces one that has not been taken.
    hold : In(1)
        The plan is about to be taken; a request waits so long.
    taken : In(1)
        The plan has been taken.
    busy : Out(1)
        There is a request.
    ready : Out(1), planned : Out(plan.setting)
        It is planned.
    refused : Out(1)
        It is out of the limits; pulses.
    """

    asked: Any
    apply: Signal
    hold: Signal
    taken: Signal
    busy: Signal
    ready: Signal
    refused: Signal
    planned: Any

    def __init__(self, plan: PanePlan) -> None:
        assert plan.settings is not None
        self.plan = plan
        self.settings = plan.settings
        super().__init__(
            {
                "asked": In(self.settings.layout),
                "apply": In(1),
                "hold": In(1),
                "taken": In(1),
                "busy": Out(1),
                "ready": Out(1),
                "refused": Out(1),
                "planned": Out(plan.setting),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked: Any = Signal(self.settings.layout)
        wanted, refuses = Signal(), Signal()
        self._number = Signal(self.plan.shift + 1, name="number")
        self._divisor = Signal(asked.slack.shape(), name="divisor")
        self._rest = Signal.like(self._divisor, name="rest")
        self._count = Signal(range(len(self._number) + 1), name="count")
        slack = Signal(asked.slack.shape())
        product = Signal(self.plan.total_bits)
        divisions = self._divisions(asked)
        step = Signal(range(len(divisions)))
        m.d.comb += self.refused.eq(refuses & ~wanted & ~self.apply)

        def replace() -> Any:
            """Turn to a new request, if there is one."""
            with m.If(wanted & ~self.hold):
                m.d.sync += wanted.eq(0)
                m.next = "check"

        def refuse_if(condition: Any) -> None:
            with m.If(condition):
                m.d.comb += refuses.eq(1)
                m.next = "idle"

        def of_each(do: Any) -> None:
            with m.Switch(step):
                for k, division in enumerate(divisions):
                    with m.Case(k):
                        do(division)

        def store(division: Division) -> None:
            m.next = "advance"
            m.d.sync += division.keep
            if division.until_even:
                with m.If(self._rest != 0):
                    self._load(m, self._divisor, self._rest)
                    m.next = "divide"
            if division.most is not None:
                refuse_if(self._number > division.most)
            if division.offset is not None:
                m.d.sync += [self._count.eq(len(slack)), product.eq(0), slack.eq(asked.slack)]
                m.next = "multiply"

        def add(division: Division) -> None:
            if division.offset is not None:
                m.d.sync += division.offset.eq(product + self.plan.offset)

        with m.FSM(name="planner") as fsm:
            with m.State("idle"):
                replace()
            with m.State("check"):
                self._begin(m, asked)
                m.d.sync += step.eq(0)
                m.next = "load"
                refuse_if(self._exceeds(asked))
            with m.State("load"):
                of_each(lambda division: self._load(m, division.numerator, division.divisor))
                m.next = "divide"
                replace()
            with m.State("divide"):
                self._divide(m)
                with m.If(self._count == 1):
                    m.next = "store"
            with m.State("store"):
                of_each(store)
            with m.State("multiply"):
                m.d.sync += [
                    product.eq((product << 1) - Mux(slack[-1], self._number, 0)),
                    slack.eq(slack << 1),
                    self._count.eq(self._count - 1),
                ]
                with m.If(self._count == 1):
                    m.next = "add"
            with m.State("add"):
                of_each(add)
                m.next = "advance"
            with m.State("advance"):
                m.d.sync += step.eq(step + 1)
                m.next = "load"
                with m.If(step == len(divisions) - 1):
                    m.next = "ready"
            with m.State("ready"):
                replace()
                with m.If(self.taken):
                    m.next = "idle"
        m.d.comb += [
            self.ready.eq(fsm.ongoing("ready") & ~wanted),
            self.busy.eq(~fsm.ongoing("idle") | wanted | self.apply),
        ]
        with m.If(self.apply):
            m.d.sync += [asked.eq(self.asked), wanted.eq(1)]
        return m

    def _divisions(self, asked: Any) -> list[Division]:
        """All that is computed, in order."""
        planned, plan = self.planned, self.plan
        names = [self.settings.of_query(k) for k in range(len(plan.windows))]
        lengths = [asked[name] for pair in names for name in pair]
        common = [
            Division(planned.pane, length, [planned.pane.eq(self._divisor)], until_even=True)
            for length in lengths[1:]
        ]
        found = [*common, Division(asked.slack, planned.pane, most=plan.most_slack_panes)]
        for k, (window, (range_name, slide_name)) in enumerate(
            zip(plan.windows, names, strict=True)
        ):
            place = planned.windows[k]
            more = self._number > planned.most_panes
            keep_panes = [
                place.panes.eq(self._number),
                planned.most_panes.eq(Mux(more, self._number, planned.most_panes)),
            ]
            keep_step = [place.step.eq(self._number)]
            keep_multiplier = [place.multiplier.eq(self._number)]
            phase = Mux(self._rest == 0, 0, place.step - self._rest)
            found += [
                Division(asked[range_name], planned.pane, keep_panes, most=window.panes),
                Division(asked[slide_name], planned.pane, keep_step, most=plan.most_step),
                Division(place.panes - 1, place.step, [place.phase.eq(phase)]),
                Division(None, asked[slide_name], keep_multiplier, offset=place.offset),
            ]
        keep = [planned.multiplier.eq(self._number)]
        return [*found, Division(None, planned.pane, keep, offset=planned.offset)]

    def _begin(self, m: Module, asked: Any) -> None:
        m.d.sync += [
            self.planned.pane.eq(asked[self.settings.of_query(0)[0]]),
            self.planned.most_panes.eq(0),
        ]
        for name, _ in self.settings.constants:
            m.d.sync += self.planned.constants[name].eq(asked[name])

    def _exceeds(self, asked: Any) -> Value:
        """A setting is not what its register was made for."""
        return Cat(
            (asked[each.name] < each.low) | (asked[each.name] > each.high)
            for each in self.settings.all
        ).any()

    def _load(self, m: Module, numerator: Value | None, divisor: Value) -> None:
        """Begin a division. A number has as many bits as a divisor; they are the top ones."""
        width, full = len(self._divisor), len(self._number)
        m.d.sync += [self._divisor.eq(divisor), self._rest.eq(0)]
        if numerator is None:
            less = Signal(self.plan.shift)
            m.d.comb += less.eq(divisor - 1)
            m.d.sync += [self._number.eq(Cat(less, Const(1, 1))), self._count.eq(full)]
        else:
            short = Signal(width)
            m.d.comb += short.eq(numerator)
            moved = Cat(Const(0, full - width), short)
            m.d.sync += [self._number.eq(moved), self._count.eq(width)]

    def _divide(self, m: Module) -> None:
        """One bit."""
        shifted, fits = Cat(self._number[-1], self._rest), Signal()
        m.d.comb += fits.eq(shifted >= self._divisor)
        m.d.sync += [
            self._rest.eq(Mux(fits, shifted - self._divisor, shifted)),
            self._number.eq(Cat(fits, self._number[:-1])),
            self._count.eq(self._count - 1),
        ]
