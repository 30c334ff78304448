"""How many cycles a whole stream takes: what the moves of each key ask of the memories, added up.

All keys' pointers move the same way, so one walk as long as the longest of them tells of all. The
level or kernel with most to do sets the pace, or the input does.
"""

from collections.abc import Sequence

import numpy as np

from .memories import MemorySpec
from .model import Accesses, Problem, load_of, moves_of

__all__ = ["predict_stream"]


def predict_stream(
    problem: Problem,
    memories: Sequence[MemorySpec],
    values: Sequence[int],
    counts: Sequence[int],
) -> int:
    """Return the cycles in which ``counts`` tuples of each key are taken and aggregated."""
    walked, moves = max(counts, default=0), moves_of(problem, memories, values)
    so_far = np.zeros((walked + 1, len(memories), 2))
    kernels = np.zeros(walked + 1)
    for number in range(1, walked + 1):
        loads, words = next(moves)
        so_far[number] = so_far[number - 1] + [(load.writes, load.reads) for load in loads]
        kernels[number] = kernels[number - 1] + words
    chosen = np.asarray(counts, dtype=np.int64)
    totals = so_far[chosen].sum(axis=0)
    levels = (
        load_of(memory, held, Accesses(*total)).cycles
        for memory, held, total in zip(memories, values, totals.tolist(), strict=True)
    )
    return round(max(float(chosen.sum()), float(kernels[chosen].sum()), *levels))
