"""`joinery bench fjoin`, on small pipelines: what it reports, and that its loads are as named."""

import re

import numpy as np
import pytest

from joinery_cli import bench_fjoin
from joinery_cli.bench_fjoin import WORKLOADS
from joinery_gen.query import JoineryError

PROMISED = {
    *("engine", "predicate", "units", "lanes", "window", "selectivity", "cycles", "utilisation"),
    *("results", "results_per_cycle", "lost", "duplicated"),
}


def test_rows() -> None:
    rows = bench_fjoin.bench_fjoin("fjoin", "prefix", units=8, window=100, cycles=800)
    assert [row["selectivity"] for row in rows] == [0, 0.001, 0.01, 0.1]
    for row in rows:
        assert row.keys() >= PROMISED
        assert (row["lost"], row["duplicated"], row["right"]) == (0, 0, True)
        assert row["utilisation"] == round(800 / row["cycles"], 4)
        assert row["results_per_cycle"] == round(row["results"] / row["cycles"], 4)
        assert abs(row["predicted_cycles"] - row["cycles"]) <= 0.02 * row["cycles"]
        assert row["bytes_per_comparison"] == 2  # four tuples in a word, eight units
    assert rows[0]["results"] == 0 < rows[-1]["results"]


@pytest.mark.parametrize("name", list(WORKLOADS))
@pytest.mark.parametrize("selectivity", [0, 0.001, 0.01, 0.1])
def test_loads_match_as_often_as_named(name: str, selectivity: float) -> None:
    load, draw = WORKLOADS[name], np.random.default_rng(1)
    stream = load.draw(draw, 1000, selectivity, "stream")
    window = load.draw(draw, 3000, selectivity, "window")
    assert load.met(stream, window).mean() == pytest.approx(selectivity, rel=0.1)


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        ({"engine": "x"}, "bench fjoin: engine must be fjoin, fjoin_paper or all, not 'x'"),
        (
            {"predicate": "x"},
            "bench fjoin: predicate must be manhattan, prefix or all, not 'x'",
        ),
    ],
)
def test_refuses(chosen: dict[str, str], error: str) -> None:
    with pytest.raises(JoineryError, match=f"^{re.escape(error)}$"):
        bench_fjoin.bench_fjoin(**chosen)  # type: ignore[arg-type]


def test_area_of_a_unit() -> None:
    (row,) = bench_fjoin.bench_area("prefix", small=16, large=32)
    assert (row["engine"], row["predicate"], row["units"]) == ("fjoin", "prefix", "16 to 32")
    assert 16 < row["lut_per_unit"] <= 60  # a slice of the window register and a comparison
    assert 16 < row["ff_per_unit"] <= 100
    assert row["times_paper"] == round(303 / 0.499 / row["lut_per_unit"], 1)
    assert row["right"]
