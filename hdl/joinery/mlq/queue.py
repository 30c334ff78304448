"""Multi-level queues: tuples in, the windows of their keys out, value by value, in order."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from ..stream import Buffer
from .keys import KeyTable
from .levels import Queues
from .ports import pass_on
from .storage import Storage, check_storage

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
        check_storage(queues, key_width, ways, depth)
        self.queues = queues
        self.key_width = key_width
        self.table = KeyTable(queues, key_width=key_width, ways=ways)
        self.storage = Storage(self.table, depth=depth)
        outputs = self.storage.signature.members
        super().__init__(
            {
                "i": In(stream.Signature(self.table.tuple)),
                "rows": In(queues.count, init=queues.rows),  # type: ignore[call-arg] # the stubs know it as reset
                "slide": In(queues.count, init=queues.rows),  # type: ignore[call-arg]
                **{name: outputs[name] for name in outputs if name != "i"},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.table = table = self.table
        m.submodules.steps = steps = Buffer(table.step)
        m.submodules.storage = storage = self.storage
        wiring.connect(m, wiring.flipped(self.i), table.i)
        wiring.connect(m, table.o, steps.i)
        wiring.connect(m, steps.o, storage.i)
        m.d.comb += [table.rows.eq(self.rows), table.slide.eq(self.slide)]
        pass_on(m, storage, self)
        return m
