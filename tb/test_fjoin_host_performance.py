"""Equations 1 to 5 with the paper's own numbers, as far as its text has them."""

import re
from math import isclose

import pytest

from joinery_gen.fjoin_host import PerformanceModel, comparisons, utilisation
from joinery_gen.query import JoineryError

FREQUENCY = 300e6
ETA = 0.31  # measured by the paper at 15 seconds of network traces


def test_speed_of_1024_units() -> None:
    """Figure 7(a): some 100 billion comparisons per second, 17 times those of 512 cores."""
    speed = ETA * FREQUENCY * 1024
    assert 0.9e11 < speed < 1.1e11
    assert 15 < speed / 6e9 < 18


def test_four_times_the_throughput() -> None:
    """17 times the comparisons are some 4 times the tuples: the cost grows with their square."""
    model = PerformanceModel(180)
    slow, fast = (model.throughput(FREQUENCY, units, ETA) for units in (1024, 17 * 1024))
    assert isclose(fast / slow, 17**0.5)
    assert model.cost(2 * slow) == 4 * model.cost(slow)


@pytest.mark.parametrize("window", [15, 30, 180, 300])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_steady_streams(window: int, ratio: float) -> None:
    """Equation 2 is equation 1 where rates never change, and equation 5 its inverse."""
    right = 1000.0
    left = ratio * right
    model = PerformanceModel(window, ratio)
    cost = comparisons(left, right, [left] * window, [right] * window)
    assert isclose(cost, model.cost(left + right))
    assert isclose(cost, 2 * window * left * right)
    throughput = model.throughput(FREQUENCY, 512, ETA)
    assert isclose(model.cost(throughput), ETA * FREQUENCY * 512)


def test_uneven_streams_carry_more() -> None:
    """Figure 10: with R twice as fast as S, the same units take more tuples."""
    even, uneven = (PerformanceModel(180, r).throughput(FREQUENCY, 1024, ETA) for r in (1, 2))
    assert uneven > even


def test_cores() -> None:
    """Equation 3 lies between what was too little and what was enough; equation 4 undoes it."""
    model = PerformanceModel(180)
    rate = model.core_rate(10_000, 100, 140)
    assert model.cost(10_000) / 140 < rate < model.cost(10_000) / 100
    assert isclose(model.cores(10_000, rate), 120)
    assert isclose(model.cores(20_000, rate), 480)


def longest(units: int) -> int:
    """Seconds of figure 11, until a card can't keep up: 1,000 tuples per second, 50 more each."""
    steady = [500.0] * 360
    rates = steady + [500 + 25.0 * second for second in range(601)]
    for second in range(601):
        now = len(steady) + second
        window = rates[now - 180 : now]
        if comparisons(rates[now], rates[now], window, window) > ETA * FREQUENCY * units:
            return second
    return 600


def test_growing_streams() -> None:
    """Figure 11: 16 units fall behind after some 150 seconds (and it takes a while to be seen),
    1,024 never do in 600."""
    assert 80 < longest(16) < 150
    assert longest(1024) == 600
    assert longest(16) < longest(64) < longest(256)


def test_measured_utilisation() -> None:
    assert utilisation(1024 * 31, 100, 1024) == 0.31
    assert utilisation(0, 0, 1024) == 0


@pytest.mark.parametrize(
    ("window", "ratio", "error"),
    [
        (0, 1, "The window must be more than 0, not 0"),
        (1, -1, "The ratio must be more than 0, not -1"),
    ],
)
def test_refuses(window: float, ratio: float, error: str) -> None:
    with pytest.raises(JoineryError, match=f"^{re.escape(error)}$"):
        PerformanceModel(window, ratio)
