"""What every generated top must do at its ports, whatever the query and the engine."""

from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, SimTimeoutError, ValueChange, with_timeout
from cocotbext.axi import AxiResp

from joinery_tb.bench import TopBench
from joinery_tb.stalls import STALLS

TIMEOUT: dict[str, Any] = {"timeout_time": 1, "timeout_unit": "ms"}
PATIENCE_US = 50


@cocotb.test(**TIMEOUT)
@cocotb.parametrize(idle=list(STALLS), backpressure=list(STALLS))
async def test_stalls(dut: Any, idle: str, backpressure: str) -> None:
    bench = TopBench(dut)
    await bench.reset()
    bench.stall(idle=STALLS[idle], backpressure=STALLS[backpressure], seed=cocotb.RANDOM_SEED)
    await bench.check_stream()
    await bench.check_quiet()
    assert bench.laws["s_axis"].transfers == len(bench.script.transfers) + 1


@cocotb.test(**TIMEOUT)
async def test_valid_does_not_wait(dut: Any) -> None:
    """The output offers while it is not ready: a stall that no law sees when it never ends."""
    bench = TopBench(dut)
    await bench.reset()
    bench.sink.pause = True
    await ClockCycles(dut.clk, 2)
    bench.send(bench.script.transfers)
    try:
        await with_timeout(ValueChange(dut.m_axis_tvalid), PATIENCE_US, "us")
    except SimTimeoutError:
        raise AssertionError("m_axis: valid waits for ready") from None
    bench.sink.pause = False
    bench.check_results(await bench.receive())
    await bench.check_quiet()


@cocotb.test(**TIMEOUT)
async def test_reset_in_mid_stream(dut: Any) -> None:
    bench = TopBench(dut)
    await bench.reset()
    bench.stall(idle=0.0, backpressure=STALLS["random"], seed=cocotb.RANDOM_SEED)
    bench.send(bench.script.transfers)
    while bench.laws["s_axis"].transfers < len(bench.script.transfers) // 2:
        await ClockCycles(dut.clk, 1)
    await bench.reset()
    await bench.check_stream()
    await bench.check_quiet()
    for name, value in bench.script.counters.items():
        assert await bench.read(name) == value, name


@cocotb.test(**TIMEOUT)
async def test_streams_after_one_another(dut: Any) -> None:
    """The windows are empty again after an end, even when the next input is already waiting."""
    bench = TopBench(dut)
    await bench.reset()
    for _ in range(2):
        bench.send(bench.script.transfers)
    for _ in range(2):
        bench.check_results(await bench.receive())
    await bench.check_quiet()


@cocotb.test(**TIMEOUT)
async def test_end_with_data(dut: Any) -> None:
    bench = TopBench(dut)
    await bench.reset()
    await bench.check_stream(end="with data")
    await bench.check_quiet()


@cocotb.test(**TIMEOUT)
async def test_empty_input(dut: Any) -> None:
    bench = TopBench(dut)
    await bench.reset()
    bench.send([])
    assert await bench.receive() == []
    bench.send([0, 0])  # transfers without any tuple
    assert await bench.receive() == []
    await bench.check_quiet()


@cocotb.test(**TIMEOUT)
async def test_registers_after_reset(dut: Any) -> None:
    bench = TopBench(dut)
    await bench.reset()
    for register in bench.design.top["registers"]:
        assert await bench.read(register["name"]) == register["reset"], register["name"]


@cocotb.test(**TIMEOUT)
async def test_counters(dut: Any) -> None:
    bench = TopBench(dut)
    await bench.reset()
    await bench.check_stream()
    for name, value in bench.script.counters.items():
        assert await bench.read(name) == value, name


@cocotb.test(**TIMEOUT)
async def test_writes(dut: Any) -> None:
    """A setting (``rw``) keeps what is written to it, a ``pulse`` does not; all else refuses."""
    bench = TopBench(dut)
    await bench.reset()
    for register in bench.design.top["registers"]:
        name = register["name"]
        before = await bench.read(name)
        response = await bench.write(name, before ^ 1)
        access = register["access"]
        assert access in ("ro", "rw", "pulse"), name
        assert response == (AxiResp.SLVERR if access == "ro" else AxiResp.OKAY), name
        assert await bench.read(name) == (before ^ 1 if access == "rw" else before), name
        if access == "rw":
            await bench.write(name, before)
