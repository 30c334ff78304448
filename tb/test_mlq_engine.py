# amaranth: UnusedElaboratable=no
# (an engine whose parameters are refused is left half made)
"""The engine ``mlq``: from query text to rows, with keys that lose their place, and settings."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from joinery.aggregate import Aggregate, PaneQuery, PaneStream, RowQuery, RowStream
from joinery.mlq import KeyedAggregation, Level, TimedAggregation
from joinery.tuples import Field, IntType, Schema
from joinery_gen.at_run import change
from joinery_gen.compare import compare
from joinery_gen.engines import plan
from joinery_gen.engines.keyed import row_query, row_stream
from joinery_gen.generate import describe, generate, generate_board
from joinery_gen.golden import run_golden
from joinery_gen.golden.reference import reference
from joinery_gen.query import JoineryError, KeyedRowWindow, Query
from joinery_tb.aggregate_cases import (
    AggregateCase,
    keyed_query,
    random_tuples,
    sliding_query,
)
from joinery_tb.bench import Script
from joinery_tb.design import Design
from joinery_tb.mlq import keyed_windows
from joinery_tb.replay import simulate
from joinery_tb.runner import run_cocotb
from joinery_tb.simulate import run_stream
from joinery_tb.words import encode
from test_generated import lint

PLAIN = "k, count(*), min(x), avg(x)"
DESIGNS: dict[str, tuple[Query, dict[str, Any]]] = {
    "bram": (
        keyed_query(6, 4, where="x > -5", select="k, median(x), sum(x) AS total, avg(x)"),
        {"keys": 16},
    ),
    "bram, an odd count": (keyed_query(7, 7, select="median(k + 1) AS middle, k"), {"keys": 16}),
    "dram": (keyed_query(20, 20, select=PLAIN), {"keys": 16, "levels": "dram"}),
    "bram+dram": (keyed_query(21, 1, select=PLAIN), {"keys": 16, "levels": "bram+dram"}),
    "bram+qdr+dram": (
        keyed_query(25, 20, select="k, max(x), count(*)"),
        {"keys": 16, "levels": "bram+qdr+dram"},
    ),
    "counts alone, two keys": (
        keyed_query(3, 2, select="count(*), t, k", by="t, k"),
        {"keys": 512, "ways": 8},
    ),
    "few keys": (
        keyed_query(3, 2, select=PLAIN, where="x <> 0"),
        {"keys": 4, "ways": 2, "levels": "bram"},
    ),
    "runtime": (keyed_query(6, 4, select=PLAIN), {"keys": 16, "runtime": 1}),
}
TIMED = {
    "time": (
        sliding_query(
            (30, 10), slack=2, where="x > -5", by="k", select="t, k, count(*), sum(k) AS m"
        ),
        {"keys": 16, "rows": 64},
    ),
    "time, memories outside": (
        sliding_query((35, 10), slack=4, by="k", select="t, k, max(x), avg(x)"),
        {"keys": 16, "rows": 64, "levels": "bram+dram"},
    ),
    "time, little room": (
        sliding_query((60, 10), by="k", select="t, k, count(*)"),
        {"keys": 4, "rows": 4},
    ),
}
VERILATED = ("counts alone, two keys", "bram+dram")
EVICTING = "few keys"
PROTOCOL_TESTS = 17
Designs = Callable[[str], Path]


def case_of(query: Query, count: int = 700) -> AggregateCase:
    """Times come three by three, so that keys with them have some tuples each."""
    tuples = random_tuples(count)
    for number, each in enumerate(tuples):
        each["t"] = number // 40
    return AggregateCase(query, tuples)


@pytest.fixture(scope="module")
def designs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Generate designs as they are asked for, each once."""
    folder = tmp_path_factory.mktemp("designs")

    @cache
    def design(name: str) -> Path:
        query, parameters = {**DESIGNS, **TIMED}[name]
        generate(plan(query, "mlq", parameters), folder / name)
        return folder / name

    return design


def check(case: AggregateCase, design: Path, folder: Path, **options: Any) -> None:
    """Hold rows and counters to the definition."""
    out = folder / "out.parquet"
    report = simulate(design, case.prepare(folder / "input"), out, **options)
    assert case.rows_of(pq.read_table(out)) == case.found[0][0]
    counted = {name: report.replay.registers[name] for name in case.counters}
    assert counted == case.counters
    assert report.replay.registers["errors"] == report.evicted == 0


