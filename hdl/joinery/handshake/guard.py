"""Time windows on an engine that keeps rows: did a tuple leave while others could still find it?"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..join import TimeBound
from ..tuples import Schema
from .segment import MemorySegment, slot_layout

__all__ = ["WindowGuard"]


class WindowGuard(wiring.Component):
    """Watch the times of the tuples that enter, and of those that they push out.

    A tuple may leave once no later one can be in range: later ones are at most ``slack`` behind the
    latest time seen. One that leaves sooner, and one that comes later than that, may cost results.

    Parameters
    ----------
    bound : TimeBound
    left, right : Schema
    rows_left, rows_right : int
        Tuples of each stream that the engine keeps.

    Members
    -------
    clear : In(1)
    enter_left, enter_right : In(1)
    left, right : In(slots)
        The tuples that enter.
    o_gone, o_late : Out(1)
        A tuple left while still in range; a tuple came later than the slack allows.
    """

    clear: Signal
    enter_left: Signal
    enter_right: Signal
    left: Any
    right: Any
    o_gone: Signal
    o_late: Signal

    def __init__(
        self, bound: TimeBound, left: Schema, right: Schema, *, rows_left: int, rows_right: int
    ) -> None:
        self.bound = bound
        self.times = {"left": bound.left, "right": bound.right}
        self.rows = {"left": rows_left, "right": rows_right}
        self.shape = left[bound.left].shape
        super().__init__(
            {
                "clear": In(1),
                "enter_left": In(1),
                "enter_right": In(1),
                "left": In(slot_layout(left.layout)),
                "right": In(slot_layout(right.layout)),
                "o_gone": Out(1),
                "o_late": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        latest, seen = Signal(self.shape), Signal()
        newer: Value = latest
        gone, late = [], []
        for side in ("left", "right"):
            time = getattr(self, side).row[self.times[side]]
            enter = Signal(name=f"{side}_enters")
            m.submodules[side] = kept = MemorySegment(
                data.StructLayout({"time": self.shape}),
                rows=self.rows[side],
                ways=1,
                span=self.rows[side],
            )
            leaves, left_at = Signal(name=f"{side}_leaves"), Signal(self.shape, name=f"{side}_time")
            m.d.comb += [
                enter.eq(getattr(self, f"enter_{side}") & getattr(self, side).valid),
                kept.clear.eq(self.clear),
                kept.shift.eq(enter),
                kept.i.valid.eq(1),
                kept.i.row.time.eq(time),
            ]
            m.d.sync += [leaves.eq(enter & kept.oldest.valid), left_at.eq(kept.oldest.row.time)]
            # Held against the latest time with the tuple that pushed it out, one cycle later.
            gone.append(leaves & (left_at + (self.bound.range + self.bound.slack) >= latest))
            late.append(enter & seen & (time + self.bound.slack < latest))
            newer = Mux(enter & (~seen | (time > newer)), time, newer)
        m.d.sync += [
            latest.eq(newer),
            seen.eq((seen | self.enter_left | self.enter_right) & ~self.clear),
            self.o_gone.eq(gone[0] | gone[1]),
            self.o_late.eq(late[0] | late[1]),
        ]
        return m
