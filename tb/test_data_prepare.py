"""Preparing a query's input: the arrival order against brute force, and what is written."""

import datetime as dt
import hashlib
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from joinery_gen.data import Prepared, prepare
from joinery_gen.parse import parse
from joinery_gen.tables import arrow_schema

TIMED = parse(
    """
    CREATE STREAM reds (id INT, t TIMESTAMP(s));
    CREATE STREAM blues (id INT, t TIMESTAMP(s));
    SELECT r.id, b.id AS other FROM reds [RANGE 5 SECONDS WATTR t] AS r,
    blues [RANGE 5 SECONDS WATTR t] AS b WHERE r.id = b.id
    """
)
ROWS = parse(
    """
    CREATE STREAM reds (id INT, t TIMESTAMP(s));
    CREATE STREAM blues (id INT, u TIMESTAMP(ms));
    SELECT r.id, b.id AS other FROM reds [ROWS 5] AS r, blues [ROWS 5] AS b WHERE r.id = b.id
    """
)
PLAIN = parse(
    """
    CREATE STREAM reds (id INT);
    CREATE STREAM blues (id INT, t TIMESTAMP(s), u TIMESTAMP(s));
    SELECT r.id, b.id AS other FROM reds [ROWS 5] AS r, blues [ROWS 5] AS b WHERE r.id = b.id
    """
)
COUNTED = parse(
    """
    CREATE STREAM reds (id INT, t INT);
    CREATE STREAM blues (id INT, t INT);
    SELECT r.id, b.id AS other FROM reds [RANGE 5 WATTR t] AS r, blues [RANGE 5 WATTR t] AS b
    WHERE r.id = b.id
    """
)
SELF = parse(
    """
    CREATE STREAM trades (id INT, t TIMESTAMP(s));
    SELECT a.id, b.id AS other FROM trades [ROWS 5] AS a, trades [ROWS 3] AS b WHERE a.id = b.id
    """
)
SINGLE = parse(
    """
    CREATE STREAM bids (price DECIMAL(5,2), ok BOOLEAN, name STRING(3), n SMALLINT, t TIMESTAMP(s));
    SELECT t, max(price) AS top FROM bids [RANGE 5 SECONDS SLIDE 1 SECOND WATTR t]
    """
)
HEADER = "price,ok,name,n,t\n"


def csv(folder: Path, name: str, text: str) -> str:
    """Write a file; return the path as a person would give it."""
    (folder / name).write_text(text)
    return str(folder / name)


def arrivals(folder: Path, *aliases: str, column: str = "id") -> list[tuple[str, object]]:
    """Return alias and value of ``column`` for every arrival, in order."""
    found: dict[int, tuple[str, object]] = {}
    for alias in aliases:
        for row in pq.read_table(folder / f"{alias}.parquet").to_pylist():
            found[row["_arrival"]] = (alias, row[column])
    assert sorted(found) == list(range(len(found)))
    assert len(found) == sum(pq.read_metadata(folder / f"{a}.parquet").num_rows for a in aliases)
    return [found[position] for position in range(len(found))]


def two(folder: Path, reds: str, blues: str) -> list[str]:
    return [f"reds={csv(folder, 'reds.csv', reds)}", f"blues={csv(folder, 'blues.csv', blues)}"]


def timed_csv(times: list[int], name: str = "t", first: int = 0) -> str:
    lines = [f"{first + number},{time}\n" for number, time in enumerate(times)]
    return f"id,{name}\n" + "".join(lines)


# Arrival order


def merged(reds: list[int], blues: list[int]) -> list[tuple[str, int]]:
    """Take the tuple that is due first, one after the other; red if both are."""
    found: list[tuple[str, int]] = []
    i = j = 0
    while i < len(reds) or j < len(blues):
        red = max(reds[: i + 1]) if i < len(reds) else None
        blue = max(blues[: j + 1]) if j < len(blues) else None
        if blue is None or (red is not None and red <= blue):
            found.append(("r", i))
            i += 1
        else:
            found.append(("b", j))
            j += 1
    return found


