"""A prepared stream in Spark, and what each of its tuples can know at its arrival.

Counting or taking maxima over the whole arrival order would pull a stream into one task. Both are
done in two levels: the order is cut into bins, a table of one row per bin (a thousand rows or so)
is summed up by the driver, and within a bin an ordinary partitioned window function does the rest.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from ..manifest import PUNCTUATION
from ..query import JoineryError, Source
from .expressions import (
    LONG,
    floor_divide,
    named,
    natural_name,
    natural_type,
    raw_name,
    to_raw,
)

ARRIVAL = "_arrival"
LEAST_BIN = 1 << 14  # arrivals; a bin is one task's work, and smaller ones only cost overhead
MOST_BINS = 1 << 10  # of the table that the driver sums up

NOTHING_SEEN = -(1 << 63)  # before every time that a stream can carry


def arrival_name(source: Source) -> str:
    """Name of the DataFrame column with a source's arrival positions."""
    return raw_name(source.alias, ARRIVAL)


def read_source(spark: SparkSession, inputs: str, source: Source) -> DataFrame:
    """Return a source's tuples: every column raw and as read, and the arrival position.

    Punctuations are among them, told apart by ``only_tuples``.

    The names carry the alias, so that two of these can be joined. Spark reads only the columns
    that the rest of the job uses.
    """
    path = f"{inputs}/{source.alias}.parquet"
    try:
        frame = spark.read.parquet(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise JoineryError(
            f"There is no {path}; prepare the input of the query's source {source.alias!r} first"
        ) from None
    for name in (*source.schema.names, ARRIVAL):
        if name not in frame.columns:
            raise JoineryError(f"{path} has no column {name!r}; it was not prepared for this query")
    columns = [named(ARRIVAL).cast(LONG).alias(arrival_name(source))]
    for field in source.schema:
        read = named(field.name).cast(natural_type(field.type))
        columns.append(to_raw(read, field.type).alias(raw_name(source.alias, field.name)))
        columns.append(read.alias(natural_name(source.alias, field.name)))
    if PUNCTUATION in frame.columns:
        columns.append(named(PUNCTUATION).alias(raw_name(source.alias, PUNCTUATION)))
    return frame.select(columns)


def only_tuples(frame: DataFrame, source: Source) -> DataFrame:
    """Leave the punctuations of a source out."""
    mark = raw_name(source.alias, PUNCTUATION)
    return frame.filter(~named(mark)) if mark in frame.columns else frame


def with_own_index(frame: DataFrame, source: Source, name: str, *, arrivals: int) -> DataFrame:
    """Add column ``name``: how many tuples of the same stream arrived before each tuple."""
    arrival = named(arrival_name(source))
    binned, bins = _in_bins(frame, arrival, arrivals)
    counts = _per_bin(binned, fn.count(fn.lit(1)), bins)
    before = _exclusive([count or 0 for count in counts], int.__add__, 0)
    in_bin = fn.row_number().over(Window.partitionBy("_bin").orderBy(arrival)) - 1
    return binned.withColumn(name, _lookup(before) + in_bin).drop("_bin")


def with_latest_before(
    frame: DataFrame, source: Source, time: SparkColumn, name: str, *, arrivals: int
) -> DataFrame:
    """Add column ``name``: the largest ``time`` among the tuples before each tuple.

    It is `NOTHING_SEEN` for the first tuple.
    """
    arrival = named(arrival_name(source))
    binned, bins = _in_bins(frame, arrival, arrivals)
    maxima = _per_bin(binned, fn.max(time), bins)
    before = _exclusive(
        [NOTHING_SEEN if latest is None else latest for latest in maxima], max, NOTHING_SEEN
    )
    earlier = Window.partitionBy("_bin").orderBy(arrival).rowsBetween(Window.unboundedPreceding, -1)
    # greatest() skips the null of a bin's first tuple, before which its bin has nothing.
    latest = fn.greatest(_lookup(before), fn.max(time).over(earlier))
    return binned.withColumn(name, latest).drop("_bin")


def _in_bins(frame: DataFrame, arrival: SparkColumn, arrivals: int) -> tuple[DataFrame, int]:
    """Add column ``_bin``, and return the number of bins too."""
    size = max(LEAST_BIN, -(-arrivals // MOST_BINS))
    return frame.withColumn("_bin", floor_divide(arrival, size)), -(-arrivals // size)


def _per_bin(binned: DataFrame, total: SparkColumn, bins: int) -> list[int | None]:
    """Return the aggregate ``total`` of each bin, None for one without tuples."""
    totals: dict[int, int] = dict(binned.groupBy("_bin").agg(total).toLocalIterator())  # type: ignore[arg-type] # rows are pairs
    if not totals.keys() <= set(range(bins)):
        raise JoineryError(
            "The prepared input has arrival positions that its manifest.json does not count; "
            "prepare it again"
        )
    return [totals.get(number) for number in range(bins)]


def _exclusive(values: Sequence[int], combine: Callable[[int, int], int], start: int) -> list[int]:
    """Return for each position what all positions before it combine to."""
    return list(accumulate(values, combine, initial=start))[:-1]


def _lookup(values: Sequence[int]) -> SparkColumn:
    """Return the element of ``values`` for a row's bin; the list becomes one array literal."""
    text = ",".join(str(value) for value in values) or "0"
    return fn.get(fn.split(fn.lit(text), ",").cast(f"array<{LONG}>"), named("_bin").cast("int"))
