"""What the handshake engine can be set to, in generated tops: same rows, whatever the machine."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from joinery_gen.engines import plan
from joinery_gen.generate import generate
from joinery_tb.cases import JoinCase, join_query, random_arrivals
from joinery_tb.joins import arrivals_to_transfers
from joinery_tb.replay import simulate

QUERY = join_query(18, 23)
CASES = {keys: JoinCase(QUERY, random_arrivals(240, keys, order="rsrs")) for keys in (1, 6)}

SETTINGS = {
    "lanes": {"cores": 4, "lanes": 4},
    "comparators": {"cores": 3, "comparators": 4, "storage": "memory", "lanes": 2},
    "broadcast": {"cores": 5, "flow": "broadcast", "storage": "memory", "comparators": 2},
    "ring": {"cores": 5, "merge": "ring", "lanes": 2},
    "fsm_tree": {"cores": 6, "merge": "fsm_tree"},
    "depths": {"cores": 8, "fan_in": 2, "merge_depth": "4,2,8"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_give_the_same_rows(name: str, tmp_path: Path) -> None:
    generate(plan(QUERY, "handshake", SETTINGS[name]), tmp_path / "design")
    for keys, case in CASES.items():
        prepared = case.prepare(tmp_path / f"input_{keys}")
        for stall in (0.0, 0.6):
            out = tmp_path / "out.parquet"
            simulate(tmp_path / "design", prepared, out, sim="icarus", stall_out=stall)
            assert case.rows_of(pq.read_table(out)) == case.rows


@pytest.mark.parametrize("sim", ["icarus", "verilator"])
def test_network_on_its_own_clock(sim: str, tmp_path: Path) -> None:
    settings = {"cores": 4, "merge_clock": "own", "lanes": 2}
    top = generate(plan(QUERY, "handshake", settings), tmp_path / "design")
    assert top["clocks"][1] == {"name": "merge", "clk": "merge_clk", "rst": "merge_rst"}
    case = CASES[1]
    prepared = case.prepare(tmp_path / "input")
    cycles = []
    for rate in ((1, 5), (1, 1), (7, 3)):
        out = tmp_path / "out.parquet"
        report = simulate(tmp_path / "design", prepared, out, sim=sim, merge_rate=rate)
        assert case.rows_of(pq.read_table(out)) == case.rows
        cycles.append(report.replay.cycles)
    # The slow clock limits two lanes to two results in five cycles; the fast one limits nothing.
    assert cycles[0] > len(case.pairs) * 5 / 2 > cycles[1] > cycles[2]


def test_shed_is_exact_for_what_it_accepts(tmp_path: Path) -> None:
    generate(plan(QUERY, "handshake", {"cores": 4, "policy": "shed"}), tmp_path / "design")
    case = CASES[1]
    prepared, accepted = case.prepare(tmp_path / "input"), tmp_path / "accepted"
    report = simulate(
        tmp_path / "design", prepared, tmp_path / "out.parquet", sim="icarus", accepted=accepted,
        stall_out=0.5,
    )  # fmt: skip
    assert sum(report.refused.values()) > 0
    assert report.replay.registers["refused"] == report.replay.refused
    kept = {
        alias: set(pq.read_table(accepted / f"{alias}.parquet")[column].to_pylist())
        for alias, column in (("r", "v"), ("s", "w"))
    }
    taken = [
        (side, row)
        for side, row in case.arrivals
        if (row["v"] in kept["r"] if side == "left" else row["w"] in kept["s"])
    ]
    rows = JoinCase(QUERY, taken).rows
    assert case.rows_of(pq.read_table(tmp_path / "out.parquet")) == rows
    assert report.replay.registers["accepted_left"] == len(kept["r"])
    assert report.replay.registers["accepted_right"] == len(kept["s"])


def test_dropped_results_are_counted(tmp_path: Path) -> None:
    settings = {"cores": 4, "policy": "drop_results", "queue_depth": 2}
    generate(plan(QUERY, "handshake", settings), tmp_path / "design")
    case = CASES[1]
    prepared = case.prepare(tmp_path / "input")
    report = simulate(tmp_path / "design", prepared, tmp_path / "out.parquet", sim="icarus")
    found = case.rows_of(pq.read_table(tmp_path / "out.parquet"))
    assert found < case.rows
    assert report.replay.registers["dropped_results"] == (case.rows - found).total()
    assert report.refused == {"r": 0, "s": 0}
    assert report.replay.beats == len(arrivals_to_transfers(case.arrivals)) + 1


def test_many_cores_are_written_once(tmp_path: Path) -> None:
    """256 cores stay under a megabyte: each shape of a core is a module, and is instantiated."""
    query = join_query(2048, 2048)
    generate(plan(query, "handshake", {"cores": 256, "storage": "memory"}), tmp_path)
    text = (tmp_path / "top.v").read_text()
    assert len(text) < 1_000_000
    assert text.count("\nmodule join_core(") == 1
    assert text.count("  join_core core_") == 256
