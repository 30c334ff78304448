"""The typed check: does every value of a column fit the type that the query declares?

There are two ways through. ``_fast`` converts whole columns with Arrow and leaves null wherever a
value is not of the plainest kind; whatever it leaves goes one by one through ``exact_value``, which
is the meaning, and which says what is wrong. So the fast way may give up, but never be wrong.

A DECIMAL takes numbers with more digits after the point than its scale: they are rounded half to
even, and reported. A binary fraction counts as the shortest decimal that stands for it.
"""

import datetime as dt
import decimal
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from joinery.tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    IntType,
    StringType,
    TimestampType,
)

from ..tables import arrow_type

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
BELOW_MICROSECONDS = re.compile(r":[0-9]{2}\.[0-9]{6}[0-9]*[1-9]")
TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}

# No number that fits a column, and no float, has more digits or a larger exponent than this.
MOST_DIGITS = 1100
WIDE = decimal.Context(prec=3 * MOST_DIGITS, traps=[decimal.InvalidOperation])

FRACTION_DIGITS = 19  # digits after the point that the fast way follows
FRACTION = pa.decimal128(37, FRACTION_DIGITS)  # Arrow's 38, less one that a difference may need
WHOLE_DIGITS = FRACTION.precision - FRACTION_DIGITS - 1  # one less, for rounding up
EXACT_FLOAT = 1 << 53  # whole numbers below this are exact in a float


@dataclass(frozen=True)
class Rounding:
    """How many numbers of a column had digits beyond its scale, and the largest change."""

    values: int = 0
    largest: Decimal = Decimal(0)

    def add(self, change: Decimal) -> "Rounding":
        return Rounding(self.values + 1, max(self.largest, change))


@dataclass(frozen=True)
class Converted:
    """A column in its natural Arrow type, null where ``bad``; ``problem`` explains a row."""

    values: pa.Array
    bad: npt.NDArray[np.bool_]
    rounding: Rounding
    problem: Callable[[int], str]


def convert(values: pa.ChunkedArray, column: ColumnType) -> Converted:
    """Bring ``values`` to the natural type of ``column`` and mark those that do not fit."""
    array = _plain_array(values)
    result, rounding = _try_fast(array, column)
    doubtful = np.flatnonzero(result.is_null().to_numpy(zero_copy_only=False))
    bad = np.zeros(len(array), dtype=bool)

    def problem(row: int) -> str:
        try:
            exact_value(_value_at(array, row), column)
        except ValueError as error:
            return str(error)
        raise AssertionError(f"Row {row} fits {column.sql}")

    if not len(doubtful):
        return Converted(result, bad, rounding, problem)
    mended: list[Any] = []
    for row in doubtful:
        try:
            value, change = exact_value(_value_at(array, int(row)), column)
            mended.append(value)
            rounding = rounding.add(change) if change else rounding
        except ValueError:
            mended.append(None)
            bad[row] = True
    mask = np.zeros(len(array), dtype=bool)
    mask[doubtful] = True
    result = pc.replace_with_mask(result, pa.array(mask), pa.array(mended, type=result.type))
    return Converted(result, bad, rounding, problem)


def exact_value(value: Any, column: ColumnType) -> tuple[Any, Decimal]:
    """Return the natural value of ``value`` and by how much rounding changed it.

    Raises ``ValueError`` with a text for a person where ``value`` does not fit ``column``.
    """
    if value is None or (value == "" and not isinstance(column, StringType)):
        raise ValueError(f"the value is missing ({column.sql})")
    change = Decimal(0)
    match column:
        case IntType():
            raw = column.encode(_whole(value, column))
        case DecimalType():
            number = _number(value, f"a decimal number ({column.sql})")
            rounded = _rounded(number, column)
            change = WIDE.subtract(number, rounded).copy_abs()
            raw = column.encode(rounded)
        case StringType():
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise ValueError(f"{value!r} is not a string ({column.sql})")
            raw = column.encode(value)
        case BoolType():
            raw = _truth(value, column)
        case TimestampType():
            raw = column.encode(_time(value, column))
        case _:
            raise TypeError(f"Not a column type: {column!r}")
    return column.decode(raw), change


