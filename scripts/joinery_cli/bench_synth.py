"""``joinery bench synth`` and ``timing``: what designs cost, and how fast they are.

Sizes are small ones: the slope per core or unit tells the rest. A tuple of the handshake designs
has 64 bits, a result 96, and a core holds 8 tuples of each stream, as in Oge's thesis (tables 4.2
and 6.1); the tuples of fjoin have two numbers of 32 bits, as in FJoin's table 4. The papers'
figures are of other chips and tools, and stand beside ours for their form.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from joinery.fjoin import FJoinPaper, FJoinPipeline
from joinery.link import LinkPort, LinkShape
from joinery_gen.engines import Plan, plan
from joinery_gen.generate import shell_of
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError
from joinery_synth.families import FAMILIES
from joinery_synth.resources import Resources, synthesize
from joinery_synth.route import Routing, route_design, spread

from .bench_fjoin import WORKLOADS
from .bench_handshake import QUERY
from .bench_panes import QUERY as COUNT
from .bench_panes import SELECT
from .common import read_query, say

__all__ = ["bench_synth", "bench_timing", "names_of", "thesis_plan", "windows_plan"]

ROWS_PER_CORE = 8


def thesis_plan(size: int, engine: str = "handshake", **settings: Any) -> Plan:
    """The thesis's join with windows for so many cores."""
    query = parse(QUERY.format(window=ROWS_PER_CORE * size), "thesis")
    cores = {"cores": size} if engine == "handshake" else {}
    return plan(query, engine, {**settings, **cores})


def windows_plan(panes: int, engine: str) -> Plan:
    """A count over windows of so many panes."""
    query = parse(COUNT.format(select=SELECT["count"], panes=panes, slack=0), f"count_{panes}")
    return plan(query, engine, {})


def _thesis(size: int, **settings: Any) -> Any:
    return shell_of(thesis_plan(size, **settings))


def _panes(lanes: int) -> Any:
    return shell_of(plan(read_query("tick_stats"), "panes", {"lanes": lanes}))


def _fjoin(units: int, workload: str) -> FJoinPipeline:
    return FJoinPipeline(WORKLOADS[workload].pair, side="left", units=units)


def _fjoin_paper(units: int) -> FJoinPaper:
    return FJoinPaper(WORKLOADS["manhattan"].pair, side="left", units=units)


def _windows(panes: int, engine: str) -> Any:
    return shell_of(windows_plan(panes, engine))


def _mlq(keys: int) -> Any:
    return shell_of(plan(read_query("vehicle_stats"), "mlq", {"keys": keys, "levels": "bram"}))


def _link(slots: int) -> LinkPort:
    shape = LinkShape(slots=slots)
    return LinkPort(cycles_per_bit=40, beat_bytes=32, row_bytes=24, shape=shape)


def names_of(what: str, name: str, known: Iterable[str]) -> list[str]:
    """The names that one word stands for, which may be ``all``."""
    names = list(known)
    if name not in (*names, "all"):
        raise JoineryError(f"{what} must be {', '.join(names)} or all, not {name!r}")
    return names if name == "all" else [name]


@dataclass(frozen=True)
class Series:
    """Designs that differ in one size, and what a paper says of a design like them.

    ``paper`` has look-up tables and registers by size, on the chip that ``chip`` names.
    """

    make: Callable[[int], Any]
    size: str
    sizes: tuple[int, int]
    paper: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    chip: str | None = None

    def paper_slope(self, which: int) -> float | None:
        """Look-up tables (0) or registers (1) per core or unit: between our sizes where the paper
        has them, else between its smallest and its largest."""
        if not self.paper:
            return None
        known = set(self.sizes) <= set(self.paper)
        first, last = self.sizes if known else (min(self.paper), max(self.paper))
        return round((self.paper[last][which] - self.paper[first][which]) / (last - first), 1)


VIRTEX6 = "Virtex-6 XC6VLX240T, ISE 13.1"
TABLE_4_2 = {2: (2654, 3682), 4: (5281, 7106), 8: (9281, 13949), 16: (18260, 27763),
             32: (34467, 58212), 64: (78958, 116165)}  # fmt: skip
TABLE_6_1 = {2: (4594, 4371), 4: (8784, 8358), 8: (17130, 16347), 16: (35051, 32323),
             32: (68216, 64526)}  # fmt: skip
TABLE_4 = {256: (105_000, 225_000), 512: (209_000, 450_000)}
U280 = "Alveo U280 (table 4)"

