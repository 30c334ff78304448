"""Settings for all tests: hypothesis repeats itself exactly, and time never fails a test."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ["AMARANTH_USE_YOSYS"] = "builtin"  # the pinned Yosys, whatever the machine has

settings.register_profile(
    "joinery",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("joinery")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """The one Spark session of this process: it takes seconds to start, and can't have a sister."""
    from joinery_gen.golden.session import start_spark

    session = start_spark("local[1]")
    yield session
    session.stop()
