"""Query text to the typed model: the front end of Joinery.

A query file declares its streams and has one SELECT over one or two of them, each with a window in
brackets::

    file      = stream ";" {stream ";"} select [";"] ;
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

The columns of a join's result are named after AS or after the column. ``*`` gives the columns of
both sources and ``a.*`` those of one; a column that comes from a star and whose name another
column of the result has too is called ``<alias>_<column>``. An aggregate without AS is called
``<function>_<column>``, and ``count(*)`` is called ``count``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from joinery.expr import Bool, Column, Const, Expr, ExprError, Number
from joinery.tuples import IntType

from .brackets import AGGREGATE_FORMS, JOIN_FORMS, Window, find_column, read_window
from .parse_expr import AGGREGATES, ExprBuilder, Scope, logic
from .parse_sql import Sql
from .parse_stream import read_stream
from .parse_text import QueryText, Reader, Token, did_you_mean
from .query import (
    AggregateOutput,
    AggregateQuery,
    JoineryError,
    JoinQuery,
    KeyOutput,
    Output,
    Query,
    RowWindow,
    SlidingWindow,
    Source,
    Stream,
    TimeWindow,
    WindowEndOutput,
)

__all__ = ["parse", "parse_file"]

CLAUSES = "a query has SELECT, FROM, WHERE and GROUP BY"
TWO_WORDS = {"ORDER": "ORDER BY", "SORT": "SORT BY", "CLUSTER": "CLUSTER BY"}
SUPPORTED_AGGREGATES = "count, sum, min, max, avg and, with PARTITION BY, median"


def parse(text: str, name: str = "query") -> Query:
    """Return the query that ``text`` has, or raise :class:`QueryError`."""
    return _parse(QueryText(name, text), name)


def parse_file(path: str | Path) -> Query:
    """Return the query in the file ``path``, named after it without its suffix."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
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
    for tokens in statements[:-1]:
        stream = read_stream(Reader(source, tokens))
        if any(stream.name.lower() == other.name.lower() for other in streams):
            raise source.error(f"Stream {stream.name} is declared twice", tokens[2].start)
        streams.append(stream)
    body = _Select(source, statements[-1], streams).body()
    return Query(name, source.text, tuple(streams), body)


def _statements(source: QueryText) -> list[list[Token]]:
    """Return the tokens of each statement with an ``end``: the streams, then the one SELECT."""
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
            raise source.error(
                f"Expected CREATE STREAM or SELECT, found {first}", statement[0].start
            )
    selects = [statement for statement in statements if statement[0].upper == "SELECT"]
    if not selects:
        raise source.error("There is no SELECT; a query declares streams and selects once", end.end)
    after = statements[statements.index(selects[0]) + 1 :]
    if after:
        raise source.error(
            "Nothing comes after the SELECT; a query declares its streams first and selects once",
            after[0][0].start,
        )
    if len(statements) == 1:
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


@dataclass(frozen=True)
class _Item:
    """One thing of the SELECT list: its expression and the name that AS gives it."""

    node: exp.Expr
    value: exp.Expr
    alias: str | None


