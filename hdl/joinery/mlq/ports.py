"""The native memory port: what stands between a level and the memory that it is made of."""

from dataclasses import dataclass

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["MemoryChannel", "MemoryPort"]


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
