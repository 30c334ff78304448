"""sqlglot's expressions to Joinery's: columns resolved, types checked, places kept for errors."""

from collections.abc import Sequence

from sqlglot import exp

from joinery.expr import (
    Abs,
    Arith,
    Bitwise,
    Bool,
    Column,
    Compare,
    Const,
    Expr,
    ExprError,
    Logic,
    Negate,
    Not,
    Number,
)
from joinery.tuples import TimestampType

from .parse_sql import EXPRESSIONS, Sql
from .parse_text import did_you_mean
from .query import QueryError, Source

SUPPORTED = f"supported are {EXPRESSIONS}"
LONE_TIMESTAMP = "A TIMESTAMP literal stands beside a TIMESTAMP column, whose unit it takes"
MOST_BITS = 126  # what a DECIMAL of 38 digits holds, so that files and Spark keep every value
MOST_DEPTH = 100  # of operators inside each other

COMPARE: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
ARITH: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
BITWISE: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.Avg: "avg",
    exp.Median: "median",
}


class Scope:
    """The columns that an expression can name: those of ``sources``."""

    def __init__(self, sql: Sql, sources: Sequence[Source]) -> None:
        self.sql = sql
        self.sources = sources

    def source(self, name: exp.Identifier) -> Source:
        """Return the source that is called ``name``."""
        for source in self.sources:
            if source.alias == name.name:
                return source
        aliases = [source.alias for source in self.sources]
        raise self.sql.error(
            f"Nothing in FROM is called {name.name}{did_you_mean(name.name, aliases)}; "
            f"it has {' and '.join(aliases)}",
            name,
        )

    def column(self, node: exp.Column) -> Column:
        """Return the column that ``node`` names, with or without its source."""
        among = self.among(node)
        found = [source for source in among if node.name in source.schema]
        if len(found) == 1:
            return Column(found[0].alias, node.name, found[0].schema[node.name])
        if found:
            choices = " or ".join(f"{source.alias}.{node.name}" for source in found)
            raise self.sql.error(f"Column {node.name} is ambiguous; write {choices}", node)
        raise self._unknown(node, among)

    def among(self, node: exp.Column) -> Sequence[Source]:
        """Return the sources that ``node`` can be of: the one it names, or all."""
        if node.args.get("db"):
            raise self.sql.error("A column is written column or source.column", node)
        table = node.args.get("table")
        return [self.source(table)] if table else self.sources

    def _unknown(self, node: exp.Column, among: Sequence[Source]) -> QueryError:
        names = [name for source in among for name in source.schema.names]
        columns = "; ".join(f"{s.alias} has {', '.join(s.schema.names)}" for s in among)
        return self.sql.error(
            f"There is no column {node.sql()}{did_you_mean(node.name, names)}; {columns}", node.this
        )