SERIES = {
    "handshake tree": Series(partial(_thesis, merge="tree"), "cores", (4, 8),
                             TABLE_4_2, f"{VIRTEX6} (table 4.2)"),
    "handshake ring": Series(partial(_thesis, merge="ring"), "cores", (4, 8),
                             TABLE_6_1, f"{VIRTEX6} (table 6.1)"),
    "handshake memory": Series(partial(_thesis, storage="memory"), "cores", (4, 8)),
    "nested_loop": Series(partial(_thesis, engine="nested_loop"), "times 8 rows", (8, 16)),
    "fjoin manhattan": Series(partial(_fjoin, workload="manhattan"), "units", (64, 128),
                              TABLE_4, U280),
    "fjoin prefix": Series(partial(_fjoin, workload="prefix"), "units", (64, 128)),
    "fjoin_paper manhattan": Series(_fjoin_paper, "units", (64, 128), TABLE_4, U280),
    "panes": Series(_panes, "lanes", (1, 2)),
    "wid": Series(partial(_windows, engine="wid"), "panes", (16, 32)),
    "glacier": Series(partial(_windows, engine="glacier"), "panes", (16, 32)),
    "mlq": Series(_mlq, "keys", (128, 256)),
}  # fmt: skip
"""The engines, each at two sizes."""


def bench_synth(
    series: str = "all", target: str = "all", flat: int = 0, route: int = 0
) -> list[dict[str, Any]]:
    """Every engine at two sizes on five families, the slope, and the papers' figures.

    With ``route``, designs for ECP5 are placed and routed as well, which takes minutes for each.
    """
    names = names_of("bench synth: series", series, SERIES)
    targets = names_of("bench synth: target", target, FAMILIES)
    rows = []
    for name in names:
        for family in targets:
            say(f"  {name}, {family}")
            rows += _slope(name, SERIES[name], family, not flat, bool(route))
    return rows


def _slope(
    name: str, series: Series, target: str, hierarchy: bool, route: bool
) -> list[dict[str, Any]]:
    found = {
        size: synthesize(series.make(size), target, hierarchy=hierarchy) for size in series.sizes
    }
    rows = [_row(name, series, size, found) for size in series.sizes]
    for row, size in zip(rows, series.sizes, strict=True):
        routed = route and target == "ecp5"
        row["mhz"] = route_design(series.make(size)).fmax if routed else None
    return rows


def _row(name: str, series: Series, size: int, found: Mapping[int, Resources]) -> dict[str, Any]:
    small, large = (found[each].used for each in series.sizes)
    step = series.sizes[1] - series.sizes[0]
    paper = series.paper.get(size)
    slopes = {
        f"{kind}_per_unit": round((large[kind] - small[kind]) / step, 1)
        for kind in ("lut", "ff", "bram")
    }
    return {
        "design": name,
        "target": found[size].target,
        "size": f"{size} {series.size}",
        **found[size].used,
        **slopes,
        "paper_lut": paper[0] if paper else None,
        "paper_ff": paper[1] if paper else None,
        "paper_lut_per_unit": series.paper_slope(0),
        "paper_ff_per_unit": series.paper_slope(1),
        "paper_chip": series.chip,
        "yosys_version": found[size].yosys_version.split()[1],
    }


def bench_timing(
    engine: str = "all", sizes: str = "", seeds: int = 1, placer: str = "heap"
) -> list[dict[str, Any]]:
    """The highest frequency on an ECP5 of speed grade 6 as a design grows, and what limits it.

    The checks of a table: no size is more than a tenth slower than the fastest, and all reach the
    frequency that is asked of the engine.
    """
    rows: list[dict[str, Any]] = []
    for name in names_of("bench timing: engine", engine, TIMED):
        timed = TIMED[name]
        found = []
        for size in map(int, sizes.split() or timed.sizes):
            say(f"  {name}, {size} {timed.size}")
            routed = [
                route_design(timed.make(size), seed=seed, placer=placer)
                for seed in range(1, seeds + 1)
            ]
            found.append(_timing_row(name, f"{size} {timed.size}", timed.least, placer, routed))
        fastest = max(row["median"] for row in found)
        for row in found:
            row["fast_enough"] = row["median"] >= row["asked"]
            row["flat"] = row["median"] >= 0.9 * fastest
        rows += found
    return rows


def _timing_row(
    name: str, size: str, asked: float, placer: str, routed: Sequence[Routing]
) -> dict[str, Any]:
    slowest = min(routed, key=lambda each: each.fmax)
    return {
        "engine": name,
        "size": size,
        "placer": placer,
        **spread([each.fmax for each in routed]),
        "asked": asked,
        "from": slowest.ends[0],
        "to": slowest.ends[1],
        "lut": slowest.used["TRELLIS_COMB"],
        "ff": slowest.used["TRELLIS_FF"],
        "nextpnr_version": slowest.nextpnr_version,
    }


@dataclass(frozen=True)
class Timed:
    """What is routed at which sizes, and the megahertz asked of it."""

    make: Callable[[int], Any]
    size: str
    sizes: tuple[int, ...]
    least: float


TIMED = {
    "handshake": Timed(partial(_thesis, merge="tree"), "cores", (4, 8, 16), 120.0),
    "fjoin": Timed(partial(_fjoin, workload="prefix"), "units", (64, 128, 256), 120.0),
    "fjoin cluster": Timed(partial(_fjoin, workload="prefix"), "units", (4, 8, 16), 120.0),
    "panes": Timed(_panes, "lanes", (1,), 150.0),
    "link": Timed(_link, "slots", (32,), 120.0),
}
"""Units of fjoin are in clusters of 16 at most, so these are 4, 8 and 16 clusters, and one cluster
of 4, 8 and 16 units."""
