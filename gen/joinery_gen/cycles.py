"""How many cycles a design takes: the timing in ``top.json`` applied to the tuples and the results.

`pane_cycles` tells of aggregates. A join without matches takes a sum over its steps. Where there
are matches, the results are followed cycle by cycle: each pair is found at a known place of a known
step, waits in the queue of its prober, and leaves through its core's outlet and the tree of
mergers; while a queue is too full, no step goes on. The networks `ring` and `fsm_tree` are not
followed: with them, and matches, this is an estimate.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from joinery.handshake import core_of_left, core_of_right
from joinery.stream import MergeTree

from .engines import plan
from .engines.keyed import level_plan
from .mlq.cycles import predict_stream
from .pane_cycles import predict_pane_cycles
from .query import AggregateQuery, KeyedRowWindow, Query

__all__ = ["predict_card_cycles", "predict_cycles"]

Numbers = npt.NDArray[np.int64]


def predict_cycles(
    top: Mapping[str, Any], prepared: Path | str, golden: Path | str, query: Query
) -> int | None:
    """Return the cycles from the first input beat to the end of the output, without stalls.

    ``top`` is the content of ``top.json``, ``prepared`` the input, and ``golden`` the result of
    ``query``. Of multi-level queues this is an estimate, and None for windows of time and for those
    of tuples that pass a condition.
    """
    if isinstance(query.body, AggregateQuery):
        if "pane" in top["predicted"]["cycles"]:
            return predict_pane_cycles(top, prepared, query)
        if isinstance(query.body.source.window, KeyedRowWindow) and query.body.where is None:
            return _predict_rows(top, prepared, query)
        return None
    arrivals = [
        pq.read_table(Path(prepared) / f"{flag['source']}.parquet", columns=["_arrival"])
        for flag in top["input"]["flags"]
    ]
    pairs = pq.read_table(golden, columns=["_left_arrival", "_right_arrival"])
    timing = top["predicted"]["cycles"]
    steps = Steps(timing, *(table[0].to_numpy() for table in arrivals))
    finds = steps.finds(*(column.to_numpy() for column in pairs.columns))
    return Run(timing).cycles(steps.cost.tolist(), finds)


def _predict_rows(top: Mapping[str, Any], prepared: Path | str, query: Query) -> int:
    """What the tuples of each key ask of the memories, and the way of the last row.

    The memories are as busy as on average: where keys are few, tuples wait for each other more.
    """
    assert isinstance(query.body, AggregateQuery)
    path = Path(prepared) / f"{query.body.source.alias}.parquet"
    keys = [column.name for column in query.body.group_by]
    counts = pq.read_table(path, columns=keys).group_by(keys).aggregate([([], "count_all")])
    levels = level_plan(plan(query, top["engine"], top["parameters"]))
    taken = predict_stream(
        levels.problem, levels.memories, levels.values, counts["count_all"].to_numpy().tolist()
    )
    timing = top["predicted"]["cycles"]
    return int(timing["clear"]) + taken + int(timing["latency"])


def predict_card_cycles(top: Mapping[str, Any], pipelines: Iterable[Mapping[str, int]]) -> int:
    """Return the cycles of the pipeline of a card that needs most for the tasks it was given.

    ``pipelines`` has what each did: ``parts``, its tasks; their ``batches``; ``window_tuples``,
    once for each batch they met; and ``matches``, wanted or not. Neither the host nor memory takes
    time.
    """
    cycles = top["predicted"]["cycles"]
    return max(
        max(
            each["window_tuples"] * cycles["per_window_tuple"]
            + each["batches"] * cycles["per_batch"],
            -(-each["matches"] // cycles["matches_per_cycle"]),
        )
        + each["parts"] * (cycles["load"] + cycles["latency"])
        for each in pipelines
    )


class Steps:
    """The steps of the cores: one for each transfer, then those of the drain.

    ``timing`` is that of ``top.json``; ``left`` and ``right`` are the arrivals of each stream.
    """

    def __init__(self, timing: Mapping[str, Any], left: Numbers, right: Numbers) -> None:
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
        self.has_left, self.has_right = has_left, has_right
        # Rows of each stream that have entered after each step; the drain's are empty.
        self.entered_left, self.entered_right = np.cumsum(has_left), np.cumsum(has_right)
        self.cost = np.maximum(has_left * timing["per_left"], has_right * timing["per_right"])

    def finds(self, left: Numbers, right: Numbers) -> Iterator[tuple[int, int, int, int]]:
        """Yield step, scan cycle within it, queue, and number of every round of matches, in order.

        Queue ``2 * core`` is that of the core's left rows, ``2 * core + 1`` that of its right ones.
        """
        if not len(left):
            return iter(())
        place = self._chain if self.timing["flow"] == "chain" else self._broadcast
        step, core, probed_left, place_of_other = place(left, right)
        scan = place_of_other // self.timing["comparators"]
        keys, counts = np.unique(
            np.stack([step, scan, 2 * core + ~probed_left]), axis=1, return_counts=True
        )
        return zip(*keys.tolist(), counts.tolist(), strict=True)

    def _numbers(self, left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
        return np.searchsorted(self.left, left), np.searchsorted(self.right, right)

    def _broadcast(self, left: Numbers, right: Numbers) -> tuple[Any, ...]:
        """The later row of a pair meets the earlier one where that was written, in turn."""
        number_left, number_right = self._numbers(left, right)
        probed_left = left > right
        place = np.where(
            probed_left,
            number_right % self.timing["rows_right"],
            number_left % self.timing["rows_left"],
        )
        cores = self.timing["all_cores"]
        step = self.step_of[np.maximum(left, right)]
        return step, place % cores, probed_left, place // cores

    def _chain(self, left: Numbers, right: Numbers) -> tuple[Any, ...]:
        """A pair meets in the step in which it shares a core, found by the row that enters it."""
        rows_left, rows_right = self.timing["rows_left"], self.timing["rows_right"]
        cores = self.timing["cores"]
        cores_left = np.array([core_of_left(p, rows_left, cores) for p in range(rows_left + 1)])
        cores_right = np.array([core_of_right(p, rows_right, cores) for p in range(rows_right + 1)])
        number_left, number_right = self._numbers(left, right)
        low = np.maximum(self.step_of[left], self.step_of[right])
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
        step = low
        position_left = self.entered_left[step] - 1 - number_left
        # A left row is compared after it moved, with right rows that have not moved yet.
        position_right = self.entered_right[step] - self.has_right[step] - 1 - number_right
        core = cores_left[position_left]
        first_left, first_right = (
            np.array([int(np.argmax(where == k)) for k in range(cores)])
            for where in (cores_left, cores_right)
        )
        share_left, share_right = (
            np.bincount(where[:-1], minlength=cores) for where in (cores_left, cores_right)
        )
        there = (position_right >= 0) & (
            cores_right[np.clip(position_right, 0, rows_right)] == core
        )
        probed_left = self.has_left[step] & (position_left == first_left[core]) & there
        if self.timing["storage"] == "memory":  # a ring, in which rows keep their places
            place_right = (number_right + first_right[core]) % share_right[core]
            place_left = (number_left + first_left[core]) % share_left[core]
        else:
            place_right = position_right - first_right[core]
            place_left = position_left - first_left[core]
        return step, core, probed_left, np.where(probed_left, place_right, place_left)


@dataclass
class Merger:
    """A merger of the tree: what its queue holds, and where it takes from, in turn."""

    depth: int
    inputs: Sequence[tuple[bool, int]]  # a merger's number, or a queue's where False
    level: int = 0
    last: int = -1


@dataclass
class Run:
    """The queues of the cores and the network behind them, as they go from cycle to cycle."""

    timing: Mapping[str, Any]
    total: int = 0
    held: int = 0  # results in queues and in the network
    coming: int = 0  # rounds of results on their way to a queue
    full: int = 0  # queues that ask to wait
    waits: bool = False  # what the sequencer sees of that, a cycle later
    queues: list[deque[int]] = field(default_factory=list)
    trees: list[list[Merger]] = field(default_factory=list)

    def __post_init__(self) -> None:
        cores, lanes = self.timing["all_cores"], self.timing["results_per_cycle"]
        self.queues = [deque() for _ in range(2 * cores)]
        self.pipe: deque[Sequence[tuple[int, int]]] = deque([()] * self.timing["latency"])
        self.trees = [self._tree(range(lane, cores, lanes)) for lane in range(lanes)]

    def _tree(self, cores: Sequence[int]) -> list[Merger]:
        levels = list(MergeTree.share_inputs(len(cores), self.timing["fan_in"]))
        depths = self.timing["merge_depths"][-len(levels) :]
        # The outlet of a core takes from its two queues and holds two results.
        mergers = [Merger(2, [(False, 2 * core), (False, 2 * core + 1)]) for core in cores]
        streams = [(True, number) for number in range(len(cores))]
        for groups, places in zip(levels, depths, strict=True):
            merged = []
            for group in groups:
                if len(group) == 1 and len(groups) > 1:
                    merged.append(streams[group[0]])
                    continue
                mergers.append(Merger(places, [streams[k] for k in group]))
                merged.append((True, len(mergers) - 1))
            streams = merged
        return mergers

    def cycles(self, costs: Sequence[int], finds: Iterator[tuple[int, int, int, int]]) -> int:
        """Return the cycles of the whole run."""
        ahead = next(finds, None)
        for step, cost in enumerate(costs):
            for scan in range(cost):
                if not self.held and not self.coming and (ahead is None or ahead[0] > step):
                    self.total += cost - scan  # nothing is under way, and nothing comes
                    self.waits = False
                    break
                while self.waits:
                    self._pass(())
                found = []
                while ahead is not None and ahead[:2] == (step, scan):
                    found.append(ahead[2:])
                    ahead = next(finds, None)
                self._pass(found)
        after = self.total
        while self.held or self.coming:
            self._pass(())
        # The last results have as long as a match needs to its queue before the end waits for them.
        waited = min(self.total - after, self.timing["latency"] + 1)
        return self.total - waited + int(self.timing["end"])

    def _pass(self, found: Sequence[tuple[int, int]]) -> None:
        """One cycle, in which ``found`` is decided on."""
        self.waits = self.full > 0
        self.pipe.append(found)
        self.coming += len(found)
        if self.held:
            for tree in self.trees:
                self._move(tree)
        for queue, count in self.pipe.popleft():
            self.coming -= 1
            self.held += count
            self.queues[queue].append(count)
            self.full += len(self.queues[queue]) == self.timing["backlog"]
        self.total += 1

    def _move(self, tree: list[Merger]) -> None:
        """Every merger that has room takes one result, from what was there before."""
        ready = [merger.level != merger.depth for merger in tree]
        root = tree[-1]
        if root.level:
            root.level -= 1
            self.held -= 1
        for number in reversed(range(len(tree))):
            merger = tree[number]
            # A queue of one place takes a result in the cycle in which it gives one.
            if ready[number] or (merger.depth == 1 and not merger.level):
                self._take(tree, merger)

    def _take(self, tree: list[Merger], merger: Merger) -> None:
        ways = len(merger.inputs)
        for offset in range(1, ways + 1):
            turn = (merger.last + offset) % ways
            is_merger, number = merger.inputs[turn]
            if is_merger:
                taken = tree[number].level > 0
                tree[number].level -= taken
            else:
                taken = self._take_from_queue(number)
            if taken:
                merger.level += 1
                merger.last = turn
                return

    def _take_from_queue(self, number: int) -> bool:
        queue = self.queues[number]
        if not queue:
            return False
        if queue[0] > 1:
            queue[0] -= 1
        else:
            queue.popleft()
            self.full -= len(queue) == self.timing["backlog"] - 1
        return True
