"""A card in plain Python, for tests of the host and for trying queries without a simulator."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from joinery.join import JoinPair

from .device import CardStatus, CardTask, DeviceError, PipelineInfo, State
from .layout import ID, STREAM, TIME, WINDOW, CardLayout
from .vectors import evaluate_columns

__all__ = ["ModelDevice"]

Raw = npt.NDArray[Any]

COUNTERS = ("cycles", "batches", "window_tuples", "results", "rejected_order", "rejected_time")
PIECE = 1 << 20
"""Pairs that are tried at once."""


@dataclass
class _Run:
    """A pipeline with its task; ``work`` yields where it may pause, True at a full buffer."""

    state: State = "idle"
    results: int = 0
    address: int = 0
    capacity: int = 0
    clocked: int = 0  # cycles that the card's clock has counted
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    work: Iterator[bool] = field(default_factory=lambda: iter(()))


class ModelDevice:
    """A card whose pipelines try every pair by brute force.

    It reads memory when a batch runs, and begins as soon as it is told to, so that a host that
    overwrites what is still needed, or reads too late, is found out. A batch takes a cycle per
    window tuple or per result, whichever are more, and ``overhead`` cycles.

    Parameters
    ----------
    pair : JoinPair
        The streams and the predicate, without the test of times.
    layout : CardLayout
        The records in memory.
    pipelines : sequence of PipelineInfo
        The pipelines.
    memory_bytes : int
        The size of the memory.
    pace : callable
        How many batches of the pipeline of this number run in the next ``wait``; one by default.
    overhead : int
        Cycles of a batch besides.
    """

    def __init__(
        self,
        pair: JoinPair,
        layout: CardLayout,
        pipelines: Sequence[PipelineInfo],
        *,
        memory_bytes: int = 1 << 24,
        pace: Callable[[int], int] = lambda pipeline: 1,
        overhead: int = 20,
    ) -> None:
        self.pair = pair
        self.layout = layout
        self.pipelines = tuple(pipelines)
        self.memory_bytes = memory_bytes
        self.cycles = 0
        self._pace = pace
        self._overhead = overhead
        self._memory = bytearray(memory_bytes)
        self._runs = [_Run() for _ in self.pipelines]

    def write(self, address: int, data: bytes) -> None:
        self._check_buffer("A write", address, len(data))
        if len(data) % self.layout.word_bytes:
            raise DeviceError(f"A write of {len(data)} bytes is not one of whole bus words")
        self._memory[address : address + len(data)] = data

    def read(self, address: int, count: int) -> bytes:
        if not 0 <= address <= address + count <= self.memory_bytes:
            raise DeviceError(f"A read of {count} bytes at {address} is outside the memory")
        return bytes(self._memory[address : address + count])

    def start(self, pipeline: int, task: CardTask) -> None:
        if self._runs[pipeline].state not in ("idle", "done"):
            raise DeviceError(f"Pipeline {pipeline} was started in the middle of a task")
        self._check_task(pipeline, task)
        run = _Run("running", 0, task.result_address, task.result_capacity)
        run.work = self._batches(pipeline, task, run)
        self._runs[pipeline] = run
        self._work(run)

    def status(self, pipeline: int) -> CardStatus:
        run = self._runs[pipeline]
        return CardStatus(run.state, run.results, dict(run.counters))

    def wait(self) -> None:
        for pipeline, run in enumerate(self._runs):
            for _ in range(self._pace(pipeline)):
                self._work(run)
        # pipelines work side by side
        self.cycles += max((run.counters["cycles"] - run.clocked for run in self._runs), default=0)
        for run in self._runs:
            run.clocked = run.counters["cycles"]

    def _work(self, run: _Run) -> None:
        """Let a pipeline that runs do a batch, or fill its buffer."""
        if run.state == "running":
            full = next(run.work, None)
            run.state = "done" if full is None else "overflow" if full else "running"

    def resume(self, pipeline: int, result_address: int, result_capacity: int) -> None:
        run = self._runs[pipeline]
        if run.state != "overflow":
            raise DeviceError(f"Pipeline {pipeline} was resumed, and it is {run.state}")
        self._check_results(result_address, result_capacity)
        run.state, run.results = "running", 0
        run.address, run.capacity = result_address, result_capacity
        self._work(run)

    def abort(self, pipeline: int) -> None:
        self._runs[pipeline] = _Run()

    # What tasks must be.

    def _check_buffer(self, what: str, address: int, size: int) -> None:
        if address % self.layout.word_bytes:
            raise DeviceError(f"{what} at {address} does not begin at a bus word")
        if not 0 <= address <= address + size <= self.memory_bytes:
            raise DeviceError(f"{what} of {size} bytes at {address} is outside the memory")

    def _check_results(self, address: int, capacity: int) -> None:
        if capacity < 1:
            raise DeviceError(f"A result buffer holds {capacity} results, and 1 is the least")
        self._check_buffer("A result buffer", address, capacity * self.layout.result.stride)

    def _check_task(self, pipeline: int, task: CardTask) -> None:
        side = self.pipelines[pipeline].side
        stream, window = self._layouts(side)
        word = self.layout.word_bytes
        if task.stream_count < 1:
            raise DeviceError(f"A task has {task.stream_count} stream tuples, and 1 is the least")
        size = stream.words(task.stream_count) * word
        self._check_buffer("A stream buffer", task.stream_address, size)
        self._check_results(task.result_address, task.result_capacity)
        if not 0 <= task.time_range < 1 << self.layout.time_bits - 1:
            raise DeviceError(f"A time range of {task.time_range} does not fit")
        self._check_buffer("A ring", task.window_base, task.window_end - task.window_base)
        self._check_buffer("A ring's end", task.window_end, 0)
        self._check_buffer("A window", task.window_address, 0)
        size = window.words(task.window_count) * word
        inside = task.window_base <= task.window_address < task.window_end
        if task.window_count and (not inside or size > task.window_end - task.window_base):
            raise DeviceError(f"A window of {size} bytes at {task.window_address} is not in a ring")

    # What a pipeline does.

    def _layouts(self, side: str) -> "tuple[Any, Any]":
        opposite = "right" if side == "left" else "left"
        return self.layout.of(side), self.layout.of(opposite)

    def _batches(self, pipeline: int, task: CardTask, run: _Run) -> Iterator[bool]:
        """Run a task: yields False after a batch, and True where the result buffer is full."""
        units = self.pipelines[pipeline].units
        stream_layout, window_layout = self._layouts(self.pipelines[pipeline].side)
        count = partial(self._count, run)
        for first in range(0, task.stream_count, units):
            size = stream_layout.words(task.stream_count) * self.layout.word_bytes
            tuples = stream_layout.unpack(self.read(task.stream_address, size), task.stream_count)
            stream = {name: values[first : first + units] for name, values in tuples.items()}
            window = window_layout.unpack(self._window(task), task.window_count)
            pairs = self._met(self.pipelines[pipeline].side, stream, window, task, count)
            found = len(pairs[STREAM])
            done = 0
            while done < found:
                if run.results == run.capacity:
                    yield True
                part = min(found - done, run.capacity - run.results)
                self._store(run, {name: ids[done : done + part] for name, ids in pairs.items()})
                done += part
            count(batches=1, window_tuples=task.window_count, results=found)
            count(cycles=max(task.window_count, found) + self._overhead)
            yield False

    @staticmethod
    def _count(run: _Run, **more: int) -> None:
        for name, number in more.items():
            run.counters[name] += number

    def _window(self, task: CardTask) -> bytes:
        """Read the ring from the start of the window on, once around."""
        return bytes(
            self._memory[task.window_address : task.window_end]
            + self._memory[task.window_base : task.window_address]
        )

    def _store(self, run: _Run, pairs: dict[str, Raw]) -> None:
        stride = self.layout.result.stride
        count = len(pairs[STREAM])
        records = self.layout.result.pack(pairs)[: count * stride]  # no word has a rest
        at = run.address + run.results * stride
        self._memory[at : at + len(records)] = records
        run.results += count

    def _met(
        self,
        side: str,
        stream: dict[str, Raw],
        window: dict[str, Raw],
        task: CardTask,
        count: Callable[..., None],
    ) -> dict[str, Raw]:
        """Return the ids of the pairs of a batch: window tuple by window tuple, then by unit."""
        units, tuples = len(stream[ID]), len(window[ID])
        names = self.pair.names if side == "left" else self.pair.names[::-1]
        streams, windows = [stream[ID][:0]], [window[ID][:0]]
        step = max(1, PIECE // units)
        for first in range(0, tuples, step):
            rows = np.repeat(np.arange(first, min(first + step, tuples)), units)
            unit = np.tile(np.arange(units), len(rows) // units)
            columns = {(names[0], name): values[unit] for name, values in stream.items()}
            columns |= {(names[1], name): values[rows] for name, values in window.items()}
            met = evaluate_columns(self.pair.predicate, columns, len(rows)).astype(bool)
            unit, rows = unit[met], rows[met]
            before = _before(window[ID][rows], stream[ID][unit], self.layout.id_bits)
            near = _near(
                window[TIME][rows], stream[TIME][unit], self.layout.time_bits, task.time_range
            )
            count(rejected_order=int((~before).sum()), rejected_time=int((before & ~near).sum()))
            streams.append(stream[ID][unit[before & near]])
            windows.append(window[ID][rows[before & near]])
        return {STREAM: np.concatenate(streams), WINDOW: np.concatenate(windows)}


def _before(window: Raw, stream: Raw, bits: int) -> npt.NDArray[np.bool_]:
    later = (stream - window) & ((1 << bits) - 1)
    found: npt.NDArray[np.bool_] = (later > 0) & (later < 1 << bits - 1)
    return found


def _near(window: Raw, stream: Raw, bits: int, most: int) -> npt.NDArray[np.bool_]:
    """Is the difference, modulo ``2**bits`` and as signed, at most ``most`` either way?"""
    moved = (stream.astype(object) if bits == 64 else stream) - window
    apart = (moved + most) & ((1 << bits) - 1)
    found: npt.NDArray[np.bool_] = (apart <= 2 * most).astype(bool)
    return found
