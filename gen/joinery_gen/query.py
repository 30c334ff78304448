"""The typed model of one query: what the parser makes, and all that the rest of Joinery reads.

Times (``range``, ``slide``, ``slack``) are whole numbers in the unit of the WATTR column.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from joinery.expr import Column, Expr, Number
from joinery.tuples import ColumnType, DecimalType, Field, IntType, Schema


class JoineryError(Exception):
    """Something a person gave us is wrong. The text says what, where, and what to do."""


class QueryError(JoineryError):
    """The query is wrong; ``line`` and ``column`` (both from 1) point into its text.

    ``name`` is what the query is called, ``source`` the line that is wrong.
    """

    def __init__(self, message: str, *, name: str, source: str, line: int, column: int) -> None:
        self.message, self.name, self.line, self.column = message, name, line, column
        caret = "".join("\t" if c == "\t" else " " for c in source[: column - 1]) + "^"
        super().__init__(f"{name}:{line}:{column}: {message}\n  {source}\n  {caret}")


@dataclass(frozen=True)
class RowWindow:
    """``[ROWS rows]``: the last ``rows`` tuples in arrival order."""

    rows: int


@dataclass(frozen=True)
class TimeWindow:
    """``[RANGE range WATTR wattr SLACK slack]`` of a join."""

    range: int
    wattr: str
    slack: int = 0


@dataclass(frozen=True)
class SlidingWindow:
    """``[RANGE range SLIDE slide WATTR wattr SLACK slack]`` of an aggregate.

    With ``PARTITION BY`` the same windows are kept per key; then the key is the grouping. A tuple
    is late once its pane has closed. The windows of a file with several SELECTs ``share`` panes,
    whose length divides all of their ranges and slides.
    """

    range: int
    slide: int
    wattr: str
    slack: int = 0
    share: int = 0

    @property
    def pane(self) -> int:
        return gcd(self.range, self.slide, self.share)


@dataclass(frozen=True)
class KeyedRowWindow:
    """``[PARTITION BY key ROWS rows SLIDE slide]``: per key, first when it has ``rows`` tuples,
    then after every ``slide`` more."""

    rows: int
    slide: int


@dataclass(frozen=True)
class Stream:
    """A declared stream."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class Source:
    """A stream in FROM, under its alias, with its window."""

    alias: str
    stream: Stream
    window: RowWindow | TimeWindow | SlidingWindow | KeyedRowWindow

    @property
    def schema(self) -> Schema:
        return self.stream.schema


@dataclass(frozen=True)
class Output:
    """One column of a join's result."""

    name: str
    expr: Expr

    @property
    def type(self) -> ColumnType:
        if isinstance(self.expr, Column):
            return self.expr.column
        return self.expr.type.column_type


@dataclass(frozen=True)
class JoinQuery:
    """A join of two sources, both with row windows or both with time windows.

    ``left`` is the papers' R and ``right`` their S, in the order of FROM. The windows hold all
    tuples of a stream; ``predicate`` (all of ON and WHERE) is tested on pairs.
    """

    left: Source
    right: Source
    predicate: Expr
    outputs: tuple[Output, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.left, self.right

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Field(output.name, output.type) for output in self.outputs))


@dataclass(frozen=True)
class KeyOutput:
    """The grouping key, in an aggregate's result."""

    name: str
    column: Column

    @property
    def type(self) -> ColumnType:
        return self.column.column


@dataclass(frozen=True)
class WindowEndOutput:
    """The WATTR column in an aggregate's result: the end of the window, start + RANGE."""

    name: str
    column: Column

    @property
    def type(self) -> ColumnType:
        return self.column.column


AVG_EXTRA_DIGITS = 4


@dataclass(frozen=True)
class AggregateOutput:
    """``function(argument)``; ``argument`` is None for ``count(*)``.

    ``avg`` has four digits more after the point than its argument, rounded half away from zero.
    ``median`` of an even count is the mean of the middle two, exact with one digit more.
    """

    name: str
    function: str
    argument: Expr | None

    @property
    def type(self) -> ColumnType:
        if self.function == "count":
            return IntType(64)
        assert self.argument is not None
        if self.function in ("min", "max") and isinstance(self.argument, Column):
            return self.argument.column
        number = self.argument.type
        assert isinstance(number, Number)
        match self.function:
            case "min" | "max":
                return number.column_type
            case "sum":
                return DecimalType(38, number.scale) if number.scale else IntType(64)
            case "avg":
                return DecimalType(38, number.scale + AVG_EXTRA_DIGITS)
            case "median":
                return DecimalType(38, number.scale + 1)
        raise ValueError(f"Unknown aggregate {self.function!r}")


@dataclass(frozen=True)
class AggregateQuery:
    """An aggregate over one source: sliding time windows, or row windows per key.

    ``where`` filters tuples before they count; the watermark moves with every tuple of the
    stream, filtered or not. ``group_by`` is the key of GROUP BY or PARTITION BY; ``partitioned``
    tells which of the two the query wrote.
    """

    source: Source
    where: Expr | None
    group_by: tuple[Column, ...]
    outputs: tuple[KeyOutput | WindowEndOutput | AggregateOutput, ...]
    partitioned: bool = False

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.source,)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Field(output.name, output.type) for output in self.outputs))


def share_panes(bodies: Sequence[AggregateQuery]) -> tuple[AggregateQuery, ...]:
    """Return aggregates over one stream with the panes that their sliding windows share."""
    windows = [body.source.window for body in bodies]
    sliding = [window for window in windows if isinstance(window, SlidingWindow)]
    assert len(sliding) == len(bodies)
    pane = gcd(*(window.range for window in sliding), *(window.slide for window in sliding))
    return tuple(
        replace(body, source=replace(body.source, window=replace(window, share=pane)))
        for body, window in zip(bodies, sliding, strict=True)
    )


@dataclass(frozen=True)
class Query:
    """A query file: its name and text, the streams it declares, and the query.

    ``more`` has the further SELECTs of a file that has several: aggregates over time windows of the
    same source, which share WATTR, SLACK and GROUP BY.
    """

    name: str
    text: str
    streams: tuple[Stream, ...]
    body: JoinQuery | AggregateQuery
    more: tuple[AggregateQuery, ...] = ()

    @property
    def parts(self) -> tuple["Query", ...]:
        """A query for each SELECT, numbered from 1 where there are several."""
        if not self.more:
            return (self,)
        return tuple(
            replace(self, name=f"{self.name}_{number}", body=body, more=())
            for number, body in enumerate((self.body, *self.more), 1)
        )

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.body.sources

    @cached_property
    def hash(self) -> str:
        """Identifies the text, whatever its name: 16 hex digits of its SHA-256."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]
