"""The engines that exist, and which of them a query gets.

A new engine is an entry in ``ENGINES``: the forms of query it takes, its parameters, how it is
built, and its shell.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ..query import JoineryError, Query
from . import aggregates, cards, joins, keyed
from .joins import join_pair
from .model import Engine, Form, Parameter, Plan, Setting, form_of

__all__ = [
    "ENGINES",
    "Engine",
    "Form",
    "Parameter",
    "Plan",
    "engine_for",
    "form_of",
    "join_pair",
    "plan",
]

ENGINES: dict[str, Engine] = {
    **joins.ENGINES,
    **cards.ENGINES,
    **aggregates.ENGINES,
    **keyed.ENGINES,
}

DEFAULT = {
    Form.ROW_JOIN: "handshake",
    Form.TIME_JOIN: "fjoin",
    Form.SLIDING: "panes",
    Form.SLIDING_GROUPED: "panes",
    Form.SLIDING_KEYED: "panes",
    Form.ROWS_KEYED: "mlq",
}
"""The engine for each form of query."""


def plan(
    query: Query,
    engine: str | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    on_board: bool = False,
) -> Plan:
    """Choose the engine and its parameters; ``settings`` overrides the defaults.

    With ``on_board``, these are the defaults for a design behind a link, alone on its chip.
    """
    name, entry = engine_for(query, engine)
    if form_of(query.body) not in entry.forms:
        takes = " or ".join(form.value for form in entry.forms)
        raise JoineryError(
            f"engine {name} takes {takes}, and {query.name} is {form_of(query.body).value}"
        )
    known = entry.parameters_for(query)
    parameters: dict[str, Setting] = {}
    for key, parameter in known.items():
        default = parameter.default_for(query)
        if default is not None:
            parameters[key] = default
    others = entry.on_board(query) if on_board else {}
    for key, value in {**others, **(settings or {})}.items():
        if key not in known:
            raise JoineryError(f"engine {name} has no parameter {key!r}; it has {', '.join(known)}")
        try:
            parameters[key] = known[key].read(value)
        except ValueError as error:
            raise JoineryError(f"engine {name}: {key} {error}") from None
    return Plan(query, name, parameters, entry)


def engine_for(query: Query, engine: str | None = None) -> tuple[str, Engine]:
    """Return the engine that has this name, or the one that the query gets."""
    name = engine or _default(query)
    return name, _entry(name)


def _default(query: Query) -> str:
    """The engine for the form, but for a median: it takes one that keeps every tuple."""
    form = form_of(query.body)
    outputs = [output for part in query.parts for output in part.body.outputs]
    if any(getattr(each, "function", "") == "median" for each in outputs):
        return "mlq" if form in ENGINES["mlq"].forms else DEFAULT[form]
    return DEFAULT[form]


def _entry(name: str) -> Engine:
    if name in ENGINES:
        return ENGINES[name]
    close = get_close_matches(name, list(ENGINES), 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise JoineryError(f"There is no engine {name!r}; these exist: {', '.join(ENGINES)}.{hint}")
