"""The whole link: wires on one side; beats, rows and registers on the other."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .frames import Deframer, Framer
from .outbox import MESSAGE
from .protocol import LinkShape
from .receiver import LinkReceiver
from .sender import LinkSender
from .uart import UartReceiver, UartTransmitter

__all__ = ["LINK_STATUS", "LinkPort"]

LINK_STATUS = data.StructLayout({"session": 1, "receiving": 1, "sending": 1, "damaged": 1})
"""For a person to see: a host has opened a session; a byte comes in, goes out; a frame came
damaged."""


class LinkPort(wiring.Component):
    """The board's end of the link, as far as two reliable streams of bytes.

    Parameters
    ----------
    cycles_per_bit : int
        Clock cycles of a bit on the wires, 4 or more.
    beat_bytes, row_bytes : int
        What the host is told of the core.
    shape : LinkShape

    Members
    -------
    rx, tx : the wires
    o : Out(stream.Signature(8))
        Messages of the host.
    i : In(stream.Signature(MESSAGE))
        Messages for the host.
    clear : Out(1)
        A session begins: what has not been sent, and what is under way, is of the one before.
    status : Out(LINK_STATUS)
    """

    rx: Signal
    tx: Signal
    o: stream.Interface
    i: stream.Interface
    clear: Signal
    status: data.View  # type: ignore[type-arg] # is not generic when it runs

    def __init__(
        self, *, cycles_per_bit: int, beat_bytes: int, row_bytes: int, shape: LinkShape
    ) -> None:
        self.cycles_per_bit = cycles_per_bit
        self.shape = shape
        self.uart_in = UartReceiver(cycles_per_bit=cycles_per_bit)
        self.uart_out = UartTransmitter(cycles_per_bit=cycles_per_bit)
        self.sender = LinkSender(shape, beat_bytes=beat_bytes, row_bytes=row_bytes)
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
        m.submodules.deframer = deframer = Deframer()
        m.submodules.receiver = receiver = LinkReceiver(self.shape)
        m.submodules.sender = sender = self.sender
        m.submodules.framer = framer = Framer()
        m.submodules.uart_out = uart_out = self.uart_out
        wiring.connect(m, uart_in.o, deframer.i)
        wiring.connect(m, deframer.o, receiver.i)
        wiring.connect(m, receiver.o_status, sender.i_status)
        wiring.connect(m, sender.o, framer.i)
        wiring.connect(m, framer.o, uart_out.i)
        wiring.connect(m, receiver.o, wiring.flipped(self.o))
        wiring.connect(m, wiring.flipped(self.i), sender.i)
        # From a register, as this resets the core too, and comes from the check of a frame.
        opened = Signal()
        m.d.sync += opened.eq(receiver.o_open.valid)
        with m.If(receiver.o_open.valid):
            m.d.sync += sender.i_open.payload.eq(receiver.o_open.payload)
        m.d.comb += [
            sender.i_open.valid.eq(opened),
            uart_in.rx.eq(self.rx),
            self.tx.eq(uart_out.tx),
            sender.heard.eq(receiver.heard),
            sender.base.eq(receiver.base),
            sender.held.eq(receiver.held),
            self.clear.eq(opened),
            receiver.clear.eq(opened | ~sender.session),
            self.status.session.eq(sender.session),
            self.status.receiving.eq(~self.rx),
            self.status.sending.eq(~uart_out.tx),
            self.status.damaged.eq(receiver.damaged),
        ]
        return m
