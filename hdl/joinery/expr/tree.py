"""The expression tree, with exact types.

A number's type is the range of integers it can take, with the power of ten it is scaled by. Every
operator computes the range of its result from the ranges of its operands, so that no difference,
sum or product can ever wrap, and no wire is wider than the values that can be on it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    IntType,
    StringType,
    TimestampType,
    bits_for_range,
)


class ExprError(ValueError):
    """The operands do not fit the operator; the message says why, for a person."""


@dataclass(frozen=True)
class Number:
    """Integers from ``low`` to ``high``, standing for themselves times ``10 ** -scale``.

    ``unit`` is set for a point in time (``s``, ``ms`` or ``us`` since the epoch).
    """

    low: int
    high: int
    scale: int = 0
    unit: str | None = None

    def __str__(self) -> str:
        if self.unit:
            return f"time in {self.unit}"
        return f"number with {self.scale} decimals" if self.scale else "whole number"

    @property
    def bits(self) -> tuple[int, bool]:
        return bits_for_range(self.low, self.high)

    @property
    def column_type(self) -> ColumnType:
        """The narrowest column type that holds this number."""
        if self.unit:
            return self._timestamp()
        if self.scale:
            digits = max(len(str(abs(self.low))), len(str(abs(self.high))), self.scale)
            if digits > 38:
                raise ExprError(f"The result can have {digits} digits, and 38 is the most")
            return DecimalType(digits, self.scale)
        for bits in (8, 16, 32, 64):  # they read better than INT(33)
            column = IntType(bits)
            if column.low <= self.low and self.high <= column.high:
                return column
        raise ExprError(
            f"The result can be {self.low} to {self.high}, and BIGINT holds "
            f"{IntType(64).low} to {IntType(64).high}"
        )

    def _timestamp(self) -> ColumnType:
        """The column type of a time, which may reach past the year 9999 but never wraps."""
        assert self.unit is not None
        column = TimestampType(self.unit)
        width, _ = bits_for_range(min(self.low, column.low), self.high)
        if width > column.width:
            raise ExprError(
                f"The result can be a time far outside the years 1 to 9999 of {column.sql}; "
                "add or subtract a narrower number"
            )
        return column


@dataclass(frozen=True)
class Text:
    """A string of at most ``length`` bytes."""

    length: int

    def __str__(self) -> str:
        return "string"

    @property
    def bits(self) -> tuple[int, bool]:
        return 8 * self.length, False

    @property
    def column_type(self) -> ColumnType:
        return StringType(self.length)


@dataclass(frozen=True)
class Bool:
    """True or false."""

    def __str__(self) -> str:
        return "condition"

    @property
    def bits(self) -> tuple[int, bool]:
        return 1, False

    @property
    def column_type(self) -> ColumnType:
        return BoolType()


ValueType = Number | Text | Bool


def value_type(column: ColumnType) -> ValueType:
    """Return the type of an expression that reads a column of type ``column``."""
    if isinstance(column, StringType):
        return Text(column.length)
    if isinstance(column, BoolType):
        return Bool()
    scale = column.scale if isinstance(column, DecimalType) else 0
    unit = column.unit if isinstance(column, TimestampType) else None
    return Number(column.low, column.high, scale, unit)


@dataclass(frozen=True)
class Expr(ABC):
    """A node of the tree."""

    @property
    @abstractmethod
    def type(self) -> ValueType:
        """The type of the value. `ExprError` where the operands do not fit the operator."""

    @property
    def operands(self) -> tuple["Expr", ...]:
        return ()


@dataclass(frozen=True)
class Column(Expr):
    """A column of one of the query's sources. ``source`` is its alias."""

    source: str
    name: str
    column: ColumnType

    @cached_property
    def type(self) -> ValueType:
        return value_type(self.column)


@dataclass(frozen=True)
class Const(Expr):
    """A literal: a raw value with its type."""

    value: int
    kind: ValueType

    @cached_property
    def type(self) -> ValueType:
        return self.kind

    @staticmethod
    def number(value: int, scale: int = 0) -> "Const":
        return Const(value, Number(value, value, scale))

    @staticmethod
    def text(value: str) -> "Const":
        length = max(1, len(value.encode()))
        return Const(StringType(length).encode(value), Text(length))


def _number(expr: Expr, what: str) -> Number:
    if not isinstance(expr.type, Number):
        raise ExprError(f"{what} takes numbers, and this is a {expr.type}")
    return expr.type


def _plain(expr: Expr, what: str) -> Number:
    number = _number(expr, what)
    if number.unit:
        raise ExprError(f"{what} takes plain numbers, and this is a {number}")
    return number


