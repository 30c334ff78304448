"""A core's share of one window: a queue of rows that can be scanned by index."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["MemorySegment", "RegisterSegment", "Segment", "slot_layout"]


def slot_layout(row: data.StructLayout) -> data.StructLayout:
    """A place for a row that may be empty."""
    return data.StructLayout({"valid": 1, "row": row})


class Segment(wiring.Component):
    """Rows of one window, oldest out when a new one comes in.

    A row is on ``o`` one cycle after its ``index``. ``newest`` and ``oldest`` come from registers.
    A shift shows from the next cycle on; the row read in the cycle of a shift is that of before.

    Parameters
    ----------
    row : data.StructLayout
        What a row holds.
    rows : int
        How many rows, at least one.
    span : int
        Indices run from 0 to ``span - 1``; those past ``rows`` read as empty.

    Members
    -------
    clear : In(1)
        Empty all rows.
    shift : In(1)
        Take ``i`` in, let ``oldest`` out.
    i, newest, oldest : slots
    index : In(range(span))
    o : Out(slot)
    """

    def __init__(self, row: data.StructLayout, *, rows: int, span: int) -> None:
        if not isinstance(rows, int) or rows < 1:
            raise ValueError(f"Segment rows must be a positive integer, not {rows!r}")
        if not isinstance(span, int) or span < rows:
            raise ValueError(f"Segment span must be an integer of at least {rows}, not {span!r}")
        self.rows = rows
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
                "o": Out(self.slot),
            }
        )


class RegisterSegment(Segment):
    """Rows in a shift register, read through a multiplexer."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row_shape = self.slot["row"].shape
        valid = Signal(self.rows)
        rows = [Signal(row_shape, name=f"row_{k}", reset_less=True) for k in range(self.rows)]
        found = Signal(row_shape, name="found", reset_less=True)
        found_valid = Signal()

        with m.If(self.clear):
            m.d.sync += valid.eq(0)
        with m.Elif(self.shift):
            m.d.sync += valid.eq((valid << 1) | self.i.valid)
        with m.If(self.shift):
            for k in range(self.rows):
                m.d.sync += rows[k].eq(self.i.row if k == 0 else rows[k - 1])

        m.d.sync += [
            found.eq(Array(rows)[self.index]),
            found_valid.eq(valid.bit_select(self.index, 1) & (self.index < self.rows)),
        ]
        m.d.comb += [
            self.newest.valid.eq(valid[0]),
            self.newest.row.eq(rows[0]),
            self.oldest.valid.eq(valid[-1]),
            self.oldest.row.eq(rows[-1]),
            self.o.valid.eq(found_valid),
            self.o.row.eq(found),
        ]
        return m


class MemorySegment(Segment):
    """Rows in a memory used as a ring, for windows far larger than registers allow."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.ring = ring = memory.Memory(shape=self.slot, depth=self.rows, init=[])
        write = ring.write_port()
        scan = ring.read_port()
        # After a shift in a ring of one row, the row just written is the oldest.
        tail = ring.read_port(transparent_for=(write,))

        place = Signal(range(self.rows))  # that of the oldest row, where the next one goes
        after = Signal(range(self.rows))
        filled = Signal(range(self.rows + 1))  # places 0 to filled - 1 hold rows
        newest = Signal(self.slot)
        in_ring = Signal()

        with m.If(self.clear):
            m.d.sync += [filled.eq(0), newest.valid.eq(0)]
        with m.Elif(self.shift):
            m.d.comb += after.eq(Mux(place == self.rows - 1, 0, place + 1))
            m.d.sync += newest.eq(self.i)
            with m.If(filled != self.rows):
                m.d.sync += filled.eq(filled + 1)
        with m.Else():
            m.d.comb += after.eq(place)

        m.d.sync += [place.eq(after), in_ring.eq(self.index < filled)]
        m.d.comb += [
            write.en.eq(self.shift),
            write.addr.eq(place),
            write.data.eq(self.i),
            scan.addr.eq(self.index),
            tail.addr.eq(after),
            self.newest.eq(newest),
            self.oldest.row.eq(tail.data.row),
            self.oldest.valid.eq(tail.data.valid & (filled == self.rows)),
            self.o.row.eq(scan.data.row),
            self.o.valid.eq(scan.data.valid & in_ring),
        ]
        return m
