"""What a component costs as a whole: cells of an FPGA family, as Yosys maps them, flattened."""

from dataclasses import dataclass
from typing import Any

from .resources import synthesize

__all__ = ["Area", "measure_area"]


@dataclass(frozen=True)
class Area:
    """Cells of a design.

    ``lut`` counts look-up tables, also those that serve as memory, shift register or inverter;
    ``bram`` counts blocks of memory, those of 36 kbit in halves.
    """

    lut: int
    ff: int
    bram: float
    dsp: int
    carry: int
    cells: dict[str, int]
    yosys_version: str


def measure_area(top: Any, *, family: str = "xcup", timeout: float = 1800.0) -> Area:
    """Synthesize a component, flattened, and count its cells.

    Parameters
    ----------
    top : wiring.Component
    family : str
        One of ``FAMILIES``.
    timeout : float
        Seconds after which ``ToolError`` is raised.
    """
    found = synthesize(top, family, hierarchy=False, timeout=timeout)
    used: dict[str, Any] = found.used
    return Area(**used, cells=found.cells, yosys_version=found.yosys_version)
