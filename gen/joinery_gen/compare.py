"""Compare the hardware's rows with the golden ones, as multisets.

A row counts as often as it appears. ``missing`` copies are in the golden result only; ``extra``
rows are unknown to it; ``duplicated`` copies are surplus ones of rows that it knows. Columns that
start with ``_`` are not compared: they say where a row came from.

Large results are compared in parts: equal rows have equal hashes, so a part is the rows of both
sides whose hashes fall into it, and never more than about ``ROWS_AT_ONCE`` different ones.
"""

import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from .query import JoineryError

__all__ = ["KINDS", "CompareError", "Comparison", "Difference", "NearMiss", "compare"]

Kind = Literal["missing", "extra", "duplicated"]
KINDS: tuple[Kind, ...] = ("missing", "extra", "duplicated")

ROWS_AT_ONCE = 1 << 22  # takes some 600 MB
NEAR_CANDIDATES = 1000  # extra rows among which near misses are looked for
MARK = "_joinery.json"  # in the folder of a golden result; says which query it is of

Numbers = npt.NDArray[np.int64]
Provenance = dict[str, Any]


class CompareError(JoineryError):
    """The two results cannot be compared at all."""


@dataclass(frozen=True)
class NearMiss:
    """An extra row that differs from a missing one in only a column or two.

    ``columns`` has the golden value and the hardware's by column; ``provenance`` is that of the
    extra row.
    """

    columns: dict[str, tuple[Any, Any]]
    provenance: Provenance


@dataclass(frozen=True)
class Difference:
    """One row of which hardware and golden result have different numbers of copies.

    ``provenance`` holds the ``_`` columns: of a golden copy where the row is missing, otherwise of
    a copy in the hardware's output (the first one of an extra row, the last of a duplicated one).
    """

    kind: Kind
    row: dict[str, Any]
    hardware_copies: int
    golden_copies: int
    provenance: Provenance
    near: NearMiss | None = None


