"""The typed check, whole columns against exact fractions and ``ColumnType`` one by one."""

import datetime as dt
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from joinery.tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    IntType,
    StringType,
    TimestampType,
)
from joinery_gen.data.values import Converted, convert
from joinery_gen.tables import arrow_type

EPOCH = dt.datetime(1970, 1, 1)
TYPES = [
    IntType(8),
    IntType(16),
    IntType(32, signed=False),
    IntType(63, signed=False),
    IntType(64),
    DecimalType(4, 2),
    DecimalType(3, 3),
    DecimalType(12, 0),
    DecimalType(38, 6),
    DecimalType(38, 19),
    DecimalType(38, 30),
    StringType(3),
    StringType(12),
    BoolType(),
    TimestampType("s"),
    TimestampType("ms"),
    TimestampType("us"),
]


# The reference: what one value means, by fractions and by ColumnType.encode.


def fits(value: object, column: ColumnType) -> tuple[object, Fraction] | None:
    """Return the natural value and how much rounding changed it, or None where it does not fit."""
    change = Fraction(0)
    try:
        match column:
            case IntType():
                number = fraction(value)
                if number.denominator != 1:
                    return None
                raw = column.encode(int(number))
            case DecimalType():
                scaled = fraction(value) * 10**column.scale
                raw = round(scaled)  # half to even
                change = abs(scaled - raw) / 10**column.scale
                if not column.low <= raw <= column.high:
                    return None
            case StringType():
                if not isinstance(value, str | int) or isinstance(value, bool):
                    return None
                raw = column.encode(value)
            case BoolType():
                raw = column.encode(truth(value))
            case TimestampType():
                raw = column.encode(time(value))
        return column.decode(raw), change
    except (ValueError, OverflowError):
        return None


def fraction(value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise ValueError
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) >= 2**53
        return Fraction(value) if whole else Fraction(repr(value))
    return Fraction(value.strip() if isinstance(value, str) else value)


def truth(value: object) -> bool:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise ValueError


def time(value: object) -> object:
    if isinstance(value, dt.datetime) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    if not isinstance(value, str):
        raise ValueError
    text = value.strip()
    return int(text) if re.fullmatch("[+-]?[0-9]+", text) else dt.datetime.fromisoformat(text)


def check(found: Converted, values: list[object], column: ColumnType) -> None:
    wanted = [None if value is None else fits(value, column) for value in values]
    natural = [None if one is None else one[0] for one in wanted]
    assert found.values.type == arrow_type(column)
    assert found.values.to_pylist() == natural
    assert found.bad.tolist() == [one is None for one in wanted]
    changes = [one[1] for one in wanted if one is not None and one[1]]
    assert found.rounding.values == len(changes)
    assert Fraction(found.rounding.largest) == max(changes, default=0)
    for row, one in enumerate(wanted):
        if one is None:
            assert found.problem(row)


# Texts, as CSV and JSON lines have them.

SPELLED = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.integers(-300, 300).map(str),
    st.decimals(min_value=-200, max_value=200, places=3).map(str),
    st.from_regex(r"[+-]?[0-9]{1,5}\.?[0-9]{0,30}(e[+-]?[0-9]{1,2})?", fullmatch=True),
    st.from_regex(r"-?[0-9]{1,20}\.[0-9]{1,4}5", fullmatch=True),
    st.floats().map(repr),
    st.datetimes().map(lambda t: t.isoformat(" ")),
    st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000).isoformat()),
    st.datetimes().map(lambda t: t.replace(microsecond=0).isoformat(sep=" ") + "Z"),
    st.datetimes().map(lambda t: t.isoformat(timespec="milliseconds") + "+02:00"),
    st.text("0123456789.-+eE trufals:TZ\0é", max_size=14),
    st.sampled_from(
        [
            *("", " ", "NA", "true", "False", " T ", "1", "0", "2", "-0", "007", "1_000", "½"),
            *("2024-02-30 00:00:00", "2024-05-31", "0000-01-01 00:00:00", "2024-12-31 23:59:60"),
            *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-12-31 23:59:59.5"),
            *(
                "+0.005",
                "+0.015",
                "25e-3",
                "35e-3",
                "99.995",
                "99.994999",
                "0.005",
                "0.015",
                "-0.025",
                "9" * 38,
                "0." + "9" * 40,
            ),
        ]
    ),
)


