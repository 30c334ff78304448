"""The replay harness: results, cycles, faults and the acceptance log, in both simulators.

It is tested on the echo, a design small enough to be obviously right, and on versions of it.
"""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery_gen.data import prepare
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError
from joinery_tb import build, replay, toolchain
from joinery_tb.accepted import write_accepted
from joinery_tb.design import Design, DesignError
from joinery_tb.echo import SOURCES, Row, echo_arrivals, echo_rows, write_echo, write_prepared
from joinery_tb.records import DATA, record_words
from joinery_tb.stalls import STALLS
from joinery_tb.words import decode, encode

SIMULATORS = ["verilator", "icarus"]

# An echo with two lanes that refuses every third transfer, and says so eight cycles later, in part
# after its end has left.
SHEDDING = {
    "wire refused = 0;": (
        "reg [1:0] turn = 0;\n"
        "reg [7:0] decided = 0, shed = 0;\n"
        "wire refused = turn == 2;\n"
        "wire decides = s_axis_tvalid && s_axis_tready && s_axis_tkeep[0];\n"
        "always @(posedge clk) begin\n"
        "  if (decides) turn <= turn == 2 ? 0 : turn + 1;\n"
        "  decided <= {decided, decides};\n"
        "  shed <= {shed, decides && refused};\n"
        "end"
    ),
    "assign log_valid = s_axis_tvalid && s_axis_tready && s_axis_tkeep[0];": (
        "assign log_valid = decided[7];"
    ),
    "assign log_refused = refused;": "assign log_refused = shed[7];",
}


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return Design(write_echo(tmp_path_factory.mktemp("echo")))


@pytest.fixture(scope="module")
def shedding(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return Design(write_echo(tmp_path_factory.mktemp("shedding"), lanes=2, changes=SHEDDING))


@pytest.fixture(scope="module")
def arrivals() -> list[tuple[str, Row]]:
    return echo_arrivals(300)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, arrivals: list[tuple[str, Row]]) -> Path:
    return write_prepared(tmp_path_factory.mktemp("prepared"), SOURCES, arrivals)


@pytest.fixture(scope="module")
def stimulus(tmp_path_factory: pytest.TempPathFactory, echo: Design, prepared: Path) -> Path:
    return encode(echo.top, prepared, tmp_path_factory.mktemp("stimulus") / "words").path


def in_transfers(arrivals: list[tuple[str, Row]]) -> list[list[tuple[str, Row]]]:
    """Put each R and an S right after it together, and all others by themselves."""
    transfers: list[list[tuple[str, Row]]] = []
    for source, row in arrivals:
        if source == "s" and transfers and transfers[-1][-1][0] == "r":
            transfers[-1].append((source, row))
        else:
            transfers.append([(source, row)])
    return transfers


def rows_without_third(arrivals: list[tuple[str, Row]]) -> list[Row]:
    """What the shedding echo gives."""
    transfers = in_transfers(arrivals)
    kept = [transfer for n, transfer in enumerate(transfers) if n % 3 != 2]
    return [row for transfer in kept for row in echo_rows(transfer)]


@pytest.mark.parametrize("sim", SIMULATORS)
def test_simulate(
    tmp_path: Path, echo: Design, prepared: Path, arrivals: list[tuple[str, Row]], sim: str
) -> None:
    report = replay.simulate(
        echo.directory, prepared, tmp_path / "out.parquet", accepted=tmp_path / "accepted", sim=sim
    )
    table = pq.read_table(tmp_path / "out.parquet")
    rows = echo_rows(arrivals)
    assert table["_row"].to_pylist() == list(range(len(rows)))
    assert table.drop_columns("_row").to_pylist() == rows
    assert report.tuples_in == len(arrivals)
    assert report.refused == {"r": 0, "s": 0}
    assert report.rows == report.replay.results == len(rows)
    assert report.replay.registers == {"identity": 0x4F484345, "results": len(rows)}
    # One cycle to take a transfer, and one more to give a result or the end.
    transfers = len(arrivals) - len(rows) + 1
    assert report.replay.beats == transfers
    assert report.replay.cycles == transfers + len(rows) + 1
    assert report.replay.stalls_in == len(rows)
    facts = json.loads(table.schema.metadata[b"joinery"])
    assert facts["simulation"]["cycles"] == report.replay.cycles
    assert facts["versions"][sim] == toolchain.version(sim)
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def read_cycles(path: Path) -> list[int]:
    return np.fromfile(path, "<u4").tolist()


