"""The data collector: puts what the levels deliver of a window into the order of arrival."""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Queue
from .levels import Queues, window_layout

__all__ = ["Collector", "Packer", "count_layout", "order_layout", "part_of_window"]


def order_layout(queues: Queues, newest: bool = True) -> data.StructLayout:
    """What the collector must know of a window: the levels that it lies in, and its newest value.

    The levels are numbered from the oldest values to the newest, the last level first. Where no
    value is inserted by what reads, there is no ``newest``.
    """
    layout = {"levels": len(queues.levels), "count": queues.count}
    return data.StructLayout(layout | ({"newest": queues.width} if newest else {}))


def part_of_window(queues: Queues, newest: bool = True) -> data.StructLayout:
    """What the kernels get at once: values in the order of arrival, the newest in a lane above.

    ``count`` is how many values the whole window has.
    """
    return count_layout(queues.width, queues.lanes + newest, queues)


def count_layout(width: int, lanes: int, queues: Queues) -> data.StructLayout:
    """Such a part, of values of ``width`` bits."""
    layout = window_layout(width, lanes)
    return data.StructLayout({**{name: f.shape for name, f in layout}, "count": queues.count})


class Packer(wiring.Component):
    """Put narrow words side by side, until there is a full one or the level has no more.

    Latency: 1 cycle. Throughput: one input per cycle.

    Parameters
    ----------
    width : int
        Bits of a value.
    lanes, wide : int
        Values of a word before and after; ``wide`` is a multiple.

    Members
    -------
    i : In(stream.Signature(window_layout(width, lanes)))
    o : Out(stream.Signature(window_layout(width, wide)))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, width: int, *, lanes: int, wide: int) -> None:
        if wide % lanes:
            raise ValueError(f"{wide} lanes take no whole words of {lanes}")
        self.lanes = lanes
        self.wide = wide
        super().__init__(
            {
                "i": In(stream.Signature(window_layout(width, lanes))),
                "o": Out(stream.Signature(window_layout(width, wide))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parts = self.wide // self.lanes
        part = Signal(range(parts))
        free = Signal()
        complete = Signal()
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(free),
            complete.eq(self.i.p.last | (part == parts - 1)),
        ]
        with m.If(free):
            m.d.sync += self.o.valid.eq(self.i.valid & complete)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += part.eq(Mux(complete, 0, part + 1))
            m.d.sync += self.o.p.last.eq(self.i.p.last)
            with m.If(part == 0):
                m.d.sync += self.o.p.mask.eq(self.i.p.mask)
            for k in range(parts):
                with m.If(part == k):
                    lanes = range(k * self.lanes, (k + 1) * self.lanes)
                    for lane, value in zip(lanes, self.i.p.values, strict=True):
                        m.d.sync += self.o.p.values[lane].eq(value)
                    m.d.sync += self.o.p.mask[lanes.start : lanes.stop].eq(self.i.p.mask)
        return m


class Collector(wiring.Component):
    """Join the parts of each window: the last level first, the newest value at the end.

    Latency: 2 cycles. Throughput: one part per cycle; every level is read at the same time, and
    waits only where another is slower.

    Parameters
    ----------
    queues : Queues
    newest : bool
        A window has a newest value besides those of the levels.

    Members
    -------
    i_order : In(stream.Signature(order_layout(queues, newest)))
        Once for each window; without a newest value it lies in one level at least.
    i : In(stream.Signature(queues.window(level))), one for each level, as ``i_<level>``
    o : Out(stream.Signature(part_of_window(queues, newest)))
    """

    i_order: stream.Interface
    o: stream.Interface

    def __init__(self, queues: Queues, *, newest: bool = True) -> None:
        self.queues = queues
        self.newest = newest
        super().__init__(
            {
                "i_order": In(stream.Signature(order_layout(queues, newest))),
                **{
                    f"i_{level}": In(stream.Signature(queues.window(level)))
                    for level in range(len(queues.levels))
                },
                "o": Out(stream.Signature(part_of_window(queues, newest))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.queues.lanes
        last = len(self.queues.levels) - 1
        packed: list[stream.Interface] = []
        for level in reversed(range(len(self.queues.levels))):
            word = self.queues.levels[level].word
            packer = Packer(self.queues.width, lanes=word, wide=lanes)
            m.submodules[f"packer_{level}"] = packer
            wiring.connect(m, wiring.flipped(getattr(self, f"i_{level}")), packer.i)
            if level == last:
                packed.append(packer.o)
                continue
            # All of a window, so that it is packed while words of slower levels are delivered.
            depth = max(2, self.queues.levels[level].values // lanes)
            m.submodules[f"packed_{level}"] = queue = Queue(packer.o.payload.shape(), depth=depth)
            wiring.connect(m, packer.o, queue.i)
            packed.append(queue.o)
        self._deliver(m, packed)
        return m

    def _deliver(self, m: Module, packed: Sequence[stream.Interface]) -> None:
        order = self.i_order.p
        m.submodules.queue = queue = Queue(self.o.payload.shape(), depth=2)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        gone = Signal(len(packed))  # levels of which all has been sent
        left = Signal(len(packed))
        turn = Signal(len(packed))
        source = Signal(range(len(packed)))
        last = Signal()
        final = Signal()
        moved = Signal()
        out = queue.i
        chosen = Array(each.payload for each in packed)[source]
        m.d.comb += [
            left.eq(order.levels & ~gone),
            turn.eq(left & -left),
            last.eq(chosen.last),
            final.eq((left == 0) | (last & (left == turn))),
            out.valid.eq(
                self.i_order.valid & ((left == 0) | Array(each.valid for each in packed)[source])
            ),
            moved.eq(out.valid & out.ready),
            self.i_order.ready.eq(moved & final),
            out.p.last.eq(final),
            out.p.count.eq(order.count),
            out.p.mask.eq(Cat(chosen.mask & (left != 0).replicate(self.queues.lanes), final)),
        ]
        if self.newest:
            m.d.comb += out.p.values[-1].eq(order.newest)
        for lane in range(self.queues.lanes):
            m.d.comb += out.p.values[lane].eq(chosen.values[lane])
        for k, each in enumerate(packed):
            with m.If(turn[k]):
                m.d.comb += source.eq(k)
            m.d.comb += each.ready.eq(turn[k] & moved)
        with m.If(moved):
            m.d.sync += gone.eq(Mux(final, 0, Mux(last, gone | turn, gone)))
