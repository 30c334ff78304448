"""``joinery bench synth``, ``timing`` and ``forecast``: what designs cost, and how fast they are.

Sizes are small ones: the slope per core or unit tells the rest. A tuple of the handshake designs
has 64 bits, a result 96, and a core holds 8 tuples of each stream, as in Oge's thesis (tables 4.2
and 6.1); the papers' figures are of other chips and tools, and stand beside ours for their form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from joinery_gen.engines import Plan, plan
from joinery_gen.generate import shell_of
from joinery_gen.parse import parse
from joinery_synth.families import FAMILIES
from joinery_synth.model import forecast
from joinery_synth.resources import Resources, synthesize
from joinery_synth.route import route_design, spread

from .bench_handshake import QUERY
from .common import read_query, say

__all__ = ["bench_forecast", "bench_synth", "bench_timing"]

ROWS_PER_CORE = 8


@dataclass(frozen=True)
class Series:
    """Designs that differ in one size, and what a paper says of a design like them.

    ``paper`` has look-up tables and registers by size, on the chip that ``chip`` names.
    """

    engine: str
    query: str
    size: str
    sizes: tuple[int, int]
    settings: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    chip: str | None = None

    def plan(self, size: int) -> Plan:
        if self.query == "thesis":
            query = parse(QUERY.format(window=ROWS_PER_CORE * max(size, 1)), "thesis")
        else:
            query = read_query(self.query)
        named = {self.size: size} if self.size != "rows" else {}
        return plan(query, self.engine, {**self.settings, **named})


VIRTEX6 = "Virtex-6 XC6VLX240T, ISE 13.1"
TABLE_4_2 = {2: (2654, 3682), 4: (5281, 7106), 8: (9281, 13949), 16: (18260, 27763),
             32: (34467, 58212), 64: (78958, 116165)}  # fmt: skip
TABLE_6_1 = {2: (4594, 4371), 4: (8784, 8358), 8: (17130, 16347), 16: (35051, 32323),
             32: (68216, 64526)}  # fmt: skip

SERIES = {
    "handshake tree": Series("handshake", "thesis", "cores", (4, 8), {"merge": "tree"},
                             TABLE_4_2, f"{VIRTEX6} (table 4.2)"),
    "handshake ring": Series("handshake", "thesis", "cores", (4, 8), {"merge": "ring"},
                             TABLE_6_1, f"{VIRTEX6} (table 6.1)"),
    "handshake memory": Series("handshake", "thesis", "cores", (4, 8), {"storage": "memory"}),
    "nested_loop": Series("nested_loop", "thesis", "rows", (8, 16)),
    "panes": Series("panes", "tick_stats", "lanes", (1, 2)),
}  # fmt: skip
"""The engines, each at two sizes."""


def bench_synth(series: str = "all", target: str = "all", flat: int = 0) -> list[dict[str, Any]]:
    """Every engine at two sizes on five families, the slope, and the papers' figures."""
    names = list(SERIES) if series == "all" else [series]
    targets = list(FAMILIES) if target == "all" else [target]
    rows = []
    for name in names:
        for family in targets:
            say(f"  {name}, {family}")
            rows += _slope(name, SERIES[name], family, not flat)
    return rows


def _slope(name: str, series: Series, target: str, hierarchy: bool) -> list[dict[str, Any]]:
    found = {
        size: synthesize(shell_of(series.plan(size)), target, hierarchy=hierarchy)
        for size in series.sizes
    }
    small, large = series.sizes
    return [_row(name, series, size, found, large - small) for size in series.sizes]


def _row(
    name: str, series: Series, size: int, found: Mapping[int, Resources], step: int
) -> dict[str, Any]:
    small, large = (found[each].used for each in series.sizes)
    paper = series.paper.get(size)
    slopes = {
        f"{kind}_per_unit": round((large[kind] - small[kind]) / step, 1)
        for kind in ("lut", "ff", "bram")
    }
    first, last = (series.paper.get(each) for each in series.sizes)
    return {
        "design": name,
        "target": found[size].target,
        "size": f"{size} {series.size}",
        **found[size].used,
        **slopes,
        "paper_lut": paper[0] if paper else None,
        "paper_ff": paper[1] if paper else None,
        "paper_lut_per_unit": (last[0] - first[0]) / step if first and last else None,
        "paper_ff_per_unit": (last[1] - first[1]) / step if first and last else None,
        "paper_chip": series.chip,
        "yosys_version": found[size].yosys_version.split()[1],
    }


def bench_timing(
    engine: str = "handshake", sizes: str = "4 8 16", seeds: int = 1, placer: str = "heap"
) -> list[dict[str, Any]]:
    """The highest frequency on an ECP5 of speed grade 6 as a design grows, and what limits it.

    The checks of a table: no size is more than a tenth slower than the fastest, and all reach the
    frequency that is asked of the engine.
    """
    series, least = TIMED[engine]
    rows: list[dict[str, Any]] = []
    for size in map(int, sizes.split()):
        say(f"  {engine}, {size} {series.size}")
        routed = [
            route_design(shell_of(series.plan(size)), seed=seed, placer=placer)
            for seed in range(1, seeds + 1)
        ]
        slowest = min(routed, key=lambda each: each.fmax)
        rows.append(
            {
                "engine": engine,
                "size": f"{size} {series.size}",
                **spread([each.fmax for each in routed]),
                "asked": least,
                "from": slowest.ends[0],
                "to": slowest.ends[1],
                "lut": slowest.used["TRELLIS_COMB"],
                "ff": slowest.used["TRELLIS_FF"],
                "nextpnr_version": slowest.nextpnr_version,
            }
        )
    fastest = max(row["median"] for row in rows)
    for row in rows:
        row["fast_enough"] = row["median"] >= row["asked"]
        row["flat"] = row["median"] >= 0.9 * fastest
    return rows


TIMED = {"handshake": (SERIES["handshake tree"], 120.0), "panes": (SERIES["panes"], 150.0)}
"""What is routed, and the megahertz asked of it."""


def bench_forecast(sizes: str = "8 16 32", target: str = "xcup") -> list[dict[str, Any]]:
    """How far ``joinery plan`` is from synthesis, on designs that it was not made from."""
    rows = []
    for name in ("handshake tree", "handshake memory"):
        for size in map(int, sizes.split()):
            say(f"  {name}, {size} cores, {target}")
            chosen = SERIES[name].plan(size)
            foretold = forecast(chosen, target).used
            found = synthesize(shell_of(chosen), target)
            errors = {kind: 100 * (foretold[kind] / found.used[kind] - 1) for kind in ("lut", "ff")}
            rows.append(
                {
                    "design": name,
                    "target": target,
                    "cores": size,
                    **{f"{kind}_forecast": foretold[kind] for kind in ("lut", "ff")},
                    **{kind: found.used[kind] for kind in ("lut", "ff")},
                    **{f"{kind}_error_percent": round(each, 1) for kind, each in errors.items()},
                    "within_10_percent": all(abs(each) <= 10 for each in errors.values()),
                    "yosys_version": found.yosys_version.split()[1],
                }
            )
    return rows
