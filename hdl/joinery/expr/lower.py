"""Expressions to logic, cut into pipeline stages."""

from amaranth.hdl import Const as HdlConst
from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .tree import (
    Abs,
    Arith,
    Bitwise,
    Column,
    Compare,
    Const,
    Expr,
    Logic,
    Negate,
    Not,
    Number,
    align,
    columns_of,
)

__all__ = ["ExprPipeline", "operator_levels", "pipeline_latency"]


def _own_levels(expr: Expr) -> int:
    """Operators that ``expr`` itself puts in series, its operands not counted."""
    match expr:
        case Column() | Const() | Not():
            return 0
        case Compare() | Arith(op="+" | "-"):
            scaled = zip(align(expr.left, expr.right), expr.operands, strict=True)
            wide = any(f != 1 and not isinstance(side, Const) for f, side in scaled)
            return 2 if wide and isinstance(expr.left.type, Number) else 1
        case _:
            return 1


def operator_levels(expr: Expr) -> int:
    """Return the longest chain of operators in ``expr``; wires, inverters and literals are free."""
    below = max((operator_levels(operand) for operand in expr.operands), default=0)
    return below + _own_levels(expr)


def pipeline_latency(expr: Expr, ops_per_stage: int | None) -> int:
    """Return the registers between the columns and the value of ``expr``."""
    if ops_per_stage is None:
        return 0
    return max(1, -(-operator_levels(expr) // ops_per_stage))


class ExprPipeline(wiring.Component):
    """Evaluate an expression on one row per cycle.

    Latency: ``self.latency`` cycles, 0 where ``ops_per_stage`` is None. Throughput: a row per
    cycle in which ``en`` is high; with ``en`` low everything holds.

    No more than ``ops_per_stage`` operators lie between two registers. Values live only in the
    stages between their first and last use, and equal subexpressions are computed once.

    Parameters
    ----------
    expr : Expr
        What to compute.
    operands : data.StructLayout
        One member per source, each a struct with at least the columns that ``expr`` reads.
    ops_per_stage : int or None
        Bound on the operators in series per stage; None builds plain combinational logic.

    Members
    -------
    en : In(1)
    i : In(operands)
    o : Out(shape of the expression's type)
    """

    en: Signal
    i: "data.View[data.StructLayout]"
    o: Signal

    def __init__(
        self, expr: Expr, operands: data.StructLayout, *, ops_per_stage: int | None = 2
    ) -> None:
        if ops_per_stage is not None and (
            not isinstance(ops_per_stage, int)
            or isinstance(ops_per_stage, bool)
            or ops_per_stage < 1
        ):
            raise ValueError(
                f"Operators per stage must be a positive integer or None, not {ops_per_stage!r}"
            )
        for source, name in sorted(columns_of(expr)):
            if source not in dict(operands) or name not in dict(operands[source].shape):
                raise ValueError(f"The operands have no column {source}.{name}")
        self.expr = expr
        self.operands = operands
        self.ops_per_stage = ops_per_stage
        super().__init__({"en": In(1, init=1), "i": In(operands), "o": Out(Shape(*expr.type.bits))})

    @property
    def latency(self) -> int:
        """Cycles from ``i`` to ``o``."""
        return pipeline_latency(self.expr, self.ops_per_stage)

    def _stage(self, expr: Expr) -> int:
        """The stage whose logic computes ``expr``."""
        return max(0, pipeline_latency(expr, self.ops_per_stage) - 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ready: dict[tuple[Expr, int], Value] = {}

        def at(expr: Expr, stage: int) -> Value:
            """The value of ``expr`` as seen by the logic of ``stage``."""
            if isinstance(expr, Const):
                return HdlConst(expr.value, Shape(*expr.type.bits))
            if (expr, stage) not in ready:
                home = self._stage(expr)
                if stage > home:
                    name = f"stage_{stage}_{_label(expr)}"
                    held = Signal(Shape(*expr.type.bits), name=name, reset_less=True)
                    before = at(expr, stage - 1)
                    with m.If(self.en):
                        m.d.sync += held.eq(before)
                    ready[expr, stage] = held
                else:
                    ready[expr, stage] = compute(expr, stage)
            return ready[expr, stage]

        def compute(expr: Expr, stage: int) -> Value:
            if isinstance(expr, Column):
                return Value.cast(self.i[expr.source][expr.name])
            value = Signal(Shape(*expr.type.bits), name=_label(expr))
            m.d.comb += value.eq(_logic(expr, [at(operand, stage) for operand in expr.operands]))
            return value

        m.d.comb += self.o.eq(at(self.expr, self.latency))
        return m


def _label(expr: Expr) -> str:
    match expr:
        case Column():
            return f"{expr.source}_{expr.name}"
        case Logic():
            return expr.op.lower()
        case Arith() | Bitwise() | Compare():
            return {
                "+": "sum", "-": "difference", "*": "product", "&": "masked", "|": "joined",
                "^": "xored", "=": "equal", "<>": "differs", "<": "less", "<=": "at_most",
                ">": "greater", ">=": "at_least",
            }[expr.op]  # fmt: skip
        case _:
            return type(expr).__name__.lower()


def _logic(expr: Expr, values: list[Value]) -> Value:
    match expr:
        case Compare():
            f, g = align(expr.left, expr.right)
            left, right = (
                values[0] * f if f != 1 else values[0],
                values[1] * g if g != 1 else values[1],
            )
            return {
                "=": left == right, "<>": left != right, "<": left < right,
                "<=": left <= right, ">": left > right, ">=": left >= right,
            }[expr.op]  # fmt: skip
        case Arith(op="+" | "-"):
            f, g = align(expr.left, expr.right)
            left, right = (
                values[0] * f if f != 1 else values[0],
                values[1] * g if g != 1 else values[1],
            )
            return left + right if expr.op == "+" else left - right
        case Arith() | Bitwise():
            left, right = values
            return {"*": left * right, "&": left & right, "|": left | right, "^": left ^ right}[
                expr.op
            ]
        case Logic():
            total = values[0]
            for value in values[1:]:
                total = total & value if expr.op == "AND" else total | value
            return total
        case Not():
            return ~values[0]
        case Negate():
            return -values[0]
        case Abs():
            return Mux(values[0] < 0, -values[0], values[0])
    raise TypeError(f"Not an operator: {expr!r}")
