"""Messages as bytes: what the host tells a core, and how it reads the answers."""

from collections.abc import Iterator
from dataclasses import dataclass

from joinery.link.protocol import ADDRESS_BYTES, GROUP, Op

__all__ = ["END", "Answer", "Message", "MessageReader", "Refusal", "beat", "read", "write"]

END = bytes([Op.END])
"""The end of the input."""


@dataclass(frozen=True)
class Answer:
    """What a register access came to: the AXI response, and for a read the value."""

    response: int
    value: int | None = None


@dataclass(frozen=True)
class Refusal:
    """The core refused the tuples of the input beat with this number."""

    beat: int


Message = bytes | Answer | Refusal | None
"""A row, or one of these, or None: the end of the output."""


def beat(tdata: bytes) -> bytes:
    """Return the message of one input beat."""
    parts = [bytes([Op.BEAT])]
    for at in range(0, len(tdata), GROUP):
        group = tdata[at : at + GROUP]
        parts.append(bytes([sum(1 << k for k, byte in enumerate(group) if byte)]))
        parts.append(group.replace(b"\0", b""))
    return b"".join(parts)


def read(address: int) -> bytes:
    """Return the message that reads a register."""
    return bytes([Op.READ]) + address.to_bytes(ADDRESS_BYTES, "little")


def write(address: int, value: int) -> bytes:
    """Return the message that writes a register."""
    return (
        bytes([Op.WRITE]) + address.to_bytes(ADDRESS_BYTES, "little") + value.to_bytes(4, "little")
    )


class MessageReader:
    """Finds the messages of a core in the stream of bytes that comes from it."""

    def __init__(self, row_bytes: int) -> None:
        self.row_bytes = row_bytes
        self._text = b""

    def feed(self, text: bytes) -> Iterator[Message]:
        """Yield the messages that are whole by now."""
        self._text += text
        at = 0
        try:
            while at < len(self._text):
                message, at = self._parse(at)
                yield message
        except IndexError:  # the rest of the last message is still to come
            pass
        finally:
            self._text = self._text[at:]

    def _parse(self, at: int) -> tuple[Message, int]:
        """Return the message that begins at ``at``, and where it ends."""
        op = self._text[at]
        at += 1
        if op == Op.BEAT:
            return self._row(at)
        if op == Op.END:
            return None, at
        sizes = {Op.WRITE: 1, Op.READ: 5, Op.REFUSED: 4}
        if op not in sizes:
            raise AssertionError(f"a message of kind {op}, in a stream that was checked")
        end = at + sizes[Op(op)]
        self._text[end - 1]
        content = self._text[at:end]
        if op == Op.REFUSED:
            return Refusal(int.from_bytes(content, "little")), end
        value = int.from_bytes(content[1:], "little") if op == Op.READ else None
        return Answer(content[0], value), end

    def _row(self, at: int) -> tuple[bytes, int]:
        row = bytearray(self.row_bytes)
        for start in range(0, self.row_bytes, GROUP):
            marks = self._text[at]
            at += 1
            for place in range(start, min(start + GROUP, self.row_bytes)):
                if marks >> (place - start) & 1:
                    row[place] = self._text[at]
                    at += 1
        return bytes(row), at
