"""From tuples to panes: which pane a tuple is in, whether it is late, and which panes are closed.

Panes are numbered since the epoch. The rows of the pane memory are given out in turn, by *place*:
a pane's place is its number minus an offset, which grows wherever time leaps over panes that no
tuple can come to any more; the leap is told to the walker as a gap in front of a place. So a gap
of any length takes no rows, and no more panes are ever open than SLACK spans. There is one gap at
most in front of a place: the pane after a gap has its place, even if no tuple comes to it.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..aggregate import PaneStream
from ..expr import ExprPipeline, pipeline_latency
from .number import Divider
from .pipe import delayed
from .plan import PanePlan
from .store import argument_layout
from .terms import PaneTerms

__all__ = ["PaneFront"]


class PaneFront(wiring.Component):
    """Give every tuple in time its pane's place, and tell what is closed.

    Latency: ``self.latency`` cycles from ``i`` to ``put`` and ``closed``. Throughput: one transfer
    per cycle while ``en`` is high. With several lanes, one cycle more where time leaps by more than
    ``plan.leap`` panes inside a transfer.

    Members
    -------
    i : In(stream)
    put : Out(lanes)
        Lanes with a tuple that counts; they stand until ``en``.
    place : Out(ArrayLayout(place, lanes))
    passes, arguments : Out
        As `PaneStore` takes them, one cycle after ``put``.
    closed : Out(place)
        Panes at places below are closed.
    gap : Out(stream.Signature(plan.gap))
    restart : Out(place)
        Where places begin after a reset.
    en : In(1)
    late : Out
    """

    i: stream.Interface
    put: Signal
    place: Any
    passes: Any
    arguments: Any
    keys: Any
    closed: Signal
    restart: Signal
    gap: stream.Interface
    en: Signal
    late: Any

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
        decided = 2 + self.group_stages
        later = 3 if lanes == 1 else 0
        self.wait = max(0, self.filter_stages - decided, self.argument_stages - decided - later)
        self.latency = self.wait + decided + 2
        super().__init__(
            {
                "i": In(stream.Signature(source.transfer(lanes))),
                "put": Out(lanes),
                "place": Out(data.ArrayLayout(plan.place, lanes)),
                "passes": Out(data.ArrayLayout(len(terms.wheres), lanes)),
                "arguments": Out(data.ArrayLayout(argument_layout(terms), lanes)),
                "keys": Out(data.ArrayLayout(source.key, lanes)),
                "closed": Out(plan.place),
                "restart": Out(plan.place),
                "gap": Out(stream.Signature(plan.gap)),
                "en": In(1),
                "late": Out(data.ArrayLayout(Shape.cast(range(lanes + 1)), len(plan.queries))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # `more`: lanes of a split transfer are left, so what comes before must wait.
        self._more, self._early = Signal(name="more"), Signal(name="early")
        m.d.comb += [self._early.eq(self.en & ~self._more), self.i.ready.eq(self._early)]
        entered = self.i.valid & self.i.ready
        lanes = []
        for k, lane in enumerate(self.i.payload.lanes):
            live = entered & lane.valid & ~self.i.payload.end
            found = self._number(m, k, lane)
            found["live"] = self._at_decision(m, live, f"live_{k}")
            found["passes"] = self._evaluate_lane(m, k, lane, live & ~lane.punctuation)
            lanes.append(found)
        end = self._at_decision(m, entered & self.i.payload.end, "end")
        self._give_places(m, self._decide(m, self._group(m, lanes, end)))
        return m

    def _at_decision(self, m: Module, value: Any, name: str, since: int = 0) -> Value:
        """``value``, as it is when the tuple is found late or not."""
        return delayed(m, value, self.latency - 2 - since, self._early, name)

    def _number(self, m: Module, lane: int, carrier: Any) -> dict[str, Any]:
        """The number of the tuple's pane, and of the first pane not closed by its time."""
        plan = self.plan
        time = delayed(m, carrier.tuple[self.source.time], self.wait, self._early, f"time_{lane}")
        column = self.source.schema[self.source.time]

        def divide(divisor: int, offsets: tuple[int, ...], name: str) -> Divider:
            unit = Divider(column.shape, column.low, column.high, divisor=divisor, offsets=offsets)
            m.submodules[f"{name}_{lane}"] = unit
            m.d.comb += [unit.en.eq(self._early), unit.i.eq(time)]
            return unit

        pane = divide(plan.pane, (0, -self.source.slack), "pane")
        found = {"pane": Signal(plan.number, name=f"number_{lane}"),
                 "bound": Signal(plan.number, name=f"bound_{lane}")}  # fmt: skip
        m.d.comb += [found["pane"].eq(pane.o_0), found["bound"].eq(pane.o_1)]
        for window in plan.windows:
            if window.step > 1 and window.slide not in found:
                unit = divide(window.slide, (-self.source.slack,), f"slide_{window.slide}")
                part = Signal(range(window.step), name=f"part_{window.slide}_{lane}")
                product = unit.fraction_0 * window.step
                m.d.comb += part.eq(product >> unit.reciprocal.shift)
                found[f"part_{window.slide}"] = part
        return found

    def _evaluate(self, m: Module, expr: Any, carrier: Any, name: str) -> tuple[Value, int]:
        """The value of ``expr``, and how many cycles after the tuple came."""
        if expr is None:
            return Const(1), 0
        unit = ExprPipeline(expr, self.source.operands, ops_per_stage=self.ops)
        m.submodules[name] = unit
        m.d.comb += [unit.en.eq(self._early), unit.i[self.source.name].eq(carrier.tuple)]
        return unit.o, unit.latency

    def _evaluate_lane(self, m: Module, lane: int, carrier: Any, is_tuple: Value) -> Value:
        """Which conditions hold for the tuple; its arguments and key go where they are used."""
        for k, expr in enumerate(self.terms.arguments):
            value, since = self._evaluate(m, expr, carrier, f"argument_{k}_{lane}")
            name = f"argument_{k}_{lane}_later"
            early = max(0, self.latency - 2 - since)
            value = delayed(m, value, early, self._early, name)
            rest = self.latency + 1 - since - early
            value = delayed(m, value, rest, self.en, f"{name}_still")
            m.d.comb += self.arguments[lane][f"argument_{k}"].eq(value)
        if self.source.keys:
            key = Cat(carrier.tuple[name] for name in self.source.keys)
            key = delayed(m, self._at_decision(m, key, f"key_{lane}"), 2, self.en, f"key_{lane}_on")
            m.d.comb += Value.cast(self.keys[lane]).eq(key)
        conditions = []
        for k, where in enumerate(self.terms.wheres):
            value, since = self._evaluate(m, where, carrier, f"where_{k}_{lane}")
            conditions.append(self._at_decision(m, value, f"where_{k}_{lane}_later", since))
        counts = self._at_decision(m, is_tuple, f"tuple_{lane}")
        passes = Signal(len(conditions), name=f"passes_{lane}")
        m.d.comb += passes.eq(Cat(conditions) & counts.replicate(len(conditions)))
        m.d.comb += self.passes[lane].eq(delayed(m, passes, 3, self.en, f"passes_{lane}_later"))
        return passes

    def _group(self, m: Module, lanes: list[dict[str, Any]], end: Value) -> dict[str, Any]:
        """Find the largest bound up to each lane, and split a transfer where time leaps."""
        plan = self.plan
        highest: list[Value] = []
        for lane in lanes:
            bound = Mux(lane["live"], lane["bound"], plan.none)
            highest.append(_larger(highest[-1], bound) if highest else bound)
        if len(lanes) == 1:
            return {"lanes": lanes, "end": end, "highest": highest, "group": lanes[0]["live"],
                    "last": highest[0], "first": lanes[0]}  # fmt: skip
        raise NotImplementedError

    def _decide(self, m: Module, group: dict[str, Any]) -> dict[str, Any]:
        """Drop late tuples, move the watermark."""
        plan = self.plan
        bound = Signal(plan.number, init=plan.none)
        found: dict[str, Any] = {
            "end": Signal(name="ends"), "moved": Signal(), "kept": Signal(self.lanes),
            "panes": Signal(data.ArrayLayout(plan.number, self.lanes)),
            "first": Signal(plan.number, name="first_bound"),
            "bound": Signal(plan.number, name="new_bound"), "reach": Signal(plan.number),
        }  # fmt: skip
        new_bound = Signal(plan.number, name="bound_now")
        m.d.comb += new_bound.eq(_larger(bound, group["last"]))
        late, kept, reach = [], [], new_bound
        for k, lane in enumerate(group["lanes"]):
            before = bound if k == 0 else _larger(bound, group["highest"][k - 1])
            is_late, counts = Signal(name=f"is_late_{k}"), Signal(name=f"counts_{k}")
            m.d.comb += [
                is_late.eq(lane["pane"] < before),
                counts.eq(lane["passes"].any() & ~is_late & group["group"][k]),
            ]
            late.append(Mux(is_late & group["group"][k], lane["passes"], 0))
            kept.append(counts)
            reach = _larger(reach, Mux(counts, lane["pane"] + 1, plan.none))
        first = group["first"]
        for query, where in enumerate(plan.queries):
            index = self.terms.wheres.index(where.where)
            m.d.sync += self.late[query].eq(Mux(self.en, sum(each[index] for each in late), 0))
        with m.If(self.en):
            m.d.sync += [
                bound.eq(Mux(group["end"], plan.none, new_bound)),
                found["end"].eq(group["end"]),
                found["moved"].eq(group["group"].any()),
                found["kept"].eq(Cat(kept)),
                found["panes"].eq(Cat(lane["pane"] for lane in group["lanes"])),
                found["first"].eq(_larger(bound, first["bound"])),
                found["bound"].eq(new_bound),
                found["reach"].eq(reach),
            ]
            for name in (name for name in first if name.startswith("part_")):
                found[name] = Signal.like(first[name], name=f"{name}_held")
                m.d.sync += found[name].eq(first[name])
        return found

    def _give_places(self, m: Module, moved: dict[str, Any]) -> None:
        """Find the places of tuples, what is closed, and over how many panes time leapt."""
        plan = self.plan
        seen = Signal()
        top = Signal(plan.number)  # the first pane without a place
        offset = Signal(plan.place)
        begin = Signal(plan.place, init=plan.slots, reset_less=True)  # its place, once it has one
        closed = Signal.like(begin, name="closed_places")
        jump, new_offset = Signal(), Signal(plan.place)
        new_top = Signal(plan.number)
        m.d.comb += [
            jump.eq(moved["moved"] & (~seen | (moved["first"] > top))),
            new_offset.eq(Mux(jump, moved["first"] - begin, offset)),
            new_top.eq(_larger(Mux(jump, moved["first"] + 1, top), moved["reach"])),
            self.closed.eq(closed),
            self.restart.eq(begin),
        ]
        with m.If(self.gap.ready):
            m.d.sync += self.gap.valid.eq(0)
        with m.If(self.en):
            m.d.sync += [
                self.put.eq(moved["kept"]),
                self.gap.valid.eq(jump | moved["end"]),
                self.gap.payload.end.eq(moved["end"]),
                self.gap.payload.place.eq(begin),
                self.gap.payload.number.eq(moved["first"]),
            ]
            m.d.sync += [
                self.place[k].eq(moved["panes"][k] - new_offset) for k in range(self.lanes)
            ]
            for query, window in enumerate(plan.windows):
                if window.step > 1:
                    part = moved[f"part_{window.slide}"] + window.phase(0)
                    wrapped = Mux(part >= window.step, part - window.step, part)
                    m.d.sync += self.gap.payload.phases[query].eq(wrapped)
            with m.If(moved["moved"]):
                m.d.sync += [seen.eq(1), top.eq(new_top), offset.eq(new_offset)]
            with m.If(moved["end"]):
                m.d.sync += seen.eq(0)
        # What was written before a reset must not be found after it: places go on.
        with m.If(ResetSignal()):
            m.d.sync += closed.eq(begin)
        with m.Elif(self.en & moved["moved"]):
            m.d.sync += [begin.eq(new_top - new_offset), closed.eq(moved["bound"] - new_offset)]
        with m.Elif(self.en & moved["end"]):
            m.d.sync += closed.eq(begin)


def _larger(left: Value, right: Value) -> Value:
    return Mux(left > right, left, right)
