"""Bytes over one wire: a start bit, eight data bits with the low one first, a stop bit."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer  # type: ignore[import-untyped] # not in the stubs
from amaranth.lib.wiring import In, Out

__all__ = ["UartReceiver", "UartTransmitter", "require_cycles"]

LEAST_CYCLES = 4
"""Clock cycles per bit below which the middle of a bit can't be found."""


def require_cycles(cycles_per_bit: object) -> None:
    """Raise ``ValueError`` unless a UART can have so many clock cycles per bit."""
    if not isinstance(cycles_per_bit, int) or cycles_per_bit < LEAST_CYCLES:
        raise ValueError(
            f"A UART needs at least {LEAST_CYCLES} clock cycles per bit, not {cycles_per_bit!r}"
        )


class UartReceiver(wiring.Component):
    """Read bytes from a wire.

    Latency: 2 cycles after the middle of the stop bit. A byte whose stop bit is low is dropped, and
    so is a start bit that is not low in its middle.

    Parameters
    ----------
    cycles_per_bit : int
        4 or more.

    Members
    -------
    rx : In(1)
        The wire, from another clock; it passes two registers first.
    o : Out(stream.Signature(8, always_ready=True))
    """

    rx: Signal
    o: stream.Interface

    def __init__(self, *, cycles_per_bit: int) -> None:
        require_cycles(cycles_per_bit)
        self.cycles_per_bit = cycles_per_bit
        super().__init__(
            {
                "rx": In(1, init=1),  # type: ignore[call-arg] # not in the stubs
                "o": Out(stream.Signature(8, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wire = Signal(init=1)
        wait = Signal(range(self.cycles_per_bit))
        left = Signal(range(9))
        m.submodules.wire = FFSynchronizer(self.rx, wire, init=1)
        m.d.sync += self.o.valid.eq(0)
        m.d.sync += wait.eq(wait - 1)
        with m.FSM():
            with m.State("quiet"):
                m.d.sync += wait.eq(self.cycles_per_bit // 2 - 1)
                with m.If(~wire):
                    m.next = "start"
            with m.State("start"), m.If(wait == 0):
                m.d.sync += [wait.eq(self.cycles_per_bit - 1), left.eq(8)]
                with m.If(wire):
                    m.next = "quiet"
                with m.Else():
                    m.next = "bits"
            with m.State("bits"), m.If(wait == 0):
                m.d.sync += [wait.eq(self.cycles_per_bit - 1), left.eq(left - 1)]
                with m.If(left != 0):
                    m.d.sync += self.o.payload.eq(Cat(self.o.payload[1:], wire))
                with m.Else():
                    m.d.sync += self.o.valid.eq(wire)
                    m.next = "stop"
            with m.State("stop"), m.If(wire):
                m.next = "quiet"
        return m


class UartTransmitter(wiring.Component):
    """Write bytes to a wire.

    Throughput: one byte per ``10 * cycles_per_bit`` cycles.

    Parameters
    ----------
    cycles_per_bit : int
        4 or more.

    Members
    -------
    i : In(stream.Signature(8))
    tx : Out(1)
        The wire, from a register.
    """

    i: stream.Interface
    tx: Signal

    def __init__(self, *, cycles_per_bit: int) -> None:
        require_cycles(cycles_per_bit)
        self.cycles_per_bit = cycles_per_bit
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "tx": Out(1, init=1),  # type: ignore[call-arg] # not in the stubs
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wait = Signal(range(self.cycles_per_bit))
        left = Signal(range(11))
        bits = Signal(9)
        m.d.comb += self.i.ready.eq((left == 0) & (wait == 0))
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Elif(left != 0):
            m.d.sync += [
                Cat(self.tx, bits).eq(Cat(bits, Const(1, 1))),
                left.eq(left - 1),
                wait.eq(self.cycles_per_bit - 1),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += [self.tx.eq(0), bits.eq(Cat(self.i.payload, Const(1, 1)))]
            m.d.sync += [left.eq(9), wait.eq(self.cycles_per_bit - 1)]
        return m
