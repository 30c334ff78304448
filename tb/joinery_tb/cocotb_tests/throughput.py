"""cocotb in the place of the replay harness: the same file, the same cycles, driven from Python.

No library between the test and the signals, to be as quick as cocotb can be.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from joinery_tb.design import Design
from joinery_tb.records import DATA, LAST, read_records, record_words


async def drive(dut: Any, records: Iterator[tuple[int, int]], all_bytes: int) -> None:
    edge = RisingEdge(dut.clk)
    dut.s_axis_tvalid.value = 1
    for control, word in records:
        dut.s_axis_tdata.value = word
        dut.s_axis_tkeep.value = all_bytes if control & DATA else 0
        dut.s_axis_tlast.value = 1 if control & LAST else 0
        await edge
        while not dut.s_axis_tready.value:
            await edge
    dut.s_axis_tvalid.value = 0


def rows_of(dut: Any, row_bytes: int, lanes: int) -> Iterator[int]:
    """Yield the rows of the transfer on the output; a lane whose first byte is kept has one."""
    data = int(dut.m_axis_tdata.value)
    if lanes == 1:
        yield data
        return
    keep = int(dut.m_axis_tkeep.value)
    for lane in range(lanes):
        if keep >> row_bytes * lane & 1:
            yield data >> 8 * row_bytes * lane & (1 << 8 * row_bytes) - 1


@cocotb.test()
async def test_throughput(dut: Any) -> None:
    design = Design(os.environ["JOINERY_BENCH_DESIGN"])
    in_bytes, row_bytes, lanes = design.bytes_of("input"), design.bytes_of("output"), design.lanes
    row_size = 4 * record_words(design.top["output"])
    records = read_records(design.top, os.environ["JOINERY_BENCH_STIMULUS"])
    for port in design.top["ports"]:
        if port["direction"] == "input" and port["name"] != "clk":
            getattr(dut, port["name"]).value = 0
    dut.rst.value = 1
    Clock(dut.clk, 10, unit="ns").start()
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0

    words = bytearray()
    cycles = 0
    started = time.perf_counter()
    dut.m_axis_tready.value = 1
    cocotb.start_soon(drive(dut, records, (1 << in_bytes) - 1))
    edge = RisingEdge(dut.clk)
    while True:
        await edge
        cycles += 1
        if dut.m_axis_tvalid.value:
            if dut.m_axis_tlast.value:
                break
            for row in rows_of(dut, row_bytes, lanes):
                words += row.to_bytes(row_size, "little")
    seconds = time.perf_counter() - started
    Path(os.environ["JOINERY_BENCH_RESULTS"]).write_bytes(words)
    Path(os.environ["JOINERY_BENCH_REPORT"]).write_text(
        json.dumps({"cycles": cycles, "seconds": seconds})
    )
