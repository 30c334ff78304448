"""Frames: where they end, and whether they came whole; and the other way, sending them so.

``protocol`` says what a frame looks like on the line.
"""

from functools import reduce
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .protocol import CRC_BYTES, ESCAPE, FLAG, FLIP

__all__ = ["BODY", "CHECKED", "Deframer", "Framer", "crc32"]

POLYNOMIAL = 0xEDB88320
START = 0xFFFFFFFF
RESIDUE = 0xDEBB20E3
"""What is left of any frame that came whole, its CRC included."""

BODY = data.StructLayout({"data": 8, "end": 1})
"""A byte of a body, or its end."""

CHECKED = data.StructLayout({"data": 8, "end": 1, "good": 1})
"""A byte of a body, or its end, and whether the body came whole."""


def crc32(crc: Value, byte: Value) -> Value:
    """Return the CRC register after one more byte."""
    shifted: list[set[int]] = [{k} for k in range(32)]
    for k in range(8):
        shifted[k] ^= {32 + k}
    for _ in range(8):
        low, shifted = shifted[0], [*shifted[1:], set()]
        shifted = [bits ^ low if POLYNOMIAL >> k & 1 else bits for k, bits in enumerate(shifted)]
    inputs = Cat(crc, byte)
    return Cat(reduce(lambda a, b: a ^ b, (inputs[k] for k in sorted(bits))) for bits in shifted)


class Deframer(wiring.Component):
    """Find frames in what comes from the line, and check them.

    Latency: the bytes of a body come four bytes late, as only then it is known that they are not
    its CRC; its end comes with the ``FLAG``. A frame of fewer bytes than a CRC has is not good.

    Members
    -------
    i : In(stream.Signature(8, always_ready=True))
    o : Out(stream.Signature(CHECKED, always_ready=True))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(8, always_ready=True)),
                "o": Out(stream.Signature(CHECKED, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        late = Signal(8 * CRC_BYTES)
        held = Signal(range(CRC_BYTES + 1))
        crc = Signal(32, init=START)
        escaped = Signal()
        byte = Signal(8)
        o: Any = self.o.p
        m.d.comb += [
            byte.eq(self.i.payload ^ Mux(escaped, FLIP, 0)),
            o.data.eq(late[:8]),
            o.good.eq((held == CRC_BYTES) & (crc == RESIDUE) & ~escaped),
        ]
        with m.If(self.i.valid):
            m.d.sync += escaped.eq(self.i.payload == ESCAPE)
            with m.If(self.i.payload == FLAG):
                m.d.comb += [self.o.valid.eq(held != 0), o.end.eq(1)]
                m.d.sync += [held.eq(0), crc.eq(START)]
            with m.Elif(self.i.payload != ESCAPE):
                m.d.comb += self.o.valid.eq(held == CRC_BYTES)
                m.d.sync += [late.eq(Cat(late[8:], byte)), crc.eq(crc32(crc, byte))]
                with m.If(held != CRC_BYTES):
                    m.d.sync += held.eq(held + 1)
        return m


class Framer(wiring.Component):
    """Make frames of bodies: append the CRC, escape what must be, end with ``FLAG``.

    Latency: 0 cycles. Throughput: one byte per cycle.

    Members
    -------
    i : In(stream.Signature(BODY))
    o : Out(stream.Signature(8))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(BODY)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        crc = Signal(32, init=START)
        left = Signal(range(CRC_BYTES))
        escaped = Signal()
        byte = Signal(8)
        offered = Signal()  # a byte that may have to be escaped
        taken = Signal()  # and has been sent
        i: Any = self.i.p
        with m.If(offered):
            special = (byte == FLAG) | (byte == ESCAPE)
            m.d.comb += [
                self.o.valid.eq(1),
                self.o.payload.eq(Mux(~special, byte, Mux(escaped, byte ^ FLIP, Const(ESCAPE, 8)))),
                taken.eq(self.o.ready & (~special | escaped)),
            ]
            with m.If(self.o.ready):
                m.d.sync += escaped.eq(special & ~escaped)
        with m.FSM():
            with m.State("body"):
                m.d.comb += [offered.eq(self.i.valid & ~i.end), byte.eq(i.data)]
                m.d.comb += self.i.ready.eq(taken | i.end)
                with m.If(taken):
                    m.d.sync += crc.eq(crc32(crc, i.data))
                with m.If(self.i.valid & i.end):
                    m.next = "check"
            with m.State("check"):
                m.d.comb += [offered.eq(1), byte.eq(~crc[:8])]
                with m.If(taken):
                    m.d.sync += [crc.eq(Cat(crc[8:], Const(0, 8))), left.eq(left + 1)]
                    with m.If(left == CRC_BYTES - 1):
                        m.next = "flag"
            with m.State("flag"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(FLAG)]
                with m.If(self.o.ready):
                    m.d.sync += crc.eq(START)
                    m.next = "body"
        return m