class ExprBuilder:
    """Builds the typed tree of an expression, or says where and why it cannot be."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.sql = scope.sql
        self._depth = 0

    def build(self, node: exp.Expr) -> Expr:
        """Return the expression of ``node``. Its types and widths have been checked."""
        if self._depth > MOST_DEPTH:
            raise self.sql.error(f"More than {MOST_DEPTH} operators are inside each other", node)
        self._depth += 1
        try:
            return self._build(node.unnest())
        finally:
            self._depth -= 1

    def _build(self, node: exp.Expr) -> Expr:
        kind = type(node)
        if kind in COMPARE:
            left, right = self._together(node.this, node.expression)
            return self._checked(node, Compare(COMPARE[kind], left, right))
        if kind in ARITH:
            left, right = self._together(node.this, node.expression)
            return self._checked(node, Arith(ARITH[kind], left, right))
        if kind in BITWISE:
            return self._bitwise(node)
        match node:
            case exp.Column(this=exp.Identifier()):
                return self.scope.column(node)
            case exp.Literal():
                return self._literal(node)
            case exp.Boolean():
                return Const(int(node.this), Bool())
            case exp.And() | exp.Or():
                return self._logic(node)
            case exp.Not():
                return Not(self.condition(node.this, "NOT"))
            case exp.Neg():
                return self._negative(node)
            case exp.Abs():
                operand = self.build(node.this)
                return self._checked(node, Abs(operand))
            case exp.Between():
                return self._between(node)
            case exp.In(expressions=[_, *_]):
                return self._in(node)
        raise self._refused(node)

    def condition(self, node: exp.Expr, what: str) -> Expr:
        """Return the expression of ``node``, which must be a condition, for ``what``."""
        expr = self.build(node)
        if not isinstance(expr.type, Bool):
            raise self.sql.error(f"{what} takes a condition, and this is a {expr.type}", node)
        return expr

    def _checked(self, node: exp.Expr, expr: Expr) -> Expr:
        """Return ``expr``, made of ``node``, once its type is known to be right and narrow."""
        try:
            width = expr.type.bits[0] if isinstance(expr.type, Number) else 0
        except ExprError as error:
            raise self.sql.source.error(str(error), self.sql.operator(node)) from None
        if width > MOST_BITS:
            raise self.sql.source.error(
                f"The result can have {width} bits, and {MOST_BITS} is the most",
                self.sql.operator(node),
            )
        return expr

    def _literal(self, node: exp.Expr) -> Expr:
        if node.is_string:
            try:
                return Const.text(node.name)
            except ValueError as error:
                raise self.sql.error(str(error), node) from None
        whole, _, decimals = node.name.partition(".")
        return self._checked(node, Const.number(int(whole + decimals), len(decimals)))

    def _negative(self, node: exp.Expr) -> Expr:
        operand = self.build(node.this)
        if isinstance(operand, Const) and isinstance(operand.type, Number):
            return self._checked(node, Const.number(-operand.value, operand.type.scale))
        return self._checked(node, Negate(operand))

    def _logic(self, node: exp.Expr) -> Expr:
        op = "AND" if isinstance(node, exp.And) else "OR"
        terms = [self.condition(term, op) for term in node.flatten()]
        return logic(op, terms)

    def _bitwise(self, node: exp.Expr) -> Expr:
        op = BITWISE[type(node)]
        inner = BITWISE.get(type(node.this), op)
        if inner != op:  # left to right in Postgres, & then ^ then | in Spark and in C
            raise self.sql.source.error(
                f"{inner} and {op} side by side mean different things in different databases; "
                "add parentheses",
                self.sql.operator(node),
            )
        left, right = self.build(node.this), self.build(node.expression)
        return self._checked(node, Bitwise(op, left, right))

    def _between(self, node: exp.Expr) -> Expr:
        value, low, high = self._together(node.this, node.args["low"], node.args["high"])
        ends = [
            self._checked(node, Compare(">=", value, low)),
            self._checked(node, Compare("<=", value, high)),
        ]
        return logic("AND", ends)

    def _in(self, node: exp.Expr) -> Expr:
        value, *choices = self._together(node.this, *node.expressions)
        tests = [
            self._checked(item, Compare("=", value, choice))
            for item, choice in zip(node.expressions, choices, strict=True)
        ]
        return logic("OR", tests)

    def _together(self, *nodes: exp.Expr) -> list[Expr]:
        """Build operands of one operator; a TIMESTAMP literal takes its unit from the others."""
        built = {index: self.build(n) for index, n in enumerate(nodes) if not _is_timestamp(n)}
        units = {e.type.unit for e in built.values() if isinstance(e.type, Number) and e.type.unit}
        for index, node in enumerate(nodes):
            if index not in built:
                built[index] = self._timestamp(node.unnest(), units)
        return [built[index] for index in range(len(nodes))]

    def _timestamp(self, node: exp.Expr, units: set[str]) -> Expr:
        if len(units) != 1:
            raise self.sql.error(LONE_TIMESTAMP, node)
        (unit,) = units
        try:
            raw = TimestampType(unit).encode(node.name)
        except ValueError as error:
            raise self.sql.error(str(error), node) from None
        return Const(raw, Number(raw, raw, 0, unit))

    def _refused(self, node: exp.Expr) -> QueryError:
        kind = type(node)
        if _is_timestamp(node):
            return self.sql.error(LONE_TIMESTAMP, node)
        if kind in AGGREGATES:
            return self.sql.error(
                f"{AGGREGATES[kind]}() is an aggregate; it stands alone in the SELECT list of a "
                "query over one stream",
                node,
            )
        named = isinstance(node, exp.Func) and "start" in node.meta
        what = f"Function {self.sql.spelling(node)}()" if named else "This"
        return self.sql.error(f"{what} is not supported in an expression; {SUPPORTED}", node)


def logic(op: str, terms: Sequence[Expr]) -> Expr:
    """Return ``terms`` joined by ``op`` in one node, terms that are such nodes taken apart."""
    flat: list[Expr] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, Logic) and term.op == op else [term])
    return flat[0] if len(flat) == 1 else Logic(op, tuple(flat))


def _is_timestamp(node: exp.Expr) -> bool:
    """Tell whether ``node`` is ``TIMESTAMP '...'``, in parentheses or not."""
    node = node.unnest()
    return (
        isinstance(node, exp.Cast)
        and node.to.is_type(exp.DataType.Type.TIMESTAMP)
        and isinstance(node.this, exp.Literal)
        and bool(node.this.is_string)
    )
