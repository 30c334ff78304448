"""Windows by time: which windows a tuple is in, in so few bits that each value can carry them.

Windows are numbered so that window ``w`` begins at ``w * SLIDE`` since the epoch. A tuple is in the
windows from its first to its last, ``floor(time / SLIDE)``: as many as slides fit into RANGE, or
one fewer. A value carries its last window, modulo what can occur at once.
"""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from amaranth.hdl import Shape
from amaranth.lib import data

from ..tuples import bits_for_range

__all__ = ["TimeWindows"]


@dataclass(frozen=True)
class TimeWindows:
    """``RANGE``, ``SLIDE`` and ``SLACK``, all in units of the time of a tuple.

    Parameters
    ----------
    range, slide, slack : int
        ``slide`` is at most ``range``.
    low, high : int
        The least and the greatest time of a tuple.
    """

    range: int
    slide: int
    slack: int = 0
    low: int = 0
    high: int = (1 << 48) - 1

    def __post_init__(self) -> None:
        for name, value, least in (
            ("RANGE", self.range, 1),
            ("SLIDE", self.slide, 1),
            ("SLACK", self.slack, 0),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
        if self.slide > self.range:
            raise ValueError(
                f"SLIDE {self.slide} is longer than RANGE {self.range}, "
                f"so that some tuples would be in no window"
            )
        if self.low > self.high:
            raise ValueError(f"Times from {self.low} to {self.high} are none")

    @property
    def pane(self) -> int:
        return gcd(self.range, self.slide)

    @property
    def most(self) -> int:
        """The windows that a tuple is in, at most."""
        return -(-self.range // self.slide)

    @property
    def ahead(self) -> int:
        """How far the last window of a tuple can be past the window that closes next.

        The watermark has not reached the end of that window, and the tuple is at most SLACK ahead
        of the watermark.
        """
        return -(-(self.slack + self.range) // self.slide) - 1

    @property
    def behind(self) -> int:
        """How far the last window of a value can be before the window that closes next.

        Such a value is dead, but waits behind one that is alive. That came earlier, and when the
        dead one came, its pane was still open: so it is at most SLACK and a pane older.
        """
        return -(-(self.slack + self.pane) // self.slide)

    @cached_property
    def label(self) -> data.StructLayout:
        """What a value carries of its time: its last window, and whether it is in one fewer."""
        last = (self.ahead + self.behind).bit_length()
        return data.StructLayout({"last": last, "fewer": int(self.range % self.slide != 0)})

    def kept(self, columns: data.StructLayout) -> data.StructLayout:
        """What is kept of a tuple with ``columns``."""
        return data.StructLayout({"label": self.label, "value": columns})

    @property
    def time(self) -> Shape:
        """The shape of the time of a tuple."""
        return Shape(*bits_for_range(self.low, self.high))

    @property
    def end_time(self) -> Shape:
        """The shape of the end of a window."""
        return Shape(*bits_for_range(min(self.low, -1), self.high + self.range))
