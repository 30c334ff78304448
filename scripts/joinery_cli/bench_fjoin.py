"""``joinery bench fjoin`` and ``fjoin_area``: join pipelines at full load, and what a unit costs.

Every row of ``fjoin`` is a run of generated Verilog: batches of stream tuples without a pause, each
joined with the same window. Coordinates and addresses are drawn so that a pair matches with the
probability that is named; all pairs are in range and in order, so what matches is a result.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from joinery.expr import Abs, Arith, Bitwise, Column, Compare, Const, Expr, Logic
from joinery.fjoin import FJoinPaper, FJoinPipeline, PipelineShape
from joinery.join import JoinPair
from joinery.tuples import Field, IntType, Schema
from joinery_gen.query import JoineryError
from joinery_synth.area import Area, measure_area
from joinery_tb.pipeline_runs import run_pipeline

from .common import say

__all__ = ["bench_area", "bench_fjoin"]

Numbers = npt.NDArray[np.int64]
Rows = list[dict[str, Any]]
Tuples = dict[str, Numbers]

ENGINES = ("fjoin", "fjoin_paper")
UNITS = (16, 64, 256, 1024)
WINDOWS = (4096, 65536)
SELECTIVITIES = (0.0, 0.001, 0.01, 0.1)
CYCLES = 1 << 18
"""Cycles that a run has at least: two batches, and more where they are short."""

COORDINATE, ADDRESS = IntType(32), IntType(32, signed=False)
WORD = 64  # bytes of a bus word; the paper gives each tuple one
PIECE = 1 << 22  # pairs that brute force tries at once


def bench_fjoin(
    engine: str = "all",
    predicate: str = "all",
    units: int = 0,
    lanes: int = 1,
    window: int = 0,
    cycles: int = CYCLES,
    seed: int = 1,
) -> Rows:
    """Measure pipelines; 0 and ``all`` stand for every value.

    ``utilisation`` is the share of the cycles from the first load to the last result in which a
    window tuple was consumed. ``predicted_cycles`` are those of the model.
    """
    rows = []
    for case in _cases(engine, predicate, units, lanes, window):
        say(f"fjoin: {case}")
        rows += [case.run(selectivity, cycles, seed) for selectivity in SELECTIVITIES]
    return rows


@dataclass(frozen=True)
class Case:
    """A pipeline and the length of its window."""

    engine: str
    predicate: str
    units: int
    lanes: int
    window: int

    def __str__(self) -> str:
        return f"{self.engine}, {self.predicate}, {self.units} units, window {self.window:,}"

    def pipeline(self) -> FJoinPipeline | FJoinPaper:
        """Return the hardware."""
        pair = WORKLOADS[self.predicate].pair
        if self.engine == "fjoin_paper":
            return FJoinPaper(pair, side="left", units=self.units)
        return FJoinPipeline(pair, side="left", units=self.units, lanes=self.lanes)

    def run(self, selectivity: float, cycles: int, seed: int) -> dict[str, Any]:
        """Run the pipeline on random tuples and count what is right and what is wrong."""
        draw = np.random.default_rng([seed, self.units, self.window, int(1000 * selectivity)])
        load = WORKLOADS[self.predicate]
        pipeline = self.pipeline()
        # A batch is over when its window has passed and all that matches has left.
        longest = max(self.window, round(selectivity * self.window * self.units / self.lanes))
        count = max(2, -(-cycles // longest))

        def tuples(first: int, number: int, role: str) -> Tuples:
            return {**load.draw(draw, number, selectivity, role), **_stamps(first, number)}

        window = tuples(0, self.window, "window")
        batches = [tuples(self.window + k * self.units, self.units, "stream") for k in range(count)]
        found = run_pipeline(pipeline, batches, window, time_range=1)
        checks = [
            _check(pairs, _matches(load, batch, window))
            for batch, pairs in zip(batches, found.pairs, strict=True)
        ]
        results, lost, duplicated, invented = (sum(each) for each in zip(*checks, strict=True))
        matches = [len(pairs) for pairs in found.pairs]
        predict = paper_cycles if self.engine == "fjoin_paper" else predicted_cycles
        compared = count * self.units * self.window
        stride = -(-pipeline.shape.record("window").size // 8)
        return {
            **vars(self),
            "selectivity": selectivity,
            "batches": count,
            "cycles": found.cycles,
            "predicted_cycles": predict(pipeline.shape, self.window, matches),
            "utilisation": round(found.window / found.cycles, 4),
            "results": results,
            "results_per_cycle": round(results / found.cycles, 4),
            "comparisons_per_cycle": round(compared / found.cycles, 1),
            "bytes_per_comparison": round(WORD / (WORD // stride) / self.units, 4),
            "lost": lost,
            "duplicated": duplicated,
            "right": not (lost or duplicated or invented),
        }


def predicted_cycles(shape: PipelineShape, window: int, matches: Sequence[int]) -> int:
    """Return the cycles that batches take that match so often: what is slowest for each, and the
    way of the first tuples in and of the last match out."""
    slowest = (
        max(window + shape.slots + 1, shape.units + 1, -(-number // shape.lanes) + 1)
        for number in matches
    )
    return shape.units + 1 + shape.flight_cycles + 11 + sum(slowest)


def paper_cycles(shape: PipelineShape, window: int, matches: Sequence[int]) -> int:
    """Return the same for the paper's units: a window tuple every second cycle or a match in each,
    and a whole pipeline to fill and to empty for every batch."""
    return sum(max(2 * window, number) + 2 * shape.units for number in matches)


def _check(pairs: npt.NDArray[np.uint32], wanted: Numbers) -> tuple[int, int, int, int]:
    """Return how many pairs there are, and how many are lost, duplicated and invented."""
    got, copies = np.unique(_keys(pairs[:, 0], pairs[:, 1]), return_counts=True)
    lost = len(np.setdiff1d(wanted, got, assume_unique=True))
    invented = len(np.setdiff1d(got, wanted, assume_unique=True))
    return len(pairs), lost, int((copies - 1).sum()), invented


def _cases(engine: str, predicate: str, units: int, lanes: int, window: int) -> Iterator[Case]:
    for name, value, known in (("engine", engine, ENGINES), ("predicate", predicate, WORKLOADS)):
        if value not in (*known, "all"):
            raise JoineryError(
                f"bench fjoin: {name} must be {', '.join(known)} or all, not {value!r}"
            )
    for name in ENGINES if engine == "all" else [engine]:
        for which in WORKLOADS if predicate == "all" else [predicate]:
            for size in WINDOWS if window == 0 else [window]:
                for number in UNITS if units == 0 else [units]:
                    yield Case(name, which, number, 1 if name == "fjoin_paper" else lanes, size)


# What a unit costs.


PAPER_UNITS = {"manhattan": (478, 872), "prefix": (303, 649)}
"""LUT and FF of a unit of the paper's own RTL, with the same tool and family."""
PAPER_FLOW = 0.499  # window tuples per cycle, at best
LIMITS = {"manhattan": (170, 200, 5), "prefix": (60, 100, 10)}
"""The most LUT and FF of a unit, and how many times the paper's comparisons per LUT at least."""


