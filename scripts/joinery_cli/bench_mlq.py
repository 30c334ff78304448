"""``joinery bench mlq``: multi-level queues, simulated and modelled, over the paper's windows.

Every row is a run of generated Verilog in which the memories take the time of the paper's table I,
and every aggregate is held against the definition. ``tpc`` is in tuples per cycle of the engine,
after all windows are full. The hierarchies are the paper's DFE(D), DFE(B+D) and DFE(B+Q+D), with
the values per level that the heuristic chooses for 128K keys; the last level holds the largest
window, so that one build serves several windows. ``paper`` is what the paper's text says of its
figures 5 (throughput as a part of the line rate, and latency) and 6 (the error of its model); the
plots have no numbers. ``times_dram`` is how many times as fast as ``dram`` with the same windows.

Fewer keys are simulated than there is room for: what the memories are asked per tuple does not
depend on the number of keys, but that with fewer keys it is likelier that one finds a word of its
own still on the way, and waits. ``keys_128k`` is the run with all of them.

Rows without ``levels`` are checks over the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean
from typing import Any

from joinery_gen.mlq import HIERARCHIES, Problem, choose_values, predict, worst_case
from joinery_tb.mlq_speed import build_speed, run_speed

from .common import say

__all__ = ["bench_mlq"]

KEYS = 1 << 17
VALUE_BYTES = 2
BUILT_ROWS = 4096
THREE = "bram+qdr+dram"
FIGURE_5 = {"dram": "up to 0.15", "bram+dram": "up to 0.30", THREE: "up to 0.90"}
LATENCIES = {"dram": 0.90, "bram+dram": 0.99}
"""The latency of three levels as a part of that of the others, on average: the text to figure 5."""
SIMULATED = {64: 1024, 256: 256, 1024: 128, 4096: 128}
"""Keys simulated, by rows of a window."""


@dataclass(frozen=True)
class Case:
    levels: str
    rows: int
    slide: int
    skew: str = "uniform"


def bench_mlq(
    experiment: str = "all", tuples: int = 30_000, large: int = 10_000_000, median: int = 0
) -> list[dict[str, Any]]:
    """Run one experiment, or all: ``sweep``, ``skew``, ``keys_128k``.

    ``median`` of 1 computes medians too in ``keys_128k``, which takes many times as long.
    """
    rows: list[dict[str, Any]] = []
    if experiment in ("all", "sweep"):
        rows += _compare([_run(case, tuples, "sweep") for case in _follow(list(_sweep()))])
    if experiment in ("all", "skew"):
        cases = [
            Case(THREE, 64, slide, skew)
            for slide in (1, 16, 64)
            for skew in ("uniform", "zipf", "single")
        ]
        rows += _compare_skew([_run(case, tuples, "skew") for case in _follow(cases)])
    if experiment in ("all", "keys_128k"):
        rows.append(_run_large(large, bool(median)))
    return rows


def _follow(cases: list[Case]) -> Iterator[Case]:
    """Yield the cases, and say how far they are: with a bar where a person looks."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    for number, case in enumerate(
        track(cases, "mlq", console=console, transient=True, disable=not console.is_terminal)
    ):
        say(
            f"mlq {number + 1} of {len(cases)}: {case.levels}, WS {case.rows}, WA {case.slide}, "
            f"{case.skew}"
        )
        yield case


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
        "paper": FIGURE_5[case.levels],
        "right": not (run.wrong or run.missing or run.evicted),
    }


def _compare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add how many times as fast as ``dram`` each is, and what the whole sweep must show."""
    dram = {(row["rows"], row["slide"]): row for row in rows if row["levels"] == "dram"}
    for row in rows:
        row["times_dram"] = round(row["tpc"] / dram[row["rows"], row["slide"]]["tpc"], 2)
    three = [row for row in rows if row["levels"] == THREE]
    error = mean(abs(row["error"]) for row in rows)
    slowest = min(row["tpc"] for row in three if row["model"] == 1)
    best = max(row["times_dram"] for row in three)
    checks: list[dict[str, Any]] = [
        {"experiment": "error", "error": round(error, 4), "paper": "0.12", "right": error <= 0.05},
        {"experiment": "line_rate", "tpc": slowest, "paper": "0.90", "right": slowest >= 0.97},
        {"experiment": "times_dram", "times_dram": best, "paper": "6 to 8", "right": best >= 6},
    ]
    for levels, paper in LATENCIES.items():
        other = {(r["rows"], r["slide"]): r["latency"] for r in rows if r["levels"] == levels}
        part = mean(row["latency"] / other[row["rows"], row["slide"]] for row in three)
        checks.append(
            {"experiment": f"latency_by_{levels}", "latency": round(part, 2), "paper": str(paper)}
        )
    return rows + checks


def _compare_skew(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add that no distribution of the keys is slower than the uniform one."""
    uniform = {row["slide"]: row["tpc"] for row in rows if row["keys"] == "uniform"}
    least = min(row["tpc"] / uniform[row["slide"]] for row in rows)
    check = {"experiment": "skew_by_uniform", "tpc": round(least, 4), "right": least >= 0.995}
    return [*rows, check]


def _run_large(tuples: int, median: bool) -> dict[str, Any]:
    """All 128K keys, windows of 64, from the first tuple on."""
    memories = HIERARCHIES[THREE]
    problem = Problem(KEYS, 64, 64, VALUE_BYTES)
    values = choose_values(problem, memories)
    say(f"mlq: 128K keys, WS 64, {tuples} tuples")
    binary = build_speed(memories, values, slots=KEYS, median=median)
    run = run_speed(binary, rows=64, slide=64, keys=KEYS, tuples=tuples, warm=False)
    return {
        "experiment": "keys_128k",
        "levels": THREE,
        "rows": 64,
        "slide": 64,
        "keys": "uniform",
        "values": " ".join(map(str, values)),
        "tpc": round(run.throughput, 4),
        "windows": run.windows,
        "latency": round(run.latency, 1),
        "right": not (run.wrong or run.missing or run.evicted),
    }
