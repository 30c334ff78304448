"""The host's messages: beats of the input, and accesses to registers."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .protocol import ADDRESS_BYTES, GROUP, Op

__all__ = ["Access", "Commands", "beat_layout"]

VALUE_BYTES = 4

Access = data.StructLayout({"write": 1, "address": 8 * ADDRESS_BYTES, "value": 8 * VALUE_BYTES})
"""An access to a register."""


def beat_layout(size: int) -> data.StructLayout:
    """A beat of ``size`` bytes, or the end of a stream of beats."""
    return data.StructLayout({"data": 8 * size, "end": 1})


class Commands(wiring.Component):
    """Read messages and hand them on, one at a time and in order.

    A byte that is no ``Op`` is passed over. Throughput: a byte per cycle, zeros that were left out
    included.

    Parameters
    ----------
    beat_bytes : int

    Members
    -------
    i : In(stream.Signature(8))
    o_beat : Out(stream.Signature(beat_layout(beat_bytes)))
    o_access : Out(stream.Signature(Access))
    """

    i: stream.Interface
    o_beat: stream.Interface
    o_access: stream.Interface

    def __init__(self, *, beat_bytes: int) -> None:
        if not isinstance(beat_bytes, int) or beat_bytes < 1:
            raise ValueError(f"A beat has at least one byte, not {beat_bytes!r}")
        self.beat_bytes = beat_bytes
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o_beat": Out(stream.Signature(beat_layout(beat_bytes))),
                "o_access": Out(stream.Signature(Access)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat = Signal(8 * self.beat_bytes)
        is_end = Signal()
        write = Signal()
        words = Signal(8 * (ADDRESS_BYTES + VALUE_BYTES))
        place = Signal(range(max(self.beat_bytes, len(words) // 8)))
        marks = Signal(GROUP)
        last = Signal()
        byte = Signal(8)
        m.d.comb += [
            self.o_beat.p.data.eq(beat),
            self.o_beat.p.end.eq(is_end),
            self.o_access.p.write.eq(write),
            # A READ has only its address, which then is what came last.
            self.o_access.p.address.eq(Mux(write, words, words >> 8 * VALUE_BYTES)),
            self.o_access.p.value.eq(words >> 8 * ADDRESS_BYTES),
            last.eq(place == self.beat_bytes - 1),
            byte.eq(Mux(marks[0], self.i.payload, 0)),
        ]
        with m.FSM():
            with m.State("op"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += place.eq(0)
                with m.If(self.i.valid), m.Switch(self.i.payload):
                    with m.Case(Op.BEAT):
                        m.d.sync += is_end.eq(0)
                        m.next = "marks"
                    with m.Case(Op.END):
                        m.d.sync += is_end.eq(1)
                        m.next = "beat"
                    with m.Case(Op.WRITE, Op.READ):
                        m.d.sync += write.eq(self.i.payload == Op.WRITE)
                        m.next = "words"
            with m.State("marks"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += marks.eq(self.i.payload)
                    m.next = "bytes"
            with m.State("bytes"):
                m.d.comb += self.i.ready.eq(marks[0])
                with m.If(self.i.valid | ~marks[0]):
                    m.d.sync += [
                        beat.eq(Cat(beat, byte)[8:]),
                        marks.eq(marks >> 1),
                        place.eq(place + 1),
                    ]
                    with m.If(last):
                        m.next = "beat"
                    with m.Elif(place % GROUP == GROUP - 1):
                        m.next = "marks"
            with m.State("beat"):
                m.d.comb += self.o_beat.valid.eq(1)
                with m.If(self.o_beat.ready):
                    m.next = "op"
            with m.State("words"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += [words.eq(Cat(words, self.i.payload)[8:]), place.eq(place + 1)]
                    end = Mux(write, ADDRESS_BYTES + VALUE_BYTES, ADDRESS_BYTES)
                    with m.If(place + 1 == end):
                        m.next = "access"
            with m.State("access"):
                m.d.comb += self.o_access.valid.eq(1)
                with m.If(self.o_access.ready):
                    m.next = "op"
        return m
