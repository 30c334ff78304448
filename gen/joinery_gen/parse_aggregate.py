"""The SELECT of an aggregate over one stream to its model."""

from sqlglot import exp

from joinery.expr import Column, Expr, Number

from .brackets import Window, find_column
from .parse_expr import AGGREGATES, Scope
from .parse_list import Item, ListBuilder
from .query import AggregateOutput, AggregateQuery, KeyOutput, SlidingWindow, WindowEndOutput

SUPPORTED_AGGREGATES = "count, sum, min, max, avg and, with PARTITION BY, median"


class AggregateBuilder(ListBuilder):
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
        stars = [node for node in plain if isinstance(node.this, exp.Star)]
        if len(plain) != len(group.expressions) or stars:
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

    def _output(self, item: Item) -> KeyOutput | WindowEndOutput | AggregateOutput:
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

    def _aggregate(self, item: Item, node: exp.Expr) -> AggregateOutput:
        function = AGGREGATES[type(node)]
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
