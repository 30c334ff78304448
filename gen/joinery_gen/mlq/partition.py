"""Values per level: algorithm 1 of the paper, and the exhaustive search it is checked against.

A level takes the most values with which it still keeps up: they spare the next level writes. Where
no number of values lets a level keep up, the level below takes fewer; where that does not help
either, the throughput asked for is lowered to the best that fell short, and all choose again. In
the usual case each level chooses once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product

from ..query import JoineryError
from .memories import MemorySpec
from .model import Problem, worst_case
from .pointers import words_of

__all__ = ["bytes_needed", "choose_values", "search_values"]


def choose_values(problem: Problem, memories: Sequence[MemorySpec]) -> tuple[int, ...]:
    """Return the values per key of each level, or refuse with the nearest that would fit."""
    _check_order(problem, memories)
    goal = 1.0
    while True:
        values, goal = _fit(problem, memories, goal)
        if values is not None:
            return values
        if not goal:
            raise _too_large(problem, memories)


def search_values(problem: Problem, memories: Sequence[MemorySpec]) -> tuple[int, ...]:
    """Return the best of all partitions, by trying them."""
    _check_order(problem, memories)
    blocks = [list(_choices(problem, memory)) for memory in memories[:-1]]
    found = [
        values
        for lower in product(*blocks)
        if list(lower) == sorted(lower)
        if (values := _complete(problem, memories, lower)) is not None
    ]
    if not found:
        raise _too_large(problem, memories)
    return max(found, key=lambda values: worst_case(problem, memories, values).throughput)


def bytes_needed(
    problem: Problem, memories: Sequence[MemorySpec], values: Sequence[int]
) -> list[int]:
    """Return the bytes that each level takes for all keys, in whole words."""
    words = words_of(memories, values, problem.value_bytes)
    return [
        problem.keys * -(-held // word) * _word_bytes(memory, word, problem)
        for memory, held, word in zip(memories, values, words, strict=True)
    ]


def _word_bytes(memory: MemorySpec, word: int, problem: Problem) -> int:
    """A word of fewer values than fit takes the whole word, but where the key has no more."""
    whole = 1 << (memory.word // problem.value_bytes).bit_length() - 1
    return memory.word if word == whole else word * problem.value_bytes


def _choices(problem: Problem, memory: MemorySpec) -> Iterator[int]:
    """The blocks that a level can hold for each key: powers of two, fewer than the window."""
    values = 1
    while values < problem.rows and bytes_needed(problem, [memory], [values])[0] <= memory.capacity:
        yield values
        values *= 2


def _complete(
    problem: Problem, memories: Sequence[MemorySpec], lower: Sequence[int]
) -> tuple[int, ...] | None:
    """Add the last level, which holds the window in whole blocks; None if it does not fit.

    Its words are as many in each channel, but for a window that is less than that.
    """
    block = lower[-1] if lower else 1
    word = 1 << (memories[-1].word // problem.value_bytes).bit_length() - 1
    whole = max(block, min(word * memories[-1].channels, 1 << (problem.rows - 1).bit_length()))
    values = (*lower, -(-problem.rows // whole) * whole)
    fits = bytes_needed(problem, memories, values)[-1] <= memories[-1].capacity
    return values if fits else None


def _fit(
    problem: Problem, memories: Sequence[MemorySpec], goal: float, lower: tuple[int, ...] = ()
) -> tuple[tuple[int, ...] | None, float]:
    """Fit the levels above ``lower`` to ``goal``, or return the best that falls short of it.

    That is a throughput some level can have, less than ``goal``; 0 where nothing fits at all.
    """
    if len(lower) == len(memories):
        return lower, goal
    if len(lower) < len(memories) - 1:
        choices = _choices(problem, memories[len(lower)])
        candidates = [(*lower, each) for each in choices if not lower or each >= lower[-1]]
    else:
        candidates = [each for each in [_complete(problem, memories, lower)] if each]
    best = 0.0
    for values in reversed(candidates):
        reached = min(1.0, _rate(problem, memories, values))
        if reached >= goal:
            found, reached = _fit(problem, memories, goal, values)
            if found is not None:
                return found, goal
        best = max(best, reached)
    return None, best


def _rate(problem: Problem, memories: Sequence[MemorySpec], values: Sequence[int]) -> float:
    """The throughput of the highest of the levels that have values yet."""
    padded = (*values, *[problem.rows] * (len(memories) - len(values)))
    return worst_case(problem, memories, padded).levels[len(values) - 1].throughput


def _check_order(problem: Problem, memories: Sequence[MemorySpec]) -> None:
    if not memories:
        raise JoineryError("A hierarchy has at least one level")
    for below, above in pairwise(memories):
        if above.word < below.word:
            raise JoineryError(
                f"Level {above.name} reads {above.word} bytes at once and {below.name}, before it, "
                f"{below.word}: levels must not become narrower"
            )
    for memory in memories:
        if memory.word < problem.value_bytes:
            raise JoineryError(
                f"A value of {problem.value_bytes} bytes does not fit a word of {memory.name}, "
                f"which has {memory.word}"
            )


def _power_within(number: int) -> int:
    """The largest power of two that is not above ``number``: keys have so many places."""
    return 1 << number.bit_length() - 1


def _too_large(problem: Problem, memories: Sequence[MemorySpec]) -> JoineryError:
    """Say which level cannot hold its part, and the nearest that can be held."""
    if problem.rows == 1 and len(memories) > 1:
        return JoineryError(
            f"A window of 1 row takes one level; nearest that would fit: levels={memories[-1].name}"
        )
    for memory in memories[:-1]:
        if not any(_choices(problem, memory)):
            each = bytes_needed(replace(problem, keys=1), [memory], [1])[0]
            rest = "+".join(other.name for other in memories if other is not memory)
            return JoineryError(
                f"Level {memory.name} has {memory.capacity} bytes, and one value for each of "
                f"{problem.keys} keys takes {problem.keys * each}; nearest that would fit: "
                f"keys={_power_within(memory.capacity // each)}, or levels={rest}"
            )
    last = memories[-1]
    whole = 1 << (last.word // problem.value_bytes).bit_length() - 1
    need = bytes_needed(problem, [last], [-(-problem.rows // whole) * whole])[0]
    nearest = []
    if problem.keys > 1 and (keys := last.capacity * problem.keys // need):
        nearest.append(f"keys={_power_within(keys)}")
    if rows := last.capacity // last.word // problem.keys * whole:
        nearest.append(f"rows={rows}")
    return JoineryError(
        f"Level {last.name} has {last.capacity} bytes, and windows of {problem.rows} rows for "
        f"{problem.keys} keys take {need}; nearest that would fit: {' or '.join(nearest) or 'none'}"
    )