@pytest.mark.parametrize("design_name", ["echo", "shedding"])
@pytest.mark.parametrize("stall_out", STALLS)
@pytest.mark.parametrize("stall_in", STALLS)
def test_replay_stalls(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    stimulus: Path,
    arrivals: list[tuple[str, Row]],
    stall_in: str,
    stall_out: str,
    design_name: str,
) -> None:
    """Stalls change no result and no decision, and both simulators agree on every number."""
    design: Design = request.getfixturevalue(design_name)
    transfers = len(in_transfers(arrivals))
    if design_name == "echo":
        expected, log = echo_rows(arrivals), bytes(transfers)
    else:
        expected, log = rows_without_third(arrivals), bytes([0, 0, 1] * transfers)[:transfers]
    reports = []
    for sim in SIMULATORS:
        report = replay.replay(
            design,
            stimulus,
            tmp_path / sim,
            log=tmp_path / "log",
            times=tmp_path,
            sim=sim,
            stall_in=STALLS[stall_in],
            stall_out=STALLS[stall_out],
            seed=5,
        )
        assert decode(design.top, tmp_path / sim).to_pylist() == expected
        assert (tmp_path / "log").read_bytes() == log
        arrived, left = (read_cycles(tmp_path / name) for name in ("arrived", "left"))
        assert len(arrived) == len(set(arrived)) == report.beats
        assert len(left) == report.results
        for cycles in (arrived, left):
            assert cycles == sorted(cycles)
            assert all(1 <= cycle <= report.cycles for cycle in cycles)
        facts = {**report.as_dict(), "arrived": arrived, "left": left}
        reports.append(
            {k: v for k, v in facts.items() if k not in ("simulator", "version", "seconds")}
        )
    assert reports[0] == reports[1]
    assert reports[0]["results"] == len(expected)
    assert reports[0]["refused"] == sum(log)
    assert (reports[0]["stalls_out"] > 0) == (stall_out != "none")


@pytest.mark.parametrize("sim", SIMULATORS)
def test_replay_of_two_streams(tmp_path: Path, echo: Design, stimulus: Path, sim: str) -> None:
    once = replay.replay(echo, stimulus, tmp_path / "once", sim=sim)
    (tmp_path / "stimulus").write_bytes(2 * stimulus.read_bytes())
    twice = replay.replay(echo, tmp_path / "stimulus", tmp_path / "twice", sim=sim)
    assert (tmp_path / "twice").read_bytes() == 2 * (tmp_path / "once").read_bytes()
    assert twice.results == 2 * once.results


# Faults. One design has them all, and does nothing wrong until a transfer without tuples names one:
# a build for each would take most of the time of these tests.

