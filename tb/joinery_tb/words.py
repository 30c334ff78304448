"""Tuples as the words that a generated top takes and gives, whole columns at a time.

The files are those of ``records``. Every offset and width comes from ``top.json``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

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
from joinery_gen.manifest import PUNCTUATION
from joinery_gen.query import JoineryError
from joinery_gen.tables import from_raw, raw_columns

from .design import DesignError
from .records import DATA, LAST, record_words

__all__ = [
    "Stimulus",
    "decode",
    "decode_evictions",
    "encode",
    "parse_type",
    "result_files",
    "schema_of",
]

Words = npt.NDArray[np.uint32]
Raw = npt.NDArray[Any]

WINDOW_END = "end"
"""The rule of a column that has the ends of windows, which may lie past the range of its type."""

NAMED_TYPES: dict[str, ColumnType] = {
    kind.sql: kind for kind in (IntType(8), IntType(16), IntType(32), IntType(64), BoolType())
}


@dataclass(frozen=True)
class Stimulus:
    """A written stimulus file: its transfers (the end included) and the tuples in them.

    ``places`` has for every source the transfer of each row of its file, ``punctuations`` how many
    of the rows are no tuples.
    """

    path: Path
    transfers: int
    places: dict[str, npt.NDArray[np.int64]]
    punctuations: dict[str, int]

    @property
    def tuples(self) -> dict[str, int]:
        return {
            source: len(places) - self.punctuations[source]
            for source, places in self.places.items()
        }


def parse_type(sql: str) -> ColumnType:
    """Return the column type that ``top.json`` spells ``sql``."""
    if sql in NAMED_TYPES:
        return NAMED_TYPES[sql]
    match = re.fullmatch(r"(\w+)\((\w+)(?:,(\d+))?\)", sql)
    match match and match.groups():
        case ("INT" | "UINT" as name, bits, None):
            return IntType(int(bits), signed=name == "INT")
        case ("DECIMAL", precision, str(scale)):
            return DecimalType(int(precision), int(scale))
        case ("STRING", length, None):
            return StringType(int(length))
        case ("TIMESTAMP", unit, None):
            return TimestampType(unit)
    raise JoineryError(f"top.json has a column of type {sql!r}, which is not one of Joinery's")


def schema_of(fields: Iterable[Mapping[str, Any]]) -> Schema:
    """Return the schema of a list of fields of ``top.json``."""
    return Schema(tuple(Field(field["column"], parse_type(field["type"])) for field in fields))


def encode(
    top: Mapping[str, Any], prepared: str | Path, path: str | Path, *, pair: bool = True
) -> Stimulus:
    """Write the prepared tuples of every source to ``path`` in arrival order, and the end.

    With ``pair``, tuples that follow each other share a transfer wherever that means the same: one
    of the first source with one of the second right after it, or as many of the only source as the
    input has lanes. Without, each tuple has a transfer of its own.
    """
    layout = top["input"]
    sources = list(dict.fromkeys(flag["source"] for flag in layout["flags"]))
    tables = {source: read_source(Path(prepared), source) for source in sources}
    arrivals = [tables[source]["_arrival"].to_numpy() for source in sources]
    lanes = layout.get("lanes", 1) if pair else 1
    transfer_of = _transfers(Path(prepared), arrivals, pair=pair) // lanes
    count = int(transfer_of[-1]) + 1 if len(transfer_of) else 0

    records = np.zeros((count + 1, 1 + record_words(layout)), dtype="<u4")
    records[:count, 0] = DATA
    records[count, 0] = LAST
    places = {source: transfer_of[a] for source, a in zip(sources, arrivals, strict=True)}
    marks = {source: _punctuations(table) for source, table in tables.items()}
    for source, rows in places.items():
        lane_of = arrivals[sources.index(source)] % lanes
        fields = list(_of_source(layout["fields"], source))
        columns: dict[str, Raw] = dict(raw_columns(tables[source], schema_of(fields)))
        content = [(field, columns[field["column"]]) for field in fields]
        for flag in _of_source(layout["flags"], source):
            is_mark = flag["name"] == "punctuation"
            content.append((flag, marks[source] if is_mark else np.ones(len(rows), np.uint64)))
        for lane in range(lanes):
            mine = lane_of == lane
            for field, raw in content:
                place = {**field, "offset": field["offset"] + lane * layout.get("lane_width", 0)}
                _insert(records[:, 1:], rows[mine], place, raw[mine])
    records.tofile(path)
    punctuations = {source: int(mark.sum()) for source, mark in marks.items()}
    return Stimulus(Path(path), count + 1, places, punctuations)


def result_files(top: Mapping[str, Any], out: str | Path) -> list[Path]:
    """Return where the rows of each query of a design go: ``out``, or files in a folder ``out``."""
    queries = top.get("output", {}).get("queries")
    return [Path(out, f"{each['name']}.parquet") for each in queries] if queries else [Path(out)]


def decode(top: Mapping[str, Any], path: str | Path, query: int = 0) -> pa.Table:
    """Return the results in a file that the replay harness wrote, in natural types.

    Of a design that serves several queries, they are those of number ``query``.
    """
    layout = top["output"]
    words: Words = np.fromfile(path, dtype="<u4").reshape(-1, record_words(layout))
    fields = layout["fields"] if "queries" not in layout else layout["queries"][query]["fields"]
    if "query" in layout:
        words = words[_extract(words, layout["query"]) == query]
    if "evicted" in layout:
        words = words[_extract(words, layout["evicted"]) == 0]
    columns = {field["column"]: _read_column(words, field) for field in fields}
    ends = {field["column"] for field in fields if field.get("rule") == WINDOW_END}
    try:
        return from_raw(columns, schema_of(fields), unchecked=ends)
    except ValueError as error:
        # A design that works gives only values that came in, or were computed within their range.
        raise DesignError(f"The design gave a value that its column can't hold: {error}") from None


def decode_evictions(top: Mapping[str, Any], path: str | Path) -> pa.Table:
    """Return what results in a file tell of keys that lost their place, in natural types."""
    layout = top["output"]
    if "evicted" not in layout:
        return pa.table({})
    words: Words = np.fromfile(path, dtype="<u4").reshape(-1, record_words(layout))
    words = words[_extract(words, layout["evicted"]) == 1]
    fields = layout["evicted"]["fields"]
    columns = {field["column"]: _read_column(words, field) for field in fields}
    return from_raw(columns, schema_of(fields))


def _read_column(words: Words, field: Mapping[str, Any]) -> Raw:
    """Return the raw values of a column, put together where it leaves the design in parts."""
    match field.get("rule"):
        case "quotient":
            total, count = (_extract(words, field["parts"][part]) for part in ("sum", "count"))
            return _quotient(total, count, int(field["digits"]))
        case "mean":
            return _extract(words, field) * 5  # twice the mean, and one digit more than that has
    return _extract(words, field)


def _quotient(total: Raw, count: Raw, digits: int) -> Raw:
    """Return ``total / count`` with ``digits`` more digits, rounded half away from zero."""
    if not count.all():
        raise DesignError("The design gave the average of no rows")
    total, count = total.astype(object), count.astype(object)
    size = (2 * abs(total) * 10**digits + count) // (2 * count)
    quotient: Raw = np.where(total < 0, -size, size).astype(object)
    return quotient


def _punctuations(table: pa.Table) -> npt.NDArray[np.uint64]:
    """Return 1 for each row of a prepared source that is a punctuation."""
    if PUNCTUATION not in table.column_names:
        return np.zeros(len(table), np.uint64)
    return table[PUNCTUATION].to_numpy().astype(np.uint64)


def read_source(prepared: Path, source: str) -> pa.Table:
    """Return the tuples of one source of a prepared input."""
    path = prepared / f"{source}.parquet"
    if not path.is_file():
        raise JoineryError(f"{prepared} holds no tuples of {source}: there is no {path.name}")
    return pq.read_table(path)


def _of_source(fields: Iterable[Mapping[str, Any]], source: str) -> Iterator[Mapping[str, Any]]:
    return (field for field in fields if field["source"] == source)


def _transfers(
    prepared: Path, arrivals: list[npt.NDArray[np.int64]], *, pair: bool
) -> npt.NDArray[np.int64]:
    """Return for every arrival position the transfer that carries it."""
    total = sum(len(arrival) for arrival in arrivals)
    everyone = np.concatenate(arrivals) if arrivals else np.empty(0, np.int64)
    if not np.array_equal(np.sort(everyone), np.arange(total)):
        raise JoineryError(
            f"The arrival positions in {prepared} are not 0 to {total - 1}, each once; "
            f"prepare the data again"
        )
    source = np.empty(total, np.int8)
    for number, arrival in enumerate(arrivals):
        source[arrival] = number
    opens = np.ones(total, np.int64)
    if pair and total:
        # No tuple can be in two pairs: a second source's tuple closes the transfer it joins.
        opens[1:][(source[1:] == 1) & (source[:-1] == 0)] = 0
    return np.cumsum(opens) - 1


def _insert(words: Words, rows: npt.NDArray[np.int64], field: Mapping[str, Any], raw: Raw) -> None:
    """Put one raw value per row into the bits of ``field``, which are still zero."""
    offset, width = int(field["offset"]), int(field["width"])
    for start, limb in _limbs(raw, width):
        bits = min(width - start, 64)
        first, shift = divmod(offset + start, 32)
        for word in range(first, (offset + start + bits - 1) // 32 + 1):
            move = 32 * (word - first) - shift
            part = limb >> np.uint64(move) if move >= 0 else limb << np.uint64(-move)
            words[rows, word] |= part.astype(np.uint32)


def _limbs(raw: Raw, width: int) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    """Cut raw values into pieces of 64 bits, low bits first: ``(first bit, values)``."""
    if width <= 64 and raw.dtype != object:
        yield 0, raw.astype(np.uint64) & np.uint64((1 << width) - 1)
        return
    size = 8 * -(-width // 64)
    mask = (1 << width) - 1
    packed = b"".join((int(value) & mask).to_bytes(size, "little") for value in raw)
    limbs = np.frombuffer(packed, "<u8").reshape(-1, size // 8)
    for number in range(size // 8):
        yield 64 * number, limbs[:, number]


def _extract(words: Words, field: Mapping[str, Any]) -> Raw:
    """Return the raw values in the bits of ``field``: int64, or Python integers where wider."""
    offset, width, signed = int(field["offset"]), int(field["width"]), bool(field["signed"])
    limbs = [
        _extract_limb(words, offset + start, min(width - start, 64))
        for start in range(0, width, 64)
    ]
    if width < 64 or (width == 64 and signed):
        # Shifted up and back down, the highest bit of the field fills the ones above it.
        spare = np.int64(64 - width if signed else 0)
        return (limbs[0].view(np.int64) << spare) >> spare
    size = 8 * len(limbs)
    packed = np.stack(limbs, axis=1).astype("<u8").tobytes()
    sign = 1 << (width - 1) if signed else 0
    values = np.empty(len(words), dtype=object)
    for row in range(len(words)):
        value = int.from_bytes(packed[row * size : (row + 1) * size], "little")
        values[row] = (value ^ sign) - sign
    return values


def _extract_limb(words: Words, offset: int, bits: int) -> npt.NDArray[np.uint64]:
    first, shift = divmod(offset, 32)
    limb = np.zeros(len(words), np.uint64)
    for word in range(first, (offset + bits - 1) // 32 + 1):
        move = 32 * (word - first) - shift
        part = words[:, word].astype(np.uint64)
        limb |= part << np.uint64(move) if move >= 0 else part >> np.uint64(-move)
    return limb & np.uint64((1 << bits) - 1)
