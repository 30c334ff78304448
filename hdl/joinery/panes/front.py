"""From tuples to panes: which pane a tuple is in, whether it passes, and whether it is late."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..aggregate import PaneStream
from ..expr import ExprPipeline, pipeline_latency
from ..number import Divider, SettableDivider, less
from ..pipe import delayed
from .plan import PanePlan
from .store import argument_layout
from .terms import PaneTerms

__all__ = ["PaneFront", "event_layout", "larger"]


def event_layout(plan: PanePlan) -> data.StructLayout:
    """What a transfer, or a part of it, does.

    ``moved``: it carries a time. ``kept``: lanes with a tuple that counts, in ``panes``. ``bound``:
    panes before are closed after it; ``first``: and after its first tuple alone, with ``phases``
    those of this pane, if it is more than before. ``reach``: the pane after all that were named,
    only where there are several lanes.
    """
    number = plan.number
    return data.StructLayout(
        {
            "end": 1,
            "moved": 1,
            "kept": plan.lanes,
            "panes": data.ArrayLayout(number, plan.lanes),
            "first": number,
            "bound": number,
            "reach": number,
            "phases": plan.phases,
        }
    )


class PaneFront(wiring.Component):
    """Number the panes of tuples, filter them, drop the late ones and move the watermark.

    Latency: ``self.latency`` cycles from ``i`` to ``o``. Throughput: one transfer per cycle while
    ``en`` is high; with ``en`` low everything holds. With several lanes, one cycle more where time
    leaps by more than ``plan.leap`` panes inside a transfer: then ``o`` is a part of it.

    Members
    -------
    i : In(stream)
    en : In(1)
    o : Out(event)
    ahead : Out(ArrayLayout(number, lanes))
        The panes of the tuples that ``o`` has after the next cycle with ``en``.
    passes : Out(ArrayLayout(len(terms.wheres), lanes)), arguments, keys : Out
        Which conditions hold, the values of the arguments, and the keys: ``keys`` with
        ``plan.put_delay`` cycles after ``o``, the others 1 cycle after that.
    late : Out(ArrayLayout)
        Late tuples of each query, in this cycle.
    setting : In(plan.setting)
        Only where the plan has settings; it must not change while there is anything here.
    """

    i: stream.Interface
    en: Signal
    o: Any
    ahead: Any
    passes: Any
    arguments: Any
    keys: Any
    late: Any
    setting: Any

    def __init__(
        self, source: PaneStream, plan: PanePlan, terms: PaneTerms, *, lanes: int, ops: int = 2
    ) -> None:
        self.source = source
        self.plan = plan
        self.terms = terms
        self.lanes = lanes
        self.ops = ops
        # Where a transfer may be split, what comes before that point can wait alone.
        self.group_stages = int(lanes > 1)
        wheres = [where for where in terms.wheres if where is not None]
        self.filter_stages = max([pipeline_latency(each, ops) for each in wheres], default=0)
        self.argument_stages = max(
            [pipeline_latency(each, ops) for each in terms.arguments], default=0
        )
        decided = plan.divide_stages + self.group_stages
        later = 2 + plan.put_delay if lanes == 1 else 0
        self.wait = max(0, self.filter_stages - decided, self.argument_stages - decided - later)
        self.latency = self.wait + decided + 1
        super().__init__(
            {
                "i": In(stream.Signature(source.transfer(lanes))),
                "en": In(1),
                "o": Out(event_layout(plan)),
                "ahead": Out(data.ArrayLayout(plan.number, plan.lanes)),
                "passes": Out(data.ArrayLayout(len(terms.wheres), lanes)),
                "arguments": Out(data.ArrayLayout(argument_layout(terms), lanes)),
                "keys": Out(data.ArrayLayout(source.key, lanes)),
                "late": Out(data.ArrayLayout(Shape.cast(range(lanes + 1)), len(plan.queries))),
                **({"setting": In(plan.setting)} if plan.settings else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # `more`: lanes of a split transfer are left, so what comes before must wait.
        self._more, self._early = Signal(name="more"), Signal(name="early")
        m.d.comb += [self._early.eq(self.en & ~self._more), self.i.ready.eq(self._early)]
        entered = self.i.valid  # what is not taken moves nothing
        lanes = []
        for k, lane in enumerate(self.i.payload.lanes):
            live = entered & lane.valid & ~self.i.payload.end
            found = self._number(m, k, lane)
            found["live"] = delayed(
                m, live, self.wait + self.plan.divide_stages, self._early, f"live_{k}"
            )
            found["passes"] = self._evaluate_lane(m, k, lane, live & ~lane.punctuation)
            lanes.append(found)
        end = self._at_decision(m, entered & self.i.payload.end, "end")
        self._decide(m, self._group(m, lanes, end))
        return m

    def _at_decision(self, m: Module, value: Any, name: str, since: int = 0) -> Value:
        """``value``, as it is when the tuple is found late or not."""
        return delayed(m, value, self.latency - 1 - since, self._early, name)

    def _number(self, m: Module, lane: int, carrier: Any) -> dict[str, Any]:
        """The number of the tuple's pane, and of the first pane not closed by its time."""
        plan = self.plan
        time = delayed(m, carrier.tuple[self.source.time], self.wait, self._early, f"time_{lane}")
        column = self.source.schema[self.source.time]
        if plan.settings:
            return self._number_by_setting(m, lane, time)

        def divide(divisor: int, offsets: tuple[int, ...], name: str) -> Any:
            unit = Divider(
                column.shape, column.low, column.high,
                divisor=divisor, offsets=offsets, stages=plan.divide_stages,
            )  # fmt: skip
            m.submodules[f"{name}_{lane}"] = unit
            m.d.comb += [unit.en.eq(self._early), unit.i.eq(time)]
            return unit

        pane = divide(plan.pane, (0, -self.source.slack), "pane")
        found = {"pane": Signal(plan.number, name=f"number_{lane}"),
                 "bound": Signal(plan.number, name=f"bound_{lane}")}  # fmt: skip
        m.d.comb += [found["pane"].eq(pane.o_0), found["bound"].eq(pane.o_1)]
        for window in plan.windows:
            if window.step > 1 and f"part_{window.slide}" not in found:
                unit = divide(window.slide, (-self.source.slack,), f"slide_{window.slide}")
                part = Signal(range(window.step), name=f"part_{window.slide}_{lane}")
                product = unit.fraction_0 * window.step
                m.d.comb += part.eq(product >> unit.reciprocal.shift)
                found[f"part_{window.slide}"] = part
        return found

    def _number_by_setting(self, m: Module, lane: int, time: Value) -> dict[str, Any]:
        """The same with registers. Of the quotient by SLIDE, the low bits are enough."""
        plan, shape = self.plan, self.source.schema[self.source.time].shape

        def divide(by: Any, width: int, name: str, offsets: tuple[Any, ...]) -> Any:
            unit = SettableDivider(
                shape, shift=plan.shift, width=width, sums=len(offsets), stages=plan.divide_stages
            )
            m.submodules[f"{name}_{lane}"] = unit
            m.d.comb += [unit.en.eq(self._early), unit.i.eq(time), unit.multiplier.eq(by)]
            m.d.comb += [getattr(unit, f"offset_{k}").eq(each) for k, each in enumerate(offsets)]
            return unit

        setting = self.setting
        offsets = (Const(plan.offset, plan.total_bits), setting.offset)
        pane = divide(setting.multiplier, plan.number.width, "pane", offsets)
        found = {"pane": Signal(plan.number, name=f"number_{lane}"),
                 "bound": Signal(plan.number, name=f"bound_{lane}")}  # fmt: skip
        m.d.comb += [found["pane"].eq(pane.o_0), found["bound"].eq(pane.o_1)]
        width = Shape.cast(plan.phases.elem_shape).width
        for k in range(len(plan.windows)):
            window = setting.windows[k]
            slide = divide(window.multiplier, width, f"slide_{k}", (window.offset,))
            part = Signal(width, name=f"part_{k}_{lane}")
            m.d.comb += part.eq(pane.o_1[:width] - slide.o_0 * window.step)
            found[f"part_{k}"] = part
        return found

    def _evaluate(self, m: Module, expr: Any, carrier: Any, name: str) -> tuple[Value, int]:
        """The value of ``expr``, and how many cycles after the tuple came."""
        if expr is None:
            return Const(1), 0
        unit = ExprPipeline(expr, self.plan.operands, ops_per_stage=self.ops)
        m.submodules[name] = unit
        if self.plan.settings:
            m.d.comb += unit.i[self.plan.settings.source].eq(self.setting.constants)
        m.d.comb += [unit.en.eq(self._early), unit.i[self.source.name].eq(carrier.tuple)]
        return unit.o, unit.latency

    def _evaluate_lane(self, m: Module, lane: int, carrier: Any, is_tuple: Value) -> Value:
        """Which conditions hold for the tuple; its arguments and key go where they are used."""
        for k, expr in enumerate(self.terms.arguments):
            value, since = self._evaluate(m, expr, carrier, f"argument_{k}_{lane}")
            name = f"argument_{k}_{lane}_later"
            early = max(0, self.latency - 1 - since)
            value = delayed(m, value, early, self._early, name)
            rest = self.latency + self.plan.put_delay + 1 - since - early
            value = delayed(m, value, rest, self.en, f"{name}_still")
            m.d.comb += self.arguments[lane][f"argument_{k}"].eq(value)
        if self.source.keys:
            key: Value = Cat(carrier.tuple[name] for name in self.source.keys)
            since = 1 + self.plan.put_delay
            key = self._at_decision(m, key, f"key_{lane}")
            key = delayed(m, key, since, self.en, f"key_{lane}_on")
            m.d.comb += Value.cast(self.keys[lane]).eq(key)
        conditions = []
        for k, where in enumerate(self.terms.wheres):
            value, since = self._evaluate(m, where, carrier, f"where_{k}_{lane}")
            conditions.append(self._at_decision(m, value, f"where_{k}_{lane}_later", since))
        counts = self._at_decision(m, is_tuple, f"tuple_{lane}")
        passes = Signal(len(conditions), name=f"passes_{lane}")
        m.d.comb += passes.eq(Cat(conditions) & counts.replicate(len(conditions)))
        since = 2 + self.plan.put_delay
        m.d.comb += self.passes[lane].eq(delayed(m, passes, since, self.en, f"passes_{lane}_later"))
        return passes

    def _group(self, m: Module, lanes: list[dict[str, Any]], end: Value) -> dict[str, Any]:
        """Find the largest bound up to each lane, and split a transfer where time leaps."""
        plan = self.plan
        highest: list[Any] = []
        for lane in lanes:
            bound = Mux(lane["live"], lane["bound"], plan.none)
            highest.append(larger(highest[-1], bound) if highest else bound)
        if len(lanes) == 1:
            return {"lanes": lanes, "end": end, "highest": highest, "group": lanes[0]["live"],
                    "last": lanes[0]["bound"], "first": lanes[0]}  # fmt: skip

        def held(value: Any, name: str) -> Value:
            return delayed(m, value, 1, self._early, name)

        leaps: list[Value] = [Const(0)]
        for k, lane in enumerate(lanes[1:], start=1):
            far = less(highest[k - 1] + plan.leap, lane["bound"])
            leaps.append(held(lane["live"] & far, f"leaps_{k}"))
        highest_held = [
            Signal(plan.number, init=plan.none, name=f"highest_{k}") for k in range(self.lanes)
        ]
        with m.If(self._early):
            m.d.sync += [now.eq(each) for now, each in zip(highest_held, highest, strict=True)]
        highest = highest_held
        for k, lane in enumerate(lanes):
            for name, value in lane.items():
                if name != "passes":
                    lane[name] = held(value, f"{name}_{k}")

        # The lanes that are left, from the first on until time leaps.
        done = Signal(self.lanes)
        group: list[Value] = []
        first = dict(lanes[-1])
        last: Value = highest[-1]
        stop: Value = Const(0)
        started: Value = Const(0)
        for k, lane in enumerate(lanes):
            left = lane["live"] & ~done[k]
            stops = stop | (left & started & leaps[k])
            last = Mux(stops & ~stop, highest[k - 1], last) if k else last
            group.append(left & ~stops)
            stop, started = stops, started | left
        for lane, taken in reversed(list(zip(lanes, group, strict=True))):
            for name in first:
                first[name] = Mux(taken, lane[name], first[name])
        m.d.comb += self._more.eq(stop)
        with m.If(self.en):
            m.d.sync += done.eq(Mux(self._more, done | Cat(group), 0))
        return {"lanes": lanes, "end": end, "highest": highest, "group": Cat(group),
                "last": last, "first": first}  # fmt: skip

    def _decide(self, m: Module, group: dict[str, Any]) -> None:
        """Drop late tuples, move the watermark."""
        plan = self.plan
        bound, new_bound = Signal(plan.number, init=plan.none), Signal(plan.number)
        # Where they are equal, either will do; so it is the same comparison as for a late tuple.
        moves = group["group"].any() & ~less(group["last"], bound)
        m.d.comb += new_bound.eq(Mux(moves, group["last"], bound))
        late: list[Value] = []
        kept: list[Value] = []
        reach: Value = new_bound
        for k, lane in enumerate(group["lanes"]):
            before: Value = bound if k == 0 else larger(bound, group["highest"][k - 1])
            is_late, counts = Signal(name=f"is_late_{k}"), Signal(name=f"counts_{k}")
            after = Signal(plan.number, name=f"after_{k}")
            m.d.comb += [
                is_late.eq(less(lane["pane"], before)),
                counts.eq(lane["passes"].any() & ~is_late & group["group"][k]),
                after.eq(lane["pane"] + 1),
            ]
            late.append(Mux(is_late & group["group"][k], lane["passes"], 0))
            kept.append(counts)
            # A tuple that is not late is in no pane below its own bound.
            reach = Mux(counts & less(reach, after), after, reach)
        for k, query in enumerate(plan.queries):
            index = self.terms.wheres.index(query.where)
            m.d.sync += self.late[k].eq(Mux(self.en, sum(each[index] for each in late), 0))
        m.d.comb += [self.ahead[k].eq(lane["pane"]) for k, lane in enumerate(group["lanes"])]
        first = group["first"]
        # What is said of an event is what the register holds after it.
        m.d.comb += self.o.bound.eq(bound)
        if self.lanes == 1:
            m.d.comb += self.o.first.eq(bound)
        with m.If(self.en & moves):
            m.d.sync += bound.eq(group["last"])
        with m.If(self.en):
            m.d.sync += [
                self.o.end.eq(group["end"]),
                self.o.moved.eq(group["group"].any()),
                self.o.kept.eq(Cat(kept)),
            ]
            if self.lanes > 1:
                m.d.sync += [
                    self.o.first.eq(larger(bound, first["bound"])),
                    self.o.reach.eq(reach),
                ]
            m.d.sync += [self.o.panes[k].eq(lane["pane"]) for k, lane in enumerate(group["lanes"])]
        # Nothing comes until an end has left.
        with m.If(self.o.end):
            m.d.sync += bound.eq(plan.none)
        for k, window in enumerate(plan.windows):
            step: Any = self.setting.windows[k].step if plan.settings else window.step
            if plan.settings:
                found, phase = first[f"part_{k}"], self.setting.windows[k].phase
            elif window.step > 1:
                found, phase = first[f"part_{window.slide}"], window.phase(0)
            else:
                continue
            part = Signal(Value.cast(found).shape(), name=f"part_{k}")
            with m.If(self.en):
                m.d.sync += part.eq(found)
            m.d.comb += self.o.phases[k].eq(
                Mux(part >= step - phase, part + phase - step, part + phase)
            )


def larger(left: Value, right: Value) -> Value:
    return Mux(less(right, left), left, right)