TIMES = st.lists(st.integers(-3, 6), max_size=10)


@given(TIMES, TIMES)
def test_streams_are_merged_by_time_and_keep_their_disorder(reds, blues):
    with TemporaryDirectory() as name:
        folder = Path(name)
        data = two(folder, timed_csv(reds), timed_csv(blues))
        for number, query in enumerate((TIMED, COUNTED)):
            prepare(query, data, folder / f"{number}")
            assert arrivals(folder / f"{number}", "r", "b") == merged(reds, blues)


@given(TIMES, TIMES)
def test_row_windows_are_merged_by_the_only_times_there_are(reds, blues):
    halves = [time * 500 for time in blues]  # in ms, where reds count s
    with TemporaryDirectory() as name:
        folder = Path(name)
        prepare(ROWS, two(folder, timed_csv(reds), timed_csv(halves, "u")), folder / "in")
        expected = merged([time * 1000 for time in reds], halves)
        assert arrivals(folder / "in", "r", "b") == expected


@given(TIMES, TIMES)
def test_an_arrival_column_sorts(reds, blues):
    keyed = [(key, "r", n) for n, key in enumerate(reds)]
    keyed += [(key, "b", n) for n, key in enumerate(blues)]
    keyed.sort(key=lambda one: one[0])  # stable: at equal keys red comes first, then the file
    expected = [(alias, n) for _, alias, n in keyed]
    with TemporaryDirectory() as name:
        folder = Path(name)
        data = two(folder, timed_csv(reds), timed_csv(blues))
        prepare(COUNTED, data, folder / "declared", order_by=["t"])
        assert arrivals(folder / "declared", "r", "b") == expected


@settings(max_examples=40)
@given(TIMES, TIMES, st.integers(1, 25))
def test_a_limit_keeps_the_first_arrivals(reds, blues, limit):
    with TemporaryDirectory() as name:
        folder = Path(name)
        data = two(folder, timed_csv(reds), timed_csv(blues))
        made = prepare(TIMED, data, folder / "in", limit=limit)
        whole = prepare(TIMED, data, folder / "all")
        wanted = arrivals(folder / "all", "r", "b")[:limit]
        assert arrivals(folder / "in", "r", "b") == wanted
        assert sum(made.rows.values()) == len(wanted) <= sum(whole.rows.values())


UNDECLARED_REDS = "id,seq,when\n1,20,2024-01-01 00:00:03\n2,5,2024-01-01 00:00:01\n"
UNDECLARED_BLUES = (
    "id,t,u,seq,at\n"
    "8,2024-01-01 00:00:00,2024-01-01 00:00:09,10,2024-01-01 00:00:02\n"
    "9,2024-01-01 00:00:01,2024-01-01 00:00:08,20,2024-01-01 00:00:04\n"
)


@pytest.mark.parametrize(
    ("order_by", "expected"),
    [
        (["seq"], ["r2", "b8", "r1", "b9"]),
        (["b.seq", "r.seq"], ["r2", "b8", "r1", "b9"]),
        (["r.when", "b.at"], ["b8", "r1", "r2", "b9"]),
        (["r.when", "b.u"], ["r1", "r2", "b8", "b9"]),
        (["id"], ["r1", "r2", "b8", "b9"]),
    ],
)
def test_columns_to_order_by_need_not_be_declared(order_by, expected, tmp_path):
    data = two(tmp_path, UNDECLARED_REDS, UNDECLARED_BLUES)
    prepare(PLAIN, data, tmp_path / "in", order_by=order_by)
    found = arrivals(tmp_path / "in", "r", "b")
    assert [f"{alias}{number}" for alias, number in found] == expected
    assert pq.read_schema(tmp_path / "in" / "r.parquet").names == ["id", "_arrival"]


def test_an_empty_file_has_no_say_in_what_orders(tmp_path):
    data = two(tmp_path, "id,seq\n", UNDECLARED_BLUES)
    prepare(PLAIN, data, tmp_path / "in", order_by=["seq"])
    assert arrivals(tmp_path / "in", "r", "b") == [("b", 8), ("b", 9)]


