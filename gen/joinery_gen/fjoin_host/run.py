"""A prepared input through a card, to a file of rows."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..data.prepare import MANIFEST
from ..manifest import data_hash
from ..query import JoineryError, JoinQuery, Query
from ..tables import arrow_schema, from_raw
from .device import Device, Side
from .feed import Feed, FeedSettings
from .host import Host, HostSettings, Rows, TaskReport
from .layout import CardLayout
from .performance import utilisation

__all__ = ["Progress", "RunReport", "run_prepared"]


@dataclass(frozen=True)
class Progress:
    """How far a run is, after a task: tuples in of all, rows out, the card's clock, the time."""

    task: TaskReport
    tuples: int
    of: int
    rows: int
    cycles: int
    seconds: float


@dataclass(frozen=True)
class RunReport:
    """A whole run.

    ``in_order``: the rows left in the order of their later tuple, then of their earlier one.
    ``cycles`` are the card's, from the first tuple to the last row. ``compared`` counts the pairs
    of tuples that met in a unit, ``eta`` is their share of the cycles of all units, as in the
    paper's equation 5. ``counters`` adds up those of the card's pipelines; ``bytes_read`` is what
    these read of tuples. ``latency_cycles`` and ``latency_seconds`` have the median and the largest
    time from the cut of a task to its last row.
    """

    tuples: dict[str, int]
    late: dict[str, int]
    rows: int
    in_order: bool
    tasks: int
    parts: int
    overflows: int
    cycles: int
    seconds: float
    compared: int
    eta: float
    bytes_read: int
    counters: dict[str, int]
    latency_cycles: dict[str, float]
    latency_seconds: dict[str, float]
    pipelines: list[dict[str, Any]]

    @property
    def tuples_in(self) -> int:
        return sum(self.tuples.values())

    def as_dict(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return {**asdict(self), "tuples_in": self.tuples_in}


def run_prepared(
    query: Query,
    prepared: Path,
    out: Path | None,
    device: Device,
    layout: CardLayout,
    *,
    feed: FeedSettings | None = None,
    settings: HostSettings | None = None,
    facts: Mapping[str, Any] | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> RunReport:
    """Join the tuples in the folder ``prepared`` on a card, and write the rows to ``out``.

    ``out`` is a Parquet file: the columns of the query in natural types, and ``_row``, the position
    in the output. Its ``joinery`` metadata has ``facts``, the query, the data and the report. With
    None, rows are only counted.

    Parameters
    ----------
    feed : FeedSettings
        How the tuples arrive.
    settings : HostSettings
        What can be set of the host; the sources are those of ``feed``.
    facts : mapping
        What else the file is to say of itself.
    watch : callable
        Is told after each task how far the run is.
    """
    body = query.body
    if not isinstance(body, JoinQuery):
        raise JoineryError(f"{query.name} is an aggregate, and a card joins two streams")
    arriving = feed or FeedSettings()
    count = arriving.sources
    chosen = replace(settings or HostSettings(), sources_left=count, sources_right=count)
    source = Feed(body, prepared, arriving)
    sink = _Sink(body, device, len(source), watch, keep=out is not None)
    host = Host(body, device, layout, sink.take, chosen)
    try:
        for batch in source:
            host.add(batch.arrivals)
            for signal in batch.signals:
                host.signal(*signal)
            host.cut()
        host.finish()
    except BaseException:
        host.abort()
        raise
    report = _report(body, source, host, sink)
    if out is not None:
        _write(sink.table(), out, query, prepared, {**(facts or {}), "run": report.as_dict()})
    return report


class _Sink:
    """Takes the rows of each task, and says how far the run is."""

    def __init__(
        self,
        query: JoinQuery,
        device: Device,
        of: int,
        watch: Callable[[Progress], None],
        *,
        keep: bool,
    ) -> None:
        self._schema = query.schema
        self._device = device
        self._watch = watch
        self._opened, self._began = device.cycles, time.perf_counter()
        self._tables: list[pa.Table] = []
        self._keep = keep
        self._last = (-1, -1)
        self.tasks: list[TaskReport] = []
        self.in_order = True
        self._of = of
        self._tuples = self.rows = 0

    def take(self, rows: Rows, task: TaskReport) -> None:
        if self._keep:
            self._tables.append(from_raw(rows.columns, self._schema))
        self._check_order(rows)
        self.tasks.append(task)
        self._tuples += task.tuples
        self.rows += task.rows
        self._watch(Progress(task, self._tuples, self._of, self.rows, self.cycles, self.seconds))

    def _check_order(self, rows: Rows) -> None:
        """Are the rows in the order of their later tuple, then of their earlier one?"""
        if not len(rows):
            return
        later, earlier = np.maximum(rows.left, rows.right), np.minimum(rows.left, rows.right)
        grows = np.diff(later) > 0
        grows |= (np.diff(later) == 0) & (np.diff(earlier) > 0)
        self.in_order &= bool(grows.all()) and self._last < (int(later[0]), int(earlier[0]))
        self._last = int(later[-1]), int(earlier[-1])

    @property
    def cycles(self) -> int:
        return self._device.cycles - self._opened

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def table(self) -> pa.Table:
        return pa.concat_tables([arrow_schema(self._schema).empty_table(), *self._tables])


def _report(query: JoinQuery, source: Feed, host: Host, sink: _Sink) -> RunReport:
    totals = host.scheduler.totals
    compared = sum(each.compared for each in totals)
    counters = sum((each.counters for each in totals), Counter[str]())
    aliases: dict[Side, str] = {"left": query.left.alias, "right": query.right.alias}
    return RunReport(
        tuples=source.tuples,
        late={aliases[side]: late for side, late in host.controller.late.items()},
        rows=sink.rows,
        in_order=sink.in_order,
        tasks=len(sink.tasks),
        parts=sum(each.parts for each in totals),
        overflows=sum(each.overflows for each in totals),
        cycles=sink.cycles,
        seconds=sink.seconds,
        compared=compared,
        eta=utilisation(compared, sink.cycles, sum(each.units for each in host.pipelines)),
        bytes_read=sum(each.bytes_read for each in totals),
        counters=dict(counters),
        latency_cycles=_latency([task.cycles for task in sink.tasks]),
        latency_seconds=_latency([task.seconds for task in sink.tasks]),
        pipelines=[
            {
                **vars(info),
                "parts": each.parts,
                "cycles": each.counters["cycles"],
                "batches": each.counters["batches"],
                "window_tuples": each.counters["window_tuples"],
                "matches": sum(
                    each.counters[name] for name in ("results", "rejected_order", "rejected_time")
                ),
            }
            for info, each in zip(host.pipelines, totals, strict=True)
        ],
    )


def _latency(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values or [0]), "largest": max(values, default=0)}


def _write(
    table: pa.Table, out: Path, query: Query, prepared: Path, facts: Mapping[str, Any]
) -> None:
    """Write the whole file or none."""
    manifest = prepared / MANIFEST
    known = {
        "query": query.hash,
        "data": data_hash(json.loads(manifest.read_text())) if manifest.is_file() else None,
        "engine": "fjoin",
        **facts,
    }
    table = table.append_column("_row", pa.array(np.arange(len(table))))
    table = table.replace_schema_metadata({"joinery": json.dumps(known)})
    partial = out.with_name(out.name + ".partial")
    try:
        pq.write_table(table, partial)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
