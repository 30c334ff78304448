"""The core's messages: rows of the output, answers of registers, refused beats."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .outbox import MESSAGE
from .protocol import GROUP, Op

__all__ = ["Answer", "Replies", "row_layout"]

Answer = data.StructLayout({"write": 1, "response": 2, "value": 32})
"""What a register access came to."""

NUMBER_BITS = 32


def row_layout(size: int, lanes: int) -> data.StructLayout:
    """The rows of an output beat, ``size`` bytes each, or the end of the output."""
    return data.StructLayout({"data": data.ArrayLayout(8 * size, lanes), "valid": lanes, "end": 1})


class Replies(wiring.Component):
    """Write messages: of an answer, of a refused beat, or of the rows of a beat, in this order.

    Throughput: a byte per cycle, zeros that are left out included.

    Parameters
    ----------
    row_bytes, lanes : int
        Bytes of a row, and rows of an output beat at most.

    Members
    -------
    i_rows : In(stream.Signature(row_layout(row_bytes, lanes)))
    i_answer : In(stream.Signature(Answer))
    i_refused : In(stream.Signature(32))
        The number of a beat whose tuples were refused.
    o : Out(stream.Signature(MESSAGE))
    """

    i_rows: stream.Interface
    i_answer: stream.Interface
    i_refused: stream.Interface
    o: stream.Interface

    def __init__(self, *, row_bytes: int, lanes: int = 1) -> None:
        for name, number in (("Row bytes", row_bytes), ("Lanes", lanes)):
            if not isinstance(number, int) or number < 1:
                raise ValueError(f"{name} must be a positive integer, not {number!r}")
        self.row_bytes = row_bytes
        self.lanes = lanes
        super().__init__(
            {
                "i_rows": In(stream.Signature(row_layout(row_bytes, lanes))),
                "i_answer": In(stream.Signature(Answer)),
                "i_refused": In(stream.Signature(NUMBER_BITS)),
                "o": Out(stream.Signature(MESSAGE)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        o: Any = self.o.p
        answer: Any = self.i_answer.p
        rows: Any = self.i_rows.p
        texts = {
            Op.READ: Cat(Const(Op.READ, 8), answer.response, Const(0, 6), answer.value),
            Op.WRITE: Cat(Const(Op.WRITE, 8), answer.response, Const(0, 6)),
            Op.REFUSED: Cat(Const(Op.REFUSED, 8), self.i_refused.payload),
            Op.END: Const(Op.END, 8),
        }
        text = Signal(max(len(each) for each in texts.values()))
        left = Signal(range(len(text) // 8 + 1))
        row = Signal(8 * self.row_bytes)
        done = Signal(self.lanes)  # the rows of the beat that have been sent
        to_send = Signal(self.lanes)
        place = Signal(range(self.row_bytes))
        marks = Signal(GROUP)
        moved = Signal()
        last_group = (self.row_bytes - 1) // GROUP * GROUP
        in_last_group = place >= last_group if last_group else Const(1)
        m.d.comb += [moved.eq(self.o.valid & self.o.ready), to_send.eq(rows.valid & ~done)]

        def say(op: Op) -> None:
            m.d.sync += [text.eq(texts[op]), left.eq(len(texts[op]) // 8)]
            m.next = "text"

        with m.FSM():
            with m.State("choose"):
                with m.If(self.i_answer.valid):
                    m.d.comb += self.i_answer.ready.eq(1)
                    with m.If(answer.write):
                        say(Op.WRITE)
                    with m.Else():
                        say(Op.READ)
                with m.Elif(self.i_refused.valid):
                    m.d.comb += self.i_refused.ready.eq(1)
                    say(Op.REFUSED)
                with m.Elif(self.i_rows.valid):
                    for lane in reversed(range(self.lanes)):
                        with m.If(to_send[lane]):
                            m.d.sync += row.eq(rows.data[lane])
                    m.d.sync += [done.eq(done | (to_send & -to_send)), place.eq(0)]
                    with m.If(to_send.any()):
                        m.next = "row"
                    with m.Else():
                        m.d.comb += self.i_rows.ready.eq(1)
                        m.d.sync += done.eq(0)
                        with m.If(rows.end):
                            say(Op.END)
            with m.State("text"):
                m.d.comb += [self.o.valid.eq(1), o.data.eq(text), o.last.eq(left == 1)]
                with m.If(moved):
                    m.d.sync += [text.eq(text >> 8), left.eq(left - 1)]
                    with m.If(o.last):
                        m.next = "choose"
            with m.State("row"):
                m.d.comb += [self.o.valid.eq(1), o.data.eq(Op.BEAT)]
                with m.If(moved):
                    m.next = "marks"
            with m.State("marks"):
                # The byte of marks is the last one if all that is left are zeros.
                size = min(GROUP, self.row_bytes)
                found = Cat(row[8 * k : 8 * k + 8].any() for k in range(size))
                final = in_last_group & (found == 0)
                m.d.comb += [self.o.valid.eq(1), o.data.eq(found), o.last.eq(final)]
                with m.If(moved):
                    m.d.sync += marks.eq(found)
                    m.next = "bytes"
            with m.State("bytes"):
                final = in_last_group & (marks[1:] == 0)
                m.d.comb += [self.o.valid.eq(marks[0]), o.data.eq(row), o.last.eq(final)]
                with m.If(moved | ~marks[0]):
                    m.d.sync += [row.eq(row >> 8), marks.eq(marks >> 1), place.eq(place + 1)]
                    with m.If(place == self.row_bytes - 1):
                        m.next = "choose"
                    with m.Elif(place % GROUP == GROUP - 1):
                        m.next = "marks"
        return m
