"""Completeness: which tuples are joined with which stretch of the other stream, and until when
tuples are kept (section 3.3 of the paper).

Every tuple gets a number when it arrives, and is the stream tuple of one task. It is joined there
with the tuples of the other stream that came before it and are in range, so that each pair is found
exactly once, at the arrival of its later tuple, in whatever order times arrive.

A stream has several sources. From time to time each signals how old its next tuples can be at most;
the least signal of a stream is its watermark. A slice expires when it is out of range of all that
the other stream can still bring, and it is dropped when, besides, no task needs it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from ..query import JoineryError
from .device import Side
from .layout import CardLayout
from .store import NUMBER, TIME_OF, Slices, TupleStore

__all__ = ["SIDES", "Arrivals", "Controller", "Part", "Task", "opposite"]

Raw = npt.NDArray[Any]

SIDES: tuple[Side, Side] = ("left", "right")


def opposite(side: Side) -> Side:
    return "right" if side == "left" else "left"


@dataclass(frozen=True)
class Arrivals:
    """Tuples of both streams in order of arrival.

    ``right`` tells the side of each, ``source`` which of its stream's sources it comes from, and
    ``time`` its time; ``columns`` has by side the raw values of that side's tuples.
    """

    right: npt.NDArray[np.bool_]
    source: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]
    columns: Mapping[Side, Mapping[str, Raw]]


@dataclass(frozen=True)
class Task:
    """Tuples that arrived together: of each side the first index, and the one after the last."""

    number: int
    streams: Mapping[Side, tuple[int, int]]

    @property
    def tuples(self) -> int:
        return sum(end - first for first, end in self.streams.values())


@dataclass(frozen=True)
class Part:
    """What one pipeline does of a task: stream tuples of one side, a window of the other."""

    task: Task
    side: Side
    first: int
    end: int
    window_first: int
    window_end: int


class Controller:
    """Number tuples, cut them into tasks, find their windows, and let old tuples go.

    Parameters
    ----------
    layout : CardLayout
        The records on the card, whose ids and times wrap.
    columns : mapping of side to sequence of str
        The columns that are kept of each stream.
    capacity : mapping of side to int
        The tuples of each stream that the card can hold.
    time_range : int
        The most that the times of a pair may differ.
    sources : mapping of side to int
        The sources of each stream.
    slice_tuples : int
        Tuples in a slice.
    """

    def __init__(
        self,
        layout: CardLayout,
        columns: Mapping[Side, Sequence[str]],
        capacity: Mapping[Side, int],
        *,
        time_range: int,
        sources: Mapping[Side, int],
        slice_tuples: int = 256,
    ) -> None:
        most = (1 << layout.time_bits - 1) - 1
        if not 0 <= time_range <= most:
            raise JoineryError(
                f"RANGE is {time_range}, and a card with times of {layout.time_bits} bits takes at "
                f"most {most}; build it with a larger time_bits"
            )
        for side in SIDES:
            if sources[side] < 1:
                raise JoineryError(
                    f"The {side} stream needs at least 1 source, not {sources[side]}"
                )
        if slice_tuples < 1:
            raise JoineryError(f"A slice has at least 1 tuple, not {slice_tuples}")
        self.layout = layout
        self.time_range = time_range
        self.stores = {side: TupleStore(columns[side]) for side in SIDES}
        self.slices = {side: Slices(slice_tuples) for side in SIDES}
        self.late: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self._capacity = dict(capacity)
        self._signals: dict[Side, list[int | None]] = {
            side: [None] * sources[side] for side in SIDES
        }
        self._finished = False
        self._next_number = 0
        self._next_task = 0
        self._taken: dict[Side, int] = dict.fromkeys(SIDES, 0)

    # What comes in.

    def add(self, arrivals: Arrivals) -> None:
        """Take tuples in."""
        numbers = self._next_number + np.arange(len(arrivals.right))
        self._next_number += len(numbers)
        for side, mine in zip(SIDES, (~arrivals.right, arrivals.right), strict=True):
            times, source = arrivals.time[mine], arrivals.source[mine]
            self._count_late(side, times, source)
            columns = {name: arrivals.columns[side][name] for name in arrivals.columns[side]}
            self.stores[side].append({NUMBER: numbers[mine], TIME_OF: times, **columns})
            self.slices[side].append(times)

    def _count_late(self, side: Side, times: Raw, sources: Raw) -> None:
        for source, signal in enumerate(self._signals[side]):
            if signal is not None:
                self.late[side] += int((times[sources == source] < signal).sum())

    def signal(self, side: Side, source: int, time: int) -> None:
        """Take a source's word that none of its later tuples is older than ``time``."""
        before = self._signals[side][source]
        self._signals[side][source] = time if before is None else max(before, time)

    def finish(self) -> None:
        """Take note that nothing comes any more."""
        self._finished = True

    def watermark(self, side: Side) -> int | None:
        """Return the least time that tuples of a side can still have; None while unknown."""
        signals = [time for time in self._signals[side] if time is not None]
        return min(signals) if len(signals) == len(self._signals[side]) else None

    # Tasks.

    def take(self) -> Task | None:
        """Return a task of all tuples that are in none yet."""
        streams = {side: (self._taken[side], self.stores[side].end) for side in SIDES}
        task = Task(self._next_task, streams)
        if not task.tuples:
            return None
        self._next_task += 1
        self._taken = {side: end for side, (_, end) in streams.items()}
        return task

    def parts(self, task: Task, side: Side, first: int, end: int) -> Iterator[Part]:
        """Find the windows of some of a task's stream tuples, none where nothing is in range.

        There are several parts where one would be too much for the card.
        """
        for exact in (False, True):
            window = self._window(side, first, end, exact=exact)
            if window[0] >= window[1]:
                return
            trouble = self._trouble(side, (first, end), window)
            if trouble is None:
                yield Part(task, side, first, end, *window)
                return
        if end - first == 1:
            raise JoineryError(trouble)
        middle = (first + end) // 2
        yield from self.parts(task, side, first, middle)
        yield from self.parts(task, side, middle, end)

    def _window(self, side: Side, first: int, end: int, *, exact: bool) -> tuple[int, int]:
        """Return a range that has all tuples before the last stream tuple and in range of any."""
        times = self.stores[side].column(TIME_OF, first, end)
        low, high = int(times.min()) - self.time_range, int(times.max()) + self.time_range
        last = int(self.stores[side].column(NUMBER, end - 1, end)[0])
        store = self.stores[opposite(side)]
        start, stop = self.slices[opposite(side)].window(low, high)
        stop = min(stop, store.count_before(last))
        if exact and start < stop:
            window = store.column(TIME_OF, start, stop)
            (near,) = np.nonzero((window >= low) & (window <= high))
            start, stop = (start + near[0], start + near[-1] + 1) if len(near) else (stop, stop)
        return int(start), int(stop)

    def _trouble(self, side: Side, stream: tuple[int, int], window: tuple[int, int]) -> str | None:
        """Say what the card could not do of a part, if there is something."""
        layout, mine, other = self.layout, self.stores[side], self.stores[opposite(side)]
        start = self.word_start(opposite(side), window[0])  # a word is read whole
        if window[1] - start > self._capacity[opposite(side)]:
            return self.full(opposite(side), window[1] - start)

        numbers, met = mine.column(NUMBER, *stream), other.column(NUMBER, *window)
        half = 1 << layout.id_bits - 1
        apart = int(numbers[-1] - met[0])  # a pair the other way round is the other side's
        if apart >= half or numbers[-1] - numbers[0] >= 2 * half:
            return (
                f"Two tuples in range of each other are {apart} tuples apart, and ids of "
                f"{layout.id_bits} bits tell which came first only below {half}; build the card "
                "with a larger id_bits"
            )
        times, near = mine.column(TIME_OF, *stream), other.column(TIME_OF, start, window[1])
        distance = max(int(times.max()) - int(near.min()), int(near.max()) - int(times.min()))
        most = (1 << layout.time_bits) - self.time_range
        if distance >= most:
            return (
                f"Times in one window are {distance} apart, and with times of {layout.time_bits} "
                f"bits and RANGE {self.time_range} they must be less than {most}; build the card "
                "with a larger time_bits"
            )
        return None

    def full(self, side: Side, tuples: int) -> str:
        """Say that the card can't hold so many tuples of a side."""
        return (
            f"The card holds {self._capacity[side]} tuples of the {side} stream, and {tuples} are "
            f"needed at once; raise window_{side}, or have the sources of the {opposite(side)} "
            "stream signal their time more often"
        )

    def word_start(self, side: Side, index: int) -> int:
        """Return the index of the first tuple in the same bus word of the ring."""
        return index - index % self.layout.of(side).per_word

    # Letting go.

    def expire(self) -> None:
        """Let slices expire that are out of range of all that is still to come."""
        for side in SIDES:
            oldest = self._oldest_to_come(opposite(side))
            if oldest is not None:
                self.slices[side].expire(oldest - self.time_range)

    def oldest(self, side: Side) -> int:
        """Return the index of the oldest tuple of a side that a future task may ask for."""
        return min(self.slices[side].first, self._taken[side])

    def _oldest_to_come(self, side: Side) -> float | None:
        """Return the least time of a stream tuple in a future task; None while unknown."""
        waiting = self.stores[side].column(TIME_OF, self._taken[side], self.stores[side].end)
        mark = inf if self._finished else self.watermark(side)
        return mark if mark is None or not len(waiting) else min(mark, int(waiting.min()))