@settings(max_examples=600)
@given(st.sampled_from(TYPES), st.lists(st.none() | SPELLED, max_size=8))
@example(DecimalType(4, 2), ["99.995", "+0.005", "25e-3"])
@example(DecimalType(38, 19), ["99999999999999999.99999999999999999995"])
def test_texts(column, values):
    # Fraction takes some spellings that no data has.
    values = [v for v in values if v is None or not re.search("[_/]", v)]
    check(convert(pa.chunked_array([pa.array(values, pa.string())]), column), values, column)


@given(st.sampled_from([t for t in TYPES if not isinstance(t, StringType)]), st.data())
def test_every_natural_value_is_kept_as_text(column, data):
    raws = data.draw(st.lists(st.integers(column.low, column.high), max_size=6))
    values = [column.decode(raw) for raw in raws]
    found = convert(pa.chunked_array([pa.array([str(v) for v in values], pa.string())]), column)
    assert found.values.to_pylist() == values
    assert found.rounding.values == 0


# Typed columns, as Parquet has them.

INTEGERS = {
    kind: (-(1 << bits - 1), (1 << bits - 1) - 1)
    for kind, bits in ((pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32), (pa.int64(), 64))
} | {pa.uint8(): (0, 255), pa.uint64(): (0, (1 << 64) - 1)}
TYPED: dict[pa.DataType, st.SearchStrategy[object]] = {
    **{kind: st.integers(*bounds) | st.integers(0, 1) for kind, bounds in INTEGERS.items()},
    pa.float64(): st.one_of(
        st.floats(),
        st.floats(-200, 200),
        st.integers(-200, 200).map(float),
    ),
    pa.decimal128(20, 6): st.decimals(-200, 200, places=6) | st.integers(-9, 9).map(Decimal),
    pa.decimal256(50, 2): st.decimals(-200, 200, places=2),
    pa.bool_(): st.booleans(),
    pa.large_string(): SPELLED,
    pa.string_view(): SPELLED,
    pa.dictionary(pa.int32(), pa.string()): SPELLED,
    pa.timestamp("s"): st.datetimes().map(lambda t: t.replace(microsecond=0)),
    pa.timestamp("us"): st.datetimes(),
    pa.date32(): st.dates(),
    pa.binary(): st.binary(max_size=3),
    pa.duration("s"): st.just(dt.timedelta(seconds=5)),
    pa.time32("s"): st.just(dt.time(12)),
    pa.list_(pa.int64()): st.just([1]),
    pa.null(): st.none(),
}


@settings(max_examples=800)
@given(st.sampled_from(TYPES), st.sampled_from(list(TYPED)), st.data())
def test_typed_columns(column, kind, data):
    chunks = data.draw(st.lists(st.lists(st.none() | TYPED[kind], max_size=5), max_size=2))
    arrays = [pa.array(chunk, kind) for chunk in chunks]
    values = [value for chunk in chunks for value in chunk]
    check(convert(pa.chunked_array(arrays, kind), column), values, column)


@given(
    st.sampled_from([t for t in TYPES if isinstance(t, TimestampType)]),
    st.lists(st.integers(-(10**18), 10**18) | st.integers(-9, 9).map(lambda n: n * 10**9)),
)
def test_nanoseconds_fit_where_they_are_whole(column, nanoseconds):
    found = convert(pa.chunked_array([pa.array(nanoseconds, pa.timestamp("ns"))]), column)
    step = 10**9 // column.per_second
    assert found.bad.tolist() == [n % step != 0 for n in nanoseconds]
    assert found.values.to_pylist() == [
        None if n % step else EPOCH + dt.timedelta(microseconds=n // 1000) for n in nanoseconds
    ]


@given(st.lists(st.floats(width=32, min_value=-90, max_value=90)))
def test_narrow_floats_count_as_their_shortest_decimals(values):
    column = DecimalType(38, 30)
    found = convert(pa.chunked_array([pa.array(values, pa.float32())]), column)
    shortest = [Decimal(str(np.float32(value))) for value in values]
    rounded = [round(Fraction(s) * 10**30) for s in shortest]
    assert found.values.to_pylist() == [column.decode(raw) for raw in rounded]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1025).map(float)))
def test_large_whole_floats_are_the_numbers_that_they_are(values):
    found = convert(pa.chunked_array([pa.array(values, pa.float64())]), IntType(64))
    assert found.values.to_pylist() == [int(value) for value in values]


def test_times_with_zones_are_brought_to_utc():
    zone = dt.timezone(dt.timedelta(hours=2))
    noon = dt.datetime(2024, 5, 31, 12, tzinfo=zone)
    found = convert(
        pa.chunked_array([pa.array([noon], pa.timestamp("ms", tz="+02:00"))]), TimestampType("s")
    )
    assert found.values.to_pylist() == [dt.datetime(2024, 5, 31, 10)]


