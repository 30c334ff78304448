# amaranth: UnusedElaboratable=no
# (a plan that is refused leaves an engine half made)
"""The engines that exist: which query each takes, its parameters, and how it is built.

This is the one place that a new engine is added to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from joinery.expr import Column, columns_of
from joinery.handshake import HandshakeJoin
from joinery.join import JoinEngine, JoinPair
from joinery.nested_loop import NestedLoopJoin

from .query import AggregateQuery, JoineryError, JoinQuery, Query, RowWindow

__all__ = ["ENGINES", "Engine", "Plan", "join_pair", "plan"]

PLANNED = ("fjoin", "panes", "wid", "glacier", "mlq")


@dataclass(frozen=True)
class Plan:
    """A query, the engine chosen for it, and all the engine's parameters."""

    query: Query
    engine: str
    parameters: Mapping[str, int | str]

    def build(self) -> JoinEngine:
        """Return the hardware."""
        body = self.query.body
        assert isinstance(body, JoinQuery)
        left, right = body.left.window, body.right.window
        assert isinstance(left, RowWindow)
        assert isinstance(right, RowWindow)
        try:
            return ENGINES[self.engine].build(
                join_pair(body), rows_left=left.rows, rows_right=right.rows, **self.parameters
            )
        except ValueError as error:
            raise JoineryError(f"engine {self.engine}: {error}") from None


@dataclass(frozen=True)
class Engine:
    """How to build one engine; ``defaults`` gives its parameters for a query."""

    build: Callable[..., JoinEngine]
    defaults: Callable[[JoinQuery], dict[str, int | str]]


def _handshake_defaults(body: JoinQuery) -> dict[str, int | str]:
    rows = min(
        source.window.rows for source in body.sources if isinstance(source.window, RowWindow)
    )
    return {"cores": min(16, rows), "storage": "registers", "ops_per_stage": 2, "fan_in": 4}


ENGINES = {
    "handshake": Engine(HandshakeJoin, _handshake_defaults),
    "nested_loop": Engine(NestedLoopJoin, lambda body: {"ops_per_stage": 2}),
}


def join_pair(body: JoinQuery) -> JoinPair:
    """Return what the hardware sees of a join: only the columns that the query reads."""
    names = (body.left.alias, body.right.alias)
    kept = columns_of(*(output.expr for output in body.outputs))
    read = kept | columns_of(body.predicate)

    def of(source: str, columns: set[tuple[str, str]]) -> set[str]:
        return {name for alias, name in columns if alias == source}

    return JoinPair(
        names=names,
        left=body.left.schema.select(of(names[0], read)),
        right=body.right.schema.select(of(names[1], read)),
        predicate=body.predicate,
        keep_left=tuple(n for n in body.left.schema.names if n in of(names[0], kept)),
        keep_right=tuple(n for n in body.right.schema.names if n in of(names[1], kept)),
    )


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
    if not isinstance(body, JoinQuery) or not isinstance(body.left.window, RowWindow):
        raise JoineryError(f"engine {name} joins row windows ([ROWS n]), and {query.name} has none")
    if not all(isinstance(output.expr, Column) for output in body.outputs):
        raise JoineryError(f"engine {name} selects plain columns, and {query.name} computes some")
    parameters = ENGINES[name].defaults(body)
    for key, value in (settings or {}).items():
        if key not in parameters:
            raise JoineryError(
                f"engine {name} has no parameter {key!r}; it has {', '.join(parameters)}"
            )
        if isinstance(parameters[key], int) and not isinstance(value, int):
            raise JoineryError(f"engine {name}: {key} must be a whole number, not {value!r}")
        parameters[key] = value
    return Plan(query, name, parameters)
