"""Expression trees as Spark columns, with the meaning of `joinery.expr.evaluate`.

Spark computes with the raw integers that the hardware computes with: ``bigint`` where it holds
every value that a number's exact range allows, ``decimal(38,0)`` where it does not. Strings stay
strings: Spark compares them byte by byte, as the padded raw values compare. A value that not even
38 digits can hold stops the job (ANSI mode), it never turns into another value.
"""

import operator
from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as fn

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
from joinery.expr.tree import align
from joinery.tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    StringType,
    TimestampType,
)

from ..query import JoineryError

LONG = "bigint"
WIDE = "decimal(38,0)"

OPERATORS: dict[str, Callable[[SparkColumn, SparkColumn], SparkColumn]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": lambda a, b: a.bitwiseAND(b),
    "|": lambda a, b: a.bitwiseOR(b),
    "^": lambda a, b: a.bitwiseXOR(b),
}


def named(name: str) -> SparkColumn:
    """Return the column called exactly ``name``, dots and all."""
    return fn.col("`" + name.replace("`", "``") + "`")


def raw_name(source: str, column: str) -> str:
    """Name of the DataFrame column with the raw values of ``source.column``."""
    return f"{source}.{column}"


def natural_name(source: str, column: str) -> str:
    """Name of the DataFrame column with the values of ``source.column`` as they were read."""
    return f"{source}.{column} as read"


def number_type(*numbers: Number) -> str:
    """Return the narrower Spark type that holds every value of all ``numbers``."""
    fits = all(number.low >= -(1 << 63) and number.high < 1 << 63 for number in numbers)
    return LONG if fits else WIDE


def whole(value: int, kind: str = LONG) -> SparkColumn:
    """Return ``value`` as a literal of the Spark type ``kind``."""
    if abs(value) >= 10**38:
        raise JoineryError(f"The number {value} has more than 38 digits, the most that Spark holds")
    return fn.lit(str(value)).cast(kind)


def floor_divide(dividend: SparkColumn, divisor: int) -> SparkColumn:
    """Return ``dividend // divisor`` as Python has it, for a ``bigint`` and a positive divisor."""
    by = whole(divisor)
    return fn.call_function("div", dividend - fn.pmod(dividend, by), by)


def translate(expr: Expr) -> SparkColumn:
    """Return ``expr`` over the raw columns of its sources."""
    match expr:
        case Column():
            return named(raw_name(expr.source, expr.name))
        case Const():
            return _literal(expr)
        case Compare():
            return OPERATORS[expr.op](*comparable(expr.left, expr.right))
        case Arith():
            return _arith(expr)
        case Bitwise():
            return _bitwise(expr)
        case Logic():
            terms = [translate(term) for term in expr.terms]
            result = terms[0]
            for term in terms[1:]:
                result = result & term if expr.op == "AND" else result | term
            return result
        case Not():
            return ~translate(expr.operand)
        case Negate() | Abs():
            # The negative of the least bigint is not one: go through the wider of both types.
            kind = number_type(_number(expr.operand), expr.type)
            operand = translate(expr.operand).cast(kind)
            result = -operand if isinstance(expr, Negate) else fn.abs(operand)
            return result.cast(number_type(expr.type))
    raise TypeError(f"Not an expression: {expr!r}")


def comparable(left: Expr, right: Expr) -> tuple[SparkColumn, SparkColumn]:
    """Return both sides in one type and scale, so that equal values are equal columns."""
    if not isinstance(left.type, Number):
        return translate(left), translate(right)
    f, g = align(left, right)
    kind = number_type(_scaled(left, f), _scaled(right, g))
    return _times(left, f, kind), _times(right, g, kind)


def natural_type(kind: ColumnType) -> str:
    """Return the Spark type in which a column is read and written."""
    match kind:
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case TimestampType():
            return "timestamp_ntz"
        case StringType():
            return "string"
        case BoolType():
            return "boolean"
        case _:
            return LONG


def to_raw(natural: SparkColumn, kind: ColumnType) -> SparkColumn:
    """Return the raw value of a column in its natural type."""
    match kind:
        case DecimalType() if kind.precision <= 18:
            return (natural * whole(10**kind.scale, f"decimal({kind.scale + 1},0)")).cast(LONG)
        case DecimalType():
            # The product would need more than Spark's 38 digits; dropping the point does not.
            return fn.translate(natural.cast("string"), ".", "").cast(WIDE)
        case TimestampType():
            micros = fn.unix_micros(natural.cast("timestamp"))
            return floor_divide(micros, 1_000_000 // kind.per_second)
        case _:
            return natural


def to_natural(raw: SparkColumn, kind: ColumnType) -> SparkColumn:
    """Return the value that ``raw`` stands for, in its natural type."""
    match kind:
        case DecimalType() if kind.scale:
            # Exact: the product has the digits of ``raw``, and the scale that is asked for.
            raw = raw.cast(WIDE) * fn.lit(Decimal(1).scaleb(-kind.scale))
        case TimestampType():
            raw = fn.timestamp_micros(raw * whole(1_000_000 // kind.per_second))
    return raw.cast(natural_type(kind))


def _number(expr: Expr) -> Number:
    assert isinstance(expr.type, Number), "the tree checks its operands"
    return expr.type


def _scaled(expr: Expr, factor: int) -> Number:
    number = _number(expr)
    return Number(number.low * factor, number.high * factor)


def _times(expr: Expr, factor: int, kind: str) -> SparkColumn:
    column = translate(expr).cast(kind)
    return column if factor == 1 else column * whole(factor, kind)


def _literal(const: Const) -> SparkColumn:
    if isinstance(const.kind, Number):
        return whole(const.value, number_type(const.kind))
    if isinstance(const.kind, Text):
        return fn.lit(StringType(const.kind.length).decode(const.value))
    return fn.lit(bool(const.value))


def _arith(expr: Arith) -> SparkColumn:
    f, g = (1, 1) if expr.op == "*" else align(expr.left, expr.right)
    # A difference of wide numbers may be narrow, so the result's type alone does not decide.
    kind = number_type(_scaled(expr.left, f), _scaled(expr.right, g), expr.type)
    result = OPERATORS[expr.op](_times(expr.left, f, kind), _times(expr.right, g, kind))
    return result.cast(number_type(expr.type))


def _bitwise(expr: Bitwise) -> SparkColumn:
    for operand in expr.operands:
        if number_type(_number(operand)) != LONG:
            width, _ = operand.type.bits
            raise JoineryError(
                f"Spark computes {expr.op} on integers of 64 bits with their sign, "
                f"and an operand here can need {width} bits; use narrower columns"
            )
    return OPERATORS[expr.op](translate(expr.left), translate(expr.right))
