"""The median, exact, by histograms: digit by digit, the highest first.

A stage counts how many values have each digit, among those that agree with the digits known so far,
and finds the digit of the value that is looked for. The window waits meanwhile, and goes on to the
next stage. So each stage works on a window of its own, one part per cycle, at the speed of the
memories; no stage has more than 16 counters, whatever the width of a value. Of an even count two
values are in the middle: every stage looks for both.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Queue
from .kernels import Kernel

__all__ = ["DigitStage", "Median"]

DIGIT = 4
BINS = 1 << DIGIT


def wanted_layout(width: int, known: int, rows: int) -> data.StructLayout:
    """A value that is looked for: its known upper bits, and its rank among those that have them."""
    return data.StructLayout({"upper": known, "rank": range(rows)})


def search_layout(width: int, known: int, rows: int) -> data.StructLayout:
    """The two values in the middle, as far as they are known."""
    return data.StructLayout({name: wanted_layout(width, known, rows) for name in ("low", "high")})


class DigitStage(wiring.Component):
    """Find one more digit of both values.

    Latency: 3 cycles from the last part of a window. Throughput: one part per cycle.

    Parameters
    ----------
    width : int
        Bits of a value; values are unsigned here.
    lanes, rows : int
        As for ``Kernel``.
    number : int
        The digit, from 0 for the highest.
    final : bool
        The window is not passed on.

    Members
    -------
    i : In(stream.Signature(part))
    i_search : In(stream.Signature(search_layout(...)))
        Once for each window.
    o : Out(stream.Signature(part))
    o_search : Out(stream.Signature(search_layout(...)))
    """

    i: stream.Interface
    i_search: stream.Interface
    o: stream.Interface
    o_search: stream.Interface

    def __init__(self, width: int, *, lanes: int, rows: int, number: int, final: bool) -> None:
        self.width = width
        self.lanes = lanes
        self.rows = rows
        self.number = number
        self.final = final
        self.known = number * DIGIT
        part = part_layout(width, lanes)
        members = {
            "i": In(stream.Signature(part)),
            "i_search": In(stream.Signature(search_layout(width, self.known, rows))),
            "o_search": Out(stream.Signature(search_layout(width, self.known + DIGIT, rows))),
        }
        if not final:
            members["o"] = Out(stream.Signature(part))
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        free = Signal()
        taken = Signal()
        passed = Signal(init=1)
        m.d.comb += free.eq(~self.o_search.valid | self.o_search.ready)
        if not self.final:
            m.d.comb += [
                self.o.valid.eq(self.i.valid & self.i_search.valid & free),
                self.o.payload.eq(self.i.payload),
                passed.eq(self.o.ready),
            ]
        m.d.comb += [
            taken.eq(self.i.valid & self.i_search.valid & free & passed),
            self.i.ready.eq(taken),
            self.i_search.ready.eq(taken & self.i.p.last),
        ]
        counted = Signal()
        complete = Signal()
        added = Signal()
        with m.If(free):
            m.d.sync += [
                counted.eq(taken),
                complete.eq(self.i.p.last),
                added.eq(counted & complete),
                self.o_search.valid.eq(added),
            ]
        for name in ("low", "high"):
            search = self.i_search.p[name]
            totals, before = self._count(m, name, search, free, counted, complete)
            self._find(m, totals, before, self.o_search.p[name], free)
        return m

    def _count(
        self, m: Module, name: str, search: Any, free: Any, counted: Any, complete: Any
    ) -> tuple[list[Signal], Any]:
        """Count the digits of the values that have the known upper bits."""
        rows = Shape.cast(range(self.rows + 1))
        low = self.width - self.known - DIGIT
        bins = [Signal(range(self.lanes + 1), name=f"{name}_{k}") for k in range(BINS)]
        totals = [Signal(rows, name=f"{name}_total_{k}") for k in range(BINS)]
        before = [
            Signal(wanted_layout(self.width, self.known, self.rows), name=f"{name}_{k}_before")
            for k in range(2)
        ]
        agrees = [
            some & (value[low + DIGIT :] == search.upper if self.known else 1)
            for some, value in zip(self.i.p.mask, self.i.p.values, strict=True)
        ]
        more = Signal(name=f"{name}_more")
        for k, (each, total) in enumerate(zip(bins, totals, strict=True)):
            here = [
                fits & (value[low : low + DIGIT] == k)
                for fits, value in zip(agrees, self.i.p.values, strict=True)
            ]
            with m.If(free):
                m.d.sync += each.eq(sum(here))
                with m.If(counted):
                    m.d.sync += total.eq(Mux(more, total, 0) + each)
        with m.If(free):
            m.d.sync += [before[0].eq(search), before[1].eq(before[0])]
            with m.If(counted):
                m.d.sync += more.eq(~complete)
        return totals, before[1]

    def _find(self, m: Module, totals: list[Signal], before: Any, after: Any, free: Any) -> None:
        """Find the digit below which there are not yet as many values as the rank says."""
        sums: list[Any] = []
        for total in totals:
            sums.append(total + sums[-1] if sums else total)
        digit = sum(total <= before.rank for total in sums[:-1])
        below = Array([0, *sums])[digit[:DIGIT]]
        with m.If(free):
            m.d.sync += [
                after.upper.eq(Cat(digit[:DIGIT], before.upper)),
                after.rank.eq(before.rank - below),
            ]


def part_layout(width: int, lanes: int) -> data.StructLayout:
    values: Any = data.ArrayLayout(width, lanes)
    return data.StructLayout({"last": 1, "mask": lanes, "values": values})


class Median(Kernel):
    """Twice the median: the sum of the two values in the middle, which are one for an odd count.

    Latency: for each digit of 4 bits, 3 cycles and the parts of a window. Throughput: one part per
    cycle.
    """

    @classmethod
    def result_shape(cls, shape: Shape, rows: int) -> Shape:
        return Shape(shape.width + 1, shape.signed)

    @classmethod
    def latency(cls, shape: Shape, *, lanes: int, parts: int) -> int:
        return -(-shape.width // DIGIT) * (parts + 3)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        digits = -(-self.shape.width // DIGIT)
        width = digits * DIGIT
        part = part_layout(width, self.lanes)
        words: Any = None
        search: Any = None
        for number in range(digits):
            final = number == digits - 1
            stage = DigitStage(width, lanes=self.lanes, rows=self.rows, number=number, final=final)
            m.submodules[f"digit_{number}"] = stage
            if number:
                wiring.connect(m, search, stage.i_search)
                wiring.connect(m, words, stage.i)
            else:
                self._feed(m, stage, width)
            search = stage.o_search
            if not final:
                # A whole window must find room before the stage can say what is looked for next;
                # the one before is on its way out meanwhile.
                room = 2 * self.parts + 8
                m.submodules[f"window_{number}"] = window = Queue(part, depth=room)
                m.submodules[f"search_{number}"] = found = Queue(search.payload.shape(), depth=4)
                wiring.connect(m, stage.o, window.i)
                wiring.connect(m, search, found.i)
                words, search = window.o, found.o
        low, high = (self._restore(search.p[name].upper, width) for name in ("low", "high"))
        m.d.comb += [
            self.o.valid.eq(search.valid),
            search.ready.eq(self.o.ready),
            self.o.payload.eq(low + high),
        ]
        return m

    def _feed(self, m: Module, stage: DigitStage, width: int) -> None:
        """Give the windows to the first stage, which looks for the middle of all their values."""
        m.d.comb += [
            stage.i.valid.eq(self.i.valid),
            stage.i.p.last.eq(self.i.p.last),
            stage.i.p.mask.eq(self.i.p.mask),
            self.i.ready.eq(stage.i.ready),
            stage.i_search.valid.eq(1),
            stage.i_search.p.low.rank.eq((self.i.p.count - 1) >> 1),
            stage.i_search.p.high.rank.eq(self.i.p.count >> 1),
        ]
        for inner, value in zip(stage.i.p.values, self.i.p.values, strict=True):
            m.d.comb += inner.eq(self._order(Value.cast(value), width))

    def _order(self, value: Value, width: int) -> Value:
        """A number without sign that compares as ``value`` does."""
        if not self.shape.signed:
            return value
        return Cat(value, value[-1].replicate(width - len(value))) ^ (1 << width - 1)

    def _restore(self, value: Value, width: int) -> Value:
        if not self.shape.signed:
            return value
        return (value ^ (1 << width - 1))[:width].as_signed()