class _Select:
    """One SELECT statement on its way to the model."""

    def __init__(self, source: QueryText, tokens: Sequence[Token], streams: Sequence[Stream]):
        rest, self.windows = _cut_windows(source, tokens)
        self.sql = Sql(source, rest)
        self.source = source
        self.streams = streams

    def body(self) -> JoinQuery | AggregateQuery:
        select = self.sql.tree
        self._check_clauses(select)
        if not select.args.get("from_"):
            raise self.source.error(
                "FROM is missing; name one or two streams with their windows",
                self.sql.tokens[-1].start,
            )
        if not select.expressions:
            raise self.source.error("The SELECT list is empty", self.sql.keyword("FROM"))
        joins = select.args.get("joins") or []
        tables = [select.args["from_"].this, *(join.this for join in joins)]
        if len(tables) > 2:
            raise self.sql.error(
                "A third stream cannot be joined; a query has one or two", tables[2]
            )
        for join in joins:
            self._check_join(join)
        sources = self._sources(tables)
        scope = Scope(self.sql, sources)
        where = select.args.get("where")
        if len(sources) == 2:
            return _JoinBuilder(scope).build(select, joins[0].args.get("on"), where)
        return _AggregateBuilder(scope, self.windows[0].window).build(select, where)

    def _check_clauses(self, select: exp.Expr) -> None:
        """Refuse every part of a SELECT that is not in the language."""
        if not isinstance(select, exp.Select):
            word = type(select).key.upper()
            raise self.source.error(f"{word} is not supported; {CLAUSES}", self.sql.keyword(word))
        known = {"expressions", "from_", "joins", "where", "group"}
        for argument, value in select.args.items():
            if value and argument not in known:
                word = argument.strip("_").upper()
                written = any(token.upper == word for token in self.sql.tokens)
                first = value[0] if isinstance(value, list) else value
                place = self.sql.keyword(word) if written else self.sql.start(first)
                raise self.source.error(
                    f"{TWO_WORDS.get(word, word)} is not supported; {CLAUSES}", place
                )

    def _check_join(self, join: exp.Expr) -> None:
        here = self.sql.start(join.this)
        for argument in ("method", "side", "kind"):
            word = join.args.get(argument)
            if word and word not in ("INNER", "CROSS"):
                raise self.source.error(
                    f"{word} JOIN is not supported; joins are inner: FROM r [...] JOIN s [...] ON "
                    "condition, or FROM r [...], s [...] WHERE condition",
                    self.sql.keyword(word, before=here),
                )
        if join.args.get("using"):
            name = join.args["using"][0]
            raise self.sql.error(
                f"USING is not supported; write ON r.{name.name} = s.{name.name}", name
            )

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