@pytest.mark.parametrize(
    ("name", "sim"),
    [
        *((name, "icarus") for name in DESIGNS if name != EVICTING),
        *((name, "verilator") for name in VERILATED),
    ],
)
def test_rows(designs: Designs, name: str, sim: str, tmp_path: Path) -> None:
    case = case_of(DESIGNS[name][0])
    assert case.found[0][0].total() > 10
    for stalls in ({}, {"stall_in": 0.3, "stall_out": 0.7}):
        check(case, designs(name), tmp_path, sim=sim, **stalls)


def test_protocol_with_memories_outside(designs: Designs, tmp_path: Path) -> None:
    design = Design(designs("bram+dram"))
    case = case_of(DESIGNS["bram+dram"][0], 500)
    stimulus = encode(design.top, case.prepare(tmp_path / "input"), tmp_path / "stimulus")
    counters = {**case.counters, "evicted": 0, "errors": 0}
    script = Script.of_stimulus(design, stimulus.path, case.words(design.top), counters)
    script.save(tmp_path / "script.json")
    env = {"JOINERY_BENCH_SCRIPT": str(tmp_path / "script.json")}
    assert run_cocotb(design.directory, sim="icarus", extra_env=env) == PROTOCOL_TESTS


@pytest.mark.parametrize("name", ["bram", "bram+qdr+dram"])
def test_lint_is_clean(designs: Designs, name: str) -> None:
    assert lint(designs(name) / "top.v") == ""


def test_memories_are_described(designs: Designs) -> None:
    top = Design(designs("bram+qdr+dram")).top
    names = [each["name"] for each in top["memories"]]
    assert names == ["qdr_0", "dram_0", "dram_1"]
    ports = {port["name"]: port["width"] for port in top["ports"]}
    for each in top["memories"]:
        width = each["values_per_word"] * each["bits_per_value"]
        assert ports[f"{each['name']}_response_data"] == width
        assert ports[f"{each['name']}_request_data"] == width
        assert 1 << ports[f"{each['name']}_request_read_line"] >= each["lines"]
    assert "memories" not in Design(designs("bram")).top


# Windows of time.


@pytest.mark.parametrize("name", ["time", "time, memories outside"])
def test_rows_and_late_tuples_of_time_windows(designs: Designs, name: str, tmp_path: Path) -> None:
    case = AggregateCase(TIMED[name][0], random_tuples(250, disorder=12))
    assert case.found[0][0].total() > 100
    assert case.counters["late"]
    for stalls in ({}, {"stall_in": 0.3, "stall_out": 0.7}):
        check(case, designs(name), tmp_path, sim="icarus", **stalls)


