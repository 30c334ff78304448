"""What the host needs of a card: a byte memory, and join pipelines that work on it.

A real card behind a driver, the simulated one and `ModelDevice` are all the same to the host.

Memory. Tuples and results are packed records (`layout`); every buffer begins at a multiple of the
bus word. The windows of each stream lie in a ring, which the host fills in order of arrival.

A pipeline. Its stream tuples are those of one side, its window tuples those of the other. It takes
the stream tuples in batches of as many as it has units, and lets the whole window flow past each
batch. It reports the pairs that meet the predicate, and of these only the ones in which

- the window tuple came before the stream tuple: ``0 < (stream.id - window.id) % 2**id_bits <
  2**(id_bits - 1)``, and
- the times are near: the difference modulo ``2**time_bits``, taken as signed, is at most
  ``time_range`` either way.

So each pair is found once over both sides, as long as every tuple is a stream tuple once and the
window then holds all earlier tuples of the other side that are in range. The results of one stream
tuple leave in the order of the window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ..query import JoineryError

__all__ = ["CardStatus", "CardTask", "Device", "DeviceError", "PipelineInfo", "Side", "State"]

Side = Literal["left", "right"]
State = Literal["idle", "running", "overflow", "done"]


class DeviceError(JoineryError):
    """A card was told something that it cannot do, or did something that it must not."""


@dataclass(frozen=True)
class PipelineInfo:
    """A pipeline: the side of its stream tuples, and how many of them it holds at once."""

    side: Side
    units: int


@dataclass(frozen=True)
class CardTask:
    """A task: stream tuples to be joined with a window.

    Addresses are bytes, and multiples of the bus word.

    Parameters
    ----------
    stream_address, stream_count : int
        The stream tuples, one at least.
    window_address, window_count : int
        The first word of the window and its tuples, counted from the first of that word; 0 for
        none.
    window_base, window_end : int
        The ring: what would be read from ``window_end`` on is read from ``window_base`` on.
    result_address, result_capacity : int
        Where results go, and how many fit.
    time_range : int
        The most that the times of a pair may differ.
    """

    stream_address: int
    stream_count: int
    window_address: int
    window_count: int
    window_base: int
    window_end: int
    result_address: int
    result_capacity: int
    time_range: int


@dataclass(frozen=True)
class CardStatus:
    """How far a pipeline is.

    ``idle``: told nothing, or told to stop. ``running``. ``overflow``: the result buffer is full,
    and `Device.resume` must name another. ``done``: all results are in memory.

    ``results`` counts those in the present buffer; in ``overflow`` and ``done`` they can be read.
    ``counters`` count since the start of the task, at least ``cycles`` (until it was done),
    ``batches``, ``window_tuples`` (that flowed past a batch; a window counts once per batch),
    ``results``, ``rejected_order`` and ``rejected_time`` (a pair that is both counts as the first).
    """

    state: State
    results: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)


class Device(Protocol):
    """A card. Errors of the host's making raise `DeviceError`."""

    @property
    def pipelines(self) -> Sequence[PipelineInfo]:
        """The pipelines; their numbers are the places in this list."""

    @property
    def memory_bytes(self) -> int:
        """The size of the memory, which starts at address 0."""

    @property
    def cycles(self) -> int:
        """The card's clock: cycles since it was opened."""

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into the memory: whole bus words at the address of one."""

    def read(self, address: int, count: int) -> bytes:
        """Return bytes of the memory."""

    def start(self, pipeline: int, task: CardTask) -> None:
        """Begin a task on a pipeline that is ``idle`` or ``done``."""

    def status(self, pipeline: int) -> CardStatus:
        """Return how far a pipeline is; this takes no time of the card.

        An error of the card's memory raises `DeviceError`.
        """

    def wait(self) -> None:
        """Let the card work until the state of a pipeline changes, or for a while."""

    def resume(self, pipeline: int, result_address: int, result_capacity: int) -> None:
        """Go on after ``overflow`` with another result buffer."""

    def abort(self, pipeline: int) -> None:
        """Stop a task in any state. The pipeline is ``idle``; what it would still write is lost."""
