"""How many cycles a join takes: the timing in ``top.json`` applied to the tuples and the pairs.

Without matches the model is exact. With matches it follows the results: each pair is found in the
step in which its rows share a core, a step takes its scan or as long as its results need to leave,
whichever is more, and the queues of the design lie between the two.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from joinery.handshake import core_of_left, core_of_right

__all__ = ["predict_cycles"]

Numbers = npt.NDArray[np.int64]


def predict_cycles(top: Mapping[str, Any], prepared: Path | str, golden: Path | str) -> int:
    """Return the cycles from the first input beat to the end of the output, without stalls.

    ``top`` is the content of ``top.json``, ``prepared`` the input, and ``golden`` the result of the
    same query.
    """
    arrivals = [
        pq.read_table(Path(prepared) / f"{flag['source']}.parquet", columns=["_arrival"])
        for flag in top["input"]["flags"]
    ]
    pairs = pq.read_table(golden, columns=["_left_arrival", "_right_arrival"])
    steps = Steps(top["predicted"]["cycles"], *(table[0].to_numpy() for table in arrivals))
    return steps.cycles(steps.meeting(*(column.to_numpy() for column in pairs.columns)))


class Steps:
    """The steps of a chain of cores: one for each transfer, then those of the drain.

    ``timing`` is that of ``top.json``; ``left`` and ``right`` are the arrivals of each stream.
    """

    def __init__(self, timing: Mapping[str, int], left: Numbers, right: Numbers) -> None:
        self.timing = timing
        self.left, self.right = left, right
        total = len(left) + len(right)
        is_right = np.zeros(total, dtype=bool)
        is_right[right] = True
        joins = np.zeros(total, dtype=bool)  # shares the transfer of the tuple before it
        joins[1:] = is_right[1:] & ~is_right[:-1]
        self.step_of = np.cumsum(~joins) - 1  # of each arrival
        transfers = int(self.step_of[-1]) + 1 if total else 0
        has_left, has_right = (
            np.ones(transfers + timing["drain_steps"], dtype=bool) for _ in range(2)
        )
        has_left[:transfers] = has_right[:transfers] = False
        has_left[self.step_of[left]] = True
        has_right[self.step_of[right]] = True
        # Rows of each stream that have entered after each step; the drain's are empty.
        self.entered_left, self.entered_right = np.cumsum(has_left), np.cumsum(has_right)
        self.cost = np.maximum(has_left * timing["per_left"], has_right * timing["per_right"])

    def meeting(self, left: Numbers, right: Numbers) -> Numbers:
        """Return the step in which each pair, given by its arrivals, shares a core."""
        rows_left, rows_right = self.timing["rows_left"], self.timing["rows_right"]
        cores = self.timing["cores"]
        cores_left = np.array([core_of_left(p, rows_left, cores) for p in range(rows_left + 1)])
        cores_right = np.array([core_of_right(p, rows_right, cores) for p in range(rows_right + 1)])
        number_left = np.searchsorted(self.left, left)
        number_right = np.searchsorted(self.right, right)
        low = np.maximum(self.step_of[left], self.step_of[right]) if len(left) else left
        high = np.full_like(low, len(self.cost) - 1)
        while np.any(low < high):  # rows only ever come nearer: search for the step by halves
            middle = (low + high) // 2
            position_left = self.entered_left[middle] - 1 - number_left
            position_right = self.entered_right[middle] - 1 - number_right
            met = (
                cores_left[np.minimum(position_left, rows_left)]
                >= cores_right[np.minimum(position_right, rows_right)]
            )
            low, high = np.where(met, low, middle + 1), np.where(met, middle, high)
        return low

    def cycles(self, found: Numbers) -> int:
        """Return the cycles of the whole run, where ``found`` has the step of every result."""
        results = np.bincount(found, minlength=len(self.cost))
        backlog = total = 0
        rate, most = self.timing["results_per_cycle"], self.timing["backlog"]
        for cost, new in zip(self.cost.tolist(), results.tolist(), strict=True):
            takes = max(cost, -(-(backlog + new - most) // rate))
            backlog = max(0, backlog + new - takes * rate)
            total += takes
        return total + -(-backlog // rate) + self.timing["end"]
