"""A plan of memory levels: from what a query keeps to the levels of the hardware."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from joinery.mlq import Level

from ..query import JoineryError
from .memories import MEMORIES, MemorySpec
from .model import Prediction, Problem, predict
from .partition import bytes_needed, choose_values
from .pointers import words_of

__all__ = ["LevelPlan", "levels_of", "plan_levels", "timing_of"]

TRIED = ("bram", "bram+dram", "dram")
"""What is tried in turn where nobody says: the first that fits is taken."""

WIDEST = 64
"""Bytes of a word of block RAM, at most, unless a single value is wider: those of the DRAM."""


def levels_of(
    memories: Sequence[MemorySpec], values: Sequence[int], value_bytes: int
) -> tuple[Level, ...]:
    """Return the hardware's levels for memories that hold so many values per key."""
    words = words_of(memories, values, value_bytes)
    return tuple(
        Level(
            held,
            word,
            granule=min(word, max(1, memory.granule // value_bytes)),
            channels=memory.channels,
            burst=1 if memory.burst == 1 else max(memory.burst, -(-held // word)),
            duplex=memory.duplex,
            pending=memory.pending,
        )
        for memory, held, word in zip(memories, values, words, strict=True)
    )


@dataclass(frozen=True)
class LevelPlan:
    """The memories of a query's windows, the values that each holds per key, and what follows."""

    problem: Problem
    memories: tuple[MemorySpec, ...]
    values: tuple[int, ...]

    @property
    def name(self) -> str:
        return "+".join(memory.name for memory in self.memories)

    @property
    def levels(self) -> tuple[Level, ...]:
        return levels_of(self.memories, self.values, self.problem.value_bytes)

    @property
    def outside(self) -> dict[int, MemorySpec]:
        """The levels whose memory is no block RAM, by number."""
        return {k: each for k, each in enumerate(self.memories) if each.name != "bram"}

    @cached_property
    def prediction(self) -> Prediction:
        return predict(self.problem, self.memories, self.values)

    def describe(self) -> dict[str, Any]:
        """What a person wants to know of it, level by level."""
        loads = self.prediction.levels
        return {
            **self.describe_sizes(),
            "throughput": {load.name: round(load.throughput, 3) for load in loads if load.cycles},
            "bottleneck": self.prediction.bottleneck,
        }

    def describe_sizes(self) -> dict[str, Any]:
        """The part of that which does not depend on when tuples come."""
        need = bytes_needed(self.problem, self.memories, self.values)
        names = [memory.name for memory in self.memories]
        return {
            "levels": self.name,
            "values": dict(zip(names, self.values, strict=True)),
            "bytes": dict(zip(names, need, strict=True)),
        }


def plan_levels(problem: Problem, levels: str | None = None) -> LevelPlan:
    """Choose the values of each level for ``levels``, or for the least levels that fit."""
    for name in [levels] if levels else TRIED:
        memories = _memories(problem, name)
        try:
            values = choose_values(problem, memories)
            words = values[-1] // words_of(memories, values, problem.value_bytes)[-1]
            last = memories.pop()
            memories.append(replace(last, channels=min(last.channels, words)))
            return LevelPlan(problem, tuple(memories), values)
        except JoineryError:
            if name in (levels, TRIED[-1]):
                raise
    raise AssertionError("the last of them is taken or refused")


def _memories(problem: Problem, levels: str) -> list[MemorySpec]:
    names = levels.split("+")
    order = list(MEMORIES)
    for name in names:
        if name not in MEMORIES:
            raise JoineryError(f"There is no memory {name!r}; levels are of {', '.join(order)}")
    if names != sorted(set(names), key=order.index):
        raise JoineryError(
            f"Levels are the fastest first, each once, such as {'+'.join(order)}, not {levels}"
        )
    found = [MEMORIES[name] for name in names]
    if names[0] == "bram":
        found[0] = _block_ram(problem, alone=len(names) == 1)
    return found


def _block_ram(problem: Problem, *, alone: bool) -> MemorySpec:
    """Block RAM with words as wide as they must be: of one value, and where it is the only level,
    of so many that a window is read in half of the tuples of a slide."""
    bram, size = MEMORIES["bram"], problem.value_bytes
    values = 1
    while alone and values * problem.slide < 2 * problem.rows and 2 * values * size <= WIDEST:
        values *= 2
    return replace(bram, word=max(bram.word, values * size))


def timing_of(memory: MemorySpec) -> Mapping[str, Any]:
    """Return how `TimedMemory` behaves as ``memory``."""
    return {
        "short": memory.short,
        "long": memory.long,
        "burst_from": memory.burst,
        "duplex": memory.duplex,
        "latency": max(2, memory.latency),
        "outside": True,
    }
