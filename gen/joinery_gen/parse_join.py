"""The SELECT of a join to its model."""

from collections.abc import Sequence

from sqlglot import exp

from joinery.expr import Bool, Column, Const, ExprError
from joinery.tuples import IntType

from .parse_expr import logic
from .parse_list import Item, ListBuilder
from .query import JoinQuery, Output, RowWindow, Source, TimeWindow


class JoinBuilder(ListBuilder):
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
        items: list[Item] = []
        starred: list[bool] = []
        for item in self.items(select):
            columns = self._star(item.value)
            if columns is not None and item.alias is not None:
                raise self.sql.error("* stands for several columns and takes no AS", item.node)
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
        sources = self.scope.among(node) if isinstance(node, exp.Column) else self.scope.sources
        return [
            Output(field.name, Column(source.alias, field.name, field.type))
            for source in sources
            for field in source.schema
        ]

    def _output(self, item: Item) -> Output:
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
