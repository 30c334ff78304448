"""`joinery run`: a file through a card, what is told on the way, and what is refused."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from joinery_cli.main import cli
from joinery_gen.fjoin_host import DeviceError, ModelDevice

QUERY = """\
CREATE STREAM orders (item SMALLINT, time TIMESTAMP(s));
CREATE STREAM offers (item SMALLINT, time TIMESTAMP(s));

SELECT o.item, o.time, f.time AS offered
FROM orders [RANGE 9 SECONDS WATTR time] AS o, offers [RANGE 9 SECONDS WATTR time] AS f
WHERE o.item = f.item;
"""
DATA = ("--data", "orders=orders.csv", "--data", "offers=offers.csv")

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run a command, on the model of a card where nothing else is said."""

    def run(name: str, *arguments: object) -> Result:
        sim = [] if "--sim" in arguments else ["--sim", "model"]
        return CliRunner().invoke(cli, [name, *map(str, arguments), *sim])

    return run


def make_rows(seed: int, count: int) -> list[tuple[int, int]]:
    draw = Random(seed)
    return [(draw.randrange(4), time) for time in sorted(draw.sample(range(4 * count), count))]


ORDERS, OFFERS = make_rows(1, 120), make_rows(2, 100)


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.cql").write_text(QUERY)
    for name, rows in (("orders", ORDERS), ("offers", OFFERS)):
        lines = [f"{item},{time}" for item, time in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["item,time", *lines]) + "\n")
    monkeypatch.chdir(tmp_path)


def expected() -> Counter[tuple[int, int, int]]:
    return Counter(
        (item, time, offered)
        for item, time in ORDERS
        for other, offered in OFFERS
        if item == other and abs(time - offered) <= 9
    )


def rows_of(path: str) -> Counter[tuple[int, int, int]]:
    table = pq.read_table(path)
    times = (table[name].cast(pa.int64()).to_numpy() // 1_000_000 for name in ("time", "offered"))
    columns = [table["item"].to_pylist(), *(each.tolist() for each in times)]
    return Counter(zip(*columns, strict=True))


BUILT = ["lanes=2", "cluster=2"]  # the card of test_fjoin_engine


@pytest.mark.parametrize(
    ("sim", "more"),
    [
        ("model", []),
        ("model", ["sources=4", "disorder=30", "id_bits=8", "batch=20"]),
        ("verilator", ["sources=4", "disorder=30", "id_bits=8", "batch=20", *BUILT]),
    ],
)
def test_run(run: Run, sim: str, more: list[str]) -> None:
    more = [*more, "units_left=4", "units_right=6"]
    settings = [word for each in more for word in ("--set", each)]
    done = run("run", "small.cql", *DATA, *settings, "--sim", sim, "-o", "out.parquet", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert rows_of("out.parquet") == expected()
    assert (found["query"], found["engine"], found["simulator"]) == ("small", "fjoin", sim)
    assert (found["tuples"], found["tuples_in"]) == ({"o": 120, "f": 100}, 220)
    assert (found["rows"], found["in_order"]) == (expected().total(), True)
    assert found["late"] == {"o": 0, "f": 0}
    seconds = found["cycles"] / 300e6
    assert found["tuples_per_second"] == round(220 / seconds)
    assert found["latency_us"] <= found["largest_latency_us"] <= found["cycles"] / 300 + 0.1


def test_progress_is_told(run: Run) -> None:
    done = run("run", "small.cql", *DATA, "--set", "batch=11")
    assert done.exit_code == 0, done.stderr
    line = r"[\d,]+ tuples, [\d,]+ rows; card: [\d,]+ tuples/s, latency \d+ us; host: [\d,]+ tup.*"
    lines = done.stderr.splitlines()
    assert len(lines) == 10
    assert all(re.fullmatch(line, each) for each in lines)
    assert re.search(r"^ +rows +\d+$", done.stdout, re.MULTILINE)
    assert not list(Path().glob("*.parquet"))


def test_the_clock_is_only_for_the_eyes(run: Run) -> None:
    slow, fast = (
        json.loads(run("run", "small.cql", *DATA, "--frequency", mhz, "--json").stdout)
        for mhz in (100, 200)
    )
    assert slow["cycles"] == fast["cycles"]
    assert fast["latency_us"] == pytest.approx(slow["latency_us"] / 2, abs=0.1)


PARAMETERS = (
    "lanes, cluster, units_left, units_right, id_bits, time_bits, ops_per_stage, word_bytes, "
    "address_bits, burst, memory_kib"
)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (["cores=4"], f"engine fjoin has no parameter 'cores'; it has {PARAMETERS}"),
        (["sources_left=4"], f"engine fjoin has no parameter 'sources_left'; it has {PARAMETERS}"),
        (["batch=many"], "batch must be a whole number, not 'many'"),
        (["id_bits=few"], "engine fjoin: id_bits must be a whole number, not 'few'"),
        (["units_left=0"], "engine fjoin: Pipeline units must be a positive integer, not 0"),
        (["batch=0"], "batch must be at least 1, not 0"),
        (["id_bits=40"], "engine fjoin: Ids on a card have 2 to 32 bits, not 40"),
    ],
)
def test_refuses_settings(run: Run, settings: list[str], error: str) -> None:
    done = run("run", "small.cql", *DATA, *(w for each in settings for w in ("--set", each)))
    assert (done.exit_code, done.stderr) == (2, f"joinery: {error}\n")


def test_refuses_other_queries(run: Run) -> None:
    Path("rows.cql").write_text(re.sub(r"\[RANGE[^]]*\]", "[ROWS 9]", QUERY))
    done = run("run", "rows.cql", *DATA)
    error = "engine fjoin takes a join over time windows, and rows is a join over row windows"
    assert (done.exit_code, done.stderr) == (2, f"joinery: {error}\n")
    done = run("run", "ubsn_count", "--data", "trades=orders.csv")
    error = (
        "engine fjoin takes a join over time windows, and ubsn_count is an aggregate over time "
        "windows"
    )
    assert (done.exit_code, done.stderr) == (2, f"joinery: {error}\n")


def test_leaves_other_files_alone(run: Run) -> None:
    Path("out.parquet").write_text("mine")
    done = run("run", "small.cql", *DATA, "-o", "out.parquet")
    assert done.exit_code == 2
    assert "it is left alone" in done.stderr
    assert Path("out.parquet").read_text() == "mine"


def test_a_broken_card_is_a_failed_check(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DeviceError("Pipeline 0 caught fire")

    monkeypatch.setattr(ModelDevice, "start", broken)
    done = run("run", "small.cql", *DATA)
    assert (done.exit_code, done.stderr) == (1, "joinery: Pipeline 0 caught fire\n")
