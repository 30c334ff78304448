"""A card that is told what to do through its registers, whatever carries the accesses to them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from joinery.fjoin.control import COMMAND, COUNTERS, NARROW, STATES, WIDE

from .device import CardStatus, CardTask, DeviceError, PipelineInfo, State
from .layout import CardLayout

__all__ = ["RegisterCard"]


class RegisterCard(ABC):
    """All of `Device` but the clock, for a card whose registers and memory a subclass reaches.

    Parameters
    ----------
    told : mapping
        The entries ``pipelines`` and ``records`` of ``top.json``.
    memory_bytes : int
        The size of the memory.
    """

    def __init__(self, told: Mapping[str, Any], memory_bytes: int) -> None:
        self.pipelines: Sequence[PipelineInfo] = tuple(
            PipelineInfo(**each) for each in told["pipelines"]
        )
        self.memory_bytes = memory_bytes
        self._records: Mapping[str, Any] = told["records"]
        layout = CardLayout.from_dict(told["records"])
        self._word_bytes, self._time_bits = layout.word_bytes, layout.time_bits

    @abstractmethod
    def read_registers(self, names: Sequence[str]) -> dict[str, int]:
        """Return what registers hold, read one after the other."""

    @abstractmethod
    def write_registers(self, values: Mapping[str, int]) -> None:
        """Write registers, one after the other."""

    @abstractmethod
    def load(self, address: int, count: int) -> bytes:
        """Return bytes of the memory, all of which are inside."""

    @abstractmethod
    def store(self, address: int, data: bytes) -> None:
        """Put whole bus words into the memory, all of which are inside."""

    def write(self, address: int, data: bytes) -> None:
        self._check_buffer("A write", address, len(data))
        if len(data) % self._word_bytes:
            raise DeviceError(f"A write of {len(data)} bytes is not one of whole bus words")
        self.store(address, data)

    def read(self, address: int, count: int) -> bytes:
        if not 0 <= address <= address + count <= self.memory_bytes:
            raise DeviceError(f"A read of {count} bytes at {address} is outside the memory")
        return self.load(address, count)

    def start(self, pipeline: int, task: CardTask) -> None:
        if self._state(pipeline) not in ("idle", "done"):
            raise DeviceError(f"Pipeline {pipeline} was started in the middle of a task")
        values = self._checked(pipeline, task)
        told: dict[str, int] = {}
        for name in WIDE:
            told |= _halves(name, values[name])
        self._tell(pipeline, {**told, **{name: values[name] for name in NARROW}}, "start")

    def status(self, pipeline: int) -> CardStatus:
        stem = f"p{pipeline}_"
        halves = [f"{stem}{name}_{half}" for name in COUNTERS for half in ("lo", "hi")]
        # The state comes first: what is read after it is at least as new.
        found = self.read_registers([f"{stem}state", "errors", *halves, f"{stem}results"])
        if found["errors"] >> pipeline & 1:
            raise DeviceError(
                f"The card's memory answered pipeline {pipeline} with an error; "
                "what it read or wrote is not to be trusted"
            )
        counters = {
            {"matches": "results"}.get(name, name): found[f"{stem}{name}_lo"]
            | found[f"{stem}{name}_hi"] << 32
            for name in COUNTERS
        }
        state = _state_of(found[f"{stem}state"])
        if state == "idle":
            return CardStatus(state, 0, dict.fromkeys(counters, 0))
        return CardStatus(state, found[f"{stem}results"], counters)

    def resume(self, pipeline: int, result_address: int, result_capacity: int) -> None:
        state = self._state(pipeline)
        if state != "overflow":
            raise DeviceError(f"Pipeline {pipeline} was resumed, and it is {state}")
        self._check_results(result_address, result_capacity)
        told = {**_halves("result_address", result_address), "result_capacity": result_capacity}
        self._tell(pipeline, told, "resume")

    def abort(self, pipeline: int) -> None:
        self._tell(pipeline, {}, "abort")
        while self._state(pipeline) != "idle":
            pass  # reading the register lets the card work

    def _state(self, pipeline: int) -> State:
        name = f"p{pipeline}_state"
        return _state_of(self.read_registers([name])[name])

    def _tell(self, pipeline: int, values: Mapping[str, int], command: str) -> None:
        """Write registers of a pipeline, and its command after them."""
        told = {**values, "command": 1 << COMMAND[command]}
        self.write_registers({f"p{pipeline}_{name}": value for name, value in told.items()})

    # What tasks must be.

    def _check_buffer(self, what: str, address: int, size: int) -> None:
        if address % self._word_bytes:
            raise DeviceError(f"{what} at {address} does not begin at a bus word")
        if not 0 <= address <= address + size <= self.memory_bytes:
            raise DeviceError(f"{what} of {size} bytes at {address} is outside the memory")

    def _check_results(self, address: int, capacity: int) -> None:
        if capacity < 1:
            raise DeviceError(f"A result buffer holds {capacity} results, and 1 is the least")
        size = capacity * self._records["result"]["stride"]
        self._check_buffer("A result buffer", address, size)

    def _checked(self, pipeline: int, task: CardTask) -> dict[str, int]:
        """Return what the registers are told of a task."""
        side = self.pipelines[pipeline].side
        other = "right" if side == "left" else "left"
        if task.stream_count < 1:
            raise DeviceError(f"A task has {task.stream_count} stream tuples, and 1 is the least")
        words = {
            "stream_words": -(-task.stream_count // self._records[side]["per_word"]),
            "window_words": -(-task.window_count // self._records[other]["per_word"]),
        }
        word = self._word_bytes
        self._check_buffer("A stream buffer", task.stream_address, words["stream_words"] * word)
        self._check_results(task.result_address, task.result_capacity)
        if not 0 <= task.time_range < 1 << self._time_bits - 1:
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


def _halves(name: str, value: int) -> dict[str, int]:
    """The two registers of a wide value."""
    return {f"{name}_lo": value & 0xFFFFFFFF, f"{name}_hi": value >> 32}


def _state_of(number: int) -> State:
    names: Any = STATES
    state: State = names[number]
    return state