def bench_area(
    predicate: str = "all", small: int = 64, large: int = 128, family: str = "xcup"
) -> Rows:
    """Synthesize pipelines of two sizes: what a unit more takes, all it needs at the edge included.

    ``times_paper`` compares comparisons per cycle and LUT, where nothing holds the flow.
    """
    rows = []
    for case in _cases("fjoin", predicate, small, 1, WINDOWS[-1]):
        say(f"fjoin_area: {case.predicate}, {small} and {large} units, {family}")
        sizes = [replace(case, units=units) for units in (small, large)]
        areas = [measure_area(each.pipeline(), family=family) for each in sizes]

        def per_unit(kind: str, areas: Sequence[Area] = areas) -> float:
            return float(getattr(areas[1], kind) - getattr(areas[0], kind)) / (large - small)

        lut, ff = per_unit("lut"), per_unit("ff")
        most_lut, most_ff, least = LIMITS[case.predicate]
        paper_lut, paper_ff = PAPER_UNITS[case.predicate]
        times = paper_lut / PAPER_FLOW / lut
        rows.append(
            {
                "engine": case.engine,
                "predicate": case.predicate,
                "family": family,
                "units": f"{small} to {large}",
                "lut": areas[1].lut,
                "ff": areas[1].ff,
                "lut_per_unit": round(lut, 1),
                "ff_per_unit": round(ff, 1),
                "paper_lut_per_unit": paper_lut,
                "paper_ff_per_unit": paper_ff,
                "times_paper": round(times, 1),
                "right": lut <= most_lut and ff <= most_ff and times >= least,
                "yosys_version": areas[1].yosys_version.split()[1],
            }
        )
    return rows