def test_time_windows_say_what_they_had_no_room_for(designs: Designs, tmp_path: Path) -> None:
    query, _ = TIMED["time, little room"]
    for keys, error in ((1, TimedAggregation.ROOM), (16, TimedAggregation.PLACE)):
        tuples = [{"t": number // 4, "k": number // 2 % keys - 8, "x": 1} for number in range(120)]
        prepared = AggregateCase(query, tuples).prepare(tmp_path / "input")
        out = tmp_path / "out.parquet"
        report = simulate(designs("time, little room"), prepared, out, sim="icarus")
        assert report.replay.registers["errors"] >> error & 1
        assert bool(report.evicted) == (error == TimedAggregation.PLACE)


# Keys that lose their place.


def rows_by_definition(case: AggregateCase, gone: dict[str, list[int]]) -> Counter[tuple[int, ...]]:
    """The rows of an input of which these evictions were told, and that they can have been."""
    body: Any = case.query.body
    blank = dict.fromkeys(body.source.schema.names, 0)
    passing = [
        {**blank, **each} for each in case.tuples if not each.get("_punctuation") and each["x"] != 0
    ]
    keyed = [(each["k"], number) for number, each in enumerate(passing)]
    evictions = zip(gone["k"], gone["_count"], gone["_by_k"], strict=True)
    assert [passing[at]["k"] for at in gone["_at"]] == gone["_by_k"]
    window = body.source.window
    single = KeyedRowWindow(window.rows, window.rows)
    source = replace(body.source, window=single)
    alone = replace(case.query, body=replace(body, source=source))
    found: Counter[tuple[int, ...]] = Counter()
    for _, members in keyed_windows(keyed, window.rows, window.slide, evictions):
        rows, _ = reference(alone, {"a": [(number, passing[number]) for number in members]})
        found.update(rows)
    return found


@pytest.mark.parametrize("stalls", [{}, {"stall_in": 0.3, "stall_out": 0.7}])
def test_every_row_with_evictions_is_accounted_for(
    designs: Designs, stalls: dict[str, float], tmp_path: Path
) -> None:
    case = case_of(DESIGNS[EVICTING][0])
    out, evicted = tmp_path / "out.parquet", tmp_path / "evicted.parquet"
    prepared = case.prepare(tmp_path / "input")
    report = simulate(designs(EVICTING), prepared, out, evicted=evicted, sim="icarus", **stalls)
    gone = pq.read_table(evicted).to_pydict()
    assert report.evicted == report.replay.registers["evicted"] == len(gone["k"]) > 100
    rows = case.rows_of(pq.read_table(out))
    assert rows == rows_by_definition(case, gone)
    assert report.rows == report.replay.registers["results"] == rows.total() > 10


def test_spark_accounts_for_evictions(
    designs: Designs, spark: SparkSession, tmp_path: Path
) -> None:
    case = case_of(DESIGNS[EVICTING][0])
    out, evicted, golden = (tmp_path / f"{each}.parquet" for each in ("out", "evicted", "golden"))
    prepared = case.prepare(tmp_path / "input")
    simulate(designs(EVICTING), prepared, out, evicted=evicted, sim="icarus")
    truth = run_golden(case.query, prepared, golden, spark=spark, evictions=evicted)
    assert truth.misreported == 0
    assert compare(out, golden).verdict == "equal"

    table = pq.read_table(evicted)
    counts = [1 + count for count in table["_count"].to_pylist()]
    wrong = table.set_column(table.column_names.index("_count"), "_count", [counts])
    pq.write_table(wrong, evicted)
    truth = run_golden(case.query, prepared, golden, spark=spark, evictions=evicted)
    assert truth.misreported == len(table)


# Settings.


def test_smaller_windows_at_run_time(designs: Designs, tmp_path: Path) -> None:
    query, design = DESIGNS["runtime"][0], designs("runtime")
    top = Design(design).top
    case = case_of(query, 400)
    for values in ({"rows": 3, "slide": 3}, {"rows": 5}, {"slide": 1}):
        meant, writes = change(query, top, values)
        check(AggregateCase(meant, case.tuples), design, tmp_path, sim="icarus", writes=writes)
    _, writes = change(query, top, {"rows": 3})  # the built SLIDE is 4
    out = tmp_path / "out.parquet"
    report = simulate(design, tmp_path / "input", out, sim="icarus", writes=writes)
    assert case.rows_of(pq.read_table(out)) == case.found[0][0]
    told = {name: report.replay.registers[name] for name in ("applied", "refused", "errors")}
    assert told == {"applied": 0, "refused": 1, "errors": 1}


def test_a_setting_after_the_first_tuple_is_refused() -> None:
    query = DESIGNS["runtime"][0]
    engine = KeyedAggregation(
        row_stream(query), [row_query(query)], levels=[Level(8)], slots=4, runtime=True
    )
    blank = {"k": 1, "x": 5}
    transfer = {"end": 0, "lanes": [{"valid": 1, "punctuation": 0, "tuple": blank}]}
    end = {"end": 1, "lanes": [{"valid": 0, "punctuation": 0, "tuple": blank}]}
    cycle = iter(range(10_000))
    told = []
    port: Any = engine

    def watch(ctx: Any) -> None:
        ctx.set(port.set_rows, 2)
        ctx.set(port.set_slide, 2)
        ctx.set(port.apply, next(cycle) == 12)
        if ctx.get(port.apply):
            told.append([ctx.get(each) for each in (port.applied, port.refused, port.errors)])

    run = run_stream(engine, {"i": [*[transfer] * 10, end]}, watch=watch)
    assert told == [[0, 1, 1 << KeyedAggregation.SETTING]]
    assert [each["end"] for each in run.outputs["o"]] == [0, 0, 1]  # after 6 and 10 tuples


# What is refused.

SCHEMA = Schema((Field("k", IntType(4)), Field("x", IntType(8))))
STREAM = RowStream("a", SCHEMA, ("k",))
COUNT = RowQuery(None, (Aggregate("n", "count"),), 4, 2)
TIMELY = PaneQuery(None, (Aggregate("n", "count"),), 4, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RowStream("a", SCHEMA, ("j",)), "The tuples carry no column a.j"),
        (
            lambda: RowStream("a", SCHEMA, ()),
            "Row windows per key need at least one key column",
        ),
        (lambda: RowQuery(None, (), 0, 1), "ROWS must be a positive integer, not 0"),
        (lambda: RowQuery(None, (), 4, 0), "SLIDE must be a positive integer, not 0"),
        (
            lambda: RowQuery(None, (), 4, 6),
            "SLIDE 6 is more than ROWS 4, so that some tuples would be in no window; make it at "
            "most as many",
        ),
        (
            lambda: KeyedAggregation(STREAM, [COUNT] * 2, levels=[Level(4)], slots=4),
            "An engine of row windows takes one query, not 2",
        ),
        (
            lambda: KeyedAggregation(STREAM, [COUNT], levels=[Level(4)], slots=4, runtime=2),
            "Runtime must be true or false, not 2",
        ),
        (
            lambda: TimedAggregation(
                PaneStream("a", SCHEMA, "x", 0, ("k",)),
                [TIMELY] * 2,
                levels=[Level(4)],
                rows=4,
                slots=4,
            ),
            "Windows of time on queues take one query, not 2",
        ),
        (
            lambda: TimedAggregation(
                PaneStream("a", SCHEMA, "x"), [TIMELY], levels=[Level(4)], rows=4, slots=4
            ),
            "Windows of time on queues need at least one key column",
        ),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


@pytest.mark.parametrize(
    ("query", "settings", "message"),
    [
        (keyed_query(4, 2), {"keys": 0}, "engine mlq: The keys must be a positive integer, not 0"),
        (
            sliding_query((4, 2), by="k"),
            {"rows": 0},
            "engine mlq: The most rows of a key must be a positive integer, not 0",
        ),
        (keyed_query(4, 2), {"ways": 3}, "engine mlq: Ways must be a power of two, not 3"),
        (
            keyed_query(1, 1),
            {"levels": "bram+dram"},
            "A window of 1 row takes one level; nearest that would fit: levels=dram",
        ),
        (
            keyed_query(1000, 1),
            {"levels": "bram"},
            "Level bram has 524288 bytes, and windows of 1000 rows for 1024 keys take 3096576; "
            "nearest that would fit: keys=128 or rows=160",
        ),
        (
            keyed_query(8, 1),
            {"levels": "bram+dram", "keys": 1 << 20},
            "Level bram has 524288 bytes, and one value for each of 1048576 keys takes 4194304; "
            "nearest that would fit: keys=131072, or levels=dram",
        ),
    ],
)
def test_plans_that_do_not_fit(query: Query, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(JoineryError, match=f"^{re.escape(message)}$"):
        plan(query, "mlq", settings).build()


def test_a_board_has_no_memories_outside(tmp_path: Path) -> None:
    message = (
        "case.cql has no board: it leaves memories outside, and boards have block RAM; try --set "
        "levels=bram"
    )
    chosen = plan(keyed_query(6, 2), None, {"levels": "bram+dram"})
    with pytest.raises(JoineryError, match=f"^{re.escape(message)}$"):
        generate_board(chosen, tmp_path, cycles_per_bit=8)


@pytest.mark.parametrize(
    ("keys", "rows", "levels"),
    [(16, 20, "bram"), (4096, 100, "bram+dram"), (1 << 20, 1000, "dram")],
)
def test_the_least_levels_that_fit(keys: int, rows: int, levels: str) -> None:
    chosen = plan(keyed_query(rows, 10), None, {"keys": keys})
    assert chosen.predict({})["memory"]["levels"] == levels


def test_what_is_predicted() -> None:
    settings = {"levels": "bram+qdr+dram", "keys": 1 << 17}
    top = describe(plan(keyed_query(64, 64), None, settings))
    memory = top["predicted"]["memory"]
    assert list(memory["values"]) == list(memory["bytes"]) == ["bram", "qdr", "dram"]
    assert memory["values"]["dram"] >= 64
    assert top["predicted"]["cycles"]["per_transfer"] == pytest.approx(
        max(1, *(1 / each for each in memory["throughput"].values())), abs=0.01
    )
