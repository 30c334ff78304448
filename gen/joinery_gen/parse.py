"""Query text to the typed model: the front end of Joinery.

A query file declares its streams and has a SELECT over one or two of them, each with a window in
brackets. It may have several SELECTs, if they are aggregates over time windows of the same stream
that agree in WATTR, SLACK and GROUP BY; then one design serves all of them, and they share panes,
as long as the greatest common divisor of all RANGEs and SLIDEs::

    file      = stream ";" {stream ";"} select {";" select} [";"] ;
    stream    = "CREATE" "STREAM" name "(" name type {"," name type} ")" ;
    type      = "TINYINT" | "SMALLINT" | "INT" ["(" bits ")"] | "BIGINT" | "UINT" "(" bits ")"
              | "BOOLEAN" | "DECIMAL" "(" digits ["," decimals] ")" | "STRING" "(" bytes ")"
              | "TIMESTAMP" "(" ("s" | "ms" | "us") ")" ;
    select    = SQL with FROM source [("," | ["INNER" | "CROSS"] "JOIN") source ["ON" condition]]
    source    = name window [["AS"] alias] | name ["AS"] alias window ;

    window    = "[" clause {clause} "]" ;             (* any order, each clause once *)
    clause    = "ROWS" count | "RANGE" time | "SLIDE" (time | count) | "WATTR" column
              | "SLACK" time | "PARTITION" "BY" column {"," column} ;
    time      = number [unit] ;                       (* no unit: steps of an integer WATTR *)
    unit      = ("MICROSECOND" | "MILLISECOND" | "SECOND" | "MINUTE" | "HOUR" | "DAY") ["S"] ;

    of a join       [ROWS n]   or   [RANGE t WATTR c {SLACK k}]
    of an aggregate [RANGE t SLIDE u WATTR c {SLACK k}]
                    [PARTITION BY key ROWS n {SLIDE a}]               (* SLIDE 1 by default *)
                    [PARTITION BY key RANGE t SLIDE u WATTR c {SLACK k}]

Keywords and functions may be written in any case; names are taken as written, and two names that
differ only in case are refused. The brackets and ``CREATE STREAM`` are read here, the SQL by
sqlglot. Every error is a :class:`~joinery_gen.query.QueryError` that points into the text.

Operators, those that bind most tightly first: ``-`` of one operand; ``*``; ``+ -``; ``& ^ |`` (one
kind, or parentheses); ``BETWEEN``, ``IN``; ``< <= > >=``; ``= <>``; ``NOT``; ``AND``; ``OR``.
Those of one kind go from left to right.

The columns of a join's result are named after AS or after the column. ``*`` gives the columns of
both sources and ``a.*`` those of one; a column that comes from a star and whose name another
column of the result has too is called ``<alias>_<column>``. An aggregate without AS is called
``<function>_<column>``, and ``count(*)`` is called ``count``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from .brackets import AGGREGATE_FORMS, JOIN_FORMS, Window, read_window
from .parse_aggregate import AggregateBuilder
from .parse_expr import Scope
from .parse_join import JoinBuilder
from .parse_sql import Sql
from .parse_stream import read_stream
from .parse_text import QueryText, Reader, Token, did_you_mean
from .query import (
    AggregateQuery,
    JoineryError,
    JoinQuery,
    Query,
    SlidingWindow,
    Source,
    Stream,
    share_panes,
)

__all__ = ["parse", "parse_file"]


def parse(text: str, name: str = "query") -> Query:
    """Return the query that ``text`` has, or raise :class:`QueryError`."""
    return _parse(QueryText(name, text), name)


def parse_file(path: str | Path) -> Query:
    """Return the query in the file ``path``, named after it without its suffix."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except OSError as error:
        raise JoineryError(f"The query {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise JoineryError(
            f"The query {path} is not UTF-8 text: byte {error.start} cannot be read"
        ) from None
    return _parse(QueryText(str(path), text), path.stem)


def _parse(source: QueryText, name: str) -> Query:
    statements = _statements(source)
    streams: list[Stream] = []
    selects = [tokens for tokens in statements if tokens[0].upper == "SELECT"]
    for tokens in statements[: -len(selects)]:
        stream = read_stream(Reader(source, tokens))
        if any(stream.name.lower() == other.name.lower() for other in streams):
            raise source.error(f"Stream {stream.name} is declared twice", tokens[2].start)
        streams.append(stream)
    first, *others = (_Select(source, tokens, streams).body() for tokens in selects)
    if not others:
        return Query(name, source.text, tuple(streams), first)
    for tokens, other in zip(selects[1:], others, strict=True):
        if problem := _apart(first, other):
            raise source.error(f"A query file may have several SELECTs {problem}", tokens[0].start)
    aggregates = [body for body in (first, *others) if isinstance(body, AggregateQuery)]
    body, *more = share_panes(aggregates)
    return Query(name, source.text, tuple(streams), body, tuple(more))


def _apart(first: JoinQuery | AggregateQuery, other: JoinQuery | AggregateQuery) -> str:
    """Return why two SELECTs cannot be in one design; nothing, where they can."""
    if not isinstance(first, AggregateQuery) or not isinstance(other, AggregateQuery):
        return "where they are aggregates, and there is a join among these"
    windows = first.source.window, other.source.window
    if not all(isinstance(window, SlidingWindow) for window in windows) or (
        first.partitioned or other.partitioned
    ):
        return "where their windows are [RANGE t SLIDE u WATTR c SLACK k], and this one is not"
    shared = {
        "stream under one name": lambda body: (body.source.stream, body.source.alias),
        "WATTR column": lambda body: body.source.window.wattr,
        "SLACK": lambda body: body.source.window.slack,
        "GROUP BY": lambda body: body.group_by,
    }
    for what, of in shared.items():
        if of(first) != of(other):
            return f"where they have the same {what}, and this one has another than the first"
    return ""


