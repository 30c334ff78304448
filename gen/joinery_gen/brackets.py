"""The window in brackets after a stream: its grammar, and its meaning for a join or an aggregate.

The grammar is in the docstring of :mod:`joinery_gen.parse`.
"""

from dataclasses import dataclass
from fractions import Fraction

from joinery.tuples import ColumnType, IntType, Schema, TimestampType

from .parse_text import QueryText, Reader, Token, did_you_mean
from .query import KeyedRowWindow, QueryError, RowWindow, SlidingWindow, TimeWindow

MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
}
UNITS = "MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS or DAYS"
MOST_ROWS = 1_000_000_000
CLAUSES = ("ROWS", "RANGE", "SLIDE", "WATTR", "SLACK", "PARTITION")

JOIN_ROWS = "[ROWS n]"
JOIN_TIME = "[RANGE t WATTR c SLACK k]"
SLIDING = "[RANGE t SLIDE u WATTR c SLACK k]"
KEYED_ROWS = "[PARTITION BY key ROWS n SLIDE a]"
KEYED_TIME = "[PARTITION BY key RANGE t SLIDE u WATTR c SLACK k]"
JOIN_FORMS = f"the windows of a join are {JOIN_ROWS} and {JOIN_TIME}"
AGGREGATE_FORMS = f"the windows of an aggregate are {SLIDING}, {KEYED_ROWS} and {KEYED_TIME}"


@dataclass(frozen=True)
class Amount:
    """A number with its unit, if it has one."""

    value: Fraction
    unit: Token | None
    start: int
    text: str


@dataclass(frozen=True)
class Window:
    """What stands in one pair of brackets, not yet held against a schema.

    ``start`` is the offset of the bracket; ``places`` has the offset of each clause by its keyword.
    """

    source: QueryText
    start: int
    places: dict[str, int]
    amounts: dict[str, Amount]
    wattr: Token | None
    keys: tuple[Token, ...]

    def for_join(self, schema: Schema) -> RowWindow | TimeWindow:
        """Return the window of one side of a join, over a stream of ``schema``."""
        for word in ("PARTITION", "SLIDE"):
            if word in self.places:
                raise self._error(
                    f"{_spelled(word)} belongs to aggregates, and this is a join; {JOIN_FORMS}",
                    word,
                )
        if self._has_rows(JOIN_FORMS):
            self._demand({"ROWS"}, set(), JOIN_ROWS)
            return RowWindow(self._count("ROWS"))
        self._demand({"RANGE", "WATTR"}, {"SLACK"}, JOIN_TIME)
        wattr, column = self._wattr(schema)
        return TimeWindow(
            self._duration("RANGE", column), wattr, self._duration("SLACK", column, default=0)
        )

    def for_aggregate(self, schema: Schema) -> SlidingWindow | KeyedRowWindow:
        """Return the window of an aggregate over a stream of ``schema``."""
        if self._has_rows(AGGREGATE_FORMS):
            self._demand({"ROWS", "PARTITION"}, {"SLIDE"}, KEYED_ROWS)
            slide = self._count("SLIDE") if "SLIDE" in self.places else 1
            return KeyedRowWindow(self._count("ROWS"), slide)
        form = KEYED_TIME if self.keys else SLIDING
        self._demand({"RANGE", "SLIDE", "WATTR"}, {"SLACK", "PARTITION"}, form)
        wattr, column = self._wattr(schema)
        length = self._duration("RANGE", column, least=1)
        slide = self._duration("SLIDE", column, least=1)
        if slide > length:
            raise self._error(
                "SLIDE is longer than RANGE, so that some tuples would be in no window; "
                "make it at most as long",
                "SLIDE",
            )
        return SlidingWindow(length, slide, wattr, self._duration("SLACK", column, default=0))

    def _error(self, message: str, word: str) -> QueryError:
        return self.source.error(message, self.places[word])

    def _has_rows(self, forms: str) -> bool:
        """Tell ROWS from RANGE, where the window has just one of them."""
        found = self.places.keys() & {"ROWS", "RANGE"}
        if not found:
            raise self.source.error(f"A window needs ROWS or RANGE; {forms}", self.start)
        if len(found) == 2:
            raise self._error(f"A window has ROWS or RANGE, not both; {forms}", "RANGE")
        return "ROWS" in found

    def _demand(self, required: set[str], optional: set[str], form: str) -> None:
        for word in self.places:
            if word not in required | optional:
                raise self._error(f"{_spelled(word)} does not belong in {form}", word)
        for word in CLAUSES:
            if word in required - self.places.keys():
                raise self.source.error(f"{_spelled(word)} is missing; write {form}", self.start)

    def _count(self, word: str) -> int:
        amount = self.amounts[word]
        whole = amount.value.denominator == 1 and 1 <= amount.value <= MOST_ROWS
        if amount.unit or not whole:
            raise self.source.error(
                f"{word} counts tuples here and takes a whole number from 1 to {MOST_ROWS}, "
                f"not {amount.text}",
                amount.start,
            )
        return int(amount.value)

    def _wattr(self, schema: Schema) -> tuple[str, IntType | TimestampType]:
        assert self.wattr is not None
        column = find_column(self.source, self.wattr, schema)
        if not isinstance(column, IntType | TimestampType):
            raise self.source.error(
                f"WATTR takes a TIMESTAMP or an integer column, and {self.wattr.name} is "
                f"{column.sql}",
                self.wattr.start,
            )
        return self.wattr.name, column

    def _duration(
        self,
        word: str,
        column: IntType | TimestampType,
        *,
        least: int = 0,
        default: int | None = None,
    ) -> int:
        """Return the amount after ``word`` in the unit of the WATTR column."""
        if default is not None and word not in self.amounts:
            return default
        amount = self.amounts[word]
        value = self._in_units_of(column, amount)
        if value.denominator != 1:
            raise self.source.error(
                f"{amount.text} is not a whole number of the units that {column.sql} counts",
                amount.start,
            )
        if not least <= value <= column.high:
            raise self.source.error(
                f"{word} {amount.text} is out of range; {column.sql} takes {least} to "
                f"{column.high} of its units",
                amount.start,
            )
        return int(value)

    def _in_units_of(self, column: IntType | TimestampType, amount: Amount) -> Fraction:
        if isinstance(column, IntType):
            if amount.unit:
                raise self.source.error(
                    f"The WATTR column is {column.sql} and has no unit of time; write the plain "
                    "number of its steps, or declare it as TIMESTAMP",
                    amount.unit.start,
                )
            return amount.value
        if not amount.unit:
            raise self.source.error(
                f"{amount.text} needs a unit of time, as the WATTR column is {column.sql}: {UNITS}",
                amount.start,
            )
        micros = MICROSECONDS[amount.unit.upper.removesuffix("S")]
        return amount.value * micros * column.per_second / 1_000_000


