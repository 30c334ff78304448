"""The shell of a join engine."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module, Signal, Value, ValueLike
from amaranth.lib import data, stream, wiring

from ..expr import Expr
from ..join import JoinEngine
from ..project import Projection
from ..tuples import ColumnType
from .shell import Identity, describe_fields
from .stream import StreamShell

__all__ = ["JoinShell"]

SIDES = ("left", "right")


class JoinShell(StreamShell):
    """A join engine as an AXI core.

    An input beat carries a left tuple, a right one, or one of each. The columns of the result are
    computed on the way out, which adds the latency of ``self.projection``.

    Parameters
    ----------
    engine : JoinEngine
    identity : Identity
    columns : mapping of str to (Expr, ColumnType)
        Name, value and type of every column of the result, in order.
    """

    COUNTERS = {  # noqa: RUF012 - read only
        "cycles": StreamShell.SHARED["cycles"],
        "accepted_left": "Left tuples taken in",
        "accepted_right": "Right tuples taken in",
        "refused": "Input beats whose tuples were refused, for want of room for results",
        "results": StreamShell.SHARED["results"],
        "dropped_results": "Results lost, for want of room",
        "stall_input": StreamShell.SHARED["stall_input"],
        "stall_output": StreamShell.SHARED["stall_output"],
        "stall_engine": StreamShell.SHARED["stall_engine"],
    }

    ADDED = ("end",)

    engine: JoinEngine

    def __init__(
        self,
        engine: JoinEngine,
        identity: Identity,
        columns: Mapping[str, tuple[Expr, ColumnType]],
    ) -> None:
        pair = engine.pair
        self.types = {name: kind for name, (_, kind) in columns.items()}
        shapes = {name: (expr, kind.shape) for name, (expr, kind) in columns.items()}
        self.projection = Projection(pair, shapes, lanes=engine.lanes)
        super().__init__(
            engine,
            identity,
            input=data.StructLayout(
                {
                    "has_left": 1,
                    "has_right": 1,
                    "left": pair.left.layout,
                    "right": pair.right.layout,
                }
            ),
            output=self.projection.row,
            lanes=engine.lanes,
            widths={"dropped_results": engine.DROPPED_BITS},
        )

    @property
    def latency(self) -> int:
        return super().latency + self.projection.latency

    def feed(self, m: Module, beat: Any, present: Value) -> None:
        transfer = self.engine.i.payload
        m.d.comb += [
            transfer.has_left.eq(beat.has_left & present),
            transfer.has_right.eq(beat.has_right & present),
            transfer.left.eq(beat.left),
            transfer.right.eq(beat.right),
        ]

    def results(self, m: Module) -> stream.Interface:
        m.submodules.projection = self.projection
        wiring.connect(m, self.engine.o, self.projection.i)
        return self.projection.o

    def decisions(self, m: Module, entering: Value) -> tuple[Value, Value]:
        return self.engine.decided, self.engine.refused

    def counted(self, m: Module, entering: Value) -> dict[str, ValueLike]:
        engine = self.engine
        # The engine decides on a transfer in the cycle after it took it.
        came_left = Signal()
        came_right = Signal()
        m.d.sync += [
            came_left.eq(entering & engine.i.payload.has_left),
            came_right.eq(entering & engine.i.payload.has_right),
        ]
        return {
            "accepted_left": came_left & ~engine.refused,
            "accepted_right": came_right & ~engine.refused,
            "refused": engine.refused,
            "dropped_results": engine.dropped,
        }

    def describe_input(self) -> dict[str, Any]:
        pair, layout = self.engine.pair, self.input_layout
        sources = list(zip(SIDES, pair.names, (pair.left, pair.right), strict=True))
        return {
            "flags": [
                {"name": f"has_{source}", "source": source,
                 "offset": layout[f"has_{side}"].offset, "width": 1}
                for side, source, _ in sources
            ],
            "fields": [
                field
                for side, source, schema in sources
                for field in describe_fields(
                    schema.layout, schema, base=layout[side].offset, source=source
                )
            ],
        }  # fmt: skip

    def describe_output(self) -> dict[str, Any]:
        return {"fields": describe_fields(self.output_layout, self.types)}
