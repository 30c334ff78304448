"""The golden job under spark-submit, on a standalone cluster of two workers."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from joinery_gen.golden import run_golden
from joinery_gen.golden.cluster import standalone_cluster, submit
from joinery_gen.golden.store import MARK
from joinery_gen.parse import parse_file
from joinery_gen.query import JoineryError

JOB = Path(__file__).parents[1] / "scripts" / "golden_job.py"
STREAMS = "CREATE STREAM x (k INT, t TIMESTAMP(s));\nCREATE STREAM y (k INT, t TIMESTAMP(s));\n"
QUERIES = {
    "join": "SELECT * FROM x [ROWS 20] AS r, y [ROWS 30] AS s WHERE r.k = s.k;",
    "aggregate": "SELECT t, count(*) AS n, avg(k) AS mean "
    "FROM x [RANGE 60 SECONDS SLIDE 20 SECONDS WATTR t SLACK 5 SECONDS] AS r;",
}


def prepare(folder: Path, aliases: str, rows: int) -> Path:
    folder.mkdir()
    for number, alias in enumerate(aliases):
        arrivals = range(number, rows, len(aliases))
        columns = {
            "k": pa.array([arrival * arrival % 7 for arrival in arrivals], pa.int64()),
            "t": pa.array(
                [(arrival + arrival * 37 % 11) * 1_000_000 for arrival in arrivals],
                pa.timestamp("us"),
            ),
            "_arrival": pa.array(arrivals, pa.int64()),
        }
        pq.write_table(pa.table(columns), folder / f"{alias}.parquet")
    sources = {alias: {"rows": rows // len(aliases), "sha256": alias} for alias in aliases}
    (folder / "manifest.json").write_text(json.dumps({"arrivals": rows, "sources": sources}))
    return folder


def sorted_rows(out: Path) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in pq.read_table(out).to_pylist())


def test_cluster_finds_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    with standalone_cluster(workers=2) as master:
        for name, text in QUERIES.items():
            cql = tmp_path / f"{name}.cql"
            cql.write_text(STREAMS + text)
            inputs = prepare(tmp_path / f"{name}-in", "rs" if name == "join" else "r", 2000)
            there, here = tmp_path / f"{name}-there", tmp_path / f"{name}-here"
            submit(JOB, [str(cql), str(inputs), str(there)], master=master, seconds=120)
            result = run_golden(parse_file(cql), inputs, here, spark=spark)
            about = json.loads((there / MARK).read_text())
            assert (about["rows"], about["late"]) == (result.rows, result.late)
            assert result.rows > 0
            assert sorted_rows(there) == sorted_rows(here)


def test_a_failed_job_says_why(tmp_path: Path) -> None:
    missing = tmp_path / "none.cql"
    message = (
        r"^spark-submit failed; it said:\n(.*\n)*"
        r"golden_job\.py: The query .*none\.cql cannot be read: No such file or directory(\n.*)*$"
    )
    with pytest.raises(JoineryError, match=message):
        submit(JOB, [str(missing), "in", "out"], master="local[1]", seconds=120)
