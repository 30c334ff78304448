"""The scheduler: tasks dealt to the pipelines in turn, and each pipeline kept busy (section 4).

While a pipeline works on one part of a task, the host writes the stream tuples of the next one into
the other buffer, and reads the results of the one before.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..query import JoineryError
from .controller import SIDES, Controller, Part, Task, opposite
from .device import CardStatus, CardTask, Device, DeviceError, Side
from .layout import STREAM, WINDOW
from .memory import BUFFERS, CardMemory, records_of
from .store import NUMBER

__all__ = ["PATIENCE", "Pairs", "Scheduler", "Totals"]

Raw = npt.NDArray[Any]

PATIENCE = 50_000_000
"""Cycles without news of any pipeline after which a card counts as stuck."""


@dataclass(frozen=True)
class Pairs:
    """Pairs that a pipeline found, as indices in their streams; the results of one stream tuple are
    in the order of the window."""

    part: Part
    stream: Raw
    window: Raw


@dataclass
class Totals:
    """What a pipeline did: parts of tasks, pairs of tuples compared, bytes of tuples read, results
    buffers that were full, and the sums of the card's counters."""

    parts: int = 0
    compared: int = 0
    bytes_read: int = 0
    overflows: int = 0
    counters: Counter[str] = field(default_factory=Counter)


