"""A Spark cluster on this machine, one master and a few workers, to show that the job scales out.

Everything listens on the loopback address only, on ports that the system chooses.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from ..query import JoineryError

START_SECONDS = 60.0
SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"


@contextmanager
def standalone_cluster(*, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """Run a cluster, lend the URL of its master, and end all of its processes."""
    with tempfile.TemporaryDirectory(prefix="joinery-cluster-") as folder, ExitStack() as running:
        place = Path(folder)
        here = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        master = running.enter_context(
            _daemon("org.apache.spark.deploy.master.Master", here, log=place / "master.log")
        )
        url = master(r"Starting Spark master at (spark://\S+)")
        waits = []
        for number in range(workers):
            work = ["--cores", str(cores), "--memory", memory, "--work-dir", str(place / "work")]
            waits.append(
                running.enter_context(
                    _daemon(
                        "org.apache.spark.deploy.worker.Worker",
                        [*here, *work, url],
                        log=place / f"worker{number}.log",
                    )
                )
            )
        for wait in waits:
            wait(r"Successfully registered with master (\S+)")
        yield url


def submit(
    script: Path, arguments: Sequence[str], *, master: str, memory: str = "1g", seconds: float = 600
) -> None:
    """Run ``script`` with ``spark-submit`` on ``master``, to its end."""
    settings = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.memory": memory,
        "spark.ui.enabled": "false",
    }
    command = [str(SPARK_HOME / "bin/spark-submit"), "--master", master]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    done = subprocess.run(
        [*command, str(script), *arguments],
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        # What the script writes to its standard error reaches us on standard output.
        raise JoineryError(f"spark-submit failed; it said:\n{(done.stderr + done.stdout).strip()}")


class _Log:
    """Waits for lines in the log of a process."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process, self._log = process, log

    def __call__(self, pattern: str) -> str:
        """Wait for ``pattern``, and return its first group."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            ended = self._process.poll() is not None
            text = self._log.read_text(errors="replace")
            if found := re.search(pattern, text):
                return found[1]
            if ended:
                break
            time.sleep(0.05)
        raise JoineryError(f"The Spark cluster did not start; {self._log.name} says:\n{text}")


@contextmanager
def _daemon(name: str, arguments: Sequence[str], *, log: Path) -> Iterator[_Log]:
    """Run one of Spark's services, and lend a way to wait for what it logs."""
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin/spark-class"), name, *arguments],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    try:
        yield _Log(process, log)
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    """This process's environment, with the Spark and the Python that it runs itself."""
    return os.environ | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_PUBLIC_DNS": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
