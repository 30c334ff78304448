"""Aggregates: sliding time windows, and row windows per key.

A row window is a sliding window over the numbers of a key's tuples, so both forms share one path:
tuples are summed up per pane (the greatest stretch that no window cuts), and panes per window.
Each aggregate says how it does either, and how it ends.
"""

from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from joinery.expr import Number

from ..query import (
    AVG_EXTRA_DIGITS,
    AggregateOutput,
    AggregateQuery,
    KeyedRowWindow,
    KeyOutput,
    SlidingWindow,
    WindowEndOutput,
)
from .arrivals import arrival_name, only_tuples, with_latest_before, with_own_index
from .expressions import (
    LONG,
    WIDE,
    floor_divide,
    named,
    number_type,
    raw_name,
    to_natural,
    to_raw,
    translate,
    whole,
)

COUNT = "_count"
POSITION = "_position"  # where a tuple lies on the axis of its windows
WINDOW = "_window"  # k of the window that starts at k * slide
LIFE = "_life"  # how many times the key had been evicted before the tuple


@dataclass(frozen=True)
class Measure:
    """One aggregate of the query; ``name`` is its column on the way, ``rows`` bounds the count."""

    name: str
    output: AggregateOutput
    rows: int

    @property
    def argument(self) -> SparkColumn:
        assert self.output.argument is not None, "only count goes without"
        return translate(self.output.argument)

    def of_tuples(self) -> SparkColumn:
        """The aggregate of a pane's tuples."""
        match self.output.function:
            case "count":
                return fn.count(fn.lit(1))
            case "min":
                return fn.min(self.argument)
            case "max":
                return fn.max(self.argument)
            case "sum" | "avg":
                return fn.sum(self.argument.cast(self._sum_type()))
            case "median":
                return fn.collect_list(self.argument)
        raise ValueError(f"Unknown aggregate {self.output.function!r}")

    def of_panes(self) -> SparkColumn:
        """The aggregate of a window's panes."""
        panes = named(self.name)
        match self.output.function:
            case "min":
                return fn.min(panes)
            case "max":
                return fn.max(panes)
            case "median":
                return fn.flatten(fn.collect_list(panes))
            case _:
                return fn.sum(panes)

    def result(self) -> SparkColumn:
        """The raw result of a window."""
        total = named(self.name)
        match self.output.function:
            case "avg":
                return rounded_quotient(total, named(COUNT), AVG_EXTRA_DIGITS)
            case "median":
                return ten_medians(total)
            case _:
                return total

    def _sum_type(self) -> str:
        assert self.output.argument is not None
        number = self.output.argument.type
        assert isinstance(number, Number), "only numbers are summed"
        return number_type(number, Number(number.low * self.rows, number.high * self.rows))


@dataclass(frozen=True)
class AggregateFrames:
    """The result in natural types, and the late tuples (None where none can be).

    ``misreported`` has the evictions that cannot have been as they were reported.
    """

    result: DataFrame
    late: DataFrame | None
    misreported: DataFrame | None = None


def aggregate_frames(
    query: AggregateQuery,
    tuples: DataFrame,
    *,
    arrivals: int,
    evictions: DataFrame | None = None,
) -> AggregateFrames:
    """Return the result of ``query`` over the ``tuples`` of its source.

    ``evictions`` are those that a design reported: a key that was evicted starts anew.
    """
    window = query.source.window
    if isinstance(window, KeyedRowWindow):
        kept = _kept(query, tuples)
        if evictions is None:
            lives, misreported = kept.withColumn(LIFE, fn.lit(0)), None
        else:
            lives, misreported = _with_lives(query, window, kept, evictions, arrivals)
        placed = _by_number(query, lives)
        windows = _windows(query, placed, window.rows, window.slide, arrivals, first=0)
        full = windows.filter(named(COUNT) == window.rows)  # not past the key's last tuple
        return AggregateFrames(_outputs(query, full, arrivals), None, misreported)
    assert isinstance(window, SlidingWindow), "an aggregate has one of two windows"
    placed, late = _by_time(query, tuples, window, arrivals)
    windows = _windows(query, placed, window.range, window.slide, arrivals)
    return AggregateFrames(_outputs(query, windows, arrivals), late)


def rounded_quotient(total: SparkColumn, count: SparkColumn, digits: int) -> SparkColumn:
    """Return ``total / count`` times ``10 ** digits``, rounded half away from zero, exactly.

    Spark's decimal division is exact only where it comes out even within the digits of its result,
    so only even divisions are left to it. A quotient of more than 28 digits stops the job.
    """
    size, by = fn.abs(total.cast(WIDE)), count.cast("decimal(20,0)")
    rest = size % by
    twice = by * whole(2)
    doubled = rest * whole(2 * 10**digits, WIDE) + by
    units = _even_quotient(size - rest, by) * whole(10**digits, WIDE)
    fraction = _even_quotient(doubled - doubled % twice, twice)
    quotient = (units + fraction).cast(WIDE)
    return fn.when(total < 0, -quotient).otherwise(quotient)


def ten_medians(values: SparkColumn) -> SparkColumn:
    """Return ten times the median of an array: five times the sum of the middle two."""
    ordered = fn.array_sort(values)
    low = fn.call_function("div", fn.size(values) - 1, fn.lit(2)).cast("int")
    high = fn.call_function("div", fn.size(values), fn.lit(2)).cast("int")
    both = fn.get(ordered, low).cast(WIDE) + fn.get(ordered, high).cast(WIDE)
    return both * whole(5, WIDE)


def _even_quotient(dividend: SparkColumn, divisor: SparkColumn) -> SparkColumn:
    return (dividend.cast(WIDE) / divisor.cast("decimal(20,0)")).cast(WIDE)


