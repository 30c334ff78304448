"""The `joinery` command from end to end: small data, both simulators, Spark, and every report."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from joinery_cli import bench, bench_replay, common, demo
from joinery_cli.main import cli
from joinery_gen.data import prepare
from joinery_tb.toolchain import SIMULATORS

QUERY = """\
CREATE STREAM orders (item SMALLINT, price DECIMAL(6,2), time TIMESTAMP(s));
CREATE STREAM offers (item SMALLINT, cost DECIMAL(6,2), time TIMESTAMP(s));

SELECT o.item, o.price, f.cost
FROM orders [ROWS 6] AS o, offers [ROWS 4] AS f
WHERE o.item = f.item AND o.price >= f.cost;
"""
PROMISED = {
    *("query", "engine", "parameters", "simulator", "tuples_in", "hardware_rows", "golden_rows"),
    *("missing", "extra", "duplicated", "late_hardware", "late_golden"),
    *("cycles", "predicted_cycles", "verdict"),
}
JOINERY = Path(sys.executable).parent / "joinery"

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    return lambda *arguments: CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture
def lent_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that would start Spark and stop it get the session of the tests."""

    lent = SimpleNamespace(newSession=spark.newSession, stop=lambda: None)
    monkeypatch.setattr("joinery_gen.golden.session.start_spark", lambda master=None: lent)


def make_rows(seed: int, count: int) -> list[tuple[int, int, int]]:
    """Rows of item, price in cents and time, in order of time."""
    source = Random(seed)
    times = sorted(source.sample(range(10 * count), count))
    return [(source.randrange(4), source.randrange(1000), each) for each in times]


def write_csv(path: Path, price: str, rows: list[tuple[int, int, int]]) -> None:
    lines = [f"{item},{cents / 100:.2f},{second}" for item, cents, second in rows]
    path.write_text("\n".join([f"item,{price},time", *lines]) + "\n")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a query and its data, and nothing else; it is the working one."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "small.cql").write_text(QUERY)
    write_csv(folder / "orders.csv", "price", make_rows(1, 60))
    write_csv(folder / "offers.csv", "cost", make_rows(2, 50))
    monkeypatch.chdir(folder)
    return folder


DATA = ("--data", "orders=orders.csv", "--data", "offers=offers.csv")


def expected_rows() -> int:
    """Count the pairs by the definition of row windows."""
    arrivals = [("order", row) for row in make_rows(1, 60)]
    arrivals += [("offer", row) for row in make_rows(2, 50)]
    arrivals.sort(key=lambda each: (each[1][2], each[0] == "offer"))
    windows: dict[str, list[tuple[int, int, int]]] = {"order": [], "offer": []}
    count = 0
    for stream, row in arrivals:
        other = "offer" if stream == "order" else "order"
        for met in windows[other]:
            order, offer = (row, met) if stream == "order" else (met, row)
            count += order[0] == offer[0] and order[1] >= offer[1]
        windows[stream] = [*windows[stream], row][-6 if stream == "order" else -4 :]
    return count


# All the way.


