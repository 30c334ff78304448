"""A prepared input through a card of plain Python, to a file that `compare` takes."""

import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from joinery_gen.compare import compare
from joinery_gen.data import prepare
from joinery_gen.fjoin_host import (
    CardLayout,
    Feed,
    FeedSettings,
    HostSettings,
    ModelDevice,
    PipelineInfo,
    Progress,
    RunReport,
    card_pair,
    run_prepared,
)
from joinery_gen.golden.reference import reference
from joinery_gen.manifest import data_hash
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError, JoinQuery, Query
from joinery_gen.tables import arrow_schema, from_raw, raw_columns

TEXT = """\
CREATE STREAM orders (item STRING(3), price DECIMAL(6,2), time TIMESTAMP(s));
CREATE STREAM offers (item STRING(3), cost DECIMAL(6,2), count BIGINT, time TIMESTAMP(s));

SELECT o.item, o.price - f.cost AS spread, f.count, o.time, f.time AS offered,
       o.price > f.cost AS above
FROM orders [RANGE 30 SECONDS WATTR time SLACK 5 SECONDS] AS o,
     offers [RANGE 30 SECONDS WATTR time SLACK 5 SECONDS] AS f
WHERE o.item = f.item AND o.price >= f.cost;
"""
QUERY = parse(TEXT, "shop")
PIPELINES = [PipelineInfo("left", 8), PipelineInfo("right", 3), PipelineInfo("right", 16)]


def body_of(query: Query) -> JoinQuery:
    assert isinstance(query.body, JoinQuery)
    return query.body


def write_csv(path: Path, columns: str, count: int, seed: int) -> None:
    """Write rows whose times go on, and back by 5 seconds at most."""
    draw = Random(seed)
    lines = [columns]
    for number in range(count):
        second = 100_000 + number // 2 - draw.randint(0, 5)
        values = [draw.choice(["", "a", "bc", "é"]), f"{draw.randrange(2000) / 100:.2f}"]
        more = [str(draw.randrange(-(1 << 40), 1 << 40))] if "count" in columns else []
        lines.append(",".join([*values, *more, str(second)]))
    path.write_text("\n".join(lines) + "\n")


def prepare_shop(folder: Path, orders: int = 80, offers: int = 120) -> Path:
    write_csv(folder / "orders.csv", "item,price,time", orders, 1)
    write_csv(folder / "offers.csv", "item,cost,count,time", offers, 2)
    data = [f"{name}={folder / name}.csv" for name in ("orders", "offers")]
    return prepare(QUERY, data, folder / "input").folder


def run(
    prepared: Path, out: Path, *, id_bits: int = 32, host: HostSettings | None = None, **feed: int
) -> RunReport:
    layout = CardLayout.of_pair(card_pair(body_of(QUERY)), id_bits=id_bits)
    device = ModelDevice(card_pair(body_of(QUERY)), layout, PIPELINES, memory_bytes=1 << 20)
    return run_prepared(
        QUERY, prepared, out, device, layout, feed=FeedSettings(**feed), settings=host
    )


def expected(prepared: Path) -> list[tuple[int, ...]]:
    rows = {}
    for source in QUERY.sources:
        table = pq.read_table(prepared / f"{source.alias}.parquet")
        columns = raw_columns(table, source.schema)
        values = zip(*(columns[name].tolist() for name in source.schema.names), strict=True)
        rows[source.alias] = [
            (arrival, dict(zip(source.schema.names, each, strict=True)))
            for arrival, each in zip(table["_arrival"].to_pylist(), values, strict=True)
        ]
    return reference(QUERY, rows)[0]


def rows_of(out: Path) -> list[tuple[int, ...]]:
    table = pq.read_table(out).replace_schema_metadata()
    schema = body_of(QUERY).schema
    assert table.schema == arrow_schema(schema).append(pa.field("_row", pa.int64()))
    assert table["_row"].to_pylist() == list(range(len(table)))
    columns = raw_columns(table, schema)
    return list(zip(*(columns[name].tolist() for name in schema.names), strict=True))


