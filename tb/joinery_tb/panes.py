"""Sliding-window aggregates in plain Python, straight from their definition, and a bench for them.

An *item* of the input is a tuple (a dict of raw values), or a time alone (a punctuation).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from joinery.aggregate import AggregateEngine, PaneQuery, PaneStream
from joinery.expr import Expr, evaluate

from .simulate import Stall, run_stream

__all__ = ["Found", "Item", "expected_rows", "items_to_transfers", "run_engine"]

Item = dict[str, int] | int
Row = tuple[Any, ...]
"""``(end_time, key, value, ...)``; the value of ``avg`` is ``(sum, count)``."""


class Found(NamedTuple):
    """What an engine did: rows and late tuples of each query, for each input in turn."""

    rows: list[list[list[Row]]]
    late: list[int]
    stalled: int
    errors: int
    cycles: int


def expected_rows(
    source: PaneStream, query: PaneQuery, items: Sequence[Item], *, pane: int
) -> tuple[Counter[Row], int]:
    """Return the rows of ``query`` and the number of late tuples: every tuple in every window."""
    kept: list[dict[str, int]] = []
    late, latest = 0, None
    for item in items:
        time = item if isinstance(item, int) else item[source.time]
        if not isinstance(item, int) and _holds(source, query.where, item):
            if latest is not None and (time // pane + 1) * pane <= latest - source.slack:
                late += 1
            else:
                kept.append(item)
        latest = time if latest is None else max(latest, time)
    windows: dict[tuple[int, Row], list[dict[str, int]]] = {}
    for item in kept:
        start = item[source.time] // query.slide * query.slide
        while start + query.range > item[source.time]:
            key = tuple(item[name] for name in source.keys)
            windows.setdefault((start + query.range, key), []).append(item)
            start -= query.slide
    found: Counter[Row] = Counter()
    for (end, key), members in windows.items():
        values = [
            _aggregate(each.function, [_value(source, each.argument, item) for item in members])
            for each in query.aggregates
        ]
        found[end, key, *values] += 1
    return found, late


def _holds(source: PaneStream, where: Expr | None, item: dict[str, int]) -> bool:
    return where is None or bool(_value(source, where, item))


def _value(source: PaneStream, expr: Expr | None, item: dict[str, int]) -> int:
    if expr is None:
        return 0
    return evaluate(expr, {(source.name, name): value for name, value in item.items()})


def _aggregate(function: str, values: Sequence[int]) -> Any:
    match function:
        case "count":
            return len(values)
        case "avg":
            return sum(values), len(values)
    if function == "sum":
        return sum(values)
    return min(values) if function == "min" else max(values)


def items_to_transfers(
    source: PaneStream, items: Sequence[Item], *, lanes: int = 1, gaps: Sequence[int] = ()
) -> list[dict[str, Any]]:
    """Fill transfers with items, lane 0 first, and add the end.

    ``gaps`` are item numbers that begin a new transfer, so that some lanes stay empty.
    """
    blank = dict.fromkeys(source.schema.names, 0)
    groups: list[list[Item]] = []
    for number, item in enumerate(items):
        if not groups or len(groups[-1]) == lanes or number in gaps:
            groups.append([])
        groups[-1].append(item)
    transfers = []
    for group in groups:
        filled = []
        for item in group:
            mark = isinstance(item, int)
            values = blank | {source.time: item} if isinstance(item, int) else item
            filled.append({"valid": 1, "punctuation": int(mark), "tuple": values})
        empty = {"valid": 0, "punctuation": 0, "tuple": blank}
        transfers.append({"end": 0, "lanes": filled + [empty] * (lanes - len(group))})
    end = {"valid": 0, "punctuation": 0, "tuple": blank}
    return [*transfers, {"end": 1, "lanes": [end] * lanes}]


def run_engine(
    engine: AggregateEngine,
    inputs: Sequence[Sequence[dict[str, Any]]],
    *,
    stall_in: Stall = 0.0,
    stall_out: Stall = 0.0,
    seed: int = 0,
    idle: int = 200,
    act: Callable[[Any], None] | None = None,
) -> Found:
    """Send inputs, each a list of transfers that ends with the end, one after the other.

    ``act`` is called with the simulator's context in every cycle, and may set what is no stream.
    """
    late = [0] * len(engine.queries)
    seen = {"stalled": 0, "errors": 0}

    def watch(ctx: Any) -> None:
        if act is not None:
            act(ctx)
        for k in range(len(late)):
            late[k] += ctx.get(engine.late[k])
        seen["stalled"] += ctx.get(engine.stalled)
        seen["errors"] |= ctx.get(engine.errors)

    run = run_stream(
        engine, {"i": [each for transfers in inputs for each in transfers]},
        stall_in=stall_in, stall_out=stall_out, seed=seed, idle=idle, watch=watch,
    )  # fmt: skip
    results: list[list[list[Row]]] = [[[] for _ in engine.queries]]
    for payload in run.outputs["o"]:
        if payload["end"]:
            assert not any(place["valid"] for place in payload["rows"])
            results.append([[] for _ in engine.queries])
            continue
        assert any(place["valid"] for place in payload["rows"])
        for k, place in enumerate(payload["rows"]):
            if place["valid"]:
                results[-1][k].append(_row(place["row"][f"query_{k}"]))
    assert not any(results.pop()), "rows after the last end"
    assert len(results) == len(inputs), "an end is missing"
    return Found(results, late, seen["stalled"], seen["errors"], run.cycles)


def _row(row: dict[str, Any]) -> Row:
    def plain(value: Any) -> Any:
        return (value["sum"], value["count"]) if isinstance(value, dict) else value

    key = tuple(row["key"].values()) if "key" in row else ()
    return row["end_time"], key, *(plain(value) for value in row["value"].values())
