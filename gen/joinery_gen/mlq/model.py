"""How many tuples per cycle a hierarchy sustains: section II of the paper, and what it rounds off.

``worst_case`` is the paper's: an aggregation reads all that a level could hold, and a memory with
two ports is as busy as the busier of them. ``predict`` counts what the pointers of a key read and
write in fact, over a whole period: they move the same way for every key, so that is exact and as
quick. There a level is busy with one tuple at a time, whose reads and writes share its two ports.
Both take the slowest level as the throughput.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from .memories import MemorySpec
from .pointers import Move, Pointers, words_of

__all__ = ["Accesses", "LevelLoad", "Prediction", "Problem", "predict", "worst_case"]


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

    def together(self, duplex: bool) -> float:
        """The cycles of one channel, if all of it may overlap on two ports."""
        return max(self.writes, self.reads) if duplex else self.writes + self.reads


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


def _load(
    memory: MemorySpec, values: int, accesses: Accesses, busy: float | None = None
) -> LevelLoad:
    cycles = accesses.together(memory.duplex) if busy is None else busy
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
        levels.append(_load(memory, held, Accesses(writes, reads)))
    return Prediction(tuple(levels))


def predict(problem: Problem, memories: Sequence[MemorySpec], values: Sequence[int]) -> Prediction:
    """What the hardware does on average in the steady state, from the moves of one key."""
    granules = [-(-memory.granule // problem.value_bytes) for memory in memories]
    words = words_of(memories, values, problem.value_bytes)
    pointers = Pointers(problem.rows, problem.slide, values, words, granules)
    # From the first complete window on, the pointers come back after a whole number of slides that
    # is a whole number of blocks of every level; many windows of a short slide are as good.
    for _ in range(problem.rows + values[-1]):
        pointers.take()
    period = lcm(problem.slide, *values)
    tuples = min(period, -(-(1 << 14) // problem.slide) * problem.slide)
    loads = [Accesses() for _ in memories]
    busy = [0.0 for _ in memories]
    kernels = 0
    for _ in range(tuples):
        move = pointers.take()
        kernels += _kernel_words(move, words)
        for k, (memory, each) in enumerate(zip(memories, _accesses(move, memories), strict=True)):
            loads[k] = Accesses(loads[k].writes + each.writes, loads[k].reads + each.reads)
            busy[k] += each.together(memory.duplex)
    return Prediction(
        tuple(
            _load(
                memory, held, Accesses(load.writes / tuples, load.reads / tuples), cycles / tuples
            )
            for memory, held, load, cycles in zip(memories, values, loads, busy, strict=True)
        ),
        kernels / tuples,
    )


def _accesses(move: Move, memories: Sequence[MemorySpec]) -> list[Accesses]:
    """Return what one move asks of each level."""
    reads = [0.0 for _ in memories]
    writes = [0.0 for _ in memories]
    for read in move.reads:
        reads[read.level] += read.words * memories[read.level].cycles(read.words)
    for write in move.writes:
        memory = memories[write.level]
        reads[write.level] += write.words * memory.cycles(1) if write.reads_first else 0.0
        writes[write.level] += write.words * memory.cycles(write.words)
    return [Accesses(*each) for each in zip(writes, reads, strict=True)]


def _kernel_words(move: Move, words: Sequence[int]) -> int:
    """Return how many parts of a window one move brings to the kernels."""
    lanes = max(words)
    parts = sum(
        -(-read.words * words[read.level] // lanes)
        for read in move.reads
        if read.aggregate and read.level
    )
    return parts + move.aggregate