def _number(value: Any, what: str) -> Decimal:
    """Return the number that ``value`` is or spells, exactly."""
    if isinstance(value, Decimal | int | float) and not isinstance(value, bool):
        text = repr(value) if isinstance(value, float) else str(value)
    else:
        text = value.strip() if isinstance(value, str) else ""
    if not NUMBER.fullmatch(text):
        raise ValueError(f"{_show(value)} is not {what}")
    exponent = text.lower().partition("e")[2] or "0"
    if len(text) > MOST_DIGITS or abs(int(exponent)) > MOST_DIGITS:
        raise ValueError(f"{text[:40]} is too large or too fine to be {what}")
    return Decimal(text)


def _whole(value: Any, column: ColumnType) -> int:
    what = f"a whole number ({column.sql})"
    if isinstance(value, float) and value.is_integer():
        return int(value)  # its shortest decimal may be another number, beyond 2**53
    number = _number(value, what)
    if number != number.to_integral_value(context=WIDE):
        raise ValueError(f"{_show(value)} is not {what}")
    return int(number)


def _rounded(number: Decimal, column: DecimalType) -> Decimal:
    step = Decimal(1).scaleb(-column.scale)
    rounded = number.quantize(step, rounding=decimal.ROUND_HALF_EVEN, context=WIDE)
    if rounded.copy_abs() > column.decode(column.high):
        raise ValueError(
            f"{str(number)[:40]} does not fit {column.sql}, which holds "
            f"{column.decode(column.low)} to {column.decode(column.high)}"
        )
    return rounded