def test_typed_columns_to_order_by(tmp_path):
    pq.write_table(pa.table({"id": [1, 2], "seq": [3, 1]}), tmp_path / "reds.parquet")
    blues = pa.table({"id": [8], "seq": [2], "t": pa.array([0], pa.timestamp("s"))})
    pq.write_table(blues.append_column("u", blues["t"]), tmp_path / "blues.parquet")
    data = [f"reds={tmp_path}/reds.parquet", f"blues={tmp_path}/blues.parquet"]
    prepare(PLAIN, data, tmp_path / "in", order_by=["seq"])
    assert arrivals(tmp_path / "in", "r", "b") == [("r", 2), ("b", 8), ("r", 1)]


def test_a_single_stream_keeps_the_order_of_its_file(tmp_path):
    rows = [f"1,t,a,{n},2024-01-01 00:00:0{second}\n" for n, second in enumerate((5, 1, 9, 0))]
    path = csv(tmp_path, "bids.csv", HEADER + "".join(rows))
    prepare(SINGLE, [f"bids={path}"], tmp_path / "in")
    assert arrivals(tmp_path / "in", "bids", column="n") == [("bids", n) for n in range(4)]


def test_a_single_stream_can_be_sorted_by_number(tmp_path):
    rows = [f"1,t,a,{n},2024-01-01 00:00:00\n" for n in (5, 1, 9, 0)]
    path = csv(tmp_path, "bids.csv", HEADER + "".join(rows))
    prepare(SINGLE, [f"bids={path}"], tmp_path / "in", order_by=["bids.n"])
    assert arrivals(tmp_path / "in", "bids", column="n") == [("bids", n) for n in (0, 1, 5, 9)]


