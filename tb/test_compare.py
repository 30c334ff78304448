"""Comparison of results against Python's Counter, and everything it must tell a person."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joinery_gen import compare as module
from joinery_gen.compare import CompareError, Comparison, compare

Row = tuple[int, str]


def table_of(rows: Sequence[Row]) -> dict[str, pa.Array]:
    return {
        "k": pa.array([k for k, _ in rows], pa.int64()),
        "name": pa.array([name for _, name in rows], pa.string()),
    }


def write_out(path: Path, rows: Sequence[Row], query: str = "a" * 16) -> Path:
    """Write rows as the simulation does."""
    table = pa.table({**table_of(rows), "_row": pa.array(range(len(rows)), pa.int64())})
    pq.write_table(table.replace_schema_metadata({"joinery": json.dumps({"query": query})}), path)
    return path


def write_golden(
    folder: Path, rows: Sequence[Row], arrivals: Sequence[tuple[int, int]] | None = None
) -> Path:
    """Write rows as the golden job does: several files, in no order."""
    arrivals = arrivals or [(2 * at, 2 * at + 1) for at in range(len(rows))]
    folder.mkdir()
    table = pa.table(
        {
            **table_of(rows),
            "_left_arrival": pa.array([left for left, _ in arrivals], pa.int64()),
            "_right_arrival": pa.array([right for _, right in arrivals], pa.int64()),
        }
    )
    half = len(rows) // 2
    pq.write_table(table.slice(half), folder / "part-00000.parquet")
    pq.write_table(table.slice(0, half), folder / "part-00001.parquet")
    (folder / "_joinery.json").write_text(json.dumps({"query": "a" * 16}))
    return folder


def compare_rows(hardware: Sequence[Row], golden: Sequence[Row], **options: Any) -> Comparison:
    with TemporaryDirectory() as place:
        out = write_out(Path(place) / "out.parquet", hardware)
        return compare(out, write_golden(Path(place) / "golden", golden), **options)


def brute_force(hardware: Sequence[Row], golden: Sequence[Row]) -> dict[str, Counter[Row]]:
    """What differs, from the definition of each kind."""
    ours, theirs = Counter(hardware), Counter(golden)
    return {
        "missing": theirs - ours,
        "extra": Counter({row: n for row, n in (ours - theirs).items() if row not in theirs}),
        "duplicated": Counter({row: n for row, n in (ours - theirs).items() if row in theirs}),
    }


few_rows = st.lists(st.tuples(st.integers(-2, 2), st.sampled_from(["", "a", "é"])), max_size=30)


@given(few_rows, few_rows, st.sampled_from([1, 4, 1 << 22]))
def test_differences_are_those_of_counters(
    hardware: list[Row], golden: list[Row], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_AT_ONCE", at_once)
        found = compare_rows(hardware, golden, show=100)
    expected = brute_force(hardware, golden)
    assert (found.hardware_rows, found.golden_rows) == (len(hardware), len(golden))
    for kind, rows in expected.items():
        assert getattr(found, kind) == rows.total(), kind
        shown = [tuple(each.row.values()) for each in found.differences if each.kind == kind]
        assert Counter(shown) == Counter(rows.keys()), kind
    for each in found.differences:
        row = tuple(each.row.values())
        copies = hardware.count(row), golden.count(row)
        assert (each.hardware_copies, each.golden_copies) == copies
        if each.kind == "missing":
            assert golden[each.provenance["_left_arrival"] // 2] == row
        else:
            places = [at for at, other in enumerate(hardware) if other == row]
            assert each.provenance == {"_row": places[0 if each.kind == "extra" else -1]}
    assert (found.verdict == "equal") == (Counter(hardware) == Counter(golden))


ROWS = [(k, f"n{k}") for k in range(20)]


def test_changed_removed_and_doubled_rows() -> None:
    hardware = [*ROWS[:3], (3, "changed"), *ROWS[4:9], *ROWS[10:], ROWS[12]]
    found = compare_rows(hardware, ROWS)
    assert (found.missing, found.extra, found.duplicated) == (2, 1, 1)
    assert found.verdict == "different"
    changed, removed, extra, doubled = found.differences
    assert changed.row == {"k": 3, "name": "n3"}
    assert changed.provenance == {"_left_arrival": 6, "_right_arrival": 7}
    assert changed.near is not None
    assert changed.near.columns == {"name": ("n3", "changed")}
    assert changed.near.provenance == {"_row": 3}
    assert (removed.row, removed.near) == ({"k": 9, "name": "n9"}, None)
    assert (extra.kind, extra.row) == ("extra", {"k": 3, "name": "changed"})
    assert (doubled.kind, doubled.row) == ("duplicated", {"k": 12, "name": "n12"})
    assert (doubled.hardware_copies, doubled.golden_copies) == (2, 1)
    assert doubled.provenance == {"_row": 19}


def test_first_rows_are_first_in_arrival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 5)
    # The later tuple of a pair counts: row 4 came to be first, row 0 last.
    arrivals = [(at, 100 - at) if at % 2 else (100 - at, at) for at in range(5)]
    golden = write_golden(tmp_path / "golden", ROWS[:5], arrivals)
    found = compare(write_out(tmp_path / "out", []), golden, show=2)
    assert (found.missing, len(found.differences)) == (5, 2)
    assert [each.row["k"] for each in found.differences] == [4, 3]


def test_columns_without_nulls_equal_those_that_may_have_some(tmp_path: Path) -> None:
    """Spark marks what it knows to hold none, as the ends of windows."""
    out, golden = tmp_path / "out.parquet", tmp_path / "golden"
    pq.write_table(pa.table({"k": pa.array([1, 2], pa.int64())}), out)
    sure = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    golden.mkdir()
    pq.write_table(pa.table({"k": [2, 1]}, schema=sure), golden / "part.parquet")
    assert compare(out, golden).verdict == "equal"


def test_near_misses_of_wide_rows(tmp_path: Path) -> None:
    names = "abcde"
    golden = pa.table({name: pa.array([1, 50]) for name in names})
    hardware = pa.table({name: pa.array([2 if name in "bd" else 1, 60]) for name in names})
    pq.write_table(golden, tmp_path / "golden")
    pq.write_table(hardware, tmp_path / "out")
    near, far, *_ = compare(tmp_path / "out", tmp_path / "golden").differences
    assert near.near is not None
    assert near.near.columns == {"b": (1, 2), "d": (1, 2)}
    assert far.near is None


def test_the_nearest_of_several_is_told() -> None:
    golden = [(1, "a")]
    assert compare_rows([(2, "b")], golden).differences[0].near is None
    near = compare_rows([(2, "b"), (1, "b"), (2, "a")], golden).differences[0].near
    assert near is not None
    assert near.provenance == {"_row": 1}


def test_every_type_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of all natural types fall into the same part on both sides, or they would differ."""
    source = np.random.default_rng(1)
    numbers = source.integers(-(10**9), 10**9, 3000)
    table = pa.table(
        {
            "i": pa.array(numbers),
            "t": pa.array(numbers).cast(pa.timestamp("us")),
            "d": pa.array([Decimal(int(n)) * 10**20 for n in numbers], pa.decimal128(38, 2)),
            "s": pa.array([f"{n:x}" for n in numbers]),
            "b": pa.array(numbers % 2 == 0),
            "f": pa.array(numbers / 2),  # none of ours, and compared all the same
        }
    )
    pq.write_table(table, tmp_path / "out.parquet", row_group_size=700)
    (tmp_path / "golden").mkdir()
    shuffled = table.take(source.permutation(3000))
    pq.write_table(shuffled.slice(0, 1100), tmp_path / "golden" / "a.parquet", row_group_size=90)
    pq.write_table(shuffled.slice(1100), tmp_path / "golden" / "b.parquet")
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 500)
    whole = module._open(tmp_path / "out.parquet")
    parts = [part.table.num_rows for part in module._parts(whole, table.column_names, 12)]
    assert len(parts) == 12
    assert min(parts) > 100
    found = compare(tmp_path / "out.parquet", tmp_path / "golden")
    assert found == Comparison(3000, 3000, 0, 0, 0, ())


