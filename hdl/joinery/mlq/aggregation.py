"""Windows per key as engines: WHERE, arguments and key of each tuple, then the queues.

::

    i -> expressions -> WindowAggregator, KeyedTimeAggregator -> o
                         |                     (evictions) --/
                         +-> memories: block RAM within, others at ports
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value
from amaranth.lib import data, wiring

from ..aggregate import (
    Aggregate,
    AggregateEngine,
    PaneQuery,
    PaneStream,
    RowQuery,
    RowStream,
    Setting,
    TupleQuery,
    TupleStream,
)
from ..expr import Expr, ExprPipeline, pipeline_latency
from ..pipe import delayed
from ..stream import Buffer
from .engine import KeyedAggregate, WindowAggregator
from .functions import FUNCTIONS
from .keys import STAMP_BITS, check_table
from .levels import Level, Queues
from .memory import BlockMemory
from .ports import MemoryChannel, MemoryPort
from .timed import KeyedTimeAggregator
from .windows import TimeWindows

__all__ = ["KeyedAggregation", "TimedAggregation", "kept_columns", "time_windows"]


def arguments_of(query: TupleQuery) -> list[Expr]:
    """Return what the aggregates are taken of, each once."""
    found = [each.argument for each in query.aggregates if each.function != "count"]
    return list(dict.fromkeys(expr for expr in found if expr is not None))


def kept_columns(query: TupleQuery) -> data.StructLayout:
    """Return what is kept of a tuple: the arguments, in just the bits that their values need."""
    arguments = arguments_of(query)
    if not arguments:
        return data.StructLayout({"nothing": 1})
    return data.StructLayout(
        {f"argument_{k}": Shape(*each.type.bits) for k, each in enumerate(arguments)}
    )


def time_windows(source: PaneStream, query: PaneQuery) -> TimeWindows:
    """Return the windows of a query over time."""
    column = source.schema[source.time]
    return TimeWindows(query.range, query.slide, source.slack, column.low, column.high)


class QueueEngine(AggregateEngine):
    """What both engines on multi-level queues share.

    Parameters
    ----------
    source : TupleStream
    queries : sequence of TupleQuery
        A single one.
    queues : Queues
    columns : data.StructLayout
        Those of ``kept_columns(query)``.
    ways : int
        Hash functions of the key table: places that a key may take, a power of two.
    outside : mapping of int to str
        The levels whose memories are no block RAM of this engine but at its ports, and what these
        are called.
    ops : int
        As ``ops_per_stage`` of `ExprPipeline`.

    Members
    -------
    ports_<k> : Out(MemoryPort).array(channels)
        For each level ``k`` in ``outside``.

    A key that finds all its places taken by others takes that of the one used longest ago. That is
    reported at ``o``: the key that lost its place, how many of its tuples were still to be used,
    the key that took it, and ``at``, how many requests the table had before that. When a key that
    was evicted comes again it starts anew.
    """

    def __init__(
        self,
        source: TupleStream,
        queries: Sequence[TupleQuery],
        *,
        queues: Queues,
        columns: data.StructLayout,
        ways: int,
        outside: Mapping[int, str] | None,
        ops: int,
        settings: Sequence[Setting] = (),
    ) -> None:
        self.query: Any = queries[0]
        self.columns = columns
        self.queues = queues
        self.outside = dict(outside or {})
        self.ops = ops
        self.ways = ways
        self.arguments = arguments_of(self.query)
        self.stages = max([1, *(pipeline_latency(each, ops) for each in self.query.expressions)])
        check_table(queues, source.key.size, ways)
        self.eviction = data.StructLayout(
            {"key": source.key, "count": queues.count, "by": source.key, "at": STAMP_BITS}
        )
        super().__init__(source, queries, sum_rows=queues.rows, settings=settings)

    @property
    def channels(self) -> list[MemoryChannel]:
        found = []
        for k, name in self.outside.items():
            level = self.queues.levels[k]
            port = MemoryPort(
                lines=self.queues.slots * level.stride,
                word=level.word,
                width=self.queues.width,
                burst=level.burst,
            )
            found += [
                MemoryChannel(name, k, number, port, level.duplex)
                for number in range(level.channels)
            ]
        return found

    @cached_property
    def _names(self) -> dict[tuple[str, str | None], str]:
        """What is computed, each once: function and column, and its name."""
        wanted = [(each.function, self._column(each)) for each in self.query.aggregates]
        return {each: f"result_{k}" for k, each in enumerate(dict.fromkeys(wanted))}

    def _column(self, aggregate: Aggregate) -> str | None:
        if aggregate.function == "count" or aggregate.argument is None:
            return None
        return f"argument_{self.arguments.index(aggregate.argument)}"

    @property
    def _computed(self) -> list[KeyedAggregate]:
        return [
            KeyedAggregate(name, function, column)
            for (function, column), name in self._names.items()
        ]

    @property
    def _kernel_latency(self) -> int:
        """Cycles from the first part of a window to all of its results."""
        return max(
            kernel.latency(
                Shape.cast(self.columns[each.column].shape) if each.column else Shape(1),
                lanes=self.queues.lanes + 1,
                parts=self.queues.parts,
            )
            for each in self._computed
            for kernel in FUNCTIONS[each.function].values()
        )

    def _predict(self, latency: int) -> dict[str, Any]:
        clear = self.queues.slots // self.ways
        return {
            "cycles": {"latency": latency, "clear": clear, "drain": 2 * clear + latency},
            "resources": {
                "slots": self.queues.slots,
                "value_bits": self.queues.width,
                "key_bits": self.source.key.size,
            },
        }

    def _enter(self, m: Module, inner: Any) -> tuple[Callable[[Any, str], Value], Value]:
        """Evaluate tuples, and after an end take none until it has left.

        Returns what gives a value of a tuple as it is when that is offered to ``inner``, and
        whether the tuple passes WHERE; whether there is one to offer is left to the caller.
        """
        i, lane = self.i.payload, self.i.payload.lanes[0]
        self._ending = ending = Signal(name="ending")
        go = Signal(name="go")

        def later(value: Any, name: str, since: int = 0) -> Value:
            return delayed(m, value, self.stages - since, go, name)

        def value_of(expr: Expr, name: str) -> Value:
            m.submodules[name] = unit = ExprPipeline(
                expr, self.source.operands, ops_per_stage=self.ops
            )
            m.d.comb += [unit.en.eq(go), unit.i[self.source.name].eq(lane.tuple)]
            return later(unit.o, f"{name}_later", unit.latency)

        m.d.comb += [
            go.eq(~inner.i.valid | inner.i.ready),
            self.i.ready.eq(go & ~ending),
            self.stalled.eq(self.i.valid & ~go & ~ending),
            inner.i.p.end.eq(later(i.end, "end")),
            inner.i.p.key.eq(later(Cat(lane.tuple[name] for name in self.source.keys), "key")),
        ]
        for k, argument in enumerate(self.arguments):
            name = f"argument_{k}"
            m.d.comb += inner.i.p.value[name].eq(value_of(argument, name))
        with m.If(self.i.valid & self.i.ready & i.end):
            m.d.sync += ending.eq(1)
        with m.If(self.o.valid & self.o.ready & self.o.payload.end):
            m.d.sync += ending.eq(0)
        where = self.query.where
        return later, Const(1) if where is None else value_of(where, "where")

    def _attach(self, m: Module, inner: Any) -> None:
        """Give each level its memory, or lead its channels to the ports."""
        for k, level in enumerate(self.queues.levels):
            for c, port in enumerate(getattr(inner, f"ports_{k}")):
                if k in self.outside:
                    wiring.connect(m, port, wiring.flipped(getattr(self, f"ports_{k}")[c]))
                    continue
                lines = self.queues.slots * level.stride
                memory = BlockMemory(lines=lines, word=level.word, width=self.queues.width)
                m.submodules[f"memory_{k}_{c}"] = memory
                wiring.connect(m, port, memory.port)

    def _report(self, m: Module, inner: Any) -> None:
        """Rows and evictions, which go first: so none is behind the end."""
        m.submodules.output = output = Buffer(self.result)
        wiring.connect(m, output.o, wiring.flipped(self.o))
        out, row, gone = output.i, inner.o.p, inner.o_evicted
        place = out.p.rows[0]
        m.d.comb += [
            out.valid.eq(gone.valid | inner.o.valid),
            gone.ready.eq(out.ready),
            inner.o.ready.eq(out.ready & ~gone.valid),
            out.p.end.eq(row.end & ~gone.valid),
            place.valid.eq(gone.valid | ~row.end),
            place.evicted.eq(gone.valid),
        ]
        with m.If(gone.valid):
            told = place.row.eviction
            m.d.comb += [
                Value.cast(told.key).eq(gone.p.key),
                told.count.eq(gone.p.count),
                Value.cast(told.by).eq(gone.p.by),
                told.at.eq(gone.p.at),
            ]
        with m.Else():
            mine = place.row.query_0
            m.d.comb += Value.cast(mine.key).eq(row.key)
            if "end_time" in self.row_layouts[0].members:
                m.d.comb += mine.end_time.eq(row.end_time)
            for each in self.query.aggregates:
                self._form(m, mine.value[each.name], row.value, each)

    def _form(self, m: Module, place: Any, results: Any, aggregate: Aggregate) -> None:
        """An aggregate of what its kernels give, by the names that these give to it."""
        name = self._names[aggregate.function, self._column(aggregate)]
        for part in FUNCTIONS[aggregate.function]:
            result = results["_".join(filter(None, (name, part)))]
            target = place[part] if isinstance(place, data.View) else place
            m.d.comb += target.eq(result)


class KeyedAggregation(QueueEngine):
    """Aggregate the last tuples of each key by multi-level queues.

    Latency: ``predicted["cycles"]["latency"]`` at most, where all memories are block RAM and
    nothing waits. Throughput: one tuple per cycle, as far as the memories keep up. After reset and
    after each end the key table is cleared first, a cycle for each of its places.

    Parameters
    ----------
    source : RowStream
    queries : sequence of RowQuery
        A single one.
    levels : sequence of Level
        The memory levels, the fastest first. Values are as wide as ``kept_columns(query)``.
    slots : int
        Keys that have room, a power of two.
    ways, outside, ops
        As for `QueueEngine`, whose evictions this has: ``at`` counts tuples that pass WHERE.
    runtime : bool
        Whether ROWS and SLIDE (``rows`` and ``slide``) can be changed, within the built ROWS and
        SLIDE never above ROWS. A request that comes after the first tuple of an input, or is out of
        these limits, is refused, and raises an error.
    """

    ERRORS = ("a setting was out of the built limits or came after a tuple, and was refused",)
    SETTING = 0

    source: RowStream

    def __init__(
        self,
        source: RowStream,
        queries: Sequence[RowQuery],
        *,
        levels: Sequence[Level],
        slots: int,
        ways: int = 4,
        outside: Mapping[int, str] | None = None,
        runtime: bool = False,
        ops: int = 2,
    ) -> None:
        if runtime not in (False, True):
            raise ValueError(f"Runtime must be true or false, not {runtime!r}")
        if len(queries) != 1:
            raise ValueError(f"An engine of row windows takes one query, not {len(queries)}")
        (query,) = queries
        columns = kept_columns(query)
        changes = (
            Setting("rows", 1, query.rows, query.rows, "ROWS"),
            Setting("slide", 1, query.rows, query.slide, "SLIDE"),
        )
        super().__init__(
            source,
            queries,
            queues=Queues(tuple(levels), query.rows, slots, columns.size),
            columns=columns,
            ways=ways,
            outside=outside,
            ops=ops,
            settings=changes if runtime else (),
        )

    @cached_property
    def row_layouts(self) -> list[data.StructLayout]:
        """The row of the query: ``key``, and ``value``, by aggregate."""
        return [
            data.StructLayout({"key": self.source.key, "value": self.query.value(self.sum_rows)})
        ]

    @property
    def predicted(self) -> dict[str, Any]:
        return self._predict(self.stages + 13 + self._kernel_latency)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.aggregator = inner = WindowAggregator(
            self.queues,
            self.columns,
            self._computed,
            key_width=self.source.key.size,
            ways=self.ways,
        )
        later, passes = self._enter(m, inner)
        i, lane = self.i.payload, self.i.payload.lanes[0]
        # A punctuation has no meaning, and a tuple that does not pass is gone.
        live = self.i.valid & ~self._ending & (i.end | (lane.valid & ~lane.punctuation))
        m.d.comb += inner.i.valid.eq(later(live, "live") & (inner.i.p.end | passes))
        self._attach(m, inner)
        self._report(m, inner)
        self._set(m, inner)
        return m

    def _set(self, m: Module, inner: WindowAggregator) -> None:
        """WS and WA: what was built, or what was last asked for in time."""
        if not self.settings:
            m.d.comb += [inner.rows.eq(self.query.rows), inner.slide.eq(self.query.slide)]
            return
        port: Any = self
        used, fits = Signal(), Signal()
        rows = Signal.like(inner.rows, init=self.query.rows)
        slide = Signal.like(inner.slide, init=self.query.slide)
        m.d.comb += [
            inner.rows.eq(rows),
            inner.slide.eq(slide),
            fits.eq(
                (port.set_slide != 0)
                & (port.set_slide <= port.set_rows)
                & (port.set_rows <= self.query.rows)
            ),
            port.applied.eq(port.apply & fits & ~used),
            port.refused.eq(port.apply & ~port.applied),
            self.errors[self.SETTING].eq(port.refused),
        ]
        with m.If(port.applied):
            m.d.sync += [rows.eq(port.set_rows), slide.eq(port.set_slide)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += used.eq(1)
        with m.If(self.o.valid & self.o.ready & self.o.payload.end):
            m.d.sync += used.eq(0)


class TimedAggregation(QueueEngine):
    """Aggregate windows of time for each key by multi-level queues, which keep every tuple.

    Throughput: one tuple per cycle while no window closes, as far as the memories keep up; closing
    one takes the time to read what is kept of all keys. After reset and after each end the key
    table is cleared first, a cycle for each of its places.

    Parameters
    ----------
    source : PaneStream
    queries : sequence of PaneQuery
        A single one.
    levels : sequence of Level
        The memory levels, the fastest first. Values are as wide as ``kept_columns(query)`` and the
        label of ``time_windows(source, query)``.
    rows : int
        The most tuples of a key in windows that are open at a time. A tuple beyond that is lost,
        and an error raised.
    slots : int
        Keys that have room, a power of two.
    ways, outside, ops
        As for `QueueEngine`, whose evictions this has; each is an error too, as its tuples are
        missing in windows that were open.
    """

    ERRORS = (
        "a key had more tuples in open windows than there is room for",
        "a key lost its place to another, and open windows its tuples",
    )
    ROOM, PLACE = range(2)

    source: PaneStream

    def __init__(
        self,
        source: PaneStream,
        queries: Sequence[PaneQuery],
        *,
        levels: Sequence[Level],
        rows: int,
        slots: int,
        ways: int = 4,
        outside: Mapping[int, str] | None = None,
        ops: int = 2,
    ) -> None:
        if len(queries) != 1:
            raise ValueError(f"Windows of time on queues take one query, not {len(queries)}")
        if not source.keys:
            raise ValueError("Windows of time on queues need at least one key column")
        (query,) = queries
        self.windows = time_windows(source, query)
        columns = kept_columns(query)
        width = self.windows.kept(columns).size
        super().__init__(
            source,
            queries,
            queues=Queues(tuple(levels), rows, slots, width),
            columns=columns,
            ways=ways,
            outside=outside,
            ops=ops,
        )

    @cached_property
    def row_layouts(self) -> list[data.StructLayout]:
        """The row of the query: ``end_time``, ``key`` and ``value``, by aggregate."""
        end = {"end_time": self.windows.end_time, "key": self.source.key}
        return [data.StructLayout({**end, "value": self.query.value(self.sum_rows)})]

    @property
    def predicted(self) -> dict[str, Any]:
        return self._predict(self.stages + 30 + self._kernel_latency)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.aggregator = inner = KeyedTimeAggregator(
            self.queues,
            self.windows,
            self.columns,
            self._computed,
            key_width=self.source.key.size,
            ways=self.ways,
        )
        later, passes = self._enter(m, inner)
        i, lane = self.i.payload, self.i.payload.lanes[0]
        told = Signal()  # an overflow stays high until reset
        m.d.comb += [
            inner.i.valid.eq(later(self.i.valid & ~self._ending & (i.end | lane.valid), "live")),
            # A tuple that does not pass moves the watermark all the same.
            inner.i.p.punctuation.eq(later(lane.punctuation, "punctuation") | ~passes),
            inner.i.p.time.eq(later(lane.tuple[self.source.time], "time")),
            self.late[0].eq(inner.late),
            self.errors[self.ROOM].eq(inner.overflow & ~told),
            self.errors[self.PLACE].eq(inner.o_evicted.valid & inner.o_evicted.ready),
        ]
        m.d.sync += told.eq(inner.overflow)
        self._attach(m, inner)
        self._report(m, inner)
        return m