STUCK = (
    "The design is stuck: in cycle {}, after {} input transfers and {} results, nothing has moved "
    "for too long (input ready: {}, output valid: 0)"
)
UNDECIDED = "The design decided on {} input transfers, and {} were sent"
KEEP = "assign m_axis_tkeep[n*`ECHO_OUT+:`ECHO_OUT] = {`ECHO_OUT{rows[n]}};"
LOG = "assign log_valid = s_axis_tvalid && s_axis_tready && s_axis_tkeep[0];"
REPLAY_FAULTS = {
    "stuck at once": ("assign s_axis_tready = !full;", "0", STUCK.format(102, 1, 0, 0)),
    "no end": (
        "assign m_axis_tvalid = full;",
        "full && !last",
        STUCK.format("{stuck}", "{beats}", "{rows}", 1),
    ),
    "end with data": (KEEP, "{`ECHO_OUT{1'b1}}", replay.FAULTS["keep"]),
    "part of a row": (
        KEEP,
        "{`ECHO_OUT{rows[n]}} >> (n == `ECHO_LANES - 1)",
        replay.FAULTS["keep"],
    ),
    "no row": (KEEP, "{`ECHO_OUT{1'b0}}", replay.FAULTS["keep"]),
    "row with an end": ("assign m_axis_tlast = last;", "1", replay.FAULTS["keep"]),
    "two ends": (
        "last_follows <= rows_now != 0 && s_axis_tlast;",
        "s_axis_tlast",
        replay.FAULTS["extra"],
    ),
    "deaf registers": ("assign s_axil_arready = !rvalid;", "0", replay.FAULTS["register"]),
    "decides no more": (LOG, "0", UNDECIDED.format(1, "{data}")),
    "decides the end": (
        LOG,
        "s_axis_tvalid && s_axis_tready",
        UNDECIDED.format("{more}", "{data}"),
    ),
}


def write_faulty(folder: Path, lanes: int) -> Design:
    changes = {
        "wire refused = 0;": (
            "reg [3:0] fault = 0;\n"
            "always @(posedge clk)\n"
            "  if (s_axis_tvalid && s_axis_tready && s_axis_tkeep[0] && s_axis_tdata[1:0] == 0)\n"
            "    fault <= s_axis_tdata[5:2];\n"
            "wire refused = 0;"
        )
    }
    for number, (statement, wrong, _) in enumerate(REPLAY_FAULTS.values(), 1):
        found = re.fullmatch(r"(.+?) (<?=) (.+);", changes.get(statement, statement))
        assert found is not None
        target, sign, right = found.groups()
        changes[statement] = f"{target} {sign} fault == {number} ? {wrong} : {right};"
    return Design(write_echo(folder, lanes=lanes, changes=changes))


