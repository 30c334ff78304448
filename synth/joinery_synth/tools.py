"""Run the tools that come with Python packages: Yosys, its solver front end, place and route."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["ToolError", "run_tool"]


class ToolError(Exception):
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
    try:
        done = subprocess.run(
            [found, *arguments],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=max(deadline - time.monotonic(), 0.1),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"{tool} did not finish in time") from None
    if done.returncode != 0 and not may_fail:
        raise ToolError(f"{tool} failed:\n{done.stdout}")
    return done.stdout
