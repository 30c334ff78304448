"""Hardware to plain Verilog-2005, and which of Verilator's warnings it has."""

import os
import re
from collections.abc import Iterator, Mapping

from amaranth.back import verilog
from amaranth.lib import wiring

from joinery.units import UnitLibrary

__all__ = ["LINT_WAIVERS", "component_verilog", "header_lines", "to_verilog"]

LINT_WAIVERS = {
    "CASEOVERLAP": "a multiplexer of Yosys is a casez over selects of which one is high",
    "DECLFILENAME": "one file holds all modules",
    "PROCASSINIT": "registers have their reset value from power-up on",
    "UNUSEDSIGNAL": "carries out of exact sums, padding of tdata, and AXI's prot",
    "WIDTHEXPAND": "Yosys writes constants as narrow as they are",
    "WIDTHTRUNC": "Yosys compares with zero by a logical not",
}


def component_verilog(component: wiring.Component) -> str:
    """Return ``component`` as a module ``top``, for benches and measurements of parts."""
    return "\n".join([*header_lines(), "", to_verilog(UnitLibrary().rtlil(component))])


def header_lines(waivers: Mapping[str, str] = LINT_WAIVERS) -> Iterator[str]:
    """Tell Verilator to be silent about what every design has, and why it has it."""
    return (f"/* verilator lint_off {name} */ // {why}" for name, why in waivers.items())


def to_verilog(rtlil: str) -> str:
    """Have Yosys write Verilog-2005 without the wires that only rename others."""
    os.environ["AMARANTH_USE_YOSYS"] = "builtin"  # the same Yosys for everyone, the same bytes
    yosys = verilog.find_yosys(lambda version: version >= (0, 40))
    script = [
        f"read_rtlil <<rtlil\n{rtlil}\nrtlil",
        "proc -norom",
        "opt_expr",
        "opt_merge",
        "clean -purge",
        "memory_collect",
        "write_verilog -noattr",  # renames: Icarus takes a function \$f for a system function
    ]
    return _clear_in_loops(yosys.run(["-q", "-"], "\n".join(script)))


CLEARED = re.compile(
    r"  initial begin\n(    (\S+)\[0\] = (\d+)'h0+;\n(?:    \2\[\d+\] = \3'h0+;\n)*)  end\n"
)
"""A memory that starts with zeros, row by row."""


def _clear_in_loops(text: str) -> str:
    """Clear each memory in a loop: line by line, large ones take a simulator minutes to compile."""

    def loop(found: re.Match[str]) -> str:
        rows, name, width = found[1].count("\n"), found[2], found[3]
        return (
            f"  initial begin : {name}_clear\n"
            f"    integer row;\n"
            f"    for (row = 0; row < {rows}; row = row + 1) {name}[row] = {width}'h0;\n"
            f"  end\n"
        )

    return CLEARED.sub(loop, text)
