"""What each side of a join predicate can compute alone, before tuples meet.

A unit of the pipeline is repeated hundreds of times, so whatever depends on one side only is taken
out of it: for a stream tuple it is computed once, on the way in, and for a window tuple once per
pass. To find more of that, comparisons are brought into a form in which the sides are apart:

* ``s.x - w.x <= 5`` becomes ``s.x <= w.x + 5``: its terms apart;
* ``abs(a) + abs(b) <= c`` becomes four linear comparisons, ``a + b <= c`` and so on for each
  combination of signs. The four have two different left sides, so a unit keeps two numbers and
  compares each with two ends, without any sum, difference or magnitude of its own;
* ``(a ^ b) & mask = 0`` becomes ``a & mask = b & mask``.

All of it is exact: numbers are integers in which nothing wraps, as everywhere in `joinery.expr`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ..expr import (
    Abs,
    Arith,
    Bitwise,
    Bool,
    Column,
    Compare,
    Const,
    Expr,
    Logic,
    Negate,
    Not,
    Number,
    columns_of,
)
from ..expr.simplify import MIRRORED, simplify
from ..tuples import BoolType, ColumnType

__all__ = ["RangeType", "Split", "live_bits", "split_predicate"]

MOST_MAGNITUDES = 3
"""Magnitudes that one comparison may have: each doubles the comparisons that it becomes."""


@dataclass(frozen=True)
class RangeType(ColumnType):
    """Whole numbers from ``least`` to ``most``: the type of a column that a side computes."""

    least: int
    most: int

    @property
    def low(self) -> int:
        return self.least

    @property
    def high(self) -> int:
        return self.most

    @property
    def sql(self) -> str:
        return f"integer from {self.least} to {self.most}"

    def encode(self, value: int) -> int:
        return self._in_range(value, value)

    def decode(self, raw: int) -> int:
        return raw


@dataclass(frozen=True)
class Split:
    """A predicate taken apart.

    ``stream`` and ``window`` say what each side computes from its own columns, by name; the
    columns of ``predicate`` are these names.
    """

    stream: dict[str, Expr]
    window: dict[str, Expr]
    predicate: Expr


def split_predicate(predicate: Expr, stream: str, window: str) -> Split:
    """Take ``predicate`` apart for the sources ``stream`` and ``window``."""
    parts = _Parts(stream, window)
    apart = parts.hoist(_bring_apart(simplify(predicate), stream))
    return Split(parts.found[stream], parts.found[window], apart)


def live_bits(expr: Expr) -> list[int]:
    """Return which bits of the value of ``expr`` need keeping; the others are always zero."""
    width, _ = expr.type.bits
    if isinstance(expr, Bitwise) and expr.op == "&":
        for operand in expr.operands:
            if isinstance(operand, Const) and operand.value >= 0:
                return [bit for bit in range(width) if operand.value >> bit & 1]
    return list(range(width))


@dataclass
class _Parts:
    """The columns that are computed on one side, as they are found."""

    stream: str
    window: str
    found: dict[str, dict[str, Expr]] = field(init=False)

    def __post_init__(self) -> None:
        self.found = {self.stream: {}, self.window: {}}

    def hoist(self, expr: Expr) -> Expr:
        """Replace the largest parts of ``expr`` that read one side by columns."""
        sources = {source for source, _ in columns_of(expr)}
        if isinstance(expr, Column):
            raw = _as_integer(expr) if isinstance(expr.type, Number) else expr
            return self._named(expr.source, expr.name, raw or expr, expr.column)
        if len(sources) == 1 and (kind := _plain_type(expr)) is not None:
            (source,) = sources
            return self._named(source, f"part_{len(self.found[source])}", expr, kind)
        return _with_operands(expr, self.hoist)

    def _named(self, source: str, name: str, expr: Expr, kind: ColumnType) -> Column:
        for known, other in self.found[source].items():
            if other == expr:
                return Column(source, known, kind)
        while name in self.found[source]:
            name += "_"
        self.found[source][name] = expr
        return Column(source, name, kind)


def _plain_type(expr: Expr) -> ColumnType | None:
    """The type of a column that holds ``expr``; None where there is none of the same meaning."""
    kind = expr.type
    if isinstance(kind, Bool):
        return BoolType()
    if isinstance(kind, Number) and not kind.scale and not kind.unit:
        return RangeType(kind.low, kind.high)
    return None


def _with_operands(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    match expr:
        case Arith() | Bitwise() | Compare():
            return type(expr)(expr.op, change(expr.left), change(expr.right))
        case Abs() | Negate() | Not():
            return type(expr)(change(expr.operand))
        case Logic():
            return Logic(expr.op, tuple(change(term) for term in expr.terms))
    return expr


def _bring_apart(expr: Expr, stream: str) -> Expr:
    """Rewrite every comparison of ``expr`` that has both sides in it."""
    if isinstance(expr, Logic | Not):
        return _with_operands(expr, lambda operand: _bring_apart(operand, stream))
    if not isinstance(expr, Compare) or len({source for source, _ in columns_of(expr)}) < 2:
        return expr
    if not isinstance(expr.left.type, Number) or not isinstance(expr.right.type, Number):
        return expr
    scale = max(expr.left.type.scale, expr.right.type.scale)
    difference = _Linear.of(expr.left, scale).plus(_Linear.of(expr.right, scale), -1)
    magnitudes = [atom for atom in difference.terms if _is_mixed(atom) and isinstance(atom, Abs)]
    if len(magnitudes) <= MOST_MAGNITUDES and expr.op not in ("=", "<>"):
        return difference.without_magnitudes(expr.op, stream) or expr
    return difference.apart(expr.op, stream) or _masked(expr) or expr


def _masked(expr: Compare) -> Expr | None:
    """``(a ^ b) & mask = 0`` as ``a & mask = b & mask``."""
    if expr.op not in ("=", "<>"):
        return None
    for tested, zero in (expr.operands, expr.operands[::-1]):
        if zero != Const.number(0) or not isinstance(tested, Bitwise) or tested.op != "&":
            continue
        for both, mask in (tested.operands, tested.operands[::-1]):
            if isinstance(both, Bitwise) and both.op == "^" and isinstance(mask, Const):
                sides = (Bitwise("&", operand, mask) for operand in both.operands)
                return Compare(expr.op, *sides)
    return None


def _is_mixed(expr: Expr) -> bool:
    return len({source for source, _ in columns_of(expr)}) > 1


@dataclass(frozen=True)
class _Linear:
    """A sum of whole multiples of ``terms``, and ``constant``, as plain integers."""

    terms: dict[Expr, int]
    constant: int

    @classmethod
    def of(cls, expr: Expr, scale: int) -> "_Linear":
        """Return the number ``expr`` with ``scale`` digits after the point."""
        kind = expr.type
        assert isinstance(kind, Number)
        factor = 10 ** (scale - kind.scale)
        match expr:
            case Const():
                return cls({}, expr.value * factor)
            case Arith(op="+" | "-"):
                sign = 1 if expr.op == "+" else -1
                return cls.of(expr.left, scale).plus(cls.of(expr.right, scale), sign)
            case Negate():
                return cls({}, 0).plus(cls.of(expr.operand, scale), -1)
            case (
                Arith(op="*", left=Const() as number, right=other)
                | Arith(op="*", left=other, right=Const() as number)
            ):
                assert isinstance(other.type, Number)
                within = cls.of(other, other.type.scale)
                return cls({}, 0).plus(within, number.value * factor)
        return cls({expr: factor}, 0)

    def plus(self, other: "_Linear", factor: int) -> "_Linear":
        terms = dict(self.terms)
        for atom, count in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor * count
        return _Linear(
            {atom: count for atom, count in terms.items() if count},
            self.constant + factor * other.constant,
        )

    def without_magnitudes(self, op: str, stream: str) -> Expr | None:
        """This ``op`` zero, for an order: |a| <= c is a <= c and -a <= c; >= takes either."""
        for atom, count in self.terms.items():
            if isinstance(atom, Abs) and _is_mixed(atom):
                assert isinstance(atom.operand.type, Number)
                inside = _Linear.of(atom.operand, atom.operand.type.scale)
                rest = self.plus(_Linear({atom: 1}, 0), -count)
                cases = [
                    rest.plus(inside, sign * count).without_magnitudes(op, stream)
                    for sign in (1, -1)
                ]
                found = tuple(case for case in cases if case is not None)
                every = (count > 0) == (op in ("<", "<="))
                return Logic("AND" if every else "OR", found) if len(found) == 2 else None
        return self.apart(op, stream)

    def apart(self, op: str, stream: str) -> Expr | None:
        """This ``op`` zero, with the stream's terms to the left and the window's to the right."""
        sides: dict[bool, dict[Expr, int]] = {True: {}, False: {}}
        for atom, count in sorted(self.terms.items(), key=repr):
            plain = _as_integer(atom)
            if plain is None or _is_mixed(atom):
                return None
            ((source, _), *_) = columns_of(atom)
            sides[source == stream][plain] = count
        # Comparisons whose left sides are opposite are to share one.
        sign = -1 if next(iter(sides[True].values()), 1) < 0 else 1
        left = _Linear(sides[True], 0).expression(sign)
        right = _Linear(sides[False], self.constant).expression(-sign)
        return Compare(op if sign == 1 else MIRRORED[op], left, right)

    def expression(self, factor: int) -> Expr:
        """This sum times ``factor``."""
        found: Expr | None = None
        for atom, count in self.terms.items():
            size, op = abs(factor * count), "+" if factor * count > 0 else "-"
            term = atom if size == 1 else Arith("*", atom, Const.number(size))
            if found is None:
                found = term if op == "+" else Negate(term)
            else:
                found = Arith(op, found, term)
        constant = Const.number(abs(self.constant))
        if found is None:
            return Const.number(factor * self.constant)
        if not self.constant:
            return found
        return Arith("+" if factor * self.constant > 0 else "-", found, constant)


def _as_integer(atom: Expr) -> Expr | None:
    """The raw value of ``atom``, as a number without scale or unit."""
    if isinstance(atom, Column):
        return Column(atom.source, atom.name, RangeType(atom.column.low, atom.column.high))
    return None if _plain_type(atom) is None else atom
