"""A prepared input as a card's host sees it: tuples of several sources, and what these signal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from joinery.expr import columns_of

from ..query import JoineryError, JoinQuery, Source
from ..tables import raw_columns
from .controller import SIDES, Arrivals
from .device import Side
from .layout import time_windows

__all__ = ["Batch", "Feed", "FeedSettings"]

Raw = npt.NDArray[Any]


@dataclass(frozen=True)
class FeedSettings:
    """How an input arrives.

    Parameters
    ----------
    sources : int
        The sources of each stream, which send its tuples in turn.
    batch : int
        The tuples of both streams that make a task.
    signal_every : int
        Tuples of both streams between two signals of a source.
    disorder : int
        The most that a tuple is held up on its way, by chance, in the unit of the times. The
        result of a time window stays the same.
    seed : int
        Of that chance.
    """

    sources: int = 1
    batch: int = 1024
    signal_every: int = 1024
    disorder: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        for name, least in (("sources", 1), ("batch", 1), ("signal_every", 1), ("disorder", 0)):
            if getattr(self, name) < least:
                raise JoineryError(f"{name} must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True)
class Batch:
    """Tuples that arrive together, and the signals ``(side, source, time)`` after them."""

    arrivals: Arrivals
    signals: list[tuple[Side, int, int]]


class Feed:
    """The tuples of a prepared input in batches.

    A source signals that its next tuples are no older than the newest tuple that anybody has seen,
    less the SLACK of its stream and ``disorder``.

    Parameters
    ----------
    query : JoinQuery
        A join of time windows.
    prepared : Path
        The folder that `joinery_gen.data.prepare` wrote.
    settings : FeedSettings
        How the input arrives.
    """

    def __init__(self, query: JoinQuery, prepared: Path, settings: FeedSettings) -> None:
        self._settings = settings
        read = columns_of(query.predicate, *(output.expr for output in query.outputs))
        self._columns: dict[Side, dict[str, Raw]] = {}
        self._slack: dict[Side, int] = {}
        times, arrivals = [], []
        for side, source, window in zip(SIDES, query.sources, time_windows(query), strict=True):
            names = {name for alias, name in read if alias == source.alias}
            columns, arrival = _read(prepared, source, names | {window.wattr})
            times.append(columns[window.wattr])
            arrivals.append(arrival)
            self._columns[side] = {name: columns[name] for name in names}
            self._slack[side] = window.slack
        self.tuples = {
            source.alias: len(arrival)
            for source, arrival in zip(query.sources, arrivals, strict=True)
        }
        self._interleave(times, arrivals)

    def _interleave(self, times: list[Raw], arrivals: list[Raw]) -> None:
        """Bring the tuples of both streams into the order of their arrival at the host."""
        total = sum(len(arrival) for arrival in arrivals)
        place = np.concatenate(arrivals)
        if not np.array_equal(np.sort(place), np.arange(total)):
            raise JoineryError(
                f"The arrival positions of the prepared input are not 0 to {total - 1}, each once; "
                "prepare the data again"
            )
        order = np.argsort(place)
        time = np.concatenate(times)[order]
        if self._settings.disorder and total:
            draw = np.random.default_rng(self._settings.seed)
            held_up = draw.integers(0, self._settings.disorder, total, endpoint=True)
            late = np.argsort(np.maximum.accumulate(time) + held_up, kind="stable")
            order, time = order[late], time[late]
        self._right = order >= len(arrivals[0])
        self._row = np.where(self._right, order - len(arrivals[0]), order)
        self._time = time
        self._newest = np.maximum.accumulate(time)
        self.arrival = place[order]

    def __len__(self) -> int:
        return len(self._right)

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self), self._settings.batch):
            yield self._batch(start, min(len(self), start + self._settings.batch))

    def _batch(self, start: int, end: int) -> Batch:
        right, row = self._right[start:end], self._row[start:end]
        rows: Mapping[Side, Raw] = {"left": row[~right], "right": row[right]}
        columns = {
            side: {name: values[rows[side]] for name, values in self._columns[side].items()}
            for side in SIDES
        }
        source = row % self._settings.sources
        arrivals = Arrivals(right, source, self._time[start:end], columns)
        return Batch(arrivals, list(self._signals(start, end)))

    def _signals(self, start: int, end: int) -> Iterator[tuple[Side, int, int]]:
        """Every source has its own moment, one after the other."""
        every, sources = self._settings.signal_every, self._settings.sources
        for side in SIDES:
            for source in range(sources):
                turn = (every * (2 * source + (side == "right"))) // (2 * sources)
                last = (end - 1 - turn) // every * every + turn
                if last >= start:
                    bound = self._slack[side] + self._settings.disorder
                    yield side, source, int(self._newest[last]) - bound


def _read(prepared: Path, source: Source, names: set[str]) -> tuple[dict[str, Raw], Raw]:
    """Return the raw columns of a stream and its arrival positions."""
    path = prepared / f"{source.alias}.parquet"
    if not path.is_file():
        raise JoineryError(f"{prepared} holds no tuples of {source.alias}: there is no {path.name}")
    table = pq.read_table(path)
    arrival = table["_arrival"].to_numpy()
    return raw_columns(table, source.schema.select(names)), arrival
