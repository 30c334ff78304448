"""One channel of a level: turns runs of words and single writes into requests, in order."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Queue
from .levels import Level, Queues
from .ports import MemoryPort

__all__ = ["Channel", "DuplexChannel", "ModifyingChannel", "channel_operation", "word_write"]


def channel_operation(queues: Queues, level: int) -> data.StructLayout:
    """Read ``count`` lines of a key from ``first`` on, around its ring; then write ``writes``.

    Of the last line that is read, values are ``wanted``.
    """
    stride = queues.levels[level].stride
    return data.StructLayout(
        {
            "slot": queues.slot,
            "first": range(stride),
            "count": range(stride + 2),
            "wanted": queues.levels[level].word,
            "write_first": range(stride),
            "writes": range(stride + 1),
        }
    )


def word_write(queues: Queues, level: int) -> data.StructLayout:
    """What to write into a word, and which of its values."""
    word = queues.levels[level].word
    return data.StructLayout({"mask": word, "data": word * queues.width})


class _Channel(wiring.Component):
    """What both kinds of channel share.

    Parameters
    ----------
    queues : Queues
    level : int

    Members
    -------
    i : In(stream.Signature(channel_operation(queues, level)))
    i_write : In(stream.Signature(word_write(queues, level)))
        One transfer for each word that is written.
    o : Out(stream.Signature(queues.word(level)))
        The words of the runs, in order.
    port : Out(MemoryPort)
    """

    i: stream.Interface
    i_write: stream.Interface
    o: stream.Interface
    port: Any

    def __init__(self, queues: Queues, *, level: int) -> None:
        self.queues = queues
        self.level: Level = queues.levels[level]
        self.memory_port = MemoryPort(
            lines=queues.slots * self.level.stride,
            word=self.level.word,
            width=queues.width,
            burst=self.level.burst,
        )
        super().__init__(
            {
                "i": In(stream.Signature(channel_operation(queues, level))),
                "i_write": In(stream.Signature(word_write(queues, level))),
                "o": Out(stream.Signature(queues.word(level))),
                "port": Out(self.memory_port),
            }
        )

    def _line(self, place: Any, slot: Any = None) -> Any:
        return (self.i.p.slot if slot is None else slot) * self.level.stride + place

    def _take_words(self, m: Module) -> None:
        """Pass on the words as they come."""
        m.d.comb += [
            self.o.valid.eq(self.port.response.valid),
            self.o.payload.eq(self.port.response.payload),
            self.port.response.ready.eq(self.o.ready),
        ]

    def _next_read(self, m: Module, step: Any) -> tuple[Any, Any, Any]:
        """Return where the next request of the run reads, how many words, and how many are left.

        ``step`` is high in the cycle in which that request is made.
        """
        stride, burst = self.level.stride, self.level.burst
        started = Signal()
        place_after = Signal(range(stride))
        left_after = Signal.like(self.i.p.count)
        place, left = Signal.like(place_after), Signal.like(left_after)
        chunk = Signal(range(min(burst, stride) + 1))
        to_end = Signal(range(stride + 1))
        m.d.comb += [
            place.eq(Mux(started, place_after, self.i.p.first)),
            left.eq(Mux(started, left_after, self.i.p.count)),
            to_end.eq(stride - place),
            chunk.eq(_least(left, to_end, min(burst, stride))),
        ]
        with m.If(step):
            m.d.sync += [
                started.eq(1),
                left_after.eq(left - chunk),
                place_after.eq(Mux(chunk == to_end, 0, place + chunk)),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += started.eq(0)
        return place, chunk, left


def _least(*values: Any) -> Any:
    least, *rest = values
    for value in rest:
        least = Mux(value < least, value, least)
    return least


class Channel(_Channel):
    """A channel whose writes need no reading: all in the order of the operations.

    Latency: 1 cycle to a request. Throughput: one request per cycle.
    """

    __doc__ += "\n".join((_Channel.__doc__ or "").splitlines()[1:])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = self.port.request
        free = Signal()
        step_read = Signal()
        step_write = Signal()
        place, chunk, left = self._next_read(m, step_read)

        written = Signal.like(self.i.p.writes)
        m.d.comb += [
            free.eq(~request.valid | request.ready),
            step_read.eq(self.i.valid & free & (left != 0)),
            step_write.eq(
                self.i.valid
                & free
                & (left == 0)
                & (written != self.i.p.writes)
                & self.i_write.valid
            ),
            self.i_write.ready.eq(step_write),
            self.i.ready.eq(
                free & ((left == 0) | (left == chunk)) & (written + step_write == self.i.p.writes)
            ),
        ]
        with m.If(step_write):
            m.d.sync += written.eq(written + 1)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += written.eq(0)
        with m.If(free):
            m.d.sync += [
                request.valid.eq(step_read | step_write),
                request.p.read.eq(step_read),
                request.p.read_line.eq(self._line(place)),
                request.p.count.eq(chunk),
                request.p.write.eq(step_write),
                request.p.write_line.eq(self._line(self.i.p.write_first + written)),
                request.p.run.eq(_least(self.i.p.writes, self.level.burst)),
                request.p.mask.eq(self.i_write.p.mask),
                request.p.data.eq(self.i_write.p.data),
            ]
        self._take_words(m)
        return m


class DuplexChannel(_Channel):
    """A channel of a memory with a port for reads and one for writes: both go on side by side.

    While the words of a run are read, the operations after it write, but for what is still to be
    read: a word of the run that comes later, unless it is the last one and other values of it are
    wanted. A run waits for the one before it.

    Latency: 1 cycle to a request. Throughput: one request per cycle, which may read a word and
    write one.
    """

    __doc__ += "\n".join((_Channel.__doc__ or "").splitlines()[1:])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = self.port.request
        stride = self.level.stride
        head = self.i.p
        free = Signal()
        m.d.comb += free.eq(~request.valid | request.ready)

        # The run that is being read: what is left of one, or one that waits, or that of the
        # operation at `i`. One may wait, so that the writes after it need not.
        run_layout = data.StructLayout(
            {name: head[name].shape() for name in ("slot", "first", "count", "wanted")}
        )
        rest: Any = Signal(run_layout)
        waiting: Any = Signal(run_layout)
        run: Any = Signal(run_layout)
        begins, begun = Signal(), Signal()
        step_read = Signal()
        after: Any = Signal(run_layout)
        asks = self.i.valid & ~begun & (head.count != 0)
        with m.If(rest.count != 0):
            m.d.comb += run.eq(rest)
        with m.Elif(waiting.count != 0):
            m.d.comb += run.eq(waiting)
            with m.If(free):
                m.d.sync += waiting.count.eq(0)
        with m.Elif(asks):
            m.d.comb += begins.eq(free)
            m.d.comb += [run[name].eq(head[name]) for name, _ in run_layout]
        with m.If(asks & (rest.count != 0) & (waiting.count == 0)):
            m.d.sync += [waiting[name].eq(head[name]) for name, _ in run_layout]
            m.d.sync += begun.eq(1)
        m.d.comb += [
            step_read.eq(free & (run.count != 0)),
            after.eq(run),
            after.first.eq(Mux(run.first == stride - 1, 0, run.first + 1)),
            after.count.eq(run.count - 1),
        ]
        with m.If(step_read):
            m.d.sync += rest.eq(after)

        written = Signal.like(head.writes)
        place = Signal(range(stride))
        step_write, all_begun = Signal(), Signal()

        def needs(run: Any, name: str) -> Any:
            """Whether the word to write is one that ``run`` is still to read as it is."""
            distance = Signal(range(stride), name=f"distance_{name}")
            m.d.comb += distance.eq(place - run.first + Mux(place < run.first, stride, 0))
            spared = (distance == run.count - 1) & ~(self.i_write.p.mask & run.wanted).any()
            return (run.slot == head.slot) & (distance < run.count) & ~spared

        conflict = (step_read & needs(after, "after")) | needs(waiting, "waiting")
        m.d.comb += [
            place.eq(head.write_first + written),
            all_begun.eq((head.count == 0) | begun | begins),
            step_write.eq(
                self.i.valid
                & free
                & all_begun
                & ~conflict
                & (written != head.writes)
                & self.i_write.valid
            ),
            self.i_write.ready.eq(step_write),
            self.i.ready.eq(free & all_begun & (written + step_write == head.writes)),
        ]
        with m.If(step_write):
            m.d.sync += written.eq(written + 1)
        with m.If(begins):
            m.d.sync += begun.eq(1)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [written.eq(0), begun.eq(0)]
        with m.If(free):
            m.d.sync += [
                request.valid.eq(step_read | step_write),
                request.p.read.eq(step_read),
                request.p.read_line.eq(self._line(run.first, run.slot)),
                request.p.count.eq(1),
                request.p.write.eq(step_write),
                request.p.write_line.eq(self._line(place)),
                request.p.run.eq(_least(head.writes, self.level.burst)),
                request.p.mask.eq(self.i_write.p.mask),
                request.p.data.eq(self.i_write.p.data),
            ]
        self._take_words(m)
        return m


class ModifyingChannel(_Channel):
    """A channel that writes less than the memory can: it reads a word, changes it, writes it back.

    Up to ``Level.pending`` words wait to be written back while operations of other keys go on; one
    of a key that has a word waiting waits too.

    Latency: 1 cycle to a request. Throughput: one request per cycle.
    """

    __doc__ += "\n".join((_Channel.__doc__ or "").splitlines()[1:])

    AHEAD = 32
    """Operations that should wait at a channel, so that it has enough to do."""

    LEAST_ANSWERS = 32
    """Words that may be on their way, where bursts do not need more: as long as a DRAM takes."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = self.port.request
        m.submodules.kinds = kinds = Queue(
            1 + Shape.cast(range(self.level.burst + 1)).width, depth=self.AHEAD
        )
        m.submodules.lines = lines = Queue(request.p.write_line.shape(), depth=self.level.pending)
        most = max(self.LEAST_ANSWERS, 2 * min(self.level.burst, self.level.stride))
        word = self.port.response.payload.shape()
        m.submodules.words = words = Queue(word, depth=most)
        m.submodules.olds = olds = Queue(word, depth=self.level.pending)
        free = Signal()
        step_read = Signal()
        step_first = Signal()  # reads the word that is to be changed
        put_back = Signal()
        place, chunk, left = self._next_read(m, step_read)
        clear = self._watch_keys(m, step_first, put_back)

        room = self._reserve(m, words, chunk, step_read) | (left == 0)
        go = Signal()
        m.d.comb += [
            free.eq(~request.valid | request.ready),
            go.eq(self.i.valid & clear & room & kinds.i.ready & lines.i.ready & free),
            step_read.eq(go & (left != 0) & ~self._excludes(put_back)),
            step_first.eq(go & (left == 0) & (self.i.p.writes != 0) & ~self._excludes(put_back)),
            self.i.ready.eq(
                step_first
                | ((self.i.p.writes == 0) & ((left == 0) | (step_read & (left == chunk))))
            ),
            kinds.i.valid.eq(step_read | step_first),
            kinds.i.payload.eq(Cat(step_first, Mux(step_first, 1, chunk))),
            lines.i.valid.eq(step_first),
            lines.i.payload.eq(self._line(self.i.p.write_first)),
            lines.o.ready.eq(put_back),
        ]
        self._sort_answers(m, kinds, words, olds)
        m.d.comb += [
            put_back.eq(olds.o.valid & self.i_write.valid & free),
            olds.o.ready.eq(put_back),
            self.i_write.ready.eq(put_back),
        ]
        with m.If(free):
            m.d.sync += [
                request.valid.eq(step_read | step_first | put_back),
                request.p.read.eq(step_read | step_first),
                request.p.read_line.eq(self._line(Mux(step_first, self.i.p.write_first, place))),
                request.p.count.eq(Mux(step_first, 1, chunk)),
                request.p.write.eq(put_back),
                request.p.write_line.eq(lines.o.payload),
                request.p.run.eq(1),
                request.p.mask.eq(~0),
                request.p.data.eq(self._change(olds.o.payload)),
            ]
        return m

    def _reserve(self, m: Module, queue: Queue, words: Any, asked: Any) -> Any:
        """Return whether there is room in ``queue`` for ``words`` more, with all on its way there.

        No word must ever wait in the memory: one behind it may have to be written back first, and a
        memory that is full of words takes no request.
        """
        under_way = Signal(range(queue.depth + 1))
        gone = queue.o.valid & queue.o.ready
        m.d.sync += under_way.eq(under_way + Mux(asked, words, 0) - gone)
        return under_way + words <= queue.depth

    def _excludes(self, put_back: Any) -> Any:
        """Whether a write leaves no room for a read in the same request."""
        return put_back & int(not self.level.duplex)

    def _change(self, old: Any) -> Any:
        width = self.queues.width
        values = [
            Mux(keep, self.i_write.p.data[k * width :][:width], old[k * width :][:width])
            for k, keep in enumerate(self.i_write.p.mask)
        ]
        return Cat(values)

    def _watch_keys(self, m: Module, enter: Any, leave: Any) -> Any:
        """Return whether no word of the operation's key waits to be written back."""
        slots = [Signal(self.queues.slot, name=f"slot_{k}") for k in range(self.level.pending)]
        waiting = Signal(self.level.pending)
        newest = Signal(range(self.level.pending))
        oldest = Signal(range(self.level.pending))
        for k, slot in enumerate(slots):
            with m.If(leave & (oldest == k)):
                m.d.sync += waiting[k].eq(0)
            with m.If(enter & (newest == k)):
                m.d.sync += [slot.eq(self.i.p.slot), waiting[k].eq(1)]
        m.d.sync += [newest.eq(newest + enter), oldest.eq(oldest + leave)]
        return ~Cat(
            here & (slot == self.i.p.slot) for here, slot in zip(waiting, slots, strict=True)
        ).any()

    def _sort_answers(self, m: Module, kinds: Queue, words: Queue, olds: Queue) -> None:
        """Tell words of runs, which are delivered, from words that are to be changed.

        A run may have to wait for another channel, and what is to be changed does not wait with it.
        """
        response = self.port.response
        is_old = kinds.o.payload[0]
        count = kinds.o.payload[1:]
        seen = Signal.like(count)
        last = Signal()
        m.d.comb += [
            last.eq(seen + 1 == count),
            words.i.valid.eq(response.valid & ~is_old),
            olds.i.valid.eq(response.valid & is_old),
            words.i.payload.eq(response.payload),
            olds.i.payload.eq(response.payload),
            response.ready.eq(1),  # there is room, and its kind is known
            kinds.o.ready.eq(response.valid & last),
            self.o.valid.eq(words.o.valid),
            self.o.payload.eq(words.o.payload),
            words.o.ready.eq(self.o.ready),
        ]
        with m.If(response.valid):
            m.d.sync += seen.eq(Mux(last, 0, seen + 1))
