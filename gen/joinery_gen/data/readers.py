"""Readers: one file to one table, with values as the file has them and nothing guessed.

A reader checks the form of a file (can it be read, has every row all the columns); whether values
fit the declared types is decided later, by ``values``, in one place for all formats.
"""

import csv
import difflib
import gzip
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import dpkt
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from joinery.tuples import Field, IntType, Schema, TimestampType

from ..query import JoineryError

PACKETS = Schema(
    (
        Field("time", TimestampType("us")),
        Field("src", IntType(32, signed=False)),
        Field("dst", IntType(32, signed=False)),
        Field("proto", IntType(8, signed=False)),
        Field("sport", IntType(16, signed=False)),
        Field("dport", IntType(16, signed=False)),
        Field("length", IntType(16, signed=False)),
        Field("ttl", IntType(8, signed=False)),
    )
)


class DataError(JoineryError):
    """The data a person gave is wrong; the text names the file and, where there is one, the row."""


@dataclass(frozen=True)
class Loaded:
    """The columns of a file, and how many of its rows had the wrong form and were dropped.

    ``may_round`` is set where the format holds numbers as binary fractions.
    """

    table: pa.Table
    dropped: int = 0
    may_round: bool = False


def read(path: Path, names: Collection[str], *, drop: bool = False) -> Loaded:
    """Read the columns ``names`` of a file, by the ending of its name.

    Rows of the wrong form stop the reading, or are dropped and counted if ``drop``.
    """
    reader = next((READERS[end] for end in READERS if path.name.lower().endswith(end)), None)
    if reader is None:
        known = ", ".join(READERS)
        raise DataError(f"{path}: cannot tell the format; the name must end in one of {known}")
    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    try:
        return reader(path, names, drop)
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def known_columns(path: Path, names: Iterable[str], has: Sequence[str]) -> list[str]:
    """Return ``names`` if the file has them all, else say which are missing and what it has."""
    wanted = list(names)
    for name in wanted:
        if name not in has:
            close = difflib.get_close_matches(name, has, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            listed = ", ".join(has) or "none"
            raise DataError(f"{path}: has no column {name}.{hint} Its columns are: {listed}")
        if has.count(name) > 1:
            raise DataError(f"{path}: has {has.count(name)} columns named {name}")
    return wanted


def _read_csv(path: Path, names: Collection[str], drop: bool) -> Loaded:
    wanted = known_columns(path, names, _csv_header(path))
    wrong: list[tuple[int, str]] = []

    def wrong_row(row: Any) -> str:
        # The reader counts the header as row 1.
        wrong.append((row.number - 1, f"{row.actual_columns} fields, not {row.expected_columns}"))
        return "skip"

    try:
        table = pyarrow.csv.read_csv(
            path,
            # One thread, because only then does the reader know the numbers of its rows.
            read_options=pyarrow.csv.ReadOptions(use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                newlines_in_values=True, invalid_row_handler=wrong_row
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={name: pa.string() for name in wanted},
                include_columns=wanted,
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: is not a CSV file: {error}") from error
    if wrong and not drop:
        raise DataError(f"{path}: row {wrong[0][0]} has {wrong[0][1]} as in the header")
    return Loaded(table, dropped=len(wrong))


def _csv_header(path: Path) -> list[str]:
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        try:
            header = next(csv.reader(file), [])
        except UnicodeDecodeError:
            raise DataError(f"{path}: is not UTF-8 text") from None
    if not header:
        raise DataError(f"{path}: is empty; a CSV file starts with a line of column names")
    return header


def _read_parquet(path: Path, names: Collection[str], drop: bool) -> Loaded:
    try:
        wanted = known_columns(path, names, pq.ParquetDataset(path).schema.names)
        return Loaded(pq.read_table(path, columns=wanted))
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: is not a Parquet file: {error}") from error


def _read_json_lines(path: Path, names: Collection[str], drop: bool) -> Loaded:
    """Read with Arrow where a file is regular, and line by line where it is not."""
    try:
        table = pyarrow.json.read_json(path)
        # Arrow takes strings that look like times for times, and forgets how they were written.
        times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
        if times:
            strings = pa.schema([(name, pa.string()) for name in times])
            table = pyarrow.json.read_json(
                path, parse_options=pyarrow.json.ParseOptions(explicit_schema=strings)
            )
    except pa.ArrowInvalid:
        return _read_mixed_json_lines(path, names, drop)
    return Loaded(table.select(known_columns(path, names, table.column_names)), may_round=True)


def _read_mixed_json_lines(path: Path, names: Collection[str], drop: bool) -> Loaded:
    rows: list[dict[str, Any]] = []
    dropped = 0
    seen: dict[str, None] = {}
    for number, line in enumerate(_lines(path), 1):
        row = _json_object(line)
        if row is None and not drop:
            raise DataError(f"{path}: row {number} is not a JSON object: {line.strip()[:60]}")
        if row is None:
            dropped += 1
            continue
        rows.append(row)
        seen.update(dict.fromkeys(row))
    wanted = known_columns(path, names, list(seen)) if rows else list(names)
    columns = {name: _mixed_array([row.get(name) for row in rows]) for name in wanted}
    return Loaded(pa.table(columns), dropped=dropped, may_round=True)


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            yield from (line for line in file if line.strip())
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8 text") from None


def _json_object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _mixed_array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
        return pa.array(texts, type=pa.string())


def _read_pcap(path: Path, names: Collection[str], drop: bool) -> Loaded:
    wanted = known_columns(path, names, PACKETS.names)
    with open(path, "rb") as file:
        try:
            rows = list(_packets(_WholeReads(file)))
        except _Truncated:
            raise DataError(f"{path}: ends in the middle of a packet") from None
        except (ValueError, dpkt.UnpackError) as error:
            raise DataError(f"{path}: is not a pcap file: {error}") from error
    columns = list(zip(*rows, strict=True)) or [() for _ in PACKETS]
    arrays = {
        name: pa.array(column, type=pa.int64())
        for name, column in zip(PACKETS.names, columns, strict=True)
    }
    arrays["time"] = arrays["time"].cast(pa.timestamp("us"))
    return Loaded(pa.table(arrays).select(wanted))


class _Truncated(Exception):
    """A file ended where more was promised."""


class _WholeReads:
    """A file that gives all the bytes asked for, or none at its end, and otherwise raises.

    dpkt itself takes a last packet that is cut short for a whole one.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.name = file.name

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        if 0 < len(data) < size:
            raise _Truncated
        return data

    def seek(self, offset: int) -> int:
        return self._file.seek(offset)


def _packets(file: _WholeReads) -> Iterator[tuple[int, ...]]:
    """Yield the columns of ``PACKETS`` for every IPv4 packet; others are passed over."""
    reader = dpkt.pcap.UniversalReader(file)
    decode = LINKS.get(reader.datalink())
    if decode is None:
        raise ValueError(
            f"link type {reader.datalink()} is not supported, only Ethernet and raw IP"
        )
    for time, frame in reader:
        if not frame:
            raise _Truncated
        packet = decode(frame)
        if isinstance(packet, dpkt.ip.IP):
            # Seconds in a float are exact to the microsecond when rounded, until the year 2200.
            yield (
                round(time * 1_000_000),
                int.from_bytes(packet.src, "big"),
                int.from_bytes(packet.dst, "big"),
                packet.p,
                getattr(packet.data, "sport", 0),
                getattr(packet.data, "dport", 0),
                packet.len,
                packet.ttl,
            )


def _ethernet(frame: bytes) -> Any:
    return dpkt.ethernet.Ethernet(frame).data


def _raw_ip(frame: bytes) -> Any:
    return dpkt.ip.IP(frame) if frame[0] >> 4 == 4 else None


LINKS: dict[int, Callable[[bytes], Any]] = {
    dpkt.pcap.DLT_EN10MB: _ethernet,
    dpkt.pcap.DLT_RAW: _raw_ip,
    101: _raw_ip,  # LINKTYPE_RAW, as files have it
}

READERS: dict[str, Callable[[Path, Collection[str], bool], Loaded]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".parquet": _read_parquet,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".pcap": _read_pcap,
    ".pcapng": _read_pcap,
}
