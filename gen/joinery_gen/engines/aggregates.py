# amaranth: UnusedElaboratable=no
# (a plan that is refused leaves an engine half made)
"""The engines for aggregates over one stream: `panes`, and its baselines `wid` and `glacier`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from joinery.aggregate import Aggregate, AggregateEngine, PaneQuery, PaneStream
from joinery.axi import AggregateShell, Identity, Report, ReportColumn
from joinery.expr import Const, Expr, columns_of
from joinery.expr.simplify import with_operands
from joinery.open_windows import GlacierAggregation, WIDAggregation
from joinery.panes import PaneAggregation
from joinery.panes.settings import PaneSettings, Register

from ..query import (
    AVG_EXTRA_DIGITS,
    AggregateOutput,
    AggregateQuery,
    KeyOutput,
    Query,
    SlidingWindow,
    WindowEndOutput,
    share_panes,
)
from .model import Engine, Form, Parameter, Plan

__all__ = ["ENGINES", "aggregate_shell", "aggregates_of", "pane_queries", "pane_stream"]


def _bodies(query: Query) -> list[AggregateQuery]:
    bodies = [part.body for part in query.parts]
    assert all(isinstance(body, AggregateQuery) for body in bodies), "the form has been checked"
    return bodies  # type: ignore[return-value] # see above


def pane_stream(query: Query) -> PaneStream:
    """Return the stream as the hardware sees it: only the columns that the queries read."""
    bodies = _bodies(query)
    source = bodies[0].source
    assert isinstance(source.window, SlidingWindow)
    arguments = [
        output.argument
        for body in bodies
        for output in body.outputs
        if isinstance(output, AggregateOutput) and output.argument is not None
    ]
    conditions = [body.where for body in bodies if body.where is not None]
    keys = tuple(column.name for column in bodies[0].group_by)
    read = {name for _, name in columns_of(*arguments, *conditions)}
    schema = source.schema.select({source.window.wattr, *keys, *read})
    return PaneStream(source.alias, schema, source.window.wattr, source.window.slack, keys)


def pane_queries(query: Query) -> list[PaneQuery]:
    """Return what is computed of the stream, for each SELECT."""
    return [_pane_query(body) for body in _bodies(query)]


def _pane_query(body: AggregateQuery) -> PaneQuery:
    window = body.source.window
    assert isinstance(window, SlidingWindow)
    return PaneQuery(body.where, aggregates_of(body), window.range, window.slide)


def aggregates_of(body: AggregateQuery) -> tuple[Aggregate, ...]:
    """Return the aggregates of a SELECT list."""
    return tuple(
        Aggregate(output.name, output.function, output.argument)
        for output in body.outputs
        if isinstance(output, AggregateOutput)
    )


def aggregate_shell(plan: Plan, engine: AggregateEngine, identity: Identity) -> AggregateShell:
    """Put an engine for aggregates into its shell, which tells the columns of each SELECT."""
    reports = [
        Report(part.name, tuple(_report(output) for output in body.outputs))
        for part, body in zip(plan.query.parts, _bodies(plan.query), strict=True)
    ]
    return AggregateShell(engine, identity, reports)


def _report(output: KeyOutput | WindowEndOutput | AggregateOutput) -> ReportColumn:
    match output:
        case KeyOutput():
            return ReportColumn(output.name, output.type, ("key", output.column.name))
        case WindowEndOutput():
            return ReportColumn(output.name, output.type, ("end_time",), "end")
        case AggregateOutput(function="avg"):
            path = ("value", output.name)
            return ReportColumn(output.name, output.type, path, "quotient", AVG_EXTRA_DIGITS)
        case AggregateOutput(function="median"):
            return ReportColumn(output.name, output.type, ("value", output.name), "mean")
    return ReportColumn(output.name, output.type, ("value", output.name))


def changed(query: Query, values: Mapping[str, int]) -> Query:
    """Return the query that a build of ``query`` runs when settings have these values."""
    settings = PaneSettings(pane_stream(query), tuple(pane_queries(query)))
    bodies = []
    for number, (body, opened) in enumerate(zip(_bodies(query), settings.queries, strict=True)):
        window = body.source.window
        assert isinstance(window, SlidingWindow)
        length, slide = settings.of_query(number)
        window = replace(
            window,
            range=values.get(length, window.range),
            slide=values.get(slide, window.slide),
            slack=values.get("slack", window.slack),
        )
        where = None if opened.where is None else _closed(opened.where, values)
        source = replace(body.source, window=window)
        bodies.append(replace(body, source=source, where=where))
    first, *more = share_panes(bodies) if query.more else bodies
    return replace(query, body=first, more=tuple(more))


def _closed(expr: Expr, values: Mapping[str, int]) -> Expr:
    """Put constants where ``expr`` has registers."""
    if isinstance(expr, Register):
        return Const(values.get(expr.name, expr.initial), expr.kind)
    if not expr.operands:
        return expr
    return with_operands(expr, [_closed(operand, values) for operand in expr.operands])


def _builder(engine: Callable[..., AggregateEngine]) -> Callable[[Plan], AggregateEngine]:
    """Return what builds ``engine`` from a plan."""

    def build(plan: Plan) -> AggregateEngine:
        settings: dict[str, Any] = dict(plan.parameters)
        return engine(pane_stream(plan.query), pane_queries(plan.query), **settings)

    return build


SUM_ROWS = Parameter("number", None, "the most rows of a window; sums are as wide as needed")
KEYED = (Form.SLIDING_GROUPED, Form.SLIDING_KEYED)
PANES = {
    "lanes": Parameter("number", 1, "tuples per cycle: 1, 2, 4 or 8"),
    "wlq": Parameter("word", "parallel", "parallel takes a pane per cycle; or sequential"),
    "slots": Parameter("number", None, "panes that may be open or wait, a power of two"),
    "runtime": Parameter("number", None, "1: RANGE, SLIDE, SLACK and constants can be changed"),
    "keys": Parameter("number", 64, "the most keys; a pane takes as many cycles", KEYED),
    "sum_rows": SUM_ROWS,
}
ADVICE = {
    AggregateEngine.ROWS: "raise sum_rows with --set",
    AggregateEngine.KEYS: "raise keys with --set",
    AggregateEngine.ORDER: "take an engine other than glacier",
}
ENGINES = {
    "panes": Engine(
        (Form.SLIDING, *KEYED), _builder(PaneAggregation), aggregate_shell, PANES, ADVICE, changed
    ),
    "wid": Engine(
        (Form.SLIDING,),
        _builder(WIDAggregation),
        aggregate_shell,
        {"sum_rows": SUM_ROWS},
        ADVICE,
    ),
    "glacier": Engine(
        (Form.SLIDING,),
        _builder(GlacierAggregation),
        aggregate_shell,
        {"sum_rows": SUM_ROWS},
        ADVICE,
    ),
}
