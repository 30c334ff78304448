# amaranth: UnusedElaboratable=no
# (a plan that is refused leaves an engine half made)
"""The engines that exist: which query each takes, its parameters, and how it is built.

This is the one place that a new engine is added to.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from joinery.expr import Abs, Arith, Column, Compare, Const, Expr, columns_of
from joinery.handshake import HandshakeJoin
from joinery.join import JoinEngine, JoinPair, TimeBound
from joinery.nested_loop import NestedLoopJoin

from .parse_expr import logic
from .query import AggregateQuery, JoineryError, JoinQuery, Query, RowWindow, Source, TimeWindow

__all__ = ["ENGINES", "Engine", "Parameter", "Plan", "join_pair", "plan"]

PLANNED = ("fjoin", "panes", "wid", "glacier", "mlq")

Setting = int | str | list[int]


@dataclass(frozen=True)
class Plan:
    """A query, the engine chosen for it, and the engine's parameters as far as they are fixed."""

    query: Query
    engine: str
    parameters: Mapping[str, Setting]

    def build(self) -> JoinEngine:
        """Return the hardware."""
        body = self.query.body
        assert isinstance(body, JoinQuery)
        windows = dict(zip(("rows_left", "rows_right"), body.sources, strict=True))
        rows = {
            name: source.window.rows
            for name, source in windows.items()
            if isinstance(source.window, RowWindow)
        }
        try:
            return ENGINES[self.engine].build(
                join_pair(body), bound=time_bound(body), **rows, **self.parameters
            )
        except ValueError as error:
            raise JoineryError(f"engine {self.engine}: {error}") from None


@dataclass(frozen=True)
class Parameter:
    """A parameter of an engine: a ``number``, a ``word``, or ``numbers``, one or several.

    ``default`` may depend on the query; None leaves the value to the engine.
    """

    kind: str
    default: Setting | Callable[[JoinQuery], Setting] | None
    help: str

    def read(self, value: Any) -> Setting:
        """Return ``value``, as it was given or written, in the form that the engine takes."""
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        if self.kind == "word":
            return text
        if not re.fullmatch(r"-?\d+(,-?\d+)*" if self.kind == "numbers" else r"-?\d+", text):
            what = "numbers separated by commas" if self.kind == "numbers" else "a whole number"
            raise ValueError(f"must be {what}, not {value!r}")
        numbers = [int(part) for part in text.split(",")]
        return numbers[0] if len(numbers) == 1 else numbers


@dataclass(frozen=True)
class Engine:
    """How to build one engine, and what can be set."""

    build: Callable[..., JoinEngine]
    parameters: Mapping[str, Parameter]


def _rows(source: Source) -> int:
    """The rows of a source's window: as many as it says, or as can be kept of a time window."""
    return source.window.rows if isinstance(source.window, RowWindow) else CAPACITY


CAPACITY = 1024
"""Tuples of each stream that an engine of row windows keeps for a time window, if nobody says."""

COMMON = {
    "ops_per_stage": Parameter("number", 2, "operators between two registers of the predicate"),
    "queue_depth": Parameter("number", None, "rounds of matches that a core holds per direction"),
}
WINDOW = {
    "rows_left": Parameter("number", CAPACITY, "tuples kept of the first stream's time window"),
    "rows_right": Parameter("number", CAPACITY, "tuples kept of the second stream's time window"),
}
ENGINES = {
    "handshake": Engine(
        HandshakeJoin,
        {
            "cores": Parameter(
                "number", lambda body: min(16, *map(_rows, body.sources)), "join cores"
            ),
            "comparators": Parameter("number", 1, "comparators per core and direction"),
            "storage": Parameter("word", "registers", "windows in registers or memory"),
            "flow": Parameter("word", "chain", "chain or broadcast"),
            "policy": Parameter("word", "block", "block, shed or drop_results"),
            "merge": Parameter("word", "tree", "merging network: tree, ring or fsm_tree"),
            "lanes": Parameter("number", 1, "results per cycle: 1, 2 or 4"),
            "fan_in": Parameter("number", None, "inputs per merger of the network"),
            "merge_clock": Parameter("word", "same", "network on the same clock or its own"),
            "merge_depth": Parameter("numbers", None, "buffer depth of the network, or per level"),
            **COMMON,
        },
    ),
    "nested_loop": Engine(NestedLoopJoin, COMMON),
}


def time_bound(body: JoinQuery) -> TimeBound | None:
    """Return the time window of a join, if it has one."""
    left, right = body.left.window, body.right.window
    if not isinstance(left, TimeWindow) or not isinstance(right, TimeWindow):
        return None
    return TimeBound(left.wattr, right.wattr, left.range, max(left.slack, right.slack))


def join_pair(body: JoinQuery) -> JoinPair:
    """Return what the hardware sees of a join: only the columns that the query reads."""
    names = (body.left.alias, body.right.alias)
    kept = columns_of(*(output.expr for output in body.outputs))
    predicate = _with_time_test(body)
    read = kept | columns_of(predicate)

    def of(source: str, columns: set[tuple[str, str]]) -> set[str]:
        return {name for alias, name in columns if alias == source}

    return JoinPair(
        names=names,
        left=body.left.schema.select(of(names[0], read)),
        right=body.right.schema.select(of(names[1], read)),
        predicate=predicate,
        keep_left=tuple(n for n in body.left.schema.names if n in of(names[0], kept)),
        keep_right=tuple(n for n in body.right.schema.names if n in of(names[1], kept)),
    )


def _with_time_test(body: JoinQuery) -> Expr:
    """The predicate, and for time windows that the times are near enough."""
    bound = time_bound(body)
    if bound is None:
        return body.predicate
    left, right = (
        Column(source.alias, name, source.schema[name])
        for source, name in ((body.left, bound.left), (body.right, bound.right))
    )
    near = Compare("<=", Abs(Arith("-", left, right)), Const.number(bound.range))
    return logic("AND", [body.predicate, near])


def default_engine(query: Query) -> str:
    """Return the engine that DESIGN names for the query's window, whether it exists or not."""
    body = query.body
    if isinstance(body, AggregateQuery):
        return "mlq" if body.partitioned else "panes"
    return "handshake" if isinstance(body.left.window, RowWindow) else "fjoin"


def plan(
    query: Query, engine: str | None = None, settings: Mapping[str, Any] | None = None
) -> Plan:
    """Choose the engine and its parameters; ``settings`` overrides the defaults."""
    name = engine or default_engine(query)
    body = query.body
    if name in PLANNED:
        raise JoineryError(f"engine {name} does not exist yet; these do: {', '.join(ENGINES)}")
    if name not in ENGINES:
        close = get_close_matches(name, [*ENGINES, *PLANNED], 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise JoineryError(f"There is no engine {name!r}; these exist: {', '.join(ENGINES)}.{hint}")
    if not isinstance(body, JoinQuery):
        raise JoineryError(f"engine {name} joins two streams, and {query.name} is an aggregate")
    known = dict(ENGINES[name].parameters)
    if time_bound(body):
        known |= WINDOW
    parameters: dict[str, Setting] = {}
    for key, parameter in known.items():
        default = parameter.default(body) if callable(parameter.default) else parameter.default
        if default is not None:
            parameters[key] = default
    for key, value in (settings or {}).items():
        if key not in known:
            raise JoineryError(f"engine {name} has no parameter {key!r}; it has {', '.join(known)}")
        try:
            parameters[key] = known[key].read(value)
        except ValueError as error:
            raise JoineryError(f"engine {name}: {key} {error}") from None
    return Plan(query, name, parameters)
