"""Simulator builds, made once and kept.

A build is known by a hash of all that it depends on: the Verilog, the harness, the tools and their
options. It is made in a folder of its own and put in place by one rename, so that a build that is
there is whole; a lock lets only one process make it.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import platformdirs

from joinery_gen.query import JoineryError

from . import toolchain
from .design import Design

__all__ = [
    "VERILATOR_OPTIONS",
    "build_replay",
    "cache_folder",
    "cached_build",
    "harness",
    "run_tool",
]

BINARY = {"verilator": "top", "icarus": "sim.vvp"}
"""The one file that a build leaves, by simulator; the names are those of cocotb's runner."""

VERILATOR_OPTIONS = (
    *("-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert"),
    # Verilator 5.48 changes what a key table does when it rewrites the data flow of the whole
    # design at once; Icarus and Amaranth agree with it as soon as that is left out.
    "-fno-dfg-scoped",
)


def cache_folder() -> Path:
    """Return the folder of all builds; ``JOINERY_CACHE`` moves the cache as a whole."""
    base = os.environ.get("JOINERY_CACHE") or platformdirs.user_cache_dir("joinery")
    return Path(base) / "builds"


def cached_build(
    name: str, depends: dict[str, Any], make: Callable[[Path], Path], binary: str
) -> Path:
    """Return the folder of the build of ``depends``, which holds ``binary``.

    Where there is none, ``make(folder)`` builds in an empty folder and returns the file to keep.
    """
    text = json.dumps(depends, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    place = cache_folder() / key
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with _locked(place.with_suffix(".lock")):
        if not place.is_dir():
            print(f"building simulator for {name} ...", file=sys.stderr, flush=True)
            with _empty_folder(place.with_suffix(".making")) as folder:
                work, done = folder / "work", folder / "done"
                work.mkdir()
                done.mkdir()
                shutil.move(make(work), done / binary)
                done.rename(place)
    return place


def build_replay(design: Design, sim: str) -> Path:
    """Return the replay simulator of ``design``: an executable, or a file for ``vvp``."""
    toolchain.check_simulator(sim)
    source = harness({"verilator": "replay_main.cpp", "icarus": "replay_tb.v"}[sim])
    command = {"verilator": _verilator_command, "icarus": _icarus_command}[sim](design)
    depends = {
        "verilog": [source.read_text() for source in design.sources],
        "harness": source.read_text(),
        "tools": build_tools(sim),
        "command": command,
    }

    def make(folder: Path) -> Path:
        # Copies have the same names in every build, so that the command is the same too.
        for file in (*design.sources, source):
            shutil.copy(file, folder)
        run_tool(command, sim, folder)
        return folder / BINARY[sim]

    name = f"{design.top['name']} ({sim})"
    return cached_build(name, depends, make, BINARY[sim]) / BINARY[sim]


def tool_versions(sim: str) -> dict[str, str]:
    """Return the version of every tool that a build by ``sim`` goes through."""
    versions = {sim: toolchain.version(sim)}
    if sim == "verilator":
        versions["g++"] = toolchain.compiler_version()
    return versions


def build_tools(sim: str) -> dict[str, str]:
    """Return what a build by ``sim`` depends on besides its sources and its command."""
    return {**tool_versions(sim), "make": toolchain.MAKE_VARIABLES}


def run_tool(command: Sequence[str], sim: str, folder: Path) -> None:
    """Run a build command in ``folder``; show what it printed only when it fails."""
    env = toolchain.environment(sim)
    result = subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise JoineryError(
            f"{command[0]} could not build the simulator:\n"
            f"{last_lines(result.stdout + result.stderr)}"
        )


def last_lines(text: str, count: int = 20) -> str:
    """Return the end of a tool's output, where it says what went wrong."""
    return "\n".join(text.strip().splitlines()[-count:])


def _verilator_command(design: Design) -> list[str]:
    return [
        *("verilator", "--cc", "--exe", "--build", "-j", "0"),
        # Lint is a step of its own; a design with a fault in it must still run.
        *("-Wno-fatal", *VERILATOR_OPTIONS),
        *("-CFLAGS", " ".join(_sizes(design))),
        *("--top-module", design.simulated_module, "--prefix", "Vtop", "-Mdir", "."),
        *("-o", BINARY["verilator"], *_names(design), "replay_main.cpp"),
    ]


def _icarus_command(design: Design) -> list[str]:
    return [
        "iverilog",
        "-g2005",  # what generated tops are written in
        *_sizes(design),
        f"-DADDR_WIDTH={design.port_width('s_axil_araddr')}",
        f"-DTOP={design.simulated_module}",
        *("-s", "replay_tb", "-o", BINARY["icarus"], "replay_tb.v", *_names(design)),
    ]


def _names(design: Design) -> list[str]:
    return [source.name for source in design.sources]


def _sizes(design: Design) -> list[str]:
    """What a harness must know of a design's streams, as macros."""
    return [
        f"-DIN_BYTES={design.bytes_of('input')}",
        f"-DOUT_BYTES={design.bytes_of('output')}",
        f"-DLANES={design.lanes}",
        *(["-DMERGE_CLOCK"] if design.has_merge_clock else []),
    ]


def harness(name: str) -> Path:
    path = resources.files(__package__) / name
    assert isinstance(path, Path), "the package must be installed as files, not inside an archive"
    return path


@contextmanager
def _empty_folder(path: Path) -> Iterator[Path]:
    """A folder for the holder of the lock; what a killed process left there goes first."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
