"""What an engine says of itself, so that nothing else needs to know it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from amaranth.lib import wiring

from joinery.axi import Identity, Shell

from ..query import (
    AggregateQuery,
    JoineryError,
    JoinQuery,
    KeyedRowWindow,
    Query,
    RowWindow,
)

__all__ = ["Engine", "Form", "Parameter", "Plan", "Setting", "form_of"]

Setting = int | str | list[int]


class Form(Enum):
    """The forms of a query's body; each engine takes some of them. The values are for people."""

    ROW_JOIN = "a join over row windows"
    TIME_JOIN = "a join over time windows"
    SLIDING = "an aggregate over time windows"
    SLIDING_GROUPED = "an aggregate over time windows with GROUP BY"
    SLIDING_KEYED = "an aggregate over time windows with PARTITION BY"
    ROWS_KEYED = "an aggregate over row windows with PARTITION BY"


JOINS = (Form.ROW_JOIN, Form.TIME_JOIN)


def form_of(body: JoinQuery | AggregateQuery) -> Form:
    """Return the form of a query's body."""
    if isinstance(body, JoinQuery):
        return Form.ROW_JOIN if isinstance(body.left.window, RowWindow) else Form.TIME_JOIN
    if isinstance(body.source.window, KeyedRowWindow):
        return Form.ROWS_KEYED
    if body.partitioned:
        return Form.SLIDING_KEYED
    return Form.SLIDING_GROUPED if body.group_by else Form.SLIDING


@dataclass(frozen=True)
class Parameter:
    """A parameter of an engine: a ``number``, a ``word``, or ``numbers``, one or several.

    ``default`` may depend on the query; None leaves the value to the engine. With ``forms``, only
    queries of these forms have the parameter.
    """

    kind: str
    default: Setting | Callable[[Query], Setting | None] | None
    help: str
    forms: tuple[Form, ...] = tuple(Form)

    def default_for(self, query: Query) -> Setting | None:
        return self.default(query) if callable(self.default) else self.default

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
    """How to build one engine, and what can be set.

    ``build`` makes the bare component of a plan, whose ``predicted`` tells cycles and resources.
    ``shell`` puts it into a top: a ``StreamShell``, or any other ``Shell``. Both may raise
    ``ValueError`` for a parameter that does not fit. ``advice`` says what to do about an error, by
    its bit, and ``changed`` what a query is once settings of the built design have other values.
    With ``host``, the engine works on memory for a program that has settings of its own. ``model``
    adds to what the hardware itself predicts, group by group. ``simulated`` puts the module ``top``
    between simulated memories, where it leaves memories outside. ``on_board`` has the defaults that
    are others where the design is all there is on a chip.
    """

    forms: tuple[Form, ...]
    build: "Callable[[Plan], Any]"
    shell: "Callable[[Plan, Any, Identity], Shell]"
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    advice: Mapping[int, str] = field(default_factory=dict)
    changed: "Callable[[Query, Mapping[str, int]], Query] | None" = None
    host: bool = False
    model: "Callable[[Plan], Mapping[str, Mapping[str, Any]]] | None" = None
    simulated: "Callable[[Plan, Shell], wiring.Component | None] | None" = None
    on_board: "Callable[[Query], Mapping[str, Setting]]" = lambda query: {}

    def parameters_for(self, query: Query) -> dict[str, Parameter]:
        form = form_of(query.body)
        return {name: each for name, each in self.parameters.items() if form in each.forms}


@dataclass(frozen=True)
class Plan:
    """A query, the engine chosen for it, and the engine's parameters as far as they are fixed."""

    query: Query
    engine: str
    parameters: Mapping[str, Setting]
    entry: Engine

    def build(self) -> Any:
        """Return the hardware, without a shell."""
        try:
            return self.entry.build(self)
        except ValueError as error:
            raise JoineryError(f"engine {self.engine}: {error}") from None

    def predict(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return what hardware predicts of itself (``found``), and what the model adds to that."""
        more = self.entry.model(self) if self.entry.model else {}
        return {**found, **{group: {**found.get(group, {}), **more[group]} for group in more}}

    def simulated(self, shell: Shell) -> wiring.Component | None:
        """Return the core with the memories that it leaves outside, or None where it has all."""
        return self.entry.simulated(self, shell) if self.entry.simulated else None

    def shell(self, identity: Identity) -> Shell:
        """Return the hardware in its shell."""
        engine = self.build()
        try:
            return self.entry.shell(self, engine, identity)
        except ValueError as error:
            raise JoineryError(f"engine {self.engine}: {error}") from None
