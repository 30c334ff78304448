"""Expressions on whole columns at once; `joinery.expr.evaluate` is what they mean."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
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

    Whatever fits 64 bits is computed in these; the rest in Python's integers, which is slower.
    """
    return np.broadcast_to(_value(expr, columns), rows).copy()


def _value(expr: Expr, columns: Mapping[tuple[str, str], Raw]) -> Raw:
    kind = _kind(_ends(expr))
    match expr:
        case Column():
            return columns[expr.source, expr.name].astype(kind, copy=False)
        case Const():
            return np.array(expr.value, dtype=kind)
    factors = [1] * len(expr.operands)
    if isinstance(expr, Compare) or (isinstance(expr, Arith) and expr.op != "*"):
        factors = list(align(expr.left, expr.right))
    scaled = [
        (low * factor, high * factor)
        for (low, high), factor in zip(map(_ends, expr.operands), factors, strict=True)
    ]
    inside = _kind(_ends(expr), *scaled)
    values = [
        _value(operand, columns).astype(inside, copy=False) * factor
        for operand, factor in zip(expr.operands, factors, strict=True)
    ]
    return np.asarray(_apply(expr, values)).astype(kind)


def _kind(*ranges: tuple[int, int]) -> Any:
    """Return the type of array that holds all values of these ranges."""
    fits = all(INT64.min <= low and high <= INT64.max for low, high in ranges)
    return np.int64 if fits else object


def _ends(expr: Expr) -> tuple[int, int]:
    match expr.type:
        case Number(low=low, high=high):
            return low, high
        case Text(length=length):
            return 0, (1 << 8 * length) - 1
    return 0, 1


def _apply(expr: Expr, values: Sequence[Raw]) -> Any:
    """The operator of one node, on operands of the same scale."""
    match expr:
        case Compare():
            return COMPARE[expr.op](values[0], values[1])  # type: ignore[arg-type]
        case Arith() | Bitwise():
            return ARITH[expr.op](values[0], values[1])  # type: ignore[arg-type]
        case Logic():
            return reduce(and_ if expr.op == "AND" else or_, values)
        case Not():
            return 1 - values[0]
        case Negate():
            return -values[0]
    assert isinstance(expr, Abs), "it has operands"
    return abs(values[0])
