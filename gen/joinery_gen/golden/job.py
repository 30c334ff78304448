"""The golden job: a query and its prepared input in, a Parquet folder out."""

import json
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from joinery import __version__

from ..manifest import data_hash
from ..query import JoineryError, JoinQuery, Query
from .aggregates import AggregateFrames, aggregate_frames
from .arrivals import read_source
from .joins import join_frame
from .session import golden_session, tune
from .store import MARK, Store


@dataclass(frozen=True)
class GoldenResult:
    """What a run of the golden job found: result rows, late tuples, and how it came about.

    ``misreported`` counts evictions that cannot have been as a design reported them.
    """

    rows: int
    late: int
    seconds: float
    versions: dict[str, str]
    misreported: int = 0


def run_golden(
    query: Query,
    inputs: Path | str,
    out: Path | str,
    *,
    master: str | None = None,
    spark: SparkSession | None = None,
    evictions: Path | str | None = None,
) -> GoldenResult:
    """Compute the result of ``query`` over the prepared folder ``inputs`` into the folder ``out``.

    The result has the columns of ``query.body.schema``, and for a join the arrivals of each pair;
    ``_joinery.json`` in the folder says where it came from. An earlier result is replaced once the
    new one is whole. Paths may be of any file system that the Spark installation knows.

    ``evictions`` is a Parquet file with the keys that a design reported to have lost their place;
    of row windows per key, the result is then that of keys which start anew.

    Spark runs on ``master``, by default on all cores of this machine, and is stopped at the end;
    a running session given as ``spark`` is used, and left running.
    """
    started = time.monotonic()
    with golden_session(spark, master) as session:
        store = Store(session)
        manifest = _read_manifest(store, str(inputs))
        tune(session, rows=manifest["arrivals"])
        with store.new_result(str(out)) as draft:
            found = golden_frames(
                session, query, str(inputs), manifest["arrivals"], evictions=evictions
            )
            found.result.write.parquet(draft)
            result = GoldenResult(
                rows=session.read.parquet(draft).count(),
                late=0 if found.late is None else found.late.count(),
                misreported=0 if found.misreported is None else found.misreported.count(),
                seconds=round(time.monotonic() - started, 3),
                versions=_versions(session),
            )
            about = {"query": query.hash, "data": data_hash(manifest), **asdict(result)}
            store.write_text(f"{draft}/{MARK}", json.dumps(about, indent=2) + "\n")
    return result


def golden_frames(
    spark: SparkSession,
    query: Query,
    inputs: str,
    arrivals: int,
    *,
    evictions: Path | str | None = None,
) -> AggregateFrames:
    """Return the result of ``query``, and its late tuples, not yet computed but small tables."""
    frames = [read_source(spark, inputs, source) for source in query.sources]
    if isinstance(query.body, JoinQuery):
        return AggregateFrames(join_frame(query.body, *frames, arrivals=arrivals), None)
    gone = None if evictions is None else spark.read.parquet(str(evictions))
    return aggregate_frames(query.body, *frames, arrivals=arrivals, evictions=gone)


def _read_manifest(store: Store, inputs: str) -> dict[str, Any]:
    text = store.read_text(f"{inputs}/manifest.json")
    if text is None:
        raise JoineryError(f"There is no manifest.json in {inputs}; prepare the input first")
    manifest: dict[str, Any] = json.loads(text)
    return manifest


def _versions(spark: SparkSession) -> dict[str, str]:
    jvm: Any = spark._jvm
    return {
        "joinery": __version__,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "spark": spark.version,
        "java": str(jvm.java.lang.System.getProperty("java.version")),
    }
