"""What a design will cost, from smaller ones of the same kind: no need to map hundreds of units.

A chain of cores is the same whatever its length: the shell, the sequencer, so many equal cores, and
so many mergers. So a design of a few cores with as many rows in each is mapped, and each kind of
block is multiplied. The units of a join pipeline and the modules of open windows cost the same
each: two small designs give what one more takes, and all the rest. What has no such units is mapped
itself, and so is what is small.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from joinery.stream import MergeTree
from joinery_gen.engines import Plan
from joinery_gen.generate import shell_of
from joinery_gen.query import AggregateQuery, JoinQuery, RowWindow, SlidingWindow

from .resources import RESOURCES, Resources, synthesize

__all__ = ["FITTED_CORES", "Forecast", "forecast", "has_units", "most_units", "smaller"]

FITTED_CORES = 4
SHARED = ("engine.core_*", "engine.network", "engine")
"""Blocks that grow with the cores; all others stay as they are."""
FULL = 0.85
"""The part of a chip up to which place and route works well."""


@dataclass(frozen=True)
class Forecast:
    """What a design is expected to use.

    It has ``size`` units of the kind that ``unit`` names, each of which takes ``per_unit`` beside
    what is ``fixed``; these are None and empty where the design was mapped itself.
    """

    target: str
    used: dict[str, float]
    unit: str | None
    size: int | None
    fixed: dict[str, float]
    per_unit: dict[str, float]
    yosys_version: str


def forecast(plan: Plan, target: str) -> Forecast:
    """Forecast the resources of a plan on a family of chips."""
    if has_units(plan):
        if plan.engine in LINES:
            return _from_line(plan, LINES[plan.engine], target)
        return _from_blocks(plan, target)
    mapped = synthesize(shell_of(plan), target)
    return Forecast(target, mapped.used, None, None, mapped.used, {}, mapped.yosys_version)


def has_units(plan: Plan) -> bool:
    """Is a forecast of this plan one of units, rather than of the design itself?"""
    if plan.engine in LINES:
        line = LINES[plan.engine]
        return line.size(plan) > line.fitted(plan)[1]
    return smaller(plan, FITTED_CORES) is not None


# Engines of cores: blocks, each kind so many times.


def _from_blocks(plan: Plan, target: str) -> Forecast:
    small = smaller(plan, FITTED_CORES)
    assert small is not None, "the plan has units"
    cores = int(plan.parameters["cores"])  # type: ignore[arg-type] # a number, where it is there
    found = synthesize(shell_of(small), target)
    mergers = merger_inputs(plan) / merger_inputs(small)
    ratio = cores / FITTED_CORES
    growth = dict(zip(SHARED, (ratio, mergers, ratio), strict=True))
    used = _sum(found, growth)
    fixed = _sum(found, dict.fromkeys(SHARED, 0))
    per_core = {name: round((used[name] - fixed[name]) / cores, 3) for name in RESOURCES}
    return Forecast(target, used, "cores", cores, fixed, per_core, found.yosys_version)


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


# Engines of units: a line through two small designs.


@dataclass(frozen=True)
class Line:
    """What there are many of in an engine, and how a plan gets fewer.

    ``size`` tells how many a plan has, ``fitted`` the sizes of the designs that are mapped in its
    place, and ``resize`` makes them.
    """

    unit: str
    size: Callable[[Plan], int]
    fitted: Callable[[Plan], tuple[int, int]]
    resize: Callable[[Plan, int], Plan]


def _from_line(plan: Plan, line: Line, target: str) -> Forecast:
    size, fitted = line.size(plan), line.fitted(plan)
    low, high = (synthesize(shell_of(line.resize(plan, each)), target) for each in fitted)
    step = fitted[1] - fitted[0]
    slope = {name: (high.used[name] - low.used[name]) / step for name in RESOURCES}
    fixed = {name: low.used[name] - slope[name] * fitted[0] for name in RESOURCES}
    used = {name: round(fixed[name] + slope[name] * size, 1) for name in RESOURCES}
    fixed, slope = ({name: round(n, 3) for name, n in each.items()} for each in (fixed, slope))
    return Forecast(target, used, line.unit, size, fixed, slope, high.yosys_version)


SIDES = ("units_left", "units_right")


def _units(plan: Plan) -> int:
    left, right = (int(plan.parameters[side]) for side in SIDES)  # type: ignore[arg-type]
    return left + right


def _fitted_units(plan: Plan) -> tuple[int, int]:
    """Four and eight clusters to a pipeline."""
    units = len(SIDES) * 4 * int(plan.parameters.get("cluster", 8))  # type: ignore[arg-type]
    return units, 2 * units


def _with_units(plan: Plan, units: int) -> Plan:
    sides = dict.fromkeys(SIDES, units // len(SIDES))
    return replace(plan, parameters={**plan.parameters, **sides})


def _windows(plan: Plan) -> int:
    """Windows that are open at a time."""
    window = _sliding(plan)
    return -(-window.range // window.slide)


def _sliding(plan: Plan) -> SlidingWindow:
    body = plan.query.body
    assert isinstance(body, AggregateQuery), "the form has been checked"
    assert isinstance(body.source.window, SlidingWindow), "the form has been checked"
    return body.source.window


def _with_windows(plan: Plan, windows: int) -> Plan:
    body, window = plan.query.body, _sliding(plan)
    assert isinstance(body, AggregateQuery), "the form has been checked"
    shorter = replace(window, range=window.range - (_windows(plan) - windows) * window.slide)
    source = replace(body.source, window=shorter)
    return replace(plan, query=replace(plan.query, body=replace(body, source=source)))


UNITS = Line("units", _units, _fitted_units, _with_units)
WINDOWS = Line("windows", _windows, lambda _: (16, 32), _with_windows)
LINES = {"fjoin": UNITS, "fjoin_paper": UNITS, "wid": WINDOWS, "glacier": WINDOWS}


def most_units(found: Forecast, device: Mapping[str, int]) -> int | None:
    """How many units of this size a chip has room for."""
    if not found.per_unit:
        return None
    room = [
        (FULL * device[name] - found.fixed[name]) / found.per_unit[name]
        for name in ("lut", "ff", "bram", "dsp")
        if found.per_unit[name]
    ]
    return max(0, int(min(room)))
