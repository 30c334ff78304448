"""``joinery bench mlq``: multi-level queues, simulated and modelled, over the paper's windows.

Every row is a run of generated Verilog in which the memories take the time of the paper's table I,
and every aggregate is held against the definition. ``tpc`` is in tuples per cycle of the engine,
after all windows are full. The hierarchies are the paper's DFE(D), DFE(B+D) and DFE(B+Q+D), with
the values per level that the heuristic chooses for 128K keys; the last level holds the largest
window, so that one build serves several windows. ``figure_5`` is what the paper says of the
throughput in its text, as a part of the line rate; its plots have no numbers.

Fewer keys are simulated than there is room for: what the memories are asked per tuple does not
depend on the number of keys. ``keys_128k`` is the run with all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from joinery_gen.mlq import HIERARCHIES, Problem, choose_values, predict, worst_case
from joinery_tb.mlq_speed import build_speed, run_speed

from .common import say

__all__ = ["bench_mlq"]

KEYS = 1 << 17
VALUE_BYTES = 2
BUILT_ROWS = 4096
FIGURE_5 = {"dram": "up to 0.15", "bram+dram": "up to 0.30", "bram+qdr+dram": "up to 0.90"}
SIMULATED = {64: 1024, 256: 256, 1024: 128, 4096: 64}
"""Keys simulated, by rows of a window."""


@dataclass(frozen=True)
class Case:
    levels: str
    rows: int
    slide: int
    skew: str = "uniform"


def bench_mlq(
    experiment: str = "all", tuples: int = 30_000, large: int = 10_000_000
) -> list[dict[str, Any]]:
    """Run one experiment, or all: ``sweep``, ``skew``, ``keys_128k``."""
    rows: list[dict[str, Any]] = []
    if experiment in ("all", "sweep"):
        rows += [_run(case, tuples, "sweep") for case in _sweep()]
        rows.append(_error(rows))
    if experiment in ("all", "skew"):
        rows += [
            _run(Case("bram+qdr+dram", 64, slide, skew), tuples, "skew")
            for slide in (1, 16, 64)
            for skew in ("uniform", "zipf", "single")
        ]
    if experiment in ("all", "keys_128k"):
        rows.append(_run_large(large))
    return rows


def _sweep() -> Iterator[Case]:
    for levels in HIERARCHIES:
        for rows in (64, 256, 1024, 4096):
            for slide in sorted({1, 4, 16, 64, rows}):
                yield Case(levels, rows, slide)


def _run(case: Case, tuples: int, experiment: str) -> dict[str, Any]:
    memories = HIERARCHIES[case.levels]
    problem = Problem(KEYS, case.rows, case.slide, VALUE_BYTES)
    chosen = choose_values(problem, memories)
    values = (*chosen[:-1], BUILT_ROWS)
    say(f"mlq: {case.levels}, WS {case.rows}, WA {case.slide}, {case.skew}")
    keys = SIMULATED[case.rows]
    binary = build_speed(memories, values, slots=max(SIMULATED.values()), median=False)
    run = run_speed(
        binary, rows=case.rows, slide=case.slide, keys=keys, tuples=tuples, skew=case.skew
    )
    model = predict(problem, memories, values)
    return {
        "experiment": experiment,
        "levels": case.levels,
        "rows": case.rows,
        "slide": case.slide,
        "keys": case.skew,
        "values": " ".join(map(str, chosen)),
        "tpc": round(run.throughput, 4),
        "model": round(model.throughput, 4),
        "error": round(run.throughput / model.throughput - 1, 4),
        "worst_case": round(worst_case(problem, memories, chosen).throughput, 4),
        "bottleneck": model.bottleneck,
        "latency": round(run.latency, 1),
        "figure_5": FIGURE_5[case.levels],
        "right": not (run.wrong or run.missing or run.evicted),
    }


def _error(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean absolute error of the model, which the paper gives as 12 %."""
    mean = sum(abs(row["error"]) for row in rows) / len(rows)
    return {"experiment": "model", "error": round(mean, 4), "right": mean <= 0.05}


def _run_large(tuples: int) -> dict[str, Any]:
    """All 128K keys, windows of 64, from the first tuple on."""
    memories = HIERARCHIES["bram+qdr+dram"]
    problem = Problem(KEYS, 64, 64, VALUE_BYTES)
    values = choose_values(problem, memories)
    say(f"mlq: 128K keys, WS 64, {tuples} tuples")
    binary = build_speed(memories, values, slots=KEYS, median=False)
    run = run_speed(binary, rows=64, slide=64, keys=KEYS, tuples=tuples, warm=False)
    return {
        "experiment": "keys_128k",
        "levels": "bram+qdr+dram",
        "rows": 64,
        "slide": 64,
        "keys": "uniform",
        "values": " ".join(map(str, values)),
        "tpc": round(run.throughput, 4),
        "windows": run.windows,
        "latency": round(run.latency, 1),
        "right": not (run.wrong or run.missing or run.evicted),
    }
