"""What a join costs and what a card can do: equations 1 to 5 of the paper (section 3.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from ..query import JoineryError

__all__ = ["PerformanceModel", "comparisons", "utilisation"]


def comparisons(
    left_rate: float, right_rate: float, left_window: Sequence[float], right_window: Sequence[float]
) -> float:
    """Return the comparisons per second that two streams need now: equation 1.

    The windows have the tuples that came in each second of the time window until now.
    """
    return left_rate * sum(right_window) + right_rate * sum(left_window)


def utilisation(compared: float, cycles: float, units: int) -> float:
    """Return the measured eta: the share of the cycles of all units that compared a pair."""
    return compared / (cycles * units) if cycles else 0.0


@dataclass(frozen=True)
class PerformanceModel:
    """A join of two streams that come at steady rates.

    Parameters
    ----------
    window : float
        The time window in seconds.
    ratio : float
        Tuples of the left stream to one of the right.
    """

    window: float
    ratio: float = 1.0

    def __post_init__(self) -> None:
        for name in ("window", "ratio"):
            if not getattr(self, name) > 0:
                raise JoineryError(f"The {name} must be more than 0, not {getattr(self, name)!r}")

    @property
    def _share(self) -> float:
        """Comparisons per second at a throughput of 1."""
        return 2 * self.window * self.ratio / (self.ratio + 1) ** 2

    def cost(self, throughput: float) -> float:
        """Return the comparisons per second that a throughput of both streams needs: equation 2."""
        return self._share * throughput**2

    def core_rate(self, throughput: float, too_few: int, enough: int) -> float:
        """Return the comparisons per second of one core, where so many were measured to be too few
        and so many enough for a throughput: equation 3."""
        return 2 * self.cost(throughput) / (too_few + enough)

    def cores(self, throughput: float, core_rate: float) -> float:
        """Return the cores that a throughput needs: equation 4."""
        return self.cost(throughput) / core_rate

    def throughput(self, frequency: float, units: int, eta: float) -> float:
        """Return the bound on the tuples per second of both streams: equation 5.

        ``units`` are those of all pipelines, and ``eta`` the share of the cycles that they use.
        """
        return sqrt(eta * frequency * units / self._share)
