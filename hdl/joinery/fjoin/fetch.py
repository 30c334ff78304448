"""Reading records from memory by AXI4: long bursts, with room kept for all that was asked for."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Queue, word_layout
from .shape import PipelineShape

__all__ = ["Batcher", "Fetch", "burst_layout", "least", "stretch_layout"]

PAGE = 4096
"""Bytes; no burst of AXI4 may cross the boundary of a page."""


def burst_layout(address_bits: int) -> data.StructLayout:
    """A burst: the number of its first word, and how many words it has, less one."""
    return data.StructLayout({"address": address_bits, "last": 8})


def stretch_layout(address_bits: int) -> data.StructLayout:
    """Records in memory, in words of the bus: ``words`` of them hold ``count`` records.

    What would be read at ``end`` is read at ``base``.
    """
    return data.StructLayout(
        {
            "address": address_bits,
            "base": address_bits,
            "end": address_bits,
            "words": 32,
            "count": 32,
        }
    )


def least(m: Module, name: str, *values: Any) -> Signal:
    """Return the least of some numbers."""
    found = values[0]
    for value in values[1:]:
        found = Mux(value < found, value, found)
    least = Signal(len(values[0]), name=name)
    m.d.comb += least.eq(found)
    return least


class Fetch(wiring.Component):
    """Read a stretch of memory, once or again and again, and give its words in order.

    Throughput: a word per cycle, if the memory's latency is less than the queue holds. A burst is
    asked for only when the queue has room for all of it, so ``word`` is always ready.

    Parameters
    ----------
    word_bytes : int
        Width of the bus.
    stride : int
        Bytes of a record; as many as fit are in each word, from its low end.
    address_bits : int
        Bits of a word's number.
    burst : int
        Words in a burst, at most.
    per_round : int
        The stretch is read once for every so many of ``rounds``.

    Members
    -------
    start : In(1)
        Begin with ``stretch`` and ``rounds``, which hold until all has been read.
    stretch : In(stretch_layout(address_bits))
    rounds : In(32)
    stop : In(1)
        Ask for nothing more.
    busy : Out(1)
        Something was asked for and has not come, or is being asked for.
    ask : Out(stream.Signature(burst_layout(address_bits)))
    valid : In(1)
    word : In(8 * word_bytes)
        The words that were asked for.
    o : Out(stream.Signature(word_layout(8 * stride, factor=word_bytes // stride)))
        The end comes once for each reading of the stretch.
    """

    start: Signal
    stretch: Any
    rounds: Signal
    stop: Signal
    busy: Signal
    ask: stream.Interface
    valid: Signal
    word: Signal
    o: stream.Interface

    def __init__(
        self, *, word_bytes: int, stride: int, address_bits: int, burst: int, per_round: int
    ) -> None:
        self.word_bytes = word_bytes
        self.stride = stride
        self.per_word = word_bytes // stride
        self.burst = burst
        self.per_round = per_round
        super().__init__(
            {
                "start": In(1),
                "stretch": In(stretch_layout(address_bits)),
                "rounds": In(32),
                "stop": In(1),
                "busy": Out(1),
                "ask": Out(stream.Signature(burst_layout(address_bits))),
                "valid": In(1),
                "word": In(8 * word_bytes),
                "o": Out(stream.Signature(word_layout(8 * stride, factor=self.per_word))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = Queue(8 * self.word_bytes, depth=2 * self.burst)
        asked = self._ask(m, queue)
        coming = Signal(range(2 * self.burst + 1))
        m.d.sync += coming.eq(coming + asked - self.valid)
        m.d.comb += [
            self.busy.eq(self.ask.valid | (coming != 0)),
            queue.i.valid.eq(self.valid),
            queue.i.payload.eq(self.word),
        ]
        self._give(m, queue)
        return m

    def _ask(self, m: Module, queue: Queue) -> Any:
        """Ask for bursts while there is room; return how many words were asked for."""
        stretch, burst = self.stretch, self.burst
        address = Signal.like(stretch.address)
        left, rounds = Signal(32), Signal(32)
        length, most = Signal(range(burst + 1)), Signal(range(burst + 1))
        reserved = Signal(range(2 * burst + 1))
        page = PAGE // self.word_bytes
        within = address[: (page - 1).bit_length()]
        m.d.comb += most.eq(
            least(
                m,
                "least_words",
                left,
                burst,
                page - within,
                (stretch.end - address)[: len(address)],
            )
        )
        begin = [address.eq(stretch.address), left.eq(stretch.words)]
        with m.FSM():
            with m.State("IDLE"), m.If(self.start & (stretch.words != 0)):
                m.d.sync += [*begin, rounds.eq(self.rounds)]
                m.next = "SIZE"
            with m.State("SIZE"):
                m.d.sync += length.eq(most)
                m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += self.ask.valid.eq(reserved + length <= 2 * burst)
                with m.If(self.ask.valid & self.ask.ready):
                    m.next = "SIZE"
                    m.d.sync += [address.eq(address + length), left.eq(left - length)]
                    with m.If(address + length == stretch.end):
                        m.d.sync += address.eq(stretch.base)
                    with m.If(left == length):
                        m.d.sync += [*begin, rounds.eq(rounds - self.per_round)]
                        with m.If(rounds <= self.per_round):
                            m.next = "IDLE"
                    with m.If(self.stop):
                        m.next = "IDLE"
                with m.Elif(self.stop & ~self.ask.valid):
                    m.next = "IDLE"
        m.d.comb += [
            self.ask.payload.address.eq(address),
            self.ask.payload.last.eq((length - 1)[: len(length)]),
        ]
        asked = Mux(self.ask.valid & self.ask.ready, length, 0)
        m.d.sync += reserved.eq(reserved + asked - (queue.o.valid & queue.o.ready))
        return asked

    def _give(self, m: Module, queue: Queue) -> None:
        """Send the words with the number of their records, and the end after each reading."""
        o, word = self.o.payload, queue.o.payload
        left, rounds, gives = Signal(32), Signal(32), Signal()
        for k in range(self.per_word):
            m.d.comb += o.data[k].eq(word[8 * self.stride * k : 8 * self.stride * (k + 1)])
        m.d.comb += [
            o.end.eq(left == 0),
            o.count.eq(Mux(left > self.per_word, self.per_word, left)),
            self.o.valid.eq(gives & (o.end | queue.o.valid)),
            queue.o.ready.eq(gives & ~o.end & self.o.ready),
        ]
        with m.If(self.start):
            m.d.sync += [gives.eq(1), left.eq(self.stretch.count), rounds.eq(self.rounds)]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += left.eq(left - o.count)
            with m.If(o.end):
                m.d.sync += [left.eq(self.stretch.count), rounds.eq(rounds - self.per_round)]
                m.d.sync += gives.eq(rounds > self.per_round)


class Batcher(wiring.Component):
    """Put an end after every ``units`` tuples.

    Latency: 0 cycles. Throughput: a tuple per cycle, and one cycle for each end.

    Parameters
    ----------
    shape : PipelineShape
    bits : int
        Bits of a tuple with its padding.

    Members
    -------
    i : In(stream.Signature({"data": bits, "end": 1}))
    o : Out(stream.Signature(shape.transfer("stream")))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: PipelineShape, *, bits: int) -> None:
        self.shape = shape
        part = data.StructLayout({"data": bits, "end": 1})
        super().__init__(
            {
                "i": In(stream.Signature(part)),
                "o": Out(stream.Signature(shape.transfer("stream"))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i, o = self.i, self.o
        count = Signal(range(self.shape.units + 1))
        full, over = Signal(), Signal()
        record = self.shape.record("stream")
        m.d.comb += [
            full.eq(count == self.shape.units),
            over.eq(i.valid & i.payload.end & (count == 0)),  # the last batch was a full one
            o.valid.eq((i.valid & ~over) | full),
            o.payload.end.eq(full | i.payload.end),
            o.payload.tuple.eq(i.payload.data[: record.size]),
            i.ready.eq(over | (o.ready & ~full)),
        ]
        with m.If(o.valid & o.ready):
            m.d.sync += count.eq(Mux(o.payload.end, 0, count + 1))
        return m
