"""The tuples of one stream while somebody may still ask for them, and the slices they are cut into.

Tuples have an *index*, their place in their own stream, and a *number*, their place among all
tuples of both streams. Neither ever wraps; an id on the card is a number without its high bits.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["NUMBER", "TIME_OF", "Slice", "Slices", "TupleStore"]

Raw = npt.NDArray[Any]

NUMBER, TIME_OF = "#number", "#time"
"""What a store keeps of each tuple besides its columns."""


class TupleStore:
    """Tuples in order of arrival, from index ``first`` up to ``end``: raw values by column."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.first = self.end = 0
        self._base = 0  # the index of the first row of the buffers
        self._buffers: dict[str, Raw] = {
            name: np.empty(0, np.int64) for name in (NUMBER, TIME_OF, *columns)
        }

    def append(self, columns: Mapping[str, Raw]) -> None:
        """Add tuples; ``columns`` has their numbers and times as well."""
        count = len(columns[NUMBER])
        start = self.end - self._base
        if start + count > len(self._buffers[NUMBER]):
            self._move(2 * (self.end - self.first + count))
            start = self.end - self._base
        for name, buffer in self._buffers.items():
            if columns[name].dtype == object and buffer.dtype != object:
                self._buffers[name] = buffer = buffer.astype(object)
            buffer[start : start + count] = columns[name]
        self.end += count

    def drop(self, before: int) -> None:
        """Forget the tuples before an index."""
        self.first = max(self.first, min(before, self.end))

    def column(self, name: str, first: int, end: int) -> Raw:
        """Return a column of the tuples from one index up to another."""
        if first < self.first:
            raise IndexError(f"Tuple {first} was dropped; the first one kept is {self.first}")
        return self._buffers[name][first - self._base : end - self._base]

    def at(self, name: str, indices: Raw) -> Raw:
        """Return a column of the tuples at any indices."""
        if len(indices) and not self.first <= indices.min() <= indices.max() < self.end:
            raise IndexError(f"Tuples {indices.min()} to {indices.max()} are not all kept")
        return self._buffers[name][indices - self._base]

    def count_before(self, number: int) -> int:
        """Return the index of the first tuple that has this number or a later one."""
        numbers = self.column(NUMBER, self.first, self.end)
        return self.first + int(np.searchsorted(numbers, number))

    def _move(self, size: int) -> None:
        """Make room for ``size`` tuples from ``first`` on."""
        for name, buffer in self._buffers.items():
            fresh = np.empty(size, buffer.dtype)
            kept = buffer[self.first - self._base : self.end - self._base]
            fresh[: len(kept)] = kept
            self._buffers[name] = fresh
        self._base = self.first


@dataclass
class Slice:
    """A stretch of a stream: tuples from ``first`` up to ``end``, and their least and last time."""

    first: int
    end: int
    low: int
    high: int


class Slices:
    """A stream cut into slices, of which the oldest expire.

    The paper takes the bounds of a slice from the sources' signals. A tuple may be newer than the
    newest signal, and a slice that ends with it would then expire too early; the times themselves
    are always right, and tighter.

    Parameters
    ----------
    tuples : int
        A slice is full when it has so many.
    """

    def __init__(self, tuples: int) -> None:
        self._tuples = tuples
        self._slices: deque[Slice] = deque()
        self.first = self.end = 0

    def __len__(self) -> int:
        return len(self._slices)

    def append(self, times: Raw) -> None:
        """Add the tuples that have these times."""
        done = 0
        while done < len(times):
            last = self._slices[-1] if self._slices else None
            if last is None or last.end - last.first >= self._tuples:
                time = int(times[done])
                last = Slice(self.end, self.end, time, time)
                self._slices.append(last)
            part = times[done : done + self._tuples - (last.end - last.first)]
            last.low, last.high = min(last.low, int(part.min())), max(last.high, int(part.max()))
            last.end += len(part)
            self.end = last.end
            done += len(part)

    def expire(self, before: float) -> None:
        """Drop the oldest slices as long as all their times are before this one."""
        while self._slices and self._slices[0].high < before:
            self.first = self._slices.popleft().end

    def window(self, low: int, high: int) -> tuple[int, int]:
        """Return a range of indices that has all tuples with times from ``low`` to ``high``."""
        found = [each for each in self._slices if each.low <= high and each.high >= low]
        return (found[0].first, found[-1].end) if found else (self.end, self.end)
