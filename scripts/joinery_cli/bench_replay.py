"""``joinery bench replay``: how much faster is the replay harness than cocotb in every cycle?"""

import json
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from joinery_gen.data import prepare
from joinery_gen.engines import plan
from joinery_gen.generate import generate
from joinery_tb import toolchain
from joinery_tb.design import Design, DesignError
from joinery_tb.replay import replay
from joinery_tb.runner import run_cocotb
from joinery_tb.words import encode

from .common import read_query

__all__ = ["bench_generated", "bench_replay"]


def bench_generated(
    tuples: int = 20_000, cores: int = 16, sim: str = "verilator", repeats: int = 3
) -> list[dict[str, Any]]:
    """Bench the handshake join of ``tick_band`` on the first ``tuples`` of the ``ticks`` set."""
    chosen = plan(read_query("tick_band"), "handshake", {"cores": cores})
    with tempfile.TemporaryDirectory(prefix="joinery-bench-") as folder:
        design, prepared = Path(folder, "design"), Path(folder, "input")
        generate(chosen, design)
        prepare(chosen.query, ["ticks"], prepared, limit=tuples)
        about = {"query": chosen.query.name, "cores": cores, "tuples": tuples}
        rows = bench_replay(design, prepared, sims=(sim,), repeats=repeats)
    return [about | row for row in rows]


def bench_replay(
    directory: str | Path,
    prepared: str | Path,
    *,
    sims: Sequence[str] = ("verilator",),
    repeats: int = 3,
) -> list[dict[str, Any]]:
    """Drive one design with one stimulus both ways; return a row per driver and simulator.

    Both must give the same results in the same cycles, or ``DesignError`` is raised. Each time is
    the best of ``repeats`` runs. cocotb's leaves out the start of the simulator, replay's does not.
    """
    design = Design(directory)
    rows = []
    with tempfile.TemporaryDirectory(prefix="joinery-bench-") as folder:
        stimulus = encode(design.top, prepared, Path(folder) / "stimulus").path
        for sim in sims:
            rows += _compare_drivers(design, stimulus, sim, Path(folder), repeats)
    return rows


def _compare_drivers(
    design: Design, stimulus: Path, sim: str, folder: Path, repeats: int
) -> list[dict[str, Any]]:
    driven = min(
        (_run_cocotb(design, stimulus, sim, folder) for _ in range(repeats)),
        key=lambda report: report["seconds"],
    )
    best = min(
        (replay(design, stimulus, folder / "replayed", sim=sim) for _ in range(repeats)),
        key=lambda report: report.seconds,
    )
    same = (folder / "driven").read_bytes() == (folder / "replayed").read_bytes()
    if not same or driven["cycles"] != best.cycles:
        raise DesignError(
            f"cocotb and the replay harness disagree on {sim}: {driven['cycles']} and "
            f"{best.cycles} cycles, {'the same' if same else 'different'} results"
        )
    return [
        _row("cocotb", sim, best.cycles, driven["seconds"], driven["seconds"]),
        _row("replay", sim, best.cycles, best.seconds, driven["seconds"]),
    ]


def _run_cocotb(design: Design, stimulus: Path, sim: str, folder: Path) -> dict[str, Any]:
    env = {
        "JOINERY_BENCH_STIMULUS": str(stimulus),
        "JOINERY_BENCH_RESULTS": str(folder / "driven"),
        "JOINERY_BENCH_REPORT": str(folder / "report.json"),
    }
    module = "joinery_tb.cocotb_tests.throughput"
    run_cocotb(design.directory, sim=sim, module=module, extra_env=env)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def _row(driver: str, sim: str, cycles: int, seconds: float, cocotb: float) -> dict[str, Any]:
    return {
        "driver": driver,
        "simulator": sim,
        "cycles": cycles,
        "seconds": round(seconds, 4),
        "cycles_per_second": round(cycles / seconds),
        "speedup": round(cocotb / seconds, 1),
        f"{sim}_version": toolchain.version(sim),
        "cocotb_version": metadata.version("cocotb"),
    }
