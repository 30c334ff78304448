"""The device that a host drives, as generated Verilog with AXI4 memory, in a process of its own."""

import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any

from joinery.fjoin import FJoinCard
from joinery_gen.fjoin_host.device import DeviceError, PipelineInfo
from joinery_gen.fjoin_host.registers import RegisterCard
from joinery_gen.query import JoineryError
from joinery_gen.verilog import component_verilog

from ..build import VERILATOR_OPTIONS, build_tools, cached_build, run_tool
from ..design import Design

__all__ = ["CHANNELS", "CardFacts", "SimulatedCard", "build_card"]

CHANNELS = ("ar", "r", "aw", "w", "b")
"""The channels of AXI4, each of which can pause."""

HARNESS = "card_main.cpp"
HARNESS_WORD = 64
SLEEP = 100_000
"""Cycles that ``wait`` lets pass at most."""


@dataclass(frozen=True)
class CardFacts:
    """What a simulation must know of a card: its Verilog, and what ``top.json`` says of it."""

    verilog: str
    pipelines: tuple[PipelineInfo, ...]
    records: Mapping[str, Any]
    addresses: Mapping[str, int]

    @staticmethod
    def of(card: FJoinCard | Design) -> "CardFacts":
        if isinstance(card, Design):
            return CardFacts._of(card.verilog.read_text(), card.top, card.registers)
        addresses = {each.name: each.address for each in card.registers}
        return CardFacts._of(component_verilog(card), card.describe(), addresses)

    @staticmethod
    def _of(verilog: str, told: Mapping[str, Any], addresses: Mapping[str, int]) -> "CardFacts":
        if "memory" in told:
            raise JoineryError(
                "A card with its memory on the chip is simulated as a board: joinery run --port "
                "sim; or leave out --set memory_kib"
            )
        pipelines = tuple(PipelineInfo(**each) for each in told["pipelines"])
        return CardFacts(verilog, pipelines, told["records"], addresses)

    @property
    def word_bytes(self) -> int:
        return int(self.records["left"]["word_bytes"])


def build_card(facts: CardFacts) -> Path:
    """Return an executable that is the card with its memory."""
    if facts.word_bytes > HARNESS_WORD:
        raise JoineryError(
            f"The simulated memory has words of 64 bytes at most, not {facts.word_bytes}"
        )
    harness = resources.files(__package__) / HARNESS
    assert isinstance(harness, Path)
    sizes = {"PIPELINES": len(facts.pipelines), "WORD_BYTES": facts.word_bytes}
    command = [
        *("verilator", "--cc", "--exe", "--build", "-j", "0", "-Wno-fatal", *VERILATOR_OPTIONS),
        *("-CFLAGS", " ".join(f"-D{name}={value}" for name, value in sizes.items())),
        *("--top-module", "top", "--prefix", "Vtop", "-Mdir", ".", "-o", "top", "top.v", HARNESS),
    ]
    depends = {
        "verilog": facts.verilog,
        "harness": harness.read_text(),
        "tools": build_tools("verilator"),
        "command": command,
    }

    def make(folder: Path) -> Path:
        (folder / "top.v").write_text(facts.verilog)
        shutil.copy(harness, folder)
        run_tool(command, "verilator", folder)
        return folder / "top"

    units = "+".join(str(each.units) for each in facts.pipelines)
    return cached_build(f"a card of {units} units", depends, make, "top") / "top"


class SimulatedCard(RegisterCard):
    """A card in Verilator; ``joinery_gen.fjoin_host.device.Device`` says what it does.

    Reading a register takes a few cycles, so ``status`` takes some, too. To be closed, or used in
    ``with``.

    Parameters
    ----------
    card : FJoinCard or Design
        The hardware, or the folder of Verilog that `joinery gen` wrote, as it is now.
    memory_bytes : int
    latency : int
        Cycles from a request to memory until its answer begins.
    stalls : mapping of channel to float
        How often each of ``CHANNELS`` pauses.
    faults : mapping of channel to int
        Which answer of each memory on ``r`` or ``b``, counted from 1, is an error.
    seed : int
    """

    def __init__(
        self,
        card: FJoinCard | Design,
        *,
        memory_bytes: int = 1 << 24,
        latency: int = 40,
        stalls: Mapping[str, float] | None = None,
        faults: Mapping[str, int] | None = None,
        seed: int = 1,
    ) -> None:
        self.facts = facts = CardFacts.of(card)
        told = {"pipelines": [vars(each) for each in facts.pipelines], "records": facts.records}
        super().__init__(told, memory_bytes)
        options = {"memory": memory_bytes, "latency": latency, "seed": seed}
        for channel in CHANNELS:
            chance = (stalls or {}).get(channel, 0.0)
            options[f"chance_{channel}"] = min(round(256 * chance), 255)
        options |= {f"fault_{channel}": (faults or {}).get(channel, 0) for channel in ("r", "b")}
        self._process = subprocess.Popen(
            [build_card(facts), *(f"+{name}={value}" for name, value in options.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> "SimulatedCard":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the simulation."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()

    # The device.

    @property
    def cycles(self) -> int:
        return int(struct.unpack("<Q", self._ask("c", answer=8))[0])

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes that all pipelines have read and written."""
        read, written = struct.unpack("<QQ", self._ask("m", answer=16))
        return read, written

    @property
    def registers(self) -> dict[str, int]:
        """What each register reads."""
        return self.read_registers(list(self.facts.addresses))

    def wait(self) -> None:
        self._ask("g", SLEEP)

    def store(self, address: int, data: bytes) -> None:
        self._ask("W", address, len(data), data=data)

    def load(self, address: int, count: int) -> bytes:
        return self._ask("R", address, count, answer=count)

    def read_registers(self, names: Sequence[str]) -> dict[str, int]:
        return {name: self._read(self.facts.addresses[name]) for name in names}

    def write_registers(self, values: Mapping[str, int]) -> None:
        for name, value in values.items():
            address = self.facts.addresses[name]
            (response,) = struct.unpack("<Q", self._ask("w", address, value, answer=8))
            assert response == 0, f"writing {name} was answered by {response}"

    # The process.

    def _ask(self, letter: str, *numbers: int, data: bytes = b"", answer: int = 0) -> bytes:
        request, replies = self._process.stdin, self._process.stdout
        assert request is not None
        assert replies is not None
        request.write(letter.encode() + struct.pack(f"<{len(numbers)}Q", *numbers) + data)
        request.flush()
        good = replies.read(1)
        if good == b"\1":
            (length,) = struct.unpack("<Q", replies.read(8))
            raise DeviceError(f"The card broke a rule: {replies.read(length).decode()}")
        found = replies.read(answer)
        if not good or len(found) < answer:
            raise DeviceError("The simulation of the card ended")
        return found

    def _read(self, address: int) -> int:
        value, response = struct.unpack("<QQ", self._ask("r", address, answer=16))
        assert response == 0, f"reading register {address:#x} was answered by {response}"
        return int(value)