@pytest.mark.parametrize("sim", SIMULATORS)
@pytest.mark.parametrize("engine", ["nested_loop", "handshake"])
@pytest.mark.usefixtures("lent_spark", "shop")
def test_verify(run: Run, engine: str, sim: str) -> None:
    done = run("verify", "small.cql", *DATA, "--engine", engine, "--sim", sim, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() >= PROMISED
    assert (found["query"], found["engine"], found["simulator"]) == ("small", engine, sim)
    assert (found["tuples"], found["tuples_in"]) == ({"o": 60, "f": 50}, 110)
    assert found["hardware_rows"] == found["golden_rows"] == expected_rows() > 20
    assert [found[key] for key in ("missing", "extra", "duplicated")] == [0, 0, 0]
    assert [found[key] for key in ("late_hardware", "late_golden")] == [0, 0]
    assert abs(found["cycles"] - found["predicted_cycles"]) <= 0.02 * found["cycles"]
    assert (found["verdict"], found["error"], found["differences"]) == ("equal", None, [])


BIDS = """\
CREATE STREAM bids (item UINT(4), price DECIMAL(6,2), time TIMESTAMP(s));
SELECT time, count(*), avg(price) FROM bids [RANGE 60 SECONDS SLIDE 20 SECONDS WATTR time
SLACK 30 SECONDS];
SELECT time, max(price) AS top FROM bids [RANGE 30 SECONDS SLIDE 30 SECONDS WATTR time
SLACK 30 SECONDS] WHERE item <> 3;
"""


@pytest.mark.usefixtures("lent_spark")
def test_two_selects_in_disorder(run: Run, shop: Path) -> None:
    """Tuples come up to 100 seconds late, and now and then a punctuation, marked in a column."""
    (shop / "bids.cql").write_text(BIDS)
    draw = Random(3)
    rows = [f"{n % 4},{n}.25,{9 * n - draw.randrange(100)},{n % 11 == 5}" for n in range(200)]
    (shop / "bids.csv").write_text("\n".join(["item,price,time,done", *rows]))
    options = ("--data", "bids=bids.csv", "--punctuation", "done", "--sim", "icarus")
    done = run("verify", "bids.cql", *options, "--set", "lanes=2", "--keep", "kept", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["query"] for one in found] == ["bids_1", "bids_2"]
    assert [one["verdict"] for one in found] == ["equal", "equal"]
    assert all(one["hardware_rows"] == one["golden_rows"] > 20 for one in found)
    assert all(one["late_hardware"] == one["late_golden"] > 5 for one in found)
    assert {(one["tuples_in"], one["punctuations"]) for one in found} == {(182, 18)}
    cycles = found[0]["cycles"]
    assert abs(found[0]["predicted_cycles"] - cycles) <= 0.02 * cycles
    for number in (1, 2):
        files = (f"kept/out.parquet/bids_{number}.parquet", f"kept/golden{number}.parquet")
        assert run("compare", *files).exit_code == 0
    done = run("sim", "bids.cql", *options, "-o", "rows")
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in (shop / "rows").iterdir()) == [
        "bids_1.parquet",
        "bids_2.parquet",
    ]
    done = run("golden", "bids.cql", *options[:-2], "-o", "golden", "--json")
    assert [one["rows"] for one in json.loads(done.stdout)] == [one["golden_rows"] for one in found]
    (shop / "rows" / "notes.txt").write_text("mine")
    assert run("sim", "bids.cql", *options, "-o", "rows").exit_code == 2


@pytest.mark.usefixtures("lent_spark")
def test_verify_keeps_and_reuses(run: Run, shop: Path) -> None:
    options = ("--sim", "icarus", "--keep", "kept", "--limit", 40, "--stall-out", 0.3)
    done = run("verify", "small.cql", *DATA, *options)
    assert done.exit_code == 0, done.stderr
    assert re.search(r"^ +verdict +equal$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +tuples_in +40$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +predicted_cycles +-$", done.stdout, re.MULTILINE)
    kept = sorted(path.name for path in (shop / "kept").iterdir())
    assert kept == ["design", "golden.parquet", "input", "out.parquet"]
    assert run("compare", "kept/out.parquet", "kept/golden.parquet").exit_code == 0
    again = run("verify", "small.cql", *DATA, *options, "--verilog", "kept/design", "--json")
    assert json.loads(again.stdout)["tuples_in"] == 40


