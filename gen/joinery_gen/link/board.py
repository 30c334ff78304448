"""A board with a generated core on it: its registers, and streams through it."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

from . import messages
from .channel import Channel, LinkError
from .messages import Answer, MessageReader, Refusal
from .port import SerialPort

__all__ = ["BAUD", "Board", "StreamRun"]

BAUD = 3_000_000

AHEAD = 1 << 13
"""Bytes of messages that wait to be sent; enough that the line never waits for them."""

WORD, AT_ONCE = 4, 1 << 14
"""Bytes of memory to an access, and to a turn-around of the line."""

PAUSE = 0.2
"""Seconds between two tries to open a port that is gone."""

Progress = Callable[[int, int], None]
"""Called with the beats sent and the rows received so far."""


@dataclass(frozen=True)
class StreamRun:
    """What happened in one run: beats sent, the end not counted; rows; and how the line was.

    ``refused`` are the numbers of the beats whose tuples the core refused, from 0. ``repeated``
    counts frames sent again, ``damaged`` those that came damaged.
    """

    beats: int
    rows: int
    refused: list[int]
    seconds: float
    frames_sent: int
    frames_heard: int
    repeated: int
    damaged: int
    reconnected: int


class Board:
    """A session with the board on a port. Leaving the ``with`` block ends it.

    Opening resets the core, and checks that it is the one that ``top.json`` describes.

    Parameters
    ----------
    path : str
        The serial port.
    top : mapping
        The content of ``top.json``, the only source of sizes and addresses.
    baud : int
        The speed of the port.
    patience : float
        Seconds without an answer after which the board counts as gone.
    core_patience : float
        Seconds in which a stream must move.
    """

    def __init__(
        self,
        path: str,
        top: Mapping[str, Any],
        *,
        baud: int = BAUD,
        patience: float = 10.0,
        core_patience: float = 60.0,
    ) -> None:
        self.path = path
        self.top = top
        self.baud = baud
        self.patience = patience
        self.core_patience = core_patience
        self.reconnected = 0
        self._noise = 0  # damaged frames since the last good one
        self._addresses = {each["name"]: int(each["address"]) for each in top["registers"]}
        self._reader = MessageReader(_bytes(top, "output"))
        self._port = SerialPort(path, baud)
        self._channel = Channel(secrets.randbits(32), time.monotonic())

    def __enter__(self) -> "Board":
        try:
            self._open()
        except BaseException:
            self._port.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._port.close()

    # Registers and memory. All accesses of a call share one turn-around of the line.

    def read(self, name: str) -> int:
        """Return what a register holds."""
        return self.read_all([name])[name]

    def write(self, name: str, value: int) -> None:
        """Write a register."""
        self.write_all({name: value})

    def registers(self) -> dict[str, int]:
        """Return all registers, those of 64 bits in their halves."""
        return self.read_all(list(self._addresses))

    def write_all(self, values: Mapping[str, int]) -> None:
        """Write registers, one after the other."""
        questions = [messages.write(self._addresses[name], each) for name, each in values.items()]
        for name, answer in zip(values, self._ask(questions), strict=True):
            if answer.response:
                raise LinkError(f"The core did not let register {name} be written")

    def read_all(self, names: Sequence[str]) -> dict[str, int]:
        """Return what registers hold, read one after the other."""
        answers = self._ask([messages.read(self._addresses[name]) for name in names])
        values: dict[str, int] = {}
        for name, answer in zip(names, answers, strict=True):
            if answer.response or answer.value is None:
                raise LinkError(f"The core did not let register {name} be read")
            values[name] = answer.value
        return values

    def store(self, address: int, data: bytes) -> None:
        """Put whole words of four bytes into memory that is among the core's addresses."""
        for first in range(0, len(data), AT_ONCE):
            part = range(first, min(first + AT_ONCE, len(data)), WORD)
            words = (int.from_bytes(data[at : at + WORD], "little") for at in part)
            answers = self._ask(
                [messages.write(address + at, word) for at, word in zip(part, words, strict=True)]
            )
            for at, answer in zip(part, answers, strict=True):
                if answer.response:
                    raise LinkError(f"The core has no memory to be written at {address + at:#x}")

    def load(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of that memory, from a whole word on."""
        found = bytearray()
        for first in range(0, count, AT_ONCE):
            part = range(first, min(first + AT_ONCE, count), WORD)
            for at, answer in zip(
                part, self._ask([messages.read(address + at) for at in part]), strict=True
            ):
                if answer.response or answer.value is None:
                    raise LinkError(f"The core has no memory to be read at {address + at:#x}")
                found += answer.value.to_bytes(WORD, "little")
        return bytes(found[:count])

    # Streams.

    def run(
        self,
        beats: Iterable[bytes],
        take: Callable[[bytes], object],
        progress: Progress | None = None,
    ) -> StreamRun:
        """Send ``beats``, each the ``tdata`` of one, and the end; give each row to ``take``."""
        started = time.monotonic()
        before = self.counts()
        source = iter(beats)
        ended = finished = False
        sent = rows = 0
        refused: list[int] = []
        moved, unused = started, -1
        while not finished:
            while not ended and self._channel.backlog < AHEAD:
                tdata = next(source, None)
                ended = tdata is None
                self._channel.write(messages.END if tdata is None else messages.beat(tdata))
                sent += tdata is not None
            for message in self._turn():
                moved = time.monotonic()
                if message is None:
                    finished = True
                elif isinstance(message, bytes):
                    take(message)
                    rows += 1
                elif isinstance(message, Refusal):
                    refused.append(message.beat)
            if self._channel.unused != unused:
                moved, unused = time.monotonic(), self._channel.unused
            if time.monotonic() - moved > self.core_patience:
                raise LinkError(
                    f"The board answers, but its core is stuck: nothing has moved for "
                    f"{self.core_patience:g} s, after {sent} beats and {rows} rows"
                )
            if progress is not None:
                progress(sent, rows)
        after = self.counts()
        numbers = {name: after[name] - before[name] for name in after}
        return StreamRun(sent, rows, refused, time.monotonic() - started, **numbers)

    def counts(self) -> dict[str, int]:
        """How the line was since the session began: frames, and ports that were opened again."""
        names = ("frames_sent", "frames_heard", "repeated", "damaged")
        return {**{name: getattr(self._channel, name) for name in names},
                "reconnected": self.reconnected}  # fmt: skip

    # The line.

    def _ask(self, questions: Sequence[bytes]) -> list[Answer]:
        """Return the answers to accesses of registers; between runs nothing else can come."""
        self._channel.write(b"".join(questions))
        answers: list[Answer] = []
        while len(answers) < len(questions):
            answers += [each for each in self._turn() if isinstance(each, Answer)]
        return answers

    def _turn(self) -> list[messages.Message]:
        """Send what there is to send, wait a moment, and return the messages that have come."""
        channel = self._channel
        try:
            if self._port.is_clear:
                self._port.write(channel.outgoing(time.monotonic()))
            raw = self._port.read(channel.poll_in(time.monotonic()))
        except OSError:
            self._reconnect()
            return []
        now = time.monotonic()
        before = channel.damaged
        channel.feed(raw, now)
        self._noise = self._noise + channel.damaged - before if now > channel.last_heard else 0
        if now - channel.last_heard > self.patience:
            self._give_up()
        return list(self._reader.feed(channel.read()))

    def _give_up(self) -> NoReturn:
        if self._noise:
            raise LinkError(
                f"Nothing but damaged frames comes from {self.path}; check the cable, and that the "
                f"board's speed is {self.baud} baud"
            )
        if self._channel.is_open:
            raise LinkError(f"The board on {self.path} stopped answering")
        raise LinkError(
            f"No board answers on {self.path} at {self.baud} baud; "
            "is it a board with a Joinery core, and is it loaded?"
        )

    def _reconnect(self) -> None:
        """Open the port again when it is back; what was on its way counts as lost."""
        self._port.close()
        deadline = time.monotonic() + self.patience
        while True:
            try:
                self._port = SerialPort(self.path, self.baud)
            except LinkError as error:
                if time.monotonic() > deadline:
                    raise LinkError(f"The port {self.path} is gone: {error}") from None
                time.sleep(PAUSE)
            else:
                self.reconnected += 1
                return

    def _open(self) -> None:
        while not self._channel.is_open:
            self._turn()
        built = {each["name"]: int(each["reset"]) for each in self.top["registers"]}
        fixed = ["version", *(name for name in self.top["parameters"] if name in built)]
        found = self.read_all(["identity", "query_hash_lo", "query_hash_hi"])
        if found["identity"] != built["identity"]:
            raise LinkError(f"The board on {self.path} holds something else than a Joinery core")
        found_hash = f"{found['query_hash_hi'] << 32 | found['query_hash_lo']:016x}"
        if found_hash != self.top["query"]["hash"]:
            raise LinkError(
                f"The board on {self.path} holds the core of another query: its hash is "
                f"{found_hash}, and that of {self.top['name']} is {self.top['query']['hash']}"
            )
        for name, value in self.read_all(fixed).items():
            if value != built[name]:
                raise LinkError(
                    f"The core on {self.path} was built with {name} {value}, not {built[name]}"
                )
        sizes = {"input": self._channel.beat_bytes, "output": self._channel.row_bytes}
        for side, size in sizes.items():
            if size != _bytes(self.top, side):
                raise LinkError(
                    f"The {side} of the core on {self.path} has {size} bytes, "
                    f"not {_bytes(self.top, side)}"
                )


def _bytes(top: Mapping[str, Any], side: str) -> int:
    """The size of a beat of the input, or of a row of the output; 0 for a core without streams."""
    return int(top[side]["bytes"]) if side in top else 0
