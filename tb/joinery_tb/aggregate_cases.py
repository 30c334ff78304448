"""Small aggregates to generate designs of: a query, an input, and what must come of it.

What must come of an input is found by the definition, tuple by tuple.
"""

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from joinery_gen.golden.reference import reference
from joinery_gen.manifest import PUNCTUATION
from joinery_gen.parse import parse
from joinery_gen.query import (
    AggregateOutput,
    AggregateQuery,
    KeyOutput,
    Query,
    WindowEndOutput,
)
from joinery_gen.tables import from_raw, raw_columns

__all__ = ["AggregateCase", "keyed_query", "random_tuples", "sliding_query"]


def sliding_query(
    *windows: tuple[int, int],
    select: str = "t, count(*), sum(x) AS total, min(x), max(x), avg(x)",
    slack: int = 0,
    where: str = "",
    by: str = "",
    time: str = "TIMESTAMP(s)",
) -> Query:
    """Return aggregates of ``a (t, k, x)`` over time windows of these RANGE and SLIDE."""
    unit = "SECONDS" if time.startswith("TIMESTAMP") else ""
    selects = "".join(
        f"SELECT {select} FROM a [RANGE {length} {unit} SLIDE {slide} {unit} WATTR t "
        f"SLACK {slack} {unit}] {f'WHERE {where}' if where else ''} "
        f"{f'GROUP BY {by}' if by else ''};\n"
        for length, slide in windows
    )
    return parse(f"CREATE STREAM a (t {time}, k INT(4), x DECIMAL(6,2));\n{selects}", "case.cql")


def keyed_query(
    rows: int,
    slide: int,
    *,
    select: str = "k, count(*), sum(x) AS total, min(x), max(x), avg(x), median(x)",
    where: str = "",
    by: str = "k",
) -> Query:
    """Return aggregates of ``a (t, k, x)`` over the last ``rows`` tuples of each key."""
    return parse(
        "CREATE STREAM a (t TIMESTAMP(s), k INT(4), x DECIMAL(6,2));\n"
        f"SELECT {select} FROM a [PARTITION BY {by} ROWS {rows} SLIDE {slide}] "
        f"{f'WHERE {where}' if where else ''};\n",
        "case.cql",
    )


@dataclass(frozen=True)
class AggregateCase:
    """Aggregates over windows and their input, as raw values in arrival order.

    A tuple with a column ``_punctuation`` that is not 0 is a punctuation.
    """

    query: Query
    tuples: list[dict[str, int]]

    @cached_property
    def found(self) -> list[tuple[Counter[tuple[int, ...]], int]]:
        """Rows as raw values, and the number of late tuples, of each SELECT."""
        return [self._reference(part) for part in self.query.parts]

    def _reference(self, query: Query) -> tuple[Counter[tuple[int, ...]], int]:
        blank = dict.fromkeys(query.sources[0].schema.names, 0)
        stream = [(number, {**blank, **values}) for number, values in enumerate(self.tuples)]
        rows, late = reference(query, {query.sources[0].alias: stream})
        return Counter(rows), late

    @property
    def counters(self) -> dict[str, int]:
        """What the registers of a design must have counted after the input."""
        marks = sum(bool(each.get(PUNCTUATION)) for each in self.tuples)
        late = [late for _, late in self.found]
        each = {f"late_{k}": count for k, count in enumerate(late)} if len(late) > 1 else {}
        return {
            "accepted": len(self.tuples) - marks,
            "punctuations": marks,
            "late": sum(late),
            "results": sum(rows.total() for rows, _ in self.found),
            **each,
        }

    def rows_of(self, table: pa.Table, part: int = 0) -> Counter[tuple[int, ...]]:
        """Return the rows of a table of results as raw values."""
        columns = raw_columns(table, self.query.parts[part].body.schema)
        return Counter(zip(*(columns[name].tolist() for name in columns), strict=True))

    def words(self, top: Mapping[str, Any]) -> list[int]:
        """Return the rows of the results as the words that the design of ``top`` gives."""
        output = top["output"]
        if "queries" not in output:
            return self._words(output["fields"], self.query)
        tag = output["query"]["offset"]
        return [
            word | number << tag
            for number, (about, part) in enumerate(
                zip(output["queries"], self.query.parts, strict=True)
            )
            for word in self._words(about["fields"], part)
        ]

    def _words(self, fields: list[dict[str, Any]], query: Query) -> list[int]:
        """An average leaves as its sum and its count, a median as twice of it."""
        assert isinstance(query.body, AggregateQuery)
        outputs: list[KeyOutput | WindowEndOutput | AggregateOutput] = []
        places: list[dict[str, Any]] = []
        for field, output in zip(fields, query.body.outputs, strict=True):
            if isinstance(output, AggregateOutput) and output.function == "avg":
                outputs += [replace(output, function="sum"), AggregateOutput("", "count", None)]
                places += [field["parts"]["sum"], field["parts"]["count"]]
            else:
                outputs.append(output)
                # A median of one digit more than that, and halved, is five times as much.
                median = isinstance(output, AggregateOutput) and output.function == "median"
                places.append({**field, "by": 5 if median else 1})
        parted = replace(query, body=replace(query.body, outputs=tuple(outputs)))
        return [
            sum(
                (value // place.get("by", 1) & (1 << place["width"]) - 1) << place["offset"]
                for place, value in zip(places, row, strict=True)
            )
            for row in self._reference(parted)[0].elements()
        ]

    def prepare(self, folder: Path) -> Path:
        """Write the input as a prepared one, and return its folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (source,) = self.query.sources
        columns = {
            name: np.array([values.get(name, 0) for values in self.tuples], dtype=np.int64)
            for name in source.schema.names
        }
        marks = [bool(values.get(PUNCTUATION)) for values in self.tuples]
        table = from_raw(columns, source.schema)
        table = table.append_column(PUNCTUATION, pa.array(marks, pa.bool_()))
        table = table.append_column("_arrival", pa.array(range(len(marks)), pa.int64()))
        pq.write_table(table, folder / f"{source.alias}.parquet")
        manifest = {"query": self.query.hash, "arrivals": len(marks), "sources": {}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder


def random_tuples(
    count: int, *, seed: int = 1, step: int = 2, disorder: int = 0, start: int = -50
) -> list[dict[str, int]]:
    """Return tuples of ``sliding_query``, whose times advance by up to ``step`` each.

    They come up to ``disorder`` too late, one in forty comes after a leap, which now and then is
    one of centuries, and one in ten is a punctuation.
    """
    draw = random.Random(seed)
    time, found = start, []
    for _ in range(count):
        time += draw.randint(0, step)
        if draw.random() < 0.025:
            time += draw.choice([step * 40, step * 400, 10**10])
        shown = time - draw.randint(0, disorder)
        if draw.random() < 0.1:
            found.append({"t": shown, PUNCTUATION: 1})
        else:
            x = draw.choice([-999_999, 999_999, 0, 50, draw.randint(-999, 999)])
            found.append({"t": shown, "k": draw.randint(-8, 7), "x": x})
    return found
