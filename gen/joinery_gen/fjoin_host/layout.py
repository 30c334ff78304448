"""How tuples and results lie in the card's memory, and columns packed into it and out of it.

A record is a row of bit fields, padded to whole bytes: its *stride*. As many records as fit share a
bus word, one after the other from its first byte; no record crosses the end of a word. So nobody
divides: a window tuple of 16 bytes costs a quarter of a word of 64, one of 17 bytes a third.

A layout is described by plain data, which ``top.json`` carries; a host needs nothing else.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from joinery.expr import columns_of
from joinery.join import JoinPair
from joinery.tuples import Schema

from ..query import JoineryError, JoinQuery, TimeWindow

__all__ = [
    "ID",
    "STREAM",
    "TIME",
    "WINDOW",
    "BitField",
    "CardLayout",
    "RecordLayout",
    "card_pair",
    "time_windows",
]

Raw = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

ID, TIME = "#id", "#time"
"""The first fields of a tuple, both modulo the power of two of their width."""

STREAM, WINDOW = "#stream", "#window"
"""The fields of a result: the ids of a pair."""

RESULT_BYTES = 8


@dataclass(frozen=True)
class BitField:
    """A field of a record: the bits from ``offset`` on."""

    name: str
    offset: int
    width: int
    signed: bool = False


@dataclass(frozen=True)
class RecordLayout:
    """Records of ``stride`` bytes, ``per_word`` of them in every word of ``word_bytes``."""

    word_bytes: int
    stride: int
    fields: tuple[BitField, ...]

    def __post_init__(self) -> None:
        if self.stride > self.word_bytes:
            raise JoineryError(
                f"A tuple takes {self.stride} bytes in the card's memory, and a bus word has "
                f"{self.word_bytes}; use shorter columns in the predicate, or a wider bus"
            )

    @property
    def per_word(self) -> int:
        return self.word_bytes // self.stride

    def words(self, records: int) -> int:
        """Return how many words hold so many records."""
        return -(-records // self.per_word)

    def pack(self, columns: Mapping[str, Raw]) -> bytes:
        """Return the words that hold the records, whose raw values ``columns`` has by field."""
        count = len(columns[self.fields[0].name])
        records = np.zeros((self.words(count) * self.per_word, self.stride), np.uint8)
        for field in self.fields:
            _insert(records[:count], field, columns[field.name])
        words = np.zeros((self.words(count), self.word_bytes), np.uint8)
        words[:, : self.per_word * self.stride] = records.reshape(
            len(words), self.per_word * self.stride
        )
        return words.tobytes()

    def unpack(self, words: bytes, count: int) -> dict[str, Raw]:
        """Return the raw values of the first ``count`` records; ``words`` may end after them."""
        padded = words.ljust(self.words(count) * self.word_bytes, b"\0")
        table = np.frombuffer(padded, np.uint8).reshape(-1, self.word_bytes)
        records = table[:, : self.per_word * self.stride].reshape(-1, self.stride)[:count]
        return {field.name: _extract(records, field) for field in self.fields}

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "word_bytes": self.word_bytes,
            "stride": self.stride,
            "per_word": self.per_word,
            "fields": [vars(field) for field in self.fields],
        }

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> "RecordLayout":
        fields = tuple(BitField(**field) for field in described["fields"])
        return RecordLayout(described["word_bytes"], described["stride"], fields)


@dataclass(frozen=True)
class CardLayout:
    """The records of both streams and of results, as a card reads and writes them.

    A tuple is ``#id``, ``#time`` and the columns that the predicate reads; a result is ``#stream``
    and ``#window``, the ids of the pair, in 4 bytes each.
    """

    left: RecordLayout
    right: RecordLayout
    result: RecordLayout

    @property
    def word_bytes(self) -> int:
        return self.left.word_bytes

    @property
    def id_bits(self) -> int:
        return self.left.fields[0].width

    @property
    def time_bits(self) -> int:
        return self.left.fields[1].width

    def of(self, side: str) -> RecordLayout:
        """Return the records of one side's tuples."""
        return self.left if side == "left" else self.right

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {name: getattr(self, name).as_dict() for name in ("left", "right", "result")}

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> "CardLayout":
        sides = (RecordLayout.from_dict(described[name]) for name in ("left", "right", "result"))
        return CardLayout(*sides)

    @staticmethod
    def of_pair(
        pair: JoinPair, *, id_bits: int = 32, time_bits: int = 32, word_bytes: int = 64
    ) -> "CardLayout":
        """Return the layout of a join; the predicate of ``pair`` is without the test of times."""
        if not 2 <= id_bits <= 32:
            raise JoineryError(f"Ids have 2 to 32 bits, not {id_bits!r}")
        if not 2 <= time_bits <= 64:
            raise JoineryError(f"Times have 2 to 64 bits, not {time_bits!r}")
        if word_bytes < 8 or word_bytes & (word_bytes - 1):
            raise JoineryError(
                f"A bus word has a power of two of bytes, and 8 at least, not {word_bytes!r}"
            )
        read = columns_of(pair.predicate)

        def tuples(source: str, schema: Schema) -> RecordLayout:
            mine = schema.select({name for alias, name in read if alias == source})
            columns = [(f.name, f.type.width, f.type.shape.signed) for f in mine]
            fields = [(ID, id_bits, False), (TIME, time_bits, False), *columns]
            return _placed(fields, word_bytes)

        half = 4 * RESULT_BYTES
        results = BitField(STREAM, 0, id_bits), BitField(WINDOW, half, id_bits)
        return CardLayout(
            tuples(pair.names[0], pair.left),
            tuples(pair.names[1], pair.right),
            RecordLayout(word_bytes, RESULT_BYTES, results),
        )