@pytest.mark.parametrize(
    ("feed", "id_bits"),
    [
        ({}, 32),
        ({"batch": 7, "signal_every": 3}, 32),
        ({"batch": 10, "sources": 4, "signal_every": 10, "disorder": 20}, 9),
    ],
)
def test_rows_are_the_references(tmp_path: Path, feed: dict[str, int], id_bits: int) -> None:
    prepared = prepare_shop(tmp_path)
    report = run(prepared, tmp_path / "out.parquet", id_bits=id_bits, **feed)
    found = rows_of(tmp_path / "out.parquet")
    wanted = expected(prepared)
    assert Counter(found) == Counter(wanted)
    assert (report.rows, report.tuples) == (len(wanted), {"o": 80, "f": 120})
    assert report.rows > 300
    assert report.in_order
    assert report.late == {"o": 0, "f": 0}


def test_compare_takes_it(tmp_path: Path) -> None:
    prepared = prepare_shop(tmp_path)
    run(prepared, tmp_path / "out.parquet", batch=30)
    rows = zip(*expected(prepared), strict=True)
    schema = body_of(QUERY).schema
    golden = from_raw(
        {name: np.array(raw, dtype=object) for name, raw in zip(schema.names, rows, strict=True)},
        schema,
    )
    pq.write_table(golden, tmp_path / "golden.parquet")
    assert compare(tmp_path / "out.parquet", tmp_path / "golden.parquet").verdict == "equal"


def test_file_says_what_it_is(tmp_path: Path) -> None:
    prepared = prepare_shop(tmp_path)
    report = run(prepared, tmp_path / "out.parquet")
    about = json.loads(pq.read_schema(tmp_path / "out.parquet").metadata[b"joinery"])
    manifest = json.loads((prepared / "manifest.json").read_text())
    assert (about["query"], about["data"]) == (QUERY.hash, data_hash(manifest))
    assert about["engine"] == "fjoin"
    assert about["run"] == json.loads(json.dumps(report.as_dict()))
    assert [path.name for path in tmp_path.glob("*.partial")] == []


def test_report(tmp_path: Path) -> None:
    """What it counts fits together."""
    prepared = prepare_shop(tmp_path)
    told: list[Progress] = []
    layout = CardLayout.of_pair(card_pair(body_of(QUERY)))
    device = ModelDevice(card_pair(body_of(QUERY)), layout, PIPELINES, memory_bytes=1 << 20)
    report = run_prepared(
        *(QUERY, prepared, tmp_path / "out.parquet", device, layout),
        feed=FeedSettings(batch=50),
        settings=HostSettings(result_tuples=5),
        watch=told.append,
    )
    assert report.tasks == 4
    assert report.tuples_in == 200
    assert report.overflows > 10
    assert report.counters["results"] == report.rows
    assert report.cycles == device.cycles
    assert report.eta == report.compared / (report.cycles * 27) > 0
    assert report.bytes_read % 64 == 0
    assert [(each["side"], each["units"]) for each in report.pipelines] == [
        ("left", 8), ("right", 3), ("right", 16)
    ]  # fmt: skip
    assert sum(each["parts"] for each in report.pipelines) == report.parts
    assert [(each.task.number, each.tuples, each.of) for each in told] == [
        (number, 50 * (number + 1), 200) for number in range(4)
    ]
    assert told[-1].rows == report.rows
    assert 0 < report.latency_cycles["median"] <= report.latency_cycles["largest"] <= report.cycles


def test_a_held_up_input_gives_the_same_pairs(tmp_path: Path) -> None:
    """In the order of their later tuples, as these arrive then."""
    prepared = prepare_shop(tmp_path)
    for name, disorder in (("still", 0), ("late", 25)):
        run(prepared, tmp_path / name, disorder=disorder, sources=3, batch=9, signal_every=2)
    still, late = rows_of(tmp_path / "still"), rows_of(tmp_path / "late")
    assert still != late
    assert Counter(still) == Counter(late)


@pytest.mark.parametrize(("orders", "offers"), [(0, 0), (0, 9), (9, 0)])
def test_empty_streams(tmp_path: Path, orders: int, offers: int) -> None:
    prepared = prepare_shop(tmp_path, orders, offers)
    report = run(prepared, tmp_path / "out.parquet")
    assert rows_of(tmp_path / "out.parquet") == []
    assert (report.rows, report.parts, report.cycles, report.eta) == (0, 0, 0, 0)


def test_late_tuples_are_told(tmp_path: Path) -> None:
    """An order of arrival that is not that of the times: late, and said to be."""
    prepared = prepare_shop(tmp_path)
    table = pq.read_table(prepared / "f.parquet")
    times = table["time"].to_pylist()
    shuffled = [*times[60:], *times[:60]]
    column = table.column_names.index("time")
    table = table.set_column(column, "time", pa.array(shuffled, pa.timestamp("us")))
    pq.write_table(table, prepared / "f.parquet")
    report = run(prepared, tmp_path / "out.parquet", batch=10, signal_every=5)
    assert report.late["f"] >= 50


