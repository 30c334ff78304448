"""``CREATE STREAM``: declared streams and their column types."""

from collections.abc import Callable

from joinery.tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    Field,
    IntType,
    Schema,
    StringType,
    TimestampType,
)

from .parse_text import Reader, Token
from .query import Stream

SUPPORTED_TYPES = (
    "TINYINT, SMALLINT, INT, BIGINT, INT(bits), UINT(bits), BOOLEAN, DECIMAL(digits,decimals), "
    "STRING(bytes), TIMESTAMP(s), TIMESTAMP(ms), TIMESTAMP(us)"
)
REALS = ("FLOAT", "DOUBLE", "REAL")
MOST_DIGITS = 18  # a declared DECIMAL fits 64 bits, in files as in hardware

PLAIN: dict[str, ColumnType] = {
    "TINYINT": IntType(8),
    "SMALLINT": IntType(16),
    "INT": IntType(32),
    "BIGINT": IntType(64),
    "BOOLEAN": BoolType(),
}


def _integer(bits: int) -> ColumnType:
    return IntType(bits)


def _unsigned(bits: int) -> ColumnType:
    return IntType(bits, signed=False)


def _decimal(precision: int, scale: int = 0) -> ColumnType:
    if not 1 <= precision <= MOST_DIGITS:
        raise ValueError(f"A declared DECIMAL has 1 to {MOST_DIGITS} digits, not {precision}")
    return DecimalType(precision, scale)


def _timestamp(unit: str) -> ColumnType:
    return TimestampType(unit.lower())


# What a type with parameters takes: how it is written, how few and how many, and the maker.
WITH_PARAMETERS: dict[str, tuple[str, int, int, Callable[..., ColumnType]]] = {
    "INT": ("INT(20)", 1, 1, _integer),
    "UINT": ("UINT(20)", 1, 1, _unsigned),
    "DECIMAL": ("DECIMAL(10,2)", 1, 2, _decimal),
    "STRING": ("STRING(4)", 1, 1, StringType),
    "TIMESTAMP": ("TIMESTAMP(s)", 1, 1, _timestamp),
}


def read_stream(reader: Reader) -> Stream:
    """Read ``CREATE STREAM name (column TYPE, ...)`` and nothing after it."""
    reader.expect("CREATE")
    reader.expect("STREAM")
    token = reader.name("the name of the stream")
    name = reader.source.check_name(token.name, token.start)
    reader.expect("(")
    fields = [_read_field(reader, [])]
    while reader.accept(","):
        fields.append(_read_field(reader, fields))
    if not reader.accept(")"):
        raise reader.unexpected(", or ) after a column")
    if reader.peek.kind != "end":
        raise reader.unexpected("; after a stream")
    return Stream(name, Schema(tuple(fields)))


def _read_field(reader: Reader, before: list[Field]) -> Field:
    token = reader.name("the name of a column")
    name = reader.source.check_name(token.name, token.start)
    for field in before:  # Spark does not tell names apart by their case
        if field.name.lower() == name.lower():
            same = "" if field.name == name else f", as {field.name} (case makes no difference)"
            raise reader.source.error(f"Column {name} is declared twice{same}", token.start)
    return Field(name, _read_type(reader, name))


def _read_type(reader: Reader, column: str) -> ColumnType:
    token = reader.peek
    if token.kind != "word":
        raise reader.unexpected(f"the type of column {column}, one of {SUPPORTED_TYPES}")
    reader.take()
    parameters = _read_parameters(reader)
    if not parameters and token.upper in PLAIN:
        return PLAIN[token.upper]
    if token.upper not in WITH_PARAMETERS:
        if parameters and token.upper in PLAIN:
            raise reader.source.error(f"{token.upper} takes no parameters", token.start)
        advice = "; declare a real number as DECIMAL" if token.upper in REALS else ""
        raise reader.source.error(
            f"Type {token.upper} is not supported{advice}; supported are {SUPPORTED_TYPES}",
            token.start,
        )
    return _make_type(reader, token, parameters)


def _make_type(reader: Reader, token: Token, parameters: list[Token]) -> ColumnType:
    example, fewest, most, make = WITH_PARAMETERS[token.upper]
    kind = "word" if token.upper == "TIMESTAMP" else "number"
    well_formed = fewest <= len(parameters) <= most and all(
        parameter.kind == kind and (kind == "word" or parameter.text.isdecimal())
        for parameter in parameters
    )
    if not well_formed:
        raise reader.source.error(
            f"{token.upper} is written as in {example}; supported are {SUPPORTED_TYPES}",
            token.start,
        )
    try:
        return make(*(p.text if kind == "word" else int(p.text) for p in parameters))
    except ValueError as error:
        raise reader.source.error(str(error), parameters[0].start) from None


def _read_parameters(reader: Reader) -> list[Token]:
    """Read ``( a, b, ... )`` if it comes next."""
    parameters: list[Token] = []
    more = reader.accept("(")
    while more:
        if reader.peek.kind not in ("word", "number"):
            raise reader.unexpected("a parameter of the type")
        parameters.append(reader.take())
        more = reader.accept(",")
    if parameters:
        reader.expect(")")
    return parameters
