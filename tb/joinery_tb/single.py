"""An engine without windows, to test all that is around engines for aggregates."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data

from joinery.aggregate import PaneEngine, PaneQuery
from joinery.expr import ExprPipeline

__all__ = ["SingleTuples"]


class SingleTuples(PaneEngine):
    """Report each tuple that passes WHERE as if it were a window, which ends at its time.

    Tuples at odd times count as late, and are not reported. The lanes of a transfer are reported
    one after the other. A request for settings is refused where the first setting is odd.
    """

    @property
    def predicted(self) -> dict[str, Any]:
        return {"cycles": {"latency": 1, "per_transfer": self.lanes, "drain": 1}}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        source = self.source
        held: Any = Signal(source.transfer(self.lanes))
        full = Signal()
        turn = Signal(range(self.lanes))
        here = held.lanes[turn]
        operands = Signal(source.operands)
        time = getattr(operands, source.name)[source.time]
        is_tuple = Signal()
        move = Signal()
        last = Signal()
        m.d.comb += [
            Value.cast(operands).eq(Value.cast(here.tuple)),
            is_tuple.eq(full & ~held.end & here.valid & ~here.punctuation),
            last.eq(held.end | (turn == self.lanes - 1)),
            self.o.payload.end.eq(held.end),
            move.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(~full),
            self.stalled.eq(self.i.valid & full),
        ]
        passes = [
            self._passes(m, number, query, operands) for number, query in enumerate(self.queries)
        ]
        rows = [each & is_tuple & ~time[0] for each in passes]
        m.d.comb += self.o.valid.eq(full & (held.end | Cat(*rows).any()))
        for number, query in enumerate(self.queries):
            m.d.comb += [
                self.o.payload.rows[number].valid.eq(rows[number]),
                self.late[number].eq(passes[number] & is_tuple & time[0] & move),
            ]
            self._report(m, number, query, operands, time)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [held.eq(self.i.payload), full.eq(1), turn.eq(0)]
        with m.Elif(full & move):
            m.d.sync += turn.eq(turn + 1)
            with m.If(last):
                m.d.sync += full.eq(0)
        if self.settings:
            port: Any = self
            wrong = getattr(self, f"set_{self.settings[0].name}")[0]
            m.d.comb += [port.applied.eq(port.apply & ~wrong), port.refused.eq(port.apply & wrong)]
        return m

    def _passes(self, m: Module, number: int, query: PaneQuery, operands: Any) -> Value:
        return self._value(m, f"where_{number}", query.where, operands) if query.where else Const(1)

    def _value(self, m: Module, name: str, expr: Any, operands: Any) -> Value:
        pipeline = ExprPipeline(expr, self.source.operands, ops_per_stage=None)
        m.submodules[name] = pipeline
        m.d.comb += [pipeline.en.eq(1), pipeline.i.eq(operands)]
        result: Value = pipeline.o
        return result

    def _report(self, m: Module, number: int, query: PaneQuery, operands: Any, time: Value) -> None:
        row = self.o.payload.rows[number].row[f"query_{number}"]
        m.d.comb += row.end_time.eq(time)
        here = getattr(operands, self.source.name)
        for name in self.source.keys:
            m.d.comb += row.key[name].eq(here[name])
        for each in query.aggregates:
            place = row.value[each.name]
            if each.function == "count":
                m.d.comb += place.eq(1)
                continue
            value = self._value(m, f"query_{number}_{each.name}", each.argument, operands)
            if isinstance(place, data.View):  # an average
                m.d.comb += [place["sum"].eq(value), place["count"].eq(1)]
            else:
                m.d.comb += place.eq(value)
