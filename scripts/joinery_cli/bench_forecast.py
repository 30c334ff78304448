"""``joinery bench forecast``: how far what ``joinery plan`` says is from what is measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from joinery_gen.engines import Plan, plan
from joinery_gen.generate import shell_of
from joinery_synth.model import forecast
from joinery_synth.resources import synthesize

from .bench_synth import names_of, thesis_plan, windows_plan
from .common import read_query, say
from .verify import verify

__all__ = ["bench_forecast"]


@dataclass(frozen=True)
class Foretold:
    """Plans of a kind, at sizes that are larger than what the forecast maps."""

    make: Callable[[int], Plan]
    sizes: tuple[int, ...]


def _card(units: int) -> Plan:
    return plan(read_query("order_taxi"), "fjoin", {"units_left": units, "units_right": units})


FORECAST = {
    "handshake tree": Foretold(partial(thesis_plan, merge="tree"), (8, 16, 32)),
    "handshake memory": Foretold(partial(thesis_plan, storage="memory"), (8, 16, 32)),
    "fjoin": Foretold(_card, (128, 256)),
    "wid": Foretold(partial(windows_plan, engine="wid"), (64, 100)),
    "glacier": Foretold(partial(windows_plan, engine="glacier"), (64, 100)),
}


@dataclass(frozen=True)
class Run:
    """A query on real data, whose cycles are foretold."""

    query: str
    data: tuple[str, ...]
    limit: int | None = None
    engine: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


RUNS = (
    Run("tick_band", ("ticks",), 20_000, settings={"cores": 10}),
    Run("tick_pairs", ("ticks",), 5_000, "nested_loop"),
    Run("tick_stats", ("ticks",)),
    Run("tick_stats_1s", ("ticks",)),
    Run("tick_stats", ("ticks",), engine="wid"),
    Run("airport_delays", ("flights",), settings={"keys": 512, "levels": "bram"}),
    Run("vehicle_stats", ("taxi",), settings={"ways": 8}),
    Run("order_taxi", ("taxi",)),
)


def bench_forecast(what: str = "all", target: str = "xcup") -> list[dict[str, Any]]:
    """How far ``joinery plan`` is from synthesis and simulation, where it was not fitted.

    ``what`` is ``resources``, ``cycles`` or ``all``. Errors are in percent of what was measured;
    ``right`` says whether they are within 10 % for LUT and FF, and within 2 % for cycles.
    """
    parts = names_of("bench forecast: what", what, ("resources", "cycles"))
    rows: list[dict[str, Any]] = []
    if "resources" in parts:
        for name, each in FORECAST.items():
            rows += [_resources_row(name, each.make(size), target) for size in each.sizes]
    if "cycles" in parts:
        rows += [_cycles_row(run) for run in RUNS]
    return rows


def _resources_row(name: str, plan: Plan, target: str) -> dict[str, Any]:
    foretold = forecast(plan, target)
    say(f"  {name}, {foretold.size} {foretold.unit}, {target}")
    found = synthesize(shell_of(plan), target)
    errors = {kind: 100 * (foretold.used[kind] / found.used[kind] - 1) for kind in ("lut", "ff")}
    return {
        "design": name,
        "target": target,
        "size": f"{foretold.size} {foretold.unit}",
        **{f"{kind}_forecast": foretold.used[kind] for kind in errors},
        **{kind: found.used[kind] for kind in errors},
        **{f"{kind}_error": round(each, 1) for kind, each in errors.items()},
        "right": all(abs(each) <= 10 for each in errors.values()),
        "version": found.yosys_version.split()[1],
    }


def _cycles_row(run: Run) -> dict[str, Any]:
    (found,) = verify(
        read_query(run.query), run.data, engine=run.engine, settings=run.settings, limit=run.limit
    )
    assert found.cycles is not None, found.error
    assert found.predicted_cycles is not None, found.error
    error = 100 * (found.predicted_cycles / found.cycles - 1)
    settings = " ".join(f"{name}={value}" for name, value in run.settings.items())
    return {
        "design": f"{found.engine} {settings}".strip(),
        "target": found.simulator,
        "size": f"{run.query}, {found.tuples_in} tuples",
        "cycles_forecast": found.predicted_cycles,
        "cycles": found.cycles,
        "cycles_error": round(error, 2),
        "right": abs(error) <= 2 and found.verdict == "equal",
        "version": found.simulator_version,
    }