def _kept(query: AggregateQuery, tuples: DataFrame) -> DataFrame:
    tuples = only_tuples(tuples, query.source)
    return tuples if query.where is None else tuples.filter(translate(query.where))


def _keys(query: AggregateQuery) -> list[SparkColumn]:
    return [translate(key) for key in query.group_by]


def _groups(query: AggregateQuery) -> list[SparkColumn]:
    """What tuples of one window have in common, beside the window."""
    rows = isinstance(query.source.window, KeyedRowWindow)
    return [*_keys(query), *([named(LIFE)] if rows else [])]


def _by_number(query: AggregateQuery, tuples: DataFrame) -> DataFrame:
    """Place each tuple at its number among those of its key and life, from 0."""
    keys = (*_keys(query), named(LIFE))
    order = Window.partitionBy(*keys).orderBy(named(arrival_name(query.source)))
    return tuples.withColumn(POSITION, fn.row_number().over(order).cast(LONG) - 1)


def _with_lives(
    query: AggregateQuery,
    window: KeyedRowWindow,
    tuples: DataFrame,
    evictions: DataFrame,
    arrivals: int,
) -> tuple[DataFrame, DataFrame]:
    """Number the lives of each key, and return the evictions that cannot have been so.

    An eviction belongs before the tuple whose number, among all those that pass WHERE, is ``_at``;
    ``_count`` is how many of the key's tuples its windows still had to use.
    """
    source = query.source
    keys = [raw_name(source.alias, key.name) for key in query.group_by]
    numbered = with_own_index(tuples, source, "_at", arrivals=arrivals)
    events = evictions.select(
        *(to_raw(named(key.name), key.column).alias(raw_name(source.alias, key.name))
          for key in query.group_by),
        named("_at").cast(LONG).alias("_at"),
        named("_count"),
    )  # fmt: skip
    both = numbered.unionByName(events, allowMissingColumns=True)
    before = Window.partitionBy(*map(named, keys)).orderBy("_at")
    is_event = named("_count").isNotNull()
    both = both.withColumn(LIFE, fn.sum(is_event.cast("int")).over(before))
    lives = both.filter(~is_event).drop("_count", "_at")
    ended = both.filter(is_event).select(*map(named, keys), (named(LIFE) - 1).alias(LIFE), "_count")
    sizes = lives.groupBy(*map(named, keys), LIFE).agg(fn.count(fn.lit(1)).alias("_size"))
    size = fn.coalesce(named("_size"), fn.lit(0))
    reported = fn.greatest(size - window.rows, fn.lit(-1))  # tuples since the first window
    held = fn.when(reported < 0, size).otherwise(
        window.rows - window.slide + reported % window.slide
    )
    wrong = ended.join(sizes, [*keys, LIFE], "left").filter(held != named("_count"))
    return lives, wrong


def _by_time(
    query: AggregateQuery, tuples: DataFrame, window: SlidingWindow, arrivals: int
) -> tuple[DataFrame, DataFrame]:
    """Place each tuple at its time, and return those in time and those too late."""
    time = named(raw_name(query.source.alias, window.wattr))
    tuples = with_latest_before(tuples, query.source, time, "_latest", arrivals=arrivals)
    pane_end = (floor_divide(time, window.pane) + 1) * whole(window.pane)
    late = pane_end + whole(window.slack) <= named("_latest")
    kept = _kept(query, tuples)  # the others have moved the watermark all the same
    return kept.filter(~late).withColumn(POSITION, time), kept.filter(late)


def _measures(query: AggregateQuery, rows: int) -> list[Measure]:
    return [
        Measure(f"_measure{number}", output, rows)
        for number, output in enumerate(query.outputs)
        if isinstance(output, AggregateOutput)
    ]


def _windows(
    query: AggregateQuery,
    tuples: DataFrame,
    length: int,
    slide: int,
    rows: int,
    *,
    first: int | None = None,
) -> DataFrame:
    """Sum up tuples per pane, then panes per window [k * slide, k * slide + length).

    ``first`` is the least k, if there is one.
    """
    pane = SlidingWindow(length, slide, POSITION).pane
    measures = _measures(query, rows)
    panes = tuples.groupBy(*_groups(query), floor_divide(named(POSITION), pane).alias("_pane")).agg(
        fn.count(fn.lit(1)).alias(COUNT),
        *(measure.of_tuples().alias(measure.name) for measure in measures),
    )
    start = named("_pane") * whole(pane)
    first_window = floor_divide(start - whole(length), slide) + 1
    if first is not None:
        first_window = fn.greatest(first_window, whole(first))
    panes = panes.withColumn("_first", first_window).withColumn("_last", floor_divide(start, slide))
    # Where windows leave gaps a pane may be in none, and sequence() would count downwards.
    windows = panes.filter("_first <= _last").withColumn(
        WINDOW, fn.explode(fn.sequence(named("_first"), named("_last")))
    )
    return windows.groupBy(*_groups(query), named(WINDOW)).agg(
        fn.sum(COUNT).alias(COUNT),
        *(measure.of_panes().alias(measure.name) for measure in measures),
    )


def _outputs(query: AggregateQuery, windows: DataFrame, rows: int) -> DataFrame:
    measures = {measure.output: measure for measure in _measures(query, rows)}
    columns = []
    for output in query.outputs:
        match output:
            case KeyOutput():
                raw = translate(output.column)
            case WindowEndOutput():
                window = query.source.window
                assert isinstance(window, SlidingWindow), "row windows end at no time"
                raw = named(WINDOW) * whole(window.slide) + whole(window.range)
            case AggregateOutput():
                raw = measures[output].result()
        columns.append(to_natural(raw, output.type).alias(output.name))
    return windows.select(columns)
