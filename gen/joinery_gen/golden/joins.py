"""Joins: pairs of tuples near each other in row order or in time.

Both kinds of window come down to one question, which tuples (points) lie in the interval that a
tuple of the other stream (probe) opens, and `interval_join` answers it with an equi-join on bins
of the axis. Equalities between the two streams in the predicate are join keys as well.
"""

from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from joinery.expr import Column, Compare, Expr, Logic, columns_of

from ..query import JoinQuery, RowWindow, Source, TimeWindow
from .arrivals import arrival_name, with_own_index
from .expressions import (
    comparable,
    floor_divide,
    named,
    natural_name,
    raw_name,
    to_natural,
    translate,
    whole,
)

LEFT_ARRIVAL = "_left_arrival"
RIGHT_ARRIVAL = "_right_arrival"


@dataclass(frozen=True)
class Condition:
    """A predicate, taken apart: equal key columns of either side, and what is left to test."""

    left_keys: tuple[SparkColumn, ...]
    right_keys: tuple[SparkColumn, ...]
    rest: tuple[Expr, ...]


def split_predicate(query: JoinQuery) -> Condition:
    """Find the conjuncts that equate an expression of one source with one of the other."""
    left_keys, right_keys, rest = [], [], []
    for term in _conjuncts(query.predicate):
        sides = _equated(term, query)
        if sides is None:
            rest.append(term)
        else:
            left, right = comparable(*sides)
            left_keys.append(left)
            right_keys.append(right)
    return Condition(tuple(left_keys), tuple(right_keys), tuple(rest))


def join_frame(query: JoinQuery, left: DataFrame, right: DataFrame, *, arrivals: int) -> DataFrame:
    """Return the result of ``query`` in natural types, with the arrivals of each pair."""
    condition = split_predicate(query)
    keys = tuple(f"_key{number}" for number in range(len(condition.left_keys)))
    for key, left_key, right_key in zip(
        keys, condition.left_keys, condition.right_keys, strict=True
    ):
        left, right = left.withColumn(key, left_key), right.withColumn(key, right_key)
    if isinstance(query.left.window, RowWindow):
        pairs = _row_window_pairs(query, left, right, keys, arrivals)
    else:
        pairs = _time_window_pairs(query, left, right, keys)
    for term in condition.rest:
        pairs = pairs.filter(translate(term))
    return pairs.select(
        *(_output(output.expr).alias(output.name) for output in query.outputs),
        named(arrival_name(query.left)).alias(LEFT_ARRIVAL),
        named(arrival_name(query.right)).alias(RIGHT_ARRIVAL),
    )


def interval_join(
    points: DataFrame,
    point: SparkColumn,
    probes: DataFrame,
    low: SparkColumn,
    high: SparkColumn,
    *,
    length: int,
    keys: tuple[str, ...],
) -> DataFrame:
    """Return each pair with ``low <= point <= high`` and equal ``keys``, exactly once.

    ``length`` is the most whole numbers that an interval holds. A point stands in one bin, a
    probe in every bin that its interval touches.
    """
    # Without keys the candidates are the work: narrow bins follow the interval closely. With keys
    # they are few, and copies of the probes are the work: two wide bins hold an interval.
    size = -(-length // (1 if keys else 4))
    points = points.withColumn("_point", point).withColumn("_bin", floor_divide(point, size))
    probes = probes.withColumn("_low", low).withColumn("_high", high)
    probes = probes.filter("_low <= _high").withColumn(
        "_bin",
        fn.explode(
            fn.sequence(floor_divide(named("_low"), size), floor_divide(named("_high"), size))
        ),
    )
    pairs = points.join(probes, ["_bin", *keys])
    return pairs.filter("_point BETWEEN _low AND _high").drop(
        "_bin", "_point", "_low", "_high", *keys
    )


def _row_window_pairs(
    query: JoinQuery, left: DataFrame, right: DataFrame, keys: tuple[str, ...], arrivals: int
) -> DataFrame:
    """Pair each tuple with those of the other stream's window that it finds at its arrival."""

    def indexed(frame: DataFrame, source: Source) -> DataFrame:
        frame = with_own_index(frame, source, "_own", arrivals=arrivals)
        # The positions are dense, so whatever came before and is not its own is the other's.
        return frame.withColumn("_other", named(arrival_name(source)) - named("_own"))

    def probe(later: DataFrame, earlier: DataFrame, window: Source) -> DataFrame:
        assert isinstance(window.window, RowWindow), "both windows are of one kind"
        rows = max(1, min(window.window.rows, arrivals))
        return interval_join(
            earlier.drop("_other"),
            named("_own"),
            later.drop("_own"),
            fn.greatest(named("_other") - rows, whole(0)),
            named("_other") - 1,
            length=rows,
            keys=keys,
        ).drop("_own", "_other")

    left, right = indexed(left, query.left), indexed(right, query.right)
    return probe(right, left, query.left).unionByName(probe(left, right, query.right))


def _time_window_pairs(
    query: JoinQuery, left: DataFrame, right: DataFrame, keys: tuple[str, ...]
) -> DataFrame:
    """Pair the tuples whose times differ by at most the range, ends included."""

    def time(source: Source) -> SparkColumn:
        assert isinstance(source.window, TimeWindow), "both windows are of one kind"
        return named(raw_name(source.alias, source.window.wattr))

    assert isinstance(query.left.window, TimeWindow)
    reach = query.left.window.range
    return interval_join(
        left,
        time(query.left),
        right,
        time(query.right) - whole(reach),
        time(query.right) + whole(reach),
        length=2 * reach + 1,
        keys=keys,
    )


def _output(expr: Expr) -> SparkColumn:
    if isinstance(expr, Column):
        return named(natural_name(expr.source, expr.name))
    return to_natural(translate(expr), expr.type.column_type)


def _conjuncts(expr: Expr) -> list[Expr]:
    if isinstance(expr, Logic) and expr.op == "AND":
        return [part for term in expr.terms for part in _conjuncts(term)]
    return [expr]


def _equated(term: Expr, query: JoinQuery) -> tuple[Expr, Expr] | None:
    """Return the left source's and the right source's side of an equality, if it is one."""
    if not isinstance(term, Compare) or term.op != "=":
        return None
    for left, right in ((term.left, term.right), (term.right, term.left)):
        if _reads_only(left, query.left) and _reads_only(right, query.right):
            return left, right
    return None


def _reads_only(expr: Expr, source: Source) -> bool:
    return {alias for alias, _ in columns_of(expr)} == {source.alias}
