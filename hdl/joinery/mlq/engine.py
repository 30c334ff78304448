"""The engine for windows of rows: multi-level queues, and kernels that take their windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Buffer, Fork, Queue
from .collector import count_layout
from .commands import eviction_layout
from .functions import FUNCTIONS
from .kernels import Kernel
from .levels import Queues
from .ports import pass_on
from .queue import MultiLevelQueue
from .storage import check_storage

__all__ = ["KernelBank", "KeyedAggregate", "WindowAggregator", "check_aggregates"]


@dataclass(frozen=True)
class KeyedAggregate:
    """One aggregate of a window; ``column`` is None for the count alone."""

    name: str
    function: str
    column: str | None = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise ValueError(f"An aggregate is {', '.join(FUNCTIONS)}, not {self.function!r}")
        if self.column is None and self.function != "count":
            raise ValueError(f"Aggregate {self.name}: {self.function} needs a column")


def check_aggregates(columns: data.StructLayout, aggregates: Sequence[KeyedAggregate]) -> None:
    """Raise ``ValueError`` unless there can be such aggregates of ``columns``."""
    if not aggregates:
        raise ValueError("An aggregator needs at least one aggregate")
    for each in aggregates:
        if each.column is not None and each.column not in columns.members:
            raise ValueError(f"Aggregate {each.name}: there is no column {each.column!r}")


class KernelBank(wiring.Component):
    """All kernels side by side: parts of windows in, the results of each window out.

    Throughput: one part of a window per cycle.

    Parameters
    ----------
    queues : Queues
    columns : data.StructLayout
        What a value is made of.
    aggregates : sequence of KeyedAggregate
    lanes : int
        Values in a part.

    Members
    -------
    i : In(stream.Signature(count_layout(columns.size, lanes, queues)))
    o : Out(stream.Signature(self.results))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(
        self,
        queues: Queues,
        columns: data.StructLayout,
        aggregates: Sequence[KeyedAggregate],
        *,
        lanes: int,
    ) -> None:
        check_aggregates(columns, aggregates)
        self.queues = queues
        self.columns = columns
        self.aggregates = tuple(aggregates)
        self.lanes = lanes
        super().__init__(
            {
                "i": In(stream.Signature(count_layout(columns.size, lanes, queues))),
                "o": Out(stream.Signature(self.results)),
            }
        )

    def _shape(self, aggregate: KeyedAggregate) -> Shape:
        """The shape of its values; a count needs none, and sees the lowest bit of a tuple."""
        if aggregate.column is None:
            return Shape(1)
        return Shape.cast(self.columns[aggregate.column].shape)

    @cached_property
    def results(self) -> data.StructLayout:
        """The results of a window by name: of the aggregate, and of what is made into it."""
        return data.StructLayout(
            {
                "_".join(filter(None, (each.name, part))): kernel.result_shape(
                    self._shape(each), self.queues.rows
                )
                for each in self.aggregates
                for part, kernel in FUNCTIONS[each.function].items()
            }
        )

    def _kernels(self) -> list[tuple[KeyedAggregate, str, Kernel]]:
        return [
            (
                each,
                "_".join(filter(None, (each.name, part))),
                kernel(
                    self._shape(each),
                    lanes=self.lanes,
                    rows=self.queues.rows,
                    parts=self.queues.parts,
                ),
            )
            for each in self.aggregates
            for part, kernel in FUNCTIONS[each.function].items()
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kernels = self._kernels()
        m.submodules.fork = fork = Fork(self.i.payload.shape(), outputs=len(kernels))
        wiring.connect(m, wiring.flipped(self.i), fork.i)
        ready = []
        parts = self.queues.parts
        latencies = [
            kernel.latency(kernel.shape, lanes=kernel.lanes, parts=parts)
            for _, _, kernel in kernels
        ]
        for (aggregate, name, kernel), branch, latency in zip(
            kernels, fork.o, latencies, strict=True
        ):
            # Room for the windows that pass while the slowest kernel is at work on one.
            ahead = (max(latencies) - latency) // max(1, parts - 1)
            m.submodules[f"kernel_{name}"] = kernel
            m.submodules[f"result_{name}"] = result = Queue(
                kernel.o.payload.shape(), depth=4 + ahead
            )
            self._feed(m, aggregate, branch, kernel)
            wiring.connect(m, kernel.o, result.i)
            m.d.comb += self.o.p[name].eq(result.o.payload)
            m.d.comb += result.o.ready.eq(self.o.valid & self.o.ready)
            ready.append(result.o.valid)
        m.d.comb += self.o.valid.eq(Cat(ready).all())
        return m

    def _feed(self, m: Module, aggregate: KeyedAggregate, branch: Any, kernel: Kernel) -> None:
        """Give a kernel its column of every part."""
        m.d.comb += [
            kernel.i.valid.eq(branch.valid),
            branch.ready.eq(kernel.i.ready),
            kernel.i.p.last.eq(branch.p.last),
            kernel.i.p.count.eq(branch.p.count),
            kernel.i.p.mask.eq(branch.p.mask),
        ]
        for inner, value in zip(kernel.i.p.values, branch.p.values, strict=True):
            column: Any = Value.cast(value)
            if aggregate.column is not None:
                field = self.columns[aggregate.column]
                column = column[field.offset :][: field.width]
            m.d.comb += inner.eq(column)


class WindowAggregator(wiring.Component):
    """Aggregates over the last tuples of each key: queues over all memory levels, and kernels.

    Latency: some 20 cycles and the time of the memories, from the tuple that completes a window to
    its row. Throughput: one tuple per cycle, as far as the memories keep up; the kernels take a
    word of the last level per cycle.

    Parameters
    ----------
    queues : Queues
        Its ``width`` is that of ``columns``.
    columns : data.StructLayout
        What is kept of a tuple.
    aggregates : sequence of KeyedAggregate
    key_width, ways, depth : int
        As for ``MultiLevelQueue``.

    Members
    -------
    i : In(stream.Signature({"end": 1, "key": key_width, "value": columns}))
    o : Out(stream.Signature({"end": 1, "key": key_width, "value": self.results}))
        A row for each window, in the order in which they were completed; and the end.
    o_evicted, rows, slide, ports_<k>
        As for ``MultiLevelQueue``.
    """

    i: stream.Interface
    o: stream.Interface
    o_evicted: stream.Interface
    rows: Signal
    slide: Signal

    def __init__(
        self,
        queues: Queues,
        columns: data.StructLayout,
        aggregates: Sequence[KeyedAggregate],
        *,
        key_width: int,
        ways: int = 4,
        depth: int = 16,
    ) -> None:
        if columns.size != queues.width:
            raise ValueError(f"Columns of {columns.size} bits are no values of {queues.width}")
        check_aggregates(columns, aggregates)
        check_storage(queues, key_width, ways, depth)
        self.queues = queues
        self.columns = columns
        self.aggregates = tuple(aggregates)
        self.kernels = KernelBank(queues, columns, aggregates, lanes=queues.lanes + 1)
        self.results = self.kernels.results
        self.queue = MultiLevelQueue(queues, key_width=key_width, ways=ways, depth=depth)
        inner = self.queue.signature.members
        super().__init__(
            {
                "i": In(stream.Signature(self._row(key_width, columns))),
                "o": Out(stream.Signature(self._row(key_width, self.results))),
                "o_evicted": Out(stream.Signature(eviction_layout(queues, key_width))),
                **{name: inner[name] for name in ("rows", "slide")},
                **{f"ports_{k}": inner[f"ports_{k}"] for k in range(len(queues.levels))},
            }
        )

    @staticmethod
    def _row(key_width: int, value: Any) -> data.StructLayout:
        return data.StructLayout({"end": 1, "key": key_width, "value": value})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = self.queue
        m.submodules.kernels = kernels = self.kernels
        m.submodules.rows = rows = Buffer(self.o.payload.shape())
        wiring.connect(m, queue.o, kernels.i)
        wiring.connect(m, rows.o, wiring.flipped(self.o))
        pass_on(m, queue, self, omit=("i", "o", "o_tag", "rows", "slide"))
        m.d.comb += [
            queue.rows.eq(self.rows),
            queue.slide.eq(self.slide),
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(self.i.payload),
            self.i.ready.eq(queue.i.ready),
        ]

        # A row is there when its key is and every kernel has come to its result.
        tag, results = queue.o_tag, kernels.o
        complete = tag.valid & (tag.p.end | results.valid)
        m.d.comb += [
            rows.i.valid.eq(complete),
            rows.i.p.end.eq(tag.p.end),
            rows.i.p.key.eq(tag.p.key),
            rows.i.p.value.eq(results.payload),
            tag.ready.eq(complete & rows.i.ready),
            results.ready.eq(tag.valid & ~tag.p.end & rows.i.ready),
        ]
        return m