def find_column(source: QueryText, token: Token, schema: Schema) -> ColumnType:
    """Return the type of the column that ``token`` names in a window over ``schema``."""
    if token.name not in schema:
        raise source.error(
            f"The stream has no column {token.name}{did_you_mean(token.name, schema.names)}; "
            f"it has {', '.join(schema.names)}",
            token.start,
        )
    return schema[token.name]


def read_window(reader: Reader, start: int) -> Window:
    """Read all that stands between two brackets, the first of them at ``start``."""
    places: dict[str, int] = {}
    amounts: dict[str, Amount] = {}
    wattr: Token | None = None
    keys: tuple[Token, ...] = ()
    while reader.peek.kind != "end":
        token = reader.take()
        word = token.upper
        if token.kind != "word" or word not in CLAUSES:
            raise reader.source.error(
                f"Found {token} where a window has ROWS, RANGE, SLIDE, WATTR, SLACK or "
                "PARTITION BY",
                token.start,
            )
        if word in places:
            raise reader.source.error(f"{_spelled(word)} stands twice in this window", token.start)
        places[word] = token.start
        if word == "WATTR":
            wattr = reader.name("the name of the column that has the time")
        elif word == "PARTITION":
            keys = _read_keys(reader)
        else:
            amounts[word] = _read_amount(reader, word)
    return Window(reader.source, start, places, amounts, wattr, keys)


def _read_keys(reader: Reader) -> tuple[Token, ...]:
    reader.expect("BY")
    keys = [reader.name("the name of the key column")]
    while reader.accept(","):
        keys.append(reader.name("the name of a key column"))
    return tuple(keys)


def _read_amount(reader: Reader, word: str) -> Amount:
    token = reader.peek
    if token.kind != "number":
        raise reader.unexpected(f"a number after {word}")
    reader.take()
    unit = reader.peek
    if unit.kind != "word" or unit.upper in CLAUSES:
        return Amount(Fraction(token.text), None, token.start, token.text)
    if unit.upper.removesuffix("S") not in MICROSECONDS:
        raise reader.unexpected(f"a unit of time ({UNITS}) or the next clause of the window")
    reader.take()
    return Amount(Fraction(token.text), unit, token.start, f"{token.text} {unit.text}")


def _spelled(word: str) -> str:
    return "PARTITION BY" if word == "PARTITION" else word
