"""Column types: which integer stands for a value, and where it lies in a tuple."""

import datetime as dt
import decimal
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hypothesis import example, given
from hypothesis import strategies as st

from joinery.tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    Field,
    IntType,
    Schema,
    StringType,
    TimestampType,
    bits_for_range,
)

INTS = st.integers(1, 64).map(IntType) | st.integers(1, 63).map(lambda bits: IntType(bits, False))
DECIMALS = st.integers(1, 38).flatmap(
    lambda digits: st.integers(0, digits).map(lambda scale: DecimalType(digits, scale))
)
STRINGS = st.integers(1, 64).map(StringType)
TIMES = st.sampled_from(["s", "ms", "us"]).map(TimestampType)
TYPES = INTS | DECIMALS | STRINGS | TIMES | st.just(BoolType())


def error(message: str):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


# Values, each worked out from the definition of its type


@given(INTS, st.data())
def test_integers_stand_for_themselves(column, data):
    value = data.draw(st.integers(column.low, column.high))
    assert column.encode(value) == value == column.decode(value)
    assert type(column.decode(np.int64(value))) is int


@pytest.mark.parametrize("value", [5, 5.0, Decimal("5"), Decimal("5.00"), Fraction(5), np.int32(5)])
def test_an_integer_may_come_as_any_number(value):
    raw = IntType(8).encode(value)
    assert (raw, type(raw)) == (5, int)


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        (IntType(1), -1, 0),
        (IntType(8), -128, 127),
        (IntType(20), -524_288, 524_287),
        (IntType(64), -(2**63), 2**63 - 1),
        (IntType(1, signed=False), 0, 1),
        (IntType(63, signed=False), 0, 2**63 - 1),
        (DecimalType(1, 0), -9, 9),
        (DecimalType(4, 2), -9999, 9999),
        (DecimalType(38, 38), -(10**38) + 1, 10**38 - 1),
        (StringType(1), 0, 255),
        (StringType(64), 0, 2**512 - 1),
        (BoolType(), 0, 1),
        (TimestampType("s"), -62_135_596_800, 253_402_300_799),
        (TimestampType("us"), -62_135_596_800_000_000, 253_402_300_799_999_999),
    ],
    ids=lambda value: value.sql if isinstance(value, ColumnType) else "",
)
def test_ranges(column, low, high):
    assert (column.low, column.high) == (low, high)
    assert column.shape.width == column.width
    # just as wide as it must be
    least, most = (-(2 ** (column.width - 1)), 2 ** (column.width - 1) - 1)
    if not column.shape.signed:
        least, most = 0, 2**column.width - 1
    assert least <= low <= high <= most
    assert column.width == 1 or not (least // 2 <= low and high <= most // 2)


@given(DECIMALS, st.data())
def test_decimals_are_exact(column, data):
    raw = data.draw(
        st.integers(column.low, column.high) | st.sampled_from([column.low, column.high])
    )
    value = column.decode(raw)
    assert Fraction(value) == Fraction(raw, 10**column.scale)
    assert -value.as_tuple().exponent == column.scale
    assert column.encode(value) == column.encode(str(value)) == column.encode(f"{value:f}") == raw


@pytest.mark.parametrize(
    ("value", "raw"),
    [(1, 100), ("1.5", 150), (0.1, 10), ("-2.50", -250), ("1E+1", 1000), (-0.0, 0)],
)
def test_a_decimal_may_come_as_number_or_text(value, raw):
    assert DecimalType(6, 2).encode(value) == raw


def test_decimals_do_not_depend_on_the_callers_context():
    column, value = DecimalType(38, 2), Decimal("-123456789012345678901234567890123456.78")
    with decimal.localcontext(prec=3, Emax=5, Emin=-5):
        assert column.encode(value) == -12345678901234567890123456789012345678
        assert column.decode(-12345678901234567890123456789012345678) == value


@given(STRINGS, st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=70))
@example(StringType(3), "東")
@example(StringType(2), "")
def test_strings(column, value):
    value = value.encode()[: column.length].decode(errors="ignore")
    raw = column.encode(value)
    assert column.decode(raw) == value
    padded = [*value.encode(), *[0] * (column.length - len(value.encode()))]
    assert raw == sum(byte << 8 * (column.length - 1 - i) for i, byte in enumerate(padded))


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)


