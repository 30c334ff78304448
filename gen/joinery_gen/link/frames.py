"""Frames as bytes: the host's way to make them and to find them. See ``joinery.link.protocol``."""

import zlib

from joinery.link.protocol import CRC_BYTES, ESCAPE, FLAG, FLIP

__all__ = ["FrameReader", "frame"]

FLAG_BYTE, ESCAPE_BYTE = bytes([FLAG]), bytes([ESCAPE])
ESCAPED_FLAG, ESCAPED_ESCAPE = bytes([ESCAPE, FLAG ^ FLIP]), bytes([ESCAPE, ESCAPE ^ FLIP])


def frame(body: bytes) -> bytes:
    """Return what goes over the line for ``body``."""
    checked = body + zlib.crc32(body).to_bytes(CRC_BYTES, "little")
    escaped = checked.replace(ESCAPE_BYTE, ESCAPED_ESCAPE).replace(FLAG_BYTE, ESCAPED_FLAG)
    return escaped + FLAG_BYTE


class FrameReader:
    """Finds frames in what comes from the line; ``damaged`` counts those that came damaged."""

    LONGEST = 1 << 12
    """Bytes without a ``FLAG`` that are kept: far more than any frame has."""

    def __init__(self) -> None:
        self.damaged = 0
        self._rest = b""

    def feed(self, raw: bytes) -> list[bytes]:
        """Return the bodies of the good frames that end in ``raw``."""
        *texts, rest = (self._rest + raw).split(FLAG_BYTE)
        self._rest = rest[-self.LONGEST :]
        bodies = [self._check(text) for text in texts if text]
        return [body for body in bodies if body]

    def _check(self, text: bytes) -> bytes:
        """Return the body of one frame, or nothing."""
        first, *others = text.split(ESCAPE_BYTE)
        if all(others):
            checked = first + b"".join(bytes([part[0] ^ FLIP]) + part[1:] for part in others)
            body, crc = checked[:-CRC_BYTES], checked[-CRC_BYTES:]
            if len(crc) == CRC_BYTES and zlib.crc32(body) == int.from_bytes(crc, "little"):
                return body
        self.damaged += 1
        return b""
