"""What is kept for each pane: one term for everything that the aggregates of all queries need.

Queries that ask for the same thing share its term. ``avg`` is a sum and a count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Const, Mux, Shape, Value

from ..aggregate import Aggregate, PaneQuery
from ..expr import Expr
from ..number import less
from ..tuples import bits_for_range

__all__ = ["PaneTerms", "Term"]


@dataclass(frozen=True)
class Term:
    """``kind`` is count, sum, min or max, of ``argument`` over the tuples that pass ``where``."""

    where: Expr | None
    kind: str
    argument: Expr | None = None

    def shape(self, rows: int) -> Shape:
        """Counts stop one above ``rows``, so that too many can be told; sums wrap."""
        if self.kind == "count":
            return Shape(*bits_for_range(0, rows + 1))
        found = Aggregate("", self.kind, self.argument).shape(rows)
        assert isinstance(found, Shape)
        return found

    @property
    def identity(self) -> int:
        """The value of no tuples at all."""
        if self.kind in ("count", "sum"):
            return 0
        assert self.argument is not None
        width, is_signed = self.argument.type.bits
        if self.kind == "min":
            return (1 << (width - is_signed)) - 1
        return -(1 << (width - 1)) if is_signed else 0

    def merge(self, left: Value, right: Value, rows: int) -> Value:
        """The value over the tuples of both."""
        match self.kind:
            case "count":
                total = left + right
                return Mux(total > rows, rows + 1, total)
            case "sum":
                return left + right
            case "min":
                return Mux(less(left, right), left, right)
        return Mux(less(right, left), left, right)


class PaneTerms:
    """The terms of all queries, and which of them each query reads."""

    def __init__(self, queries: Sequence[PaneQuery], rows: int) -> None:
        self.rows = rows
        self.queries = tuple(queries)
        found: dict[Term, None] = {}
        for query in queries:
            found.update(dict.fromkeys(self.of(query)))
        self.all = tuple(found)
        self.wheres = tuple(dict.fromkeys(query.where for query in queries))
        self.arguments = tuple(
            dict.fromkeys(term.argument for term in self.all if term.argument is not None)
        )

    @staticmethod
    def of(query: PaneQuery) -> list[Term]:
        """The terms of one query; the first one is its count."""
        found = [Term(query.where, "count")]
        for each in query.aggregates:
            if each.function != "count":
                kind = "sum" if each.function == "avg" else each.function
                found.append(Term(query.where, kind, each.argument))
        return list(dict.fromkeys(found))

    def shape(self, term: Term) -> Shape:
        return term.shape(self.rows)

    def identity(self, term: Term) -> Const:
        return Const(term.identity, self.shape(term))
