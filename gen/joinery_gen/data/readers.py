"""Readers: one file to one table, with values as the file has them and nothing guessed.

A reader checks the form of a file (can it be read, has every row all the columns); whether values
fit the declared types is decided later, by ``values``, in one place for all formats. Rows count
from 1; the line of names at the top of a CSV file is none.
"""

import csv
import gzip
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import dpkt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from joinery.tuples import Field, IntType, Schema, TimestampType

from ..parse_text import did_you_mean
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

    ``notes`` say what else a person should know, one line each.
    """

    table: pa.Table
    dropped: int = 0
    notes: tuple[str, ...] = ()


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
    if path.is_dir() and reader is not _read_parquet:
        raise DataError(f"{path}: is a folder, not a file")
    try:
        return reader(path, names, drop)
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def known_columns(path: Path | str, names: Iterable[str], has: Sequence[str]) -> list[str]:
    """Return ``names`` if the file has them all, else say which are missing and what it has."""
    wanted = list(names)
    for name in wanted:
        if name not in has:
            raise DataError(
                f"{path}: has no column {name}{did_you_mean(name, has)}; "
                f"its columns are: {', '.join(has) or 'none'}"
            )
        if has.count(name) > 1:
            raise DataError(f"{path}: has {has.count(name)} columns named {name}")
    return wanted


def _read_csv(path: Path, names: Collection[str], drop: bool) -> Loaded:
    wanted = known_columns(path, names, _csv_header(path))
    wrong: list[tuple[int, int, int]] = []

    def wrong_row(row: Any) -> str:
        # The reader counts the header as row 1.
        wrong.append((row.number - 1, row.expected_columns, row.actual_columns))
        return "skip"

    try:
        table = pyarrow.csv.read_csv(
            pa.input_stream(path, compression="gzip" if _is_gzip(path) else None),
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
        if "Empty CSV" in str(error):  # a line of names, and no end of it
            return Loaded(pa.table({name: pa.array([], pa.string()) for name in wanted}))
        told = {"UTF8": "is not UTF-8 text", "straddl": "has an endless row; is a quote left open?"}
        what = next((told[word] for word in told if word in str(error)), "is not a CSV file")
        raise DataError(f"{path}: {what}") from error
    if wrong and not drop:
        number, expected, actual = wrong[0]
        raise DataError(
            f"{path}: row {number} does not have the {expected} fields of the header but {actual}"
        )
    return Loaded(table, dropped=len(wrong))


def _is_gzip(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _csv_header(path: Path) -> list[str]:
    opened = gzip.open if _is_gzip(path) else open
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
    except pa.ArrowInvalid:
        raise DataError(f"{path}: is not a Parquet file") from None


def _read_json_lines(path: Path, names: Collection[str], drop: bool) -> Loaded:
    """Read every value as text, numbers as they are spelled, so that no digit is lost."""
    values: dict[str, list[str | None]] = {name: [] for name in names}
    seen: dict[str, None] = {}
    rows = dropped = 0
    for number, line in enumerate(_lines(path), 1):
        try:
            row = _json_object(line, names)
        except ValueError as error:
            if not drop:
                raise DataError(f"{path}: row {number}{error}") from None
            dropped += 1
            continue
        rows += 1
        seen.update(dict.fromkeys(row))
        for name in names:
            values[name].append(row.get(name))
    if rows:
        known_columns(path, names, list(seen))
    columns = {name: pa.array(texts, pa.string()) for name, texts in values.items()}
    return Loaded(pa.table(columns), dropped=dropped)


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            yield from (line for line in file if line.strip())
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8 text") from None


DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


def _json_object(line: str, names: Collection[str]) -> dict[str, Any]:
    """Return the object on a line, the values of ``names`` as texts or None."""
    try:
        row = DECODER.decode(line.strip())
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise ValueError(f" is not a JSON object: {line.strip()[:60]}")
    for name in names:
        value = row.get(name)
        if isinstance(value, bool):
            row[name] = str(value).lower()
        elif isinstance(value, dict | list):
            raise ValueError(f", {name}: a list or an object is not one value")
    return row


def _read_pcap(path: Path, names: Collection[str], drop: bool) -> Loaded:
    wanted = known_columns(path, names, PACKETS.names)
    with open(path, "rb") as file:
        try:
            frames = list(_packets(_WholeReads(file)))
        except _TruncatedError:
            raise DataError(f"{path}: ends in the middle of a packet or a header") from None
        except _LinkError as error:
            raise DataError(
                f"{path}: has link type {error}, and only Ethernet and raw IP are supported"
            ) from None
        except (ValueError, dpkt.UnpackError):
            raise DataError(f"{path}: is not a pcap file") from None
    rows = [row for row in frames if row is not None]
    columns = list(zip(*rows, strict=True)) or [() for _ in PACKETS]
    arrays = {
        name: pa.array(column, type=pa.int64())
        for name, column in zip(PACKETS.names, columns, strict=True)
    }
    arrays["time"] = arrays["time"].cast(pa.timestamp("us"))
    others = len(frames) - len(rows)
    notes = (f"{path}: {others:,} packets that are not IPv4 were passed over",) if others else ()
    return Loaded(pa.table(arrays).select(wanted), notes=notes)


class _TruncatedError(Exception):
    """A file ended where more was promised."""


class _LinkError(Exception):
    """A capture is of a link that this module does not know."""


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
            raise _TruncatedError
        return data

    def seek(self, offset: int) -> int:
        return self._file.seek(offset)


def _packets(file: _WholeReads) -> Iterator[tuple[int, ...] | None]:
    """Yield the columns of ``PACKETS`` for every IPv4 packet, and None for every other one.

    Stamps finer than a microsecond are rounded to it. Ports are 0 where a packet shows none.
    """
    reader = dpkt.pcap.UniversalReader(file)
    decode = LINKS.get(reader.datalink())
    if decode is None:
        raise _LinkError(reader.datalink())
    for time, frame in reader:
        if not frame:
            raise _TruncatedError
        packet = decode(frame)
        if not isinstance(packet, dpkt.ip.IP):
            yield None
            continue
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
    try:
        return dpkt.ethernet.Ethernet(frame).data
    except dpkt.UnpackError:
        return None


def _raw_ip(frame: bytes) -> Any:
    try:
        return dpkt.ip.IP(frame) if frame[0] >> 4 == 4 else None
    except dpkt.UnpackError:
        return None


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
