"""The receiving half of a link: frames in, the host's stream of bytes out."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .frames import CHECKED
from .protocol import Kind, LinkShape

__all__ = ["LinkReceiver", "status_layout"]

NONCE_BITS = 32


def status_layout(shape: LinkShape) -> data.StructLayout:
    """What a STATUS frame of the host says."""
    return data.StructLayout({"tick": 8, "base": 8, "limit": 8, "wanted": shape.slots})


class LinkReceiver(wiring.Component):
    """Put the host's DATA frames in order, and hand on what its other frames say.

    A frame is written into its slot as it comes, and counts once its end is good. A slot that is
    held is not written, so a frame that comes twice changes nothing.

    Throughput: a byte every third cycle.

    Parameters
    ----------
    shape : LinkShape

    Members
    -------
    i : In(stream.Signature(CHECKED, always_ready=True))
    o : Out(stream.Signature(8))
        The bytes of all DATA frames, in order.
    clear : In(1)
        Forget all frames; the next one is number 0.
    base : Out(8)
        The number of the first frame that has not left through ``o``.
    held : Out(shape.slots)
        The slots that hold a frame.
    heard : Out(1)
        A good DATA or STATUS frame has come.
    damaged : Out(1)
        A frame has come that was not good.
    o_status : Out(stream.Signature(status_layout(shape), always_ready=True))
    o_open : Out(stream.Signature(32, always_ready=True))
        The nonce of an OPEN frame.
    """

    i: stream.Interface
    o: stream.Interface
    clear: Signal
    base: Signal
    held: Signal
    heard: Signal
    damaged: Signal
    o_status: stream.Interface
    o_open: stream.Interface

    def __init__(self, shape: LinkShape) -> None:
        self.shape = shape
        super().__init__(
            {
                "i": In(stream.Signature(CHECKED, always_ready=True)),
                "o": Out(stream.Signature(8)),
                "clear": In(1),
                "base": Out(8),
                "held": Out(shape.slots),
                "heard": Out(1),
                "damaged": Out(1),
                "o_status": Out(stream.Signature(status_layout(shape), always_ready=True)),
                "o_open": Out(stream.Signature(NONCE_BITS, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        frame: Any = self.i.p
        status = status_layout(self.shape)
        fields = Signal(max(status.size, NONCE_BITS))
        kind = Signal(8)
        count = Signal(range(self.shape.frame_bytes + 4))  # bytes of the body, up to one too many
        ended = Signal()
        m.d.comb += ended.eq(self.i.valid & frame.end & frame.good)
        with m.If(self.i.valid & frame.end):
            m.d.sync += count.eq(0)
        with m.Elif(self.i.valid):
            with m.If(count != self.shape.frame_bytes + 3):
                m.d.sync += count.eq(count + 1)
            with m.If(count == 0):
                m.d.sync += kind.eq(frame.data)
            for k in range(len(fields) // 8):
                with m.If(count == 1 + k):
                    m.d.sync += fields.word_select(k, 8).eq(frame.data)

        is_status = (kind == Kind.STATUS) & (count == 1 + status.size // 8)
        is_open = (kind == Kind.OPEN) & (count == 1 + NONCE_BITS // 8)
        m.d.comb += [
            self.damaged.eq(self.i.valid & frame.end & ~frame.good),
            self.o_status.valid.eq(ended & is_status),
            self.o_status.p.eq(fields),
            self.o_open.valid.eq(ended & is_open),
            self.o_open.payload.eq(fields),
            self.heard.eq(ended & (is_status | ((kind == Kind.DATA) & (count > 2)))),
        ]
        self._keep(m, frame, fields[:8], count, ended & (kind == Kind.DATA))
        return m

    def _keep(self, m: Module, frame: Any, number: Any, count: Signal, ended: Any) -> None:
        """Write DATA frames into their slots, and read the slots in order."""
        slots, most = self.shape.slots, self.shape.frame_bytes
        slot_bits = (slots - 1).bit_length()
        rows: Memory = Memory(shape=8, depth=slots * most, init=[])
        sizes: Memory = Memory(shape=range(most + 1), depth=slots, init=[])
        m.submodules.rows = rows
        m.submodules.sizes = sizes
        write, read = rows.write_port(), rows.read_port()
        write_size, read_size = sizes.write_port(), sizes.read_port(domain="comb")
        slot = number[:slot_bits]
        place = Signal(range(most))  # of a byte in its frame
        room = Signal()
        fits = Signal()
        m.d.comb += [
            room.eq(((number - self.base)[:8] < slots) & ~self.held.bit_select(slot, 1)),
            fits.eq((count >= 2) & (count < most + 2)),
            place.eq(count - 2),
            write.addr.eq(Cat(place, slot)),
            write.data.eq(frame.data),
            write.en.eq(self.i.valid & ~frame.end & fits & room),
            write_size.addr.eq(slot),
            write_size.data.eq(count - 2),
        ]
        at = Signal(range(most))
        front = self.base[:slot_bits]
        fetched = Signal()  # the byte is in the memory's register
        last = Signal()
        leaves = Signal()
        m.d.comb += [
            read.addr.eq(Cat(at, front)),
            read_size.addr.eq(front),
            leaves.eq(self.o.valid & self.o.ready & last),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [self.o.valid.eq(0), at.eq(at + 1)]
        with m.Elif(fetched):
            m.d.sync += [
                fetched.eq(0),
                self.o.valid.eq(1),
                self.o.payload.eq(read.data),
                last.eq(at + 1 == read_size.data),
            ]
        with m.Elif(~self.o.valid):
            m.d.sync += fetched.eq(self.held.bit_select(front, 1))
        with m.If(leaves):
            m.d.sync += [self.base.eq(self.base + 1), at.eq(0)]
            m.d.sync += self.held.bit_select(front, 1).eq(0)
        with m.If(ended & room & (count > 2) & (count <= most + 2)):
            m.d.comb += write_size.en.eq(1)
            m.d.sync += self.held.bit_select(slot, 1).eq(1)
        with m.If(self.clear):
            m.d.sync += [self.base.eq(0), self.held.eq(0), at.eq(0)]
            m.d.sync += [fetched.eq(0), self.o.valid.eq(0)]