def test_a_self_join_reads_its_stream_twice(tmp_path):
    path = csv(tmp_path, "trades.csv", timed_csv([10, 20, 20]))
    made = prepare(SELF, [f"trades={path}"], tmp_path / "in")
    assert made.rows == {"a": 3, "b": 3}
    expected = [("a", 0), ("b", 0), ("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert arrivals(tmp_path / "in", "a", "b") == expected


def test_a_self_join_of_two_files(tmp_path):
    one = csv(tmp_path, "one.csv", timed_csv([10, 30]))
    other = csv(tmp_path, "other.csv", timed_csv([20], first=7))
    prepare(SELF, [f"b={other}", f"a={one}"], tmp_path / "in")
    assert arrivals(tmp_path / "in", "a", "b") == [("a", 0), ("b", 7), ("a", 1)]


# Punctuations


@pytest.mark.parametrize("order_by", [[], ["n"]], ids=["order of the file", "by number"])
def test_a_punctuation_has_a_time_and_nothing_else(order_by, tmp_path):
    rows = [
        "1.5,t,a,1,2024-01-01 00:00:05,",
        ",,,2,2024-01-01 00:00:07,true",
        "many,no,much too long,3,2024-01-01 00:00:08,1",
        "2.5,f,b,4,2024-01-01 00:00:01,false",
        "3.5,f,b,5,2024-01-01 00:00:09,0",
    ]
    path = csv(tmp_path, "bids.csv", "\n".join(["price,ok,name,n,t,done", *rows]))
    made = prepare(
        SINGLE, [f"bids={path}"], tmp_path / "in", order_by=order_by, punctuation="done", limit=4
    )
    assert (made.rows, made.dropped, made.punctuations) == ({"bids": 2}, {"bids": 0}, 2)
    table = pq.read_table(tmp_path / "in" / "bids.parquet")
    assert table["_punctuation"].to_pylist() == [False, True, True, False]
    assert [time.second for time in table["t"].to_pylist()] == [5, 7, 8, 1]
    assert list(map(str, table["price"].to_pylist())) == ["1.50", "0.00", "0.00", "2.50"]
    assert table["name"].to_pylist() == ["a", "", "", "b"]
    assert table["ok"].to_pylist() == [True, False, False, False]
    assert table["n"].to_pylist() == ([1, 2, 3, 4] if order_by else [1, 0, 0, 4])
    manifest = json.loads((tmp_path / "in" / "manifest.json").read_text())
    assert (manifest["arrivals"], manifest["sources"]["bids"]["punctuations"]) == (4, 2)


def test_without_the_option_there_are_no_punctuations(tmp_path):
    path = csv(tmp_path, "bids.csv", "price,ok,name,n,t,done\n1.5,t,a,1,2024-01-01 00:00:05,1\n")
    made = prepare(SINGLE, [f"bids={path}"], tmp_path / "in")
    assert (made.rows, made.punctuations) == ({"bids": 1}, 0)
    assert "_punctuation" not in pq.read_table(tmp_path / "in" / "bids.parquet").column_names


# What is written


def test_the_prepared_folder(tmp_path):
    data = two(tmp_path, timed_csv([1, 2]), timed_csv([1]))
    made = prepare(TIMED, data, tmp_path / "deep" / "in")
    assert made == Prepared(tmp_path / "deep" / "in", {"r": 2, "b": 1}, {"r": 0, "b": 0}, ())
    assert made.as_dict() == {
        "folder": str(tmp_path / "deep" / "in"),
        "rows": {"r": 2, "b": 1},
        "dropped": {"r": 0, "b": 0},
        "notes": [],
        "punctuations": 0,
    }
    hashes = {
        alias: hashlib.sha256((made.folder / f"{alias}.parquet").read_bytes()).hexdigest()
        for alias in "rb"
    }
    assert json.loads((made.folder / "manifest.json").read_text()) == {
        "query": TIMED.hash,
        "arrivals": 3,
        "sources": {
            "r": {"rows": 2, "dropped": 0, "sha256": hashes["r"], "from": data[0][5:]},
            "b": {"rows": 1, "dropped": 0, "sha256": hashes["b"], "from": data[1][6:]},
        },
    }
    table = pq.read_table(made.folder / "b.parquet")
    schema = arrow_schema(TIMED.sources[1].schema).append(pa.field("_arrival", pa.int64()))
    assert table.schema == schema
    assert table.to_pylist() == [{"id": 0, "t": dt.datetime(1970, 1, 1, 0, 0, 1), "_arrival": 1}]


def test_the_same_data_gives_the_same_bytes(tmp_path):
    data = two(tmp_path, timed_csv([1, 2]), timed_csv([1]))
    for name in ("one", "two"):
        prepare(TIMED, data, tmp_path / name)
    for file in ("r.parquet", "b.parquet", "manifest.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize(("reds", "blues"), [([], []), ([5], []), ([], [5]), ([5], [5])], ids=str)
def test_empty_files_and_single_rows(reds, blues, tmp_path):
    data = two(tmp_path, timed_csv(reds), timed_csv(blues))
    for order_by in ([], ["t"], ["id"]):
        made = prepare(TIMED, data, tmp_path / "in", order_by=order_by)
        assert made.rows == {"r": len(reds), "b": len(blues)}
        expected = [("r", 0)] * len(reds) + [("b", 0)] * len(blues)
        assert arrivals(tmp_path / "in", "r", "b") == expected


def test_formats_may_be_mixed(tmp_path):
    (tmp_path / "blues.jsonl").write_text('{"id": 4, "t": "1970-01-01T00:00:01.000Z"}\n')
    reds = csv(tmp_path, "reds.csv", timed_csv([1]))
    prepare(TIMED, [f"reds={reds}", f"blues={tmp_path}/blues.jsonl"], tmp_path / "in")
    assert arrivals(tmp_path / "in", "r", "b") == [("r", 0), ("b", 4)]


def test_progress_is_shown_where_it_is_wanted(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=500)
    data = two(tmp_path, timed_csv([1]), timed_csv([1]))
    prepare(TIMED, data, tmp_path / "in", progress=console)
    for name in ("reds.csv", "blues.csv"):
        assert f"Reading {tmp_path}/{name}" in console.file.getvalue()
        assert f"Checking {tmp_path}/{name}" in console.file.getvalue()
