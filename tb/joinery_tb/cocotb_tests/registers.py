"""What the registers of a generated top do beside being read: pauses, strobes, control, the edges.

The stand-in that the benches are tested on has no such registers, so these are tests of their own.
"""

from typing import Any

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from joinery_tb.bench import TopBench
from joinery_tb.cocotb_tests.protocol import TIMEOUT
from joinery_tb.stalls import pauses


async def check_counters(bench: TopBench, *, zero: bool = False) -> None:
    for name, value in bench.script.counters.items():
        assert await bench.read(name) == (0 if zero else value), name


@cocotb.test(**TIMEOUT)
async def test_pauses(dut: Any) -> None:
    """Every channel may pause at any time, and the answers are the same."""
    bench = TopBench(dut)
    await bench.reset()
    await bench.check_stream()
    read, write = bench.registers.read_if, bench.registers.write_if
    channels = (
        read.ar_channel, read.r_channel, write.aw_channel, write.w_channel, write.b_channel,
    )  # fmt: skip
    for number, channel in enumerate(channels):
        channel.set_pause_generator(pauses(0.7, cocotb.RANDOM_SEED + number))
    await check_counters(bench)
    for register in bench.design.top["registers"]:
        if register["access"] == "ro":
            assert await bench.write(register["name"], 1) == AxiResp.SLVERR, register["name"]
    await check_counters(bench)
    assert bench.laws["s_axil_r"].transfers == bench.laws["s_axil_ar"].transfers > 0
    assert bench.laws["s_axil_b"].transfers == bench.laws["s_axil_aw"].transfers > 0


@cocotb.test(**TIMEOUT)
async def test_control(dut: Any) -> None:
    """A 1 in bit 0 sets the counters to zero; other bits, and bytes not written, do nothing."""
    bench = TopBench(dut)
    await bench.reset()
    await bench.check_stream()
    for harmless in (0, 0xFFFFFFFE):
        assert await bench.write("control", harmless) == AxiResp.OKAY
    address = bench.design.registers["control"]
    assert (await bench.registers.write(address + 1, b"\xff\xff\xff")).resp == AxiResp.OKAY
    await check_counters(bench)
    assert await bench.write("control", 1) == AxiResp.OKAY
    await check_counters(bench, zero=True)
    assert await bench.read("cycles") == 0
    await bench.check_stream()
    await check_counters(bench)


@cocotb.test(**TIMEOUT)
async def test_cycles_are_counted(dut: Any) -> None:
    """From the first beat to the end of the result, and not while nothing is under way."""
    bench = TopBench(dut)
    await bench.reset()
    await ClockCycles(dut.clk, 20)
    assert await bench.read("cycles") == 0
    await bench.check_stream()
    counted = await bench.read("cycles")
    assert counted >= bench.laws["s_axis"].transfers
    await ClockCycles(dut.clk, 20)
    assert await bench.read("cycles") == counted


@cocotb.test(**TIMEOUT)
async def test_outside_the_map(dut: Any) -> None:
    bench = TopBench(dut)
    await bench.reset()
    beyond = range(4 * len(bench.design.registers), 2 ** len(dut.s_axil_araddr), 4)
    assert beyond, "every address is a register: choose a design with another number of them"
    for address in beyond:
        assert (await bench.registers.read(address, 4)).resp == AxiResp.SLVERR, address
        assert (await bench.registers.write(address, bytes(4))).resp == AxiResp.SLVERR, address
