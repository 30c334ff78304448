"""How many cycles an aggregate over time windows takes: its tuples' times, and what they close.

Tuples enter one transfer a cycle; what they close waits for the walk over panes, a step per cycle,
or for the baselines' modules, which hold up the input meanwhile. Gaps cost no more steps than a
window has panes. Conditions are left aside: of tuples that they drop the times count all the same.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from .query import AggregateQuery, Query, SlidingWindow
from .tables import raw_columns

__all__ = ["predict_pane_cycles"]

Numbers = npt.NDArray[np.int64]


def predict_pane_cycles(top: Mapping[str, Any], prepared: Path | str, query: Query) -> int:
    """Return the cycles from the first input beat to the end of the output, without stalls.

    ``top`` is the content of ``top.json``, and ``prepared`` the input.
    """
    timing = top["predicted"]["cycles"]
    # The latency of a sequential window holds a walk, which is counted by itself.
    walk = timing["panes"] + 1 if timing.get("walk") else 0
    bounds = _bounds(timing, _times(prepared, query))
    if not len(bounds):
        # Nothing is closed but the input, for which nothing is on its way.
        return int(timing["latency"]) + 2 - walk - timing.get("close_delay", 0)
    lanes = top["input"]["lanes"]
    beats = -(-len(bounds) // lanes)
    missing = np.repeat(bounds[-1:], beats * lanes - len(bounds))
    rows = np.append(bounds, missing).reshape(beats, lanes)
    if "modules" in timing:
        return beats + 1 + _held(bounds, timing) + int(timing["latency"])
    enters = np.append(np.cumsum(1 + _splits(rows, timing)), 0)
    enters[-1] = enters[-2] + 1
    # Panes wait for those before them: the last leaves when the busiest stretch up to it is over.
    left = np.cumsum(_work(rows, timing)[::-1])[::-1]
    return int((enters + left).max()) + int(timing["latency"]) - walk


def _times(prepared: Path | str, query: Query) -> Numbers:
    """The times of tuples and punctuations, in units of their column, in order of arrival."""
    body = query.body
    assert isinstance(body, AggregateQuery)
    assert isinstance(body.source.window, SlidingWindow)
    name = body.source.window.wattr
    path = Path(prepared) / f"{body.source.alias}.parquet"
    table = pq.read_table(path, columns=[name, "_arrival"]).sort_by("_arrival")
    return raw_columns(table, body.source.schema.select({name}))[name].astype(np.int64)


def _bounds(timing: Mapping[str, Any], times: Numbers) -> Numbers:
    """The first pane that is not closed after each tuple."""
    latest = np.maximum.accumulate(times) if len(times) else times
    bounds: Numbers = (latest - timing["slack"]) // timing["pane"]
    return bounds


def _splits(rows: Numbers, timing: Mapping[str, Any]) -> Numbers:
    """How often each transfer is split, as time leaps inside it."""
    splits: Numbers = (np.diff(rows, axis=1) > timing["leap"]).sum(axis=1)
    return splits


def _work(rows: Numbers, timing: Mapping[str, Any]) -> Numbers:
    """The cycles of the walk over what each transfer closes, and then the end."""
    ahead = np.diff(rows.reshape(-1), prepend=rows[0, 0])
    # A leap closes the panes that were open, and then empty ones until no window has any left; a
    # short one inside a transfer opens all that it passes.
    most = timing["panes"] + -(-timing["slack"] // timing["pane"])
    inside = (np.arange(len(ahead)) % rows.shape[1] != 0) & (ahead <= timing["leap"])
    steps = np.append(np.where(inside, ahead, np.minimum(ahead, most)), most)
    cost = steps * timing["cycles_per_pane"]
    if timing["walk"]:
        cost = cost + _walks(steps, steps[:-1] >= timing["panes"], timing)
    per_beat = np.append(cost[:-1].reshape(rows.shape).sum(axis=1), cost[-1])
    return np.rint(per_beat).astype(np.int64)


def _walks(steps: Numbers, empties: npt.NDArray[np.bool_], timing: Mapping[str, Any]) -> Numbers:
    """The cycles in which a sequential window walks over its panes, of which it has few at first.

    An event with ``empties`` leaves it with none.
    """
    event = np.repeat(np.arange(len(steps)), steps)
    anew = np.cumsum(np.append(0, empties))[event]
    age = np.arange(len(event)) - np.searchsorted(anew, anew) + 1
    walk = (1 + np.minimum(age, timing["panes"])) * timing["cycles_per_pane"] / timing["walk"]
    return np.bincount(event, weights=walk, minlength=len(steps))


def _held(bounds: Numbers, timing: Mapping[str, Any]) -> int:
    """The cycles in which the baselines' modules hold up the input, and those of the end."""
    window = (bounds - timing["panes"]) // timing["step"]
    closes = np.diff(window)
    most = timing["modules"] - 1
    # One window closes as the tuple comes; after a leap all begin anew before it does.
    held = np.where(closes > most, most + 1, np.maximum(closes - 1, 0))
    return int(held.sum()) + 1 + most
