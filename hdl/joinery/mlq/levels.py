"""The shape of multi-level queues: what each level holds for a key, and how it is reached.

A window of a key is a queue that runs through all levels: new values enter level 1, full levels
move their block to the next one, and the oldest values lie in the last level, which is a ring.
Geethakumari and Sourdis, "A Specialized Memory Hierarchy for Stream Aggregation" (2021).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from amaranth.hdl import Shape, unsigned
from amaranth.lib import data

__all__ = ["Level", "Queues", "require_power"]


def require_power(what: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a power of two."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1 or value & (value - 1):
        raise ValueError(f"{what} must be a power of two, not {value!r}")


@dataclass(frozen=True)
class Level:
    """One memory level.

    Parameters
    ----------
    values : int
        Values of each key that the level holds.
    word : int
        Values that one access moves.
    granule : int
        Values that one write changes at least; a block smaller than that reads the word first.
    channels : int
        Memories side by side; neighbouring words of a key lie in neighbouring channels.
    burst : int
        Words that one request reads at most.
    duplex : bool
        A request may read and write at once.
    pending : int
        Words that may wait to be changed and written back, in each channel: as many as the memory
        is kept busy by. With more, keys more often find a word of theirs among them, and wait.
    """

    values: int
    word: int = 1
    granule: int = 1
    channels: int = 1
    burst: int = 1
    duplex: bool = False
    pending: int = 16

    def __post_init__(self) -> None:
        for name in ("word", "granule", "channels", "pending"):
            require_power(f"Level {name}", getattr(self, name))
        for name in ("values", "burst"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"Level {name} must be a positive integer, not {value!r}")
        if self.values % self.word:
            raise ValueError(f"A level of {self.values} values has no whole words of {self.word}")
        if self.granule > self.word:
            raise ValueError(f"A granule of {self.granule} values is larger than a word")

    @property
    def words(self) -> int:
        """Words of a key."""
        return self.values // self.word

    @property
    def stride(self) -> int:
        """Lines that a key takes in each channel."""
        return -(-self.words // self.channels)


@dataclass(frozen=True)
class Queues:
    """All levels, and the windows in them.

    Parameters
    ----------
    levels : tuple of Level
        The fastest first. All but the last hold a power of two; each holds whole blocks of the
        one before, and is at least as wide.
    rows : int
        WS: the most values that a window has.
    slots : int
        Keys that have room.
    width : int
        Bits of a value.
    """

    levels: tuple[Level, ...]
    rows: int
    slots: int
    width: int

    def __post_init__(self) -> None:
        for name in ("rows", "slots", "width"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"Queues {name} must be a positive integer, not {value!r}")
        if not self.levels:
            raise ValueError("Queues have at least one level")
        for level in self.levels[:-1]:
            require_power("Values of a level that is not the last", level.values)
        for below, above in pairwise(self.levels):
            if above.values % below.values:
                raise ValueError(
                    f"A level of {above.values} values takes no whole blocks of {below.values}"
                )
            if above.word < below.word:
                raise ValueError(
                    f"A word of {above.word} values follows one of {below.word}: "
                    f"levels must not become narrower"
                )
        if self.last.values < self.rows:
            raise ValueError(
                f"The last level holds {self.last.values} values, and a window has {self.rows}"
            )
        if self.last.words % self.last.channels:
            raise ValueError(
                f"The last level has {self.last.words} words, which is no whole number for each "
                f"of {self.last.channels} channels"
            )

    @property
    def last(self) -> Level:
        return self.levels[-1]

    @cached_property
    def lanes(self) -> int:
        """Values that the kernels take at once, besides the newest."""
        return self.last.word

    @cached_property
    def parts(self) -> int:
        """Parts in which a window comes to the kernels, at most."""
        below = sum(-(-level.values // self.lanes) for level in self.levels[:-1])
        return below + self.last.words + 1

    def block(self, level: int) -> int:
        """Return the values that enter a level at once."""
        return self.levels[level - 1].values if level else 1

    def width_in(self, level: int) -> int:
        """Return the values that come at once of such a block."""
        return self.levels[level - 1].word if level else 1

    def reads_first(self, level: int) -> bool:
        """Tell whether a write to a level must read the word before."""
        return self.block(level) < self.levels[level].granule

    @cached_property
    def slot(self) -> Shape:
        return Shape.cast(range(self.slots))

    @cached_property
    def count(self) -> Shape:
        """How many values a window has."""
        return Shape.cast(range(self.rows + 1))

    def pointer(self, level: int) -> Shape:
        """A place in a level; one past the last where the level is not the last."""
        values = self.levels[level].values
        return Shape.cast(range(values if level == len(self.levels) - 1 else values + 1))

    def word(self, level: int) -> data.ArrayLayout:
        return data.ArrayLayout(unsigned(self.width), self.levels[level].word)

    def operation(self, level: int) -> data.StructLayout:
        """What one tuple asks of a level: a run of words to read, then a block to write.

        The run starts at word ``first`` of the key's ring and has ``words``. ``aggregate`` sends
        its values from the ``skip``-th to before the ``until``-th to the kernels, ``flush`` all of
        them to the next level. The block is written from value ``position`` on.
        """
        shape = self.levels[level]
        reach = Shape.cast(range((shape.words + 1) * shape.word + 1))
        return data.StructLayout(
            {
                "slot": self.slot,
                "aggregate": 1,
                "flush": 1,
                "first": range(shape.words),
                "words": range(shape.words + 2),
                "skip": reach,
                "until": reach,
                "write": 1,
                "position": range(shape.values),
            }
        )

    def window(self, level: int) -> data.StructLayout:
        """Part of a window as a level delivers it: the values of a word that belong to it."""
        return window_layout(self.width, self.levels[level].word)


def window_layout(width: int, lanes: int) -> data.StructLayout:
    """Some values, which of them are there, and whether they are the level's last."""
    values: Any = data.ArrayLayout(unsigned(width), lanes)
    return data.StructLayout({"last": 1, "mask": lanes, "values": values})