@dataclass(frozen=True)
class Comparison:
    """What was found; ``differences`` holds the first rows of each kind, in order of arrival."""

    hardware_rows: int
    golden_rows: int
    missing: int
    extra: int
    duplicated: int
    differences: tuple[Difference, ...]

    @property
    def verdict(self) -> Literal["equal", "different"]:
        return "different" if self.missing or self.extra or self.duplicated else "equal"

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON; decimals and times as strings."""
        found = {**asdict(self), "verdict": self.verdict}
        return dict(json.loads(json.dumps(found, default=str)))


def compare(out: Path | str, golden: Path | str, *, show: int = 10) -> Comparison:
    """Compare two results, each a Parquet file or a folder of them.

    ``show`` is the number of different rows kept of each kind. Raises ``CompareError`` where a
    result cannot be read, where the two come from different queries or data, or where columns
    differ.
    """
    out, golden = Path(out), Path(golden)
    ours, theirs = _open(out), _open(golden)
    _check_origin(out, golden, ours.schema)
    names = _check_columns(out, golden, ours.schema, theirs.schema)
    rows = ours.count_rows(), theirs.count_rows()
    parts = max(1, -(-sum(rows) // ROWS_AT_ONCE))
    totals = dict.fromkeys(KINDS, 0)
    first: dict[Kind, list[_Found]] = {kind: [] for kind in KINDS}
    for sides in zip(_parts(ours, names, parts), _parts(theirs, names, parts), strict=True):
        groups = _count(sides[0].table, sides[1].table, names)
        for kind in KINDS:
            keep = max(show, NEAR_CANDIDATES) if kind == "extra" else show
            side = sides[1] if kind == "missing" else sides[0]
            count, found = _of_kind(kind, groups, side, names, keep)
            totals[kind] += count
            first[kind] = sorted(first[kind] + found, key=lambda each: each.order)[:keep]
    extra = [found.difference for found in first["extra"]]
    missing = [_with_near(found.difference, extra) for found in first["missing"]]
    duplicated = [found.difference for found in first["duplicated"]]
    return Comparison(*rows, **totals, differences=(*missing, *extra[:show], *duplicated))


# Opening, and refusing what cannot be compared.


def _open(path: Path) -> ds.Dataset:
    if not path.exists():
        raise CompareError(f"{path}: there is no such file or folder")
    try:
        data = ds.dataset(path, format="parquet")
    except (pa.ArrowInvalid, OSError):
        raise CompareError(f"{path} is not Parquet") from None
    if not data.files:
        raise CompareError(f"{path} holds no Parquet files")
    return data


def _check_origin(out: Path, golden: Path, schema: pa.Schema) -> None:
    """Refuse results of different queries or data, where both sides say what was theirs."""
    ours = json.loads((schema.metadata or {}).get(b"joinery", b"{}"))
    mark = golden / MARK
    theirs = json.loads(mark.read_text()) if mark.is_file() else {}
    if ours.get("query") and theirs.get("query") and ours["query"] != theirs["query"]:
        raise CompareError(
            f"{out} and {golden} come from different queries ({ours['query']} and "
            f"{theirs['query']}); make both from the same one"
        )
    if ours.get("data") and theirs.get("data") and ours["data"] != theirs["data"]:
        raise CompareError(
            f"{out} and {golden} come from different data; make both from the same, with the "
            "same --data, --limit and --order-by"
        )


def _check_columns(out: Path, golden: Path, ours: pa.Schema, theirs: pa.Schema) -> list[str]:
    """Return the columns to compare, which both sides have with the same types."""
    left, right = (
        {field.name: str(field.type) for field in schema if not field.name.startswith("_")}
        for schema in (ours, theirs)
    )
    if left.keys() != right.keys():
        raise CompareError(
            f"The columns differ, so no row was compared: {out} has columns "
            f"{', '.join(left) or 'none'}; {golden} has {', '.join(right) or 'none'}"
        )
    for name in left:
        if left[name] != right[name]:
            raise CompareError(
                f"The column types differ, so no row was compared: {name} is {left[name]} in "
                f"{out} and {right[name]} in {golden}"
            )
    if not left:
        raise CompareError(f"{out} and {golden} have no columns to compare")
    return list(left)


# Parts.


@dataclass(frozen=True)
class _Part:
    """Rows of one side, and their places in the whole of it."""

    table: pa.Table
    places: Numbers


def _parts(data: ds.Dataset, names: Sequence[str], parts: int) -> Iterator[_Part]:
    """Yield the parts of one side in turn; several are kept in files until then."""
    if parts == 1:
        table = data.to_table().replace_schema_metadata()
        yield _Part(table, np.arange(table.num_rows))
        return
    with tempfile.TemporaryDirectory(prefix="joinery-compare-") as place:
        files = [Path(place, str(part)) for part in range(parts)]
        _split(data, names, files)
        for file in files:
            table = pa.ipc.open_file(file).read_all()
            file.unlink()
            last = table.num_columns - 1
            yield _Part(table.remove_column(last), table.column(last).to_numpy())


def _split(data: ds.Dataset, names: Sequence[str], files: Sequence[Path]) -> None:
    """Write every row, with its place in a last column, into the file of its part."""
    schema = data.schema.remove_metadata().append(pa.field("_place", pa.int64()))
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    start = 0
    with ExitStack() as open_files:
        writers = [
            open_files.enter_context(pa.ipc.new_file(str(file), schema, options=options))
            for file in files
        ]
        for batch in data.to_batches(batch_readahead=2, fragment_readahead=1):
            share = _hashes(batch.select(list(names))) % np.uint64(len(files))
            order = np.argsort(share, kind="stable")
            ends = np.cumsum(np.bincount(share.astype(np.int64), minlength=len(files)))
            arrays = [column.take(pa.array(order)) for column in batch.columns]
            rows = pa.record_batch([*arrays, pa.array(start + order)], schema=schema)
            for writer, low, high in zip(writers, [0, *ends], ends, strict=False):
                writer.write_batch(rows.slice(low, high - low))
            start += batch.num_rows


def _hashes(batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    total = np.zeros(batch.num_rows, np.uint64)
    for column in batch.columns:
        # A multiplier spreads the low bits upwards, the shift brings high ones back down.
        total = (total ^ _numbers(column).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def _numbers(column: pa.Array) -> Numbers:
    """Return equal numbers for equal values; other types than Joinery's own all count as 0."""
    kind = column.type
    if pa.types.is_string(kind):
        encoded = column.fill_null("").dictionary_encode()
        texts = [zlib.crc32(text.as_py().encode()) for text in encoded.dictionary]
        numbers: Numbers = np.array(texts, np.int64)[encoded.indices.to_numpy()]
        return numbers
    if pa.types.is_decimal128(kind):
        words = np.frombuffer(column.buffers()[1] or b"", "<i8").reshape(-1, 2)
        low = words[column.offset : column.offset + len(column), 0]
        return np.where(column.is_null().to_numpy(zero_copy_only=False), 0, low)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind):
        return column.cast(pa.int64(), safe=False).fill_null(0).to_numpy().astype(np.int64)
    return np.zeros(len(column), np.int64)


