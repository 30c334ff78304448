"""The sending half of a link: whose turn it is, DATA frames or answers to the host."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .frames import BODY
from .outbox import MESSAGE, Outbox
from .protocol import VERSION, Kind, LinkShape
from .receiver import NONCE_BITS, status_layout

__all__ = ["LinkSender"]


class LinkSender(wiring.Component):
    """Send messages in DATA frames, and answer the host.

    Frames leave in this order: the answer to OPEN, those that the host wants again, STATUS if a
    frame has come since the last one, new frames. Before the first OPEN, CLOSED is the only answer.

    Parameters
    ----------
    shape : LinkShape
    beat_bytes, row_bytes : int
        What the answer to OPEN tells of the core; 0 for none.

    Members
    -------
    i : In(stream.Signature(MESSAGE))
    o : Out(stream.Signature(BODY))
    i_status : In(stream.Signature(status_layout(shape), always_ready=True))
    i_open : In(stream.Signature(32, always_ready=True))
        Forget all frames, and answer.
    heard, base, held : In
        Of the receiver.
    session : Out(1)
        An OPEN has come since reset.
    """

    i: stream.Interface
    o: stream.Interface
    i_status: stream.Interface
    i_open: stream.Interface
    heard: Signal
    base: Signal
    held: Signal
    session: Signal

    def __init__(self, shape: LinkShape, *, beat_bytes: int, row_bytes: int) -> None:
        for name, size in (("beat", beat_bytes), ("row", row_bytes)):
            if not isinstance(size, int) or not 0 <= size < 1 << 16:
                raise ValueError(f"A {name} has 0 to 65535 bytes, not {size!r}")
        self.shape = shape
        self.beat_bytes = beat_bytes
        self.row_bytes = row_bytes
        super().__init__(
            {
                "i": In(stream.Signature(MESSAGE)),
                "o": Out(stream.Signature(BODY)),
                "i_status": In(stream.Signature(status_layout(shape), always_ready=True)),
                "i_open": In(stream.Signature(NONCE_BITS, always_ready=True)),
                "heard": In(1),
                "base": In(8),
                "held": In(shape.slots),
                "session": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.outbox = outbox = Outbox(self.shape)
        wiring.connect(m, wiring.flipped(self.i), outbox.i)
        m.d.comb += [
            outbox.i_status.p.eq(self.i_status.p),
            outbox.i_status.valid.eq(self.i_status.valid & self.session),
            outbox.clear.eq(self.i_open.valid),
        ]
        opened = Signal()
        status_due = Signal()
        nonce = Signal(NONCE_BITS)
        tick = Signal(8)
        answers = self._answers(nonce, tick, outbox.head)
        text = Signal(max(len(each) for each in answers.values()))
        left = Signal(range(len(text) // 8 + 1))
        o: Any = self.o.p
        asked: Any = self.i_status.p

        def say(kind: Kind) -> None:
            m.d.sync += [text.eq(answers[kind]), left.eq(len(answers[kind]) // 8)]
            m.next = "answer"

        def send() -> None:
            m.d.comb += outbox.start.eq(1)
            m.next = "frame"

        with m.FSM():
            with m.State("choose"):
                with m.If(opened):
                    m.d.sync += opened.eq(0)
                    say(Kind.OPEN)
                with m.Elif(outbox.again):
                    send()
                with m.Elif(outbox.unsure):
                    pass
                with m.Elif(status_due):
                    m.d.sync += status_due.eq(0)
                    with m.If(self.session):
                        say(Kind.STATUS)
                    with m.Else():
                        say(Kind.CLOSED)
                with m.Elif(outbox.new & self.session):
                    send()
            with m.State("answer"):
                m.d.comb += [self.o.valid.eq(1), o.data.eq(text[:8]), o.end.eq(left == 0)]
                with m.If(self.o.ready):
                    m.d.sync += [text.eq(text[8:]), left.eq(left - 1)]
                    with m.If(left == 0):
                        m.next = "choose"
            with m.State("frame"):
                wiring.connect(m, outbox.o, wiring.flipped(self.o))
                with m.If(self.o.valid & self.o.ready & o.end):
                    m.next = "choose"
        with m.If(self.i_status.valid):
            m.d.sync += tick.eq(asked.tick)
        with m.If(self.heard):
            m.d.sync += status_due.eq(1)
        with m.If(self.i_open.valid):
            m.d.sync += [nonce.eq(self.i_open.payload), opened.eq(1), self.session.eq(1)]
            m.d.sync += status_due.eq(0)
        return m

    def _answers(self, nonce: Value, tick: Value, head: Value) -> dict[Kind, Value]:
        """The bodies of all frames without data, as they are now."""
        sizes = (self.shape.slots, self.shape.frame_bytes)
        about = Cat(
            Const(VERSION, 8),
            *(Const(size, 8) for size in sizes),
            *(Const(size, 16) for size in (self.beat_bytes, self.row_bytes)),
        )
        return {
            Kind.OPEN: Cat(Const(Kind.OPEN, 8), nonce, about),
            Kind.STATUS: Cat(Const(Kind.STATUS, 8), tick, self.base, head, self.held),
            Kind.CLOSED: Cat(Const(Kind.CLOSED, 8)),
        }
