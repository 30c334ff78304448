"""The text of a query as tokens with positions, and errors that point into it."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .query import QueryError

TOKEN = re.compile(
    r"""
      (?P<skip>    \s+ | --[^\r\n]* | /\*.*?\*/ )
    | (?P<string>  '(?:[^']|'')*+' )
    | (?P<quoted>  "[^"]*" )
    | (?P<open>    /\* | ' | " )
    | (?P<number>  (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\w* )
    | (?P<word>    [^\W\d]\w* )
    | (?P<symbol>  <=> | <= | >= | <> | != | == | => | -> | << | >> | \|\| | && | \*\* | //
                 | [()\[\],;.*+\-=<>^&|/%~] )
    """,
    re.VERBOSE | re.DOTALL,
)
NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?P<power>[eE][+-]?[0-9]+)?")
MOST_DIGITS = 100  # more than any number in a query has a use for
LINE_END = re.compile(r"\r\n?|\n")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
UNCLOSED = {"'": "string", '"': "quoted name", "/*": "comment"}


@dataclass(frozen=True)
class Token:
    """A piece of the text, from ``start`` up to and without ``end``.

    ``kind`` is ``word``, ``quoted``, ``number``, ``string``, ``symbol``, or ``end`` after the last.
    """

    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The word in capitals, as keywords are compared; other kinds unchanged."""
        return self.text.upper() if self.kind == "word" else self.text

    @property
    def name(self) -> str:
        """The name that a word or a quoted name spells."""
        return self.text.strip('"')

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else self.text


@dataclass(frozen=True)
class QueryText:
    """A query's text. ``origin`` is what errors call it: a path, or a name."""

    origin: str
    text: str

    def error(self, message: str, offset: int) -> QueryError:
        """Return the error ``message`` pointing at the character ``offset``."""
        before = LINE_END.split(self.text[:offset])
        line = len(before)
        source = LINE_END.split(self.text)[line - 1]
        return QueryError(
            message, name=self.origin, source=source, line=line, column=len(before[-1]) + 1
        )

    def scan(self) -> list[Token]:
        """Return the tokens of the text, without spaces and comments, closed by an ``end``."""
        tokens: list[Token] = []
        position = 0
        while position < len(self.text):
            match = TOKEN.match(self.text, position)
            if match is None:
                raise self.error(
                    f"Unexpected character {self.text[position]!r}; "
                    "a query is written in names, numbers, 'strings' and operators",
                    position,
                )
            position = match.end()
            if match.lastgroup != "skip":
                tokens.append(self._token(match))
        last = tokens[-1].end if tokens else 0
        return [*tokens, Token("end", "", last, last)]

    def _token(self, match: re.Match[str]) -> Token:
        kind, text = str(match.lastgroup), match.group()
        if kind == "open":
            raise self.error(f"This {UNCLOSED[text]} is never closed", match.start())
        if kind == "number":
            self._check_number(text, match.start())
        return Token(kind, text, match.start(), match.end())

    def _check_number(self, text: str, offset: int) -> None:
        number = NUMBER.fullmatch(text)
        if number is None:
            raise self.error(
                f"{text} is not a number; write integers as 42 and decimals as 0.25", offset
            )
        if number["power"]:
            raise self.error(f"{text} is a floating-point number; write it out in digits", offset)
        if len(text) > MOST_DIGITS:
            raise self.error(f"A number has at most {MOST_DIGITS} digits", offset)

    def only(self, tokens: Iterable[Token]) -> str:
        """Return the text with everything but ``tokens`` blanked, so that offsets stay true."""
        kept = ["\n" if char == "\n" else " " for char in self.text]
        for token in tokens:
            kept[token.start : token.end] = self.text[token.start : token.end]
        return "".join(kept)

    def check_name(self, name: str, offset: int) -> str:
        """Return ``name`` if it can name a stream or a column everywhere along the way."""
        if not NAME.fullmatch(name):
            raise self.error(
                f"{name!r} cannot be a name; names are made of ASCII letters, digits and _, "
                "and begin with a letter",
                offset,
            )
        return name


class Reader:
    """Takes tokens one by one. The last one is an ``end``, which stays."""

    def __init__(self, source: QueryText, tokens: Sequence[Token]) -> None:
        self.source = source
        self._tokens = tokens
        self._next = 0

    @property
    def peek(self) -> Token:
        return self._tokens[self._next]

    def take(self) -> Token:
        token = self.peek
        if token.kind != "end":
            self._next += 1
        return token

    def accept(self, what: str) -> bool:
        """Take the keyword or symbol ``what`` if it comes next, and tell whether it did."""
        if self.peek.kind in ("word", "symbol") and self.peek.upper == what:
            self.take()
            return True
        return False

    def expect(self, what: str) -> None:
        """Take the keyword or symbol ``what``."""
        if not self.accept(what):
            raise self.unexpected(what)

    def name(self, what: str) -> Token:
        """Take a name, quoted or not; ``what`` says of what."""
        if self.peek.kind not in ("word", "quoted"):
            raise self.unexpected(what)
        return self.take()

    def unexpected(self, wanted: str) -> QueryError:
        return self.source.error(f"Expected {wanted}, found {self.peek}", self.peek.start)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean x?)`` for the nearest of ``known``, or nothing where none is near."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[near[0]]}?)" if near else ""
