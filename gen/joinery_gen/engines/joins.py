# amaranth: UnusedElaboratable=no
# (a plan that is refused leaves an engine half made)
"""The engines that join two streams behind an AXI4-Stream: `handshake` and `nested_loop`."""

from collections.abc import Callable
from typing import Any

from joinery.axi import Identity, JoinShell
from joinery.expr import Abs, Arith, Column, Compare, Const, Expr, columns_of
from joinery.handshake import HandshakeJoin
from joinery.join import JoinEngine, JoinPair, TimeBound
from joinery.nested_loop import NestedLoopJoin

from ..parse_expr import logic
from ..query import JoinQuery, Query, RowWindow, Source, TimeWindow
from .model import JOINS, Engine, Form, Parameter, Plan

__all__ = ["ENGINES", "join_pair", "time_bound"]

CAPACITY = 1024
"""Tuples of each stream that an engine of row windows keeps for a time window, if nobody says."""


def _rows(source: Source) -> int:
    """The rows of a source's window: as many as it says, or as can be kept of a time window."""
    return source.window.rows if isinstance(source.window, RowWindow) else CAPACITY


def _cores(query: Query) -> int:
    return min(16, *map(_rows, query.sources))


COMMON = {
    "ops_per_stage": Parameter("number", 2, "operators between two registers of the predicate"),
    "queue_depth": Parameter("number", None, "rounds of matches that a core holds per direction"),
    "rows_left": Parameter(
        "number", CAPACITY, "tuples kept of the first stream's time window", (Form.TIME_JOIN,)
    ),
    "rows_right": Parameter(
        "number", CAPACITY, "tuples kept of the second stream's time window", (Form.TIME_JOIN,)
    ),
}
HANDSHAKE = {
    "cores": Parameter("number", _cores, "join cores"),
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
}


def _builder(engine: Callable[..., JoinEngine]) -> Callable[[Plan], JoinEngine]:
    """Return what builds ``engine`` from a plan."""

    def build(plan: Plan) -> JoinEngine:
        body = plan.query.body
        assert isinstance(body, JoinQuery)
        windows = dict(zip(("rows_left", "rows_right"), body.sources, strict=True))
        rows = {
            name: source.window.rows
            for name, source in windows.items()
            if isinstance(source.window, RowWindow)
        }
        settings: dict[str, Any] = {**rows, **plan.parameters}
        return engine(join_pair(body), bound=time_bound(body), **settings)

    return build


def _shell(plan: Plan, engine: JoinEngine, identity: Identity) -> JoinShell:
    body = plan.query.body
    assert isinstance(body, JoinQuery)
    columns = {output.name: (output.expr, output.type) for output in body.outputs}
    return JoinShell(engine, identity, columns)


ADVICE = {
    0: "raise rows_left and rows_right with --set",
    1: "raise the SLACK of the query",
}
ENGINES = {
    "handshake": Engine(JOINS, _builder(HandshakeJoin), _shell, HANDSHAKE, ADVICE),
    "nested_loop": Engine(JOINS, _builder(NestedLoopJoin), _shell, COMMON, ADVICE),
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
