"""Register accesses, one at a time, as an AXI4-Lite master."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .commands import Access
from .protocol import ADDRESS_BYTES
from .replies import Answer

__all__ = ["RegisterAccess"]

SLVERR = 0b10


class RegisterAccess(wiring.Component):
    """Make accesses and say what they came to.

    An address that the bus can't carry is answered with SLVERR.

    Parameters
    ----------
    address_width : int
        Bits of an address on the bus.

    Members
    -------
    i : In(stream.Signature(Access))
    o : Out(stream.Signature(Answer))
    awaddr ... rready : AXI4-Lite
    """

    i: stream.Interface
    o: stream.Interface
    awaddr: Signal
    awprot: Signal
    awvalid: Signal
    awready: Signal
    wdata: Signal
    wstrb: Signal
    wvalid: Signal
    wready: Signal
    bresp: Signal
    bvalid: Signal
    bready: Signal
    araddr: Signal
    arprot: Signal
    arvalid: Signal
    arready: Signal
    rdata: Signal
    rresp: Signal
    rvalid: Signal
    rready: Signal

    def __init__(self, *, address_width: int) -> None:
        most = 8 * ADDRESS_BYTES
        if not isinstance(address_width, int) or not 1 <= address_width <= most:
            raise ValueError(f"Register addresses have 1 to {most} bits, not {address_width!r}")
        self.address_width = address_width
        super().__init__(
            {
                "i": In(stream.Signature(Access)),
                "o": Out(stream.Signature(Answer)),
                "awaddr": Out(address_width),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_width),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked: Any = self.i.p
        answer: Any = self.o.p
        m.d.comb += [
            self.awaddr.eq(asked.address),
            self.wdata.eq(asked.value),
            self.wstrb.eq(0b1111),
            self.araddr.eq(asked.address),
        ]
        with m.FSM():
            with m.State("rest"), m.If(self.i.valid):
                m.d.sync += [answer.write.eq(asked.write), answer.response.eq(SLVERR)]
                m.d.sync += answer.value.eq(0)
                with m.If(asked.address >> self.address_width != 0):
                    m.next = "answer"
                with m.Elif(asked.write):
                    m.d.sync += [self.awvalid.eq(1), self.wvalid.eq(1)]
                    m.next = "write"
                with m.Else():
                    m.d.sync += self.arvalid.eq(1)
                    m.next = "read"
            with m.State("write"):
                with m.If(self.awready):
                    m.d.sync += self.awvalid.eq(0)
                with m.If(self.wready):
                    m.d.sync += self.wvalid.eq(0)
                m.d.comb += self.bready.eq(1)
                with m.If(self.bvalid):
                    m.d.sync += answer.response.eq(self.bresp)
                    m.next = "answer"
            with m.State("read"):
                with m.If(self.arready):
                    m.d.sync += self.arvalid.eq(0)
                m.d.comb += self.rready.eq(1)
                with m.If(self.rvalid):
                    m.d.sync += [answer.response.eq(self.rresp), answer.value.eq(self.rdata)]
                    m.next = "answer"
            with m.State("answer"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.comb += self.i.ready.eq(1)
                    m.next = "rest"
        return m
