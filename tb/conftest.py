"""Settings for all tests: hypothesis repeats itself exactly, and time never fails a test."""

import os

from hypothesis import HealthCheck, settings

os.environ["AMARANTH_USE_YOSYS"] = "builtin"  # the pinned Yosys, whatever the machine has

settings.register_profile(
    "joinery",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("joinery")