# Counting.


def _count(ours: pa.Table, theirs: pa.Table, names: list[str]) -> pa.Table:
    """Return every distinct row with its copies on both sides, and where some of them are."""
    sides = []
    for table, is_ours in ((ours, True), (theirs, False)):
        rows = table.num_rows
        index, none = pa.array(np.arange(rows)), pa.nulls(rows, pa.int64())
        side = table.select(names)
        # Spark knows of some columns that they hold no nulls; the same rows are equal all the same.
        side = side.cast(pa.schema([field.with_nullable(True) for field in side.schema]))
        side = side.append_column("_hardware", index if is_ours else none)
        side = side.append_column("_golden", none if is_ours else index)
        sides.append(side)
    wanted = [("_hardware", "count"), ("_golden", "count"), ("_golden", "min")]
    wanted += [("_hardware", "min"), ("_hardware", "max")]
    return pa.concat_tables(sides).group_by(names).aggregate(wanted)


INDEX: dict[Kind, str] = {
    "missing": "_golden_min",
    "extra": "_hardware_min",
    "duplicated": "_hardware_max",
}


@dataclass(frozen=True)
class _Found:
    order: tuple[int, int]
    difference: Difference


def _of_kind(
    kind: Kind, groups: pa.Table, side: _Part, names: Sequence[str], keep: int
) -> tuple[int, list[_Found]]:
    """Return the surplus copies of a kind and the first of its rows."""
    hardware, golden = groups["_hardware_count"], groups["_golden_count"]
    surplus = pc.subtract(hardware, golden)
    if kind == "missing":
        mask = pc.less(surplus, 0)
    else:
        known = pc.greater(golden, 0)
        mask = pc.and_(pc.greater(surplus, 0), known if kind == "duplicated" else pc.invert(known))
    groups, count = groups.filter(mask), pc.sum(pc.abs(surplus.filter(mask))).as_py() or 0
    if not groups.num_rows:
        return 0, []
    index = groups[INDEX[kind]].to_numpy()
    order = _order(side, index)
    chosen = np.lexsort((side.places[index], order))[:keep]
    copies = side.table.take(index[chosen]).to_pylist()
    counts = groups.select(["_hardware_count", "_golden_count"]).take(chosen).to_pylist()
    return count, [
        _Found(
            (int(order[at]), int(side.places[index[at]])),
            Difference(
                kind,
                {name: copy[name] for name in names},
                copied["_hardware_count"],
                copied["_golden_count"],
                {name: copy[name] for name in copy if name.startswith("_")},
            ),
        )
        for at, copy, copied in zip(chosen, copies, counts, strict=True)
    ]


def _order(side: _Part, index: Numbers) -> Numbers:
    """When a row came to be: a pair at the arrival of its later tuple, an output at its place."""
    whole = [
        side.table[name].take(pa.array(index)).fill_null(0).to_numpy().astype(np.int64)
        for name in side.table.column_names
        if name.startswith("_") and pa.types.is_integer(side.table[name].type)
    ]
    return np.max(whole, axis=0) if whole else side.places[index]


# Near misses.


def _with_near(missing: Difference, extra: Sequence[Difference]) -> Difference:
    """Say which extra row is nearly the missing one, if there is one."""
    most = 2 if len(missing.row) >= 5 else 1 if len(missing.row) >= 2 else 0
    best: NearMiss | None = None
    for other in extra:
        columns = _changed(missing.row, other.row)
        if len(columns) <= most:
            best, most = NearMiss(columns, other.provenance), len(columns) - 1
    return replace(missing, near=best)


def _changed(golden: Mapping[str, Any], hardware: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        name: (value, hardware[name]) for name, value in golden.items() if value != hardware[name]
    }
