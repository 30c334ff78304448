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
from joinery.fjoin.control import COMMAND, COUNTERS, NARROW, STATES, WIDE
from joinery_gen.fjoin_host.device import CardStatus, CardTask, DeviceError, PipelineInfo, State
from joinery_gen.fjoin_host.layout import CardLayout
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
        pipelines = tuple(PipelineInfo(**each) for each in told["pipelines"])
        return CardFacts(verilog, pipelines, told["records"], addresses)

    @property
    def word_bytes(self) -> int:
        return int(self.records["left"]["word_bytes"])

    @property
    def time_bits(self) -> int:
        return CardLayout.from_dict(self.records).time_bits


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


class SimulatedCard:
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
        self.memory_bytes = memory_bytes
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
    def pipelines(self) -> Sequence[PipelineInfo]:
        return self.facts.pipelines

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
        return {name: self._read(address) for name, address in self.facts.addresses.items()}

    def write(self, address: int, data: bytes) -> None:
        self._check_buffer("A write", address, len(data))
        if len(data) % self.facts.word_bytes:
            raise DeviceError(f"A write of {len(data)} bytes is not one of whole bus words")
        self._ask("W", address, len(data), data=data)

    def read(self, address: int, count: int) -> bytes:
        if not 0 <= address <= address + count <= self.memory_bytes:
            raise DeviceError(f"A read of {count} bytes at {address} is outside the memory")
        return self._ask("R", address, count, answer=count)

    def start(self, pipeline: int, task: CardTask) -> None:
        if self._state(pipeline) not in ("idle", "done"):
            raise DeviceError(f"Pipeline {pipeline} was started in the middle of a task")
        values = self._checked(pipeline, task)
        for name in WIDE:
            self._set(pipeline, f"{name}_lo", values[name] & 0xFFFFFFFF)
            self._set(pipeline, f"{name}_hi", values[name] >> 32)
        for name in NARROW:
            self._set(pipeline, name, values[name])
        self._command(pipeline, "start")

    def status(self, pipeline: int) -> CardStatus:
        state = self._state(pipeline)
        if self._read(self.facts.addresses["errors"]) >> pipeline & 1:
            raise DeviceError(
                f"The card's memory answered pipeline {pipeline} with an error; "
                "what it read or wrote is not to be trusted"
            )
        counters = {
            {"matches": "results"}.get(name, name): self._get(pipeline, f"{name}_lo")
            | self._get(pipeline, f"{name}_hi") << 32
            for name in COUNTERS
        }
        results = self._get(pipeline, "results")
        if state == "idle":
            return CardStatus(state, 0, dict.fromkeys(counters, 0))
        return CardStatus(state, results, counters)

    def wait(self) -> None:
        self._ask("g", SLEEP)

    def resume(self, pipeline: int, result_address: int, result_capacity: int) -> None:
        state = self._state(pipeline)
        if state != "overflow":
            raise DeviceError(f"Pipeline {pipeline} was resumed, and it is {state}")
        self._check_results(result_address, result_capacity)
        self._set(pipeline, "result_address_lo", result_address & 0xFFFFFFFF)
        self._set(pipeline, "result_address_hi", result_address >> 32)
        self._set(pipeline, "result_capacity", result_capacity)
        self._command(pipeline, "resume")

    def abort(self, pipeline: int) -> None:
        self._command(pipeline, "abort")
        while self._state(pipeline) != "idle":
            pass  # reading the register lets the card work

    # What tasks must be.

    def _check_buffer(self, what: str, address: int, size: int) -> None:
        if address % self.facts.word_bytes:
            raise DeviceError(f"{what} at {address} does not begin at a bus word")
        if not 0 <= address <= address + size <= self.memory_bytes:
            raise DeviceError(f"{what} of {size} bytes at {address} is outside the memory")

    def _check_results(self, address: int, capacity: int) -> None:
        if capacity < 1:
            raise DeviceError(f"A result buffer holds {capacity} results, and 1 is the least")
        size = capacity * self.facts.records["result"]["stride"]
        self._check_buffer("A result buffer", address, size)

    def _checked(self, pipeline: int, task: CardTask) -> dict[str, int]:
        """Return what the registers are told of a task."""
        side = self.facts.pipelines[pipeline].side
        other = "right" if side == "left" else "left"
        if task.stream_count < 1:
            raise DeviceError(f"A task has {task.stream_count} stream tuples, and 1 is the least")
        words = {
            "stream_words": -(-task.stream_count // self.facts.records[side]["per_word"]),
            "window_words": -(-task.window_count // self.facts.records[other]["per_word"]),
        }
        word = self.facts.word_bytes
        self._check_buffer("A stream buffer", task.stream_address, words["stream_words"] * word)
        self._check_results(task.result_address, task.result_capacity)
        if not 0 <= task.time_range < 1 << self.facts.time_bits - 1:
            raise DeviceError(f"A time range of {task.time_range} does not fit")
        ring = task.window_end - task.window_base
        self._check_buffer("A ring", task.window_base, ring)
        self._check_buffer("A ring's end", task.window_end, 0)
        self._check_buffer("A window", task.window_address, 0)
        size = words["window_words"] * word
        inside = task.window_base <= task.window_address < task.window_end
        if task.window_count and (not inside or size > ring):
            raise DeviceError(f"A window of {size} bytes at {task.window_address} is not in a ring")
        return {**vars(task), **words}

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

    def _set(self, pipeline: int, name: str, value: int) -> None:
        address = self.facts.addresses[f"p{pipeline}_{name}"]
        (response,) = struct.unpack("<Q", self._ask("w", address, value, answer=8))
        assert response == 0, f"writing {name} was answered by {response}"

    def _get(self, pipeline: int, name: str) -> int:
        return self._read(self.facts.addresses[f"p{pipeline}_{name}"])

    def _read(self, address: int) -> int:
        value, response = struct.unpack("<QQ", self._ask("r", address, answer=16))
        assert response == 0, f"reading register {address:#x} was answered by {response}"
        return int(value)

    def _state(self, pipeline: int) -> State:
        names: Any = STATES
        state: State = names[self._get(pipeline, "state")]
        return state

    def _command(self, pipeline: int, name: str) -> None:
        self._set(pipeline, "command", 1 << COMMAND[name])
