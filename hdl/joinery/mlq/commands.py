"""The command generator: turns the moves of pointers into operations of the memory levels."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Fork
from .collector import order_layout
from .keys import STAMP_BITS, KeyTable
from .levels import Queues

__all__ = ["CommandGenerator", "eviction_layout", "tag_layout"]


def tag_layout(queues: Queues, key_width: int) -> data.StructLayout:
    """Whose window comes next out of the kernels; or the end."""
    return data.StructLayout({"end": 1, "key": key_width})


def eviction_layout(queues: Queues, key_width: int) -> data.StructLayout:
    """A key that lost its place, how many values went with it, and the key that took the place.

    ``at`` is the number of the tuple that took it, counted from 0 on since reset or the end.
    """
    return data.StructLayout(
        {"key": key_width, "count": queues.count, "by": key_width, "at": STAMP_BITS}
    )


class CommandGenerator(wiring.Component):
    """Tell each level what a step asks of it, and who waits for results what will come.

    Latency: 0 cycles. Throughput: one step per cycle, while nobody is full.

    Parameters
    ----------
    table : KeyTable
        Where the steps come from.

    Members
    -------
    i : In(stream.Signature(table.step))
    o_level_<k> : Out(stream.Signature(queues.operation(k)))
    o_value : Out(stream.Signature(a value))
        What is written to level 0, once for each of its operations.
    o_order : Out(stream.Signature(order_layout(queues, table.READS_NEWEST)))
    o_tag : Out(stream.Signature(tag_layout(queues, key_width)))
    o_evicted : Out(stream.Signature(eviction_layout(queues, key_width)))
    """

    i: stream.Interface
    o_value: stream.Interface
    o_order: stream.Interface
    o_tag: stream.Interface
    o_evicted: stream.Interface

    def __init__(self, table: KeyTable) -> None:
        self.queues = queues = table.queues
        self.step = table.step
        self.newest = table.READS_NEWEST
        value = data.ArrayLayout(queues.width, 1)
        super().__init__(
            {
                "i": In(stream.Signature(self.step)),
                **{
                    f"o_level_{k}": Out(stream.Signature(queues.operation(k)))
                    for k in range(len(queues.levels))
                },
                "o_value": Out(stream.Signature(value)),
                "o_order": Out(stream.Signature(order_layout(queues, self.newest))),
                "o_tag": Out(stream.Signature(tag_layout(queues, table.key_width))),
                "o_evicted": Out(stream.Signature(eviction_layout(queues, table.key_width))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        levels = len(self.queues.levels)
        m.submodules.fork = fork = Fork(self.step, outputs=levels + 4)
        wiring.connect(m, wiring.flipped(self.i), fork.i)
        branches = iter(fork.o)

        def offer(target: Any, wanted: Any) -> Any:
            """Let ``target`` have a step if it is wanted there; return the step."""
            branch = next(branches)
            wanted = wanted(branch.p)
            m.d.comb += [
                target.valid.eq(branch.valid & wanted),
                branch.ready.eq(target.ready | ~wanted),
            ]
            return branch.p

        for k in range(levels):
            target = getattr(self, f"o_level_{k}")

            def concerns(step: Any, k: int = k) -> Any:
                move = step.move.levels[f"level_{k}"]
                reads = step.move.aggregate & (move.held != 0)
                return ~step.end & (move.write | move.flush | reads)

            step = offer(target, concerns)
            m.d.comb += self._operation(m, k, step, target.p)
        step = offer(self.o_value, lambda step: ~step.end & step.move.levels.level_0.write)
        m.d.comb += self.o_value.payload[0].eq(step.value)
        step = offer(self.o_order, lambda step: ~step.end & step.move.aggregate)
        held = [step.move.levels[f"level_{k}"].held for k in reversed(range(levels))]
        m.d.comb += [
            self.o_order.p.levels.eq(Cat(each != 0 for each in held)),
            self.o_order.p.count.eq(step.move.count),
        ]
        if self.newest:
            m.d.comb += self.o_order.p.newest.eq(step.value)
        step = offer(self.o_tag, lambda step: step.end | step.move.aggregate)
        m.d.comb += [self.o_tag.p.end.eq(step.end), self.o_tag.p.key.eq(step.key)]
        step = offer(self.o_evicted, lambda step: ~step.end & step.evicted)
        m.d.comb += [
            self.o_evicted.p.key.eq(step.evicted_key),
            self.o_evicted.p.count.eq(step.evicted_count),
            self.o_evicted.p.by.eq(step.key),
            self.o_evicted.p.at.eq(step.at),
        ]
        return m

    def _operation(self, m: Module, level: int, step: Any, operation: Any) -> list[Any]:
        """Work out which words hold the values that are wanted."""
        shape = self.queues.levels[level]
        move = step.move.levels[f"level_{level}"]
        aggregate = Signal(name=f"aggregate_{level}")
        tail = Signal(operation.until.shape(), name=f"tail_{level}")
        words = Mux(aggregate, (tail + (shape.word - 1)) // shape.word, 0)
        return [
            aggregate.eq(step.move.aggregate & (move.held != 0)),
            # From the word with the oldest value on. A level that is flushed is full to its end.
            tail.eq(move.read % shape.word + move.held),
            operation.slot.eq(step.slot),
            operation.aggregate.eq(aggregate),
            operation.flush.eq(move.flush),
            operation.first.eq(Mux(move.flush, 0, move.read // shape.word)),
            operation.words.eq(Mux(move.flush, shape.words, words)),
            operation.skip.eq(Mux(move.flush, move.read, move.read % shape.word)),
            operation.until.eq(Mux(move.flush, shape.values, tail)),
            operation.write.eq(move.write),
            operation.position.eq(move.position),
        ]