def _statements(source: QueryText) -> list[list[Token]]:
    """Return the tokens of each statement with an ``end``: the streams, then the SELECTs."""
    *tokens, end = source.scan()
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ";":
            statements[-1].append(Token("end", "", token.start, token.start))
            statements.append([])
        else:
            statements[-1].append(token)
    statements[-1].append(end)
    statements = [statement for statement in statements if len(statement) > 1]
    for statement in statements:
        first = statement[0]
        if first.upper not in ("CREATE", "SELECT"):
            raise source.error(f"Expected CREATE STREAM or SELECT, found {first}", first.start)
    selects = [statement for statement in statements if statement[0].upper == "SELECT"]
    if not selects:
        raise source.error(
            "There is no SELECT; a query declares streams and selects from them", end.end
        )
    after = statements[statements.index(selects[0]) + 1 :]
    if late := [statement for statement in after if statement not in selects]:
        raise source.error(
            "No stream is declared after a SELECT; a query declares its streams first",
            late[0][0].start,
        )
    if len(statements) == len(selects):
        raise source.error(
            "No stream is declared; write CREATE STREAM name (column TYPE, ...); first",
            selects[0][0].start,
        )
    return statements


@dataclass(frozen=True)
class _Placed:
    """A window and the end of the token ahead of it, which tells whose it is."""

    window: Window
    after: int


def _cut_windows(source: QueryText, tokens: Sequence[Token]) -> tuple[list[Token], list[_Placed]]:
    """Take the windows out of a statement; return the rest and the windows."""
    rest: list[Token] = []
    windows: list[_Placed] = []
    opened: int | None = None  # the index of the bracket that is open
    for index, token in enumerate(tokens):
        if opened is not None and token.text in ("[", ""):
            raise source.error("This bracket is never closed", tokens[opened].start)
        if token.text == "]":
            if opened is None:
                raise source.error("There is no [ for this bracket", token.start)
            inside = [*tokens[opened + 1 : index], Token("end", "", token.start, token.start)]
            window = read_window(Reader(source, inside), tokens[opened].start)
            windows.append(_Placed(window, rest[-1].end))
            opened = None
        elif token.text == "[":
            opened = index
        elif opened is None:
            rest.append(token)
    return rest, windows


class _Select:
    """One SELECT statement on its way to the model."""

    def __init__(self, source: QueryText, tokens: Sequence[Token], streams: Sequence[Stream]):
        rest, self.windows = _cut_windows(source, tokens)
        self.sql = Sql(source, rest)
        self.source = source
        self.streams = streams

    def body(self) -> JoinQuery | AggregateQuery:
        select = self.sql.tree
        if not select.args.get("from_"):
            raise self.source.error(
                "FROM is missing; name one or two streams with their windows",
                self.sql.tokens[-1].start,
            )
        joins = select.args.get("joins") or []
        tables = [select.args["from_"].this, *(join.this for join in joins)]
        if len(tables) > 2:
            raise self.sql.error(
                "A third stream cannot be joined; a query has one or two", tables[2]
            )
        sources = self._sources(tables)
        scope = Scope(self.sql, sources)
        where = select.args.get("where")
        if len(sources) == 2:
            return JoinBuilder(scope).build(select, joins[0].args.get("on"), where)
        return AggregateBuilder(scope, self.windows[0].window).build(select, where)

    def _sources(self, tables: Sequence[exp.Expr]) -> list[Source]:
        sources: list[Source] = []
        unused = list(self.windows)
        for table in tables:
            stream, alias = self._stream(table)
            if any(alias.name.lower() == other.alias.lower() for other in sources):
                raise self.sql.error(
                    f"Two streams in FROM are called {alias.name}; give each its own name with AS",
                    alias,
                )
            ends = {self.sql.end(table.this), self.sql.end(alias)}
            mine = [placed for placed in unused if placed.after in ends]
            forms = JOIN_FORMS if len(tables) == 2 else AGGREGATE_FORMS
            if not mine:
                raise self.sql.error(f"Stream {stream.name} has no window; {forms}", table)
            if len(mine) > 1:
                raise self.source.error(
                    f"Stream {stream.name} has two windows; it takes one", mine[1].window.start
                )
            unused.remove(mine[0])
            window = mine[0].window
            resolve = window.for_join if len(tables) == 2 else window.for_aggregate
            sources.append(Source(alias.name, stream, resolve(stream.schema)))
        if unused:
            raise self.source.error(
                "A window stands after a stream in FROM, and this one does not",
                unused[0].window.start,
            )
        return sources

    def _stream(self, table: exp.Expr) -> tuple[Stream, exp.Identifier]:
        """Return the stream that ``table`` names, and the identifier that it goes by."""
        names = [stream.name for stream in self.streams]
        more = [key for key, value in table.args.items() if value and key not in ("this", "alias")]
        alias = table.args.get("alias")
        if (
            not isinstance(table, exp.Table)
            or not isinstance(table.this, exp.Identifier)
            or more
            or (alias and alias.args.get("columns"))
        ):
            raise self.sql.error(
                "FROM takes declared streams only, as name [window] AS alias", table
            )
        for stream in self.streams:
            if stream.name == table.name:
                identifier = alias.this if alias else table.this
                self.source.check_name(identifier.name, self.sql.start(identifier))
                return stream, identifier
        raise self.sql.error(
            f"No stream is called {table.name}{did_you_mean(table.name, names)}; "
            f"declared are {', '.join(names)}",
            table,
        )
