"""The SQL of a query through sqlglot, with the place of every node and error in the whole text.

sqlglot reads far more SQL than the query language has. So the words and signs of the text are held
against the language here, in one place: whatever sqlglot made of a word that is neither a keyword
of ours nor a name, a function or a literal, it is refused where it stands.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parser import Parser
from sqlglot.tokens import TokenType

from .parse_text import QueryText, Token
from .query import QueryError

EXPRESSIONS = (
    "+ - * ^ & |, abs(), = <> < <= > >=, AND, OR, NOT, BETWEEN, IN, integers, decimals, "
    "'strings', TRUE, FALSE and TIMESTAMP '...'"
)
LANGUAGE = (
    "a query has SELECT, FROM, JOIN, ON, WHERE and GROUP BY, and its expressions have "
    f"{EXPRESSIONS}"
)
INNER = (
    "joins are inner: FROM r [...] JOIN s [...] ON condition, or FROM r [...], s [...] WHERE "
    "condition"
)
ADVICE = {
    **dict.fromkeys(
        ("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF", "STRAIGHT_JOIN"),
        INNER,
    ),
    "USING": "write ON r.column = s.column",
}
KEYWORDS = {
    "SELECT", "FROM", "INNER", "CROSS", "JOIN", "ON", "WHERE", "GROUP", "BY", "AS", "AND", "OR",
    "NOT", "BETWEEN", "IN", "TRUE", "FALSE", "TIMESTAMP",
}  # fmt: skip
SIGNS = {
    "(", ")", ",", ".", "*", "+", "-", "^", "&", "|", "=", "==", "<>", "!=", "<", "<=", ">", ">=",
}  # fmt: skip
# What something must follow, and what is not something: sqlglot lets most of it pass.
OPENING = {",": "the comma"} | {
    word: word for word in ("SELECT", "FROM", "JOIN", "ON", "WHERE", "BY")
}
CLOSING = {"", ",", ")", "FROM", "JOIN", "ON", "WHERE", "GROUP"}

# sqlglot's messages, where they speak of its own insides, in words for the query's author
READABLE = (
    (re.compile(r"Required (?:keyword|argument).*"), "an operand is missing"),
    (re.compile(r"Expected table name.*"), "expected the name of a stream"),
    (re.compile(r"Expecting (.*)"), r"expected \1"),
    (re.compile(r"Invalid expression / Unexpected token"), "this is not expected here"),
    (re.compile(r"The number of provided arguments.*"), "too many arguments"),
)


class _Parser(Parser):
    """sqlglot's parser, made to note the places of TRUE and FALSE as it does those of literals."""

    PRIMARY_PARSERS = {  # noqa: RUF012 - read only
        **Parser.PRIMARY_PARSERS,
        TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
    }


class Sql:
    """A SELECT statement as sqlglot's tree, and where its parts are.

    ``tokens`` are those of the statement without its windows; offsets count from the start of
    the whole text, of which ``source`` takes care.
    """

    def __init__(self, source: QueryText, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self._starts = [token.start for token in tokens]
        self._check_tokens()
        self.tree = self._parse()
        self._check_words()

    def error(self, message: str, node: exp.Expr) -> QueryError:
        """Return the error ``message`` pointing at the first operand or name of ``node``."""
        return self.source.error(message, self.start(node))

    def start(self, node: exp.Expr) -> int:
        """Return where ``node`` begins, opening parentheses left out."""
        starts = (part.meta["start"] for part in node.walk() if "start" in part.meta)
        return int(min(starts, default=self.tokens[0].start))

    def end(self, node: exp.Expr) -> int | None:
        """Return where the last located part of ``node`` ends, closing parentheses left out."""
        return max(
            (part.meta["end"] + 1 for part in node.walk() if "end" in part.meta), default=None
        )

    def operator(self, node: exp.Expr) -> int:
        """Return where the operator of ``node`` is, or the start of ``node`` if it has none."""
        if isinstance(node, exp.Neg):
            index = bisect_left(self._starts, self.start(node)) - 1
            while self.tokens[index].text == "(":
                index -= 1
            return self.tokens[index].start
        left_end = self.end(node.this) if isinstance(node, exp.Binary) else None
        if left_end is None:
            return self.start(node)
        index = bisect_left(self._starts, left_end)
        while self.tokens[index].text == ")":
            index += 1
        return self.tokens[index].start

    def keyword(self, word: str) -> int:
        """Return where the keyword ``word`` stands first."""
        return next(token.start for token in self.tokens if token.upper == word)

    def spelling(self, node: exp.Expr) -> str:
        """Return the word in the text that ``node`` itself was read from, as a function's name."""
        return self.source.text[node.meta["start"] : node.meta["end"] + 1]

    def _check_tokens(self) -> None:
        """Refuse what can be told without a parser, or what sqlglot takes without a word."""
        for token, following in pairwise(self.tokens):
            if token.kind == "symbol" and token.text not in SIGNS:
                raise self.source.error(f"{token} is not supported; {LANGUAGE}", token.start)
            if following.upper == "SELECT":
                raise self.source.error(
                    "A query has one SELECT, and this is another one; subqueries are not supported",
                    following.start,
                )
            if token.upper in OPENING and following.upper in CLOSING:
                raise self.source.error(
                    f"Expected something after {OPENING[token.upper]}, found {following}",
                    following.start,
                )

    def _check_words(self) -> None:
        """Refuse words that are neither keywords of the language nor names nor functions."""
        located = {part.meta["start"] for part in self.tree.walk() if "start" in part.meta}
        for token in self.tokens:
            word = token.upper
            if token.kind == "word" and word not in KEYWORDS and token.start not in located:
                raise self.source.error(
                    f"{word} is not supported; {ADVICE.get(word, LANGUAGE)}", token.start
                )

    def _parse(self) -> exp.Expr:
        text = self.source.only(self.tokens)
        parser = _Parser(error_message_context=len(text))
        try:
            tree = parser.parse(sqlglot.tokenize(text), text)[0]
        except ParseError as error:
            raise self._readable(error) from None
        except RecursionError:
            raise self.source.error("The SQL is nested too deeply", self.tokens[0].start) from None
        assert tree is not None, "there are tokens"
        return tree

    def _readable(self, error: ParseError) -> QueryError:
        first = error.errors[0]
        reason = str(first["description"])
        for pattern, words in READABLE:
            reason = pattern.sub(words, reason)
        # the context is all the text ahead, as asked for
        return self.source.error(
            f"The SQL cannot be read at {first['highlight']}: {reason}",
            len(str(first["start_context"])),
        )
