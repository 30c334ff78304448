"""The frames that a board sends: filled from a stream of bytes, and kept until they are used."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .frames import BODY
from .protocol import FIRST_LIMIT, Kind, LinkShape
from .receiver import status_layout

__all__ = ["MESSAGE", "Outbox"]

MESSAGE = data.StructLayout({"data": 8, "last": 1})
"""A byte of a message, and whether it is the last one."""


class Outbox(wiring.Component):
    """Cut messages into DATA frames, and keep these until the host has used them.

    A frame is closed when it is full, or when it could be sent at once and its last message is
    whole; so frames are full where there is much to tell, and nothing waits long.

    Throughput: a byte per cycle in, one every third cycle out.

    Parameters
    ----------
    shape : LinkShape

    Members
    -------
    i : In(stream.Signature(MESSAGE))
    o : Out(stream.Signature(BODY))
        The frame asked for with ``start``.
    i_status : In(stream.Signature(status_layout(shape), always_ready=True))
    clear : In(1)
        Forget all frames; the next one is number 0.
    again : Out(1)
        There is a frame that the host wants again.
    unsure : Out(1)
        It is about to be known whether there is.
    new : Out(1)
        There is a frame that has not been sent, or a part of one that can be.
    start : In(1)
        Send a frame, one that is wanted again first. Only when there is one, and when the one
        before has ended.
    head : Out(8)
        The number that the next new frame will have.
    """

    i: stream.Interface
    o: stream.Interface
    i_status: stream.Interface
    clear: Signal
    again: Signal
    unsure: Signal
    new: Signal
    start: Signal
    head: Signal

    def __init__(self, shape: LinkShape) -> None:
        self.shape = shape
        self.slot_bits = (shape.slots - 1).bit_length()
        super().__init__(
            {
                "i": In(stream.Signature(MESSAGE)),
                "o": Out(stream.Signature(BODY)),
                "i_status": In(stream.Signature(status_layout(shape), always_ready=True)),
                "clear": In(1),
                "again": Out(1),
                "unsure": Out(1),
                "new": Out(1),
                "start": In(1),
                "head": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slots, most = self.shape.slots, self.shape.frame_bytes
        rows: Memory = Memory(shape=8, depth=slots * most, init=[])
        sizes: Memory = Memory(shape=range(most + 1), depth=slots, init=[])
        m.submodules.rows = rows
        m.submodules.sizes = sizes
        first = Signal(8)  # the oldest frame that the host may want
        fill = Signal(8)  # the frame being filled
        close = Signal()
        part = self._fill(m, rows, sizes, first, fill, close)
        chosen = self._choose(m, first)
        new = Signal()  # a new frame begins
        number = Signal(8)
        # A cycle old: it holds until a frame is begun, or all is cleared, which is answered first.
        m.d.sync += self.new.eq((self.head != fill) | part)
        m.d.comb += [
            new.eq(self.start & ~self.again),
            close.eq(new & (self.head == fill)),
            number.eq(Mux(self.again, first + (chosen - first)[: self.slot_bits], self.head)),
        ]
        with m.If(new):
            m.d.sync += self.head.eq(self.head + 1)
        self._send(m, rows, sizes, number)
        with m.If(self.clear):
            m.d.sync += [each.eq(0) for each in (first, fill, self.head)]
        return m

    def _fill(
        self, m: Module, rows: Memory, sizes: Memory, first: Value, fill: Signal, close: Value
    ) -> Value:
        """Write what comes into the slot of frame ``fill``; return whether it can be closed."""
        most = self.shape.frame_bytes
        write, size = rows.write_port(), sizes.write_port()
        i: Any = self.i.p
        asked: Any = self.i_status.p
        count = Signal(range(most + 1))
        limit = Signal(range(most + 1), init=min(FIRST_LIMIT, most))
        whole = Signal()  # the last byte in the frame is the last of its message
        put = Signal()
        full = Signal()
        slot = fill[: self.slot_bits]
        m.d.comb += [
            self.i.ready.eq(((fill - first)[:8] < self.shape.slots) & ~close & (count < limit)),
            put.eq(self.i.valid & self.i.ready),
            write.en.eq(put),
            write.addr.eq(Cat(count[: (most - 1).bit_length()], slot)),
            write.data.eq(i.data),
            full.eq((count != 0) & (count >= limit)),
            size.en.eq(close | full),
            size.addr.eq(slot),
            size.data.eq(count),
        ]
        with m.If(put):
            m.d.sync += [count.eq(count + 1), whole.eq(i.last)]
        with m.If(close | full):
            m.d.sync += [count.eq(0), fill.eq(fill + 1)]
        with m.If(self.i_status.valid):
            fits = (asked.limit != 0) & (asked.limit <= most)
            m.d.sync += limit.eq(Mux(fits, asked.limit, most))
        with m.If(self.clear):
            m.d.sync += [count.eq(0), limit.eq(min(FIRST_LIMIT, most))]
        return whole & (count != 0)

    def _choose(self, m: Module, first: Signal) -> Value:
        """Follow what the host has used and wants again; return the slot to send again."""
        asked: Any = self.i_status.p
        slots = self.shape.slots
        wanted = Signal(slots)
        some = Signal()
        lowest, chosen = Signal(self.slot_bits), Signal(self.slot_bits)
        target = Signal(8)  # the host has used all frames before this
        passed = Signal()
        repeated = Signal()
        m.d.comb += [
            self.again.eq(some & ~self.unsure),
            repeated.eq(self.start & self.again),
            passed.eq(first != target),
        ]
        m.d.sync += [
            some.eq(wanted.any()),
            chosen.eq(lowest),
            self.unsure.eq(passed | repeated | self.i_status.valid | self.clear),
        ]
        for k in reversed(range(slots)):
            with m.If(wanted[k]):
                m.d.comb += lowest.eq(k)
        # Frame by frame, so that what was wanted of a slot is forgotten before it is filled anew.
        with m.If(passed):
            m.d.sync += first.eq(first + 1)
        one = Const(1, slots)
        gone = Mux(passed, (one << first[: self.slot_bits])[:slots], 0)
        done = Mux(repeated, (one << chosen)[:slots], 0)
        m.d.sync += wanted.eq(wanted & ~gone & ~done)
        with m.If(self.i_status.valid):
            m.d.sync += target.eq(asked.base)
            m.d.sync += wanted.eq((wanted & ~gone & ~done) | asked.wanted)
        with m.If(self.clear):
            m.d.sync += [target.eq(0), wanted.eq(0)]
        return chosen

    def _send(self, m: Module, rows: Memory, sizes: Memory, number: Value) -> None:
        """On ``start``, send frame ``number``: its kind and number, its bytes, its end."""
        most = self.shape.frame_bytes
        read, read_size = rows.read_port(), sizes.read_port()
        o: Any = self.o.p
        frame = Signal(8)
        place = Signal(range(most))
        byte = Signal(8)
        size = Signal.like(read_size.data)
        m.d.comb += [
            read_size.addr.eq(frame[: self.slot_bits]),
            read.addr.eq(Cat(place, frame[: self.slot_bits])),
        ]
        with m.FSM():
            with m.State("rest"), m.If(self.start):
                m.d.sync += [frame.eq(number), place.eq(0)]
                m.next = "kind"
            with m.State("kind"):
                m.d.comb += [self.o.valid.eq(1), o.data.eq(Kind.DATA)]
                with m.If(self.o.ready):
                    m.next = "number"
            with m.State("number"):
                m.d.comb += [self.o.valid.eq(1), o.data.eq(frame)]
                with m.If(self.o.ready):
                    m.next = "fetch"
            with m.State("fetch"):
                m.next = "hold"
            with m.State("hold"):
                m.d.sync += [byte.eq(read.data), size.eq(read_size.data)]
                m.next = "byte"
            with m.State("byte"):
                m.d.comb += [self.o.valid.eq(1), o.data.eq(byte)]
                with m.If(self.o.ready):
                    m.d.sync += place.eq(place + 1)
                    m.next = "fetch"
                    # The size is wrong where all has been cleared meanwhile, but the frame ends.
                    with m.If(place + 1 >= size):
                        m.next = "end"
            with m.State("end"):
                m.d.comb += [self.o.valid.eq(1), o.end.eq(1)]
                with m.If(self.o.ready):
                    m.next = "rest"