class Scheduler:
    """Run tasks on all pipelines of a card.

    Parameters
    ----------
    device : Device
        The card.
    controller : Controller
        Knows the windows of tasks, and keeps the tuples.
    memory : CardMemory
        Where things lie on the card.
    deliver : callable
        Takes the pairs of a part when it is done.
    """

    def __init__(
        self,
        device: Device,
        controller: Controller,
        memory: CardMemory,
        deliver: Callable[[Pairs], None],
    ) -> None:
        self._device = device
        self._controller = controller
        self._rings = memory.rings
        self._lanes = [
            _Lane(number, device, controller, memory, deliver)
            for number in range(len(device.pipelines))
        ]
        for side in SIDES:
            if not self._of(side):
                raise JoineryError(f"The card has no pipeline for tuples of the {side} stream")
        self._turn: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self._moved_at = device.cycles

    @property
    def totals(self) -> list[Totals]:
        """What each pipeline did so far."""
        return [lane.totals for lane in self._lanes]

    def _of(self, side: Side) -> "list[_Lane]":
        return [lane for lane in self._lanes if lane.side == side]

    # Tasks come in.

    def submit(self, task: Task) -> list[Part]:
        """Deal a task to the pipelines, and return the parts it was cut into."""
        dealt = []
        for side in SIDES:
            for lane, first, end in self._deal(side, *task.streams[side]):
                for part in self._controller.parts(task, side, first, end):
                    lane.queue.append(part)
                    dealt.append(part)
        return dealt

    def _deal(self, side: Side, first: int, end: int) -> "Iterator[tuple[_Lane, int, int]]":
        """Share stream tuples out, pipeline by pipeline from the one whose turn it is.

        Each gets as many batches of its own size as lets all be done at the same time.
        """
        lanes = self._of(side)
        batches = -(-(end - first) // sum(lane.units for lane in lanes))
        while first < end:
            lane = lanes[self._turn[side]]
            self._turn[side] = (self._turn[side] + 1) % len(lanes)
            share = min(end, first + batches * lane.units)
            while first < share:
                yield lane, first, min(share, first + lane.stream_tuples)
                first = min(share, first + lane.stream_tuples)

    @property
    def backlog(self) -> int:
        """The parts that wait or run, of the pipeline that has most."""
        return max(len(lane.unfinished) for lane in self._lanes)

    # Tasks are worked on.

    def step(self) -> bool:
        """Move everything on that can; wait for the card where nothing can.

        False when there is nothing left to do.
        """
        moved = [lane.step(self._needed) for lane in self._lanes]
        if any(moved):
            self._moved_at = self._device.cycles
            return True
        if any(lane.running for lane in self._lanes):
            self._device.wait()
            if self._device.cycles - self._moved_at > PATIENCE:
                raise DeviceError(f"No pipeline has moved for {PATIENCE} cycles")
            return True
        waiting = [lane for lane in self._lanes if lane.queue]
        if waiting:
            part = waiting[0].queue[0]
            side = opposite(part.side)
            tuples = part.window_end - self._rings[side].word_start(self._needed(side))
            raise JoineryError(self._controller.full(side, tuples))
        return False

    def abort(self) -> None:
        """Stop all pipelines; what they worked on is lost."""
        for lane in self._lanes:
            lane.abort()

    def _needed(self, side: Side) -> int:
        """Return the index of the oldest tuple of a side that the card must keep."""
        held = [part.window_first for lane in self._of(opposite(side)) for part in lane.unfinished]
        return min([self._controller.slices[side].first, *held])


class _Lane:
    """One pipeline: what it runs, what is ready to be run, and what waits."""

    def __init__(
        self,
        number: int,
        device: Device,
        controller: Controller,
        memory: CardMemory,
        deliver: Callable[[Pairs], None],
    ) -> None:
        info = device.pipelines[number]
        self.side, self.units = info.side, info.units
        self.stream_tuples = memory.stream_tuples[number]
        self.queue: deque[Part] = deque()
        self.ready: Part | None = None
        self.running: Part | None = None
        self.totals = Totals()
        self._number = number
        self._device = device
        self._controller = controller
        self._deliver = deliver
        self._ring = memory.rings[opposite(self.side)]
        self._streams = memory.streams[number]
        self._results = memory.results[number]
        self._capacity = memory.result_tuples
        self._stream_turn = self._result_turn = 0
        self._found: list[tuple[Raw, Raw]] = []

    @property
    def unfinished(self) -> Sequence[Part]:
        """The parts whose windows the card must keep."""
        return [part for part in (self.running, self.ready, *self.queue) if part]

    def step(self, needed: Callable[[Side], int]) -> bool:
        """Do what can be done now; False if that was nothing."""
        moved = self.running is not None and self._look()
        for _ in range(2):  # what runs, and what is ready for when it is done
            if self.ready is None and self.queue:
                moved |= self._prepare(needed(opposite(self.side)))
            if self.running is None and self.ready is not None:
                self._start(self.ready)
                moved = True
        return moved

    def abort(self) -> None:
        self._device.abort(self._number)
        self.queue.clear()
        self.ready = self.running = None
        self._found = []

    def _prepare(self, needed: int) -> bool:
        """Bring the next part's tuples to the card; False if its window has no room there."""
        part = self.queue[0]
        window = self._controller.stores[opposite(self.side)]
        if not self._ring.sync(window, part.window_end, needed):
            return False
        layout = self._controller.layout.of(self.side)
        store = self._controller.stores[self.side]
        self._stream_turn = (self._stream_turn + 1) % BUFFERS
        words = layout.pack(records_of(store, part.first, part.end, layout))
        self._device.write(self._streams[self._stream_turn], words)
        self.ready = self.queue.popleft()
        return True

    def _start(self, part: Part) -> None:
        """Start the part that is ready."""
        ring = self._ring
        self._result_turn = (self._result_turn + 1) % BUFFERS
        start = ring.word_start(part.window_first)
        task = CardTask(
            stream_address=self._streams[self._stream_turn],
            stream_count=part.end - part.first,
            window_address=ring.address(start),
            window_count=part.window_end - start,
            window_base=ring.base,
            window_end=ring.end,
            result_address=self._results[self._result_turn],
            result_capacity=self._capacity,
            time_range=self._controller.time_range,
        )
        self._device.start(self._number, task)
        self.running, self.ready = part, None

    def _look(self) -> bool:
        """See what the pipeline has done; False if it just goes on."""
        status = self._device.status(self._number)
        if status.state == "running":
            return False
        part, buffer = self.running, self._results[self._result_turn]
        assert part is not None
        if status.state == "overflow":
            self.totals.overflows += 1
            self._result_turn = (self._result_turn + 1) % BUFFERS
            self._device.resume(self._number, self._results[self._result_turn], self._capacity)
            self._found.append(self._read(part, buffer, status))
        elif status.state == "done":
            self.running = None
            self._add_up(part, status)
            if self.ready is not None:  # the card works while we read
                self._start(self.ready)
            self._found.append(self._read(part, buffer, status))
            stream, window = (np.concatenate(each) for each in zip(*self._found, strict=True))
            self._found = []
            self._deliver(Pairs(part, stream, window))
        else:
            raise DeviceError(f"Pipeline {self._number} is {status.state} in the middle of a task")
        return True

    def _add_up(self, part: Part, status: CardStatus) -> None:
        layout, side = self._controller.layout, self.side
        window = part.window_end - self._ring.word_start(part.window_first)
        stream = part.end - part.first
        words = layout.of(side).words(stream)
        words += -(-stream // self.units) * layout.of(opposite(side)).words(window)
        self.totals.parts += 1
        self.totals.compared += stream * window
        self.totals.bytes_read += words * layout.word_bytes
        self.totals.counters.update(status.counters)

    def _read(self, part: Part, address: int, status: CardStatus) -> tuple[Raw, Raw]:
        """Read results, and return them as indices in the two streams."""
        layout = self._controller.layout.result
        if not 0 <= status.results <= self._capacity:
            raise DeviceError(
                f"Pipeline {self._number} reports {status.results} results in a buffer for "
                f"{self._capacity}"
            )
        content = self._device.read(address, status.results * layout.stride)
        ids = layout.unpack(content, status.results)
        mask = (1 << self._controller.layout.id_bits) - 1
        store = self._controller.stores[self.side]
        oldest = int(store.column(NUMBER, part.first, part.first + 1)[0])
        numbers = oldest + ((ids[STREAM] - oldest) & mask)
        stream = self._index(self.side, numbers, (part.first, part.end))
        met = numbers - ((ids[STREAM] - ids[WINDOW]) & mask)
        window = self._index(opposite(self.side), met, (part.window_first, part.window_end))
        return stream, window

    def _index(self, side: Side, numbers: Raw, within: tuple[int, int]) -> Raw:
        """Return the indices of tuples by their numbers."""
        first, end = within
        known = self._controller.stores[side].column(NUMBER, first, end)
        places = np.minimum(np.searchsorted(known, numbers), end - first - 1)
        wrong = known[places] != numbers
        if wrong.any():
            raise DeviceError(
                f"Pipeline {self._number} reports a pair with tuple {int(numbers[wrong][0])} of "
                f"the {side} stream, which was not in its task"
            )
        return first + places
