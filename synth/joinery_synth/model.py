"""What a design will cost, from smaller ones of the same kind: no need to map hundreds of cores.

A chain of cores is the same whatever its length: the shell, the sequencer, so many equal cores, and
so many mergers. So a design of a few cores with as many rows in each is mapped, and each kind of
block is multiplied. An engine that has no such cores is mapped itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from joinery.stream import MergeTree
from joinery_gen.engines import Plan
from joinery_gen.generate import shell_of
from joinery_gen.query import JoinQuery, RowWindow

from .resources import RESOURCES, Resources, synthesize

__all__ = ["FITTED_CORES", "Forecast", "forecast", "most_cores", "smaller"]

FITTED_CORES = 4
SHARED = ("engine.core_*", "engine.network", "engine")
"""Blocks that grow with the cores; all others stay as they are."""
FULL = 0.85
"""The part of a chip up to which place and route works well."""


@dataclass(frozen=True)
class Forecast:
    """What a design is expected to use; ``cores`` is None where it was mapped itself."""

    target: str
    used: dict[str, float]
    cores: int | None
    fixed: dict[str, float]
    per_core: dict[str, float]
    yosys_version: str


def forecast(plan: Plan, target: str) -> Forecast:
    """Forecast the resources of a plan on a family of chips."""
    cores = plan.parameters.get("cores")
    small = smaller(plan, FITTED_CORES)
    if not isinstance(cores, int) or small is None:
        found = synthesize(shell_of(plan), target)
        return Forecast(target, found.used, None, found.used, {}, found.yosys_version)
    found = synthesize(shell_of(small), target)
    mergers = merger_inputs(plan) / merger_inputs(small)
    ratio = cores / FITTED_CORES
    growth = dict(zip(SHARED, (ratio, mergers, ratio), strict=True))
    used = _sum(found, growth)
    fixed = _sum(found, dict.fromkeys(SHARED, 0))
    per_core = {name: round((used[name] - fixed[name]) / cores, 1) for name in RESOURCES}
    return Forecast(target, used, cores, fixed, per_core, found.yosys_version)


def _sum(found: Resources, growth: Mapping[str, float]) -> dict[str, float]:
    sums = {
        name: sum(block.used[name] * growth.get(block.name, 1) for block in found.blocks)
        for name in RESOURCES
    }
    return {name: round(value, 1) for name, value in sums.items()}


def merger_inputs(plan: Plan) -> int:
    """Inputs of all mergers of a plan's network, which is what they cost."""
    cores = int(plan.parameters["cores"])  # type: ignore[arg-type] # a number, where it is there
    engine = plan.build()
    fan_in = int(engine.predicted["cycles"].get("fan_in") or 4)
    engine._MustUse__used = True  # only asked, never built
    levels = MergeTree.share_inputs(cores, fan_in)
    return sum(len(group) for groups in levels for group in groups if len(group) > 1) or 1


def smaller(plan: Plan, cores: int) -> Plan | None:
    """Return the plan with fewer cores of the same size, or None where it has no such cores."""
    now = plan.parameters.get("cores")
    if not isinstance(now, int) or now <= cores or plan.engine != "handshake":
        return None
    parameters = dict(plan.parameters)
    query = plan.query
    body = query.body
    for name in ("rows_left", "rows_right"):
        if name in parameters:
            parameters[name] = _share(int(parameters[name]), now, cores)  # type: ignore[arg-type]
    if isinstance(body, JoinQuery):
        sources = [
            replace(source, window=RowWindow(_share(source.window.rows, now, cores)))
            if isinstance(source.window, RowWindow)
            else source
            for source in (body.left, body.right)
        ]
        query = replace(query, body=replace(body, left=sources[0], right=sources[1]))
    parameters["cores"] = cores
    return replace(plan, query=query, parameters=parameters)


def _share(rows: int, cores: int, fewer: int) -> int:
    """The rows of ``fewer`` cores, each with as many as the largest of ``cores`` has."""
    return -(-rows // cores) * fewer


def most_cores(found: Forecast, device: Mapping[str, int]) -> int | None:
    """How many cores of this size a chip has room for."""
    if not found.per_core:
        return None
    room = [
        (FULL * device[name] - found.fixed[name]) / found.per_core[name]
        for name in ("lut", "ff", "bram", "dsp")
        if found.per_core[name]
    ]
    return max(0, int(min(room)))
