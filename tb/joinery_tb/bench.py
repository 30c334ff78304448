"""The bench of a generated top, for cocotb tests: drivers, watchers, and what to expect.

Runs inside the simulator. The process that starts it (``runner.run_cocotb``) leaves a *script* in a
JSON file: the transfers to send and the results to expect, as integers in hexadecimal.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from .design import Design
from .records import DATA, read_records
from .stalls import Stall, pauses

__all__ = ["Script", "StreamLaw", "TopBench", "watch_ports"]

SCRIPT_VARIABLE = "JOINERY_BENCH_SCRIPT"
CLOCK_NS = 10
RESET_CYCLES = 4
QUIET_CYCLES = 64


@dataclass(frozen=True)
class Script:
    """One input stream (without its end) and the results it must give, in any order.

    ``counters`` names registers and the values they must have after the stream.
    """

    transfers: list[int]
    expected: list[int]
    counters: dict[str, int]

    @classmethod
    def of_stimulus(
        cls, design: Design, stimulus: Path, expected: Sequence[int], counters: dict[str, int]
    ) -> "Script":
        """Return the script that sends the data transfers of a stimulus file."""
        records = read_records(design.top, stimulus)
        transfers = [word for control, word in records if control & DATA]
        return cls(transfers, list(expected), counters)

    @classmethod
    def load(cls) -> "Script":
        """Read the script that the starting process left."""
        content = json.loads(Path(os.environ[SCRIPT_VARIABLE]).read_text())
        return cls(
            transfers=[int(word, 16) for word in content["transfers"]],
            expected=[int(word, 16) for word in content["expected"]],
            counters=content["counters"],
        )

    def save(self, path: Path) -> None:
        content = {
            "transfers": [f"{word:x}" for word in self.transfers],
            "expected": [f"{word:x}" for word in self.expected],
            "counters": self.counters,
        }
        path.write_text(json.dumps(content))


class StreamLaw:
    """Watch one channel: ``valid`` never falls and the payload holds until taken, none unknown.

    Works for AXI4-Stream and for every channel of AXI4-Lite. A breach fails the running test.
    """

    def __init__(self, dut: Any, channel: str, valid: str, ready: str, payload: Sequence[str]):
        self.channel = channel
        self.clock, self.reset = dut.clk, dut.rst
        self.valid, self.ready = getattr(dut, valid), getattr(dut, ready)
        self.payload = [getattr(dut, name) for name in payload]
        self.transfers = 0
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        waiting = None
        while True:
            await RisingEdge(self.clock)
            if self.reset.value != 0:
                waiting = None
                continue
            for signal in (self.valid, self.ready):
                assert signal.value.is_resolvable, f"{signal._name} is {signal.value}"
            payload = [signal.value for signal in self.payload]
            if waiting is not None:
                assert self.valid.value, f"{self.channel}: valid fell before the transfer"
                assert payload == waiting, f"{self.channel}: the payload changed while it waited"
            waiting = None
            if self.valid.value:
                assert all(value.is_resolvable for value in payload), (
                    f"{self.channel}: unknown payload {payload}"
                )
                if self.ready.value:
                    self.transfers += 1
                else:
                    waiting = payload


def watch_ports(dut: Any) -> dict[str, StreamLaw]:
    """Attach the stream law to every port of a generated top."""
    watchers = {}
    for port in ("s_axis", "m_axis"):
        payload = [f"{port}_{name}" for name in ("tdata", "tkeep", "tlast")]
        watchers[port] = StreamLaw(dut, port, f"{port}_tvalid", f"{port}_tready", payload)
    channels = {
        "aw": ("addr", "prot"),
        "w": ("data", "strb"),
        "b": ("resp",),
        "ar": ("addr", "prot"),
        "r": ("data", "resp"),
    }
    for channel, members in channels.items():
        name = f"s_axil_{channel}"
        payload = [f"{name}{member}" for member in members]
        watchers[name] = StreamLaw(dut, name, f"{name}valid", f"{name}ready", payload)
    return watchers


class TopBench:
    """Everything that a test of a generated top needs.

    ``source`` and ``sink`` speak AXI4-Stream, ``registers`` AXI4-Lite, and ``laws`` watches every
    port. Inputs are driven, and reset is on, before the first clock edge.
    """

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.design = Design(os.environ["JOINERY_BENCH_DESIGN"])
        self.script = Script.load()
        self.in_bytes = self.design.bytes_of("input")
        self.out_bytes = self.design.bytes_of("output")
        self.lanes = self.design.lanes
        dut.rst.value = 1
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk, dut.rst)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.clk, dut.rst)
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        for part in (self.source, self.sink, self.registers.read_if, self.registers.write_if):
            part.log.setLevel("WARNING")
        self.laws = watch_ports(dut)
        Clock(dut.clk, CLOCK_NS, unit="ns").start()

    async def reset(self) -> None:
        """Reset the design, and forget all that was still to be sent or was received."""
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, RESET_CYCLES)
        self.source.clear()
        self.sink.clear()
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    def stall(self, *, idle: Stall, backpressure: Stall, seed: int) -> None:
        """Pause the input and the output in the given ways from now on."""
        self.source.set_pause_generator(pauses(idle, seed))
        self.sink.set_pause_generator(pauses(backpressure, seed + 1))

    def send(self, transfers: Sequence[int], *, end: str = "alone") -> None:
        """Queue one input stream; its end comes ``alone``, or ``with data``."""
        data = b"".join(word.to_bytes(self.in_bytes, "little") for word in transfers)
        keep = [1] * len(data)
        if end == "alone":
            data += bytes(self.in_bytes)
            keep += [0] * self.in_bytes
        self.source.send_nowait(AxiStreamFrame(data, tkeep=keep))

    async def receive(self) -> list[int]:
        """Return the results up to the next end, which must be a transfer without data."""
        frame = await self.sink.recv(compact=False)
        size = self.out_bytes
        starts = range(0, len(frame.tdata), size)
        data = [int.from_bytes(frame.tdata[at : at + size], "little") for at in starts]
        kept = [sum(frame.tkeep[at : at + size]) for at in starts]
        *beats, end = (kept[at : at + self.lanes] for at in range(0, len(kept), self.lanes))
        assert not any(end), "the end carries data"
        assert all(any(beat) for beat in beats), "a transfer carries no row and is not the end"
        assert set(kept) <= {0, size}, "a row is not whole"
        return [word for word, bytes_kept in zip(data, kept, strict=True) if bytes_kept]

    async def check_stream(self, *, end: str = "alone") -> None:
        """Send the script and hold the results to it."""
        self.send(self.script.transfers, end=end)
        self.check_results(await self.receive())

    def check_results(self, results: list[int]) -> None:
        got, expected = sorted(results), sorted(self.script.expected)
        assert got == expected, (
            f"{len(got)} results, {len(expected)} expected; the first ones that differ: "
            f"{[(hex(a), hex(b)) for a, b in zip(got, expected, strict=False) if a != b][:3]}"
        )

    async def check_quiet(self) -> None:
        """Nothing may follow an end."""
        self.sink.clear_pause_generator()
        self.sink.pause = False
        taken = self.laws["m_axis"].transfers
        await ClockCycles(self.dut.clk, QUIET_CYCLES)
        assert self.laws["m_axis"].transfers == taken, "something followed the end"
        assert self.sink.empty()
        assert self.source.empty()

    async def read(self, name: str) -> int:
        """Read a register by name; ``name`` may be that of a 64-bit counter."""
        addresses = self.design.registers
        if name in addresses:
            answer = await self.registers.read(addresses[name], 4)
            assert answer.resp == AxiResp.OKAY, f"{name}: {answer.resp!r}"
            return int.from_bytes(answer.data, "little")
        return await self.read(f"{name}_lo") | await self.read(f"{name}_hi") << 32

    async def write(self, name: str, value: int) -> AxiResp:
        """Write a register by name and return the response."""
        address = self.design.registers[name]
        answer = await self.registers.write(address, value.to_bytes(4, "little"))
        return answer.resp
