"""What the pointers of one key do, tuple by tuple: the rules of figure 4 of the paper.

When a tuple comes, every level but the last that is full moves its block to the next one; then the
value is written to level 1; when the window is complete, all that the levels held before, and the
new value, are read, and the oldest are evicted by moving read pointers. A level that is flushed and
aggregated by the same tuple is read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .memories import MemorySpec

__all__ = ["LevelRead", "LevelWrite", "Move", "Pointers", "walk", "words_of"]


@dataclass(frozen=True)
class LevelRead:
    """A run of words read from a level, and what for."""

    level: int
    words: int
    aggregate: bool = False
    flush: bool = False


@dataclass(frozen=True)
class LevelWrite:
    """Values written to a level from ``position`` on; ``reads_first`` if not in whole granules."""

    level: int
    position: int
    values: int
    words: int
    reads_first: bool


@dataclass(frozen=True)
class Move:
    """All that one tuple causes."""

    reads: tuple[LevelRead, ...]
    writes: tuple[LevelWrite, ...]
    aggregate: bool


def words_of(memories: Sequence[MemorySpec], values: Sequence[int], value_bytes: int) -> list[int]:
    """Return the values in a word of each level: a power of two, and never more than a key has."""
    return [
        min(1 << (memory.word // value_bytes).bit_length() - 1, 1 << most.bit_length() - 1)
        for memory, most in zip(memories, values, strict=True)
    ]


@dataclass
class Pointers:
    """The pointers of one key.

    Parameters
    ----------
    rows, slide : int
        WS and WA.
    values : sequence of int
        Values per key that each level holds; each a multiple of the one before.
    words : sequence of int
        Values in a word of each level.
    granules : sequence of int
        Values that a write to each level changes at least.
    """

    rows: int
    slide: int
    values: Sequence[int]
    words: Sequence[int]
    granules: Sequence[int]
    read: list[int] = field(init=False)
    write: list[int] = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        self.read = [0] * len(self.values)
        self.write = [0] * len(self.values)

    def held(self, level: int) -> int:
        """Return how many values a level holds."""
        held = self.write[level] - self.read[level]
        return held % self.values[level] if level == len(self.values) - 1 else held

    def take(self) -> Move:
        """Account for one more tuple."""
        last = len(self.values) - 1
        aggregate = self.count + 1 == self.rows
        flushed = [k < last and self.write[k] == v for k, v in enumerate(self.values)]
        reads = [self._read(k, aggregate, flushed[k]) for k in range(last + 1)]
        writes = []
        for level in range(last, -1, -1):
            head = self.read[level]
            if flushed[level]:
                head = self.read[level] = self.write[level] = 0
            arrives = level == 0 or flushed[level - 1]
            if arrives:
                block = self.values[level - 1] if level else 1
                if level and self.write[level] == head:  # empty: the read pointer comes along
                    self.read[level] = self._at(level, head + self.read[level - 1])
                writes.append(self._write(level, block))
                self.write[level] = self._at(level, self.write[level] + block)
        self.count += 1
        if aggregate:
            self._evict()
        return Move(tuple(r for r in reads if r), tuple(writes), aggregate)

    def _at(self, level: int, place: int) -> int:
        return place % self.values[level] if level == len(self.values) - 1 else place

    def _read(self, level: int, aggregate: bool, flush: bool) -> LevelRead | None:
        held, word = self.held(level), self.words[level]
        if flush:
            return LevelRead(level, self.values[level] // word, aggregate, True)
        if not aggregate or not held:
            return None
        first = self.read[level] // word
        return LevelRead(level, (self.read[level] + held - 1) // word - first + 1, True)

    def _write(self, level: int, block: int) -> LevelWrite:
        words = -(-block // self.words[level])
        return LevelWrite(
            level, self.write[level], block, words, reads_first=block < self.granules[level]
        )

    def _evict(self) -> None:
        left = self.slide
        last = len(self.values) - 1
        # The last level can be full between the flush and this, when its pointers are equal too.
        held = [self.held(level) for level in range(last + 1)]
        held[last] = self.count - sum(held[:last])
        for level in range(last, -1, -1):
            gone = min(left, held[level])
            left -= gone
            self.read[level] = self._at(level, self.read[level] + gone)
            if gone == held[level] and level != last:
                self.read[level] = self.write[level] = 0
        self.count -= self.slide


def walk(pointers: Pointers, tuples: int) -> list[Move]:
    """Return the moves of the next so many tuples of a key."""
    return [pointers.take() for _ in range(tuples)]
