"""Spark sessions: starting one quietly, and the settings that the golden job relies on."""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ..query import JoineryError

INSTALL_JAVA = "sudo apt-get install openjdk-17-jre-headless"
DRIVER_MEMORY = "4g"

# What the results depend on, so it is set on every session, whoever started it.
MEANING = {
    "spark.sql.ansi.enabled": "true",  # an overflow stops the job, it never wraps
    "spark.sql.session.timeZone": "UTC",  # times without a zone pass through unchanged
    "spark.sql.caseSensitive": "true",  # a query may have the columns `a` and `A`
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",  # no digit is ever rounded away
}


@contextmanager
def golden_session(spark: SparkSession | None, master: str | None) -> Iterator[SparkSession]:
    """Lend a session with our settings: a sister of ``spark``, or one of our own, then stopped."""
    parent = spark or start_spark(master)
    try:
        session = parent.newSession()
        for name, value in MEANING.items():
            session.conf.set(name, value)
        yield session
    finally:
        if spark is None:
            parent.stop()


def tune(session: SparkSession, *, rows: int) -> None:
    """Fit the shuffle partitions to the input: one for little, else several for every core."""
    wanted = max(4 * session.sparkContext.defaultParallelism, rows // 250_000)
    session.conf.set("spark.sql.shuffle.partitions", str(max(1, min(rows // 5_000, wanted))))


def start_spark(master: str | None = None) -> SparkSession:
    """Start Spark on ``master`` (this machine, all cores, by default) without a word on stderr."""
    if SparkContext._active_spark_context is not None:
        raise JoineryError("A Spark session is running in this process: pass it as `spark`")
    if not _java_found():
        raise JoineryError(
            f"Spark needs Java 17 or later, and none was found; install it with: {INSTALL_JAVA}"
        )
    conf = SparkConf()
    conf.setAppName("joinery golden")
    conf.setMaster(master or "local[*]")
    conf.set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false")
    conf.setIfMissing("spark.driver.memory", DRIVER_MEMORY)
    if master is None or master.startswith("local"):
        # A laptop's host name may resolve to nothing, or to an address that changes.
        conf.set("spark.driver.host", "127.0.0.1")
        conf.set("spark.driver.bindAddress", "127.0.0.1")
    with _signals_held():
        context = _start_context(conf)
        context.setLogLevel("ERROR")
        return SparkSession(context)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Let Ctrl-C and a request to end wait until Spark has started.

    A JVM whose start is broken off would stay for ever. The handler for Ctrl-C that Spark puts in
    place goes too: it talks to the JVM in the middle of whatever else is being said to it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals never come here
        return
    came: list[int] = []
    before = {
        each: signal.signal(each, lambda number, frame: came.append(number))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


def _start_context(conf: SparkConf) -> SparkContext:
    """Start the JVM with its chatter in a file, which is shown only if Spark does not start."""
    with tempfile.TemporaryFile("w+") as log:
        try:
            gateway = SparkContext._gateway or launch_gateway(conf, {"stderr": log})
            return SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError:
            log.seek(0)
            raise JoineryError(f"Spark did not start; it said:\n{log.read().strip()}") from None


def _java_found() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java") is not None or (
        home is not None and Path(home, "bin/java").exists()
    )
