"""The SELECT list of a join as hardware: from the columns of a pair to those of the result."""

from collections.abc import Mapping

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .expr import Expr, ExprPipeline, pipeline_latency
from .join import JoinPair

__all__ = ["Projection"]


class Projection(wiring.Component):
    """Compute the columns of a result from each match; pass the end on in its turn.

    Latency: ``self.latency`` cycles, 0 where every column is one of the pair's. Throughput: a
    transfer per cycle. ``i.ready`` depends on ``o.ready``.

    Parameters
    ----------
    pair : JoinPair
    columns : mapping of str to (Expr, Shape)
        Name, value and shape of every column of the result, in order.
    lanes : int
        Matches in a transfer, at most.
    ops_per_stage : int
        Bounds the operators between two registers.

    Members
    -------
    i : In(stream.Signature(pair.result(lanes)))
    o : Out(stream.Signature(self.result))
        The same with a ``row`` in the place of each match.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(
        self,
        pair: JoinPair,
        columns: Mapping[str, tuple[Expr, Shape]],
        *,
        lanes: int = 1,
        ops_per_stage: int = 2,
    ) -> None:
        self.columns = dict(columns)
        self.ops_per_stage = ops_per_stage
        self.operands = data.StructLayout(
            {pair.names[0]: pair.match["left"].shape, pair.names[1]: pair.match["right"].shape}
        )
        self.row = data.StructLayout({name: shape for name, (_, shape) in columns.items()})
        lane = data.StructLayout({"valid": 1, "row": self.row})
        self.result = data.StructLayout({"end": 1, "lanes": data.ArrayLayout(lane, lanes)})
        self.latency = max((self._latency(expr) for expr, _ in columns.values()), default=0)
        super().__init__(
            {
                "i": In(stream.Signature(pair.result(lanes))),
                "o": Out(stream.Signature(self.result)),
            }
        )

    def _latency(self, expr: Expr) -> int:
        return pipeline_latency(expr, self.ops_per_stage) if expr.operands else 0

    def elaborate(self, platform: object) -> Module:
        m = Module()
        move = Signal()  # every stage goes on, or none
        m.d.comb += [move.eq(self.o.ready | ~self.o.valid), self.i.ready.eq(move)]

        def delayed(value: Value, cycles: int, name: str) -> Value:
            for stage in range(cycles):
                held = Signal(value.shape(), name=f"{name}_{stage + 1}")
                with m.If(move):
                    m.d.sync += held.eq(value)
                value = held
            return value

        def project(number: int, match: Value, row: data.View) -> None:
            """Compute the columns of one lane."""
            for name, (expr, _) in self.columns.items():
                latency = self._latency(expr)
                m.submodules[f"lane_{number}_{name}"] = pipeline = ExprPipeline(
                    expr, self.operands, ops_per_stage=self.ops_per_stage if latency else None
                )
                m.d.comb += [
                    pipeline.en.eq(move),
                    Value.cast(pipeline.i).eq(match),
                    row[name].eq(delayed(pipeline.o, self.latency - latency, name)),
                ]

        i, o = self.i.payload, self.o.payload
        m.d.comb += [
            self.o.valid.eq(delayed(self.i.valid, self.latency, "valid")),
            o.end.eq(delayed(i.end, self.latency, "end")),
        ]
        for number, (lane, out) in enumerate(zip(i.lanes, o.lanes, strict=True)):
            m.d.comb += out.valid.eq(delayed(lane.valid, self.latency, f"lane_{number}_valid"))
            project(number, Value.cast(lane.match), out.row)
        return m