def name_fault(folder: Path, design: Design, stimulus: Path, number: int) -> Path:
    """Put the transfer that names a fault in front of ``stimulus``."""
    size = 4 * record_words(design.top["input"])
    words = DATA.to_bytes(4, "little") + (number << 2).to_bytes(size, "little")
    (folder / "stimulus").write_bytes(words + stimulus.read_bytes())
    return folder / "stimulus"


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("sim", SIMULATORS)
def test_replay_faults(
    tmp_path: Path, stimulus: Path, arrivals: list[tuple[str, Row]], sim: str, lanes: int
) -> None:
    design = write_faulty(tmp_path / "design", lanes)
    good = replay.replay(
        design, name_fault(tmp_path, design, stimulus, 0), tmp_path / "good", sim=sim
    )
    assert decode(design.top, tmp_path / "good").to_pylist() == echo_rows(arrivals)
    numbers = {
        # The end leaves in the last cycle; without it the cycle before was the last that moved.
        "stuck": good.cycles - 1 + 101,
        "beats": good.beats,
        "rows": good.results,
        "data": good.beats - 1,
        "more": good.beats,
    }
    for number, (fault, (_, _, text)) in enumerate(REPLAY_FAULTS.items(), 1):
        wrong = name_fault(tmp_path, design, stimulus, number)
        text = re.escape(text.format(**numbers))
        with pytest.raises(DesignError, match=f"^{text}$"):
            replay.replay(design, wrong, tmp_path / "results", sim=sim, patience=100)
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"design", "good", "stimulus"}, fault


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<= s_axis_tdata >> 2;", "<= {8*`ECHO_OUT{1'bx}};"),
        ("assign m_axis_tlast = last;", "assign m_axis_tlast = last ? 1'bx : 1'b0;"),
        ("assign s_axis_tready = !full;", "assign s_axis_tready = full ? 1'b0 : 1'bx;"),
        ("assign log_refused = refused;", "assign log_refused = log_valid ? 1'bx : 1'b0;"),
        (LOG, "assign log_valid = 1'bx;"),
    ],
)
def test_replay_unknown_bits(tmp_path: Path, stimulus: Path, before: str, after: str) -> None:
    """Only Icarus has unknown bits to see."""
    design = Design(write_echo(tmp_path, changes={before: after}))
    with pytest.raises(DesignError, match=f"^{re.escape(replay.FAULTS['unknown'])}$"):
        replay.replay(design, stimulus, tmp_path / "results", sim="icarus")


def test_unknown_bits_without_meaning(
    tmp_path: Path, stimulus: Path, arrivals: list[tuple[str, Row]]
) -> None:
    """A lane without a row and a log without a decision may hold anything."""
    forget = "data <= {8*`ECHO_LANES*`ECHO_OUT{1'bx}};"
    changes = {
        "full <= last_follows;": f"full <= last_follows; {forget}",
        "assign log_refused = refused;": "assign log_refused = log_valid ? 1'b0 : 1'bx;",
    }
    design = Design(write_echo(tmp_path, lanes=4, changes=changes))
    replay.replay(design, stimulus, tmp_path / "results", sim="icarus")
    assert decode(design.top, tmp_path / "results").to_pylist() == echo_rows(arrivals)


def test_replay_wrong(tmp_path: Path, echo: Design, stimulus: Path) -> None:
    with pytest.raises(JoineryError, match=r"^There is no stimulus file \S+/none$"):
        replay.replay(echo, tmp_path / "none", tmp_path / "results")
    (tmp_path / "odd").write_bytes(b"123")
    text = r"^\S+/odd is not a stimulus for this design: its size is 3 bytes, and records have 28$"
    with pytest.raises(JoineryError, match=text):
        replay.replay(echo, tmp_path / "odd", tmp_path / "results")
    text = r"^\S+/no/{} can't be written: \S+/no is not a folder one can write to$"
    with pytest.raises(JoineryError, match=text.format("results")):
        replay.replay(echo, stimulus, tmp_path / "no" / "results", sim="icarus")
    with pytest.raises(JoineryError, match=text.format("log")):
        replay.replay(
            echo, stimulus, tmp_path / "results", log=tmp_path / "no" / "log", sim="icarus"
        )


@pytest.mark.parametrize("reason", replay.TROUBLES)
def test_replay_trouble(reason: str) -> None:
    text = re.escape(replay.TROUBLES[reason])
    with pytest.raises(JoineryError, match=f"^{text}$"):
        replay.run_harness(["echo", "error", reason], "icarus", lambda beats: None)


def test_replay_stopped() -> None:
    text = r"^icarus stopped before the end of the run \(exit status 3\)\nno licence$"
    with pytest.raises(JoineryError, match=text):
        replay.run_harness(
            ["sh", "-c", "echo no licence >&2; exit 3"], "icarus", lambda beats: None
        )


def test_interrupt_leaves_nothing(tmp_path: Path, stimulus: Path) -> None:
    changes = {"assign s_axis_tready = !full;": "assign s_axis_tready = 0;"}
    design = Design(write_echo(tmp_path / "deaf", changes=changes))
    build.build_replay(design, "icarus")
    (tmp_path / "out").mkdir()
    code = (
        # Where tests run in the background, a shell has Ctrl-C ignored, and that is inherited.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from joinery_tb.replay import replay\n"
        f"replay({str(design.directory)!r}, {str(stimulus)!r}, {str(tmp_path / 'out' / 'x')!r}, "
        "sim='icarus', patience=10**12)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        while not list((tmp_path / "out").glob("*/results")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    assert process.returncode != 0
    assert list((tmp_path / "out").iterdir()) == []


# What was refused.


@pytest.mark.parametrize("sim", SIMULATORS)
def test_simulate_shedding(
    tmp_path: Path, shedding: Design, prepared: Path, arrivals: list[tuple[str, Row]], sim: str
) -> None:
    out, accepted = tmp_path / "out.parquet", tmp_path / "accepted"
    report = replay.simulate(shedding.directory, prepared, out, accepted=accepted, sim=sim)
    transfers = in_transfers(arrivals)
    kept = [one for n, transfer in enumerate(transfers) if n % 3 != 2 for one in transfer]
    lost = [one for n, transfer in enumerate(transfers) if n % 3 == 2 for one in transfer]
    assert report.tuples_in == len(arrivals)
    assert report.refused == {side: [source for source, _ in lost].count(side) for side in "rs"}
    assert report.replay.refused == len(transfers) // 3
    told = report.as_dict()
    assert (told["refused"], told["refused_transfers"]) == (report.refused, len(transfers) // 3)
    assert pq.read_table(out).drop_columns("_row").to_pylist() == rows_without_third(arrivals)

    reference = write_prepared(tmp_path / "reference", SOURCES, kept)
    for name in ("r.parquet", "s.parquet"):
        assert pq.read_table(accepted / name).equals(pq.read_table(reference / name))
    assert {path.name for path in tmp_path.iterdir()} == {"out.parquet", "accepted", "reference"}


def test_simulate_without_pairs(
    tmp_path: Path, shedding: Design, prepared: Path, arrivals: list[tuple[str, Row]]
) -> None:
    """Each tuple is a transfer of its own, so every third tuple is refused."""
    out, accepted = tmp_path / "out.parquet", tmp_path / "accepted"
    replay.simulate(shedding.directory, prepared, out, accepted=accepted, sim="icarus", pair=False)
    kept = [one for n, one in enumerate(arrivals) if n % 3 != 2]
    reference = write_prepared(tmp_path / "reference", SOURCES, kept)
    for name in ("r.parquet", "s.parquet"):
        assert pq.read_table(accepted / name).equals(pq.read_table(reference / name))


QUERY = parse(
    """
    CREATE STREAM r (id INT, name STRING(9));
    CREATE STREAM s (id INT, price DECIMAL(18,2));
    SELECT r.id, s.price FROM r [ROWS 5], s [ROWS 5] WHERE r.id = s.id
    """
)


def prepare_ids(folder: Path, ids: list[tuple[int, str]]) -> Path:
    """Prepare a tuple for each number and source, arriving in the order of the numbers."""
    for side, column in (("r", "name"), ("s", "price")):
        rows = [f"{number},{number % 7}\n" for number, of in ids if of == side]
        (folder / f"{side}.csv").write_text(f"id,{column}\n{''.join(rows)}")
    data = [f"{side}={folder / side}.csv" for side in "rs"]
    return prepare(QUERY, data, folder / "prepared", order_by=["id"]).folder


@settings(max_examples=40)
@given(tuples=st.lists(st.tuples(st.sampled_from("rs"), st.booleans()), max_size=20))
def test_accepted_is_prepared(tuples: list[tuple[str, bool]]) -> None:
    """The accepted tuples are written as if there had been no others."""
    numbered = [(number, side, refused) for number, (side, refused) in enumerate(tuples)]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepared = prepare_ids(folder, [(number, side) for number, side, _ in numbered])
        which = {
            side: np.array([refused for _, of, refused in numbered if of == side], dtype=bool)
            for side in "rs"
        }
        for _ in range(2):  # the second time in the place of the first
            write_accepted(prepared, which, folder / "accepted")
        prepare_ids(folder, [(number, side) for number, side, refused in numbered if not refused])
        found = {path.name: path.read_bytes() for path in (folder / "accepted").iterdir()}
        assert found == {path.name: path.read_bytes() for path in prepared.iterdir()}


def test_accepted_wrong(tmp_path: Path, shedding: Design, prepared: Path) -> None:
    (tmp_path / "input").mkdir()
    for name in ("r.parquet", "s.parquet"):
        (tmp_path / "input" / name).write_bytes((prepared / name).read_bytes())
    text = r"^There is no manifest\.json in \S+/input; prepare the input first$"
    with pytest.raises(JoineryError, match=text):
        replay.simulate(
            shedding.directory,
            tmp_path / "input",
            tmp_path / "out.parquet",
            accepted=tmp_path / "accepted",
            sim="icarus",
        )
    assert [path.name for path in tmp_path.iterdir()] == ["input"]
