"""The whole link: wires on one side; beats, rows and registers on the other."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Buffer
from .frames import BODY, Deframer, Framer
from .outbox import MESSAGE
from .protocol import LinkShape
from .receiver import LinkReceiver
from .sender import LinkSender
from .uart import UartReceiver, UartTransmitter

__all__ = ["LINK_STATUS", "LinkEnd", "LinkPort"]

LINK_STATUS = data.StructLayout({"session": 1, "receiving": 1, "sending": 1, "damaged": 1})
"""For a person to see: a host has opened a session; a byte comes in, goes out; a frame came
damaged."""


class LinkEnd(wiring.Component):
    """The board's end of the link, between the bytes of the line and two reliable streams.

    Parameters
    ----------
    beat_bytes, row_bytes : int
        What the host is told of the core.
    shape : LinkShape

    Members
    -------
    i_line : In(stream.Signature(8, always_ready=True))
    o_line : Out(stream.Signature(8))
    o : Out(stream.Signature(8))
        Messages of the host.
    i : In(stream.Signature(MESSAGE))
        Messages for the host.
    clear : Out(1)
        A session begins: what has not been sent, and what is under way, is of the one before.
    session : Out(1)
        A session has begun since reset.
    damaged : Out(1)
        A frame has come that was not good.
    """

    i_line: stream.Interface
    o_line: stream.Interface
    o: stream.Interface
    i: stream.Interface
    clear: Signal
    session: Signal
    damaged: Signal

    def __init__(self, *, beat_bytes: int, row_bytes: int, shape: LinkShape) -> None:
        self.shape = shape
        self.sender = LinkSender(shape, beat_bytes=beat_bytes, row_bytes=row_bytes)
        super().__init__(
            {
                "i_line": In(stream.Signature(8, always_ready=True)),
                "o_line": Out(stream.Signature(8)),
                "o": Out(stream.Signature(8)),
                "i": In(stream.Signature(MESSAGE)),
                "clear": Out(1),
                "session": Out(1),
                "damaged": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.deframer = deframer = Deframer()
        m.submodules.receiver = receiver = LinkReceiver(self.shape)
        m.submodules.sender = sender = self.sender
        m.submodules.framer = framer = Framer()
        wiring.connect(m, wiring.flipped(self.i_line), deframer.i)
        # Registers behind the check of a frame and in front of the CRC.
        m.submodules.outgoing = outgoing = Buffer(BODY)
        m.d.sync += [receiver.i.valid.eq(deframer.o.valid), receiver.i.p.eq(deframer.o.p)]
        wiring.connect(m, receiver.o_status, sender.i_status)
        wiring.connect(m, sender.o, outgoing.i)
        wiring.connect(m, outgoing.o, framer.i)
        wiring.connect(m, framer.o, wiring.flipped(self.o_line))
        wiring.connect(m, receiver.o, wiring.flipped(self.o))
        wiring.connect(m, wiring.flipped(self.i), sender.i)
        # From a register, as this resets the core too, and comes from the check of a frame.
        opened = Signal()
        m.d.sync += opened.eq(receiver.o_open.valid)
        with m.If(receiver.o_open.valid):
            m.d.sync += sender.i_open.payload.eq(receiver.o_open.payload)
        m.d.comb += [
            sender.i_open.valid.eq(opened),
            sender.heard.eq(receiver.heard),
            sender.base.eq(receiver.base),
            sender.held.eq(receiver.held),
            receiver.clear.eq(opened | ~sender.session),
            self.clear.eq(opened),
            self.session.eq(sender.session),
            self.damaged.eq(receiver.damaged),
        ]
        return m


class LinkPort(wiring.Component):
    """The board's end of the link, behind a UART.

    Critical path: from the memory of frames to the register behind it, 126 MHz on an ECP5 of speed
    grade 6.

    Parameters
    ----------
    cycles_per_bit : int
        Clock cycles of a bit on the wires, 4 or more.
    beat_bytes, row_bytes, shape
        As for ``LinkEnd``.

    Members
    -------
    rx : In(1)
    tx : Out(1)
    o, i, clear
        As for ``LinkEnd``.
    status : Out(LINK_STATUS)
    """

    rx: Signal
    tx: Signal
    o: stream.Interface
    i: stream.Interface
    clear: Signal
    status: Any

    def __init__(
        self, *, cycles_per_bit: int, beat_bytes: int, row_bytes: int, shape: LinkShape
    ) -> None:
        self.shape = shape
        self.uart_in = UartReceiver(cycles_per_bit=cycles_per_bit)
        self.uart_out = UartTransmitter(cycles_per_bit=cycles_per_bit)
        self.end = LinkEnd(beat_bytes=beat_bytes, row_bytes=row_bytes, shape=shape)
        super().__init__(
            {
                "rx": In(1, init=1),  # type: ignore[call-arg] # not in the stubs
                "tx": Out(1, init=1),  # type: ignore[call-arg] # not in the stubs
                "o": Out(stream.Signature(8)),
                "i": In(stream.Signature(MESSAGE)),
                "clear": Out(1),
                "status": Out(LINK_STATUS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.uart_in = uart_in = self.uart_in
        m.submodules.end = end = self.end
        m.submodules.uart_out = uart_out = self.uart_out
        wiring.connect(m, uart_in.o, end.i_line)
        wiring.connect(m, end.o_line, uart_out.i)
        wiring.connect(m, end.o, wiring.flipped(self.o))
        wiring.connect(m, wiring.flipped(self.i), end.i)
        m.d.comb += [
            uart_in.rx.eq(self.rx),
            self.tx.eq(uart_out.tx),
            self.clear.eq(end.clear),
            self.status.session.eq(end.session),
            self.status.receiving.eq(~self.rx),
            self.status.sending.eq(~uart_out.tx),
            self.status.damaged.eq(end.damaged),
        ]
        return m
