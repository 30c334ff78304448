"""A core's share of one window: a queue of rows, read several at a time by index."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["MemorySegment", "RegisterSegment", "Segment", "slot_layout"]


def slot_layout(row: data.StructLayout) -> data.StructLayout:
    """A place for a row that may be empty."""
    return data.StructLayout({"valid": 1, "row": row})


class Segment(wiring.Component):
    """Rows of one window, oldest out when a new one comes in.

    Rows are numbered from 0; index ``j`` reads the ``ways`` rows from ``j * ways`` on, and they are
    on ``o`` one cycle later. ``newest`` and ``oldest`` come from registers. A shift shows from the
    next cycle on; rows read in the cycle of a shift are those of before.

    Parameters
    ----------
    row : data.StructLayout
        What a row holds.
    rows : int
        How many rows, at least one.
    ways : int
        Rows read at once.
    span : int
        Indices run from 0 to ``span - 1``; rows past the last read as empty.

    Members
    -------
    clear : In(1)
        Empty all rows.
    shift : In(1)
        Take ``i`` in, let ``oldest`` out.
    i, newest, oldest : slots
    index : In(range(span))
    o : Out(slot).array(ways)
    """

    clear: Signal
    shift: Signal
    i: Any
    newest: Any
    oldest: Any
    index: Signal
    o: Sequence[Any]

    def __init__(self, row: data.StructLayout, *, rows: int, ways: int, span: int) -> None:
        for name, value in (("rows", rows), ("ways", ways)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"Segment {name} must be a positive integer, not {value!r}")
        self.words = -(-rows // ways)
        if not isinstance(span, int) or span < self.words:
            raise ValueError(
                f"Segment span must be an integer of at least {self.words}, not {span!r}"
            )
        self.rows = rows
        self.ways = ways
        self.span = span
        self.slot = slot_layout(row)
        super().__init__(
            {
                "clear": In(1),
                "shift": In(1),
                "i": In(self.slot),
                "newest": Out(self.slot),
                "oldest": Out(self.slot),
                "index": In(range(span)),
                "o": Out(self.slot).array(ways),
            }
        )


class RegisterSegment(Segment):
    """Rows in a shift register, read through multiplexers."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row_shape = self.slot["row"].shape
        valid = Signal(self.rows)
        rows = [Signal(row_shape, name=f"row_{k}", reset_less=True) for k in range(self.rows)]

        with m.If(self.clear):
            m.d.sync += valid.eq(0)
        with m.Elif(self.shift):
            m.d.sync += valid.eq(Cat(self.i.valid, valid[: self.rows - 1]))
        with m.If(self.shift):
            for k in range(self.rows):
                m.d.sync += rows[k].eq(self.i.row if k == 0 else rows[k - 1])

        for way, o in enumerate(self.o):
            # Rows that one way reads, by index; an array of one place has no multiplexer.
            mine = range(way, self.rows, self.ways)
            found = Signal(row_shape, name=f"found_{way}", reset_less=True)
            found_valid = Signal(name=f"found_valid_{way}")
            if mine:
                here = Array(valid[k] for k in mine)[self.index]
                m.d.sync += [
                    found.eq(Array(rows[k] for k in mine)[self.index]),
                    found_valid.eq(here & (self.index < len(mine))),
                ]
            m.d.comb += [o.valid.eq(found_valid), o.row.eq(found)]
        m.d.comb += [
            self.newest.valid.eq(valid[0]),
            self.newest.row.eq(rows[0]),
            self.oldest.valid.eq(valid[-1]),
            self.oldest.row.eq(rows[-1]),
        ]
        return m


class MemorySegment(Segment):
    """Rows in memories used as a ring, one memory for each way; for windows of any size."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, bank = Signal(range(self.words)), Signal(range(self.ways))  # where the next row goes
        word_after, bank_after = Signal.like(word), Signal.like(bank)
        full = Signal()  # all places hold rows; before that, those ahead of the next do
        wraps = Signal()
        newest: Any = Signal(self.slot)
        m.d.comb += wraps.eq(
            (word == self.words - 1) & (bank == (self.rows - 1) % self.ways)
        )  # this is the last place of the ring
        with m.If(~self.shift):
            m.d.comb += [word_after.eq(word), bank_after.eq(bank)]
        with m.Elif(~wraps):
            m.d.comb += [
                word_after.eq(Mux(bank == self.ways - 1, word + 1, word)),
                bank_after.eq(Mux(bank == self.ways - 1, 0, bank + 1)),
            ]
        m.d.sync += [word.eq(word_after), bank.eq(bank_after)]
        with m.If(self.shift):
            m.d.sync += [newest.eq(self.i), full.eq(full | wraps)]
        with m.If(self.clear):
            m.d.sync += [word.eq(0), bank.eq(0), full.eq(0), newest.valid.eq(0)]

        tails = []
        for way, o in enumerate(self.o):
            depth = len(range(way, self.rows, self.ways))
            if not depth:
                continue
            ring: memory.Memory = memory.Memory(shape=self.slot, depth=depth, init=[])
            m.submodules[f"ring_{way}"] = ring
            write, scan = ring.write_port(), ring.read_port()
            # After a shift in a ring of one row, the row just written is the oldest.
            tail = ring.read_port(transparent_for=(write,))
            tails.append(tail.data)
            in_ring = Signal(name=f"in_ring_{way}")
            ahead = (self.index == word) & (way < bank)
            if self.words > 1:
                ahead |= self.index < word
            m.d.sync += in_ring.eq(Mux(full, self.index < depth, ahead))
            m.d.comb += [
                write.en.eq(self.shift & (bank == way)),
                write.addr.eq(word),
                write.data.eq(self.i),
                scan.addr.eq(self.index),
                tail.addr.eq(word_after),
                o.row.eq(scan.data.row),
                o.valid.eq(scan.data.valid & in_ring),
            ]
        m.d.comb += self.newest.eq(newest)
        oldest = Array(tails)[bank]
        m.d.comb += [self.oldest.row.eq(oldest.row), self.oldest.valid.eq(oldest.valid & full)]
        return m
