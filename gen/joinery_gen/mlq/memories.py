"""The memories that a level can be made of: table I of the paper, and what it leaves open.

Geethakumari and Sourdis, "A Specialized Memory Hierarchy for Stream Aggregation" (2021). The table
has capacity, granularity and access time; two things had to be read out of the rest of the paper.

- Channels of the DRAM: 2, not the 3 of the table's bandwidth. With two channels the formulas give
  the 15 % and 30 % of the line rate that the paper measures for ``dram`` and ``bram+dram``; with
  three they give 21 % and 43 %.
- A write of 4 bytes to the SRAM, whose write granularity is 1 byte, is one access, not four: the
  granularity says what must be written at least, the width of the word what can be at most. A block
  RAM too has byte enables. Both have a port for reads beside the port for writes: ``duplex``.
"""

from dataclasses import dataclass

__all__ = ["HIERARCHIES", "MEMORIES", "MemorySpec"]


@dataclass(frozen=True)
class MemorySpec:
    """One memory: what the model, the heuristic and the simulated memory know of it.

    Parameters
    ----------
    name : str
    capacity : int
        Bytes for values, of all channels together.
    word : int
        Bytes that one access moves: the read granularity.
    granule : int
        Bytes that one write changes at least; what writes less reads the word first.
    short, long : (int, int)
        Cycles per access as a fraction: in a burst of fewer than ``burst`` words, and in one of at
        least as many.
    burst : int
        Words from which on the ``long`` time counts; 1 where bursts bring nothing.
    channels : int
        Memories side by side; neighbouring words of a key lie in neighbouring channels.
    duplex : bool
        Reads and writes have ports of their own.
    latency : int
        Cycles from a read to its data, while nothing waits. For the simulated memory alone.
    """

    name: str
    capacity: int
    word: int
    granule: int
    short: tuple[int, int] = (1, 1)
    long: tuple[int, int] = (1, 1)
    burst: int = 1
    channels: int = 1
    duplex: bool = False
    latency: int = 1

    def __post_init__(self) -> None:
        for name in ("capacity", "word", "granule", "burst", "channels", "latency"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"Memory {name} must be a positive integer, not {value!r}")
        for name in ("short", "long"):
            cycles, accesses = getattr(self, name)
            if not 1 <= accesses <= cycles:
                raise ValueError(
                    f"Memory {name} access time must be a fraction of at least one cycle, "
                    f"not {cycles}/{accesses}"
                )

    @property
    def pending(self) -> int:
        """Words to wait for at once, that are changed and written back: a power of two.

        Each is read and written, and together they take the latency, and some cycles around it.
        """
        needed = -(-(self.latency + 8) // (2 * round(self._access(1)))) + 1
        return 1 << (needed - 1).bit_length()

    def run_cycles(self, words: int) -> float:
        """Return the cycles of a run of so many words of one key, on all channels together.

        Channels that have a word less than others may have too few for the long time.
        """
        each, more = divmod(words, self.channels)
        longer = more * (each + 1) * self._access(each + 1)
        return longer + (self.channels - more) * each * self._access(each)

    def cycles(self, words: int) -> float:
        """Return the cycles that each access takes of a run of so many words of one key."""
        return self._access(-(-words // self.channels))

    def _access(self, words: int) -> float:
        """The cycles of an access among so many on one channel."""
        cycles, accesses = self.long if words >= self.burst else self.short
        return cycles / accesses


MIB = 1 << 20

BRAM = MemorySpec("bram", MIB // 2, 4, 1, duplex=True)
QDR = MemorySpec("qdr", 72 * MIB, 18, 1, (6, 5), (6, 5), duplex=True, latency=6)
DRAM = MemorySpec("dram", 24 << 30, 64, 64, (7, 1), (2, 1), 4, channels=2, latency=20)

MEMORIES = {each.name: each for each in (BRAM, QDR, DRAM)}
"""By name. Of the block RAM, the 512 KiB that the paper gives to values."""

HIERARCHIES = {name: tuple(MEMORIES[each] for each in name.split("+"))
               for name in ("dram", "bram+dram", "bram+qdr+dram")}  # fmt: skip
"""The paper's DFE(D), DFE(B+D) and DFE(B+Q+D)."""
