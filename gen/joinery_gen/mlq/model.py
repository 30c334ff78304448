"""How many tuples per cycle a hierarchy sustains: section II of the paper, and what it rounds off.

``worst_case`` is the paper's: an aggregation reads all that a level could hold. ``predict`` counts
what the pointers of a key read and write in fact, over a whole period: they move the same way for
every key, so that is exact and as quick. Both take the slowest level as the throughput.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import lcm

from .memories import MemorySpec
from .pointers import Move, Pointers, words_of

__all__ = [
    "Accesses",
    "LevelLoad",
    "Prediction",
    "Problem",
    "load_of",
    "moves_of",
    "predict",
    "worst_case",
]


@dataclass(frozen=True)
class Problem:
    """What is asked of the hierarchy.

    Parameters
    ----------
    keys : int
        Keys that may be active at once.
    rows, slide : int
        WS and WA, in tuples of a key.
    value_bytes : int
        Bytes stored per tuple.
    """

    keys: int
    rows: int
    slide: int
    value_bytes: int

    def __post_init__(self) -> None:
        for name in ("keys", "rows", "slide", "value_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"Problem {name} must be a positive integer, not {value!r}")
        if self.slide > self.rows:
            raise ValueError(f"A window of {self.rows} rows cannot advance by {self.slide}")


@dataclass(frozen=True)
class Accesses:
    """Accesses to one level per tuple, each times the cycles it takes on one channel."""

    writes: float = 0.0
    reads: float = 0.0


@dataclass(frozen=True)
class LevelLoad:
    """What one level bears."""

    name: str
    values: int
    accesses: Accesses
    cycles: float

    @property
    def throughput(self) -> float:
        """Tuples per cycle."""
        return 1 / self.cycles if self.cycles else float("inf")


@dataclass(frozen=True)
class Prediction:
    """The load of every level, and what follows for the whole."""

    levels: tuple[LevelLoad, ...]
    kernels: float = 0.0

    @property
    def cycles(self) -> float:
        """Cycles per tuple."""
        return max(1.0, self.kernels, *(level.cycles for level in self.levels))

    @property
    def throughput(self) -> float:
        return 1 / self.cycles

    @property
    def bottleneck(self) -> str:
        """The level that sets the throughput, ``kernels``, or ``input`` at the line rate."""
        if self.cycles == 1.0:
            return "input"
        for level in self.levels:
            if level.cycles == self.cycles:
                return level.name
        return "kernels"


def load_of(memory: MemorySpec, values: int, accesses: Accesses) -> LevelLoad:
    """Return what ``accesses`` make of a level's time, over all channels."""
    sides = (accesses.writes, accesses.reads)
    cycles = max(sides) if memory.duplex else sum(sides)
    return LevelLoad(memory.name, values, accesses, cycles / memory.channels)


def worst_case(
    problem: Problem, memories: Sequence[MemorySpec], values: Sequence[int]
) -> Prediction:
    """The paper's formulas: Wu, Ru and Ra of every level."""
    size = problem.value_bytes
    words = words_of(memories, values, size)
    levels = []
    for k, (memory, held) in enumerate(zip(memories, values, strict=True)):
        block = values[k - 1] if k else 1
        run = -(-block // words[k])
        writes = run / block * memory.cycles(run)
        reads = run / block * memory.cycles(1) if block * size < memory.granule else 0.0
        run = -(-held // words[k])
        if k < len(memories) - 1:
            reads += run / held * memory.cycles(run)
        reads += run / problem.slide * memory.cycles(run)
        levels.append(load_of(memory, held, Accesses(writes, reads)))
    return Prediction(tuple(levels))


def moves_of(
    problem: Problem, memories: Sequence[MemorySpec], values: Sequence[int]
) -> Iterator[tuple[list[Accesses], int]]:
    """Yield for one key, tuple by tuple, the load of each level and the words for the kernels."""
    granules = [-(-memory.granule // problem.value_bytes) for memory in memories]
    words = words_of(memories, values, problem.value_bytes)
    pointers = Pointers(problem.rows, problem.slide, values, words, granules)
    while True:
        loads = [Accesses() for _ in memories]
        kernels = _count(pointers.take(), loads, memories, words)
        yield loads, kernels


def predict(problem: Problem, memories: Sequence[MemorySpec], values: Sequence[int]) -> Prediction:
    """What the hardware does on average in the steady state, from the moves of one key."""
    # From the first complete window on, the pointers come back after a whole number of slides that
    # is a whole number of blocks of every level; many windows of a short slide are as good.
    period = lcm(problem.slide, *values)
    tuples = min(period, -(-(1 << 14) // problem.slide) * problem.slide)
    first = problem.rows + values[-1]
    steady = list(islice(moves_of(problem, memories, values), first, first + tuples))
    per_level = zip(*(loads for loads, _ in steady), strict=True)
    means = [
        Accesses(
            sum(load.writes for load in loads) / tuples, sum(load.reads for load in loads) / tuples
        )
        for loads in per_level
    ]
    return Prediction(
        tuple(map(load_of, memories, values, means)),
        sum(kernels for _, kernels in steady) / tuples,
    )


def _count(
    move: Move, loads: list[Accesses], memories: Sequence[MemorySpec], words: Sequence[int]
) -> int:
    """Add the cycles of one move to ``loads``; return how many words it brings to the kernels."""
    lanes = max(words)
    kernels = 0
    for read in move.reads:
        cycles = memories[read.level].run_cycles(read.words)
        loads[read.level] = replace(loads[read.level], reads=loads[read.level].reads + cycles)
        if read.aggregate and read.level:
            kernels += -(-read.words * words[read.level] // lanes)
    for write in move.writes:
        memory = memories[write.level]
        load = loads[write.level]
        first = write.words * memory.cycles(1) if write.reads_first else 0.0
        loads[write.level] = Accesses(
            load.writes + memory.run_cycles(write.words), load.reads + first
        )
    return kernels + move.aggregate
