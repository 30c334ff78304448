"""Arrow tables and schemas: natural values in files, raw integers towards the hardware.

A column has one *natural* Arrow type, whatever its width in hardware, so that Spark, the benches
and people read the same files. ``raw_columns`` and ``from_raw`` are the vectorised counterparts of
``ColumnType.encode`` and ``ColumnType.decode``, and exact inverses of each other.
"""

from collections.abc import Container, Mapping
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
    Schema,
    StringType,
    TimestampType,
)

__all__ = ["arrow_schema", "arrow_type", "from_raw", "raw_columns"]

RawColumn = npt.NDArray[np.int64] | npt.NDArray[np.object_]

INT64 = np.iinfo(np.int64)
WORD = (1 << 64) - 1
DIGITS_IN_A_WORD = 18  # the most digits that always fit 64 bits with a sign
MICROSECONDS = 1_000_000


def arrow_type(column: ColumnType) -> pa.DataType:
    """Return the natural Arrow type of a column."""
    match column:
        case IntType():
            return pa.int64()
        case DecimalType():
            return pa.decimal128(column.precision, column.scale)
        case StringType():
            return pa.string()
        case BoolType():
            return pa.bool_()
        case TimestampType():
            return pa.timestamp("us")
    raise TypeError(f"Not a column type: {column!r}")


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the natural Arrow schema of a stream or a result."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in schema])


def raw_columns(table: pa.Table, schema: Schema) -> dict[str, RawColumn]:
    """Return the raw integers of every column of ``schema``.

    ``table`` has the natural types and no nulls; columns that ``schema`` does not name are left
    out. A column is an ``int64`` array where every raw value of its type fits one, and otherwise
    an array of Python integers.
    """
    return {field.name: _to_raw(table[field.name], field.type) for field in schema}


def from_raw(
    columns: Mapping[str, npt.ArrayLike], schema: Schema, *, unchecked: Container[str] = ()
) -> pa.Table:
    """Return the table of natural values whose raw integers are ``columns``.

    The numbers and times of ``unchecked`` columns may be outside of their types, as long as the
    natural type holds them.
    """
    arrays = [
        _from_raw(np.asarray(columns[field.name]), field.type, check=field.name not in unchecked)
        for field in schema
    ]
    return pa.table(arrays, schema=arrow_schema(schema))


def _fits_int64(column: ColumnType) -> bool:
    return column.low >= INT64.min and column.high <= INT64.max


def _to_raw(values: pa.ChunkedArray, column: ColumnType) -> RawColumn:
    if values.type != arrow_type(column):
        raise ValueError(f"A {column.sql} column has type {arrow_type(column)}, not {values.type}")
    if values.null_count:
        raise ValueError(f"A {column.sql} column holds {values.null_count} nulls")
    match column:
        case DecimalType():
            return _decimal_to_raw(values, column)
        case StringType():
            return _string_to_raw(values, column)
        case TimestampType():
            micros = _numbers(values.cast(pa.int64()))
            return micros // (MICROSECONDS // column.per_second)
    return _numbers(values.cast(pa.int64()))


def _numbers(values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    # A copy, because Arrow's own memory is read only.
    return np.array(values.to_numpy(), dtype=np.int64)


def _decimal_to_raw(values: pa.ChunkedArray, column: DecimalType) -> RawColumn:
    # Arrow keeps a decimal128 as the raw value itself, in two little-endian 64-bit words.
    array = _one_array(values)
    words = np.frombuffer(array.buffers()[1] or b"", dtype="<i8").reshape(-1, 2)
    words = words[array.offset : array.offset + len(array)]
    if column.precision <= DIGITS_IN_A_WORD:
        return words[:, 0].astype(np.int64)
    low = words[:, 0].astype(np.uint64).astype(object)
    raw: npt.NDArray[np.object_] = words[:, 1].astype(object) * (WORD + 1) + low
    return raw


def _string_to_raw(values: pa.ChunkedArray, column: StringType) -> RawColumn:
    # Streams repeat their strings (airports, vehicles), so only the different ones are encoded.
    encoded = _one_array(values).dictionary_encode()
    kind: Any = np.int64 if _fits_int64(column) else object
    raw = np.array([column.encode(text.as_py()) for text in encoded.dictionary], dtype=kind)
    taken: RawColumn = raw[encoded.indices.to_numpy()]
    return taken


def _one_array(values: pa.ChunkedArray) -> pa.Array:
    combined = values.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _from_raw(raw: npt.NDArray[Any], column: ColumnType, *, check: bool) -> pa.Array:
    if check and raw.size and not column.low <= raw.min() <= raw.max() <= column.high:
        raise ValueError(
            f"Raw values {raw.min()} to {raw.max()} are outside {column.sql}, "
            f"{column.low} to {column.high}"
        )
    match column:
        case DecimalType():
            return _decimal_from_raw(raw, column)
        case StringType():
            return _string_from_raw(raw, column)
        case BoolType():
            return pa.array(raw.astype(bool))
        case TimestampType():
            micros = raw.astype(np.int64) * (MICROSECONDS // column.per_second)
            return pa.array(micros).cast(pa.timestamp("us"))
    return pa.array(raw.astype(np.int64))


def _decimal_from_raw(raw: npt.NDArray[Any], column: DecimalType) -> pa.Array:
    words = np.empty((len(raw), 2), dtype="<u8")
    if raw.dtype == object:
        words[:, 0] = raw & WORD
        words[:, 1] = (raw >> 64) & WORD
    else:
        signed = raw.astype(np.int64)
        words[:, 0] = signed.astype(np.uint64)
        words[:, 1] = (signed >> 63).astype(np.uint64)  # the sign, in every bit
    return pa.Array.from_buffers(arrow_type(column), len(raw), [None, pa.py_buffer(words)])


def _string_from_raw(raw: npt.NDArray[Any], column: StringType) -> pa.Array:
    different, index = np.unique(raw, return_inverse=True)
    texts = pa.array([column.decode(value) for value in different], type=pa.string())
    return pc.take(texts, pa.array(index.reshape(-1)))
