"""Prepare the input of a query: check every value, put the streams into one arrival order.

The result is a folder with ``<alias>.parquet`` per source (its columns in natural types, and
``_arrival``, the position among all tuples of all sources) and ``manifest.json``. The simulator's
side and the golden job both read it, and nothing else.

Arrival order. A single stream arrives in the order of its file, whatever its times say. Two streams
are merged by their times: each keeps the order of its file, since disorder is part of the data, and
a tuple arrives at the largest time that its stream has shown so far. At equal times the tuples of
the first source (the papers' R) come first. The time is the WATTR column of time windows; for row
windows it is the only TIMESTAMP column of each stream; ``order_by`` names another one. Where
``order_by`` names columns of whole numbers, those are the arrival order itself: all tuples are
sorted by them, ties as above, and tuples of one stream with the same number in the order of the
file. An ``order_by`` column need not be declared in the query.

Punctuations. A stream of an aggregate over time windows may carry the promise of its sender that
all before some time has been sent. Such a row is marked by the column that ``punctuation`` names,
which need not be declared; of its other columns only the WATTR column counts, and they may be
empty. The prepared file then has a column ``_punctuation``.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.markup import escape

from joinery.tuples import BoolType, ColumnType, Field, IntType, TimestampType

from ..manifest import PUNCTUATION
from ..query import Query, SlidingWindow, Source, TimeWindow
from ..tables import arrow_schema
from .bind import Origin, bind
from .fetch import rounding_note
from .readers import DataError
from .values import Converted, convert

__all__ = ["MANIFEST", "Prepared", "draft", "prepare", "write_manifest", "write_tuples"]

MANIFEST = "manifest.json"
ROW_GROUP = 1 << 18  # rows that one Spark task reads


@dataclass(frozen=True)
class Prepared:
    """A prepared input: tuples kept and rows dropped by alias, and notes for a person.

    ``notes`` say what was rounded, dropped or passed over, one line each.
    """

    folder: Path
    rows: dict[str, int]
    dropped: dict[str, int]
    notes: tuple[str, ...]
    punctuations: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return {
            "folder": str(self.folder),
            "rows": dict(self.rows),
            "dropped": dict(self.dropped),
            "notes": list(self.notes),
            "punctuations": self.punctuations,
        }


def prepare(
    query: Query,
    data: Sequence[str],
    out: Path,
    *,
    order_by: Sequence[str] = (),
    on_bad_row: str = "stop",
    limit: int | None = None,
    punctuation: str | None = None,
    progress: Console | None = None,
) -> Prepared:
    """Bring the data that ``data`` names (see ``bind``) into the folder ``out``.

    ``out`` appears whole or not at all; an earlier prepared input there is replaced, anything else
    is left alone. Every error is a :class:`DataError`.

    Parameters
    ----------
    order_by : sequence of str
        One ``COLUMN`` for all sources, or an ``ALIAS.COLUMN`` for each; see the top of the module.
    on_bad_row : str
        What a row that does not fit its declared types does: ``stop``, with file, row, column and
        value in the error, or ``drop``, which leaves it out and counts it.
    limit : int
        Keep only so many arrivals, the first ones over all sources. All rows are checked first.
    punctuation : str
        The column of the data that marks punctuations: true in their rows, false or empty in all
        others.
    """
    if on_bad_row not in ("stop", "drop"):
        raise DataError(f"--on-bad-row takes stop or drop, not {on_bad_row}")
    if limit is not None and limit < 1:
        raise DataError(f"The limit must be at least one tuple, not {limit}")
    if punctuation is not None:
        _check_punctuation(query, punctuation)
    order = _order(query, order_by)
    origins = bind(query, data)
    _check_place(out)
    console = progress or Console(quiet=True)
    checked = [
        _check(source, origins[source.alias], order, on_bad_row == "drop", console, punctuation)
        for source in query.sources
    ]
    _merge(checked, order, limit)
    try:
        return _write(query, checked, out)
    except OSError as error:
        raise DataError(f"{out}: cannot be written: {error}") from error


@dataclass(frozen=True)
class _Order:
    """The column that orders each source, by alias; ``given`` where a person named it."""

    columns: Mapping[str, str]
    given: bool = False


def _order(query: Query, order_by: Sequence[str]) -> _Order:
    aliases = [source.alias for source in query.sources]
    if not order_by and len(aliases) == 1:
        return _Order({})
    if not order_by:
        return _Order({source.alias: _time_column(source) for source in query.sources})
    each = " ".join(f"--order-by {alias}.COLUMN" for alias in aliases)
    columns: dict[str, str] = {}
    for item in order_by:
        alias, dot, name = item.rpartition(".")
        if not name:
            raise DataError(f"--order-by {item}: the name of a column is missing")
        if not dot and len(order_by) > 1:
            raise DataError(f"--order-by {item}: a column of all streams is given alone; or {each}")
        if dot and alias not in aliases:
            raise DataError(
                f"--order-by {item}: the query has no source {alias}; it has {', '.join(aliases)}"
            )
        if alias in columns:
            raise DataError(f"--order-by {item}: {alias} is ordered by {columns[alias]} already")
        columns |= {alias: name} if dot else dict.fromkeys(aliases, name)
    for source in query.sources:
        if source.alias not in columns:
            raise DataError(f"No column to order {source.alias} by: give {each}")
        _check_key(source, columns[source.alias])
    return _Order(columns, given=True)


def _check_key(source: Source, name: str) -> None:
    if name not in source.schema or isinstance(source.schema[name], IntType | TimestampType):
        return
    raise DataError(
        f"{source.alias}.{name} is {source.schema[name].sql}; "
        "tuples are ordered by a TIMESTAMP or by whole numbers"
    )


def _time_column(source: Source) -> str:
    if isinstance(source.window, TimeWindow):
        return source.window.wattr
    times = [f.name for f in source.schema if isinstance(f.type, TimestampType)]
    if len(times) != 1:
        found = f"{len(times)} TIMESTAMP columns, {', '.join(times)}" if times else "no TIMESTAMP"
        raise DataError(
            f"Two streams are interleaved by time, and {source.stream.name} declares {found}: "
            "give --order-by COLUMN"
        )
    return times[0]


@dataclass
class _Checked:
    """The good rows of a source, the keys that order them, and later their arrival positions."""

    source: Source
    origin: Origin
    table: pa.Table
    key: npt.NDArray[np.int64]
    key_type: ColumnType | None
    dropped: int
    notes: list[str]
    arrival: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def punctuations(self) -> int:
        """How many of the rows are punctuations."""
        if PUNCTUATION not in self.table.column_names:
            return 0
        return pc.sum(self.table[PUNCTUATION]).as_py() or 0


def _check_punctuation(query: Query, name: str) -> None:
    """Refuse punctuations where they mean nothing."""
    for source in query.sources:
        if not isinstance(source.window, SlidingWindow):
            raise DataError(
                f"--punctuation {name}: only an aggregate over time windows has punctuations"
            )
        if name in source.schema:
            raise DataError(
                f"--punctuation {name}: {source.alias}.{name} is a column of the query; "
                "punctuations are marked by another one"
            )


def _check(
    source: Source,
    origin: Origin,
    order: _Order,
    drop: bool,
    console: Console,
    punctuation: str | None,
) -> _Checked:
    """Load a source and bring it to the declared types, without its bad rows."""
    key_name = order.columns.get(source.alias)
    extra = [key_name] if key_name and key_name not in source.schema else []
    marks = [punctuation] if punctuation else []
    wanted = dict.fromkeys([*source.schema.names, *extra, *marks])
    loaded = origin.load(list(wanted), drop=drop, console=console)
    fields = [*source.schema, *(Field(name, _key_type(loaded.table[name])) for name in extra)]
    key_type = next((f.type for f in fields if f.name == key_name), None)
    with console.status(f"Checking {escape(origin.label)}"):
        columns = {f.name: convert(loaded.table[f.name], f.type) for f in fields}
    if punctuation:
        marked = _marks(loaded.table[punctuation])
        assert isinstance(source.window, SlidingWindow), "others have been refused"
        for each in source.schema:
            if each.name not in (source.window.wattr, key_name):
                columns[each.name] = _blank(columns[each.name], each.type, marked)
        columns[punctuation] = marked
    good, first = _good_rows(columns, loaded.table.num_rows)
    if first and not drop:
        raise DataError(f"{origin.label}: {first}")
    kept = pa.array(good)
    arrays = [columns[name].values for name in source.schema.names]
    key = columns[key_name].values if key_name else pa.array(np.arange(len(good)))
    dropped = loaded.dropped + int((~good).sum())
    table = pa.table(arrays, schema=arrow_schema(source.schema))
    if punctuation:
        table = table.append_column(PUNCTUATION, columns[punctuation].values)
    return _Checked(
        source,
        origin,
        table.filter(kept),
        key.filter(kept).cast(pa.int64()).to_numpy(),
        key_type,
        dropped,
        [*loaded.notes, *_notes(source, columns, dropped, first)],
    )


def _marks(values: pa.ChunkedArray) -> Converted:
    """Return which rows are punctuations; where nothing stands there is none."""
    found = convert(values, BoolType())
    empty = pc.is_null(values).to_numpy()
    if pa.types.is_string(values.type):
        empty |= pc.equal(values, "").fill_null(False).to_numpy()
    return replace(found, values=pc.fill_null(found.values, False), bad=found.bad & ~empty)


def _blank(column: Converted, kind: ColumnType, marked: Converted) -> Converted:
    """Put nothing where rows are punctuations: zero, or the empty string."""
    nothing = pa.scalar(kind.decode(0), column.values.type)
    return replace(
        column,
        values=pc.if_else(marked.values, nothing, column.values),
        bad=column.bad & ~marked.values.to_numpy(zero_copy_only=False),
    )


def _key_type(values: pa.ChunkedArray) -> ColumnType:
    """Tell whole numbers from times in a column that the query does not declare."""
    first = next((value for value in values if value.is_valid), None)
    text = str(first) if pa.types.is_string(values.type) else ""
    whole = pa.types.is_integer(values.type) or re.fullmatch(r"\s*[+-]?[0-9]+\s*", text)
    return IntType(64) if whole else TimestampType("us")


def _good_rows(
    columns: Mapping[str, Converted], rows: int
) -> tuple[npt.NDArray[np.bool_], str | None]:
    """Return which rows fit all their columns, and what is wrong with the first that does not."""
    bad = np.zeros(rows, dtype=bool)
    for column in columns.values():
        bad |= column.bad
    if not bad.any():
        return ~bad, None
    row = int(bad.argmax())
    name, column = next((n, c) for n, c in columns.items() if c.bad[row])
    return ~bad, f"row {row + 1}, {name}: {column.problem(row)}"


def _notes(
    source: Source, columns: Mapping[str, Converted], dropped: int, first: str | None
) -> list[str]:
    notes = [
        rounding_note(f"{source.alias}.{name}", column.rounding.values, column.rounding.largest)
        for name, column in columns.items()
        if column.rounding.values
    ]
    if dropped:
        reason = f"; the first for its values: {first}" if first else ", for their form"
        notes.append(f"{source.alias}: {dropped:,} rows dropped{reason}")
    return notes


def _merge(checked: Sequence[_Checked], order: _Order, limit: int | None) -> None:
    """Give every row its arrival position; sort each source by it, and cut at ``limit``."""
    kind = _order_kind(checked)
    by_number = order.given and kind is IntType
    if order.given and len(checked) == 1 and kind is TimestampType:
        raise DataError(
            f"--order-by {order.columns[checked[0].source.alias]}: a single stream keeps the order "
            "of its file; only a column of whole numbers gives it another"
        )
    keys = [one.key if by_number else np.maximum.accumulate(one.key) for one in checked]
    # The first source stands first and the sort is stable: ties go to it.
    sequence = np.argsort(np.concatenate(keys), kind="stable")
    position = np.empty(len(sequence), dtype=np.int64)
    position[sequence] = np.arange(len(sequence))
    start = 0
    for one in checked:
        own = position[start : start + len(one.key)]
        start += len(one.key)
        rows = np.argsort(own)
        rows = rows if limit is None else rows[: int((own < limit).sum())]
        one.table = one.table.take(pa.array(rows))
        one.arrival = own[rows]


def _order_kind(checked: Sequence[_Checked]) -> type[ColumnType] | None:
    """Return what the keys are; sources without rows have nothing to say."""
    kinds = {type(one.key_type): one for one in checked if one.key_type and len(one.key)}
    if len(kinds) > 1:
        times, numbers = kinds[TimestampType].source.alias, kinds[IntType].source.alias
        raise DataError(
            f"The streams cannot be interleaved: {times} is ordered by a time and {numbers} by "
            "whole numbers; name two columns of one kind with --order-by"
        )
    return next(iter(kinds), None)


def _check_place(out: Path) -> None:
    """Refuse to replace anything but an earlier prepared input or an empty folder."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        sources = json.loads((out / MANIFEST).read_text())["sources"]
        ours = {MANIFEST, *(f"{alias}.parquet" for alias in sources)}
        if {path.name for path in out.iterdir()} <= ours:
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise DataError(f"{out}: is in the way and holds more than a prepared input; remove it first")


