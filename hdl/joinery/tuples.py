"""Schemas: what a column is, how wide it is in hardware, and which integer stands for a value.

Every column is carried as one fixed-width integer, its *raw* value; there is no floating point
anywhere. ``encode`` and ``decode`` are the only places where a raw value meets a Python value.
"""

import datetime as dt
import decimal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data

__all__ = [
    "BoolType",
    "ColumnType",
    "DecimalType",
    "Field",
    "IntType",
    "Schema",
    "StringType",
    "TimestampType",
    "bits_for_range",
]

EPOCH = dt.datetime(1970, 1, 1)
A_TIME = "a time such as 2024-05-31 12:00:00"
# more than any DECIMAL holds, so that whatever is inexact here does not fit one
EXACT = decimal.Context(
    prec=60, Emin=-99, Emax=99, traps=[decimal.InvalidOperation, decimal.Inexact]
)


def _whole(value: Any, what: str) -> int:
    """Return the integer that ``value`` equals; ``what`` says what was wanted."""
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        whole = None
    if whole is None or isinstance(value, bool) or whole != value:
        raise ValueError(f"{value!r} is not {what}")
    return whole


def bits_for_range(low: int, high: int) -> tuple[int, bool]:
    """Return the least ``(width, signed)`` that holds every integer from ``low`` to ``high``."""
    if low > high:
        raise ValueError(f"A range must not be empty, and {low} is larger than {high}")
    if low < 0:
        return max(high, ~low).bit_length() + 1, True
    return max(high.bit_length(), 1), False


@dataclass(frozen=True)
class ColumnType(ABC):
    """What a column may hold. Subclasses give the range of raw values and the SQL spelling."""

    @property
    @abstractmethod
    def low(self) -> int:
        """Least raw value."""

    @property
    @abstractmethod
    def high(self) -> int:
        """Largest raw value."""

    @property
    @abstractmethod
    def sql(self) -> str:
        """The type as it is written in ``CREATE STREAM``."""

    @property
    def shape(self) -> Shape:
        return Shape(*bits_for_range(self.low, self.high))

    @property
    def width(self) -> int:
        return self.shape.width

    @abstractmethod
    def encode(self, value: Any) -> int:
        """Return the raw value of ``value``, or raise ``ValueError`` saying why it does not fit."""

    @abstractmethod
    def decode(self, raw: int) -> Any:
        """Return the Python value that ``raw`` stands for."""

    def _in_range(self, raw: int, value: Any) -> int:
        if not self.low <= raw <= self.high:
            raise ValueError(
                f"{value} does not fit {self.sql}, which holds "
                f"{self.decode(self.low)} to {self.decode(self.high)}"
            )
        return raw


@dataclass(frozen=True)
class IntType(ColumnType):
    """An integer of 1 to 64 bits (63 when unsigned, so that Spark's BIGINT holds it)."""

    bits: int
    signed: bool = True

    def __post_init__(self) -> None:
        most = 64 if self.signed else 63
        if not 1 <= self.bits <= most:
            kind = "A signed" if self.signed else "An unsigned"
            raise ValueError(f"{kind} integer has 1 to {most} bits, not {self.bits!r}")

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - self.signed)) - 1

    @property
    def sql(self) -> str:
        names = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
        if self.signed and self.bits in names:
            return names[self.bits]
        return f"{'INT' if self.signed else 'UINT'}({self.bits})"

    def encode(self, value: Any) -> int:
        return self._in_range(_whole(value, "a whole number"), value)

    def decode(self, raw: int) -> int:
        return int(raw)


