"""What both ends of the link between a host and a board agree on.

**Line.** A frame is a body, the CRC-32 of the body (that of zlib, low byte first), and ``FLAG``.
``FLAG`` and ``ESCAPE`` within are sent as ``ESCAPE`` and the byte with the bit ``FLIP`` inverted,
so a ``FLAG`` on the line always ends a frame, and whatever was damaged, the next frame is read
right. This needs no look-ahead, hence no buffer, which COBS would need. The CRC has 32 bits because
a poor line damages every second frame: 16 bits would let one in 65,536 of those pass.

**Frames.** The first byte of a body is its ``Kind``.

======== ===================================== ====================================================
kind     to the board                          to the host
======== ===================================== ====================================================
DATA     number, 1 or more bytes               the same
STATUS   tick, base, limit, wanted             tick, base, head, held
OPEN     nonce (4 bytes)                       nonce, version, slots, frame bytes, beat bytes (2),
                                               row bytes (2)
CLOSED   -                                     nothing: there is no session
======== ===================================== ====================================================

Each end sends a stream of bytes, cut into DATA frames that are numbered modulo 256. A frame stays
in a slot of its sender until the other end says that it has used it, and waits in a slot of the
receiver until all before it have come; so no end can send more than the other has room for.
``base`` is the number of the first frame that has not been used. ``held`` tells which slots of the
receiver are filled. ``wanted`` tells which slots of the board's sender should be sent again;
``head`` is the number that its next new frame will have. ``limit`` is the most bytes that the host
wants in a DATA frame; before it says so, that is ``FIRST_LIMIT``.

**Who repeats.** Only the host has clocks. The board answers every good frame with a STATUS frame
that carries the latest ``tick`` it saw, after it has sent what was wanted. As the line keeps the
order, the host knows: all it sent before that tick and that is not held was lost, and all the board
sent up to ``head``, and that has not come, was lost too. When nothing comes, it sends its STATUS
again, with a new tick.

**Session.** OPEN resets both streams and the core behind the link, and is answered with the same
nonce; the host ignores all that comes before this answer.

**Messages.** The streams of bytes carry messages, each an ``Op`` and what follows.

======== ===================================== ====================================================
op       to the board                          to the host
======== ===================================== ====================================================
BEAT     a beat of the input, packed           a row of the output, packed
END      the end of the input                  the end of the output
WRITE    address (3 bytes), value (4)          response
READ     address (3 bytes)                     response, value (4)
REFUSED  -                                     number (4) of the beat whose tuples were refused
======== ===================================== ====================================================

Packed bytes leave out zeros: before each eight bytes (or the fewer that are left) comes one byte
whose bits tell which of them follow, low bit first. A core without streams has beats and rows of 0
bytes; the memory that it works on is among its addresses.
"""

from dataclasses import dataclass
from enum import IntEnum

__all__ = [
    "ADDRESS_BYTES",
    "CRC_BYTES",
    "ESCAPE",
    "FIRST_LIMIT",
    "FLAG",
    "FLIP",
    "GROUP",
    "VERSION",
    "Kind",
    "LinkShape",
    "Op",
]

VERSION = 2
FLAG, ESCAPE, FLIP = 0x7E, 0x7D, 0x20
CRC_BYTES = 4
ADDRESS_BYTES = 3
"""Bytes of an address in a message: enough for all the block RAM of a chip."""
FIRST_LIMIT = 32
GROUP = 8
"""Bytes that share a byte of marks when they are packed."""


class Kind(IntEnum):
    """The first byte of a frame."""

    DATA = 1
    STATUS = 2
    OPEN = 3
    CLOSED = 4


class Op(IntEnum):
    """The first byte of a message."""

    BEAT = 1
    END = 2
    WRITE = 3
    READ = 4
    REFUSED = 5


@dataclass(frozen=True)
class LinkShape:
    """The memory of a link, the same in both directions.

    Parameters
    ----------
    slots : int
        Frames on their way at most: 8, 16, 32 or 64. Together with ``frame_bytes`` it bounds what
        is sent in one turn-around of the line.
    frame_bytes : int
        Most bytes of data in a frame: 16, 32, 64 or 128.
    """

    slots: int = 32
    frame_bytes: int = 128

    def __post_init__(self) -> None:
        if self.slots not in (8, 16, 32, 64):
            raise ValueError(f"Link slots must be 8, 16, 32 or 64, not {self.slots!r}")
        if self.frame_bytes not in (16, 32, 64, 128):
            raise ValueError(f"Link frames have 16, 32, 64 or 128 bytes, not {self.frame_bytes!r}")
