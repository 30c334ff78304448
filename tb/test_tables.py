"""Natural values and raw integers, whole columns against ``ColumnType`` one by one."""

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
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
)
from joinery_gen.tables import arrow_schema, arrow_type, from_raw, raw_columns

TYPES = [
    IntType(1),
    IntType(8),
    IntType(63, signed=False),
    IntType(64),
    BoolType(),
    DecimalType(4, 2),
    DecimalType(18, 0),
    DecimalType(19, 3),
    DecimalType(38, 38),
    StringType(2),
    StringType(7),
    StringType(8),
    StringType(20),
    TimestampType("s"),
    TimestampType("ms"),
    TimestampType("us"),
]


def raws(column: ColumnType) -> st.SearchStrategy[int]:
    if isinstance(column, StringType):
        text = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
        return text.filter(lambda t: len(t.encode()) <= column.length).map(column.encode)
    return st.integers(column.low, column.high) | st.sampled_from([column.low, column.high])


def raw_lists() -> st.SearchStrategy[tuple[ColumnType, list[int]]]:
    return st.sampled_from(TYPES).flatmap(
        lambda column: st.tuples(st.just(column), st.lists(raws(column), max_size=12))
    )


def as_given(column: ColumnType, values: list[int]) -> np.ndarray:
    """As the result of ``raw_columns``: Python integers only where 64 bits do not hold them."""
    fits = column.low >= -(1 << 63) and column.high < 1 << 63
    return np.array(values, dtype=np.int64 if fits else object)


@given(raw_lists())
def test_whole_columns_equal_single_values(case):
    column, values = case
    schema = Schema((Field("c", column),))
    table = from_raw({"c": as_given(column, values)}, schema)
    assert table.schema == arrow_schema(schema)
    assert table["c"].to_pylist() == [column.decode(value) for value in values]
    assert raw_columns(table, schema)["c"].tolist() == values
    natural = pa.table({"c": pa.array([column.decode(v) for v in values], arrow_type(column))})
    assert raw_columns(natural, schema)["c"].tolist() == values


@given(raw_lists(), st.data())
def test_slices_and_chunks_are_read_where_they_are(case, data):
    column, values = case
    schema = Schema((Field("c", column),))
    table = from_raw({"c": as_given(column, values)}, schema)
    cut = data.draw(st.integers(0, len(values)))
    swapped = pa.concat_tables([table.slice(cut), table.slice(0, cut)])
    assert raw_columns(swapped, schema)["c"].tolist() == values[cut:] + values[:cut]


def test_raw_columns_leaves_other_columns_out():
    table = pa.table({"a": [1], "b": [2]})
    assert list(raw_columns(table, Schema((Field("b", IntType(8)),)))) == ["b"]


def test_narrow_columns_are_int64_and_wide_ones_python_integers():
    for column in TYPES:
        raw = raw_columns(
            pa.table({"c": pa.array([], arrow_type(column))}), Schema((Field("c", column),))
        )["c"]
        wide = column.high >= 1 << 63
        assert raw.dtype == (object if wide else np.int64), column


@pytest.mark.parametrize(
    ("values", "column", "message"),
    [
        (pa.array([1], pa.int32()), IntType(8), "A TINYINT column has type int64, not int32"),
        (
            pa.array([Decimal("1.5")], pa.decimal128(2, 1)),
            DecimalType(4, 2),
            "A DECIMAL(4,2) column has type decimal128(4, 2), not decimal128(2, 1)",
        ),
        (pa.array([1, None, None]), IntType(8), "A TINYINT column holds 2 nulls"),
    ],
)
def test_wrong_tables(values, column, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        raw_columns(pa.table({"c": values}), Schema((Field("c", column),)))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (IntType(8), 128, "Raw values 128 to 128 are outside TINYINT, -128 to 127"),
        (BoolType(), 2, "Raw values 2 to 2 are outside BOOLEAN, 0 to 1"),
        (DecimalType(2, 1), -100, "Raw values -100 to -100 are outside DECIMAL(2,1), -99 to 99"),
    ],
)
def test_raw_values_that_no_column_holds(column, value, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        from_raw({"c": np.array([value])}, Schema((Field("c", column),)))


def test_only_column_types_have_arrow_types():
    with pytest.raises(TypeError, match=r"^Not a column type: 'INT'$"):
        arrow_type("INT")
