"""Small joins to generate designs of: a query, an input, and what must come of it.

Tests of generated designs share them. What must come of an input is found by brute force.
"""

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from joinery.expr import evaluate
from joinery_gen.engines import join_pair
from joinery_gen.parse import parse
from joinery_gen.query import JoinQuery, Query, RowWindow
from joinery_gen.tables import from_raw, raw_columns

from .joins import Arrival, join_pairs, pair_values

__all__ = ["JoinCase", "join_query", "random_arrivals"]

KEYS_APART = {"left": 1, "right": 2}


def join_query(
    rows_left: int, rows_right: int, *, select: str = "r.k, r.v, s.w", where: str = "r.k = s.k"
) -> Query:
    """Return a join of ``r (k, v)`` and ``s (k, w)`` over row windows."""
    return parse(
        "CREATE STREAM r (k INT(8), v INT);\nCREATE STREAM s (k INT(8), w INT);\n"
        f"SELECT {select} FROM r [ROWS {rows_left}], s [ROWS {rows_right}] WHERE {where};\n",
        "case.cql",
    )


def random_arrivals(count: int, keys: int, *, seed: int = 1, order: str = "rs") -> list[Arrival]:
    """Return tuples of ``r`` and ``s`` with keys below ``keys``; 0 stands for keys that never meet.

    ``v`` and ``w`` are the tuples' positions, so no two are equal. The sides are drawn from
    ``order``, or with ``"rsrs"`` take turns.
    """
    draw = random.Random(seed)
    arrivals = []
    for position in range(count):
        letter = "rs"[position % 2] if order == "rsrs" else draw.choice(order)
        side = {"r": "left", "s": "right"}[letter]
        key = draw.randrange(keys) if keys else KEYS_APART[side]
        arrivals.append((side, {"k": key, "v" if side == "left" else "w": position}))
    return arrivals


@dataclass(frozen=True)
class JoinCase:
    """A join of row windows and its input, as raw values in arrival order."""

    query: Query
    arrivals: list[Arrival]

    @property
    def body(self) -> JoinQuery:
        assert isinstance(self.query.body, JoinQuery)
        return self.query.body

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """The arrival positions of each pair of the result, the left one's first."""
        left, right = self.body.left.window, self.body.right.window
        assert isinstance(left, RowWindow)
        assert isinstance(right, RowWindow)
        return join_pairs(join_pair(self.body), self.arrivals, left.rows, right.rows)

    @cached_property
    def rows(self) -> Counter[tuple[int, ...]]:
        """The rows of the result, as raw values."""
        names = (self.body.left.alias, self.body.right.alias)
        values = (pair_values(names, self.arrivals, *pair) for pair in self.pairs)
        return Counter(
            tuple(evaluate(output.expr, each) for output in self.body.outputs) for each in values
        )

    @property
    def counters(self) -> dict[str, int]:
        """What the registers of a design must have counted after the input."""
        sides = Counter(side for side, _ in self.arrivals)
        return {
            "accepted_left": sides["left"],
            "accepted_right": sides["right"],
            "results": len(self.pairs),
        }

    def rows_of(self, table: pa.Table) -> Counter[tuple[int, ...]]:
        """Return the rows of a table of results as raw values."""
        columns = raw_columns(table, self.body.schema)
        return Counter(zip(*(columns[name].tolist() for name in columns), strict=True))

    def words(self, top: Mapping[str, Any]) -> list[int]:
        """Return the rows of the result as the words that the design of ``top`` gives."""
        fields = top["output"]["fields"]
        return [
            sum(
                (value & (1 << field["width"]) - 1) << field["offset"]
                for field, value in zip(fields, row, strict=True)
            )
            for row in self.rows.elements()
        ]

    def prepare(self, folder: Path) -> Path:
        """Write the input as a prepared one, and return its folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for side, source in (("left", self.body.left), ("right", self.body.right)):
            mine = [(n, row) for n, (of, row) in enumerate(self.arrivals) if of == side]
            columns = {
                name: np.array([row[name] for _, row in mine], dtype=np.int64)
                for name in source.schema.names
            }
            arrival = pa.array([position for position, _ in mine], pa.int64())
            table = from_raw(columns, source.schema).append_column("_arrival", arrival)
            pq.write_table(table, folder / f"{source.alias}.parquet")
        manifest = {"query": self.query.hash, "arrivals": len(self.arrivals), "sources": {}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder

    def write_golden(self, path: Path) -> Path:
        """Write the pairs as the golden job does, without the columns of the query."""
        sides: list[list[int]] = [[pair[side] for pair in self.pairs] for side in (0, 1)]
        arrays = [pa.array(side, pa.int64()) for side in sides]
        pq.write_table(pa.table(arrays, names=["_left_arrival", "_right_arrival"]), path)
        return path
