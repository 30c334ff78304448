"""``joinery bench handshake``: the experiments of the papers on handshake join, on our hardware.

Every row is a run of generated Verilog. A tuple has 64 bits (a key and a value), a result 96, as in
Oge's thesis; match rate x means that x of the tuples of each stream carry the same key, and no two
others are equal. Tuples come in pairs, one of each stream in a transfer.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from joinery.merge import TABLE_5_1
from joinery_gen.data.prepare import write_manifest, write_tuples
from joinery_gen.engines import plan
from joinery_gen.generate import generate
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError, Query
from joinery_tb.design import Design
from joinery_tb.replay import simulate

from .common import say
from .plots import draw

__all__ = ["EXPERIMENTS", "Case", "Workshop", "bench_handshake"]

QUERY = """\
CREATE STREAM r (key UINT(32), value UINT(32));
CREATE STREAM s (key UINT(32), value UINT(32));
SELECT r.key, r.value, s.value AS other
FROM r [ROWS {window}], s [ROWS {window}] WHERE r.key = s.key
"""
LEAST_QUEUE = 6  # the least depth of a core's queues that is safe
TENTHS = [tenth / 10 for tenth in range(1, 11)]
HOT, HOT_EVERY = 16, 256  # tuples in a hot block, and from one block to the next

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One run: a design, what it is fed with, and how fast results are taken from it."""

    experiment: str
    engine: str = "handshake"
    settings: Mapping[str, Any] = field(default_factory=dict)
    window: int = 512
    tuples: int = 512
    match_rate: float = 1.0
    input: str = "uniform"
    input_every: int = 1
    output_every: int = 1
    buffers: str = "default"
    paper_cycles: int | None = None

    @property
    def query(self) -> Query:
        return parse(QUERY.format(window=self.window), f"match_{self.window}")


