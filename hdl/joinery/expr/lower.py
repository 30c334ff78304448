"""Expressions to logic, cut into pipeline stages."""

from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.hdl import Const as HdlConst
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .simplify import levels, simplify
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
    Text,
    columns_of,
)

__all__ = ["ExprPipeline", "operator_levels", "pipeline_latency"]


def operator_levels(expr: Expr) -> int:
    """Return the longest chain of operators that ``expr`` needs in hardware.

    An operator is what fits one carry chain, one multiplier or one look-up table per bit: a sum, a
    difference, a product, abs, a comparison, a bitwise operator, AND or OR of up to six conditions.
    Bringing a column to another scale is a product. Wires, literals and inverters are free, and
    what can be computed beforehand has been (see `joinery.expr.simplify`).
    """
    return levels(simplify(expr))


def pipeline_latency(expr: Expr, ops_per_stage: int | None) -> int:
    """Return the registers between the columns and the value of ``expr``."""
    return 0 if ops_per_stage is None else _stages(operator_levels(expr), ops_per_stage)


def _stages(operators: int, ops_per_stage: int) -> int:
    return max(1, -(-operators // ops_per_stage))


class ExprPipeline(wiring.Component):
    """Evaluate an expression on one row per cycle.

    Latency: ``self.latency`` cycles, 0 where ``ops_per_stage`` is None. Throughput: a row per
    cycle in which ``en`` is high; with ``en`` low everything holds.

    No more than ``ops_per_stage`` operators lie between two registers, counted as
    `operator_levels` does. Values live only in the stages between their first and last use, and
    equal subexpressions are computed once.

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
        enable = In(1, init=1)  # type: ignore[call-arg] # the stubs know it as reset
        super().__init__({"en": enable, "i": In(operands), "o": Out(Shape(*expr.type.bits))})

    @property
    def latency(self) -> int:
        """Cycles from ``i`` to ``o``."""
        return pipeline_latency(self.expr, self.ops_per_stage)

    def _stage(self, expr: Expr) -> int:
        """The stage whose logic computes ``expr``, which is simplified."""
        return _stages(levels(expr), self.ops_per_stage) - 1 if self.ops_per_stage else 0

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

        m.d.comb += self.o.eq(at(simplify(self.expr), self.latency))
        return m


NAMES = {
    "+": "sum", "-": "difference", "*": "product", "&": "masked", "|": "joined", "^": "xored",
    "=": "equal", "<>": "differs", "<": "less", "<=": "at_most", ">": "greater",
    ">=": "at_least", "AND": "all_true", "OR": "any_true",
}  # fmt: skip


def _label(expr: Expr) -> str:
    match expr:
        case Column():
            return f"{expr.source}_{expr.name}"
        case Arith() | Bitwise() | Compare() | Logic():
            return NAMES[expr.op]
    return {Not: "inverted", Negate: "negated", Abs: "magnitude"}[type(expr)]


def _logic(expr: Expr, values: list[Value]) -> Value:
    """The one operator of a node of a simplified expression."""
    match expr:
        case Compare():
            left, right = _same_length(expr, values)
            return {
                "=": left == right, "<>": left != right, "<": left < right,
                "<=": left <= right, ">": left > right, ">=": left >= right,
            }[expr.op]  # fmt: skip
        case Arith() | Bitwise():
            left, right = values
            return {
                "+": left + right, "-": left - right, "*": left * right,
                "&": left & right, "|": left | right, "^": left ^ right,
            }[expr.op]  # fmt: skip
        case Logic():
            return Cat(values).all() if expr.op == "AND" else Cat(values).any()
        case Not():
            return ~values[0]
        case Negate():
            return -values[0]
    assert isinstance(expr, Abs), "it has operands"
    # Inverted where negative, plus one: the inverters fit the look-up tables of the carry chain.
    sign = values[0][-1]
    return (values[0].as_unsigned() ^ sign.replicate(len(values[0]))) + sign


def _same_length(expr: Compare, values: list[Value]) -> list[Value]:
    """Pad the shorter of two strings with NUL, which is free."""
    lengths = [operand.type.length if isinstance(operand.type, Text) else 0
               for operand in expr.operands]  # fmt: skip
    return [
        Cat(HdlConst(0, 8 * (max(lengths) - length)), value) if length else value
        for length, value in zip(lengths, values, strict=True)
    ]