# What is joined.

REACH = 5000  # of the distance join
FAR = 1 << 30
PREFIX = 8  # bits of an address that do not count


def _columns(kind: IntType, names: Sequence[str]) -> tuple[Schema, list[tuple[Expr, Expr]]]:
    """Return the schema of both streams, and the twins of each column."""
    schema = Schema(tuple(Field(name, kind) for name in names))
    return schema, [(Column("r", name, kind), Column("s", name, kind)) for name in names]


def _distance() -> JoinPair:
    """Places within ``REACH`` by Manhattan's distance."""
    schema, twins = _columns(COORDINATE, ("x", "y"))
    across, along = (Abs(Arith("-", left, right)) for left, right in twins)
    near = Compare("<=", Arith("+", across, along), Const.number(REACH))
    return JoinPair(("r", "s"), schema, schema, near, (), ())


def _prefix() -> JoinPair:
    """Packets of which the sources or the destinations are in the same network."""
    schema, twins = _columns(ADDRESS, ("source", "target"))
    mask = Const.number((1 << 32) - (1 << PREFIX))
    same = (
        Compare("=", Bitwise("&", Bitwise("^", left, right), mask), Const.number(0))
        for left, right in twins
    )
    return JoinPair(("r", "s"), schema, schema, Logic("OR", tuple(same)), (), ())


def _side(selectivity: float) -> int:
    """Return the side of the square in which two random places are near so often."""
    low, high = 0.0, 1.0
    for _ in range(50):
        reach = (low + high) / 2  # as a share of the side
        often = 2 * reach**2 - 4 * reach**3 / 3 + reach**4 / 6
        low, high = (reach, high) if often < selectivity else (low, reach)
    return round(REACH / high)


def _places(draw: np.random.Generator, count: int, selectivity: float, role: str) -> Tuples:
    if selectivity == 0:
        start, side = (FAR if role == "window" else -FAR), FAR // 2
    else:
        start, side = 0, _side(selectivity)
    return {name: start + draw.integers(0, side, count) for name in ("x", "y")}


def _packets(draw: np.random.Generator, count: int, selectivity: float, role: str) -> Tuples:
    # two prefixes, of which one is enough
    networks = round(1 / (1 - sqrt(1 - selectivity))) if selectivity else FAR >> PREFIX
    start = networks if selectivity == 0 and role == "window" else 0
    return {
        name: start + draw.integers(0, networks, count) << PREFIX | draw.integers(0, 256, count)
        for name in ("source", "target")
    }


def _near(stream: Tuples, window: Tuples) -> npt.NDArray[np.bool_]:
    apart = (abs(stream[name][:, None] - window[name][None, :]) for name in ("x", "y"))
    return sum(apart) <= REACH  # type: ignore[return-value]


def _neighbours(stream: Tuples, window: Tuples) -> npt.NDArray[np.bool_]:
    source, target = (
        stream[name][:, None] >> PREFIX == window[name][None, :] >> PREFIX
        for name in ("source", "target")
    )
    return source | target


@dataclass(frozen=True)
class Workload:
    """A predicate, how to draw tuples for it, and which pairs of them meet it."""

    pair: JoinPair
    draw: Callable[[np.random.Generator, int, float, str], Tuples]
    met: Callable[[Tuples, Tuples], npt.NDArray[np.bool_]]


WORKLOADS = {
    "manhattan": Workload(_distance(), _places, _near),
    "prefix": Workload(_prefix(), _packets, _neighbours),
}


def _stamps(first: int, count: int) -> Tuples:
    """Ids from the first on, and one time for all."""
    return {"id": np.arange(first, first + count), "time": np.zeros(count, np.int64)}


def _keys(stream: npt.NDArray[Any], window: npt.NDArray[Any]) -> Numbers:
    """Return a number for each pair of ids."""
    return stream.astype(np.int64) << 32 | window.astype(np.int64)


def _matches(load: Workload, stream: Tuples, window: Tuples) -> Numbers:
    """Return the pairs that meet the predicate, by brute force."""
    step = max(1, PIECE // len(window["id"]))
    found = []
    for first in range(0, len(stream["id"]), step):
        part = {name: values[first : first + step] for name, values in stream.items()}
        rows, columns = np.nonzero(load.met(part, window))
        found.append(_keys(part["id"][rows], window["id"][columns]))
    return np.concatenate(found)