def _corners(f: Callable[[int, int], int], a: Number, b: Number) -> tuple[int, int]:
    values = [f(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(values), max(values)


def _rescaled(number: Number, scale: int) -> Number:
    factor = 10 ** (scale - number.scale)
    return Number(number.low * factor, number.high * factor, scale, number.unit)


@dataclass(frozen=True)
class Arith(Expr):
    """``left op right`` for ``+``, ``-`` and ``*``."""

    op: str
    left: Expr
    right: Expr

    @cached_property
    def type(self) -> Number:
        a, b = _number(self.left, self.op), _number(self.right, self.op)
        if self.op == "*":
            a, b = _plain(self.left, self.op), _plain(self.right, self.op)
            return Number(*_corners(lambda x, y: x * y, a, b), a.scale + b.scale)
        unit = self._unit(a, b)
        scale = max(a.scale, b.scale)
        if unit and scale:
            raise ExprError("A time is moved by whole units only; use an integer")
        a, b = _rescaled(a, scale), _rescaled(b, scale)
        if self.op == "+":
            return Number(a.low + b.low, a.high + b.high, scale, unit)
        return Number(a.low - b.high, a.high - b.low, scale, unit)

    def _unit(self, a: Number, b: Number) -> str | None:
        if a.unit and b.unit:
            if self.op == "+":
                raise ExprError("Two times cannot be added; subtract them, or add an integer")
            if a.unit != b.unit:
                raise ExprError(f"The times count different units, {a.unit} and {b.unit}")
            return None
        if b.unit and self.op == "-":
            raise ExprError("A time cannot be subtracted from a plain number")
        return a.unit or b.unit

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.left, self.right


@dataclass(frozen=True)
class Negate(Expr):
    """``-operand``."""

    operand: Expr

    @cached_property
    def type(self) -> Number:
        a = _plain(self.operand, "-")
        return Number(-a.high, -a.low, a.scale)

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Abs(Expr):
    """``abs(operand)``."""

    operand: Expr

    @cached_property
    def type(self) -> Number:
        a = _plain(self.operand, "abs")
        low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
        return Number(low, max(abs(a.low), abs(a.high)), a.scale)

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Bitwise(Expr):
    """``left op right`` for ``&``, ``|`` and ``^`` on integers, as two's complement."""

    op: str
    left: Expr
    right: Expr

    @cached_property
    def type(self) -> Number:
        a, b = _plain(self.left, self.op), _plain(self.right, self.op)
        if a.scale or b.scale:
            raise ExprError(f"{self.op} takes integers, and a DECIMAL is not one")
        tops = [number.high for number in (a, b) if number.low >= 0]
        if tops and self.op == "&":
            return Number(0, min(tops))
        if len(tops) == 2:
            return Number(0, (1 << max(tops).bit_length()) - 1)
        width = max(w + (not signed) for w, signed in (a.bits, b.bits))
        return Number(-(1 << (width - 1)), (1 << (width - 1)) - 1)

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.left, self.right


@dataclass(frozen=True)
class Compare(Expr):
    """``left op right`` for ``=``, ``<>``, ``<``, ``<=``, ``>`` and ``>=``."""

    op: str
    left: Expr
    right: Expr

    @cached_property
    def type(self) -> Bool:
        a, b = self.left.type, self.right.type
        if type(a) is not type(b):
            raise ExprError(f"A {a} cannot be compared with a {b}")
        if isinstance(a, Number) and isinstance(b, Number) and a.unit != b.unit:
            raise ExprError(f"A {a} cannot be compared with a {b}")
        if isinstance(a, Bool) and self.op not in ("=", "<>"):
            raise ExprError(f"Conditions have no order; {self.op} needs numbers or strings")
        return Bool()

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.left, self.right


@dataclass(frozen=True)
class Logic(Expr):
    """``AND`` or ``OR`` of any number of conditions."""

    op: str
    terms: tuple[Expr, ...]

    @cached_property
    def type(self) -> Bool:
        if not self.terms:
            raise ExprError(f"{self.op} takes conditions, and there are none")
        for term in self.terms:
            if not isinstance(term.type, Bool):
                raise ExprError(f"{self.op} takes conditions, and this is a {term.type}")
        return Bool()

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.terms


@dataclass(frozen=True)
class Not(Expr):
    """``NOT operand``."""

    operand: Expr

    @cached_property
    def type(self) -> Bool:
        if not isinstance(self.operand.type, Bool):
            raise ExprError(f"NOT takes a condition, and this is a {self.operand.type}")
        return Bool()

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.operand,)


def columns_of(*exprs: Expr) -> set[tuple[str, str]]:
    """Return the ``(source, column)`` pairs that the expressions read."""
    found: set[tuple[str, str]] = set()
    todo = list(exprs)
    while todo:
        expr = todo.pop()
        if isinstance(expr, Column):
            found.add((expr.source, expr.name))
        todo.extend(expr.operands)
    return found


def align(left: Expr, right: Expr) -> tuple[int, int]:
    """Return the factors that bring two operands to the same scale, or strings to one length."""
    a, b = left.type, right.type
    if isinstance(a, Number) and isinstance(b, Number):
        scale = max(a.scale, b.scale)
        return 10 ** (scale - a.scale), 10 ** (scale - b.scale)
    if isinstance(a, Text) and isinstance(b, Text):
        length = max(a.length, b.length)
        return 1 << 8 * (length - a.length), 1 << 8 * (length - b.length)
    return 1, 1


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
ARITH: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}


def evaluate(expr: Expr, row: Mapping[tuple[str, str], int]) -> int:
    """Return the raw value of ``expr`` where ``row`` gives the raw value of each column.

    This is the meaning of an expression, in unbounded integers; hardware and Spark must agree.
    """
    match expr:
        case Column():
            return row[expr.source, expr.name]
        case Const():
            return expr.value
        case Compare():
            f, g = align(expr.left, expr.right)
            left, right = evaluate(expr.left, row), evaluate(expr.right, row)
            return int(COMPARE[expr.op](left * f, right * g))
        case Arith(op="*") | Bitwise():
            return ARITH[expr.op](evaluate(expr.left, row), evaluate(expr.right, row))
        case Arith():
            f, g = align(expr.left, expr.right)
            return ARITH[expr.op](evaluate(expr.left, row) * f, evaluate(expr.right, row) * g)
        case Logic():
            values = [evaluate(term, row) for term in expr.terms]
            return int(all(values) if expr.op == "AND" else any(values))
        case Not():
            return 1 - evaluate(expr.operand, row)
        case Negate():
            return -evaluate(expr.operand, row)
        case Abs():
            return abs(evaluate(expr.operand, row))
    raise TypeError(f"Not an expression: {expr!r}")