FAR = pa.array([10**18], pa.timestamp("us"))
PROBLEMS = [
    (["abc"], IntType(16), "'abc' is not a whole number (SMALLINT)"),
    (["1.5"], IntType(32), "'1.5' is not a whole number (INT)"),
    ([2.5], IntType(32), "2.5 is not a whole number (INT)"),
    ([True], IntType(32), "True is not a whole number (INT)"),
    ([None], IntType(32), "the value is missing (INT)"),
    ([""], IntType(32), "the value is missing (INT)"),
    (["40000"], IntType(16), "40000 does not fit SMALLINT, which holds -32768 to 32767"),
    ([-1], IntType(8, signed=False), "-1 does not fit UINT(8), which holds 0 to 255"),
    (
        ["1e2000"],
        IntType(32),
        "1e2000 is too large or too fine to be a whole number (INT)",
    ),
    (
        ["1e99999999999999999999"],
        DecimalType(4, 2),
        "1e99999999999999999999 is too large or too fine to be a decimal number (DECIMAL(4,2))",
    ),
    (
        ["1" * 2000],
        DecimalType(4, 2),
        f"{'1' * 40} is too large or too fine to be a decimal number (DECIMAL(4,2))",
    ),
    (["x"], DecimalType(4, 2), "'x' is not a decimal number (DECIMAL(4,2))"),
    ([float("nan")], DecimalType(4, 2), "nan is not a decimal number (DECIMAL(4,2))"),
    (
        ["99.995"],
        DecimalType(4, 2),
        "99.995 does not fit DECIMAL(4,2), which holds -99.99 to 99.99",
    ),
    (
        ["1e60"],
        DecimalType(4, 2),
        "1E+60 does not fit DECIMAL(4,2), which holds -99.99 to 99.99",
    ),
    (["LONG"], StringType(3), "'LONG' has 4 bytes and STRING(3) holds 3 at most"),
    (["éé"], StringType(3), "'éé' has 4 bytes and STRING(3) holds 3 at most"),
    (["a\0"], StringType(3), "'a\\x00' contains a NUL character"),
    ([1.5], StringType(3), "1.5 is not a string (STRING(3))"),
    ([None], StringType(3), "the value is missing (STRING(3))"),
    (["maybe"], BoolType(), "'maybe' is neither true nor false (BOOLEAN)"),
    ([1.0], BoolType(), "1.0 is neither true nor false (BOOLEAN)"),
    (
        ["noon"],
        TimestampType("s"),
        "'noon' is not a time such as 2024-05-31 12:00:00 (TIMESTAMP(s))",
    ),
    (
        ["0001-01-01T00:00:00+14:00"],
        TimestampType("s"),
        "'0001-01-01T00:00:00+14:00' is not a time such as 2024-05-31 12:00:00 (TIMESTAMP(s))",
    ),
    (
        FAR,
        TimestampType("s"),
        "'<value out of range: 1000000000000000000>' is not a time such as 2024-05-31 12:00:00 "
        "(TIMESTAMP(s))",
    ),
    (
        ["2024-05-31 12:00:00.5"],
        TimestampType("s"),
        "2024-05-31 12:00:00.500000 is finer than the s that TIMESTAMP(s) counts",
    ),
    (
        ["2024-05-31 12:00:00.0000001"],
        TimestampType("us"),
        "2024-05-31 12:00:00.0000001 is finer than the us that TIMESTAMP(us) counts",
    ),
    (
        ["300000000000"],
        TimestampType("s"),
        "300000000000 does not fit TIMESTAMP(s), which holds 0001-01-01 00:00:00 to "
        "9999-12-31 23:59:59",
    ),
]


@pytest.mark.parametrize(("values", "column", "message"), PROBLEMS)
def test_problems(values, column, message):
    array = values if isinstance(values, pa.Array) else pa.array(values)
    found = convert(pa.chunked_array([array]), column)
    assert found.bad.tolist() == [True]
    assert found.problem(0) == message


def test_only_a_bad_row_has_a_problem():
    found = convert(pa.chunked_array([pa.array([1])]), IntType(8))
    with pytest.raises(AssertionError, match=r"^Row 0 fits TINYINT$"):
        found.problem(0)


def test_many_rows_leave_the_fast_way_only_where_they_must():
    texts = [str(n % 100) for n in range(10_000)]
    texts[1234], texts[5678] = "+5", "500"
    found = convert(pa.chunked_array([pa.array(texts)]), IntType(8))
    assert np.flatnonzero(found.bad).tolist() == [5678]
    assert found.values[1234].as_py() == 5
    assert found.values[9_999].as_py() == 99