def keys(case: Case, random: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Return the keys of both streams: 0 where tuples match, else each its own."""
    left, right = (np.arange(case.tuples) * 2 + side for side in (1, 2))
    if case.input == "hot":
        # Blocks that match each other only: their pairs meet in the middle of the chain.
        for first in range(0, case.tuples, HOT_EVERY):
            left[first : first + HOT] = right[first : first + HOT] = -1 - first
        return left, right
    for stream in (left, right):
        stream[_places(case, random)] = 0
    return left, right


def _places(case: Case, random: np.random.Generator) -> Numbers:
    """Return which of a stream's tuples match."""
    count = round(case.match_rate * case.tuples)
    match case.input:
        case "uniform":
            return np.sort(random.permutation(case.tuples)[:count])
        case "gaussian":
            distance = np.abs(np.arange(case.tuples) - case.tuples / 2)
            chance = np.exp(-0.5 * (distance / (case.tuples / 6)) ** 2)
            chosen = random.choice(case.tuples, count, replace=False, p=chance / chance.sum())
            return np.sort(chosen)
        case "burst":
            return np.arange(count) + (case.tuples - count) // 2
    raise JoineryError(f"There is no input {case.input!r}")


def expected_pairs(case: Case, left: Numbers, right: Numbers) -> Numbers:
    """Return ``i * tuples + j`` for every left tuple i and right tuple j that must meet."""
    i, j = np.nonzero(left[:, None] == right[None, :])
    # The later one finds the earlier among the last of its stream; the left one is first.
    near = np.where(i <= j, i > j - case.window, j >= i - case.window)
    found: Numbers = np.sort(i[near] * case.tuples + j[near])
    return found


@dataclass(frozen=True)
class Workshop:
    """A folder for designs, each made once, and for the files of one run after the other."""

    folder: Path
    sim: str
    seed: int

    def design(self, case: Case) -> Path:
        settings = json.dumps([case.engine, case.window, case.settings], sort_keys=True)
        path = self.folder / hashlib.sha256(settings.encode()).hexdigest()[:16]
        if not path.exists():
            generate(plan(case.query, case.engine, case.settings), path)
        return path

    def run(self, case: Case) -> dict[str, Any]:
        """Run one case and hold its results against the definition."""
        what = " ".join(f"{name}={value}" for name, value in case.settings.items())
        say(f"{case.experiment}: {case.engine} {what}, {case.match_rate:.0%} {case.input}")
        design = Design(self.design(case))
        prepared, out = self.folder / "input", self.folder / "out.parquet"
        left, right = keys(case, np.random.default_rng(self.seed))
        _write_input(case.query, left, right, prepared)
        report = simulate(
            design.directory,
            prepared,
            out,
            times=self.folder,
            sim=self.sim,
            stall_in=_one_in(case.input_every),
            stall_out=_one_in(case.output_every),
        )
        rows = pq.read_table(out, columns=["value", "other"])
        i, j = rows["value"].to_numpy(), rows["other"].to_numpy()
        found, wanted = i * case.tuples + j, expected_pairs(case, left, right)
        different = np.unique(found)
        run, parameters = report.replay, design.top["parameters"]
        return {
            "experiment": case.experiment,
            "engine": case.engine,
            "merge": parameters.get("merge", "tree"),
            "flow": parameters.get("flow", "chain"),
            "cores": parameters.get("cores", 1),
            "window": case.window,
            "comparators": parameters.get("comparators", 1),
            "lanes": design.lanes,
            "match_rate": case.match_rate,
            "input": case.input,
            "buffers": case.buffers,
            "network_rows": design.top["predicted"]["resources"]["network_rows"],
            "results": report.rows,
            "cycles": run.cycles,
            "results_per_cycle": round(report.rows / run.cycles, 4),
            "cycles_per_pair": round(run.cycles / case.tuples, 2),
            "suspended_cycles": run.registers["stall_engine"],
            "lost": len(np.setdiff1d(wanted, different)),
            "duplicated": len(found) - len(different),
            "invented": len(np.setdiff1d(different, wanted)),
            "right": np.array_equal(np.sort(found), wanted),
            **self._latency(np.maximum(i, j)),
            "paper_cycles": case.paper_cycles,
            "simulator_version": f"{run.simulator} {run.version}",
        }

    def _latency(self, later: Numbers) -> dict[str, int | None]:
        """Cycles from the arrival of each pair's later tuple, number ``later``, to its result."""
        names = ("latency_median", "latency_max")
        if not len(later):
            return dict.fromkeys(names)
        arrived, left = (
            np.fromfile(self.folder / name, "<u4").astype(np.int64) for name in ("arrived", "left")
        )
        waited = left - arrived[later]  # both tuples of a pair with one number come together
        return dict(zip(names, (int(np.median(waited)), int(waited.max())), strict=True))


def _one_in(cycles: int) -> list[bool]:
    """A pattern of stalls that leaves one of so many cycles."""
    return [True] * (cycles - 1) + [False]


def _write_input(query: Query, left: Numbers, right: Numbers, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    sources = {}
    for number, (alias, of) in enumerate((("r", left), ("s", right))):
        table = pa.table(
            {
                "key": of & 0xFFFFFFFF,
                "value": np.arange(len(of)),
                "_arrival": 2 * np.arange(len(of)) + number,
            }
        )
        digest = write_tuples(table, alias, folder)
        sources[alias] = {"rows": len(of), "dropped": 0, "sha256": digest, "from": "bench"}
    manifest = {"query": query.hash, "arrivals": len(left) + len(right), "sources": sources}
    write_manifest(manifest, folder)


def _network(merge: str, **more: Any) -> dict[str, Any]:
    return {"cores": 64, "merge": merge, "storage": "memory", **more}


def buffer_sizes() -> Iterator[Case]:
    """Figure 5.1.1: buffer sizes 4 to 2,048 at 100 % match."""
    paper = {4: 1_464_443, 8: 1_054_029}
    for size in (2**k for k in range(2, 12)):
        for merge in ("fsm_tree", "tree", "ring"):
            settings = _network(merge, merge_depth=size, queue_depth=max(size, LEAST_QUEUE))
            known = paper.get(size, 1_054_012) if merge == "fsm_tree" else None
            yield Case("5.1.1", settings=settings, buffers=str(size), paper_cycles=known)


def buffer_plans() -> Iterator[Case]:
    """Table 5.1 and figure 5.1.2: unequal buffers at 20 to 100 % match."""
    for name, buffers in TABLE_5_1.items():
        for rate in (0.2, 0.4, 0.6, 0.8, 1.0):
            for merge in ("fsm_tree", "tree"):
                settings = _network(
                    merge,
                    merge_depth=list(buffers.mergers),
                    queue_depth=max(buffers.cores, LEAST_QUEUE),
                )
                if merge == "tree":
                    settings["fan_in"] = 2
                yield Case("5.1.2", settings=settings, match_rate=rate, buffers=name)


def input_shapes() -> Iterator[Case]:
    """Section 5.2: uniform, Gaussian and burst inputs."""
    for shape in ("uniform", "gaussian", "burst"):
        for rate in (0.2, 0.4):
            for merge in ("tree", "ring"):
                yield Case("5.2", settings=_network(merge), match_rate=rate, input=shape)


def sixteen_cores() -> Iterator[Case]:
    """Figure 6.3.5: 16 cores and 128 tuples at 10 to 100 %."""
    for rate in TENTHS:
        for merge in ("fsm_tree", "tree", "ring"):
            settings = _network(merge, cores=16)
            yield Case("6.3.5", settings=settings, window=128, tuples=128, match_rate=rate)


def sixty_four_cores() -> Iterator[Case]:
    """Figure 6.3.6: 64 cores and 512 tuples against the nested loop and the baseline network."""
    for shape in ("uniform", "burst"):
        for rate in TENTHS:
            yield Case("6.3.6", "nested_loop", match_rate=rate, input=shape)
            for merge in ("fsm_tree", "tree", "ring"):
                yield Case("6.3.6", settings=_network(merge), match_rate=rate, input=shape)
            for merge in ("tree", "ring"):
                settings = _network(merge, lanes=4)
                yield Case("6.3.6", settings=settings, match_rate=rate, input=shape)


def many_cores() -> Iterator[Case]:
    """Teubner's figure 13: cores 1 to 200 at window 1,000, without matches."""
    for cores in (1, 2, 5, 10, 20, 50, 100, 200):
        settings = _network("tree", cores=cores)
        yield Case("T13", settings=settings, window=1000, tuples=1000, match_rate=0.0)


def many_comparators() -> Iterator[Case]:
    """Past figure 13: 64 cores with 1 to 16 comparators at window 1,000, without matches."""
    for comparators in (1, 2, 5, 10, 16):
        settings = _network("tree", comparators=comparators)
        yield Case("comparators", settings=settings, window=1000, tuples=1000, match_rate=0.0)


def hot_core() -> Iterator[Case]:
    """All matches in the middle of the chain, an output that takes a result every fourth cycle.

    ``network_rows`` counts every place in which a result can wait in the network: FIFOs, links and
    pipeline registers. Each ring has a tree of at least as many beside it.
    """
    for merge, depth in (("tree", 2), ("tree", 5), ("ring", 2), ("tree", 7), ("ring", 4)):
        more = {"fan_in": 2} if merge == "tree" else {}
        yield Case(
            "hot core",
            settings=_network(merge, merge_depth=depth, queue_depth=LEAST_QUEUE, **more),
            tuples=2048,
            input="hot",
            match_rate=HOT / HOT_EVERY,
            output_every=4,
        )


def latency() -> Iterator[Case]:
    """From the later tuple's arrival to the result: a chain waits for more tuples, a broadcast not.

    A tuple of each stream comes every 16 cycles, and one in fifty carries the key that matches.
    """
    for flow in ("chain", "broadcast"):
        for merge in ("tree", "ring"):
            yield Case(
                "latency",
                settings=_network(merge, flow=flow),
                tuples=2048,
                match_rate=0.02,
                input_every=16,
            )


@dataclass(frozen=True)
class Experiment:
    """Cases, and which column is plotted over which."""

    cases: Callable[[], Iterator[Case]]
    x: str = "match_rate"
    y: str = "cycles"

    @property
    def title(self) -> str:
        return (self.cases.__doc__ or "").splitlines()[0].rstrip(".")


EXPERIMENTS = {
    "buffer_sizes": Experiment(buffer_sizes, x="buffers"),
    "buffer_plans": Experiment(buffer_plans),
    "input_shapes": Experiment(input_shapes),
    "sixteen_cores": Experiment(sixteen_cores),
    "sixty_four_cores": Experiment(sixty_four_cores),
    "many_cores": Experiment(many_cores, x="cores"),
    "many_comparators": Experiment(many_comparators, x="comparators"),
    "hot_core": Experiment(hot_core, x="network_rows", y="suspended_cycles"),
    "latency": Experiment(latency, x="flow", y="latency_max"),
}


def bench_handshake(
    experiment: str = "all", sim: str = "verilator", seed: int = 1, plots: str = "build/bench"
) -> list[dict[str, Any]]:
    """Run the experiments, or one of them, and write a plot of each into the folder ``plots``."""
    if experiment != "all" and experiment not in EXPERIMENTS:
        raise JoineryError(
            f"There is no experiment {experiment!r}; choose all or one of {', '.join(EXPERIMENTS)}"
        )
    chosen = EXPERIMENTS if experiment == "all" else {experiment: EXPERIMENTS[experiment]}
    rows = []
    with tempfile.TemporaryDirectory(prefix="joinery-bench-") as folder:
        workshop = Workshop(Path(folder), sim, seed)
        for name, each in chosen.items():
            found = [workshop.run(case) for case in each.cases()]
            path = Path(plots) / f"handshake-{name}.svg"
            draw(each.title, found, path, x=each.x, y=each.y)
            say(f"{path} has the plot")
            rows += found
    return rows
