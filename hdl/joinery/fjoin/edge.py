"""The edge of a pipeline: from bitmaps of matches to pairs of ids, each pair once."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..stream import Buffer, Queue
from ..stream._check import require_positive
from .shape import PipelineShape

__all__ = ["Lane", "Outlet", "Picker"]


def marked_layout(shape: ShapeLike, marks: int) -> data.StructLayout:
    """A word with marks, as a ``Picker`` takes it."""
    return data.StructLayout({"marks": marks, "single": 1, "rest": shape})


class Picker(wiring.Component):
    """Send the marks of each word one after the other, the lowest first.

    Latency: 1 cycle. Throughput: one mark per cycle. A word without marks is sent once, with
    index 0. The output depends on registers alone; ``i.ready`` on them and on ``o.ready``.

    Parameters
    ----------
    shape : ShapeLike
        What comes with the marks.
    marks : int

    Members
    -------
    i : In(stream.Signature({"marks": marks, "single": 1, "rest": shape}))
        ``single``: there is at most one mark; told with the word, as it takes time to find out.
    o : Out(stream.Signature({"index": range(marks), "rest": shape}))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: ShapeLike, *, marks: int) -> None:
        require_positive("Picker marks", marks)
        self.shape = shape
        self.marks = marks
        super().__init__(
            {
                "i": In(stream.Signature(marked_layout(shape, marks))),
                "o": Out(
                    stream.Signature(data.StructLayout({"index": range(marks), "rest": shape}))
                ),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(self.marks, reset_less=True)
        rest: Any = Signal(self.shape, reset_less=True)
        last = Signal()  # from a register, as it goes to all the bits of the next word
        found = _survey(list(left))
        m.d.comb += [
            self.o.payload.rest.eq(rest),
            self.o.payload.index.eq(Mux(found.some, Cat(found.lowest), 0)),
            self.i.ready.eq(~self.o.valid | (self.o.ready & last)),
        ]
        with m.If(self.i.ready):
            m.d.sync += [
                self.o.valid.eq(self.i.valid),
                left.eq(self.i.payload.marks),
                rest.eq(self.i.payload.rest),
                last.eq(self.i.payload.single),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += [
                left.eq(Cat(left[k] & left[:k].any() for k in range(self.marks))),
                last.eq(~found.three),
            ]
        return m


class _Found(NamedTuple):
    """Whether there are one, two, three marks at least, and the bits of the lowest one's index."""

    some: Value
    two: Value
    three: Value
    lowest: list[Value]


def _survey(marks: list[Value]) -> _Found:
    """Look for marks in a tree of halves, which is a few look-up tables deep where a carry chain
    would be all ``marks``."""
    if len(marks) == 1:
        return _Found(marks[0], Const(0), Const(0), [])
    half = 1 << (len(marks) - 1).bit_length() - 1
    near, far = _survey(marks[:half]), _survey(marks[half:])
    others = far.lowest + [Const(0)] * (len(near.lowest) - len(far.lowest))
    bits = [Mux(near.some, *pair) for pair in zip(near.lowest, others, strict=True)]
    return _Found(
        near.some | far.some,
        near.two | far.two | (near.some & far.some),
        near.three | far.three | (near.two & far.some) | (near.some & far.two),
        [*bits, ~near.some],
    )


class Lane(wiring.Component):
    """Turn the matches of some clusters into pairs of ids.

    Latency: 10 cycles (11 where the queue is in block RAM). Throughput: one pair per cycle. What
    comes in cannot be refused: ``room`` says that ``reserve`` cycles with matches may still come.

    A pair leaves if the window tuple came before the stream tuple and their times are
    ``time_range`` apart at most. Ids and times wrap: what is less than half their space ahead is
    later.

    Parameters
    ----------
    shape : PipelineShape
    depth : int
        Places in the queue, each for the matches of one window tuple.
    reserve : int

    Members
    -------
    valid : In(1)
    tag : In(shape.tag)
    hits : In(shape.slots).array(shape.segments), marks : In(shape.segments)
        The matches of the window tuple that ``tag`` names, and which segments have some; none of
        them with the end.
    some : In(1)
        There is a match: any of ``marks``.
    room : Out(1)
    store : In(shape.store)
        A stream tuple of this lane; ``cluster`` counts this lane's clusters only.
    time_range : In(shape.time_bits - 1)
    o : Out(stream.Signature({"end": 1, "match": shape.match}))
    wrong_order, out_of_range : Out(1)
        A pair was left out in the last cycle, because the window tuple came later, or else for
        their times.
    """

    valid: Signal
    tag: Any
    hits: Any
    marks: Signal
    some: Signal
    room: Signal
    store: Any
    time_range: Signal
    o: stream.Interface
    wrong_order: Signal
    out_of_range: Signal

    def __init__(self, shape: PipelineShape, *, depth: int, reserve: int) -> None:
        self.shape = shape
        self.depth = depth
        self.reserve = reserve
        super().__init__(
            {
                "valid": In(1),
                "tag": In(shape.tag),
                "hits": In(shape.slots).array(shape.segments),
                "marks": In(shape.segments),
                "some": In(1),
                "room": Out(1),
                "store": In(shape.store),
                "time_range": In(shape.time_bits - 1),
                "o": Out(stream.Signature(data.StructLayout({"end": 1, "match": shape.match}))),
                "wrong_order": Out(1),
                "out_of_range": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.shape
        bitmaps = data.StructLayout(
            {"tag": shape.tag, "hits": data.ArrayLayout(shape.slots, shape.segments)}
        )
        segment = data.StructLayout({"tag": shape.tag, "segment": range(shape.segments)})
        m.submodules.segments = segments = Picker(bitmaps, marks=shape.segments)
        m.submodules.queue = queue = Queue(segments.i.payload.shape(), depth=self.depth)
        m.submodules.slots = slots = Picker(segment, marks=shape.slots)
        found = data.StructLayout({"marks": shape.slots, "rest": segment})
        m.submodules.between = between = Buffer(found)

        # The choice of a segment waits in a register until its bits have been fetched.
        chosen: Any = Signal(segments.o.payload.shape(), reset_less=True)
        fetches = Signal()
        arrived = queue.i.payload
        m.d.comb += [
            arrived.marks.eq(self.marks),
            arrived.single.eq(~_survey(list(self.marks)).two),
            arrived.rest.tag.eq(self.tag),
            Value.cast(arrived.rest.hits).eq(Cat(self.hits)),
            queue.i.valid.eq(self.valid & (self.tag.end | self.some)),
            segments.o.ready.eq(~fetches | between.i.ready),
            between.i.valid.eq(fetches),
            between.i.payload.marks.eq(chosen.rest.hits[chosen.index]),
            between.i.payload.rest.tag.eq(chosen.rest.tag),
            between.i.payload.rest.segment.eq(chosen.index),
        ]
        with m.If(segments.o.ready):
            m.d.sync += [fetches.eq(segments.o.valid), chosen.eq(segments.o.payload)]
        m.d.sync += self.room.eq(queue.level + self.reserve <= self.depth)
        wiring.connect(m, queue.o, segments.i)
        m.d.comb += [
            slots.i.valid.eq(between.o.valid),
            between.o.ready.eq(slots.i.ready),
            slots.i.payload.marks.eq(between.o.payload.marks),
            slots.i.payload.single.eq(~_survey(list(between.o.payload.marks)).two),
            slots.i.payload.rest.eq(between.o.payload.rest),
        ]
        self._check(m, slots)
        return m

    def _check(self, m: Module, slots: Picker) -> None:
        """Look up the stream tuple of each match, and let the match leave if it is wanted."""
        shape, store = self.shape, self.store
        kept = data.StructLayout({"id": shape.id_bits, "time": shape.time_bits})
        i: Any = Signal(slots.o.payload.shape(), reset_less=True)
        slot_bits, segment_bits = len(i.index), len(i.rest.segment)
        banks = 1 << len(store.bank)
        rows = banks << (slot_bits + segment_bits)
        batches: Memory = Memory(shape=kept, depth=rows, init=[])
        m.submodules.batches = batches
        write, read = batches.write_port(), batches.read_port()
        move = Signal()  # every stage goes on, or none
        m.d.comb += [
            write.en.eq(store.valid),
            write.addr.eq(Cat(store.slot, store.cluster[:segment_bits], store.bank)),
            write.data.id.eq(store.id),
            write.data.time.eq(store.time),
            read.addr.eq(Cat(i.index, i.rest.segment, i.rest.tag.bank)),
            read.en.eq(move),
            slots.o.ready.eq(move),
        ]

        # The address comes from a register, and what is read stays in one for a cycle, as block RAM
        # is slow.
        asked, looked_up, held, compared, offered = (Signal() for _ in range(5))
        tag_read: Any = Signal(shape.tag, reset_less=True)
        tag: Any = Signal(shape.tag, reset_less=True)
        known: Any = Signal(kept, reset_less=True)
        ids: Any = Signal(shape.match, reset_less=True)
        ends, passes = Signal(), Signal()
        order = Signal(shape.id_bits, reset_less=True)
        apart = Signal(signed(shape.time_bits), reset_less=True)
        before, near = Signal(), Signal()
        with m.If(move):
            m.d.sync += [
                asked.eq(slots.o.valid), i.eq(slots.o.payload),
                looked_up.eq(asked), tag_read.eq(i.rest.tag),
                held.eq(looked_up), tag.eq(tag_read), known.eq(read.data),
                compared.eq(held), ends.eq(tag.end), order.eq(known.id - tag.id),
                apart.eq(known.time - tag.time),
                ids.stream.eq(known.id), ids.window.eq(tag.id),
                offered.eq(compared & passes),
                self.o.payload.end.eq(ends), self.o.payload.match.eq(ids),
            ]  # fmt: skip
        m.d.comb += [
            move.eq(~offered | self.o.ready),
            before.eq((order != 0) & ~order[-1]),
            near.eq((apart <= self.time_range) & (apart + self.time_range >= 0)),
            passes.eq(ends | (before & near)),
            self.o.valid.eq(offered),
        ]
        left_out = move & compared & ~ends
        m.d.sync += [
            self.wrong_order.eq(left_out & ~before),
            self.out_of_range.eq(left_out & before & ~near),
        ]


class Outlet(wiring.Component):
    """Bring the lanes together, and the ends of all lanes to one.

    Latency: 1 cycle. Throughput: a match per cycle and lane.

    Parameters
    ----------
    shape : PipelineShape

    Members
    -------
    i : In(stream.Signature({"end": 1, "match": shape.match})).array(shape.lanes)
    o : Out(stream.Signature(shape.result))
        A transfer that is not the end has at least one match.
    """

    i: Any
    o: stream.Interface

    def __init__(self, shape: PipelineShape) -> None:
        self.shape = shape
        lane = data.StructLayout({"end": 1, "match": shape.match})
        super().__init__(
            {
                "i": In(stream.Signature(lane)).array(shape.lanes),
                "o": Out(stream.Signature(shape.result)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.buffer = buffer = Buffer(self.shape.result)
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        i, out = buffer.i, buffer.i.payload
        all_end = Signal()
        matches = Signal(self.shape.lanes)
        m.d.comb += [
            matches.eq(Cat(lane.valid & ~lane.payload.end for lane in self.i)),
            all_end.eq(Cat(lane.valid & lane.payload.end for lane in self.i).all()),
            i.valid.eq(matches.any() | all_end),
            out.end.eq(all_end),
        ]
        for k, lane in enumerate(self.i):
            m.d.comb += [
                lane.ready.eq(i.ready & (~lane.payload.end | all_end)),
                out.lanes[k].valid.eq(matches[k]),
                out.lanes[k].match.eq(lane.payload.match),
            ]
        return m
