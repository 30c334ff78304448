"""Row windows per key as an engine: WHERE, arguments and key of each tuple, then the queues.

i -> expressions -> WindowAggregator -> o
                     |  (evictions) --/
                     \\-> memories: block RAM within, others at ports
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value
from amaranth.lib import data, wiring

from ..aggregate import Aggregate, AggregateEngine, RowQuery, RowStream, Setting
from ..expr import Expr, ExprPipeline, pipeline_latency
from ..pipe import delayed
from ..stream import Buffer
from .engine import KeyedAggregate, WindowAggregator
from .functions import FUNCTIONS
from .keys import STAMP_BITS, check_table
from .levels import Level, Queues
from .memory import BlockMemory
from .ports import MemoryChannel, MemoryPort

__all__ = ["KeyedAggregation", "kept_columns"]


def arguments_of(query: RowQuery) -> list[Expr]:
    """Return what the aggregates are taken of, each once."""
    found = [each.argument for each in query.aggregates if each.function != "count"]
    return list(dict.fromkeys(expr for expr in found if expr is not None))


def kept_columns(query: RowQuery) -> data.StructLayout:
    """Return what is kept of a tuple: the arguments, in just the bits that their values need."""
    arguments = arguments_of(query)
    if not arguments:
        return data.StructLayout({"nothing": 1})
    return data.StructLayout(
        {f"argument_{k}": Shape(*each.type.bits) for k, each in enumerate(arguments)}
    )


class KeyedAggregation(AggregateEngine):
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
    ways : int
        Hash functions of the key table: places that a key may take, a power of two.
    outside : mapping of int to str
        The levels whose memories are no block RAM of this engine but at its ports, and what these
        are called.
    runtime : bool
        Whether ROWS and SLIDE (``rows`` and ``slide``) can be changed, within the built ROWS and
        SLIDE never above ROWS. A request that comes after the first tuple of an input, or is out of
        these limits, is refused, and raises an error.

    Members
    -------
    ports_<k> : Out(MemoryPort).array(channels)
        For each level ``k`` in ``outside``.

    A key that finds all its places taken by others takes that of the one used longest ago. That is
    reported at ``o``: the key that lost its place, how many of its tuples were still to be used,
    the key that took it, and ``at``, how many tuples passed WHERE before the one that took it. When
    a key that was evicted comes again it starts anew.
    """

    ERRORS = ("a setting was out of the built limits or came after a tuple, and was refused",)
    SETTING = 0

    source: RowStream
    queries: tuple[RowQuery, ...]

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
        (self.query,) = queries
        self.columns = kept_columns(self.query)
        self.queues = Queues(tuple(levels), self.query.rows, slots, self.columns.size)
        self.outside = dict(outside or {})
        self.ops = ops
        self.arguments = arguments_of(self.query)
        stages = [pipeline_latency(each, ops) for each in self.query.expressions]
        self.stages = max([1, *stages])
        self.ways = ways
        check_table(self.queues, source.key.size, ways)
        self.eviction = data.StructLayout(
            {"key": source.key, "count": self.queues.count, "by": source.key, "at": STAMP_BITS}
        )
        changes = (
            Setting("rows", 1, self.query.rows, self.query.rows, "ROWS"),
            Setting("slide", 1, self.query.rows, self.query.slide, "SLIDE"),
        )
        super().__init__(
            source, queries, sum_rows=self.query.rows, settings=changes if runtime else ()
        )

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

    @cached_property
    def row_layouts(self) -> list[data.StructLayout]:
        """The row of the query: ``key``, and ``value``, by aggregate."""
        return [
            data.StructLayout({"key": self.source.key, "value": self.query.value(self.sum_rows)})
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

    @property
    def predicted(self) -> dict[str, Any]:
        clear = self.queues.slots // self.ways
        latency = self.stages + 13 + self._kernel_latency
        return {
            "cycles": {"latency": latency, "clear": clear, "drain": 2 * clear + latency},
            "resources": {
                "slots": self.queues.slots,
                "value_bits": self.queues.width,
                "key_bits": self.source.key.size,
            },
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.aggregator = inner = WindowAggregator(
            self.queues,
            self.columns,
            self._computed,
            key_width=self.source.key.size,
            ways=self.ways,
        )
        m.submodules.output = output = Buffer(self.result)
        wiring.connect(m, output.o, wiring.flipped(self.o))
        self._enter(m, inner)
        self._attach(m, inner)
        self._report(m, inner, output.i)
        self._set(m, inner)
        return m

    def _enter(self, m: Module, inner: WindowAggregator) -> None:
        """Evaluate tuples, and hand on those that pass; after an end nothing, until it has left."""
        i, lane = self.i.payload, self.i.payload.lanes[0]
        self._ending = ending = Signal(name="ending")
        go, offered = Signal(), Signal()
        live = self.i.valid & ~ending & (i.end | (lane.valid & ~lane.punctuation))

        def later(value: Any, name: str, since: int = 0) -> Value:
            return delayed(m, value, self.stages - since, go, name)

        def value_of(expr: Expr, name: str) -> Value:
            m.submodules[name] = unit = ExprPipeline(
                expr, self.source.operands, ops_per_stage=self.ops
            )
            m.d.comb += [unit.en.eq(go), unit.i[self.source.name].eq(lane.tuple)]
            return later(unit.o, f"{name}_later", unit.latency)

        end = later(i.end, "end")
        where = self.query.where
        passes = Const(1) if where is None else value_of(where, "where")
        m.d.comb += [
            offered.eq(later(live, "live") & (end | passes)),
            go.eq(~offered | inner.i.ready),
            self.i.ready.eq(go & ~ending),
            self.stalled.eq(self.i.valid & ~go & ~ending),
            inner.i.valid.eq(offered),
            inner.i.p.end.eq(end),
            inner.i.p.key.eq(later(Cat(lane.tuple[name] for name in self.source.keys), "key")),
        ]
        for k, argument in enumerate(self.arguments):
            name = f"argument_{k}"
            m.d.comb += inner.i.p.value[name].eq(value_of(argument, name))
        with m.If(self.i.valid & self.i.ready & i.end):
            m.d.sync += ending.eq(1)
        with m.If(self.o.valid & self.o.ready & self.o.payload.end):
            m.d.sync += ending.eq(0)

    def _attach(self, m: Module, inner: WindowAggregator) -> None:
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

    def _report(self, m: Module, inner: WindowAggregator, out: Any) -> None:
        """Rows and evictions, which go first: so none is behind the end."""
        place, row, gone = out.p.rows[0], inner.o.p, inner.o_evicted
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
            for each in self.query.aggregates:
                self._form(m, mine.value[each.name], row.value, each)

    def _form(self, m: Module, place: Any, results: Any, aggregate: Aggregate) -> None:
        """An aggregate of what its kernels give, by the names that these give to it."""
        name = self._names[aggregate.function, self._column(aggregate)]
        for part in FUNCTIONS[aggregate.function]:
            result = results["_".join(filter(None, (name, part)))]
            target = place[part] if isinstance(place, data.View) else place
            m.d.comb += target.eq(result)

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
