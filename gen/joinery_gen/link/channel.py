"""The host's end of a session: two reliable streams of bytes over a line that is not.

A ``Channel`` does no input or output, and has no clock of its own: it is told what came and what
time it is, and says what to send. ``joinery.link.protocol`` tells why it is enough that the host
alone repeats.
"""

import math

from joinery.link.protocol import CRC_BYTES, VERSION, Kind, LinkShape

from ..query import JoineryError
from .frames import FrameReader, frame

__all__ = ["Channel", "LinkError"]

NUMBERS = 256
"""Frames and ticks are numbered modulo this on the line, and without end in here."""

OVERHEAD = 3 + CRC_BYTES
"""Bytes of a DATA frame besides its data: kind, number, CRC, FLAG."""

NEVER = -1
"""Comes before every tick."""

SHORTEST = 8
"""Bytes of data in a frame at least, however bad the line is."""


MEAN_FRAME = 24
"""Bytes of a frame as a guess, where it matters: on a bad line frames are short."""


RECENT = 500
"""Frames by which the line is judged."""

MOST_COPIES = 4
"""Times that the board is asked in one go after it has not answered."""


class LinkError(JoineryError):
    """The link to a board could not be made, or was lost."""


class Channel:
    """One session with a board.

    Parameters
    ----------
    nonce : int
        32 random bits that tell this session from all others.
    now : float
        The time, in seconds from any origin, as in all methods.
    """

    FIRST_TURN, SHORTEST_TURN, LONGEST_TURN = 0.1, 0.02, 0.25
    """Seconds of silence after which the board is asked again: at first, at least, at most."""

    def __init__(self, nonce: int, now: float) -> None:
        self.nonce = nonce
        self.shape: LinkShape | None = None
        self.beat_bytes = 0
        self.row_bytes = 0
        self.repeated = 0
        self.frames_sent = 0
        self.frames_heard = 0
        self.last_heard = now
        self._reader = FrameReader()
        self._turn = self.FIRST_TURN
        self._usual_turn: float | None = None
        self._next_poll = now
        self._copies = 1
        self._recent = 0.0  # frames, good and damaged, of which the latest count most
        self._recent_damaged = 0.0
        self._order = 0  # counts frames as they leave
        # What is sent.
        self._backlog = bytearray()
        self._frames: dict[int, bytes] = {}
        self._left_at: dict[int, int] = {}  # the order in which frames left last
        self._lost: set[int] = set()
        self._base = 0
        self._next = 0
        # What comes.
        self._came: dict[int, bytes] = {}
        self._inbox = bytearray()
        self._in_base = 0
        self._head = 0
        self._wanted: set[int] = set()
        self._asked: dict[int, int] = {}  # the tick with which a frame was last asked for
        self._fresh = False  # something has come that the board should know of
        # Ticks.
        self._tick = 0
        self._ticks: dict[int, tuple[int, float]] = {}  # when each left: order, and time

    @property
    def is_open(self) -> bool:
        return self.shape is not None

    @property
    def damaged(self) -> int:
        """Frames from the board that did not come whole."""
        return self._reader.damaged

    @property
    def backlog(self) -> int:
        """Bytes that have not been sent yet."""
        return len(self._backlog)

    @property
    def unused(self) -> int:
        """Bytes that the board has not used yet, as far as is known."""
        return len(self._backlog) + sum(map(len, self._frames.values()))

    def write(self, text: bytes) -> None:
        """Send ``text``, in time."""
        self._backlog += text

    def read(self) -> bytes:
        """Return what has come since the last call."""
        text = bytes(self._inbox)
        self._inbox.clear()
        return text

    def poll_in(self, now: float) -> float:
        """Seconds until ``outgoing`` should be called even if nothing comes."""
        return max(0.0, self._next_poll - now)

    # What comes.

    def feed(self, raw: bytes, now: float) -> None:
        """Take in bytes from the line."""
        damaged = self.damaged
        bodies = self._reader.feed(raw)
        self._recent_damaged += self.damaged - damaged
        self._recent += self.damaged - damaged + len(bodies)
        if self._recent > RECENT:
            self._recent, self._recent_damaged = self._recent / 2, self._recent_damaged / 2
        for body in bodies:
            self.frames_heard += 1
            self.last_heard = now
            self._copies = 1
            kind, content = body[0], body[1:]
            if kind == Kind.OPEN:
                self._opened(content)
            elif not self.is_open:
                continue  # of a session before this one
            elif kind == Kind.DATA:
                self._take_data(content[0], content[1:])
            elif kind == Kind.STATUS:
                self._take_status(content, now)
            elif kind == Kind.CLOSED:
                raise LinkError("The board was reset while it was in use; start again")

    def _opened(self, content: bytes) -> None:
        if int.from_bytes(content[:4], "little") != self.nonce or self.is_open:
            return
        if content[4] != VERSION:
            raise LinkError(
                f"The board speaks version {content[4]} of the link, and this is version {VERSION}"
            )
        self.shape = LinkShape(content[5], content[6])
        self.beat_bytes = int.from_bytes(content[7:9], "little")
        self.row_bytes = int.from_bytes(content[9:11], "little")

    def _take_data(self, number: int, data: bytes) -> None:
        assert self.shape is not None
        number = _unwrap(number, self._in_base)
        self._fresh = True
        if number - self._in_base >= self.shape.slots or number in self._came:
            return
        self._came[number] = data
        # New frames leave in order, so all before this one have left, and should have come.
        self._want(range(self._in_base, number))
        self._head = max(self._head, number + 1)
        while self._in_base in self._came:
            self._inbox += self._came.pop(self._in_base)
            self._asked.pop(self._in_base, None)
            self._wanted.discard(self._in_base)
            self._in_base += 1

    def _want(self, numbers: range, echo: int = NEVER) -> None:
        """Ask for those frames that have not come, unless the board has yet to answer to that."""
        for number in numbers:
            if number not in self._came and self._asked.get(number, NEVER) <= echo:
                self._wanted.add(number)

    def _take_status(self, content: bytes, now: float) -> None:
        assert self.shape is not None
        slots = self.shape.slots
        tick, base, head = content[:3]
        held = int.from_bytes(content[3:], "little")
        echo = self._tick - (self._tick - tick) % NUMBERS
        base = _unwrap(base, self._base)
        head = _unwrap(head, self._in_base)
        if base > self._next or head > self._in_base + slots or echo < 0:
            return
        newest = self._heard_tick(echo, now)
        for number in range(self._base, base):
            newest = max(newest, self._left_at.pop(number))
            self._frames.pop(number, None)
            self._lost.discard(number)
        self._base = base
        for number in range(base, self._next):
            if held >> number % slots & 1:
                newest = max(newest, self._left_at[number])
                self._frames.pop(number, None)
                self._lost.discard(number)
        # The line keeps the order: what left before something that has come, and is not there, is
        # lost.
        self._lost |= {n for n in self._frames if self._left_at[n] < newest}
        self._head = max(self._head, head)
        self._want(range(self._in_base, head), echo)

    def _heard_tick(self, echo: int, now: float) -> int:
        """Note that the board has seen a tick; return when that tick left."""
        order, then = self._ticks.get(echo, (-1, now))
        for tick in [tick for tick in self._ticks if tick < echo]:
            del self._ticks[tick]
        if self._ticks.get(echo) and then != now:
            took = now - then
            usual = took if self._usual_turn is None else 0.875 * self._usual_turn + 0.125 * took
            self._usual_turn = usual
            self._turn = min(max(2 * usual + 0.01, self.SHORTEST_TURN), self.LONGEST_TURN)
            self._ticks[echo] = (order, now)  # the time counts once
        self._next_poll = max(self._next_poll, now + self._turn)
        return order

    # What is sent.

    def outgoing(self, now: float) -> bytes:
        """Return what to send now; all of it has to go to the line before this is called again."""
        silent = now >= self._next_poll
        if silent:
            self._turn = min(2 * self._turn, self.LONGEST_TURN)
            self._next_poll = now + self._turn
        if self.shape is None:
            # The first FLAG ends whatever the board thinks has begun.
            text = bytes([Kind.OPEN]) + self.nonce.to_bytes(4, "little")
            return self._ask(frame(b"") + frame(text)) if silent else b""
        parts = [self._resend(number) for number in sorted(self._lost)]
        self._lost.clear()
        while self._backlog and self._next - self._base < self.shape.slots:
            parts.append(self._send_new())
        if silent:
            parts.append(self._ask(self._status(now)))
        elif parts or self._wanted or self._fresh:
            parts.append(self._status(now))
        self.frames_sent += len(parts)
        return b"".join(parts)

    def _ask(self, question: bytes) -> bytes:
        """Return what asks the board, more insistently each time until it has been heard."""
        copies = self._copies
        self._copies = min(2 * copies, MOST_COPIES)
        return question * copies

    def _send_new(self) -> bytes:
        size = self._best_size()
        number = self._next
        self._next += 1
        self._frames[number] = bytes(self._backlog[:size])
        del self._backlog[:size]
        return self._data(number)

    def _resend(self, number: int) -> bytes:
        self.repeated += 1
        return self._data(number)

    def _data(self, number: int) -> bytes:
        self._order += 1
        self._left_at[number] = self._order
        return frame(bytes([Kind.DATA, number % NUMBERS]) + self._frames[number])

    def _status(self, now: float) -> bytes:
        assert self.shape is not None
        self._tick += 1
        self._order += 1
        self._ticks[self._tick] = (self._order, now)
        self._next_poll = now + self._turn
        for number in self._wanted:
            self._asked[number] = self._tick
        mask = sum(1 << number % self.shape.slots for number in self._wanted)
        self._wanted.clear()
        self._fresh = False
        head = [Kind.STATUS, self._tick % NUMBERS, self._in_base % NUMBERS, self._best_size()]
        return frame(bytes(head) + mask.to_bytes(self.shape.slots // 8, "little"))

    def _best_size(self) -> int:
        """The bytes of data in a frame with which the most data comes through.

        With a chance p that a byte is damaged, ``size * (1 - p) ** (size + OVERHEAD)`` out of
        ``size + OVERHEAD`` come through, which is most near ``sqrt(OVERHEAD / p)``.
        """
        assert self.shape is not None
        # As if one of the first five frames had been lost: frames begin short.
        lost = (self._recent_damaged + 1) / (self._recent + 5)
        chance = -math.log(1 - lost) / MEAN_FRAME
        return int(min(max(math.sqrt(OVERHEAD / chance), SHORTEST), self.shape.frame_bytes))


def _unwrap(number: int, base: int) -> int:
    """Return the number at or after ``base`` that is ``number`` on the line."""
    return base + (number - base) % NUMBERS