def test_json_has_everything() -> None:
    told = compare_rows([(1, "b")], [(1, "a")]).as_dict()
    assert json.loads(json.dumps(told)) == {
        "hardware_rows": 1,
        "golden_rows": 1,
        "missing": 1,
        "extra": 1,
        "duplicated": 0,
        "verdict": "different",
        "differences": [
            {
                "kind": "missing",
                "row": {"k": 1, "name": "a"},
                "hardware_copies": 0,
                "golden_copies": 1,
                "provenance": {"_left_arrival": 0, "_right_arrival": 1},
                "near": {"columns": {"name": ["a", "b"]}, "provenance": {"_row": 0}},
            },
            {
                "kind": "extra",
                "row": {"k": 1, "name": "b"},
                "hardware_copies": 1,
                "golden_copies": 0,
                "provenance": {"_row": 0},
                "near": None,
            },
        ],
    }


# What cannot be compared.


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write_out(tmp_path / "good.parquet", ROWS)


def check_refused(out: Path, golden: Path, message: str) -> None:
    with pytest.raises(CompareError, match=f"^{message}$"):
        compare(out, golden)


def test_no_such_file(tmp_path: Path, good: Path) -> None:
    check_refused(tmp_path / "none", good, r"\S+/none: there is no such file or folder")


def test_not_parquet(tmp_path: Path, good: Path) -> None:
    (tmp_path / "text").write_text("k,name\n1,a\n")
    check_refused(good, tmp_path / "text", r"\S+/text is not Parquet")
    (tmp_path / "empty").mkdir()
    check_refused(good, tmp_path / "empty", r"\S+/empty holds no Parquet files")


def test_different_queries(tmp_path: Path) -> None:
    out = write_out(tmp_path / "out.parquet", ROWS, query="b" * 16)
    golden = write_golden(tmp_path / "golden", ROWS)
    message = (
        rf"{re.escape(str(out))} and {re.escape(str(golden))} come from different queries "
        rf"\({'b' * 16} and {'a' * 16}\); make both from the same one"
    )
    check_refused(out, golden, message)


def test_different_columns(tmp_path: Path, good: Path) -> None:
    pq.write_table(pa.table({"k": [1], "nome": ["a"]}), tmp_path / "other")
    message = (
        r"The columns differ, so no row was compared: \S+/good\.parquet has columns k, name; "
        r"\S+/other has k, nome"
    )
    check_refused(good, tmp_path / "other", message)
    pq.write_table(pa.table({"k": [1.0], "name": ["a"]}), tmp_path / "typed")
    message = (
        r"The column types differ, so no row was compared: k is int64 in \S+/good\.parquet "
        r"and double in \S+/typed"
    )
    check_refused(good, tmp_path / "typed", message)


def test_no_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"_row": [1]}), tmp_path / "none")
    message = r"\S+/none and \S+/none have no columns to compare"
    check_refused(tmp_path / "none", tmp_path / "none", message)
