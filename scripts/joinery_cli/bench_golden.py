"""How the golden job's time grows with its input, and that a cluster finds the same rows."""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from joinery_gen.golden import GoldenResult, run_golden
from joinery_gen.golden.cluster import standalone_cluster, submit
from joinery_gen.golden.session import start_spark
from joinery_gen.golden.store import MARK
from joinery_gen.parse import parse, parse_file
from joinery_gen.query import Query

JOB = Path(__file__).parent.parent / "golden_job.py"
QUERY = """\
CREATE STREAM orders (item INT, price INT);
CREATE STREAM offers (item INT, price INT);

SELECT *
FROM orders [ROWS 1000] AS r, offers [ROWS 1000] AS s
WHERE r.item = s.item AND abs(r.price - s.price) <= 10;
"""
ITEMS, PRICES = 1000, 100  # a tuple finds about one tuple of its item in a window


def bench_golden(
    rows: int = 1_000_000,
    scales: Sequence[int] = (1, 2, 4),
    *,
    seed: int = 1,
    workers: int = 2,
) -> list[dict[str, Any]]:
    """Time the row-window join on ``rows`` + ``rows`` tuples, times each of ``scales``.

    The first scale runs a second time with spark-submit on a cluster of ``workers`` on this
    machine; ``same_rows`` tells whether it found the same rows (None where there is nothing to hold
    a run against). Each time includes reading, writing and planning; starting Spark is left out,
    and so is a first small run that warms it up.
    """
    with tempfile.TemporaryDirectory(prefix="joinery-bench-") as place:
        folder = Path(place)
        cql = folder / "join.cql"
        cql.write_text(QUERY)
        query = parse_file(cql)
        found = _bench_local(query, folder, rows, scales, seed)
        first = scales[0]
        with standalone_cluster(workers=workers, memory="2g") as master:
            submit(
                JOB,
                [str(cql), str(folder / f"in{first}"), str(folder / "cluster")],
                master=master,
                memory="2g",
                seconds=3600,
            )
        about = json.loads((folder / "cluster" / MARK).read_text())
        result = GoldenResult(**{field.name: about[field.name] for field in fields(GoldenResult)})
        same = _rows_hash(folder / f"out{first}") == _rows_hash(folder / "cluster")
        found.append(_row(f"{workers} workers", first, rows, result) | {"same_rows": same})
    return found


def _bench_local(
    query: Query, folder: Path, rows: int, scales: Sequence[int], seed: int
) -> list[dict[str, Any]]:
    spark = start_spark()
    try:
        run_golden(query, _make(folder / "warm", 1000, seed), folder / "warm-out", spark=spark)
        found = []
        for scale in scales:
            inputs = _make(folder / f"in{scale}", rows * scale, seed)
            result = run_golden(query, inputs, folder / f"out{scale}", spark=spark)
            found.append(_row("local[*]", scale, rows, result) | {"same_rows": None})
    finally:
        spark.stop()
    return found


def _row(master: str, scale: int, rows: int, result: GoldenResult) -> dict[str, Any]:
    size = rows * scale
    return {
        "experiment": "golden row-window join",
        "master": master,
        "cores": os.cpu_count(),
        "scale": scale,
        "rows_left": size,
        "rows_right": size,
        "results": result.rows,
        "seconds": result.seconds,
        "seconds_per_million": round(result.seconds / (2 * size / 1e6), 3),
        "spark_version": result.versions["spark"],
        "java_version": result.versions["java"],
    }


def _make(folder: Path, rows: int, seed: int) -> Path:
    """Write a prepared input of ``rows`` tuples in each stream, in a random interleaving."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    order = random.permutation(2 * rows)
    sources = {}
    for alias, arrivals in (("r", order[:rows]), ("s", order[rows:])):
        table = pa.table(
            {
                "item": random.integers(0, ITEMS, rows),
                "price": random.integers(0, PRICES, rows),
                "_arrival": np.sort(arrivals),
            }
        )
        path = folder / f"{alias}.parquet"
        pq.write_table(table, path, row_group_size=1 << 18)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        sources[alias] = {"rows": rows, "dropped": 0, "sha256": digest, "from": f"seed {seed}"}
    manifest = {"query": parse(QUERY).hash, "arrivals": 2 * rows, "sources": sources}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def _rows_hash(out: Path) -> str:
    """Hash of a result, whatever the order of its rows and their spread over files."""
    table = pq.read_table(out)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    digest = hashlib.sha256()
    for column in table.take(order).columns:
        digest.update(np.ascontiguousarray(column.to_numpy()).tobytes())
    return digest.hexdigest()
