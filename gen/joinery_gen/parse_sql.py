"""The SQL of a query through sqlglot, with the place of every node and error in the whole text."""

import re
from bisect import bisect_left
from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from .parse_text import QueryText, Token
from .query import QueryError

# sqlglot's messages, where they speak of its own insides, in words for the query's author
READABLE = (
    (re.compile(r"Required (?:keyword|argument).*"), "an operand is missing"),
    (re.compile(r"Expected table name.*"), "expected the name of a stream"),
    (re.compile(r"Expecting (.*)"), r"expected \1"),
    (re.compile(r"Invalid expression / Unexpected token"), "this is not expected here"),
    (re.compile(r"The number of provided arguments.*"), "too many arguments"),
)


class Sql:
    """A SELECT statement as sqlglot's tree, and where its parts are.

    ``tokens`` are those of the statement without its windows; offsets count from the start of
    the whole text, of which ``source`` takes care.
    """

    def __init__(self, source: QueryText, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self._starts = [token.start for token in tokens]
        self._check_commas()
        self.tree = self._parse()

    def error(self, message: str, node: exp.Expr) -> QueryError:
        """Return the error ``message`` pointing at the first character of ``node``."""
        return self.source.error(message, self.start(node))

    def start(self, node: exp.Expr) -> int:
        """Return where ``node`` begins, or the nearest place known where sqlglot tells none."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        if isinstance(node, exp.Where):
            return self.keyword("WHERE")
        return self.start(node.parent) if node.parent else self.tokens[0].start

    def end(self, node: exp.Expr) -> int | None:
        """Return where the last located part of ``node`` ends, closing parentheses left out."""
        return max(
            (part.meta["end"] + 1 for part in node.walk() if "end" in part.meta), default=None
        )

    def operator(self, node: exp.Expr) -> int:
        """Return where the operator of ``node`` is, or the start of ``node`` if it has none."""
        left_end = self.end(node.this) if isinstance(node, exp.Binary) else None
        if left_end is None:
            return self.start(node)
        index = bisect_left(self._starts, left_end)
        while self.tokens[index].text == ")":
            index += 1
        return self.tokens[index].start

    def keyword(self, word: str, before: int | None = None) -> int:
        """Return where ``word`` is: the first time, or the last time ahead of ``before``."""
        found = [token.start for token in self.tokens if token.upper == word]
        if before is not None:
            found = [start for start in reversed(found) if start < before]
        return found[0] if found else self.tokens[0].start

    def spelling(self, node: exp.Expr) -> str:
        """Return the word in the text that ``node`` itself was read from, as a function's name."""
        return self.source.text[node.meta["start"] : node.meta["end"] + 1]

    def _check_commas(self) -> None:
        """Refuse a comma with nothing after it, which sqlglot takes without a word."""
        for token, following in zip(self.tokens, self.tokens[1:], strict=False):
            if token.text == "," and following.upper in (",", ")", "FROM", "WHERE", "GROUP", ""):
                raise self.source.error(
                    f"Expected something after the comma, found {following}", following.start
                )

    def _parse(self) -> exp.Expr:
        try:
            return sqlglot.parse_one(self.source.only(self.tokens))
        except ParseError as error:
            raise self._readable(error) from None
        except (SqlglotError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise self.source.error(
                f"The SQL cannot be read: {reason}", self.tokens[0].start
            ) from None

    def _readable(self, error: ParseError) -> QueryError:
        first = error.errors[0]
        reason = str(first["description"])
        for pattern, words in READABLE:
            reason = pattern.sub(words, reason)
        highlight = str(first["highlight"])
        lines = self.source.text.split("\n")[: int(first["line"]) - 1]
        # sqlglot's column is that of the token's last character
        last = sum(len(line) + 1 for line in lines) + int(first["col"])
        return self.source.error(
            f"The SQL cannot be read at {highlight}: {reason}", last - len(highlight)
        )
