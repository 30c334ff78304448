"""What every engine for window aggregates shares: the stream, the queries, the interfaces.

The input is one stream of transfers. Each carries up to one tuple or punctuation per lane, lane 0
first, or the end of the input; so the arrival order is part of the data, and with it which tuples
are late, or the last of their key. Row place ``k`` of an output transfer belongs to query ``k``.
Engines for time windows (`PaneEngine`) report rows in the order of their windows.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Shape, Signal
from amaranth.lib import data, stream, wiring

from .expr import Bool, Expr, Number, columns_of
from .tuples import Schema, bits_for_range

if TYPE_CHECKING:
    from .mlq.ports import MemoryChannel

__all__ = [
    "FUNCTIONS",
    "Aggregate",
    "AggregateEngine",
    "PaneEngine",
    "PaneQuery",
    "PaneStream",
    "RowQuery",
    "RowStream",
    "Setting",
    "TupleQuery",
    "TupleStream",
]

FUNCTIONS = ("count", "sum", "min", "max", "avg", "median")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a query; ``argument`` is None for ``count(*)`` alone."""

    name: str
    function: str
    argument: Expr | None = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise ValueError(f"An aggregate is {', '.join(FUNCTIONS)}, not {self.function!r}")
        if self.argument is None and self.function != "count":
            raise ValueError(f"Aggregate {self.name}: {self.function} needs an argument")
        if self.function in ("sum", "avg", "median") and (
            not isinstance(self.number, Number) or self.number.unit
        ):
            raise ValueError(
                f"Aggregate {self.name}: {self.function} takes plain numbers, not a {self.number}"
            )

    @property
    def number(self) -> Any:
        """The type of the argument."""
        assert self.argument is not None
        return self.argument.type

    def shape(self, rows: int) -> data.StructLayout | Shape:
        """What leaves the hardware for a window of at most ``rows`` tuples.

        ``avg`` leaves as its ``sum`` and its ``count``; who reads them forms the quotient.
        ``median`` leaves as twice of it, which is the sum of the middle two for an even count.
        """
        count = Shape(*bits_for_range(0, rows))
        match self.function:
            case "count":
                return count
            case "min" | "max":
                return Shape(*self.number.bits)
            case "median":
                return Shape(*bits_for_range(2 * self.number.low, 2 * self.number.high))
        low, high = min(self.number.low * rows, 0), max(self.number.high * rows, 0)
        total = Shape(*bits_for_range(low, high))
        if self.function == "sum":
            return total
        return data.StructLayout({"sum": total, "count": count})


class TupleStream:
    """The stream that an engine reads; what all kinds of it have.

    ``name`` is the source's name, as the columns of expressions use it, ``schema`` has the columns
    that tuples carry into the hardware, and ``keys`` those of GROUP BY or PARTITION BY.
    """

    name: str
    schema: Schema
    keys: tuple[str, ...]

    def require(self, *names: str) -> None:
        """Raise ``ValueError`` unless tuples carry these columns."""
        for name in names:
            if name not in self.schema:
                raise ValueError(f"The tuples carry no column {self.name}.{name}")

    @property
    def operands(self) -> data.StructLayout:
        """A tuple as expressions see it."""
        return data.StructLayout({self.name: self.schema.layout})

    @property
    def key(self) -> data.StructLayout:
        """The columns of the key, in the order of ``keys``."""
        return data.StructLayout({name: self.schema[name].shape for name in self.keys})

    def transfer(self, lanes: int = 1) -> data.StructLayout:
        """One transfer of the input.

        Of a punctuation only the time counts: it moves the watermark as a tuple of that time.
        """
        lane = data.StructLayout({"valid": 1, "punctuation": 1, "tuple": self.schema.layout})
        return data.StructLayout({"end": 1, "lanes": data.ArrayLayout(lane, lanes)})


@dataclass(frozen=True)
class PaneStream(TupleStream):
    """A stream for time windows.

    Parameters
    ----------
    name : str
    schema : Schema
    time : str
        The column with the times, a TIMESTAMP or an integer.
    slack : int
        How much older than the latest one a tuple's time may be, in units of the time column.
    keys : tuple of str
    """

    name: str
    schema: Schema
    time: str
    slack: int = 0
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.require(self.time, *self.keys)
        if not isinstance(self.slack, int) or self.slack < 0:
            raise ValueError(f"SLACK must be 0 or a positive integer, not {self.slack!r}")


@dataclass(frozen=True)
class RowStream(TupleStream):
    """A stream for row windows per key. A punctuation has no meaning here, and is passed over."""

    name: str
    schema: Schema
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        self.require(*self.keys)
        if not self.keys:
            raise ValueError("Row windows per key need at least one key column")


