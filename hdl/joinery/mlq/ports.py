"""The native memory port: what stands between a level and the memory that it is made of."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["MemoryChannel", "MemoryPort", "pass_on"]


class MemoryPort(wiring.Signature):
    """A channel of a memory, from the side that uses it.

    Requests take effect in the order in which they are taken; of one that reads and writes, the
    read comes first. A read brings ``count`` words from ``read_line`` on, in order. A write changes
    the values of ``write_line`` that ``mask`` names; it is one of a run of ``run`` words. Only a
    memory of a ``duplex`` level sees both in one request, only one of a level with bursts sees a
    ``count`` above 1.

    Parameters
    ----------
    lines : int
        Words of the channel.
    word : int
        Values in a word.
    width : int
        Bits of a value.
    burst : int
        Words that one request reads at most.

    Members
    -------
    request : Out(stream.Signature(port.request_layout))
    response : In(stream.Signature(unsigned(word * width)))
    """

    def __init__(self, *, lines: int, word: int, width: int, burst: int) -> None:
        self.lines = lines
        self.word = word
        self.width = width
        self.burst = burst
        super().__init__(
            {
                "request": Out(stream.Signature(self.request_layout)),
                "response": In(stream.Signature(unsigned(word * width))),
            }
        )

    @property
    def request_layout(self) -> data.StructLayout:
        return data.StructLayout(
            {
                "read": 1,
                "read_line": range(self.lines),
                "count": range(self.burst + 1),
                "write": 1,
                "write_line": range(self.lines),
                "run": range(self.burst + 1),
                "mask": self.word,
                "data": self.word * self.width,
            }
        )


@dataclass(frozen=True)
class MemoryChannel:
    """A channel of a level whose memory is not part of the engine, but at its ports.

    ``name`` is that of the memory, ``number`` that of the channel within the level. Where it is
    ``duplex``, a request may read and write at once.
    """

    name: str
    level: int
    number: int
    port: MemoryPort
    duplex: bool


def pass_on(m: Module, inner: Any, outer: Any, *, omit: tuple[str, ...] = ("i",)) -> None:
    """Connect all members of ``inner`` to those of ``outer`` with the same names, but ``omit``."""
    for name, member in inner.signature.members.items():
        if name in omit:
            continue
        pairs = [(getattr(inner, name), getattr(outer, name))]
        if member.dimensions:
            pairs = list(zip(*pairs[0], strict=True))
        for mine, other in pairs:
            wiring.connect(m, mine, wiring.flipped(other))
