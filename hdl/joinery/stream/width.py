"""Blocks that change the width of a stream: several parts to a word, and back.

The first part takes the low bits of the word. End of input is a transfer of its own, with ``end``
set and nothing else in it, so a word that is not full when the input ends goes out before it, with
the number of its parts.
"""

from amaranth.hdl import Module, Mux, ShapeLike, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ._check import require_positive

__all__ = ["Narrow", "Widen", "part_layout", "word_layout"]


def part_layout(shape: ShapeLike) -> data.StructLayout:
    """One part: ``data``, or the ``end`` of the input."""
    return data.StructLayout({"data": shape, "end": 1})


def word_layout(shape: ShapeLike, *, factor: int) -> data.StructLayout:
    """A word: ``count`` parts in ``data``, from the low end, or the ``end`` of the input."""
    require_positive("Word factor", factor)
    return data.StructLayout(
        {"data": data.ArrayLayout(shape, factor), "count": range(factor + 1), "end": 1}
    )


class Widen(wiring.Component):
    """Pack ``factor`` parts into one word.

    Latency: 1 cycle after the last part of a word. Throughput: one part per cycle; a word that is
    cut short by the end of the input costs one cycle more.

    ``o.valid`` and the payload depend on registers alone; ``i.ready`` depends on the input and on
    ``o.ready``. Parts of a word past its ``count`` are not defined; the end has ``count`` 0.

    Parameters
    ----------
    shape : ShapeLike
        Shape of one part.
    factor : int
        Parts to a word.

    Members
    -------
    i : In(stream.Signature(part_layout(shape)))
    o : Out(stream.Signature(word_layout(shape, factor=factor)))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: ShapeLike, *, factor: int) -> None:
        require_positive("Widen factor", factor)
        self.factor = factor
        super().__init__(
            {
                "i": In(stream.Signature(part_layout(shape))),
                "o": Out(stream.Signature(word_layout(shape, factor=factor))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()

        # `o.p` is the word being filled; `o.valid` says that it is complete and waits to be taken.
        free = Signal()
        filled = Signal(range(self.factor + 1))
        cut = Signal()

        m.d.comb += free.eq(~self.o.valid | self.o.ready)
        m.d.comb += filled.eq(Mux(self.o.valid, 0, self.o.p.count))
        m.d.comb += cut.eq(self.i.p.end & (filled != 0))
        m.d.comb += self.i.ready.eq(free & ~cut)

        with m.If(free):
            m.d.sync += self.o.valid.eq(0)
            m.d.sync += self.o.p.count.eq(filled)
            m.d.sync += self.o.p.end.eq(0)
            with m.If(self.i.valid & self.i.p.end):
                m.d.sync += self.o.valid.eq(1)
                m.d.sync += self.o.p.end.eq(~cut)
            with m.Elif(self.i.valid):
                m.d.sync += self.o.valid.eq(filled == self.factor - 1)
                m.d.sync += self.o.p.count.eq(filled + 1)
                with m.Switch(filled):
                    for k in range(self.factor):
                        with m.Case(k):
                            m.d.sync += self.o.p.data[k].eq(self.i.p.data)

        return m


class Narrow(wiring.Component):
    """Send the parts of each word one after the other.

    Latency: 0 cycles. Throughput: one part per cycle.

    A word of no parts that is not the end is dropped, in one cycle. The output depends on the input
    and on registers; ``i.ready`` depends on the input and on ``o.ready``.

    Parameters
    ----------
    shape : ShapeLike
        Shape of one part.
    factor : int
        Parts to a word, at most.

    Members
    -------
    i : In(stream.Signature(word_layout(shape, factor=factor)))
    o : Out(stream.Signature(part_layout(shape)))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: ShapeLike, *, factor: int) -> None:
        require_positive("Narrow factor", factor)
        self.factor = factor
        super().__init__(
            {
                "i": In(stream.Signature(word_layout(shape, factor=factor))),
                "o": Out(stream.Signature(part_layout(shape))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()

        sent = Signal(range(self.factor + 1))
        last = Signal()
        empty = Signal()

        m.d.comb += last.eq(self.i.p.end | (sent + 1 == self.i.p.count))
        m.d.comb += empty.eq(~self.i.p.end & (self.i.p.count == 0))
        m.d.comb += self.i.ready.eq(empty | (last & self.o.ready))
        m.d.comb += self.o.valid.eq(self.i.valid & ~empty)
        m.d.comb += self.o.p.end.eq(self.i.p.end)
        with m.Switch(sent):
            for k in range(self.factor):
                with m.Case(k):
                    m.d.comb += self.o.p.data.eq(self.i.p.data[k])

        with m.If(self.o.valid & self.o.ready):
            m.d.sync += sent.eq(Mux(last, 0, sent + 1))

        return m
