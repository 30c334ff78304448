"""The levels, and what is around them: from the steps of a key table to the values of windows."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Queue
from .collector import Collector, part_of_window
from .commands import CommandGenerator, eviction_layout, tag_layout
from .keys import KeyTable, check_table
from .level import MemoryLevel
from .levels import Queues

__all__ = ["Storage", "check_storage"]


def check_storage(queues: Queues, key_width: int, ways: int, depth: int) -> None:
    """Raise ``ValueError`` unless there can be such a key table, and queues so deep behind it."""
    check_table(queues, key_width, ways)
    if not isinstance(depth, int) or depth < 2:
        raise ValueError(f"Queue depth must be an integer of at least 2, not {depth!r}")


class Storage(wiring.Component):
    """Carry out what a key table decides, and deliver what it reads.

    Throughput: one step per cycle, as far as the memories keep up.

    Parameters
    ----------
    table : KeyTable
        Where the steps come from.
    depth : int
        Operations that wait at each level, and windows at the collector.

    Members
    -------
    i : In(stream.Signature(table.step))
    o, o_tag, o_evicted, ports_<k>
        As of ``MultiLevelQueue``.
    """

    i: stream.Interface
    o: stream.Interface
    o_tag: stream.Interface
    o_evicted: stream.Interface

    def __init__(self, table: KeyTable, *, depth: int = 16) -> None:
        queues = table.queues
        self.table = table
        self.depth = depth
        self.levels = [MemoryLevel(queues, level=k, depth=depth) for k in range(len(queues.levels))]
        super().__init__(
            {
                "i": In(stream.Signature(table.step)),
                "o": Out(stream.Signature(part_of_window(queues, table.READS_NEWEST))),
                "o_tag": Out(stream.Signature(tag_layout(queues, table.key_width))),
                "o_evicted": Out(stream.Signature(eviction_layout(queues, table.key_width))),
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
        newest = self.table.READS_NEWEST
        m.submodules.commands = commands = CommandGenerator(self.table)
        m.submodules.collector = collector = Collector(self.table.queues, newest=newest)
        wiring.connect(m, wiring.flipped(self.i), commands.i)

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
