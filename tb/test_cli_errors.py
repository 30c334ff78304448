"""Wrong input and wrong options: each is told by its own message, with exit code 2."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from joinery_cli.bench import BENCHES
from joinery_cli.common import QUERIES
from joinery_cli.main import cli

QUERY = """\
CREATE STREAM orders (item SMALLINT, price DECIMAL(6,2), time TIMESTAMP(s));
CREATE STREAM offers (item SMALLINT, cost DECIMAL(6,2), time TIMESTAMP(s));

SELECT o.item, o.price, f.cost
FROM orders [ROWS 6] AS o, offers [ROWS 4] AS f
WHERE o.item = f.item;
"""
OTHER = QUERY.replace("ROWS 6", "ROWS 7")
DATA = ("--data", "orders=orders.csv", "--data", "offers=offers.csv")


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a query, good and bad data, and files that are not Joinery's."""
    files = {
        "small.cql": QUERY,
        "other.cql": OTHER,
        "wrong.cql": QUERY.replace("o.item = f.item", "o.item = f.thing"),
        "last.cql": "CREATE STREAM x (k INT, v INT);\n"
        "SELECT k, max(v) FROM x [PARTITION BY k ROWS 64];\n",
        "average.cql": "CREATE STREAM x (v INT, t TIMESTAMP(s));\n"
        "SELECT t, avg(v) AS mean FROM x [RANGE 10 SECONDS SLIDE 5 SECONDS WATTR t];",
        "orders.csv": "item,price,time\n1,2.50,10\n2,3.50,11\n",
        "offers.csv": "item,cost,time\n1,1.00,10\n",
        "bad.csv": "item,price,time\n1,2.50,10\n2,cheap,11\n",
        "table.txt": "item\n1\n",
        "foreign/top.v": "module top; endmodule\n",
        "precious.parquet/mine": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    pq.write_table(pa.table({"item": [1]}), tmp_path / "mine.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(arguments: Sequence[str]) -> Result:
    return CliRunner().invoke(cli, list(arguments))


SIM = ("sim", "small.cql", *DATA, "--sim", "icarus", "-o")
VERIFY = ("verify", "small.cql", "--sim", "icarus")

WRONG_INPUT = {
    "no query": (
        ["plan", "none.cql"],
        "The query none.cql cannot be read: No such file or directory",
    ),
    "close to a query": (
        ["plan", "order_taxis"],
        "There is neither a file nor a query 'order_taxis'; did you mean order_taxi?",
    ),
    "far from any query": (
        ["plan", "%"],
        "There is neither a file nor a query '%'; queries are "
        + ", ".join(sorted(path.stem for path in QUERIES.glob("*.cql"))),
    ),
    "query error": (
        ["plan", "wrong.cql"],
        "wrong.cql:6:18: There is no column f.thing; f has item, cost, time\n"
        "  WHERE o.item = f.thing;\n"
        "                   ^",
    ),
    "unknown engine": (
        ["gen", "small.cql", "-o", "new", "--engine", "handshak"],
        "There is no engine 'handshak'; these exist: handshake, nested_loop, fjoin, fjoin_paper, "
        "panes, wid, glacier, mlq. "
        "Did you mean handshake?",
    ),
    "windows too large for the memory": (
        ["plan", "last.cql", "--set", "levels=bram", "--set", "keys=65536"],
        "Level bram has 524288 bytes, and windows of 64 rows for 65536 keys take 16777216; "
        "nearest that would fit: keys=2048",
    ),
    "no such memory": (
        ["plan", "last.cql", "--set", "levels=sram"],
        "There is no memory 'sram'; levels are of bram, qdr, dram",
    ),
    "levels in another order": (
        ["plan", "last.cql", "--set", "levels=dram+bram"],
        "Levels are the fastest first, each once, such as bram+qdr+dram, not dram+bram",
    ),
    "engine for another window": (
        ["plan", "average.cql", "--engine", "handshake"],
        "engine handshake takes a join over row windows or a join over time windows, "
        "and average is an aggregate over time windows",
    ),
    "too many cores": (
        ["plan", "small.cql", "--set", "cores=5"],
        "engine handshake: Cores must be 1 to 4, the smaller window's rows, not 5",
    ),
    "a word for a number": (
        ["plan", "small.cql", "--set", "cores=many"],
        "engine handshake: cores must be a whole number, not 'many'",
    ),
    "design folder is a file": (
        ["gen", "small.cql", "-o", "orders.csv"],
        "orders.csv is a file; name a folder for the design",
    ),
    "design folder is another's": (
        ["gen", "small.cql", "-o", "foreign"],
        "foreign holds a top.v that is not Joinery's; it is left alone, name another folder",
    ),
    "no stream of that name": (
        [*VERIFY, "--data", "order=orders.csv"],
        "--data order=orders.csv: the query reads no stream order; it reads orders, offers",
    ),
    "no data for a stream": (
        [*VERIFY, "--data", "orders=orders.csv"],
        "There is no data for offers (as f): give --data offers=PATH",
    ),
    "no data file": (
        [*VERIFY, *DATA[:2], "--data", "offers=none.csv"],
        "none.csv: there is no such file",
    ),
    "bad value": (
        [*VERIFY, "--data", "orders=bad.csv", *DATA[2:]],
        "bad.csv: row 2, price: 'cheap' is not a decimal number (DECIMAL(6,2))",
    ),
    "no order column": (
        [*VERIFY, *DATA, "--order-by", "x.time"],
        "--order-by x.time: the query has no source x; it has o, f",
    ),
    "output in no folder": (
        [*SIM, "none/out.parquet"],
        "none/out.parquet can't be written: {here}/none is not a folder one can write to",
    ),
    "output is a folder": ([*SIM, "foreign"], "foreign is a folder; name a file for the rows"),
    "output is another's file": (
        [*SIM, "mine.parquet"],
        "mine.parquet exists and is no result of a simulation; it is left alone, "
        "name another place",
    ),
    "output is another's text": (
        [*SIM, "table.txt"],
        "table.txt exists and is no result of a simulation; it is left alone, name another place",
    ),
    "no result": (
        ["compare", "none.parquet", "mine.parquet"],
        "none.parquet: there is no such file or folder",
    ),
    "result is no Parquet": (
        ["compare", "mine.parquet", "table.txt"],
        "table.txt is not Parquet",
    ),
    "no design": (
        [*VERIFY, *DATA, "--verilog", "precious.parquet"],
        "precious.parquet holds no top.v; write one with: "
        "joinery gen QUERY -o precious.parquet",
    ),
    "design and engine": (
        [*VERIFY, *DATA, "--verilog", "foreign", "--engine", "nested_loop"],
        "The design in foreign has its engine and parameters already; "
        "leave out --engine and --set",
    ),
    "no data set": (
        ["data", "get", "flihgts"],
        "There is no data set named flihgts (did you mean flights?); the sets are: taxi, bus, "
        "ticks, aircraft, flights, weather, packets, many_flights",
    ),
    "no parameter of a bench": (
        ["bench", "replay", "--set", "cycles=4"],
        "bench replay has no parameter 'cycles'; it has tuples, cores, sim, repeats",
    ),
    "a word for a bench's number": (
        ["bench", "replay", "--set", "tuples=few"],
        "bench replay: tuples must be a whole number, not 'few'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_INPUT)
def test_wrong_input(shop: Path, case: str) -> None:
    before = sorted(shop.rglob("*"))
    arguments, message = WRONG_INPUT[case]
    done = run(arguments)
    text = re.escape(message.format(here=shop) if "{here}" in message else message)
    assert re.search(rf"(?:^|\n)joinery: {text}\n$", done.stderr), done.stderr
    assert (done.exit_code, done.stdout) == (2, "")
    assert sorted(shop.rglob("*")) == before, "something was left behind"


WRONG_OPTIONS = {
    "setting without a value": (
        ["plan", "small.cql", "--set", "cores"],
        "Invalid value for '--set': 'cores' is not NAME=VALUE, such as cores=64",
    ),
    "setting given twice": (
        ["plan", "small.cql", "--set", "cores=2", "--set", "cores=4"],
        "Invalid value for '--set': cores is set twice",
    ),
    "no such simulator": (
        [*VERIFY[:2], *DATA, "--sim", "modelsim"],
        "Invalid value for '--sim': 'modelsim' is not one of 'verilator', 'icarus'.",
    ),
    "no data at all": (VERIFY, "Missing option '--data'."),
    "stall beyond a probability": (
        [*VERIFY, *DATA, "--stall-in", "1"],
        "Invalid value for '--stall-in': 1.0 is not in the range 0<=x<1.",
    ),
    "limit of nothing": (
        [*VERIFY, *DATA, "--limit", "0"],
        "Invalid value for '--limit': 0 is not in the range x>=1.",
    ),
    "nothing to do about bad rows": (
        [*VERIFY, *DATA, "--on-bad-row", "mend"],
        "Invalid value for '--on-bad-row': 'mend' is not one of 'stop', 'drop'.",
    ),
    "no such bench": (
        ["bench", "lunch"],
        "Invalid value for 'NAME': 'lunch' is not one of "
        f"{', '.join(map(repr, [*BENCHES, 'all']))}.",
    ),
    "no output named": (["gen", "small.cql"], "Missing option '-o' / '--out'."),
    "no such command": (["verfy"], r"No such command 'verfy'."),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_wrong_options(case: str) -> None:
    arguments, message = WRONG_OPTIONS[case]
    done = run(arguments)
    assert re.search(rf"\nError: {re.escape(message)}", done.stderr), done.stderr
    assert done.stderr.startswith("Usage: ")
    assert (done.exit_code, done.stdout) == (2, "")


def test_unknown_parameter_of_an_engine() -> None:
    done = run(["plan", "small.cql", "--set", "core=2"])
    text = r"joinery: engine handshake has no parameter 'core'; it has cores, .*\n"
    assert re.fullmatch(text, done.stderr)
    assert done.exit_code == 2


def test_design_of_another_query() -> None:
    assert run(["gen", "other.cql", "-o", "design"]).exit_code == 0
    done = run([*VERIFY, *DATA, "--verilog", "design"])
    text = (
        r"small: generate \.\.\.\njoinery: design holds the design of another query, other "
        r"\([0-9a-f]{16}, not [0-9a-f]{16}\); write the one of small with: "
        r"joinery gen QUERY -o design\n"
    )
    assert re.fullmatch(text, done.stderr), done.stderr
    assert done.exit_code == 2


def test_golden_of_another_query(shop: Path) -> None:
    assert run([*SIM, "out.parquet"]).exit_code == 0
    (shop / "golden").mkdir()
    pq.write_table(pq.read_table("out.parquet"), shop / "golden" / "part.parquet")
    (shop / "golden" / "_joinery.json").write_text(json.dumps({"query": "f" * 16}))
    done = run(["compare", "out.parquet", "golden"])
    text = (
        r"joinery: out\.parquet and golden come from different queries "
        r"\([0-9a-f]{16} and f{16}\); make both from the same one\n"
    )
    assert re.fullmatch(text, done.stderr), done.stderr
    assert done.exit_code == 2


def test_golden_of_other_data(shop: Path) -> None:
    assert run([*SIM, "out.parquet"]).exit_code == 0
    facts = json.loads(pq.read_schema("out.parquet").metadata[b"joinery"])
    (shop / "golden").mkdir()
    pq.write_table(pq.read_table("out.parquet"), shop / "golden" / "part.parquet")
    for data, code in ((facts["data"], 0), ("f" * 64, 2)):
        mark = {"query": facts["query"], "data": data}
        (shop / "golden" / "_joinery.json").write_text(json.dumps(mark))
        done = run(["compare", "out.parquet", "golden"])
        assert done.exit_code == code
    text = (
        "joinery: out.parquet and golden come from different data; make both from the same, with "
        "the same --data, --limit and --order-by\n"
    )
    assert done.stderr == text


def test_design_that_cannot_be_built(shop: Path) -> None:
    assert run(["gen", "small.cql", "-o", "design"]).exit_code == 0
    (shop / "design/top.v").write_text("module top(;")
    done = run([*VERIFY, *DATA, "--verilog", "design"])
    assert "\njoinery: iverilog could not build the simulator:\n" in done.stderr
    assert (done.exit_code, done.stdout) == (2, "")


def test_verbose_shows_where(shop: Path) -> None:
    done = run(["-v", "plan", "none.cql"])
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith(
        "joinery: The query none.cql cannot be read: No such file or directory\n"
    )


def test_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: Path, text: str) -> None:
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", write)
    done = run(["gen", "small.cql", "-o", "design"])
    assert re.fullmatch(r"joinery: design/\S+: No space left on device\n", done.stderr)
    assert done.exit_code == 2