class TupleQuery:
    """One query over the stream; what all kinds of it have: WHERE, and aggregates."""

    where: Expr | None
    aggregates: tuple[Aggregate, ...]

    def check(self) -> None:
        """Raise ``ValueError`` for a condition that is none, and for names that are not unique."""
        if self.where is not None and not isinstance(self.where.type, Bool):
            raise ValueError(f"WHERE takes a condition, not a {self.where.type}")
        names = [aggregate.name for aggregate in self.aggregates]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Aggregate {name!r} is declared twice")

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is computed from a tuple."""
        found = [each.argument for each in self.aggregates] + [self.where]
        return tuple(expr for expr in found if expr is not None)

    def value(self, rows: int) -> data.StructLayout:
        """The aggregates of a window of at most ``rows`` tuples, by name."""
        return data.StructLayout({each.name: each.shape(rows) for each in self.aggregates})


@dataclass(frozen=True)
class PaneQuery(TupleQuery):
    """A query over time windows; ``range`` and ``slide`` are in units of the time column."""

    where: Expr | None
    aggregates: tuple[Aggregate, ...]
    range: int
    slide: int

    def __post_init__(self) -> None:
        for name, value in (("RANGE", self.range), ("SLIDE", self.slide)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive integer, not {value!r}")
        self.check()


@dataclass(frozen=True)
class RowQuery(TupleQuery):
    """A query over row windows per key: the last ``rows``, first when there are so many, and then
    after every ``slide`` more."""

    where: Expr | None
    aggregates: tuple[Aggregate, ...]
    rows: int
    slide: int

    def __post_init__(self) -> None:
        for name, value in (("ROWS", self.rows), ("SLIDE", self.slide)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive integer, not {value!r}")
        if self.slide > self.rows:
            raise ValueError(
                f"SLIDE {self.slide} is more than ROWS {self.rows}, so that some tuples would be "
                "in no window; make it at most as many"
            )
        self.check()


@dataclass(frozen=True)
class Setting:
    """Something that can be changed at run time, through the member ``set_<name>``.

    ``low`` and ``high`` are what the built hardware can represent; it may refuse more than that.
    """

    name: str
    low: int
    high: int
    initial: int
    description: str

    @property
    def shape(self) -> Shape:
        return Shape(*bits_for_range(self.low, self.high))


class AggregateEngine(wiring.Component):
    """The interface of every engine for window aggregates.

    Parameters
    ----------
    source : TupleStream
    queries : sequence of TupleQuery
    lanes : int
        Tuples per transfer, at most: 1, 2, 4 or 8.
    sum_rows : int
        The most rows that a window may hold. Sums and counts are as wide as these rows need; where
        a window has more, its row is withheld and an error raised.
    settings : sequence of Setting

    Members
    -------
    i : In(stream.Signature(source.transfer(lanes)))
        ``end`` is a transfer of its own. After it the engine takes nothing until the end has left,
        then it starts anew.
    o : Out(stream.Signature(self.result))
        A transfer that is not the end has at least one row; ``rows[k]`` is a row of query ``k``, to
        be read as ``query_k`` of the union. With keys, a window has a row per key. Of an engine
        with an ``eviction``, a place that is ``evicted`` has no row but tells of a key that lost
        its place.
    late : Out(ArrayLayout(range(lanes + 1), len(queries)))
        Late tuples that passed WHERE, of each query, in this cycle.
    stalled : Out(1)
        High in a cycle in which an input is refused for want of room (not while an end drains).
    errors : Out(len(ERRORS))
        High in a cycle in which something happened that cost results.
    set_<name> : In(setting.shape)
        One for each of ``settings``, with its initial value as the default; read when ``apply`` is
        high.
    apply : In(1)
        Only with settings: pulse to ask for what is at ``set_<name>``. A request while another one
        waits replaces it.
    applied, refused : Out(1)
        Only with settings: high in the cycle in which a request takes effect, or is refused.
    """

    ERRORS: tuple[str, ...] = (
        "a window held more rows than its sums were built for",
        "there were more keys than the key table holds",
        "a setting was out of the built limits and was refused",
        "a tuple came out of order",
    )
    ROWS, KEYS, SETTING, ORDER = range(4)
    """Bits of ``errors``."""

    eviction: data.StructLayout | None = None
    """What is reported of a key that lost its place, where that can happen."""

    i: stream.Interface
    o: stream.Interface
    late: Any
    stalled: Signal
    errors: Signal
    domains: tuple[str, ...] = ("sync",)

    def __init__(
        self,
        source: TupleStream,
        queries: Sequence[TupleQuery],
        *,
        lanes: int = 1,
        sum_rows: int = 1 << 32,
        settings: Sequence[Setting] = (),
    ) -> None:
        if lanes not in (1, 2, 4, 8) or isinstance(lanes, bool):
            raise ValueError(f"Lanes must be 1, 2, 4 or 8, not {lanes!r}")
        if not queries:
            raise ValueError("An aggregate engine needs at least one query")
        if not isinstance(sum_rows, int) or sum_rows < 1:
            raise ValueError(f"The most rows of a window must be positive, not {sum_rows!r}")
        carried = {(source.name, name) for name in source.schema.names}
        for query in queries:
            for stray, name in sorted(columns_of(*query.expressions) - carried):
                raise ValueError(f"The tuples carry no column {stray}.{name}")
        self.source = source
        self.queries = tuple(queries)
        self.lanes = lanes
        self.sum_rows = sum_rows
        self.settings = tuple(settings)
        each_query = data.ArrayLayout(Shape.cast(range(lanes + 1)), len(self.queries))
        members: dict[str, Any] = {
            "i": wiring.In(stream.Signature(source.transfer(lanes))),
            "o": wiring.Out(stream.Signature(self.result)),
            "late": wiring.Out(each_query),
            "stalled": wiring.Out(1),
            "errors": wiring.Out(len(self.ERRORS)),
        }
        if self.settings:
            members |= {
                f"set_{each.name}": wiring.In(each.shape, init=each.initial)  # type: ignore[call-arg] # the stubs know it as reset
                for each in self.settings
            }
            members |= {
                "apply": wiring.In(1),
                "applied": wiring.Out(1),
                "refused": wiring.Out(1),
            }
        members |= {
            f"ports_{each.level}": wiring.Out(each.port).array(each.number + 1)
            for each in self.channels
        }
        super().__init__(members)

    @property
    def channels(self) -> Sequence["MemoryChannel"]:
        """The channels of memory that stay outside, at members ``ports_<level>``."""
        return ()

    @property
    @abstractmethod
    def row_layouts(self) -> Sequence[data.StructLayout]:
        """The row of each query: ``key`` (with keys) and ``value``, by aggregate, and what else."""

    @property
    def result(self) -> data.StructLayout:
        """One transfer of the output: a row of each query at most, or the end, which has none."""
        kinds = {f"query_{k}": each for k, each in enumerate(self.row_layouts)}
        mark: dict[str, Any] = {}
        if self.eviction is not None:
            kinds, mark = {**kinds, "eviction": self.eviction}, {"evicted": 1}
        place = data.StructLayout({"valid": 1, **mark, "row": data.UnionLayout(kinds)})
        rows = data.ArrayLayout(place, len(self.queries))
        return data.StructLayout({"end": 1, "rows": rows})

    @property
    @abstractmethod
    def predicted(self) -> dict[str, Any]:
        """Cycles and resources as they are known before anything runs, for ``top.json``.

        ``cycles`` has ``latency`` (from what completes a window, taken at ``i``, to its row at
        ``o``, while nothing waits: for time windows a closing punctuation), ``per_transfer``, and
        ``drain`` (at most, from the end taken at ``i`` to the end at ``o``, while nothing waits).
        """


class PaneEngine(AggregateEngine):
    """An engine for sliding time windows, whose stream is a `PaneStream`."""

    source: PaneStream
    queries: tuple[PaneQuery, ...]

    def __init__(self, source: PaneStream, queries: Sequence[PaneQuery], **options: Any) -> None:
        for each in (each for query in queries for each in query.aggregates):
            if each.function == "median":
                raise ValueError(
                    f"Aggregate {each.name}: there is no median of panes; engine mlq has it"
                )
        super().__init__(source, queries, **options)

    @property
    def pane(self) -> int:
        """The length of a pane: the greatest common divisor of all ranges and slides."""
        return gcd(*(each.range for each in self.queries), *(each.slide for each in self.queries))

    @cached_property
    def end_time(self) -> Shape:
        """The end of a window; wide enough for the last window of the last possible tuple."""
        longest = max(query.range for query in self.queries)
        column = self.source.schema[self.source.time]
        return Shape(*bits_for_range(min(column.low, -1), column.high + longest))

    @cached_property
    def row_layouts(self) -> list[data.StructLayout]:
        """The row of each query: ``end_time``, ``key`` (with keys), and ``value``, by aggregate."""
        key = {"key": self.source.key} if self.source.keys else {}
        return [
            data.StructLayout({"end_time": self.end_time, **key, "value": q.value(self.sum_rows)})
            for q in self.queries
        ]
