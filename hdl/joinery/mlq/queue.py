"""Multi-level queues: tuples in, the windows of their keys out, value by value, in order."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Buffer, Queue
from .collector import Collector, part_of_window
from .commands import CommandGenerator, eviction_layout, tag_layout
from .keys import KeyTable, check_table
from .level import MemoryLevel
from .levels import Queues

__all__ = ["MultiLevelQueue"]


class MultiLevelQueue(wiring.Component):
    """Keep a window for every key, over all memory levels, and deliver it whenever it is complete.

    A key's window is complete when it has ``rows`` values for the first time, and then after every
    ``slide`` more. Section III of the paper: key table, command generator, levels, collector.

    Throughput: one tuple per cycle, of any keys, as far as the memories keep up.

    Parameters
    ----------
    queues : Queues
    key_width : int
        Bits of a key.
    ways : int
        Hash functions of the key table.
    depth : int
        Operations that wait at each level, and windows at the collector.

    Members
    -------
    i : In(stream.Signature(tuple_layout(key_width, width)))
        After ``end`` nothing is taken until the key table is clear again.
    o : Out(stream.Signature(part_of_window(queues)))
        The windows, part by part.
    o_tag : Out(stream.Signature(tag_layout(queues, key_width)))
        The key of each window, and the end after the last.
    o_evicted : Out(stream.Signature(eviction_layout(queues, key_width)))
        Keys that lost their place while they had values.
    rows, slide : In(queues.count)
        WS and WA. They may be changed while no tuple has come since reset or the end.
    ports_<k> : Out(MemoryPort).array(channels)
        The memories of each level.
    """

    i: stream.Interface
    o: stream.Interface
    o_tag: stream.Interface
    o_evicted: stream.Interface
    rows: Signal
    slide: Signal

    def __init__(self, queues: Queues, *, key_width: int, ways: int = 4, depth: int = 16) -> None:
        if not isinstance(depth, int) or depth < 2:
            raise ValueError(f"Queue depth must be an integer of at least 2, not {depth!r}")
        check_table(queues, key_width, ways)
        self.queues = queues
        self.depth = depth
        self.key_width = key_width
        self.table = KeyTable(queues, key_width=key_width, ways=ways)
        self.levels = [MemoryLevel(queues, level=k, depth=depth) for k in range(len(queues.levels))]
        super().__init__(
            {
                "i": In(stream.Signature(self.table.tuple)),
                "o": Out(stream.Signature(part_of_window(queues))),
                "o_tag": Out(stream.Signature(tag_layout(queues, key_width))),
                "o_evicted": Out(stream.Signature(eviction_layout(queues, key_width))),
                "rows": In(queues.count, init=queues.rows),  # type: ignore[call-arg] # the stubs know it as reset
                "slide": In(queues.count, init=queues.rows),  # type: ignore[call-arg]
                **{
                    f"ports_{k}": Out(level.signature.members["ports"].signature).array(
                        level.shape.channels
                    )
                    for k, level in enumerate(self.levels)
                },
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.table = table = self.table
        m.submodules.steps = steps = Buffer(table.step)
        m.submodules.commands = commands = CommandGenerator(table)
        m.submodules.collector = collector = Collector(self.queues)
        wiring.connect(m, wiring.flipped(self.i), table.i)
        wiring.connect(m, table.o, steps.i)
        wiring.connect(m, steps.o, commands.i)
        m.d.comb += [table.rows.eq(self.rows), table.slide.eq(self.slide)]

        def queue(source: Any, target: Any, name: str, depth: int) -> None:
            m.submodules[name] = between = Queue(source.payload.shape(), depth=depth)
            wiring.connect(m, source, between.i)
            wiring.connect(m, between.o, target)

        blocks = commands.o_value
        for k, level in enumerate(self.levels):
            m.submodules[f"level_{k}"] = level
            queue(getattr(commands, f"o_level_{k}"), level.i, f"operations_{k}", self.depth)
            if k == 0:
                queue(blocks, level.i_block, "values", 2 * self.depth)
            else:
                wiring.connect(m, self.levels[k - 1].o_block, level.i_block)
            wiring.connect(m, level.o_window, getattr(collector, f"i_{k}"))
            for port, outer in zip(level.ports, getattr(self, f"ports_{k}"), strict=True):
                wiring.connect(m, port, wiring.flipped(outer))
        queue(commands.o_order, collector.i_order, "orders", 2 * self.depth)
        queue(commands.o_tag, wiring.flipped(self.o_tag), "tags", 4 * self.depth)
        queue(commands.o_evicted, wiring.flipped(self.o_evicted), "evicted", 2)
        wiring.connect(m, collector.o, wiring.flipped(self.o))
        return m
