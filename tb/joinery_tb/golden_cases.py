"""Queries and streams for tests of the golden job, written as a parser and a loader would."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from joinery.expr import Arith, Column, Compare, Const, Expr
from joinery.tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    Field,
    IntType,
    Schema,
    StringType,
    TimestampType,
)
from joinery_gen.golden.reference import Tuple
from joinery_gen.manifest import PUNCTUATION
from joinery_gen.query import (
    AggregateOutput,
    AggregateQuery,
    JoinQuery,
    KeyedRowWindow,
    KeyOutput,
    Output,
    Query,
    RowWindow,
    SlidingWindow,
    Source,
    Stream,
    TimeWindow,
    WindowEndOutput,
)

__all__ = [
    "ALWAYS",
    "FORMS",
    "SCHEMA",
    "aggregate_of",
    "arrow_type",
    "col",
    "join_of",
    "prepare",
    "query_of",
    "random_streams",
    "source",
    "stamped",
]

SCHEMA = Schema(
    (
        Field("t", TimestampType("s")),
        Field("k", IntType(8)),
        Field("x", DecimalType(6, 2)),
        Field("y", IntType(64)),
        Field("n", StringType(4)),
        Field("big", DecimalType(24, 3)),
        Field("f", BoolType()),
    )
)
ALWAYS = Compare("=", Const.number(0), Const.number(0))


def col(source: str, name: str) -> Column:
    """A column of ``SCHEMA``."""
    return Column(source, name, SCHEMA[name])


def query_of(body: JoinQuery | AggregateQuery) -> Query:
    """A query as if it had been parsed."""
    return Query("test", repr(body), tuple({s.stream for s in body.sources}), body)


def source(alias: str, window: RowWindow | TimeWindow | SlidingWindow | KeyedRowWindow) -> Source:
    """A window on a stream of ``SCHEMA``."""
    return Source(alias, Stream("stream", SCHEMA), window)


def join_of(
    left: RowWindow | TimeWindow, right: RowWindow | TimeWindow, predicate: Expr = ALWAYS
) -> Query:
    """A join of ``r`` and ``s`` that gives all columns of both, and a computed one."""
    outputs = tuple(
        Output(f"{side}_{name}", col(side, name)) for side in "rs" for name in SCHEMA.names
    )
    outputs += (Output("Sum", Arith("+", col("r", "x"), col("s", "k"))),)
    return query_of(JoinQuery(source("r", left), source("s", right), predicate, outputs))


def aggregate_of(
    window: SlidingWindow | KeyedRowWindow,
    *functions: str,
    where: Expr | None = None,
    by: Sequence[str] = (),
) -> Query:
    """Each of ``functions`` over each number column of ``a``, and the number of rows."""
    ends = (WindowEndOutput("t", col("a", "t")),) if isinstance(window, SlidingWindow) else ()
    keys = tuple(KeyOutput(name, col("a", name)) for name in by)
    numbers = ("x", "y", "big")
    values = tuple(
        AggregateOutput(f"{function} of {name}", function, col("a", name))
        for function in functions
        for name in numbers
        if not (function == "sum" and name == "y")  # may not fit 64 bits, by definition
    )
    outputs = (*ends, *keys, AggregateOutput("count", "count", None), *values)
    group = tuple(col("a", name) for name in by)
    return query_of(AggregateQuery(source("a", window), where, group, outputs))


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type of a column in prepared files and in results."""
    match kind:
        case IntType():
            return pa.int64()
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case StringType():
            return pa.string()
        case BoolType():
            return pa.bool_()
    return pa.timestamp("us")


def prepare(folder: Path, query: Query, rows: Mapping[str, Sequence[Tuple]]) -> Path:
    """Write raw tuples, by source, as the prepared input of a query."""
    for each in query.sources:
        tuples = rows[each.alias]
        columns = {
            field.name: pa.array(
                [field.type.decode(values[field.name]) for _, values in tuples],
                arrow_type(field.type),
            )
            for field in each.schema
        }
        marks = [bool(values.get(PUNCTUATION)) for _, values in tuples]
        if any(marks):
            columns[PUNCTUATION] = pa.array(marks)
        columns["_arrival"] = pa.array([arrival for arrival, _ in tuples], pa.int64())
        pq.write_table(pa.table(columns), folder / f"{each.alias}.parquet")
    sources = {alias: {"rows": len(tuples), "sha256": "0"} for alias, tuples in rows.items()}
    manifest = {"query": query.hash, "arrivals": sum(map(len, rows.values())), "sources": sources}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


NAMES = ["", "a", "ab", "b", "é", "zzzz"]
FAR_TIMES = [-62_135_596_800, -1, 0, 5, 253_402_300_000]


def random_streams(
    seed: int, aliases: str, size: int, clock: str, reach: int = 0
) -> dict[str, list[Tuple]]:
    """Streams under one arrival order, with ties, disorder and the edges of every type.

    Their times run on with some disorder (``steady``), are in no order, are very far apart, or
    (``edges``) differ in most pairs by exactly ``reach``, by one more, or not at all.
    """
    random = Random(seed)
    pick = {
        "steady": lambda arrival: arrival - 10 + random.randint(-8, 8),
        "shuffled": lambda arrival: random.randint(-20, 40),
        "far": lambda arrival: random.choice(FAR_TIMES),
        "edges": lambda arrival: random.choice([-1, 1]) * random.choice([0, reach, reach + 1]),
    }[clock]

    def near_zero(name: str) -> int:
        edge = random.random() < 0.1
        return (
            random.choice([SCHEMA[name].low, SCHEMA[name].high]) if edge else random.randint(-4, 4)
        )

    rows: dict[str, list[Tuple]] = {alias: [] for alias in aliases}
    for arrival in range(size):
        values = {
            "t": pick(arrival),
            "k": random.randint(-1, 2),
            **{name: near_zero(name) for name in ("x", "y", "big")},
            "n": StringType(4).encode(random.choice(NAMES)),
            "f": random.randint(0, 1),
        }
        rows[random.choice(aliases)].append((arrival, values))
    return rows


def stamped(*times: int) -> dict[str, list[Tuple]]:
    """A stream ``a`` of tuples with these times, in this order."""
    blank = dict.fromkeys(SCHEMA.names, 0)
    return {"a": [(arrival, {**blank, "t": t}) for arrival, t in enumerate(times)]}


FORMS = {
    "rows": join_of(RowWindow(4), RowWindow(9), Compare("<", col("r", "k"), col("s", "k"))),
    "rows, keys": join_of(RowWindow(4), RowWindow(9), Compare("=", col("r", "k"), col("s", "k"))),
    "time": join_of(TimeWindow(9, "t"), TimeWindow(9, "t")),
    "sliding": aggregate_of(SlidingWindow(10, 4, "t", 3), "avg", "median"),
    "sliding, keys": aggregate_of(SlidingWindow(10, 4, "t", 3), "min", by=["n"]),
    "keyed rows": aggregate_of(KeyedRowWindow(4, 2), "sum", "median", by=["k"]),
}
