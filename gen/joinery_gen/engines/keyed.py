# amaranth: UnusedElaboratable=no
# (a plan that is refused leaves an engine half made)
"""The engine for windows of very many keys: `mlq`, and the memories of its levels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from amaranth.lib import wiring

from joinery.aggregate import RowQuery, RowStream
from joinery.axi import AggregateShell, Shell
from joinery.expr import columns_of
from joinery.mlq import KeyedAggregation, TimedAggregation, kept_columns, time_windows

from ..mlq.levels import LevelPlan, plan_levels, timing_of
from ..mlq.model import Problem
from ..mlq.simulated import SimulatedTop
from ..query import AggregateQuery, KeyedRowWindow, Query
from .aggregates import KEYED, aggregate_shell, aggregates_of, pane_queries, pane_stream
from .model import Engine, Form, Parameter, Plan, form_of

__all__ = ["ENGINES", "level_plan", "row_query", "row_stream"]


def _window(query: Query) -> tuple[AggregateQuery, KeyedRowWindow]:
    body = query.body
    assert isinstance(body, AggregateQuery), "the form has been checked"
    window = body.source.window
    assert isinstance(window, KeyedRowWindow), "the form has been checked"
    return body, window


def row_query(query: Query) -> RowQuery:
    """Return what is computed of the stream."""
    body, window = _window(query)
    return RowQuery(body.where, aggregates_of(body), window.rows, window.slide)


def row_stream(query: Query) -> RowStream:
    """Return the stream as the hardware sees it: only the columns that the query reads."""
    body, _ = _window(query)
    keys = tuple(column.name for column in body.group_by)
    read = {name for _, name in columns_of(*row_query(query).expressions)}
    return RowStream(body.source.alias, body.source.schema.select({*keys, *read}), keys)


def level_plan(plan: Plan) -> LevelPlan:
    """Return the memory levels of a plan, or refuse it with the nearest that would fit."""
    keys, levels = plan.parameters["keys"], plan.parameters.get("levels")
    if not isinstance(keys, int) or keys < 1:
        raise ValueError(f"The keys must be a positive integer, not {keys!r}")
    slots = 1 << (keys - 1).bit_length()
    problem = _row_problem(plan, slots) if _of_rows(plan) else _time_problem(plan, slots)
    return plan_levels(problem, None if levels is None else str(levels))


def _of_rows(plan: Plan) -> bool:
    return form_of(plan.query.body) == Form.ROWS_KEYED


def _row_problem(plan: Plan, slots: int) -> Problem:
    computed = row_query(plan.query)
    size = -(-kept_columns(computed).size // 8)
    return Problem(slots, computed.rows, computed.slide, size)


def _time_problem(plan: Plan, slots: int) -> Problem:
    """The same for windows of time, as if the tuples of a key came at equal distances."""
    rows = plan.parameters["rows"]
    if not isinstance(rows, int) or rows < 1:
        raise ValueError(f"The most rows of a key must be a positive integer, not {rows!r}")
    source, query = pane_stream(plan.query), pane_queries(plan.query)[0]
    kept = time_windows(source, query).kept(kept_columns(query))
    slide = max(1, rows * query.slide // query.range)
    return Problem(slots, rows, slide, -(-kept.size // 8))


def _build(plan: Plan) -> KeyedAggregation | TimedAggregation:
    settings: dict[str, Any] = dict(plan.parameters)
    chosen = level_plan(plan)
    del settings["keys"]
    settings.pop("levels", None)
    settings["ways"] = min(settings["ways"], chosen.problem.keys)
    settings["levels"] = chosen.levels
    settings["slots"] = chosen.problem.keys
    settings["outside"] = {level: memory.name for level, memory in chosen.outside.items()}
    if _of_rows(plan):
        return KeyedAggregation(row_stream(plan.query), [row_query(plan.query)], **settings)
    return TimedAggregation(pane_stream(plan.query), pane_queries(plan.query), **settings)


def _model(plan: Plan) -> dict[str, dict[str, Any]]:
    chosen = level_plan(plan)
    if not _of_rows(plan):  # how often windows close depends on the times
        return {"memory": chosen.describe_sizes()}
    cycles = round(chosen.prediction.cycles, 3)
    return {"cycles": {"per_transfer": cycles}, "memory": chosen.describe()}


def _simulated(plan: Plan, shell: Shell) -> wiring.Component | None:
    assert isinstance(shell, AggregateShell)
    chosen = level_plan(plan).memories
    memories = [(pins, timing_of(chosen[pins.channel.level])) for pins in shell.memories]
    return SimulatedTop(shell, memories) if memories else None


def changed(query: Query, values: Mapping[str, int]) -> Query:
    """Return the query that a build of ``query`` runs when settings have these values."""
    body, window = _window(query)
    window = replace(
        window, rows=values.get("rows", window.rows), slide=values.get("slide", window.slide)
    )
    return replace(query, body=replace(body, source=replace(body.source, window=window)))


MLQ = {
    "keys": Parameter("number", 1024, "keys that have room, rounded up to a power of two"),
    "levels": Parameter("word", None, "memories, the fastest first, such as bram+qdr+dram"),
    "ways": Parameter("number", 4, "places that a key may take, a power of two"),
    "rows": Parameter("number", 256, "the most tuples of a key in open windows", KEYED),
    "runtime": Parameter("number", None, "1: ROWS and SLIDE can be changed", (Form.ROWS_KEYED,)),
}
ENGINES = {
    "mlq": Engine(
        (Form.ROWS_KEYED, *KEYED),
        _build,
        aggregate_shell,
        MLQ,
        {
            TimedAggregation.ROOM: "raise rows with --set, or lower a setting that was asked for",
            TimedAggregation.PLACE: "raise keys or ways with --set",
        },
        changed,
        model=_model,
        simulated=_simulated,
        on_board=lambda query: {"levels": "bram"},
    ),
}
