"""Start cocotb tests of a generated design, in either simulator, from a cached build."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import cocotb_tools.config
from cocotb_tools.runner import get_runner

from joinery_gen.query import JoineryError

from . import toolchain
from .build import (
    BINARY,
    VERILATOR_OPTIONS,
    build_tools,
    cached_build,
    last_lines,
)
from .design import Design

__all__ = ["build_cocotb", "run_cocotb"]

PROTOCOL = "joinery_tb.cocotb_tests.protocol"
TIMESCALE = ("1ns", "1ps")

# Verilator optimises as for replay, so that the two can be compared. cocotb passes -g2012 to
# Icarus, and generated tops are Verilog-2005; the last such option counts.
BUILD_OPTIONS = {
    "verilator": ["-Wno-fatal", *VERILATOR_OPTIONS],
    "icarus": ["-g2005"],
}


def build_cocotb(design: Design, sim: str) -> Path:
    """Return the folder that cocotb's runner takes as the build of ``design``."""
    toolchain.check_simulator(sim)
    depends = {
        "verilog": [source.read_text() for source in design.sources],
        "cocotb": metadata.version("cocotb"),
        "libraries": str(cocotb_tools.config.libs_dir),  # the executable finds them there
        "tools": build_tools(sim),
        "options": [*BUILD_OPTIONS[sim], *TIMESCALE],
    }

    def make(folder: Path) -> Path:
        log = folder / "build.log"
        try:
            with toolchain.patched_environ(sim):
                get_runner(sim).build(
                    sources=design.sources,
                    hdl_toplevel=design.simulated_module,
                    build_args=BUILD_OPTIONS[sim],
                    build_dir=folder,
                    timescale=TIMESCALE,
                    log_file=log,
                )
        except RuntimeError:
            raise JoineryError(
                f"{sim} could not build the simulator:\n{last_lines(log.read_text())}"
            ) from None
        return folder / BINARY[sim]

    return cached_build(f"{design.top['name']} (cocotb, {sim})", depends, make, BINARY[sim])


def run_cocotb(
    directory: str | Path,
    *,
    sim: str = "verilator",
    module: str = PROTOCOL,
    testcase: str | Sequence[str] | None = None,
    seed: int = 1,
    extra_env: Mapping[str, str] | None = None,
) -> int:
    """Run the cocotb tests of ``module`` on the design in ``directory``; return how many ran.

    Raises ``AssertionError`` with the end of the log when one fails, or when none ran at all.
    """
    design = Design(Path(directory).resolve())
    build = build_cocotb(design, sim)
    with tempfile.TemporaryDirectory(prefix="joinery-cocotb-") as folder:
        log, results = Path(folder) / "test.log", Path(folder) / "results.xml"
        stopped = False
        try:
            with toolchain.patched_environ(sim):
                get_runner(sim).test(
                    test_module=module,
                    hdl_toplevel=design.simulated_module,
                    hdl_toplevel_lang="verilog",
                    testcase=testcase,
                    seed=seed,
                    build_dir=build,
                    test_dir=folder,
                    results_xml=str(results),
                    log_file=log,
                    extra_env={"JOINERY_BENCH_DESIGN": str(design.directory), **(extra_env or {})},
                )
        except (RuntimeError, SystemExit):
            stopped = True
        ran, failures = _read_results(results)
        where = f"({module}, {sim}, seed {seed})"
        if failures:
            story = "\n".join(failures)
            raise AssertionError(f"{len(failures)} of {ran} cocotb tests failed {where}:\n{story}")
        if stopped or not ran:
            what = "The simulator stopped with an error" if ran else "No cocotb test ran"
            raise AssertionError(f"{what} {where}:\n{_end_of_log(log)}")
    return ran


def _read_results(path: Path) -> tuple[int, list[str]]:
    """Return how many tests ran, and of each that failed its name and why.

    A skipped test did not run.
    """
    if not path.is_file():
        return 0, []
    cases = [
        case for case in ElementTree.parse(path).iter("testcase") if not case.findall("skipped")
    ]
    failures = []
    for case in cases:
        for kind in ("failure", "error"):
            verdict = case.find(kind)
            if verdict is not None:
                reason = (verdict.get("message") or verdict.text or kind).splitlines()[0]
                failures.append(f"{case.get('name')}: {reason}")
    return len(cases), failures


def _end_of_log(log: Path) -> str:
    text = log.read_text() if log.is_file() else ""
    return last_lines(re.sub(r"\x1b\[[0-9;]*m", "", text))
