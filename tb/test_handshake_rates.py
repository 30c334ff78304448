"""The papers' largest experiment on generated tops: 64 cores, windows of 512, 512 + 512 tuples."""

from pathlib import Path
from typing import Any

import pytest

from joinery_cli.bench_handshake import Case, Workshop

RESULTS = 512 * 512


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("rates"), "verilator", seed=1)


def run(workshop: Workshop, match_rate: float, **settings: Any) -> dict[str, Any]:
    settings = {"cores": 64, "storage": "memory", **settings}
    row = workshop.run(Case("rates", settings=settings, match_rate=match_rate))
    assert row["right"]
    return row


@pytest.mark.parametrize(
    ("settings", "least_rate"),
    [({"merge": "tree"}, 0.98), ({"merge": "ring"}, 0.98), ({"merge": "tree", "lanes": 4}, 3.8)],
)
def test_everything_matches(
    workshop: Workshop, tmp_path: Path, settings: dict[str, Any], least_rate: float
) -> None:
    """One result per cycle and lane; and without matches, 8 cycles for a tuple of each stream."""
    row = run(workshop, 1.0, **settings)
    assert row["results"] == RESULTS
    assert row["results_per_cycle"] >= least_rate
    assert run(workshop, 0.0, **settings)["cycles"] < 2 * 512 * 8 + 100  # the input, and the drain
