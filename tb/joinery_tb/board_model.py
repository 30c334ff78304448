"""The board's end of the link in plain Python, written from ``joinery.link.protocol`` alone.

It keeps whole frames where the hardware keeps slots, and is as slow to repeat: only when asked.
"""

import random
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from joinery.link.protocol import ESCAPE, FIRST_LIMIT, FLAG, FLIP, VERSION, Kind, LinkShape

__all__ = ["DAMAGE", "BadLine", "BoardModel"]

DAMAGE: dict[str, Callable[[int, int], list[int]]] = {
    "flip": lambda byte, other: [byte ^ (other or 1)],
    "drop": lambda byte, other: [],
    "double": lambda byte, other: [byte, byte],
    "insert": lambda byte, other: [other, byte],
}
"""What can happen to a byte, given another one."""


class BadLine:
    """A line that damages bytes: those at the places of ``planned``, and others with ``chance``."""

    def __init__(
        self, planned: dict[int, tuple[str, int]] | None = None, chance: float = 0.0, seed: int = 0
    ) -> None:
        self.planned = planned or {}
        self.chance = chance
        self.random = random.Random(seed)
        self.passed = 0

    def carry(self, text: bytes) -> bytes:
        """Return what comes of ``text``."""
        out: list[int] = []
        for byte in text:
            kind, other = self.planned.get(self.passed, (None, 0))
            if kind is None and self.random.random() < self.chance:
                kind, other = self.random.choice(list(DAMAGE)), self.random.randrange(256)
            out += [byte] if kind is None else DAMAGE[kind](byte, other)
            self.passed += 1
        return bytes(out)


@dataclass
class BoardModel:
    """One board: ``feed`` it the line's bytes, ``take`` what it says.

    ``heard`` is the stream of bytes that came; ``say`` adds to the one that goes.
    """

    shape: LinkShape
    beat_bytes: int = 1
    row_bytes: int = 1
    session: bool = False
    heard: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._text = bytearray()
        self._escaped = False
        self._reset()

    def _reset(self) -> None:
        self.heard.clear()
        self._came: dict[int, bytes] = {}
        self._base = 0
        self._unsent = bytearray()
        self._frames: dict[int, bytes] = {}
        self._head = 0
        self._used = 0
        self._limit = min(FIRST_LIMIT, self.shape.frame_bytes)
        self._tick = 0
        self._again: deque[int] = deque()
        self._answers: deque[Kind] = deque()

    def say(self, text: bytes) -> None:
        self._unsent += text

    def feed(self, raw: bytes) -> None:
        for byte in raw:
            if byte == FLAG:
                body, crc = bytes(self._text[:-4]), bytes(self._text[-4:])
                good = not self._escaped and crc == zlib.crc32(body).to_bytes(4, "little")
                self._text.clear()
                self._escaped = False
                if good and body:
                    self._hear(body)
            elif byte == ESCAPE:
                self._escaped = True
            else:
                self._text.append(byte ^ (FLIP if self._escaped else 0))
                self._escaped = False

    def _hear(self, body: bytes) -> None:
        if body[0] == Kind.OPEN:
            self._reset()
            self.session = True
            self._nonce = body[1:5]
            self._answers.append(Kind.OPEN)
            return
        if not self.session:
            self._answers.append(Kind.CLOSED)
            return
        if Kind.STATUS not in self._answers:
            self._answers.append(Kind.STATUS)
        if body[0] == Kind.DATA:
            ahead = (body[1] - self._base) % 256
            if ahead < self.shape.slots:
                self._came.setdefault(self._base + ahead, body[2:])
            while self._base in self._came:
                self.heard += self._came.pop(self._base)
                self._base += 1
        elif body[0] == Kind.STATUS:
            self._tick, self._limit = body[1], min(body[3], self.shape.frame_bytes)
            while self._used % 256 != body[2]:
                self._frames.pop(self._used)
                self._used += 1
            wanted = int.from_bytes(body[4:], "little")
            for number in self._frames:
                if wanted >> number % self.shape.slots & 1 and number not in self._again:
                    self._again.append(number)

    def take(self) -> bytes:
        """Return the next frame, or nothing."""
        if Kind.OPEN in self._answers or Kind.CLOSED in self._answers:
            kind = self._answers.popleft()
            about = bytes([VERSION, self.shape.slots, self.shape.frame_bytes])
            sizes = self.beat_bytes.to_bytes(2, "little") + self.row_bytes.to_bytes(2, "little")
            body = bytes([kind])
            return _frame(body + self._nonce + about + sizes if kind == Kind.OPEN else body)
        if self._again:
            number = self._again.popleft()
            return self._data(number) if number in self._frames else self.take()
        if self._answers:
            self._answers.popleft()
            held = sum(1 << number % self.shape.slots for number in self._came)
            head = bytes([Kind.STATUS, self._tick, self._base % 256, self._head % 256])
            return _frame(head + held.to_bytes(self.shape.slots // 8, "little"))
        if self._unsent and self._head - self._used < self.shape.slots:
            self._frames[self._head] = bytes(self._unsent[: self._limit])
            del self._unsent[: self._limit]
            self._head += 1
            return self._data(self._head - 1)
        return b""

    def _data(self, number: int) -> bytes:
        return _frame(bytes([Kind.DATA, number % 256]) + self._frames[number])


def _frame(body: bytes) -> bytes:
    text = body + zlib.crc32(body).to_bytes(4, "little")
    out: list[int] = []
    for byte in text:
        out += [ESCAPE, byte ^ FLIP] if byte in (FLAG, ESCAPE) else [byte]
    return bytes([*out, FLAG])