@contextmanager
def draft(out: Path) -> Iterator[Path]:
    """Yield a folder to fill, which takes the place of ``out`` at the end, or leaves nothing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    # Beside the result, so that the last step is a rename.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        made, old = Path(temporary) / "new", Path(temporary) / "old"
        made.mkdir()
        yield made
        _check_place(out)
        if out.exists():
            out.rename(old)
        try:
            made.rename(out)
        except BaseException:
            if old.exists():
                old.rename(out)
            raise


def _write(query: Query, checked: Sequence[_Checked], out: Path) -> Prepared:
    with draft(out) as made:
        about = {"query": query.hash, "arrivals": sum(len(one.arrival) for one in checked)}
        sources = {one.source.alias: _write_source(one, made) for one in checked}
        write_manifest({**about, "sources": sources}, made)
    return Prepared(
        folder=out,
        rows={one.source.alias: len(one.arrival) - one.punctuations for one in checked},
        dropped={one.source.alias: one.dropped for one in checked},
        notes=tuple(note for one in checked for note in one.notes),
        punctuations=sum(one.punctuations for one in checked),
    )


def _write_source(one: _Checked, folder: Path) -> dict[str, Any]:
    """Write one source's file and return what the manifest says about it."""
    table = one.table.append_column("_arrival", pa.array(one.arrival))
    marks = {"punctuations": one.punctuations} if PUNCTUATION in table.column_names else {}
    return {
        "rows": table.num_rows,
        **marks,
        "dropped": one.dropped,
        "sha256": write_tuples(table, one.source.alias, folder),
        "from": one.origin.label,
    }


def write_tuples(table: pa.Table, alias: str, folder: Path) -> str:
    """Write the tuples of one source, ``_arrival`` among their columns, and return the sha256."""
    path = folder / f"{alias}.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=ROW_GROUP)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_manifest(manifest: Mapping[str, Any], folder: Path) -> None:
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
