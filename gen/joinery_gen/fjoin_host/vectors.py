"""Expressions on whole columns at once; `joinery.expr.evaluate` is what they mean."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from joinery.expr import (
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
    Text,
)
from joinery.expr.tree import ARITH, COMPARE, align

__all__ = ["evaluate_columns"]

Raw = npt.NDArray[Any]

INT64 = np.iinfo(np.int64)


def evaluate_columns(expr: Expr, columns: Mapping[tuple[str, str], Raw], rows: int) -> Raw:
    """Return the raw value of ``expr`` in each row; ``columns`` has those that it reads.

    64-bit integers where no value on the way can be wider, else Python's own, which are slower.
    """
    kind: Any = np.int64 if _fits(expr) else object
    return np.broadcast_to(_value(expr, columns, kind), rows).astype(kind)


def _fits(expr: Expr) -> bool:
    """Does every value on the way to that of ``expr`` fit 64 bits with a sign?"""
    if not all(_fits(operand) for operand in expr.operands):
        return False
    ends = [_ends(expr)]
    if isinstance(expr, Compare) or (isinstance(expr, Arith) and expr.op != "*"):
        factors = align(expr.left, expr.right)
        for operand, factor in zip(expr.operands, factors, strict=True):
            low, high = _ends(operand)
            ends.append((low * factor, high * factor))
    return all(INT64.min <= low and high <= INT64.max for low, high in ends)


def _ends(expr: Expr) -> tuple[int, int]:
    match expr.type:
        case Number(low=low, high=high):
            return low, high
        case Text(length=length):
            return 0, (1 << 8 * length) - 1
    return 0, 1


def _value(expr: Expr, columns: Mapping[tuple[str, str], Raw], kind: Any) -> Any:
    match expr:
        case Column():
            return columns[expr.source, expr.name].astype(kind)
        case Const():
            return np.array(expr.value, dtype=kind)
    values = [_value(operand, columns, kind) for operand in expr.operands]
    match expr:
        case Compare():
            f, g = align(expr.left, expr.right)
            return np.asarray(COMPARE[expr.op](values[0] * f, values[1] * g)).astype(kind)
        case Arith(op="*") | Bitwise():
            return ARITH[expr.op](values[0], values[1])
        case Arith():
            f, g = align(expr.left, expr.right)
            return ARITH[expr.op](values[0] * f, values[1] * g)
        case Logic():
            return reduce(lambda a, b: a & b if expr.op == "AND" else a | b, values)
        case Not():
            return 1 - values[0]
        case Negate():
            return -values[0]
    assert isinstance(expr, Abs), "it has operands"
    return abs(values[0])