def time_windows(query: JoinQuery) -> tuple[TimeWindow, TimeWindow]:
    """Return the windows of a join, which a card takes only of this kind."""
    left, right = query.left.window, query.right.window
    if not isinstance(left, TimeWindow) or not isinstance(right, TimeWindow):
        raise JoineryError("A card joins time windows, [RANGE ...]; this query's are of rows")
    return left, right


def card_pair(query: JoinQuery) -> JoinPair:
    """Return what a card sees of a join: the predicate without the test of times, and its columns.

    A result is the ids of a pair, so no column is kept.
    """
    time_windows(query)
    read = columns_of(query.predicate)
    left, right = (
        source.schema.select({name for alias, name in read if alias == source.alias})
        for source in query.sources
    )
    names = (query.left.alias, query.right.alias)
    return JoinPair(names, left, right, query.predicate, keep_left=(), keep_right=())


def _placed(fields: Iterable[tuple[str, int, bool]], word_bytes: int) -> RecordLayout:
    """Lay fields out one after the other, the first in the low bits."""
    placed: list[BitField] = []
    end = 0
    for name, width, signed in fields:
        placed.append(BitField(name, end, width, signed))
        end += width
    return RecordLayout(word_bytes, -(-end // 8), tuple(placed))


# Bits in rows of bytes, whole columns at a time.


def _insert(records: Bytes, field: BitField, raw: Raw) -> None:
    """Put the low bits of one raw value per record into a field, which is still zero."""
    for start, limb in _limbs(raw, field.width):
        bits = min(field.width - start, 64)
        first, shift = divmod(field.offset + start, 8)
        for number in range(-(-(shift + bits) // 8)):
            move = 8 * number - shift
            part = limb >> np.uint64(move) if move >= 0 else limb << np.uint64(-move)
            records[:, first + number] |= (part & np.uint64(0xFF)).astype(np.uint8)


def _limbs(raw: Raw, width: int) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    """Cut raw values into pieces of 64 bits, low bits first: ``(first bit, values)``."""
    if width <= 64 and raw.dtype != object:
        yield 0, raw.astype(np.uint64) & np.uint64((1 << width) - 1)
        return
    size = 8 * -(-width // 64)
    mask = (1 << width) - 1
    packed = b"".join((int(value) & mask).to_bytes(size, "little") for value in raw)
    limbs = np.frombuffer(packed, "<u8").reshape(-1, size // 8)
    for number in range(size // 8):
        yield 64 * number, limbs[:, number]


def _extract(records: Bytes, field: BitField) -> Raw:
    """Return a field's raw values: int64, or Python integers where they need more bits."""
    limbs = [
        _extract_limb(records, field.offset + start, min(field.width - start, 64))
        for start in range(0, field.width, 64)
    ]
    if field.width < 64 or (field.width == 64 and field.signed):
        # Shifted up and back down, the highest bit of the field fills the ones above it.
        spare = np.int64(64 - field.width if field.signed else 0)
        return (limbs[0].view(np.int64) << spare) >> spare
    sign = 1 << (field.width - 1) if field.signed else 0
    values = np.zeros(len(records), dtype=object)
    for number, limb in enumerate(limbs):
        values += limb.astype(object) << 64 * number
    return (values ^ sign) - sign


def _extract_limb(records: Bytes, offset: int, bits: int) -> npt.NDArray[np.uint64]:
    first, shift = divmod(offset, 8)
    limb = np.zeros(len(records), np.uint64)
    for number in range(-(-(shift + bits) // 8)):
        move = 8 * number - shift
        part = records[:, first + number].astype(np.uint64)
        limb |= part << np.uint64(move) if move >= 0 else part >> np.uint64(-move)
    return limb & np.uint64((1 << bits) - 1)
