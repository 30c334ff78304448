"""One memory level: carries out what tuples ask of it, in their order."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Fork, Queue
from .channel import Channel, DuplexChannel, ModifyingChannel, channel_operation, word_write
from .levels import Queues
from .ports import MemoryPort

__all__ = ["Gatherer", "MemoryLevel", "Placer"]


class Placer(wiring.Component):
    """Cut the blocks that enter a level into its words, and send each to its channel.

    Latency: 1 cycle from the last value of a word. Throughput: one input or one word per cycle.

    Parameters
    ----------
    queues : Queues
    level : int

    Members
    -------
    i : In(stream.Signature(word of the level before))
    i_place : In(stream.Signature(place))
        Once for each block: the first channel, and where in a word the block begins.
    o : Out(stream.Signature(word_write(queues, level))).array(channels)
    """

    i: stream.Interface
    i_place: stream.Interface
    o: Sequence[stream.Interface]

    def __init__(self, queues: Queues, *, level: int) -> None:
        self.queues = queues
        self.shape = queues.levels[level]
        self.part = queues.width_in(level)
        self.block = queues.block(level)
        self.place_layout = data.StructLayout(
            {"channel": range(self.shape.channels), "offset": range(self.shape.word)}
        )
        incoming = data.ArrayLayout(queues.width, self.part)
        super().__init__(
            {
                "i": In(stream.Signature(incoming)),
                "i_place": In(stream.Signature(self.place_layout)),
                "o": Out(stream.Signature(word_write(queues, level))).array(self.shape.channels),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        filled = min(self.block, self.shape.word)  # values of a word that one block fills
        parts = filled // self.part
        words = self.block // filled
        part = Signal(range(parts + 1))
        word = Signal(range(words))
        gathered = Signal(filled * self.queues.width)
        sent = Signal()
        full = Signal()
        m.d.comb += [full.eq(part == parts), self.i.ready.eq(~full | sent)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += gathered.eq(Cat(gathered, self.i.payload)[-len(gathered) :])
            m.d.sync += part.eq(Mux(sent, 1, part + 1))
        with m.Elif(sent):
            m.d.sync += part.eq(0)

        channel = (self.i_place.p.channel + word) % self.shape.channels
        mask = Const((1 << filled) - 1, self.shape.word) << self.i_place.p.offset
        ready = []
        for k, o in enumerate(self.o):
            here = channel == k
            m.d.comb += [
                o.valid.eq(full & self.i_place.valid & here),
                o.p.mask.eq(mask),
                o.p.data.eq(gathered.replicate(self.shape.word // filled)),
            ]
            ready.append(here & o.ready)
        last = word == words - 1
        m.d.comb += [
            sent.eq(full & self.i_place.valid & Cat(ready).any()),
            self.i_place.ready.eq(sent & last),
        ]
        with m.If(sent):
            m.d.sync += word.eq(Mux(last, 0, word + 1))
        return m


class Gatherer(wiring.Component):
    """Bring the words of all channels back into order, and send them where they are wanted.

    Latency: 0 cycles. Throughput: one word per cycle.

    Parameters
    ----------
    queues : Queues
    level : int

    Members
    -------
    i : In(stream.Signature(word)).array(channels)
    i_run : In(stream.Signature(run))
        Once for each run: its words, the channel of the first, and who wants what of them.
    o_window : Out(stream.Signature(queues.window(level)))
    o_block : Out(stream.Signature(queues.word(level)))
        Only on levels that have a next one.
    """

    i: Sequence[stream.Interface]
    i_run: stream.Interface
    o_window: stream.Interface
    o_block: stream.Interface

    def __init__(self, queues: Queues, *, level: int) -> None:
        self.queues = queues
        self.shape = queues.levels[level]
        self.has_next = level < len(queues.levels) - 1
        operation = queues.operation(level)
        names = ("aggregate", "flush", "words", "skip", "until")
        self.run_layout = data.StructLayout(
            {"channel": range(self.shape.channels)}
            | {name: operation[name].shape for name in names}
        )
        word = queues.word(level)
        super().__init__(
            {
                "i": In(stream.Signature(word)).array(self.shape.channels),
                "i_run": In(stream.Signature(self.run_layout)),
                "o_window": Out(stream.Signature(queues.window(level))),
                **({"o_block": Out(stream.Signature(word))} if self.has_next else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        run = self.i_run.p
        word = Signal.like(run.words)
        last = Signal()
        found = Signal()
        payload = Signal(self.i[0].payload.shape())
        channel = (run.channel + word) % self.shape.channels
        outputs = [(self.o_window, run.aggregate)]
        if self.has_next:
            outputs.append((self.o_block, run.flush))
        served = Signal(len(outputs))
        done = Signal(len(outputs))
        taken = Signal()

        m.d.comb += [
            last.eq(word + 1 == run.words),
            payload.eq(Array(i.payload for i in self.i)[channel]),
            found.eq(self.i_run.valid & Array(i.valid for i in self.i)[channel]),
            taken.eq(found & done.all()),
            self.i_run.ready.eq(taken & last),
            self.o_window.p.last.eq(last),
            self.o_window.p.values.eq(payload),
        ]
        for k, i in enumerate(self.i):
            m.d.comb += i.ready.eq(taken & (channel == k))
        for k, (o, wanted) in enumerate(outputs):
            m.d.comb += o.valid.eq(found & wanted & ~served[k])
            m.d.comb += done[k].eq(~wanted | served[k] | o.ready)
        if self.has_next:
            m.d.comb += self.o_block.payload.eq(payload)
        for lane in range(self.shape.word):
            index = word * self.shape.word + lane
            m.d.comb += self.o_window.p.mask[lane].eq((index >= run.skip) & (index < run.until))
        with m.If(found):
            m.d.sync += served.eq(Mux(taken, 0, done))
        with m.If(taken):
            m.d.sync += word.eq(Mux(last, 0, word + 1))
        return m


class MemoryLevel(wiring.Component):
    """One level: for each operation it reads a run of words, and then writes a block.

    Throughput: one operation per cycle, where the memory takes a request per cycle and no operation
    needs more than one.

    Parameters
    ----------
    queues : Queues
    level : int
        Its number, from 0.
    depth : int
        Operations that wait, and words of a run.

    Members
    -------
    i : In(stream.Signature(queues.operation(level)))
    i_block : In(stream.Signature(word of the level before))
        The blocks to write, part by part, in the order of the operations.
    o_block : Out(stream.Signature(queues.word(level)))
        Blocks for the next level, if there is one.
    o_window : Out(stream.Signature(queues.window(level)))
        What the kernels are to have.
    ports : Out(MemoryPort).array(channels)
    """

    i: stream.Interface
    i_block: stream.Interface
    o_block: stream.Interface
    o_window: stream.Interface
    ports: Any

    def __init__(self, queues: Queues, *, level: int, depth: int = 16) -> None:
        self.queues = queues
        self.level = level
        self.depth = depth
        self.shape = queues.levels[level]
        port = MemoryPort(
            lines=queues.slots * self.shape.stride,
            word=self.shape.word,
            width=queues.width,
            burst=self.shape.burst,
        )
        incoming = data.ArrayLayout(queues.width, queues.width_in(level))
        members = {
            "i": In(stream.Signature(queues.operation(level))),
            "i_block": In(stream.Signature(incoming)),
            "o_window": Out(stream.Signature(queues.window(level))),
            "ports": Out(port).array(self.shape.channels),
        }
        if level < len(queues.levels) - 1:
            members["o_block"] = Out(stream.Signature(queues.word(level)))
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        queues, level, channels = self.queues, self.level, self.shape.channels
        m.submodules.gatherer = gatherer = Gatherer(queues, level=level)
        m.submodules.placer = placer = Placer(queues, level=level)
        m.submodules.fork = fork = Fork(queues.operation(level), outputs=channels + 2)
        wiring.connect(m, wiring.flipped(self.i), fork.i)

        def queue(source: Any, target: Any, name: str, depth: int = self.depth) -> None:
            m.submodules[name] = between = Queue(source.payload.shape(), depth=depth)
            wiring.connect(m, source, between.i)
            wiring.connect(m, between.o, target)

        def send(number: int, wanted: Any, target: Any) -> Any:
            """Offer an operation to ``target`` if it concerns it; return the operation."""
            o = fork.o[number]
            m.d.comb += [target.valid.eq(o.valid & wanted), o.ready.eq(target.ready | ~wanted)]
            return o.p

        # Channels that write back are busy by turns: each must have enough to do meanwhile.
        modifies = queues.reads_first(level)
        # Where a request is a burst, it is the memory that overlaps nothing.
        side_by_side = self.shape.duplex and self.shape.burst == 1
        plain = DuplexChannel if side_by_side else Channel
        kind = ModifyingChannel if modifies else plain
        ahead = max(self.depth, ModifyingChannel.AHEAD) if modifies else self.depth
        for k in range(channels):
            m.submodules[f"channel_{k}"] = channel = kind(queues, level=level)
            m.submodules[f"operations_{k}"] = waiting = Queue(
                channel_operation(queues, level), depth=ahead
            )
            wiring.connect(m, waiting.o, channel.i)
            queue(placer.o[k], channel.i_write, f"writes_{k}", ahead if modifies else 4)
            wiring.connect(m, channel.o, gatherer.i[k])
            wiring.connect(m, channel.port, wiring.flipped(self.ports[k]))
            operation = fork.o[k].p
            m.d.comb += self._share(k, operation, waiting.i.p)
            send(k, (waiting.i.p.count != 0) | (waiting.i.p.writes != 0), waiting.i)

        m.submodules.runs = runs = Queue(gatherer.run_layout, depth=2 * self.depth)
        operation = send(channels, fork.o[channels].p.words != 0, runs.i)
        m.d.comb += runs.i.p.channel.eq((operation.first + operation.slot) % channels)
        for name in ("aggregate", "flush", "words", "skip", "until"):
            m.d.comb += runs.i.p[name].eq(operation[name])
        wiring.connect(m, runs.o, gatherer.i_run)

        m.submodules.places = places = Queue(placer.place_layout, depth=2 * self.depth)
        operation = send(channels + 1, fork.o[channels + 1].p.write, places.i)
        word = operation.position // self.shape.word
        m.d.comb += places.i.p.channel.eq((word + operation.slot) % channels)
        m.d.comb += places.i.p.offset.eq(operation.position % self.shape.word)
        wiring.connect(m, places.o, placer.i_place)

        wiring.connect(m, wiring.flipped(self.i_block), placer.i)
        queue(gatherer.o_window, wiring.flipped(self.o_window), "windows", self._window_depth())
        if level < len(queues.levels) - 1:
            queue(gatherer.o_block, wiring.flipped(self.o_block), "blocks", self._window_depth())
        return m

    def _window_depth(self) -> int:
        """Room for the words of two windows, so that this level need not wait for the others."""
        return min(64, max(self.depth, 2 * (self.shape.words + 1)))

    def _share(self, channel: int, operation: Any, share: Any) -> list[Any]:
        """What of an operation falls to one channel; words of a key go round the channels."""
        shape, queues = self.shape, self.queues
        channels = shape.channels

        def part(first: Any, words: Any) -> tuple[Any, Any]:
            ahead = (channel - first - operation.slot) % channels  # words before the first of ours
            count = Mux(words > ahead, (words - ahead + channels - 1) // channels, 0)
            line = (first + ahead) // channels
            return Mux(line >= shape.stride, line - shape.stride, line), count

        # What is wanted of the run's last word, where that is ours.
        last = (operation.first + operation.words - 1 + operation.slot) % channels
        ours = ~operation.flush & (last == channel)
        until = operation.until - (operation.words - 1) * shape.word
        wanted = Cat(~ours | (lane < until) for lane in range(shape.word))

        block_words = max(1, queues.block(self.level) // shape.word)
        first, count = part(operation.first, operation.words)
        write_first, writes = part(operation.position // shape.word, Const(block_words))
        return [
            share.slot.eq(operation.slot),
            share.first.eq(first),
            share.count.eq(count),
            share.wanted.eq(wanted),
            share.write_first.eq(write_first),
            share.writes.eq(Mux(operation.write, writes, 0)),
        ]
