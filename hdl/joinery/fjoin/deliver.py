"""Writing results to memory by AXI4: packed into words, in long bursts, never past a buffer."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Queue
from .fetch import PAGE, burst_layout, least
from .shape import PipelineShape

__all__ = ["RESULT_BYTES", "Packer", "Writer", "packed_layout"]

RESULT_BYTES = 8
"""A result in memory: the ids of the stream and of the window tuple, in four bytes each."""


def packed_layout(word_bytes: int) -> data.StructLayout:
    """A word of results: ``count`` of them, from its low end."""
    places = word_bytes // RESULT_BYTES
    return data.StructLayout({"data": 8 * word_bytes, "count": range(places + 1)})


class Packer(wiring.Component):
    """Put the results of all lanes into words, as many as the buffer holds.

    Latency: 1 cycle. Throughput: a transfer per cycle.

    Parameters
    ----------
    shape : PipelineShape
    word_bytes : int

    Members
    -------
    begin : In(1)
        A new buffer of ``capacity`` results; nothing is inside.
    capacity : In(32)
    i : In(stream.Signature(shape.result))
    o : Out(stream.Signature(packed_layout(word_bytes)))
    flush : In(1)
        Send a word that is not full, too; only while ``full``, or while nothing comes.
    results : Out(32)
        Results for this buffer.
    taken : Out(range(lanes + 1))
        Results taken in this cycle.
    ended : Out(1)
        The end of a batch was taken in this cycle.
    full : Out(1)
        A result waits, and the buffer has no place for it.
    empty : Out(1)
        Nothing is inside.
    """

    begin: Signal
    capacity: Signal
    i: stream.Interface
    o: stream.Interface
    flush: Signal
    results: Signal
    taken: Signal
    ended: Signal
    full: Signal
    empty: Signal

    def __init__(self, shape: PipelineShape, *, word_bytes: int) -> None:
        self.shape = shape
        self.places = word_bytes // RESULT_BYTES
        super().__init__(
            {
                "begin": In(1),
                "capacity": In(32),
                "i": In(stream.Signature(shape.result)),
                "o": Out(stream.Signature(packed_layout(word_bytes))),
                "flush": In(1),
                "results": Out(32),
                "taken": Out(range(shape.lanes + 1)),
                "ended": Out(1),
                "full": Out(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, places, i = self.shape.lanes, self.places, self.i.payload
        # Two words in a circle: one is filled while the other is sent.
        slots = [
            Signal(8 * RESULT_BYTES, name=f"slot_{k}", reset_less=True) for k in range(2 * places)
        ]
        held, position = Signal(range(2 * places + 1)), Signal(range(2 * places))
        upper = Signal()
        sent, waiting, allowed = Signal(lanes), Signal(lanes), Signal(lanes)
        room, fits = Signal(range(lanes + 1)), Signal()
        left = self.capacity - self.results
        m.d.comb += [
            waiting.eq(Cat(lane.valid for lane in i.lanes) & ~sent & (~i.end).replicate(lanes)),
            room.eq(Mux(left > lanes, lanes, left)),
            fits.eq(self.i.valid & (held <= 2 * places - lanes)),
            self.full.eq(self.i.valid & ~i.end & (room == 0)),
            self.ended.eq(self.i.valid & i.end),
            self.i.ready.eq(i.end | (fits & (waiting == allowed))),
            self.empty.eq(held == 0),
        ]
        ranks: list[Any] = [Const(0)]
        for lane in range(lanes):
            m.d.comb += allowed[lane].eq(waiting[lane] & (ranks[lane] < room))
            ranks.append(ranks[lane] + waiting[lane])
            match = i.lanes[lane].match
            half = 4 * RESULT_BYTES
            record = Cat(match.stream, Const(0, half - len(match.stream)), match.window)
            for k, slot in enumerate(slots):
                at = (position + ranks[lane])[: len(position)]
                with m.If(fits & allowed[lane] & (at == k)):
                    m.d.sync += slot.eq(record)
        m.d.comb += self.taken.eq(Mux(fits, sum(allowed[lane] for lane in range(lanes)), 0))
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += sent.eq(0)
        with m.Elif(fits):
            m.d.sync += sent.eq(sent | allowed)

        leaves = Signal()
        word = Mux(upper, Cat(slots[places:]), Cat(slots[:places]))
        m.d.comb += [
            leaves.eq(self.o.valid & self.o.ready),
            self.o.valid.eq((held >= places) | (self.flush & (held != 0))),
            self.o.payload.data.eq(word),
            self.o.payload.count.eq(Mux(held >= places, places, held)),
        ]
        m.d.sync += [
            held.eq(held + self.taken - Mux(leaves, self.o.payload.count, 0)),
            position.eq(position + self.taken),
            upper.eq(upper ^ leaves),
            self.results.eq(Mux(self.begin, 0, self.results + self.taken)),
        ]
        with m.If(self.begin):
            m.d.sync += [position.eq(0), upper.eq(0), held.eq(0)]
        return m


class Writer(wiring.Component):
    """Write words one after the other, in bursts that wait until all their words are there.

    Throughput: a word per cycle, less three cycles for each burst.

    Parameters
    ----------
    word_bytes : int
    address_bits : int
        Bits of a word's number.
    burst : int
        Words in a burst, at most.

    Members
    -------
    begin : In(1)
        Go on at ``address``; nothing is inside.
    address : In(address_bits)
    i : In(stream.Signature(packed_layout(word_bytes)))
    flush : In(1)
        Do not wait for more words.
    stop : In(1)
        Begin no other burst.
    idle : Out(1)
        All that came in is in memory.
    quiet : Out(1)
        No burst is on its way.
    ask : Out(stream.Signature(burst_layout(address_bits)))
    o : Out(stream.Signature({"data": 8 * word_bytes, "last": 1}))
        The rest of a word that is not full is not defined.
    written : In(1)
        A burst is in memory.
    """

    begin: Signal
    address: Signal
    i: stream.Interface
    flush: Signal
    stop: Signal
    idle: Signal
    quiet: Signal
    ask: stream.Interface
    o: stream.Interface
    written: Signal

    def __init__(self, *, word_bytes: int, address_bits: int, burst: int) -> None:
        self.word_bytes = word_bytes
        self.burst = burst
        beat = data.StructLayout({"data": 8 * word_bytes, "last": 1})
        super().__init__(
            {
                "begin": In(1),
                "address": In(address_bits),
                "i": In(stream.Signature(packed_layout(word_bytes))),
                "flush": In(1),
                "stop": In(1),
                "idle": Out(1),
                "quiet": Out(1),
                "ask": Out(stream.Signature(burst_layout(address_bits))),
                "o": Out(stream.Signature(beat)),
                "written": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = Queue(packed_layout(self.word_bytes), depth=2 * self.burst)
        wiring.connect(m, wiring.flipped(self.i), queue.i)
        address = Signal.like(self.address)
        length, sent = Signal(range(self.burst + 1)), Signal(range(self.burst + 1))
        pending = Signal(8)
        waits = Signal()
        page = PAGE // self.word_bytes
        most = least(
            m, "most_words", Const(self.burst, 9), page - address[: (page - 1).bit_length()]
        )
        beat = self.o.payload
        m.d.comb += [
            self.ask.payload.address.eq(address),
            self.ask.payload.last.eq((length - 1)[: len(length)]),
            beat.data.eq(queue.o.payload.data),
            beat.last.eq(sent + 1 == length),
            self.quiet.eq(waits & (pending == 0)),
            self.idle.eq(self.quiet & (queue.level == 0)),
        ]
        with m.FSM():
            with m.State("WAIT"):
                m.d.comb += waits.eq(1)
                m.d.sync += [sent.eq(0), length.eq(Mux(queue.level < most, queue.level, most))]
                enough = (queue.level >= most) | (self.flush & (queue.level != 0))
                with m.If(enough & ~self.stop & ~pending.all()):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += self.ask.valid.eq(1)
                with m.If(self.ask.ready):
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [self.o.valid.eq(queue.o.valid), queue.o.ready.eq(self.o.ready)]
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += sent.eq(sent + 1)
                    with m.If(beat.last):
                        m.d.sync += address.eq(address + length)
                        m.next = "WAIT"
        m.d.sync += pending.eq(pending + (self.ask.valid & self.ask.ready) - self.written)
        with m.If(self.begin):
            m.d.sync += address.eq(self.address)
        return m
