"""Where things lie in the card's memory: a ring of window tuples per stream, and each pipeline's
buffers for stream tuples and results, two of each, so that one is filled while the other is used.
"""

from collections.abc import Mapping
from typing import Any

from ..query import JoineryError
from .controller import SIDES
from .device import Device, PipelineInfo, Side
from .layout import ID, TIME, CardLayout, RecordLayout
from .store import NUMBER, TIME_OF, TupleStore

__all__ = ["BUFFERS", "CardMemory", "Ring", "records_of"]

BUFFERS = 2
SHARE = 4
"""A quarter of the memory at most is for the pipelines' buffers, where nobody says."""


class CardMemory:
    """The plan of a card's memory.

    Parameters
    ----------
    stream_tuples, result_tuples : int or None
        What one buffer of a pipeline holds; None for what is useful and fits.
    window_tuples : mapping of side to int or None
        What the ring of a stream holds; None for what is left, half for each.
    """

    def __init__(
        self,
        device: Device,
        layout: CardLayout,
        *,
        stream_tuples: int | None = None,
        result_tuples: int | None = None,
        window_tuples: Mapping[Side, int | None] | None = None,
    ) -> None:
        self._layout = layout
        self._end = 0
        self._size = device.memory_bytes
        pipelines = device.pipelines
        for name, value in (("stream_tuples", stream_tuples), ("result_tuples", result_tuples)):
            if value is not None and value < 1:
                raise JoineryError(f"{name} must be at least 1, not {value}")
        share = self._size // SHARE // max(1, 2 * BUFFERS * len(pipelines))
        self.stream_tuples = [
            stream_tuples or self._stream_tuples(info, share) for info in pipelines
        ]
        self.result_tuples = result_tuples or max(1, share // layout.result.stride)
        self.streams = [
            [self._take(layout.of(info.side), tuples) for _ in range(BUFFERS)]
            for info, tuples in zip(pipelines, self.stream_tuples, strict=True)
        ]
        self.results = [
            [self._take(layout.result, self.result_tuples) for _ in range(BUFFERS)]
            for _ in pipelines
        ]
        self.rings = self._rings(device, window_tuples or {})

    def _stream_tuples(self, info: PipelineInfo, share: int) -> int:
        """As many full batches as fit, and no more than make the cost of a task small."""
        batches = share // self._layout.of(info.side).stride // info.units
        return info.units * max(1, min(batches, 64))

    def _take(self, layout: RecordLayout, records: int) -> int:
        """Return the address of room for so many records."""
        address = self._end
        self._end += layout.words(records) * layout.word_bytes
        if self._end > self._size:
            raise JoineryError(
                f"The buffers need more than the {self._size} bytes of the card's memory; lower "
                "stream_tuples, result_tuples or the windows"
            )
        return address

    def _rings(
        self, device: Device, window_tuples: Mapping[Side, int | None]
    ) -> "dict[Side, Ring]":
        rings: dict[Side, Ring] = {}
        free = [side for side in SIDES if window_tuples.get(side) is None]
        for side in sorted(SIDES, key=lambda each: each in free):
            layout, tuples = self._layout.of(side), window_tuples.get(side)
            if tuples is None:
                words = (self._size - self._end) // layout.word_bytes // len(free)
                free.remove(side)
                tuples = words * layout.per_word
            if tuples < 1:
                raise JoineryError(f"window_{side} must be at least 1 tuple, not {tuples}")
            rings[side] = Ring(device, layout, self._take(layout, tuples), tuples)
        return rings


class Ring:
    """The latest tuples of a stream on the card; tuple ``index`` has the place modulo the size.

    Parameters
    ----------
    tuples : int
        What is to fit; it is brought up to whole bus words.
    """

    def __init__(self, device: Device, layout: RecordLayout, base: int, tuples: int) -> None:
        self._device = device
        self._layout = layout
        self._words = layout.words(tuples)
        self.tuples = self._words * layout.per_word
        self.base = base
        self.end = base + self._words * layout.word_bytes
        self.synced = 0  # what comes before is on the card, as far as it is still needed

    def word_start(self, index: int) -> int:
        """Return the index of the first tuple in the same word."""
        return index - index % self._layout.per_word

    def address(self, index: int) -> int:
        """Return the address of the word of a tuple."""
        word = index // self._layout.per_word % self._words
        return self.base + word * self._layout.word_bytes

    def sync(self, store: TupleStore, upto: int, needed: int) -> bool:
        """Write what is new up to an index; False where that would overwrite ``needed``."""
        if upto <= self.synced:
            return True
        needed = self.word_start(needed)
        if upto - needed > self.tuples:
            return False
        first = max(self.word_start(self.synced), needed)
        while first < upto:
            # up to the end of the ring, then from its base on
            end = min(upto, first - first % self.tuples + self.tuples)
            words = self._layout.pack(records_of(store, first, end, self._layout))
            self._device.write(self.address(first), words)
            first = end
        self.synced = upto
        return True


def records_of(store: TupleStore, first: int, end: int, layout: RecordLayout) -> dict[str, Any]:
    """Return tuples as the fields of their records; ids and times wrap when they are packed."""
    renamed = {ID: NUMBER, TIME: TIME_OF}
    return {
        field.name: store.column(renamed.get(field.name, field.name), first, end)
        for field in layout.fields
    }