# The input.


def test_feed_gives_every_tuple_once(tmp_path: Path) -> None:
    prepared = prepare_shop(tmp_path)
    feed = Feed(body_of(QUERY), prepared, FeedSettings(sources=3, batch=7, disorder=9))
    batches = list(feed)
    assert sum(len(each.arrivals.right) for each in batches) == len(feed) == 200
    times = np.concatenate([each.arrivals.time for each in batches])
    right = np.concatenate([each.arrivals.right for each in batches])
    for side, alias in ((~right, "o"), (right, "f")):
        table = pq.read_table(prepared / f"{alias}.parquet")
        raw = table["time"].cast(pa.int64()).to_numpy() // 1_000_000
        assert Counter(times[side].tolist()) == Counter(raw.tolist())
    sources = {int(each) for batch in batches for each in batch.arrivals.source}
    assert sources == {0, 1, 2}


def test_signals_are_kept(tmp_path: Path) -> None:
    """No source sends a tuple that is older than it has said."""
    prepared = prepare_shop(tmp_path)
    settings = FeedSettings(sources=3, batch=1, disorder=2, signal_every=2)
    said: dict[tuple[str, int], int] = {}
    times = 0
    for batch in Feed(body_of(QUERY), prepared, settings):
        arrivals = batch.arrivals
        for right, source, time in zip(arrivals.right, arrivals.source, arrivals.time, strict=True):
            assert time >= said.get(("right" if right else "left", int(source)), -1)
        for side, source, time in batch.signals:
            said[side, source] = time
            times += 1
    assert len(said) == 6
    assert times == 6 * 200 // 2


# Errors.


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"sources": 0}, "sources must be at least 1, not 0"),
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"signal_every": 0}, "signal_every must be at least 1, not 0"),
        ({"disorder": -1}, "disorder must be at least 0, not -1"),
    ],
)
def test_refuses_feeds(settings: dict[str, int], error: str) -> None:
    with pytest.raises(JoineryError, match=f"^{error}$"):
        FeedSettings(**settings)


def test_refuses_a_missing_stream(tmp_path: Path) -> None:
    prepared = prepare_shop(tmp_path)
    (prepared / "f.parquet").unlink()
    error = f"{prepared} holds no tuples of f: there is no f.parquet"
    with pytest.raises(JoineryError, match=f"^{re.escape(error)}$"):
        run(prepared, tmp_path / "out.parquet")


def test_refuses_positions_that_repeat(tmp_path: Path) -> None:
    prepared = prepare_shop(tmp_path)
    table = pq.read_table(prepared / "f.parquet")
    column = table.column_names.index("_arrival")
    pq.write_table(
        table.set_column(column, "_arrival", pa.array([0] * 120)), prepared / "f.parquet"
    )
    error = (
        "The arrival positions of the prepared input are not 0 to 199, each once; prepare the "
        "data again"
    )
    with pytest.raises(JoineryError, match=f"^{error}$"):
        run(prepared, tmp_path / "out.parquet")


def test_refuses_aggregates(tmp_path: Path) -> None:
    query = parse(
        "CREATE STREAM r (k INT, time TIMESTAMP(s));\n"
        "SELECT time, count(*) AS n FROM r [RANGE 6 SECONDS SLIDE 3 SECONDS WATTR time];",
        "counts",
    )
    layout = CardLayout.of_pair(card_pair(body_of(QUERY)))
    device = ModelDevice(card_pair(body_of(QUERY)), layout, PIPELINES)
    error = r"^counts is an aggregate, and a card joins two streams$"
    with pytest.raises(JoineryError, match=error):
        run_prepared(query, tmp_path, tmp_path / "out", device, layout)


def test_a_failed_run_leaves_no_file_and_an_idle_card(tmp_path: Path) -> None:
    prepared = prepare_shop(tmp_path)
    layout = CardLayout.of_pair(card_pair(body_of(QUERY)), id_bits=4)
    device = ModelDevice(card_pair(body_of(QUERY)), layout, PIPELINES)
    with pytest.raises(JoineryError, match=r"larger id_bits$"):
        run_prepared(QUERY, prepared, tmp_path / "out.parquet", device, layout)
    assert not (tmp_path / "out.parquet").exists()
    assert {device.status(number).state for number in range(3)} == {"idle"}
