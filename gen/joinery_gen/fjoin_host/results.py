"""After the card: results in the order of the input, and their full tuples (section 3.4)."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from joinery.expr import Column, columns_of

from ..query import JoinQuery
from .controller import SIDES, Controller, Part, Task, opposite
from .device import Side
from .scheduler import Pairs
from .store import NUMBER, TupleStore
from .vectors import evaluate_columns

__all__ = ["Collector", "OrderedPairs", "in_order", "recover"]

Raw = npt.NDArray[Any]


@dataclass(frozen=True)
class OrderedPairs:
    """The pairs of a task, as indices in their streams, in order of the output."""

    left: Raw
    right: Raw

    def __len__(self) -> int:
        return len(self.left)


def in_order(
    found: Mapping[Side, Sequence[Pairs]], stores: Mapping[Side, TupleStore]
) -> OrderedPairs:
    """Order the pairs of a task by the arrival of their later tuple, then of their earlier one.

    Algorithm 2 of the paper puts the pairs of each side into buckets by their stream tuple, where
    they are in the order of the window already, and merges the two sides. Numbers are common to
    both sides here, so one stable sort, which numpy does by buckets, is both steps.
    """
    none = np.empty(0, np.int64)
    numbers, lefts, rights = [none], [none], [none]
    for side in SIDES:
        for pairs in found[side]:
            numbers.append(stores[side].at(NUMBER, pairs.stream))
            mine, other = (lefts, rights) if side == "left" else (rights, lefts)
            mine.append(pairs.stream)
            other.append(pairs.window)
    order = np.argsort(np.concatenate(numbers), kind="stable")
    return OrderedPairs(np.concatenate(lefts)[order], np.concatenate(rights)[order])


def recover(
    query: JoinQuery, pairs: OrderedPairs, stores: Mapping[Side, TupleStore]
) -> dict[str, Raw]:
    """Return the raw values of the columns of the result."""
    read = columns_of(*(output.expr for output in query.outputs))
    sides: dict[str, Side] = {query.left.alias: "left", query.right.alias: "right"}
    indices = {"left": pairs.left, "right": pairs.right}
    columns = {
        (alias, name): stores[sides[alias]].at(name, indices[sides[alias]]) for alias, name in read
    }
    return {
        output.name: columns[output.expr.source, output.expr.name]
        if isinstance(output.expr, Column)
        else evaluate_columns(output.expr, columns, len(pairs))
        for output in query.outputs
    }


class _Open:
    """A task whose results are not all there, or wait for those of an earlier one."""

    def __init__(self, task: Task, parts: Sequence[Part]) -> None:
        self.task = task
        self.missing = len(parts)
        self.found: dict[Side, list[Pairs]] = {side: [] for side in SIDES}
        self.oldest = {side: first for side, (first, _) in task.streams.items()}
        for part in parts:
            other = opposite(part.side)
            self.oldest[other] = min(self.oldest[other], part.window_first)


class Collector:
    """Gather the pairs of all pipelines, and give them away task by task, in order.

    Parameters
    ----------
    emit : callable
        Takes a task that is complete, and its pairs, while their tuples are still kept.
    """

    def __init__(self, controller: Controller, emit: Callable[[Task, OrderedPairs], None]) -> None:
        self._controller = controller
        self._emit = emit
        self._open: deque[_Open] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def expect(self, task: Task, parts: Sequence[Part]) -> None:
        """Take note of the parts that a task consists of."""
        self._open.append(_Open(task, parts))
        self._flush()

    def take(self, pairs: Pairs) -> None:
        """Take the pairs of a part that is done."""
        mine = self._open[pairs.part.task.number - self._open[0].task.number]
        mine.found[pairs.part.side].append(pairs)
        mine.missing -= 1
        self._flush()

    def oldest(self, side: Side) -> int:
        """Return the index of the oldest tuple of a side that an open task may ask for."""
        return min(each.oldest[side] for each in self._open)

    def _flush(self) -> None:
        while self._open and not self._open[0].missing:
            first = self._open.popleft()
            self._emit(first.task, in_order(first.found, self._controller.stores))
