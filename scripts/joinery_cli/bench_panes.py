"""``joinery bench panes``: the paper's comparison of pane-based aggregation with its baselines.

The query is the paper's: how many trades of one share, or the highest price, over windows that
slide by one pane. Wherever one tuple comes at a time, each of them closes a pane, which is the
hardest case there is; a row leaves in a cycle, so that eight lanes can keep to eight tuples. All
rows are held against the definition, and areas are those of the generated top without the shell.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from joinery_gen.data.prepare import write_manifest, write_tuples
from joinery_gen.engines import Plan, plan
from joinery_gen.generate import generate
from joinery_gen.manifest import PUNCTUATION
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError, Query
from joinery_synth.area import measure_area
from joinery_tb.design import Design
from joinery_tb.replay import simulate

from .common import say
from .plots import draw

__all__ = ["EXPERIMENTS", "Case", "bench_panes"]

QUERY = """\
CREATE STREAM trades (symbol STRING(4), price UINT(16), time TIMESTAMP(ms));
SELECT time, {select} FROM trades [RANGE {panes} MILLISECONDS SLIDE 1 MILLISECOND WATTR time
SLACK {slack} MILLISECONDS] WHERE symbol = 'UBSN'
"""
SELECT = {"count": "count(*) AS value", "max": "max(price) AS value", "sum": "sum(price) AS value"}
START = 1_700_000_000_000  # a time of our days, in ms
TUPLES = 1024  # beyond those that fill a window
SUM_ROWS = 1 << 24

PAPER_BRAM = {64: 1, 128: 1, 256: 1, 512: 2, 1024: 4, 2048: 8, 4096: 17}
"""Table III: blocks of 36 kbit, by RANGE / SLIDE."""
PAPER_LATENCY = 7
MOST_SIMULATED = 128
"""The largest baseline that is simulated; it has a module for each open window."""
MEASURED = (16, 32)
"""The baselines whose areas are measured; a larger one adds the same for each module."""

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    """A design and what it is fed with: ``per_pane`` tuples in each pane, which is closed by the
    next tuple, or by a punctuation.
    """

    experiment: str
    panes: int
    engine: str = "panes"
    aggregate: str = "count"
    slack: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    closing: str = "tuples"
    per_pane: int = 1

    @property
    def query(self) -> Query:
        text = QUERY.format(select=SELECT[self.aggregate], panes=self.panes, slack=self.slack)
        return parse(text, f"{self.aggregate}_{self.panes}")

    @property
    def is_baseline(self) -> bool:
        return self.engine != "panes"

    @property
    def is_papers(self) -> bool:
        """Whether the paper has figures of it."""
        return self.engine == "panes" and self.aggregate == "count" and not self.slack

    def plan(self) -> Plan:
        return plan(self.query, self.engine, {"sum_rows": SUM_ROWS, **self.settings})


def stream(case: Case, random: np.random.Generator) -> tuple[Numbers, Numbers, Marks]:
    """Return times, prices, and which rows are punctuations: each new time closes a pane."""
    count = TUPLES + (0 if case.is_baseline else case.panes)
    times = START + np.arange(count * case.per_pane) // case.per_pane
    marks = np.zeros(len(times), dtype=bool)
    if case.closing == "punctuations":
        # After each tuple a punctuation at the end of its pane.
        times = np.stack([times, times + 1], axis=1).reshape(-1)
        marks = np.tile([False, True], len(times) // 2)
    return times, random.integers(0, 1 << 16, len(times)), marks


def expected(case: Case, times: Numbers, prices: Numbers) -> dict[int, int]:
    """Return the value of each window by its end; there are tuples in every pane."""
    ends = np.arange(times[0] + 1, times[-1] + case.panes + 1)
    functions: dict[str, Callable[[Numbers], Any]] = {"count": len, "max": max, "sum": sum}
    found = {}
    for end in ends.tolist():
        first, last = np.searchsorted(times, (end - case.panes, end))
        inside = prices[first:last]
        found[end] = int(functions[case.aggregate](inside))
    return found


@dataclass(frozen=True)
class Workshop:
    """A folder for one run after the other."""

    folder: Path
    sim: str
    seed: int

    def run(self, case: Case) -> dict[str, Any]:
        """Run one case, measure it, and hold its rows against the definition."""
        what = " ".join(f"{name}={value}" for name, value in case.settings.items())
        say(f"{case.experiment}: {case.engine} {what} {case.aggregate} of {case.panes} panes")
        parameters = case.plan().parameters
        return {
            "experiment": case.experiment,
            "engine": case.engine,
            "wlq": parameters.get("wlq", "-"),
            "aggregate": case.aggregate,
            "panes": case.panes,
            "lanes": parameters.get("lanes", 1),
            "slack_panes": case.slack,
            "input": f"closed by {case.closing}",
            **self._cycles(case),
            **self._area(case),
            "paper_bram": PAPER_BRAM.get(case.panes) if case.is_papers else None,
            "paper_latency": PAPER_LATENCY if case.is_papers else None,
        }

    def _cycles(self, case: Case) -> dict[str, Any]:
        names = ("tuples", "rows", "cycles", "tuples_per_cycle", "stalled", "latency_median",
                 "latency_max", "right")  # fmt: skip
        if case.is_baseline and case.panes > MOST_SIMULATED:
            return dict.fromkeys(names)
        design, out = self.folder / "design", self.folder / "out.parquet"
        generate(case.plan(), design)
        times, prices, marks = stream(case, np.random.default_rng(self.seed))
        prepared = _write_input(case.query, times, prices, marks, self.folder / "input")
        report = simulate(design, prepared, out, times=self.folder, sim=self.sim)
        table = pq.read_table(out)
        ends = table["time"].cast(pa.int64()).to_numpy() // 1000
        wanted = expected(case, times[~marks], prices[~marks])
        found = dict(zip(ends.tolist(), map(int, table["value"].to_pylist()), strict=True))
        # The input is taken until its last transfer; then windows drain.
        taken = int(np.fromfile(self.folder / "arrived", "<u4")[-1])
        latency = self._latency(case, times, ends, Design(design))
        values = (int((~marks).sum()), report.rows, report.replay.cycles,
                  round(len(times) / (taken - 1), 3), report.replay.registers["stall_engine"],
                  *latency, found == wanted and len(found) == report.rows)  # fmt: skip
        return dict(zip(names, values, strict=True))

    def _latency(
        self, case: Case, times: Numbers, ends: Numbers, design: Design
    ) -> tuple[int | None, int | None]:
        """Cycles from the transfer that closes a window to its row, without those of the shell."""
        arrived, left = (
            np.fromfile(self.folder / name, "<u4").astype(np.int64) for name in ("arrived", "left")
        )
        closes = np.searchsorted(np.maximum.accumulate(times) - case.slack, ends)
        known = closes < len(times)  # the others are closed by the end
        if not known.any():
            return None, None
        lanes = design.top["input"]["lanes"]
        waited = left[known] - arrived[closes[known] // lanes] - 2
        return int(np.median(waited)), int(waited.max())

    def _area(self, case: Case) -> dict[str, Any]:
        if not case.is_baseline or case.panes <= max(MEASURED):
            lut, ff, bram = _measure(case.query, case.engine, tuple(case.settings.items()))
            return {"lut": lut, "ff": ff, "bram": bram, "area": "measured"}
        # A window more is a module more, and all modules are the same.
        small, large = (
            _measure(replace(case, panes=panes).query, case.engine, ()) for panes in MEASURED
        )
        more = (case.panes - MEASURED[1]) / (MEASURED[1] - MEASURED[0])
        lut, ff, bram = (round(b + (b - a) * more) for a, b in zip(small, large, strict=True))
        about = f"from {MEASURED[0]} and {MEASURED[1]} panes"
        return {"lut": lut, "ff": ff, "bram": float(bram), "area": about}


@cache
def _measure(
    query: Query, engine: str, settings: tuple[tuple[str, Any], ...]
) -> tuple[int, int, float]:
    found = measure_area(plan(query, engine, {"sum_rows": SUM_ROWS, **dict(settings)}).build())
    return found.lut, found.ff, found.bram


def _write_input(query: Query, times: Numbers, prices: Numbers, marks: Marks, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (source,) = query.sources
    table = pa.table(
        {
            "symbol": pa.array(["UBSN"] * len(times)),
            "price": pa.array(prices),
            "time": pa.array(times * 1000).cast(pa.timestamp("us")),
            PUNCTUATION: pa.array(marks),
            "_arrival": pa.array(np.arange(len(times))),
        }
    )
    sha256 = write_tuples(table, source.alias, folder)
    sources = {source.alias: {"rows": len(times), "sha256": sha256}}
    write_manifest({"query": query.hash, "arrivals": len(times), "sources": sources}, folder)
    return folder


# The experiments.


def windows(sizes: Sequence[int]) -> Iterator[Case]:
    """Figure 6 and table III: windows of more and more panes."""
    for panes in sizes:
        for aggregate in ("count", "max"):
            yield Case("windows", panes, aggregate=aggregate, closing="punctuations")
        yield Case("windows", panes, settings={"wlq": "sequential"}, closing="punctuations")
        yield Case("windows", panes, "wid", closing="punctuations")
        yield Case("windows", panes, "glacier", closing="punctuations")


def lanes(sizes: Sequence[int]) -> Iterator[Case]:
    """More tuples per cycle into the largest windows; eight tuples close a pane."""
    for count in (1, 2, 4, 8):
        yield Case("lanes", sizes[-1], settings={"lanes": count}, per_pane=8)


def slack(sizes: Sequence[int]) -> Iterator[Case]:
    """More disorder: panes that are kept open."""
    for panes in (0, 1, 4, 16, 64):
        yield Case("slack", sizes[0], slack=panes)


@dataclass(frozen=True)
class Experiment:
    """A set of cases and the axes of its plots."""

    cases: Any
    x: str
    y: tuple[str, ...]


EXPERIMENTS = {
    "windows": Experiment(windows, "panes", ("lut", "ff", "cycles")),
    "lanes": Experiment(lanes, "lanes", ("lut", "tuples_per_cycle")),
    "slack": Experiment(slack, "slack_panes", ("lut", "latency_max")),
}


def bench_panes(
    experiment: str = "all",
    least: int = 64,
    most: int = 4096,
    factor: int = 2,
    sim: str = "verilator",
    seed: int = 1,
    plots: str = "build/bench",
) -> list[dict[str, Any]]:
    """Run the experiments, or one of them, and write plots of each into the folder ``plots``.

    Windows have from ``least`` to ``most`` panes, each ``factor`` times as many as the one before.
    """
    if experiment != "all" and experiment not in EXPERIMENTS:
        raise JoineryError(
            f"There is no experiment {experiment!r}; choose all or one of {', '.join(EXPERIMENTS)}"
        )
    chosen = EXPERIMENTS if experiment == "all" else {experiment: EXPERIMENTS[experiment]}
    if not (1 <= least <= most and factor > 1):
        raise JoineryError(
            f"Windows of {least} to {most} panes by a factor of {factor} cannot be measured"
        )
    sizes = [least]
    while sizes[-1] * factor <= most:
        sizes.append(sizes[-1] * factor)
    rows = []
    with tempfile.TemporaryDirectory(prefix="joinery-bench-") as folder:
        workshop = Workshop(Path(folder), sim, seed)
        for name, each in chosen.items():
            found = [workshop.run(case) for case in each.cases(sizes)]
            for y in each.y:
                path = Path(plots) / f"panes-{name}-{y}.svg"
                title = f"{each.cases.__doc__} {y.replace('_', ' ').capitalize()}."
                draw(title, [row for row in found if row[y] is not None], path, x=each.x, y=y)
                say(f"{path} has the plot")
            rows += found
    return rows
