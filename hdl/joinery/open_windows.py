"""The baselines: a module in registers for every window that can be open at a time.

``wid`` is the order-agnostic design on window identifiers (Oge et al. 2012, the paper's section
II-D), ``glacier`` that of Mueller et al. (2009), which takes the order of its input for granted.
They share all of the filter and of the watermark with ``panes``; what they lack is the sharing of
panes between windows, so their size grows with RANGE / SLIDE.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from .aggregate import PaneEngine, PaneQuery, PaneStream
from .panes.front import PaneFront, event_layout
from .panes.plan import PanePlan
from .panes.terms import PaneTerms, Term
from .pipe import delayed

__all__ = ["GlacierAggregation", "WIDAggregation"]


class WIDAggregation(PaneEngine):
    """Aggregate with one module per open window.

    Throughput: a tuple per cycle, but for one cycle where time leaps over all open windows, and one
    for each further window that a tuple closes. Takes one query without keys, and one lane.
    """

    def __init__(
        self, pane_stream: PaneStream, queries: Sequence[PaneQuery], *, sum_rows: int = 1 << 32
    ) -> None:
        if len(queries) > 1:
            raise ValueError(f"A baseline takes one query, not {len(queries)}")
        if pane_stream.keys:
            raise ValueError("A baseline takes no GROUP BY")
        super().__init__(pane_stream, queries, sum_rows=sum_rows)
        self.reads = pane_stream
        self._plan_modules()

    def _plan_modules(self) -> None:
        source = self.reads
        pane = self.pane
        self.plan = PanePlan(source, self.queries, PanePlan.least_slots(source, pane, 1))
        self.terms = PaneTerms(self.queries, self.sum_rows)
        self.front = PaneFront(source, self.plan, self.terms, lanes=1)
        self.front._MustUse__used = True  # type: ignore[attr-defined] # may only be asked
        self.window = self.plan.windows[0]
        ahead = self.window.panes + -(-source.slack // pane)
        self.modules = -(-ahead // self.window.step) + 1

    @property
    def predicted(self) -> dict[str, Any]:
        latency = self.front.latency + 3
        return {
            "cycles": {
                "latency": latency,
                "per_transfer": 1,
                "drain": latency + self.modules + 2,
                "panes": self.window.panes,
                "pane": self.pane,
                "slack": self.reads.slack,
                "step": self.window.step,
                "modules": self.modules,
            },
            "resources": {"modules": self.modules},
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.front = front = self.front
        ending, go = Signal(), Signal()
        event: Any = Signal(event_layout(self.plan))
        m.d.comb += [
            front.i.payload.eq(self.i.payload),
            front.i.valid.eq(self.i.valid & ~ending),
            self.i.ready.eq(front.i.ready & ~ending),
            self.stalled.eq(self.i.valid & ~front.i.ready & ~ending),
            self.late.eq(front.late),
            event.eq(delayed(m, front.o, 2, front.en, "event")),
            go.eq(~self.o.valid | self.o.ready),
        ]
        with m.If(self.i.valid & self.i.ready & self.i.payload.end):
            m.d.sync += ending.eq(1)
        with m.If(self.o.valid & self.o.ready & self.o.payload.end):
            m.d.sync += ending.eq(0)
        self._work(m, event, go)
        return m

    def _work(self, m: Module, event: Any, go: Signal) -> None:
        """Close windows whose end has come, oldest first, and then add the tuple to the others."""
        number, step = self.plan.number, self.window.step
        ends = [Signal(number, name=f"end_{k}") for k in range(self.modules)]
        states: list[Any] = [Signal(self._state, name=f"module_{k}") for k in range(self.modules)]
        oldest, next_end = Signal(range(self.modules)), Signal(number)
        started, occupied = Signal(), Signal()
        closes, rebases, shuts, adds = Signal(), Signal(), Signal(), Signal()
        begins = Signal(number)
        m.d.comb += [
            occupied.eq(Cat(Value.cast(state.term_0) != 0 for state in states).any()),
            closes.eq(event.moved & started & (event.bound >= next_end)),
            rebases.eq(event.moved & (~started | (closes & ~occupied))),
            shuts.eq((closes | event.end) & occupied),
            adds.eq(event.moved & ~rebases & (~closes | (event.bound < next_end + step))),
            # The first end after the bound.
            begins.eq(event.bound + 1 + Mux(event.phases[0] == 0, 0, step - event.phases[0])),
            self.front.en.eq(go & (adds | (event.end & ~occupied) | ~(event.moved | event.end))),
        ]
        with m.If(go & rebases):
            m.d.sync += [started.eq(1), oldest.eq(0), next_end.eq(begins)]
        with m.Elif(go & shuts):
            m.d.sync += [
                oldest.eq(Mux(oldest == self.modules - 1, 0, oldest + 1)),
                next_end.eq(next_end + step),
            ]
        with m.If(go & event.end & ~occupied):
            m.d.sync += started.eq(0)

        for k, (end, state) in enumerate(zip(ends, states, strict=True)):
            is_oldest = oldest == k
            inside = (event.panes[0] < end) & (event.panes[0] >= end - self.window.panes)
            with m.If(go & rebases):
                m.d.sync += end.eq(begins + k * step)
            with m.Elif(go & shuts & is_oldest):
                m.d.sync += end.eq(end + self.modules * step)
            with m.If(go & ((shuts & is_oldest) | rebases)):
                m.d.sync += [
                    state[f"term_{n}"].eq(self.terms.identity(term))
                    for n, term in enumerate(self.terms.all)
                ]
            with m.Elif(go & adds & event.kept & inside):
                m.d.sync += self._added(state)
        self._report(m, Array(states)[oldest], next_end, go, shuts, event.end & ~occupied)

    @property
    def _state(self) -> data.StructLayout:
        return data.StructLayout(
            {f"term_{k}": self.terms.shape(term) for k, term in enumerate(self.terms.all)}
        )

    def _added(self, state: Any) -> list[Any]:
        """A module's terms with the tuple."""
        found = []
        for k, term in enumerate(self.terms.all):
            value = state[f"term_{k}"]
            if term.kind == "count":
                added = value + (value != self.sum_rows + 1)
            else:
                argument = self.terms.arguments.index(term.argument)
                arguments = self.front.arguments[0]
                added = term.merge(value, arguments[f"argument_{argument}"], self.sum_rows)
            found.append(value.eq(added))
        return found

    def _report(
        self, m: Module, state: Any, end: Signal, go: Signal, shuts: Signal, ends: Value
    ) -> None:
        """The row of the window that closes, from the one module whose turn it is."""
        query, out = self.queries[0], self.o.payload
        row = out.rows[0].row.query_0
        own = {term: state[f"term_{k}"] for k, term in enumerate(self.terms.all)}
        count = own[PaneTerms.of(query)[0]]
        fits = count <= self.sum_rows
        m.d.comb += self.errors[self.ROWS].eq(go & shuts & ~fits)
        with m.If(go):
            m.d.sync += [
                self.o.valid.eq(ends | (shuts & (count != 0) & fits)),
                out.end.eq(ends),
                out.rows[0].valid.eq(~ends),
                row.end_time.eq(end * self.plan.pane),
            ]
            for each in query.aggregates:
                place = row.value[each.name]
                if each.function == "avg":
                    total = own[Term(query.where, "sum", each.argument)]
                    m.d.sync += [place.sum.eq(total), place.count.eq(count)]
                elif each.function == "count":
                    m.d.sync += place.eq(count)
                else:
                    m.d.sync += place.eq(own[Term(query.where, each.function, each.argument)])


class GlacierAggregation(WIDAggregation):
    """Aggregate an input in order with one module per open window.

    A tuple or punctuation that is older than one before it raises an error, and its rows are wrong.
    SLACK is not looked at. Throughput and parameters as for `WIDAggregation`.
    """

    def _plan_modules(self) -> None:
        self.reads = replace(self.source, slack=0)
        super()._plan_modules()

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        time = self.i.payload.lanes[0].tuple[self.reads.time]
        latest, seen = Signal.like(time), Signal()
        with m.If(self.i.valid & self.i.ready):
            with m.If(self.i.payload.end):
                m.d.sync += seen.eq(0)
            with m.Elif(self.i.payload.lanes[0].valid):
                m.d.sync += [seen.eq(1), latest.eq(time)]
                m.d.comb += self.errors[self.ORDER].eq(seen & (time < latest))
        return m
