"""The host of a card: tuples in, the result's rows out, in order."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from joinery.expr import columns_of

from ..query import JoineryError, JoinQuery
from .controller import SIDES, Arrivals, Controller, Task
from .device import Device, Side
from .layout import CardLayout, time_windows
from .memory import CardMemory
from .results import Collector, OrderedPairs, recover
from .scheduler import Scheduler
from .store import NUMBER

__all__ = ["Host", "HostSettings", "Rows", "TaskReport"]

Raw = npt.NDArray[Any]


@dataclass(frozen=True)
class HostSettings:
    """What can be set of a host.

    Parameters
    ----------
    sources_left, sources_right : int
        The sources of each stream.
    slice_tuples : int
        Tuples in a slice, the grain in which tuples expire.
    stream_tuples : int or None
        The most stream tuples that a pipeline gets at once; None for what fits.
    result_tuples : int or None
        The results that a pipeline's buffer holds; a full one costs a pause, never a result.
    window_left, window_right : int or None
        The tuples of each stream that the card holds; None for what fits.
    backlog : int
        The parts that may wait at a pipeline before the input does.
    """

    sources_left: int = 1
    sources_right: int = 1
    slice_tuples: int = 256
    stream_tuples: int | None = None
    result_tuples: int | None = None
    window_left: int | None = None
    window_right: int | None = None
    backlog: int = 4


@dataclass(frozen=True)
class TaskReport:
    """A task that is complete: what it was, and how long it took from its cut to its last row.

    ``cycles`` are the card's, ``seconds`` those of the clock on the wall.
    """

    number: int
    tuples: int
    rows: int
    cycles: int
    seconds: float


@dataclass(frozen=True)
class Rows:
    """The rows of a task in order: raw values by column, and the arrivals of each pair."""

    columns: dict[str, Raw]
    left: Raw
    right: Raw

    def __len__(self) -> int:
        return len(self.left)


class Host:
    """Join two streams on a card.

    Tuples come by `add`, the sources' signals by `signal`; `cut` makes a task of what has come and
    lets the card work, and `finish` ends it. Rows leave in the order of their later tuple, then of
    their earlier one.

    Parameters
    ----------
    query : JoinQuery
        A join of two time windows.
    device : Device
        The card.
    layout : CardLayout
        The records in its memory.
    emit : callable
        Takes the rows of each task, and what there is to report of it.
    settings : HostSettings
        What can be set.
    """

    def __init__(
        self,
        query: JoinQuery,
        device: Device,
        layout: CardLayout,
        emit: Callable[[Rows, TaskReport], None],
        settings: HostSettings | None = None,
    ) -> None:
        chosen = settings or HostSettings()
        if chosen.backlog < 1:
            raise JoineryError(f"backlog must be at least 1, not {chosen.backlog}")
        self.pipelines = device.pipelines
        self._query = query
        self._device = device
        self._emit_rows = emit
        self._backlog = chosen.backlog
        self.memory = CardMemory(
            device,
            layout,
            stream_tuples=chosen.stream_tuples,
            result_tuples=chosen.result_tuples,
            window_tuples={"left": chosen.window_left, "right": chosen.window_right},
        )
        self.controller = Controller(
            layout,
            self._columns(),
            {side: ring.tuples for side, ring in self.memory.rings.items()},
            time_range=time_windows(query)[0].range,
            sources={"left": chosen.sources_left, "right": chosen.sources_right},
            slice_tuples=chosen.slice_tuples,
        )
        self.collector = Collector(self.controller, self._emit)
        self.scheduler = Scheduler(device, self.controller, self.memory, self.collector.take)
        self._started: dict[int, tuple[int, float]] = {}

    def _columns(self) -> dict[Side, list[str]]:
        """The columns to keep of each side: what the predicate or the result reads."""
        outputs = (output.expr for output in self._query.outputs)
        read = columns_of(self._query.predicate, *outputs)
        return {
            side: sorted(name for alias, name in read if alias == source.alias)
            for side, source in zip(SIDES, self._query.sources, strict=True)
        }

    def add(self, arrivals: Arrivals) -> None:
        """Take tuples in, in the order of their arrival."""
        self.controller.add(arrivals)

    def signal(self, side: Side, source: int, time: int) -> None:
        """Take a source's word that none of its later tuples is older than ``time``."""
        self.controller.signal(side, source, time)

    def cut(self) -> None:
        """Make a task of what has come, and wait while too many wait already."""
        task = self.controller.take()
        if task is not None:
            self._started[task.number] = self._device.cycles, time.perf_counter()
            self.collector.expect(task, self.scheduler.submit(task))
        self.controller.expire()
        self._trim()
        while self.scheduler.backlog > self._backlog:
            self.scheduler.step()

    def finish(self) -> None:
        """Let all that has come be joined; nothing comes any more."""
        self.controller.finish()
        self.cut()
        while self.scheduler.step():
            pass

    def abort(self) -> None:
        """Stop the card; what it worked on is lost."""
        self.scheduler.abort()

    def _emit(self, task: Task, pairs: OrderedPairs) -> None:
        stores = self.controller.stores
        rows = Rows(
            recover(self._query, pairs, stores),
            stores["left"].at(NUMBER, pairs.left),
            stores["right"].at(NUMBER, pairs.right),
        )
        cycles, seconds = self._started.pop(task.number)
        spent = self._device.cycles - cycles, time.perf_counter() - seconds
        self._emit_rows(rows, TaskReport(task.number, task.tuples, len(rows), *spent))
        self._trim()

    def _trim(self) -> None:
        """Drop the tuples that no slice and no task needs any more."""
        for side, store in self.controller.stores.items():
            bounds = [self.controller.oldest(side)]
            if len(self.collector):
                bounds.append(self.collector.oldest(side))
            store.drop(self.controller.word_start(side, min(bounds)))
