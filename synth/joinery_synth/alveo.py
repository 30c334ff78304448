"""A core as an RTL kernel of an Alveo card, for those who have Vivado and Vitis.

Nothing here has been run by Joinery, which does not have the tools; the scripts say so.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["U280", "write_kernel"]

U280 = {"part": "xcu280-fsvh2892-2L-e", "platform": "xilinx_u280_gen3x16_xdma_1_202211_1"}

NOT_RUN = "Not run where it was written, for want of Vivado. Read it before you run it."

WRAPPER = """\
// {name} as an RTL kernel: the names that Vitis wants, and its reset, which is active low.
// Written by Joinery. {not_run}
module {kernel} (
{ports}
);
  reg rst = 1'b1;
  always @(posedge ap_clk) rst <= ~ap_rst_n;

  top core (
{connections}
  );
endmodule
"""

TCL = """\
# Packs {kernel} as a kernel for Vitis: vivado -mode batch -source kernel.tcl
# {not_run}
create_project -force kernel kernel_project -part {part}
add_files {{top.v {kernel}.v}}
set_property top {kernel} [current_fileset]
read_xdc kernel.xdc
update_compile_order -fileset sources_1
ipx::package_project -root_dir kernel_ip -vendor joinery -library kernel -taxonomy /KernelIP \\
    -import_files -set_current true
set core [ipx::current_core]
foreach name {{{interfaces}}} {{
    ipx::associate_bus_interfaces -busif $name -clock ap_clk $core
}}
set_property sdx_kernel true $core
set_property sdx_kernel_type rtl $core
set_property supported_families {{}} $core
set_property auto_family_support_level level_2 $core
ipx::update_checksums $core
ipx::save_core $core
package_xo -force -xo_path {kernel}.xo -kernel_name {kernel} -ip_directory kernel_ip \\
    -ctrl_protocol user_managed
# Then, to link it for a card:
#   v++ -l -t hw --platform {platform} {kernel}.xo -o {kernel}.xclbin
"""

XDC = """\
# {not_run}
create_clock -name ap_clk -period {period:.3f} [get_ports ap_clk]
"""


def write_kernel(top: Mapping[str, Any], folder: Path, *, clock: float) -> list[Path]:
    """Write a wrapper, constraints and a script beside ``top.v``.

    Parameters
    ----------
    top : mapping
        The content of ``top.json``.
    clock : float
        In Hz.
    """
    kernel = f"joinery_{re.sub(r'[^A-Za-z0-9_]', '_', top['name'])}"
    fill = {
        "name": top["name"],
        "kernel": kernel,
        "not_run": NOT_RUN,
        "interfaces": " ".join(interfaces(top["ports"])),
        "period": 1e9 / clock,
        "ports": ",\n".join(_ports(top)),
        "connections": ",\n".join(_connections(top)),
        **U280,
    }
    files = {f"{kernel}.v": WRAPPER, "kernel.tcl": TCL, "kernel.xdc": XDC}
    for name, text in files.items():
        (folder / name).write_text(text.format(**fill))
    return [folder / name for name in files]


def interfaces(ports: Sequence[Mapping[str, Any]]) -> list[str]:
    """The AXI interfaces that the ports make up: the names before their channels."""
    found: dict[str, None] = {}
    for port in ports:
        if match := re.match(r"(s_axis|m_axis|s_axil|m_axi\w*?)_(?=[a-z]+$)", port["name"]):
            found[match[1]] = None
    return list(found)


def _clocks(top: Mapping[str, Any]) -> dict[str, str]:
    """What the ports of the clocks are connected to: a second clock runs at the same speed."""
    return {
        **{clock["clk"]: "ap_clk" for clock in top["clocks"]},
        **{clock["rst"]: "rst" for clock in top["clocks"]},
    }


def _ports(top: Mapping[str, Any]) -> list[str]:
    own = [port for port in top["ports"] if port["name"] not in _clocks(top)]
    return ["  input wire ap_clk", "  input wire ap_rst_n"] + [
        f"  {port['direction']} wire {_range(port['width'])}{port['name']}" for port in own
    ]


def _connections(top: Mapping[str, Any]) -> list[str]:
    clocks = _clocks(top)
    return [
        f"    .{port['name']}({clocks.get(port['name'], port['name'])})" for port in top["ports"]
    ]


def _range(width: int) -> str:
    return f"[{width - 1}:0] " if width > 1 else ""
