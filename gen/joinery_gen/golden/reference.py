"""The meaning of a query, by brute force: the definitions of the design, word for word.

The Spark job is tested against this, so the two share nothing, and nothing here is clever: every
tuple is held against every other one, and every window against every tuple.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from joinery.expr import Expr, evaluate

from ..manifest import PUNCTUATION
from ..query import (
    AVG_EXTRA_DIGITS,
    AggregateOutput,
    AggregateQuery,
    JoinQuery,
    KeyedRowWindow,
    KeyOutput,
    Query,
    RowWindow,
    SlidingWindow,
    TimeWindow,
    WindowEndOutput,
)

Values: TypeAlias = Mapping[str, int]
Tuple: TypeAlias = tuple[int, Values]  # arrival position, raw value of each column
Row: TypeAlias = tuple[int, ...]  # raw value of each output


def reference(query: Query, rows: Mapping[str, Sequence[Tuple]]) -> tuple[list[Row], int]:
    """Return the result rows of ``query``, in no particular order, and the number of late tuples.

    ``rows`` has the tuples of each source alias, in arrival order. One with a column
    ``_punctuation`` that is not 0 is a punctuation: it moves the watermark, and counts nowhere.
    """
    if isinstance(query.body, JoinQuery):
        return list(_join(query.body, rows)), 0
    stream = rows[query.body.source.alias]
    if isinstance(query.body.source.window, KeyedRowWindow):
        return list(_keyed_rows(query.body, query.body.source.window, stream)), 0
    assert isinstance(query.body.source.window, SlidingWindow)
    return _sliding(query.body, query.body.source.window, stream)


def _join(query: JoinQuery, rows: Mapping[str, Sequence[Tuple]]) -> Iterator[Row]:
    left, right = rows[query.left.alias], rows[query.right.alias]
    for r in left:
        for s in right:
            if isinstance(query.left.window, RowWindow):
                near = _met_in_rows(query, left, right, r, s)
            else:
                near = _met_in_time(query, r, s)
            pair = {
                **{(query.left.alias, name): value for name, value in r[1].items()},
                **{(query.right.alias, name): value for name, value in s[1].items()},
            }
            if near and evaluate(query.predicate, pair):
                yield tuple(evaluate(output.expr, pair) for output in query.outputs)


def _met_in_rows(
    query: JoinQuery, left: Sequence[Tuple], right: Sequence[Tuple], r: Tuple, s: Tuple
) -> bool:
    """Does the later one, at its arrival, find the earlier among the last tuples of its stream?"""
    source, stream, earlier, later = (
        (query.left, left, r, s) if r[0] < s[0] else (query.right, right, s, r)
    )
    assert isinstance(source.window, RowWindow)
    arrived = [arrival for arrival, _ in stream if arrival < later[0]]
    return earlier[0] in arrived[-source.window.rows :]


def _met_in_time(query: JoinQuery, r: Tuple, s: Tuple) -> bool:
    left, right = query.left.window, query.right.window
    assert isinstance(left, TimeWindow)
    assert isinstance(right, TimeWindow)
    return abs(r[1][left.wattr] - s[1][right.wattr]) <= left.range


def _sliding(
    query: AggregateQuery, window: SlidingWindow, stream: Sequence[Tuple]
) -> tuple[list[Row], int]:
    kept: list[Values] = []
    late = 0
    latest: int | None = None
    for _, values in stream:
        time = values[window.wattr]
        pane_end = (time // window.pane + 1) * window.pane
        if _passes(query, values):
            if latest is not None and pane_end <= latest - window.slack:
                late += 1
            else:
                kept.append(values)
        latest = time if latest is None else max(latest, time)
    found: dict[tuple[int, Row], list[Values]] = {}
    for values in kept:
        time = values[window.wattr]
        start = time // window.slide * window.slide
        while start + window.range > time:
            found.setdefault((start, _key(query, values)), []).append(values)
            start -= window.slide
    return [
        _report(query, members, end=start + window.range) for (start, _), members in found.items()
    ], late


def _keyed_rows(
    query: AggregateQuery, window: KeyedRowWindow, stream: Sequence[Tuple]
) -> Iterator[Row]:
    history: dict[Row, list[Values]] = {}
    for _, values in stream:
        if not _passes(query, values):
            continue
        seen = history.setdefault(_key(query, values), [])
        seen.append(values)
        more = len(seen) - window.rows
        if more >= 0 and more % window.slide == 0:
            yield _report(query, seen[-window.rows :], end=None)


def _passes(query: AggregateQuery, values: Values) -> bool:
    if values.get(PUNCTUATION):
        return False
    return query.where is None or bool(_evaluate(query, query.where, values))


def _key(query: AggregateQuery, values: Values) -> Row:
    return tuple(values[column.name] for column in query.group_by)


def _evaluate(query: AggregateQuery, expr: Expr, values: Values) -> int:
    return evaluate(expr, {(query.source.alias, name): value for name, value in values.items()})


def _report(query: AggregateQuery, members: Sequence[Values], *, end: int | None) -> Row:
    def value(output: KeyOutput | WindowEndOutput | AggregateOutput) -> int:
        match output:
            case KeyOutput():
                return members[0][output.column.name]
            case WindowEndOutput():
                assert end is not None
                return end
            case AggregateOutput(argument=None):
                return len(members)
            case AggregateOutput(argument=argument):
                assert argument is not None
                return _aggregate(
                    output.function, [_evaluate(query, argument, values) for values in members]
                )

    return tuple(value(output) for output in query.outputs)


def _aggregate(function: str, values: Sequence[int]) -> int:
    match function:
        case "count":
            return len(values)
        case "sum":
            return sum(values)
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "avg":
            exact = Fraction(sum(values), len(values)) * 10**AVG_EXTRA_DIGITS
            away = int(abs(exact) + Fraction(1, 2))
            return away if exact >= 0 else -away
        case "median":
            ordered = sorted(values)
            low, high = ordered[(len(values) - 1) // 2], ordered[len(values) // 2]
            return (low + high) * 10 // 2
    raise ValueError(f"Unknown aggregate {function!r}")