@given(TEXTS, TEXTS)
def test_strings_compare_as_their_raw_values(one, other):
    column = StringType(12)
    assert (one < other) == (column.encode(one) < column.encode(other))


def test_an_integer_may_be_read_as_a_string():
    assert StringType(4).decode(StringType(4).encode(42)) == "42"


@given(TIMES, st.datetimes())
@example(TimestampType("us"), dt.datetime.min)
@example(TimestampType("us"), dt.datetime.max)
@example(TimestampType("s"), dt.datetime(1969, 12, 31, 23, 59, 59))
def test_times(column, moment):
    step = {"s": 1_000_000, "ms": 1000, "us": 1}[column.unit]
    moment = moment.replace(microsecond=moment.microsecond // step * step % 1_000_000)
    raw = column.encode(moment)
    micros = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    assert raw * step == micros
    assert column.decode(raw) == moment
    assert (
        column.encode(str(moment)) == column.encode(moment.isoformat()) == column.encode(raw) == raw
    )


@given(
    st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)),
)
def test_a_time_with_a_zone_is_counted_in_utc(moment, offset):
    column = TimestampType("us")
    there = moment.replace(tzinfo=dt.timezone(offset))
    assert column.encode(there) == column.encode(moment - offset)
    assert column.encode(there) == column.encode(there.isoformat())


@given(TYPES, st.data())
def test_every_raw_value_but_a_broken_string_comes_back(column, data):
    if isinstance(column, StringType):
        raw = int.from_bytes(b"x" * column.length, "big")
    else:
        raw = data.draw(
            st.sampled_from([column.low, column.high]) | st.integers(column.low, column.high)
        )
    assert column.encode(column.decode(raw)) == raw


@pytest.mark.parametrize("value", [True, 1, 1.0, np.True_, Decimal(1)])
def test_true(value):
    raw = BoolType().encode(value)
    assert (raw, type(raw), BoolType().decode(raw)) == (1, int, True)
    assert BoolType().encode(not value) == 0


# Spelling


@given(TYPES)
def test_the_spelling_tells_types_apart(column):
    words = {
        IntType(8): "TINYINT", IntType(16): "SMALLINT", IntType(32): "INT", IntType(64): "BIGINT",
        BoolType(): "BOOLEAN",
    }  # fmt: skip
    match column:
        case IntType() if column not in words:
            expected = f"{'INT' if column.signed else 'UINT'}({column.bits})"
        case DecimalType(precision, scale):
            expected = f"DECIMAL({precision},{scale})"
        case StringType(length):
            expected = f"STRING({length})"
        case TimestampType(unit):
            expected = f"TIMESTAMP({unit})"
        case _:
            expected = words[column]
    assert column.sql == expected


# Refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IntType(0), "A signed integer has 1 to 64 bits, not 0"),
        (lambda: IntType(65), "A signed integer has 1 to 64 bits, not 65"),
        (lambda: IntType(64, signed=False), "An unsigned integer has 1 to 63 bits, not 64"),
        (lambda: DecimalType(0, 0), "A DECIMAL has 1 to 38 digits, not 0"),
        (lambda: DecimalType(39, 0), "A DECIMAL has 1 to 38 digits, not 39"),
        (lambda: DecimalType(5, 6), "A DECIMAL(5) has 0 to 5 digits after the point, not 6"),
        (lambda: DecimalType(5, -1), "A DECIMAL(5) has 0 to 5 digits after the point, not -1"),
        (lambda: StringType(0), "A STRING has 1 to 64 bytes, not 0"),
        (lambda: StringType(65), "A STRING has 1 to 64 bytes, not 65"),
        (lambda: TimestampType("ns"), "A TIMESTAMP counts s, ms or us, not 'ns'"),
        (lambda: bits_for_range(3, 2), "A range must not be empty, and 3 is larger than 2"),
        (
            lambda: Schema(
                (Field("a", IntType(8)), Field("b", IntType(8)), Field("a", BoolType()))
            ),
            "Column 'a' is declared twice",
        ),
    ],
)
def test_types_that_cannot_be(make, message):
    with error(message):
        make()


