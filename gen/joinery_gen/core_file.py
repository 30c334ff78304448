"""A FuseSoC core beside the Verilog: ``joinery.core``, and a bench in plain Verilog for it.

The bench asks the core for its identity over AXI4-Lite and, where it has streams, sends it an end
and waits for it. It prints ``PASSED``, or ends with ``$fatal``: FuseSoC and Edalize do not tell a
failed simulation from a good one, so the word must be looked for.
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["CORE", "TESTBENCH", "core_files"]

CORE, TESTBENCH = "joinery.core", "top_tb.v"

CORE_TEXT = """\
CAPI=2:
# Written by Joinery {joinery}. For example:
#   fusesoc --cores-root . run --target lint {vlnv}
name: {vlnv}
description: {description}

filesets:
  rtl:
    files:
      - top.v
    file_type: verilogSource-2005
  tb:
    files:
      - top_tb.v
    file_type: verilogSource-2005

targets:
  default: &default
    filesets: [rtl]
    toplevel: top
  lint:
    <<: *default
    description: Verilator's lint, all warnings on but those that top.v turns off and explains
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wall]
  sim:
    <<: *default
    description: A short simulation; look for PASSED
    filesets: [rtl, tb]
    toplevel: top_tb
    flow: sim
    flow_options:
      tool: icarus
      iverilog_options: [-g2005]
      timescale: 1ns/1ps
  synth:
    <<: *default
    description: Cells of a Lattice ECP5, by Yosys
    default_tool: yosys
    tools:
      yosys:
        arch: ecp5
        output_format: json
"""

BENCH_TEXT = """\
// A short run of {name}: identity{and_stream}. Written by Joinery {joinery}.
`timescale 1ns/1ps
module top_tb;
{declarations}
  integer cycles = 0;
  reg [31:0] identity = 0;

  top dut (
{connections}
  );

  always #5 begin
{toggles}
  end

  task step;  // drive away from the edge that samples
    begin
      @(posedge {clk});
      #1 cycles = cycles + 1;
      if (cycles > {most}) begin
        $display("FAILED: no answer within {most} cycles");
        $fatal(1);
      end
    end
  endtask

  initial begin
    repeat (4) step;
{release}
    step;
    s_axil_araddr = 0;
    s_axil_arvalid = 1;
    s_axil_rready = 1;
    while (!s_axil_arready) step;
    step;
    s_axil_arvalid = 0;
    while (!s_axil_rvalid) step;
    identity = s_axil_rdata;
    step;
    if (identity !== 32'h{letters}) begin
      $display("FAILED: the identity is %h", identity);
      $fatal(1);
    end
{stream}    $display("PASSED in %0d cycles", cycles);
    $finish;
  end
endmodule
"""

STREAM_TEXT = """\
    s_axis_tlast = 1;
    s_axis_tvalid = 1;
    m_axis_tready = 1;
    while (!s_axis_tready) step;
    step;
    s_axis_tvalid = 0;
    while (!(m_axis_tvalid && m_axis_tlast)) step;
    if (m_axis_tkeep !== 0) begin
      $display("FAILED: there are rows without input");
      $fatal(1);
    end
"""
LETTERS = b"JNRY".hex()
SLACK = 1000  # cycles beside those that a drain may take


def core_files(top: Mapping[str, Any]) -> dict[str, str]:
    """Return the files to put beside ``top.v``, by name."""
    vlnv = f"joinery:generated:{re.sub(r'[^A-Za-z0-9_]', '_', top['name'])}:{top['joinery']}"
    core = CORE_TEXT.format(
        vlnv=vlnv,
        joinery=top["joinery"],
        description=f"Query {top['name']} ({top['query']['hash']}), engine {top['engine']}",
    )
    return {CORE: core, TESTBENCH: _bench(top)}


def _bench(top: Mapping[str, Any]) -> str:
    ports = {port["name"]: port for port in top["ports"]}
    streams = "s_axis_tdata" in ports and "m_axis_tdata" in ports
    clocks = [clock["clk"] for clock in top["clocks"]]
    resets = [clock["rst"] for clock in top["clocks"]]

    def declare(port: Mapping[str, Any]) -> str:
        width = f"[{port['width'] - 1}:0] " if port["width"] > 1 else ""
        if port["direction"] == "output":
            return f"  wire {width}{port['name']};"
        return f"  reg {width}{port['name']} = {int(port['name'] in resets)};"

    return BENCH_TEXT.format(
        name=top["name"],
        joinery=top["joinery"],
        and_stream=", and the end of a stream without tuples" if streams else "",
        declarations="\n".join(map(declare, ports.values())),
        connections=",\n".join(f"    .{name}({name})" for name in ports),
        toggles="\n".join(f"    {clk} = ~{clk};" for clk in clocks),
        release="\n".join(f"    {rst} = 0;" for rst in resets),
        clk=clocks[0],
        letters=LETTERS,
        most=SLACK + _drain(top),
        stream=STREAM_TEXT if streams else "",
    )


def _drain(top: Mapping[str, Any]) -> int:
    """Cycles after an end until it leaves, at most, as the engine predicts them."""
    cycles = top["predicted"].get("cycles", {})
    steps = int(cycles.get("drain_steps", 0)) * max(
        int(cycles.get("per_left", 1)), int(cycles.get("per_right", 1))
    )
    return 2 * (steps + int(cycles.get("drain", 0)))
