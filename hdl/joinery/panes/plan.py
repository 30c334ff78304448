"""The numbers that a build of the panes engine rests on, and the layouts that follow from them."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

from amaranth.hdl import Shape, signed
from amaranth.lib import data

from ..aggregate import PaneQuery, PaneStream
from ..tuples import bits_for_range
from .settings import PaneSettings

__all__ = ["TAG_BITS", "PanePlan", "Window"]

TAG_BITS = 48
"""Bits that tell panes of one memory row apart: 30 years of a pane per cycle at 300 MHz."""


@dataclass(frozen=True)
class Window:
    """A window in panes: how many, and how many from one window to the next."""

    panes: int
    step: int
    slide: int

    def phase(self, pane: int) -> int:
        """0 where a window ends with ``pane``."""
        return (pane + 1 - self.panes) % self.step


@dataclass(frozen=True)
class PanePlan:
    """Parameters
    ----------
    source : PaneStream
    queries : tuple of PaneQuery
    slots : int
        Panes that may be open, or closed and waiting, at a time.
    tag_bits : int
    settings : PaneSettings or None
        What can be changed at run time; then what follows from it is in registers (`setting`), of
        which the built values are the first and the limits.
    relaxed : bool
        More registers are spent on the frequency.
    """

    source: PaneStream
    queries: tuple[PaneQuery, ...]
    slots: int
    lanes: int = 1
    tag_bits: int = TAG_BITS
    settings: PaneSettings | None = None
    relaxed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.slots, int) or self.slots & (self.slots - 1) or self.slots < 4:
            raise ValueError(f"Slots must be a power of two from 4 on, not {self.slots!r}")
        if self.slots < self.least_slots(self.source, self.pane, self.lanes):
            raise ValueError(
                f"SLACK spans {self.source.slack // self.pane + 1} panes of {self.pane}, and "
                f"{self.slots} slots are too few; "
                f"{self.least_slots(self.source, self.pane, self.lanes)} are enough"
            )

    @staticmethod
    def least_slots(source: PaneStream, pane: int, lanes: int) -> int:
        """The fewest slots with which the engine cannot come to a stop."""
        open_panes = source.slack // pane + 2
        if lanes == 1:
            return max(4, 1 << (open_panes - 1).bit_length())
        # Inside a transfer, time may move over a quarter of the slots.
        return max(32, 2 << (open_panes - 1).bit_length())

    @cached_property
    def pane(self) -> int:
        """The length of a pane."""
        return gcd(*(each.range for each in self.queries), *(each.slide for each in self.queries))

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        return tuple(
            Window(each.range // self.pane, each.slide // self.pane, each.slide)
            for each in self.queries
        )

    @property
    def divide_stages(self) -> int:
        """Cycles from a time to the number of its pane."""
        return 3 if self.relaxed else 2

    @property
    def put_delay(self) -> int:
        """Cycles from an event to the cycle in which its tuples are put into the store."""
        return 3 if self.relaxed else 1

    @property
    def place_latency(self) -> int:
        """Cycles from an event to places."""
        return 2 if self.relaxed else 1

    @property
    def settle(self) -> int:
        """Cycles from places that are closed, which the walker must wait until no tuple of theirs
        is under way. Otherwise the store gives what is under way, too."""
        return 3 if self.relaxed else 0

    @property
    def read_latency(self) -> int:
        """Cycles in which the store gives the state of a pane."""
        return 3 if self.relaxed else 1

    @property
    def most_panes(self) -> int:
        return max(window.panes for window in self.windows)

    @property
    def most_step(self) -> int:
        most = max(window.step for window in self.windows)
        return max(most, self.most_panes) if self.settings else most

    @property
    def most_slack(self) -> int:
        return self.settings.most_slack if self.settings else self.source.slack

    @property
    def most_slack_panes(self) -> int:
        """The panes that SLACK may span with these slots, not counting those it spans in part."""
        return (self.slots if self.lanes == 1 else self.slots // 2) - 2

    @property
    def slides(self) -> tuple[int, ...]:
        """The different slides of more than one pane, in units of the time column."""
        return tuple(dict.fromkeys(each.slide for each in self.windows if each.step > 1))

    @property
    def leap(self) -> int:
        """Panes over which time may leap inside a transfer without splitting it."""
        return max(1, self.slots // (4 * self.lanes))

    @cached_property
    def number(self) -> Shape:
        """A pane's number; the least one stands for none."""
        column = self.source.schema[self.source.time]
        pane = 1 if self.settings else self.pane
        low = (column.low - self.most_slack) // pane - 1
        high = column.high // pane + self.most_panes + 1
        return signed(bits_for_range(min(low, -2), high)[0])

    @property
    def none(self) -> int:
        return -(1 << (self.number.width - 1))

    @property
    def slot_bits(self) -> int:
        return self.slots.bit_length() - 1

    @property
    def place(self) -> Shape:
        return Shape(self.tag_bits + self.slot_bits)

    @property
    def near(self) -> int:
        """Bits that tell apart the places between which pointers can lie."""
        return self.slot_bits + 2

    @property
    def phases(self) -> data.ArrayLayout:
        """For each query, how many panes after a window's end a pane ends."""
        most = self.most_step + 1 if self.settings else self.most_step
        return data.ArrayLayout(Shape.cast(range(most)), len(self.windows))

    @property
    def gap(self) -> data.StructLayout:
        """In front of ``place`` time leaps to pane ``number``, or the input ends.

        ``length``: how many panes it leaves out, as far as windows reach.
        """
        return data.StructLayout(
            {
                "end": 1,
                "place": self.near,
                "number": self.number,
                "length": range(self.most_panes),
                "phases": self.phases,
            }
        )

    @property
    def operands(self) -> data.StructLayout:
        """What expressions read: a tuple, and the constants that can be changed."""
        if self.settings is None:
            return self.source.operands
        members = {self.source.name: self.source.schema.layout}
        return data.StructLayout({**members, self.settings.source: self.settings.constants})

    @cached_property
    def shift(self) -> int:
        """Bits after the point of reciprocals: with so many, those of all lengths are exact.

        See `joinery.number`: as e < d, 0 <= x e + d A < 2^s for every x where A = -low and
        2^s is at least the number of all x times the largest d.
        """
        assert self.settings is not None
        high = self.source.schema[self.source.time].high
        return ((high + self.offset + 1) * self.settings.most_slide - 1).bit_length()

    @property
    def offset(self) -> int:
        """What is added to products with a reciprocal."""
        return max(0, self.most_slack - self.source.schema[self.source.time].low)

    @property
    def total_bits(self) -> int:
        """The width of a pane's number, before what is after the point is cut off."""
        return self.number.width + self.shift

    @cached_property
    def setting(self) -> data.StructLayout:
        """What follows from settings: lengths in panes, and reciprocals of a pane and of SLIDE.

        ``offset`` is what is added to a product so that SLACK is subtracted.
        """
        assert self.settings is not None
        step = self.phases.elem_shape
        multiplier = self.shift + 1
        window = data.StructLayout(
            {
                "panes": range(self.most_panes + 1),
                "step": step,
                "phase": step,
                "multiplier": multiplier,
                "offset": Shape.cast(step).width + self.shift,
            }
        )
        return data.StructLayout(
            {
                "pane": range(self.settings.most_range + 1),
                "most_panes": range(self.most_panes + 1),
                "multiplier": multiplier,
                "offset": self.total_bits,
                "windows": data.ArrayLayout(window, len(self.windows)),
                "constants": self.settings.constants,
            }
        )

    def initial(self) -> dict[str, Any]:
        """The setting as built."""
        assert self.settings is not None

        def reciprocal(divisor: int, layout: Any) -> dict[str, int]:
            multiplier = -(-(1 << self.shift) // divisor)
            offset = self.offset - self.source.slack * multiplier
            return {
                "multiplier": multiplier,
                "offset": offset & (1 << layout["offset"].width) - 1,
            }

        windows = [
            {
                "panes": window.panes,
                "step": window.step,
                "phase": window.phase(0),
                **reciprocal(window.slide, self.setting["windows"].shape.elem_shape),
            }
            for window in self.windows
        ]
        first = {each.name: each.initial for each in self.settings.all}
        return {
            "pane": self.pane,
            "most_panes": self.most_panes,
            **reciprocal(self.pane, self.setting),
            "windows": windows,
            "constants": {name: first[name] for name, _ in self.settings.constants},
        }


def slots_for(source: PaneStream, pane: int, panes: int, lanes: int) -> int:
    """Enough for SLACK and a backlog, where the longest window has so many ``panes``.

    Panes wait where a leap of time has many windows to report, one row a cycle, while tuples go on
    to come. Four times the panes of a window are enough for real streams with silent stretches.
    Each takes a row of memory for every key, so that there are bounds.
    """
    backlog = 1024 if source.keys else min(4096, 1 << (4 * panes - 1).bit_length())
    return max(1024, backlog, 2 * PanePlan.least_slots(source, pane, lanes))