@pytest.mark.usefixtures("lent_spark")
def test_sim_golden_compare(run: Run, shop: Path) -> None:
    done = run("sim", "small.cql", *DATA, "-o", "out.parquet", "--sim", "icarus", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["rows"], report["tuples_in"]) == (expected_rows(), 110)
    assert {"cycles", "stalls_in", "stalls_out", "registers"} <= report.keys()
    done = run("golden", "small.cql", *DATA, "-o", "golden.parquet", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == expected_rows()
    done = run("compare", "out.parquet", "golden.parquet")
    rows = expected_rows()
    counts = f"{rows} rows from the hardware, {rows} golden; 0 missing, 0 extra, 0 duplicated"
    assert (done.exit_code, done.stdout) == (0, f"equal: {counts}\n")
    # Only what was asked for is left.
    made = {"out.parquet", "golden.parquet"}
    assert {path.name for path in shop.iterdir()} == made | {
        "small.cql",
        "orders.csv",
        "offers.csv",
    }


@pytest.mark.usefixtures("lent_spark", "shop")
def test_wrong_rows_are_found(run: Run) -> None:
    """One changed, one removed and one doubled row of a real output."""
    for command, out in (("sim", "out.parquet"), ("golden", "golden.parquet")):
        options = ("--sim", "icarus") if command == "sim" else ()
        assert run(command, "small.cql", *DATA, "-o", out, *options).exit_code == 0
    good = pq.read_table("out.parquet")
    rows = good.to_pylist()
    changed = [*rows[:5], rows[5] | {"item": 77}, *rows[6:]]
    for wrong, counts, shown in (
        (changed, (1, 1, 0), [f"row 5: item 77 instead of {rows[5]['item']}", "left_arrival"]),
        (rows[:7] + rows[8:], (1, 0, 0), [str(rows[7]["cost"]), "left_arrival"]),
        ([*rows, rows[9] | {"_row": 500}], (0, 0, 1), [str(rows[9]["cost"]), "500"]),
    ):
        pq.write_table(pa.Table.from_pylist(wrong, schema=good.schema), "wrong.parquet")
        done = run("compare", "wrong.parquet", "golden.parquet", "--json")
        found = json.loads(done.stdout)
        assert done.exit_code == 1
        assert (found["missing"], found["extra"], found["duplicated"]) == counts
        assert found["verdict"] == "different"
        done = run("compare", "wrong.parquet", "golden.parquet")
        assert done.exit_code == 1
        assert done.stdout.startswith("different: ")
        assert [text for text in shown if text not in done.stdout] == []


@pytest.mark.usefixtures("lent_spark")
def test_golden_leaves_other_folders_alone(run: Run, shop: Path) -> None:
    (shop / "mine").mkdir()
    done = run("golden", "small.cql", *DATA, "-o", "mine")
    text = rf"joinery: {shop}/mine exists and is not a golden result; it is left alone, .*\n"
    assert re.fullmatch(text, done.stderr)
    assert done.exit_code == 2
    assert list((shop / "mine").iterdir()) == []


FAULTS = {
    "inverted comparison": [
        (r"(\$signed\(i\[\d+:\d+\]\)) >= (\$signed\(i\[\d+:\d+\]\))", r"\1 < \2"),
    ],
    "dropped valid": [
        (r"\.(\w+)\(m_axis_tvalid\)", r".\1(offered)"),
        (
            r"wire m_axis_tvalid;",
            "wire m_axis_tvalid, offered; "
            "assign m_axis_tvalid = offered & (m_axis_tlast | ~m_axis_tdata[{bit}]);",
        ),
    ],
    "unknown valid": [(r"\.(\w+)\(s_axis_tvalid\)", r".\1(1'bx)")],
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("lent_spark")
def test_faults_in_verilog_are_caught(run: Run, shop: Path, fault: str) -> None:
    assert run("gen", "small.cql", "-o", "design", "--set", "cores=2").exit_code == 0
    top = json.loads((shop / "design/top.json").read_text())
    bit = next(each for each in top["output"]["fields"] if each["column"] == "item")["offset"]
    text = (shop / "design/top.v").read_text()
    for pattern, by in FAULTS[fault]:
        text, count = re.subn(pattern, by.replace("{bit}", str(bit)), text)
        assert count == 1, "the generated Verilog looks different; put the fault in another way"
    (shop / "design/top.v").write_text(text)
    done = run("verify", "small.cql", *DATA, "--verilog", "design", "--sim", "icarus", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found.keys() >= PROMISED
    if fault == "unknown valid":
        assert found["verdict"] == "failed"
        assert found["error"] == "The design put unknown bits (x) on its interface"
        assert done.stderr.endswith(f"joinery: small: {found['error']}\n")
        return
    assert found["verdict"] == "different", found["error"]
    assert found["missing"] > 0
    assert (found["extra"] > 0) == (fault == "inverted comparison")
    assert {each["kind"] for each in found["differences"]} >= {"missing"}


@pytest.mark.usefixtures("lent_spark")
def test_bad_rows_are_dropped_and_told(run: Run, shop: Path) -> None:
    with (shop / "offers.csv").open("a") as file:
        file.write("1,cheap,999\n")
    options = ("--sim", "icarus", "--on-bad-row", "drop", "--json")
    done = run("verify", "small.cql", *DATA, *options)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["dropped"] == {"o": 0, "f": 1}


@pytest.mark.usefixtures("lent_spark")
def test_demo(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        demo, "DEMO", {"small.cql": DATA[1::2], str(shop / "small.cql"): DATA[1::2]}
    )
    done = run("demo")
    assert done.exit_code == 0, done.stderr
    assert re.search(r"^ +small +small$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +duplicated +0 +0$", done.stdout, re.MULTILINE)


# Before anything runs.


def test_gen_and_plan(run: Run, shop: Path) -> None:
    done = run("gen", "small.cql", "-o", "design", "--set", "cores=3", "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    top = json.loads((shop / "design/top.json").read_text())
    assert told["parameters"] == top["parameters"]
    assert told["parameters"]["cores"] == 3
    assert told["files"]["top.v"] == (shop / "design/top.v").stat().st_size
    done = run("plan", "small.cql", "--set", "cores=3", "--json")
    planned = json.loads(done.stdout)
    assert (planned["engine"], planned["parameters"]) == ("handshake", told["parameters"])
    assert planned["predicted"]["cycles"]["per_left"] == 2  # 4 offers, 3 cores
    assert planned["predicted"]["cycles"]["per_right"] == 2  # 6 orders, 3 cores
    text = run("plan", "small.cql", "--engine", "nested_loop").stdout
    assert re.search(r"^ +cycles, per_right +6$", text, re.MULTILINE)


def test_queries_of_the_repository_have_names(run: Run, shop: Path) -> None:
    assert json.loads(run("plan", "tick_band", "--json").stdout)["query"] == "tick_band"
    (shop / "tick_band").write_text(QUERY)  # a file of one's own comes first
    assert json.loads(run("plan", "tick_band", "--json").stdout)["parameters"]["cores"] == 4


def test_data(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOINERY_CACHE", str(tmp_path))
    sets = {each["name"]: each for each in json.loads(run("data", "--json").stdout)}
    assert sets["flights"]["rows"] == {"flights": 336_776}
    assert sets["flights"]["licence"] == "CC0"
    assert sets["flights"]["cached"] is False
    listed = run("data").stdout
    assert re.search(r"^ +ticks +trades +500,000 +1\.4 MB +no +MIT", listed, re.MULTILINE)
    shown = json.loads(run("data", "show", "ticks", "--json").stdout)
    declared = {each["name"]: each["declaration"] for each in shown["streams"]}
    assert declared["up"].startswith("CREATE STREAM up (time TIMESTAMP(ms), ")
    assert declared["up"] in run("data", "show", "ticks").stdout.splitlines()


def test_data_get(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joinery_gen.data.get_set", lambda name, progress: tmp_path / name)
    assert run("data", "get", "bus", "taxi").stdout == f"{tmp_path}/bus\n{tmp_path}/taxi\n"
    told = json.loads(run("data", "get", "bus", "--json").stdout)
    assert told == [{"name": "bus", "folder": f"{tmp_path}/bus"}]


def test_choices_are_those_of_the_library() -> None:
    assert common.SIMULATORS == SIMULATORS


# Benchmarks.


def fake_bench(rows: int = 3, word: str = "a") -> list[dict[str, Any]]:
    return [
        {"row": at, "word": word, "same": rows < 9, "tool_version": "1.2"} for at in range(rows)
    ]


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bench.BENCHES, "replay", ("fake:it", "nothing"))
    monkeypatch.setattr(bench, "load", lambda name: fake_bench)


@pytest.mark.usefixtures("benches")
def test_bench(run: Run) -> None:
    done = run("bench", "replay", "--json", "--set", "rows=2", "--set", "word=b")
    assert (done.exit_code, json.loads(done.stdout)) == (0, fake_bench(2, "b"))
    done = run("bench", "replay")
    assert re.search(r"^ +row +word +same$", done.stdout, re.MULTILINE)
    assert re.search(r"\btool 1\.2\b", done.stdout)
    assert run("bench", "replay", "--set", "rows=9").exit_code == 1


def test_every_bench_can_be_loaded() -> None:
    for name in bench.BENCHES:
        assert callable(bench.load(name))


def test_bench_replay_on_a_generated_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, seed in (("up", 1), ("down", 2)):
        rows = [
            f"{100 + cents / 100:.2f},{20 + item},{t}" for item, cents, t in make_rows(seed, 50)
        ]
        (tmp_path / f"{stream}.csv").write_text("\n".join(["price,volume,time", *rows]))

    def prepare_small(query: Any, data: list[str], out: Path, limit: int) -> None:
        assert data == ["ticks"]
        files = [f"{stream}={tmp_path}/{stream}.csv" for stream in ("up", "down")]
        prepare(query, files, out, limit=limit)

    monkeypatch.setattr(bench_replay, "prepare", prepare_small)
    rows = bench_replay.bench_generated(tuples=60, sim="icarus", repeats=1)
    assert [(row["driver"], row["cores"], row["tuples"]) for row in rows] == [
        ("cocotb", 16, 60),
        ("replay", 16, 60),
    ]
    assert rows[0]["cycles"] == rows[1]["cycles"] > 0
    assert rows[1]["speedup"] > 0


# The process.


def test_help_is_light() -> None:
    code = (
        "import sys, joinery_cli.main; print(sorted({'amaranth', 'cocotb', 'numpy', 'pyarrow', "
        "'pyspark', 'rich', 'sqlglot', 'joinery', 'joinery_gen', 'joinery_tb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("command", ["", *cli.commands, "data get", "data show"])
def test_help_has_an_example(run: Run, command: str) -> None:
    done = run(*command.split(), "--help")
    assert done.exit_code == 0
    assert re.search(rf"^  Examples?:\n    joinery {command}", done.stdout, re.MULTILINE)


def test_broken_pipe_is_quiet() -> None:
    with subprocess.Popen(
        [JOINERY, "data"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_interrupt_leaves_nothing(shop: Path, tmp_path: Path) -> None:
    (shop / "small.cql").write_text(
        QUERY.replace("ROWS 6", "ROWS 600").replace("ROWS 4", "ROWS 400")
    )
    write_csv(shop / "orders.csv", "price", make_rows(1, 20_000))
    before = set(shop.iterdir())
    work = tmp_path / "work"
    work.mkdir()
    # Where tests run in the background, a shell has Ctrl-C ignored, and that is inherited.
    command = ["env", "--default-signal=INT"]
    command += [JOINERY, "verify", "small.cql", *DATA, "--engine", "nested_loop", "--sim", "icarus"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(work)},
    ) as process:
        while not list(work.glob("joinery-verify-*/.joinery-*/.joinery-*/results")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert out == ""
    assert re.fullmatch(
        r"(small: \w+ \.\.\.\n|building simulator for \S+ \(icarus\) \.\.\.\n)+", error
    )
    assert list(work.iterdir()) == []
    assert set(shop.iterdir()) == before
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [each for each in running if str(work).encode() in each]