BIGINT = "-9223372036854775808 to 9223372036854775807"
YEARS = "0001-01-01 00:00:00 to 9999-12-31 23:59:59"


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (IntType(8), 128, "128 does not fit TINYINT, which holds -128 to 127"),
        (IntType(8), -129, "-129 does not fit TINYINT, which holds -128 to 127"),
        (IntType(4, False), -1, "-1 does not fit UINT(4), which holds 0 to 15"),
        (IntType(64), 2**63, f"9223372036854775808 does not fit BIGINT, which holds {BIGINT}"),
        (IntType(8), 1.5, "1.5 is not a whole number"),
        (IntType(8), True, "True is not a whole number"),
        (IntType(8), "5", "'5' is not a whole number"),
        (IntType(8), "five", "'five' is not a whole number"),
        (IntType(8), None, "None is not a whole number"),
        (IntType(8), float("nan"), "nan is not a whole number"),
        (IntType(8), float("inf"), "inf is not a whole number"),
        (DecimalType(4, 2), "100", "100 does not fit DECIMAL(4,2), which holds -99.99 to 99.99"),
        (DecimalType(4, 2), -100, "-100 does not fit DECIMAL(4,2), which holds -99.99 to 99.99"),
        (DecimalType(4, 2), "0.125", "0.125 has more than 2 digits after the point"),
        (DecimalType(4, 2), 0.001, "0.001 has more than 2 digits after the point"),
        (DecimalType(4, 2), Decimal("1E+99999999"),
         "1E+99999999 has more digits than DECIMAL(4,2) holds"),
        (DecimalType(4, 2), "1E-99999999", "1E-99999999 has more digits than DECIMAL(4,2) holds"),
        (DecimalType(4, 2), "1." + "3" * 70,
         f"1.{'3' * 70} has more digits than DECIMAL(4,2) holds"),
        (DecimalType(4, 2), "one", "'one' is not a decimal number"),
        (DecimalType(4, 2), None, "None is not a decimal number"),
        (DecimalType(4, 2), True, "True is not a decimal number"),
        (DecimalType(4, 2), float("nan"), "nan is not a decimal number"),
        (DecimalType(4, 2), float("-inf"), "-inf is not a decimal number"),
        (DecimalType(4, 2), Decimal("sNaN"), "Decimal('sNaN') is not a decimal number"),
        (StringType(3), "four", "'four' has 4 bytes and STRING(3) holds 3 at most"),
        (StringType(3), "éé", "'éé' has 4 bytes and STRING(3) holds 3 at most"),
        (StringType(3), "a\0", "'a\\x00' contains a NUL character"),
        (StringType(3), "\ud800", "'\\ud800' cannot be written as UTF-8"),
        (StringType(9), None, "None is not a string"),
        (StringType(9), True, "True is not a string"),
        (StringType(9), 1.5, "1.5 is not a string"),
        (StringType(9), b"x", "b'x' is not a string"),
        (BoolType(), 2, "2 is neither true nor false"),
        (BoolType(), "true", "'true' is neither true nor false"),
        (BoolType(), None, "None is neither true nor false"),
        (TimestampType("s"), "noon", "'noon' is not a time such as 2024-05-31 12:00:00"),
        (TimestampType("s"), None, "None is not a time such as 2024-05-31 12:00:00"),
        (TimestampType("s"), dt.date(2024, 5, 31),
         "datetime.date(2024, 5, 31) is not a time such as 2024-05-31 12:00:00"),
        (TimestampType("s"), 1.5, "1.5 is not a time such as 2024-05-31 12:00:00"),
        (TimestampType("ms"), "2024-01-01 00:00:00.000001",
         "2024-01-01 00:00:00.000001 is finer than the ms that TIMESTAMP(ms) counts"),
        (TimestampType("s"), 253_402_300_800,
         f"253402300800 does not fit TIMESTAMP(s), which holds {YEARS}"),
        (TimestampType("s"), 10**30, f"{10**30} does not fit TIMESTAMP(s), which holds {YEARS}"),
        (TimestampType("s"), "0001-01-01 00:00:00+00:01",
         f"0001-01-01 00:00:00+00:01 does not fit TIMESTAMP(s), which holds {YEARS}"),
        (TimestampType("s"), "9999-12-31 23:59:59-00:01",
         f"9999-12-31 23:59:59-00:01 does not fit TIMESTAMP(s), which holds {YEARS}"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(column, value, message):
    with error(message):
        column.encode(value)


@given(INTS | DECIMALS | TIMES, st.integers(1, 10**20))
def test_a_value_outside_is_refused(column, beyond):
    for raw in (column.low - beyond, column.high + beyond):
        scale = column.scale if isinstance(column, DecimalType) else 0
        value = Decimal(raw).scaleb(-scale, decimal.Context(prec=80))
        with pytest.raises(
            ValueError, match=rf" does not fit {re.escape(column.sql)}, which holds"
        ):
            column.encode(value)


ANY = st.integers(-(2**70), 2**70) | st.integers(-9, 9)


@given(ANY, ANY)
def test_bits_for_range_is_the_least_shape(one, other):
    low, high = min(one, other), max(one, other)
    width, is_signed = bits_for_range(low, high)
    assert is_signed == (low < 0)

    def holds(bits):
        return (-(1 << bits) // 2 if low < 0 else 0) <= low and high < (1 << bits) // (
            1 + is_signed
        )

    assert holds(width)
    assert width == 1 or not holds(width - 1)


def test_a_column_type_is_abstract():
    with pytest.raises(TypeError, match=r"^Can't instantiate abstract class ColumnType with "):
        ColumnType()


# Schemas

FIELDS = (
    Field("a", IntType(5)),
    Field("b", StringType(2)),
    Field("c", BoolType()),
    Field("d", DecimalType(4, 2)),
    Field("e", TimestampType("ms")),
    Field("f", IntType(3, signed=False)),
)


def test_a_schema_is_its_fields_by_name():
    schema = Schema(FIELDS)
    assert (list(schema), len(schema)) == (list(FIELDS), 6)
    assert schema.names == tuple("abcdef")
    assert (schema["d"], "d" in schema, "g" in schema) == (DecimalType(4, 2), True, False)
    with pytest.raises(KeyError, match=r"^'g'$"):
        schema["g"]


def test_a_selection_keeps_the_order_of_the_schema():
    schema = Schema(FIELDS)
    assert schema.select({"e", "a", "c"}).names == ("a", "c", "e")
    assert schema.select(frozenset()).names == ()


def test_the_first_field_is_in_the_low_bits():
    layout = Schema(FIELDS).layout
    shapes = {name: field.shape for name, field in layout}
    assert shapes == {
        "a": signed(5), "b": unsigned(16), "c": unsigned(1), "d": signed(15), "e": signed(49),
        "f": unsigned(3),
    }  # fmt: skip
    assert {name: field.offset for name, field in layout} == {
        "a": 0, "b": 5, "c": 21, "d": 22, "e": 37, "f": 86,
    }  # fmt: skip
    assert layout.size == 89


@given(st.lists(TYPES, min_size=1, max_size=6), st.data())
def test_tuples_are_packed_field_by_field(columns, data):
    schema = Schema(tuple(Field(f"c{i}", column) for i, column in enumerate(columns)))
    raws = [data.draw(st.integers(column.low, column.high)) for column in columns]
    packed = schema.layout.const({f"c{i}": raw for i, raw in enumerate(raws)}).as_value().value
    expected = position = 0
    for column, raw in zip(columns, raws, strict=True):
        expected |= (raw & (2**column.width - 1)) << position
        position += column.width
    assert (packed & (2**position - 1), schema.layout.size) == (expected, position)