class _ListBuilder:
    """What joins and aggregates share: the items of the SELECT list and their names."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.sql = scope.sql
        self.exprs = ExprBuilder(scope)

    def items(self, select: exp.Expr) -> list[_Item]:
        return [
            _Item(node, node.this, self._name(node.args["alias"]))
            if isinstance(node, exp.Alias)
            else _Item(node, node, None)
            for node in select.expressions
        ]

    def _name(self, identifier: exp.Expr) -> str:
        return self.sql.source.check_name(identifier.name, self.sql.start(identifier))

    def check_unique(self, names: Sequence[str], items: Sequence[_Item]) -> None:
        """Refuse two columns of the same name. Spark does not tell names apart by their case."""
        seen: set[str] = set()
        for name, item in zip(names, items, strict=True):
            if name.lower() in seen:
                raise self.sql.error(
                    f"Two columns of the result are called {name}; rename one with AS", item.node
                )
            seen.add(name.lower())

    def where(self, where: exp.Expr | None) -> Expr | None:
        return self.exprs.condition(where.this, "WHERE") if where else None


class _JoinBuilder(_ListBuilder):
    """Builds the model of a join."""

    def build(self, select: exp.Expr, on: exp.Expr | None, where: exp.Expr | None) -> JoinQuery:
        left, right = self.scope.sources
        self._check_windows(left, right, select)
        if select.args.get("group"):
            raise self.sql.source.error(
                "GROUP BY belongs to aggregates over one stream, and this is a join",
                self.sql.keyword("GROUP"),
            )
        conditions = [self.exprs.condition(on, "ON")] if on else []
        filtered = self.where(where)
        if filtered is not None:
            conditions.append(filtered)
        predicate = logic("AND", conditions) if conditions else Const(1, Bool())
        return JoinQuery(left, right, predicate, self._outputs(select))

    def _check_windows(self, left: Source, right: Source, select: exp.Expr) -> None:
        a, b = left.window, right.window
        place = select.args["joins"][0].this
        if type(a) is not type(b):
            raise self.sql.error(
                "Both windows of a join are of one kind, [ROWS ...] or [RANGE ...]; "
                f"{left.alias} and {right.alias} have different ones",
                place,
            )
        if isinstance(a, RowWindow) or not (
            isinstance(a, TimeWindow) and isinstance(b, TimeWindow)
        ):
            return
        times = [left.schema[a.wattr], right.schema[b.wattr]]
        if times[0] != times[1] and not all(isinstance(time, IntType) for time in times):
            raise self.sql.error(
                "Both WATTR columns of a join count the same unit; "
                f"{left.alias}.{a.wattr} is {times[0].sql} and {right.alias}.{b.wattr} is "
                f"{times[1].sql}",
                place,
            )
        if a.range != b.range:
            raise self.sql.error(
                f"Both windows of a join have the same RANGE; {left.alias} has {a.range} and "
                f"{right.alias} has {b.range} units of its WATTR column",
                place,
            )

    def _outputs(self, select: exp.Expr) -> tuple[Output, ...]:
        outputs: list[Output] = []
        items: list[_Item] = []
        starred: list[bool] = []
        for item in self.items(select):
            columns = self._star(item.value)
            made = [self._output(item)] if columns is None else columns
            outputs += made
            items += [item] * len(made)
            starred += [columns is not None] * len(made)
        named = [
            _qualified(output) if star and _clashes(output, outputs) else output
            for output, star in zip(outputs, starred, strict=True)
        ]
        self.check_unique([output.name for output in named], items)
        return tuple(named)

    def _star(self, node: exp.Expr) -> list[Output] | None:
        """Return the columns that ``*`` or ``alias.*`` stands for, or None for anything else."""
        star = node.this if isinstance(node, exp.Column) else node
        if not isinstance(star, exp.Star):
            return None
        if any(star.args.values()):
            raise self.sql.error("* takes no EXCEPT, REPLACE or RENAME; list the columns", node)
        table = node.args.get("table")
        sources = [self.scope.source(table)] if table else self.scope.sources
        return [
            Output(field.name, Column(source.alias, field.name, field.type))
            for source in sources
            for field in source.schema
        ]

    def _output(self, item: _Item) -> Output:
        expr = self.exprs.build(item.value)
        name = item.alias
        if name is None:
            if not isinstance(expr, Column):
                raise self.sql.error("An expression in SELECT needs a name; add AS name", item.node)
            name = expr.name
        output = Output(name, expr)
        try:
            _ = output.type
        except ExprError as error:
            raise self.sql.source.error(str(error), self.sql.operator(item.value)) from None
        return output


def _clashes(output: Output, outputs: Sequence[Output]) -> bool:
    return sum(other.name.lower() == output.name.lower() for other in outputs) > 1


def _qualified(output: Output) -> Output:
    assert isinstance(output.expr, Column)
    return Output(f"{output.expr.source}_{output.name}", output.expr)


class _AggregateBuilder(_ListBuilder):
    """Builds the model of an aggregate over the one source of ``scope``."""

    def __init__(self, scope: Scope, window: Window) -> None:
        super().__init__(scope)
        self.window = window
        self.source = scope.sources[0]

    def build(self, select: exp.Expr, where: exp.Expr | None) -> AggregateQuery:
        self.partitioned = bool(self.window.keys)
        self.group_by = self._group_by(select.args.get("group"))
        items = self.items(select)
        outputs = [self._output(item) for item in items]
        if not any(isinstance(output, AggregateOutput) for output in outputs):
            raise self.sql.error(
                "The SELECT list of a query over one stream needs an aggregate: "
                f"{SUPPORTED_AGGREGATES}",
                items[0].node,
            )
        self.check_unique([output.name for output in outputs], items)
        return AggregateQuery(
            self.source, self.where(where), self.group_by, tuple(outputs), self.partitioned
        )

    @property
    def _wattr(self) -> str | None:
        window = self.source.window
        return window.wattr if isinstance(window, SlidingWindow) else None

    def _group_by(self, group: exp.Expr | None) -> tuple[Column, ...]:
        partition = self._partition()
        if group is None:
            return partition
        columns = self._group_columns(group)
        if partition and set(columns) != set(partition):
            names = ", ".join(column.name for column in partition)
            raise self.sql.source.error(
                f"GROUP BY has other columns than PARTITION BY {names}; leave GROUP BY out",
                self.sql.keyword("GROUP"),
            )
        return partition or columns

    def _partition(self) -> tuple[Column, ...]:
        columns: list[Column] = []
        for token in self.window.keys:
            column = find_column(self.sql.source, token, self.source.schema)
            self._add_key(columns, Column(self.source.alias, token.name, column), token.start)
        return tuple(columns)

    def _group_columns(self, group: exp.Expr) -> tuple[Column, ...]:
        columns: list[Column] = []
        plain = [node for node in group.expressions if isinstance(node, exp.Column)]
        others = [value for key, value in group.args.items() if value and key != "expressions"]
        if not plain or len(plain) != len(group.expressions) or others:
            raise self.sql.source.error(
                "GROUP BY takes columns of the stream, one or more", self.sql.keyword("GROUP")
            )
        for node in plain:
            self._add_key(columns, self.scope.column(node), self.sql.start(node))
        return tuple(columns)

    def _add_key(self, columns: list[Column], column: Column, offset: int) -> None:
        if column.name == self._wattr:
            raise self.sql.source.error(
                f"{column.name} is the WATTR column, and its windows are a grouping already; "
                "leave it out",
                offset,
            )
        if column in columns:
            raise self.sql.source.error(f"{column.name} is a key twice", offset)
        columns.append(column)

    def _output(self, item: _Item) -> KeyOutput | WindowEndOutput | AggregateOutput:
        node = item.value.unnest()
        if type(node) in AGGREGATES:
            return self._aggregate(item, node)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            raise self.sql.error(
                "The SELECT list of a query over one stream has key columns, the WATTR column and "
                f"aggregates, each by itself; aggregates are {SUPPORTED_AGGREGATES}",
                item.node,
            )
        column = self.scope.column(node)
        name = item.alias or column.name
        if column in self.group_by:
            return KeyOutput(name, column)
        if column.name == self._wattr:
            return WindowEndOutput(name, column)
        advice = "PARTITION BY" if self.partitioned else "GROUP BY"
        raise self.sql.error(
            f"{column.name} is neither a key nor the WATTR column nor in an aggregate; "
            f"add it to {advice}, or put an aggregate around it",
            node,
        )

    def _aggregate(self, item: _Item, node: exp.Expr) -> AggregateOutput:
        function = AGGREGATES[type(node)]
        if isinstance(node.this, exp.Distinct):
            raise self.sql.error(f"DISTINCT is not supported in {function}()", node)
        if node.this is None or node.expressions:
            raise self.sql.error(f"{function}() takes one argument", node)
        if function == "median" and not self.partitioned:
            raise self.sql.error(
                "median() needs a window with PARTITION BY; without it there are count, sum, min, "
                "max and avg",
                node,
            )
        if function == "count" and isinstance(node.this, exp.Star):
            return AggregateOutput(item.alias or "count", function, None)
        argument = self.exprs.build(node.this)
        name = item.alias
        if name is None:
            if not isinstance(argument, Column):
                raise self.sql.error(
                    f"{function}() of an expression needs a name; add AS name", node
                )
            name = f"{function}_{argument.name}"
        if function == "count":  # there are no nulls, so that every row counts
            return AggregateOutput(name, function, None)
        self._check_argument(function, argument, node)
        return self._typed(AggregateOutput(name, function, argument), node)

    def _check_argument(self, function: str, argument: Expr, node: exp.Expr) -> None:
        kind = argument.type
        moment = isinstance(kind, Number) and kind.unit is not None
        if not isinstance(kind, Number) or (moment and function not in ("min", "max")):
            what = "numbers and times" if function in ("min", "max") else "numbers"
            raise self.sql.error(f"{function}() takes {what}, and this is a {kind}", node.this)

    def _typed(self, output: AggregateOutput, node: exp.Expr) -> AggregateOutput:
        """Return ``output`` once its type is known to exist."""
        try:
            _ = output.type
        except ValueError as error:  # of ExprError, and of a DECIMAL with too many decimals
            raise self.sql.error(str(error), node) from None
        return output
