"""A board that is not there: a generated board top in Verilator, behind a pseudo-terminal.

A host speaks to it as to any serial port. The line can be made bad on purpose.
"""

import os
import shutil
import subprocess
import tty
from pathlib import Path
from types import TracebackType
from typing import Any

from joinery_gen.engines import Plan
from joinery_gen.generate import generate_board
from joinery_gen.query import JoineryError

from . import toolchain
from .build import VERILATOR_OPTIONS, build_tools, cached_build, harness, run_tool

__all__ = ["CYCLES_PER_BIT", "SimulatedBoard", "build_board"]

CYCLES_PER_BIT = 4
"""As few as the UART can do, as cycles are what takes time."""

BINARY = "board"


def build_board(directory: str | Path, name: str) -> Path:
    """Return the executable of the board that ``generate_board`` wrote into ``directory``."""
    toolchain.check_simulator("verilator")
    verilog, main = Path(directory, "board.v"), harness("board_main.cpp")
    command = [
        *("verilator", "--cc", "--exe", "--build", "-j", "0"),
        *("-Wno-fatal", *VERILATOR_OPTIONS),
        *("--top-module", "board", "--prefix", "Vboard", "-Mdir", "."),
        *("-o", BINARY, "board.v", main.name),
    ]
    depends = {
        "verilog": verilog.read_text(),
        "harness": main.read_text(),
        "tools": build_tools("verilator"),
        "command": command,
    }

    def make(folder: Path) -> Path:
        shutil.copy(verilog, folder / "board.v")
        shutil.copy(main, folder)
        run_tool(command, "verilator", folder)
        return folder / BINARY

    return cached_build(f"{name} (board)", depends, make, BINARY) / BINARY


class SimulatedBoard:
    """A running simulation of a board. Leaving the ``with`` block ends it.

    ``path`` is the port to speak to. After the end, ``report`` has the cycles simulated, and the
    bytes that went in and came out, and that were damaged.

    Parameters
    ----------
    plan : Plan
        The design on the board.
    folder : Path
        Gets ``board.v`` and ``top.json``.
    damage : float
        The probability with which a byte is damaged, in each direction.
    seed : int
        Of the damage.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        damage: float = 0.0,
        seed: int = 1,
        **link: Any,
    ) -> None:
        if not 0 <= damage < 1:
            raise JoineryError(f"The damage is a probability below 1, not {damage}")
        link = {"cycles_per_bit": CYCLES_PER_BIT, **link}
        self.top = generate_board(plan, folder, **link)
        self.report: dict[str, int] = {}
        self._binary = build_board(folder, plan.query.name)
        self._options = {
            "cycles_per_bit": self.top["link"]["cycles_per_bit"],
            "damage": int(damage * (1 << 32)),
            "seed": seed & 0xFFFFFFFF,
        }

    def __enter__(self) -> "SimulatedBoard":
        master, slave = os.openpty()
        try:
            tty.setraw(slave)
            self.path = os.ttyname(slave)
            options = {"fd": master, **self._options}
            self._process = subprocess.Popen(
                [str(self._binary), *(f"+{name}={value}" for name, value in options.items())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=[master],
            )
        finally:
            os.close(master)
            os.close(slave)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            # The end of its input ends the simulation.
            told, _ = self._process.communicate(timeout=30)
            numbers = (line.split() for line in told.splitlines())
            self.report |= {name: int(value) for name, value in numbers}
        finally:
            self._process.kill()
            self._process.wait()
