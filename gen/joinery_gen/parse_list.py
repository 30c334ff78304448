"""What the SELECT lists of joins and aggregates share: their items, and the names of results."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from joinery.expr import Expr

from .parse_expr import ExprBuilder, Scope


@dataclass(frozen=True)
class Item:
    """One thing of the SELECT list: its expression and the name that AS gives it."""

    node: exp.Expr
    value: exp.Expr
    alias: str | None


class ListBuilder:
    """What joins and aggregates share: the items of the SELECT list and their names."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.sql = scope.sql
        self.exprs = ExprBuilder(scope)

    def items(self, select: exp.Expr) -> list[Item]:
        return [
            Item(node, node.this, self._name(node.args["alias"]))
            if isinstance(node, exp.Alias)
            else Item(node, node, None)
            for node in select.expressions
        ]

    def _name(self, identifier: exp.Expr) -> str:
        return self.sql.source.check_name(identifier.name, self.sql.start(identifier))

    def check_unique(self, names: Sequence[str], items: Sequence[Item]) -> None:
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
