"""Generated tops, from query text to rows: engines and simulators against the definition."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from joinery_gen.engines import plan
from joinery_gen.generate import generate
from joinery_gen.query import JoineryError
from joinery_gen.verilog import LINT_WAIVERS
from joinery_tb import toolchain
from joinery_tb.aggregate_cases import sliding_query
from joinery_tb.cases import JoinCase, join_query, random_arrivals
from joinery_tb.replay import simulate

PLAIN = join_query(20, 13)
COMPUTED = join_query(
    20,
    13,
    select="r.v + s.w AS total, r.k, abs(r.k - s.k) * 3 AS apart, r.v < s.w AS earlier",
    where="abs(r.k - s.k) <= 1",
)
DESIGNS = {
    "nested_loop": (PLAIN, "nested_loop", {}),
    "4 cores": (COMPUTED, "handshake", {"cores": 4}),
    "13 cores": (PLAIN, "handshake", {"cores": 13, "storage": "memory", "lanes": 2}),
}
KEYS = {"some match": (9, 0.0), "all match": (1, 0.3), "none match": (0, 0.0)}
"""Different keys, and how often the output is not ready."""


@pytest.mark.parametrize("sim", ["verilator", "icarus"])
@pytest.mark.parametrize("name", DESIGNS)
def test_generated_top_joins(name: str, sim: str, tmp_path: Path) -> None:
    query, engine, settings = DESIGNS[name]
    generate(plan(query, engine, settings), tmp_path / "design")
    for number, (keys, stall_out) in enumerate(KEYS.values()):
        case = JoinCase(query, random_arrivals(300, keys))
        prepared = case.prepare(tmp_path / f"input_{number}")
        out = tmp_path / f"out_{number}.parquet"
        report = simulate(tmp_path / "design", prepared, out, sim=sim, stall_out=stall_out)
        assert case.rows_of(pq.read_table(out)) == case.rows
        counted = {name: report.replay.registers[name] for name in case.counters}
        assert counted == case.counters


@pytest.mark.parametrize("name", DESIGNS)
def test_same_plan_same_bytes(name: str, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        generate(plan(*DESIGNS[name]), tmp_path / folder)
    for file in ("top.v", "top.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


# What the tools say of the Verilog.

LINTED = {
    **DESIGNS,
    "registers": (PLAIN, "handshake", {"cores": 13}),
    "broadcast": (PLAIN, "handshake", {"cores": 3, "flow": "broadcast", "merge": "fsm_tree"}),
    "ring": (PLAIN, "handshake", {"cores": 6, "comparators": 2, "merge": "ring", "lanes": 4}),
    "panes": (
        sliding_query((12, 4), (9, 2), slack=7, where="k <> 3 AND x > 0.5"),
        "panes",
        {"sum_rows": 1000},
    ),
    "memory": (COMPUTED, "handshake", {"cores": 5, "storage": "memory", "policy": "shed"}),
}


def lint(verilog: Path) -> str:
    """Return what Verilator says of a top; it says nothing of a clean one."""
    command = ["verilator", "--lint-only", "-Wall", "--quiet", "--top-module", "top", str(verilog)]
    env = toolchain.environment("verilator")
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def linted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("linted")
    for name, each in LINTED.items():
        generate(plan(*each), folder / name)
    return {name: folder / name / "top.v" for name in LINTED}


def test_memories_are_cleared_in_loops(tmp_path: Path) -> None:
    """A thousand times the rows are a few digits more of Verilog."""
    sizes = {}
    for rows in (16, 16_000):
        query, settings = join_query(rows, rows), {"cores": 2, "storage": "memory"}
        generate(plan(query, "handshake", settings), tmp_path)
        text = (tmp_path / "top.v").read_text()
        assert f"for (row = 0; row < {rows // 2}; row = row + 1)" in text
        sizes[rows] = len(text)
    assert sizes[16_000] < 1.05 * sizes[16]


@pytest.mark.parametrize("name", LINTED)
def test_verilator_has_nothing_to_say(linted: dict[str, Path], name: str) -> None:
    assert lint(linted[name]) == ""


def test_every_waiver_is_needed(linted: dict[str, Path], tmp_path: Path) -> None:
    """Without the waivers there are exactly the warnings that they are for."""
    found = set()
    for verilog in linted.values():
        text = verilog.read_text()
        assert re.findall(r"verilator lint_off (\w+)", text) == list(LINT_WAIVERS)
        (tmp_path / "top.v").write_text(re.sub(r"/\* verilator lint_off .*", "", text))
        found |= set(re.findall(r"^%Warning-(\w+):", lint(tmp_path / "top.v"), re.MULTILINE))
    assert found == set(LINT_WAIVERS)


@pytest.mark.parametrize("standard", ["-g2005", "-g2012"])
@pytest.mark.parametrize("name", LINTED)
def test_icarus_has_nothing_to_say(linted: dict[str, Path], name: str, standard: str) -> None:
    command = ["iverilog", standard, "-Wall", "-t", "null", "-s", "top", str(linted[name])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


ENGINES = "handshake, nested_loop, fjoin, fjoin_paper, panes, wid, glacier, mlq"


@pytest.mark.parametrize(
    ("engine", "settings", "message"),
    [
        ("mlq", {}, r"engine mlq takes an aggregate over row windows with PARTITION BY or an "
                    r"aggregate over time windows with GROUP BY or an aggregate over time windows "
                    r"with PARTITION BY, and case\.cql is a join over row windows"),
        ("fjoin", {}, r"engine fjoin takes a join over time windows, and case\.cql is a join "
                      r"over row windows"),
        ("handshak", {}, rf"There is no engine 'handshak'; these exist: {ENGINES}\. "
                         r"Did you mean handshake\?"),
        ("handshake", {"core": 4}, r"engine handshake has no parameter 'core'; it has cores, "
                                   r"\w+(, \w+)*"),
        ("handshake", {"cores": "x"}, r"engine handshake: cores must be a whole number, not 'x'"),
        ("handshake", {"cores": 99}, r"engine handshake: Cores must be 1 to 13, the smaller "
                                     r"window's rows, not 99"),
    ],
)  # fmt: skip
def test_wrong_plans(engine: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(JoineryError, match=f"^{message}$"):
        plan(PLAIN, engine, settings).build()