def _show(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else repr(value)


def _truth(value: Any, column: BoolType) -> int:
    known = TRUTH.get(str(value).strip().lower())
    if known is None or isinstance(value, float | Decimal):
        raise ValueError(f"{value!r} is neither true nor false ({column.sql})")
    return column.encode(known)


def _time(value: Any, column: TimestampType) -> Any:
    """Return what ``TimestampType.encode`` takes: a datetime, or a whole number of units."""
    text = value.strip() if isinstance(value, str) else repr(value)
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        return int(text)
    if BELOW_MICROSECONDS.search(text):
        raise ValueError(f"{text} is finer than the {column.unit} that {column.sql} counts")
    try:
        time = dt.datetime.fromisoformat(text)
        return time.astimezone(dt.UTC) if time.tzinfo else time
    except (ValueError, OverflowError):  # the first and the last day may be of no year in UTC
        raise ValueError(
            f"{value!r} is not a time such as 2024-05-31 12:00:00 ({column.sql})"
        ) from None


def _value_at(array: pa.Array, row: int) -> Any:
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        # Python has neither nanoseconds nor all the years that Arrow has.
        return array.slice(row, 1).cast(pa.string())[0].as_py()
    return array[row].as_py()


def _plain_array(values: pa.ChunkedArray) -> pa.Array:
    """One array, its type one of few: no dictionaries, zones, long strings or narrow floats."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        values = values.cast(pa.string())
    if pa.types.is_timestamp(kind) and kind.tz:
        values = values.cast(pa.timestamp(kind.unit))
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        # By way of their shortest decimals, which a wider float keeps.
        values = values.cast(pa.string()).cast(pa.float64())
    combined = values.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _try_fast(array: pa.Array, column: ColumnType) -> tuple[pa.Array, Rounding]:
    try:
        return _fast(array, column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Arrow does not say which value it stumbled over: leave all of them to the exact way.
        return pa.nulls(len(array), arrow_type(column)), Rounding()


def _fast(array: pa.Array, column: ColumnType) -> tuple[pa.Array, Rounding]:
    match column:
        case IntType():
            return _keep_range(_fast_whole(array), column.low, column.high), Rounding()
        case DecimalType():
            return _fast_decimal(array, column)
        case StringType():
            return _fast_string(array, column), Rounding()
        case BoolType():
            return _fast_bool(array), Rounding()
        case TimestampType():
            return _fast_time(array, column), Rounding()
    raise TypeError(f"Not a column type: {column!r}")


def _keep(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(mask, values, pa.scalar(None, values.type))


def _keep_range(values: pa.Array, low: int, high: int) -> pa.Array:
    return _keep(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)), values)


def _keep_match(texts: pa.Array, pattern: str) -> pa.Array:
    return _keep(pc.match_substring_regex(texts, f"^(?:{pattern})$"), texts)


def _text(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    return pa.nulls(len(array), pa.string())


def _fast_whole(array: pa.Array) -> pa.Array:
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64())
    if pa.types.is_floating(array.type):
        array = array.cast(pa.float64())
        small = pc.less(pc.abs(array), float(EXACT_FLOAT))
        return _keep(pc.and_(small, pc.equal(pc.trunc(array), array)), array).cast(pa.int64())
    if pa.types.is_string(array.type):
        return _keep_match(array, "-?[0-9]{1,18}").cast(pa.int64())
    return pa.nulls(len(array), pa.int64())


def _fast_decimal(array: pa.Array, column: DecimalType) -> tuple[pa.Array, Rounding]:
    if column.scale > FRACTION_DIGITS:
        return pa.nulls(len(array), arrow_type(column)), Rounding()
    whole = min(max(column.precision - column.scale, 1), WHOLE_DIGITS)
    pattern = rf"-?[0-9]{{1,{whole}}}(\.[0-9]{{1,{FRACTION_DIGITS}}})?"
    exact = _keep_match(_text(array), pattern).cast(FRACTION)
    rounded = pc.round(exact, ndigits=column.scale, round_mode="half_to_even")
    most = min(column.decode(column.high), Decimal(10**WHOLE_DIGITS))
    fits = pc.less_equal(pc.abs(rounded), pa.scalar(most).cast(FRACTION))
    rounded, exact = _keep(fits, rounded), _keep(fits, exact)
    return rounded.cast(arrow_type(column)), _rounding(exact, rounded)


def _rounding(exact: pa.Array, rounded: pa.Array) -> Rounding:
    changed = pc.sum(pc.not_equal(exact, rounded)).as_py() or 0
    if not changed:
        return Rounding()
    change = pc.max(pc.abs(pc.subtract(exact, rounded))).as_py()
    return Rounding(changed, change.normalize())


def _fast_string(array: pa.Array, column: StringType) -> pa.Array:
    if not (pa.types.is_string(array.type) or pa.types.is_integer(array.type)):
        return pa.nulls(len(array), pa.string())
    texts = _text(array)
    short = pc.less_equal(pc.binary_length(texts), column.length)
    return _keep(pc.and_not(short, pc.match_substring(texts, "\0")), texts)


def _fast_bool(array: pa.Array) -> pa.Array:
    if pa.types.is_boolean(array.type):
        return array
    if not (pa.types.is_string(array.type) or pa.types.is_integer(array.type)):
        return pa.nulls(len(array), pa.bool_())
    place = pc.index_in(pc.utf8_lower(_text(array)), pa.array(list(TRUTH)))
    return pc.take(pa.array(list(TRUTH.values())), place)


def _fast_time(array: pa.Array, column: TimestampType) -> pa.Array:
    step = 1_000_000 // column.per_second
    units = pa.nulls(len(array), pa.int64())
    if pa.types.is_integer(array.type) or pa.types.is_string(array.type):
        units = _keep_range(_fast_whole(array), column.low, column.high)
    times = pa.nulls(len(array), pa.timestamp("us"))
    if pa.types.is_string(array.type):
        times = _fast_time_text(array)
    elif pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        times = array.cast(pa.timestamp("us"))
    micros = _keep_range(times.cast(pa.int64()), column.low * step, column.high * step)
    whole = pc.equal(pc.multiply(pc.divide(micros, step), step), micros)
    micros = pc.coalesce(_keep(whole, micros), pc.multiply(units, step))
    return micros.cast(pa.timestamp("us"))


def _fast_time_text(texts: pa.Array) -> pa.Array:
    clock = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    texts = _keep_match(texts, rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T]{clock}Z?")
    return pc.utf8_rtrim(texts, "Z").cast(pa.timestamp("us"))