@dataclass(frozen=True)
class DecimalType(ColumnType):
    """An exact decimal; the raw value is the number times ``10 ** scale``."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= 38:
            raise ValueError(f"A DECIMAL has 1 to 38 digits, not {self.precision!r}")
        if not 0 <= self.scale <= self.precision:
            raise ValueError(
                f"A DECIMAL({self.precision}) has 0 to {self.precision} digits after the point, "
                f"not {self.scale!r}"
            )

    @property
    def low(self) -> int:
        return -self.high

    @property
    def high(self) -> int:
        return int(10**self.precision) - 1

    @property
    def sql(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"

    def encode(self, value: Any) -> int:
        try:
            number = value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))
            raw = number.scaleb(self.scale, EXACT)
            whole = int(raw)
        except decimal.Inexact:
            raise ValueError(f"{value} has more digits than {self.sql} holds") from None
        except (decimal.InvalidOperation, ValueError, OverflowError):
            raise ValueError(f"{value!r} is not a decimal number") from None
        if whole != raw:
            raise ValueError(f"{value} has more than {self.scale} digits after the point")
        return self._in_range(whole, value)

    def decode(self, raw: int) -> decimal.Decimal:
        return decimal.Decimal(int(raw)).scaleb(-self.scale, EXACT)


@dataclass(frozen=True)
class StringType(ColumnType):
    """A string of at most ``length`` bytes of UTF-8, padded with NUL on the right.

    The first byte is the most significant one, so that raw values compare as the strings do.
    """

    length: int

    def __post_init__(self) -> None:
        if not 1 <= self.length <= 64:
            raise ValueError(f"A STRING has 1 to 64 bytes, not {self.length!r}")

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return (1 << 8 * self.length) - 1

    @property
    def sql(self) -> str:
        return f"STRING({self.length})"

    def encode(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError(f"{value!r} is not a string")
        try:
            raw = str(value).encode()
        except UnicodeEncodeError:
            raise ValueError(f"{value!r} cannot be written as UTF-8") from None
        if len(raw) > self.length:
            raise ValueError(
                f"{value!r} has {len(raw)} bytes and {self.sql} holds {self.length} at most"
            )
        if b"\0" in raw:
            raise ValueError(f"{value!r} contains a NUL character")
        return int.from_bytes(raw.ljust(self.length, b"\0"), "big")

    def decode(self, raw: int) -> str:
        return int(raw).to_bytes(self.length, "big").rstrip(b"\0").decode()


@dataclass(frozen=True)
class BoolType(ColumnType):
    """True or false, in one bit."""

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return 1

    @property
    def sql(self) -> str:
        return "BOOLEAN"

    def encode(self, value: Any) -> int:
        if value not in (0, 1):
            raise ValueError(f"{value!r} is neither true nor false")
        return int(value)

    def decode(self, raw: int) -> bool:
        return bool(raw)


@dataclass(frozen=True)
class TimestampType(ColumnType):
    """A time without a zone; the raw value counts ``unit`` since 1970-01-01, and may be negative.

    The range is that of the years 1 to 9999, which every tool along the way can show.
    """

    unit: str

    UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}  # noqa: RUF012 - read only

    def __post_init__(self) -> None:
        if self.unit not in self.UNITS:
            raise ValueError(f"A TIMESTAMP counts s, ms or us, not {self.unit!r}")

    @property
    def per_second(self) -> int:
        return self.UNITS[self.unit]

    @property
    def low(self) -> int:
        return -62_135_596_800 * self.per_second

    @property
    def high(self) -> int:
        return 253_402_300_800 * self.per_second - 1

    @property
    def sql(self) -> str:
        return f"TIMESTAMP({self.unit})"

    def encode(self, value: Any) -> int:
        if isinstance(value, str):
            try:
                value = dt.datetime.fromisoformat(value)
            except ValueError:
                raise ValueError(f"{value!r} is not {A_TIME}") from None
        if not isinstance(value, dt.datetime):
            return self._in_range(_whole(value, A_TIME), value)
        # the zone's offset is taken apart, as the time in UTC may be outside the years of datetime
        since = value.replace(tzinfo=None) - EPOCH - (value.utcoffset() or dt.timedelta())
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        raw, rest = divmod(micros * self.per_second, 1_000_000)
        if rest:
            raise ValueError(f"{value} is finer than the {self.unit} that {self.sql} counts")
        return self._in_range(raw, value)

    def decode(self, raw: int) -> dt.datetime:
        return EPOCH + dt.timedelta(microseconds=int(raw) * (1_000_000 // self.per_second))


@dataclass(frozen=True)
class Field:
    """One named column of a schema."""

    name: str
    type: ColumnType


@dataclass(frozen=True)
class Schema:
    """The columns of a stream, in order. The first one takes the low bits of a tuple."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for field in self.fields:
            if field.name in seen:
                raise ValueError(f"Column {field.name!r} is declared twice")
            seen.add(field.name)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, name: str) -> ColumnType:
        for field in self.fields:
            if field.name == name:
                return field.type
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(field.name == name for field in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def layout(self) -> data.StructLayout:
        """The tuple as hardware: one member per column."""
        return data.StructLayout({field.name: field.type.shape for field in self.fields})

    def select(self, names: "set[str] | frozenset[str]") -> "Schema":
        """Return the schema of the columns in ``names``, in this schema's order."""
        return Schema(tuple(field for field in self.fields if field.name in names))
