"""What a person can get wrong with data, each with its own message; and what is left untouched."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from joinery.tuples import DecimalType, Field, IntType, Schema
from joinery_gen.data import prepare
from joinery_gen.data.bind import bind
from joinery_gen.data.catalog import SETS, DataSet, Package, StreamInfo
from joinery_gen.data.fetch import set_folder
from joinery_gen.data.readers import DataError
from joinery_gen.parse import parse
from joinery_gen.tables import arrow_schema

JOIN = parse(
    """
    CREATE STREAM orders (id INT, t TIMESTAMP(s));
    CREATE STREAM offers (id INT, t TIMESTAMP(s));
    SELECT o.id, f.id AS other FROM orders [ROWS 5] AS o, offers [ROWS 5] AS f WHERE o.id = f.id
    """
)
SELF = parse(
    """
    CREATE STREAM trades (volume INT, time TIMESTAMP(ms));
    SELECT a.volume, b.time FROM trades [ROWS 5] AS a, trades [ROWS 3] AS b
    WHERE a.volume = b.volume
    """
)
SINGLE = parse(
    """
    CREATE STREAM bids (price DECIMAL(5,2), ok BOOLEAN, name STRING(3), n SMALLINT, t TIMESTAMP(s));
    SELECT t, max(price) AS top FROM bids [RANGE 5 SECONDS SLIDE 1 SECOND WATTR t]
    """
)
HEADER = "price,ok,name,n,t\n"
GOOD = "1.5,true,abc,7,2024-05-31 12:00:00\n"


def csv(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def refuses(message: str, *args: object, **options: object) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        prepare(*args, **options)


# Bindings


@pytest.mark.parametrize(
    ("query", "data", "message"),
    [
        (JOIN, [], "There is no data for orders (as o): give --data orders=PATH, "
         "or --data taxi for the set that offers it"),
        (JOIN, ["taxi"], "There is no data for offers (as f): give --data offers=PATH"),
        (SINGLE, [], "There is no data for bids: give --data bids=PATH"),
        (JOIN, ["orders.csv"], "--data orders.csv: say which stream the file holds, "
         "such as --data orders=orders.csv"),
        (JOIN, ["./orders"], "--data ./orders: say which stream the file holds, "
         "such as --data orders=./orders"),
        (JOIN, ["taxis"], "There is no data set named taxis (did you mean taxi?); the sets are: "
         "taxi, bus, ticks, aircraft, flights, weather, packets, many_flights"),
        (JOIN, ["orders=taxis"], "There is no data set named taxis (did you mean taxi?); the sets "
         "are: taxi, bus, ticks, aircraft, flights, weather, packets, many_flights"),
        (JOIN, ["order=x.csv"], "--data order=x.csv: the query reads no stream order; "
         "it reads orders, offers"),
        (SELF, ["b=x.csv", "bids=x.csv"], "--data bids=x.csv: the query reads no stream bids; "
         "it reads trades"),
        (JOIN, ["orders="], "--data orders=: a file or a set must stand after the ="),
        (JOIN, ["orders=x.csv", "o=y.csv"], "--data o=y.csv: o has its data already, from x.csv"),
        (JOIN, ["taxi", "orders=x.csv"], "--data orders=x.csv: o has its data already, "
         "from taxi.orders"),
        (SELF, ["ticks", "ticks"], "--data ticks: a has its data already, from ticks.trades"),
        (JOIN, ["ticks"], "--data ticks: the set offers trades, shares, up, down, and the query "
         "reads orders, offers; to use one under another name: --data orders=ticks.trades"),
        (JOIN, ["orders=ticks"], "--data orders=ticks: the set ticks has no stream orders; it "
         "offers trades, shares, up, down, as in --data orders=ticks.trades"),
        (JOIN, ["orders=ticks.side"], "--data orders=ticks.side: the set ticks has no stream side; "
         "it offers trades, shares, up, down, as in --data orders=ticks.trades"),
    ],
)  # fmt: skip
def test_wrong_bindings(query, data, message, tmp_path):
    refuses(message, query, data, tmp_path / "in")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("query", "data", "labels"),
    [
        (JOIN, ["o=a.csv", "offers=b/c.jsonl"], {"o": "a.csv", "f": "b/c.jsonl"}),
        (JOIN, ["taxi", "f=ticks.up"], {"o": "taxi.orders", "f": "ticks.up"}),
        (JOIN, ["orders=bus", "offers=taxi.taxis"], {"o": "bus.bus", "f": "taxi.taxis"}),
        (SELF, ["ticks"], {"a": "ticks.trades", "b": "ticks.trades"}),
        (SELF, ["trades=t.parquet"], {"a": "t.parquet", "b": "t.parquet"}),
        (SELF, ["a=ticks", "b=ticks.down"], {"a": "ticks.trades", "b": "ticks.down"}),
        (SINGLE, ["bids=a=b.csv"], {"bids": "a=b.csv"}),
        (SINGLE, ["bids=bids.txt"], {"bids": "bids.txt"}),
        (SINGLE, ["bids=~/bids.csv"], {"bids": str(Path.home() / "bids.csv")}),
    ],
)
def test_bindings(query, data, labels):
    assert {alias: origin.label for alias, origin in bind(query, data).items()} == labels


def test_a_set_without_the_column(tmp_path):
    refuses(
        "ticks.trades: has no column id; its columns are: time, price, volume",
        JOIN,
        ["orders=ticks.trades", "offers=ticks.trades"],
        tmp_path / "in",
        order_by=["time"],
    )


# Orders and other options

UNTIMED = parse(
    """
    CREATE STREAM orders (id INT, name STRING(3));
    CREATE STREAM offers (id INT, t TIMESTAMP(s), u TIMESTAMP(s));
    SELECT o.id, f.id AS other FROM offers [ROWS 5] AS f, orders [ROWS 5] AS o WHERE o.id = f.id
    """
)
NO_TIME = parse(UNTIMED.text.replace(", t TIMESTAMP(s), u TIMESTAMP(s)", ""))
FILES = {"orders.csv": "id,name,seq\n1,a,5\n", "offers.csv": "id,t,u,seq\n1,10,20,6\n"}


@pytest.mark.parametrize(
    ("query", "order_by", "message"),
    [
        (UNTIMED, [], "Two streams are interleaved by time, and offers declares 2 TIMESTAMP "
         "columns, t, u: give --order-by COLUMN"),
        (NO_TIME, [], "Two streams are interleaved by time, and offers declares no TIMESTAMP: "
         "give --order-by COLUMN"),
        (UNTIMED, ["seq", "o.seq"], "--order-by seq: a column of all streams is given alone; "
         "or --order-by f.COLUMN --order-by o.COLUMN"),
        (UNTIMED, ["orders.seq", "f.seq"], "--order-by orders.seq: the query has no source orders; "
         "it has f, o"),
        (UNTIMED, [""], "--order-by : the name of a column is missing"),
        (UNTIMED, ["o."], "--order-by o.: the name of a column is missing"),
        (UNTIMED, ["o.seq", "o.id"], "--order-by o.id: o is ordered by seq already"),
        (UNTIMED, ["o.seq"], "No column to order f by: give "
         "--order-by f.COLUMN --order-by o.COLUMN"),
        (UNTIMED, ["o.name", "f.t"], "o.name is STRING(3); "
         "tuples are ordered by a TIMESTAMP or by whole numbers"),
        (UNTIMED, ["o.seq", "f.t"], "The streams cannot be interleaved: f is ordered by a time and "
         "o by whole numbers; name two columns of one kind with --order-by"),
    ],
)  # fmt: skip
def test_wrong_orders(query, order_by, message, tmp_path):
    data = [f"{name[:-4]}={csv(tmp_path, name, text)}" for name, text in FILES.items()]
    refuses(message, query, data, tmp_path / "in", order_by=order_by)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_order_by_a_column_that_the_file_lacks(tmp_path):
    data = [f"{name[:-4]}={csv(tmp_path, name, text)}" for name, text in FILES.items()]
    refuses(
        f"{tmp_path}/offers.csv: has no column sequence; its columns are: id, t, u, seq",
        UNTIMED,
        data,
        tmp_path / "in",
        order_by=["sequence"],
    )


def test_a_single_stream_is_not_sorted_by_time(tmp_path):
    path = csv(tmp_path, "bids.csv", HEADER + GOOD)
    refuses(
        "--order-by t: a single stream keeps the order of its file; "
        "only a column of whole numbers gives it another",
        SINGLE,
        [f"bids={path}"],
        tmp_path / "in",
        order_by=["t"],
    )


def test_wrong_punctuations(tmp_path):
    data = [f"{name[:-4]}={csv(tmp_path, name, text)}" for name, text in FILES.items()]
    refuses(
        "--punctuation seq: only an aggregate over time windows has punctuations",
        UNTIMED,
        data,
        tmp_path / "in",
        punctuation="seq",
    )
    bids = [f"bids={csv(tmp_path, 'bids.csv', HEADER + GOOD)}"]
    refuses(
        "--punctuation ok: bids.ok is a column of the query; punctuations are marked by another "
        "one",
        SINGLE,
        bids,
        tmp_path / "in",
        punctuation="ok",
    )
    path = csv(tmp_path, "marks.csv", "price,ok,name,n,t,done\n,,,,late,1\n1,t,a,1,5,maybe\n")
    refuses(
        f"{path}: row 1, t: 'late' is not a time such as 2024-05-31 12:00:00 (TIMESTAMP(s))",
        SINGLE,
        [f"bids={path}"],
        tmp_path / "in",
        punctuation="done",
    )
    path = csv(tmp_path, "marks.csv", "price,ok,name,n,t,done\n1,t,a,1,5,maybe\n")
    refuses(
        f"{path}: row 1, done: 'maybe' is neither true nor false (BOOLEAN)",
        SINGLE,
        [f"bids={path}"],
        tmp_path / "in",
        punctuation="done",
    )


def test_wrong_options(tmp_path):
    data = [f"bids={csv(tmp_path, 'bids.csv', HEADER + GOOD)}"]
    refuses(
        "--on-bad-row takes stop or drop, not skip",
        SINGLE,
        data,
        tmp_path / "in",
        on_bad_row="skip",
    )
    for limit in (0, -1):
        refuses(
            f"The limit must be at least one tuple, not {limit}",
            SINGLE,
            data,
            tmp_path / "in",
            limit=limit,
        )


# Bad rows


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,true,a,abc,2024-05-31 12:00:00", "n: 'abc' is not a whole number (SMALLINT)"),
        ("1,true,a,,2024-05-31 12:00:00", "n: the value is missing (SMALLINT)"),
        ("1,true,a,40000,2024-05-31 12:00:00", "n: 40000 does not fit SMALLINT, which holds "
         "-32768 to 32767"),
        ("1,true,long,1,2024-05-31 12:00:00", "name: 'long' has 4 bytes and STRING(3) holds 3 "
         "at most"),
        ("1000,true,a,1,2024-05-31 12:00:00", "price: 1000 does not fit DECIMAL(5,2), which holds "
         "-999.99 to 999.99"),
        ("1,maybe,a,1,2024-05-31 12:00:00", "ok: 'maybe' is neither true nor false (BOOLEAN)"),
        ("1,true,a,1,noon", "t: 'noon' is not a time such as 2024-05-31 12:00:00 (TIMESTAMP(s))"),
        ("x,maybe,long,y,noon", "price: 'x' is not a decimal number (DECIMAL(5,2))"),
    ],
)  # fmt: skip
def test_a_bad_row_stops_or_is_dropped(row, message, tmp_path):
    data = [f"bids={csv(tmp_path, 'bids.csv', HEADER + GOOD * 11 + row + chr(10) + GOOD)}"]
    refuses(f"{tmp_path}/bids.csv: row 12, {message}", SINGLE, data, tmp_path / "in")
    assert not (tmp_path / "in").exists()
    made = prepare(SINGLE, data, tmp_path / "in", on_bad_row="drop")
    assert (made.rows, made.dropped) == ({"bids": 12}, {"bids": 1})
    assert made.notes == (f"bids: 1 rows dropped; the first for its values: row 12, {message}",)
    table = pq.read_table(tmp_path / "in" / "bids.parquet")
    assert table["_arrival"].to_pylist() == list(range(12))
    assert table.column("n").to_pylist() == [7] * 12
    about = json.loads((tmp_path / "in" / "manifest.json").read_text())
    assert about["arrivals"] == 12
    assert about["sources"]["bids"]["dropped"] == 1


def test_rows_of_the_wrong_form_stop_or_are_dropped(tmp_path):
    data = [f"bids={csv(tmp_path, 'bids.csv', HEADER + GOOD + '1,2' + chr(10) + GOOD)}"]
    message = f"{tmp_path}/bids.csv: row 2 does not have the 5 fields of the header but 2"
    refuses(message, SINGLE, data, tmp_path / "in")
    made = prepare(SINGLE, data, tmp_path / "in", on_bad_row="drop")
    assert (made.rows, made.dropped) == ({"bids": 2}, {"bids": 1})
    assert made.notes == ("bids: 1 rows dropped, for their form",)


def test_a_row_with_a_bad_key_is_bad(tmp_path):
    texts = {"orders": "id,t,seq\n1,10,5\n2,10,x\n", "offers": "id,t,seq\n3,10,4\n"}
    data = [f"{name}={csv(tmp_path, f'{name}.csv', text)}" for name, text in texts.items()]
    message = f"{tmp_path}/orders.csv: row 2, seq: 'x' is not a whole number (BIGINT)"
    refuses(message, JOIN, data, tmp_path / "in", order_by=["seq"])
    made = prepare(JOIN, data, tmp_path / "in", order_by=["seq"], on_bad_row="drop")
    assert made.rows == {"o": 1, "f": 1}
    assert made.dropped == {"o": 1, "f": 0}


def test_all_rows_may_be_dropped(tmp_path):
    data = [f"bids={csv(tmp_path, 'bids.csv', HEADER + '1,true,a,x,noon' + chr(10))}"]
    made = prepare(SINGLE, data, tmp_path / "in", on_bad_row="drop")
    assert (made.rows, made.dropped) == ({"bids": 0}, {"bids": 1})


def test_rounding_is_noted(tmp_path):
    rows = "".join(f"{price},t,a,1,5\n" for price in ("0.125", "1.50", "-3.999", "2"))
    made = prepare(SINGLE, [f"bids={csv(tmp_path, 'b.csv', HEADER + rows)}"], tmp_path / "in")
    assert made.notes == ("bids.price: 2 values rounded, by 0.005 at most",)
    prices = pq.read_table(tmp_path / "in" / "bids.parquet")["price"].to_pylist()
    assert prices == [Decimal("0.12"), Decimal("1.50"), Decimal("-4.00"), Decimal("2.00")]


# Sets with missing values

GAPS = parse(
    """
    CREATE STREAM gaps (n TINYINT, x DECIMAL(4,2));
    SELECT n, count(*) AS c FROM gaps [PARTITION BY n ROWS 2]
    """
)
NO_GAPS = parse(GAPS.text.replace(", x DECIMAL(4,2)", ""))


@pytest.fixture
def gaps(tmp_path, monkeypatch) -> DataSet:
    """A set in the cache with a gap in its second row."""
    schema = Schema((Field("n", IntType(8)), Field("x", DecimalType(4, 3))))
    stream = StreamInfo("gaps", 3, schema, "", frozenset({"x"}))
    entry = DataSet("gaps", "", Package("npm", "g", "1", "", "", 0, ""), (), (stream,), dict)
    monkeypatch.setitem(SETS, "gaps", entry)
    monkeypatch.setenv("JOINERY_CACHE", str(tmp_path / "cache"))
    folder = set_folder(entry)
    folder.mkdir(parents=True)
    x = [Decimal("0.125"), None, Decimal("0.500")]
    pq.write_table(
        pa.table([pa.array([1, 2, 3]), pa.array(x, pa.decimal128(4, 3))], arrow_schema(schema)),
        folder / "gaps.parquet",
    )
    about = {"rounded": {"gaps": {"x": {"values": 9, "largest": "5E-9"}}}}
    (folder / "set.json").write_text(json.dumps(about))
    return entry


@pytest.mark.usefixtures("gaps")
def test_missing_values_of_a_set_count_where_they_are_declared(tmp_path):
    assert prepare(NO_GAPS, ["gaps"], tmp_path / "in").rows == {"gaps": 3}
    message = "gaps.gaps: row 2, x: the value is missing (DECIMAL(4,2))"
    refuses(message, GAPS, ["gaps"], tmp_path / "in")
    made = prepare(GAPS, ["gaps"], tmp_path / "in", on_bad_row="drop")
    assert (made.rows, made.dropped) == ({"gaps": 2}, {"gaps": 1})


@pytest.mark.usefixtures("gaps")
def test_rounding_of_a_set_is_noted_where_it_is_declared(tmp_path):
    assert prepare(NO_GAPS, ["gaps"], tmp_path / "in").notes == ()
    made = prepare(GAPS, ["gaps"], tmp_path / "in", on_bad_row="drop")
    assert made.notes == (
        "gaps.gaps.x: 9 values rounded, by 5E-9 at most",
        "gaps.x: 1 values rounded, by 0.005 at most",
        "gaps: 1 rows dropped; the first for its values: "
        "row 2, x: the value is missing (DECIMAL(4,2))",
    )


# Whole or not at all


@pytest.fixture
def bids(tmp_path) -> list[str]:
    (tmp_path / "data").mkdir()
    return [f"bids={csv(tmp_path / 'data', 'bids.csv', HEADER + GOOD)}"]


def test_an_earlier_input_is_replaced(bids, tmp_path):
    out = tmp_path / "in"
    prepare(SINGLE, bids, out)
    csv(tmp_path / "data", "bids.csv", HEADER + GOOD * 2)
    assert prepare(SINGLE, bids, out).rows == {"bids": 2}
    assert sorted(path.name for path in out.iterdir()) == ["bids.parquet", "manifest.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "in"]


def test_an_empty_folder_is_filled(bids, tmp_path):
    (tmp_path / "in").mkdir()
    assert prepare(SINGLE, bids, tmp_path / "in").rows == {"bids": 1}


@pytest.mark.parametrize("kind", ["file", "folder", "other manifest", "no JSON", "more than ours"])
def test_anything_else_is_left_alone(kind, bids, tmp_path):
    out = tmp_path / "in"
    if kind == "file":
        out.write_text("mine")
    elif kind == "more than ours":
        prepare(SINGLE, bids, out)
        (out / "notes.txt").write_text("mine")
    else:
        out.mkdir()
        name = "notes.txt" if kind == "folder" else "manifest.json"
        (out / name).write_text("{}" if kind == "other manifest" else "mine")
    before = {path: path.read_bytes() for path in [out, *out.rglob("*")] if path.is_file()}
    message = f"{out}: is in the way and holds more than a prepared input; remove it first"
    refuses(message, SINGLE, bids, out)
    assert {path: path.read_bytes() for path in before} == before


def test_a_place_that_cannot_be_written(bids, tmp_path):
    (tmp_path / "file").write_text("")
    message = f"{tmp_path}/file/in: cannot be written: [Errno 17] File exists: '{tmp_path}/file'"
    refuses(message, SINGLE, bids, tmp_path / "file" / "in")


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("where", ["write_table", "rename"])
def test_an_interrupt_leaves_what_was_there(where, earlier, bids, tmp_path, monkeypatch):
    out = tmp_path / "in"
    if earlier:
        prepare(SINGLE, bids, out)
    before = {path.name: path.read_bytes() for path in out.glob("*")}
    csv(tmp_path / "data", "bids.csv", HEADER + GOOD * 2)
    rename = Path.rename

    def interrupted_rename(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    def interrupted_write(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if where == "rename":
            patch.setattr(Path, "rename", interrupted_rename)
        else:
            patch.setattr(pq, "write_table", interrupted_write)
        with pytest.raises(KeyboardInterrupt):
            prepare(SINGLE, bids, out)
    assert {path.name: path.read_bytes() for path in out.glob("*")} == before
    assert out.exists() == earlier
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "in"][: 1 + earlier]
    assert prepare(SINGLE, bids, out).rows == {"bids": 2}
