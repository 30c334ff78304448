"""What can be changed at run time: RANGE, SLIDE, SLACK and the constants of WHERE."""

from dataclasses import dataclass, replace
from functools import cached_property

from amaranth.hdl import Shape
from amaranth.lib import data

from ..aggregate import PaneQuery, PaneStream, Setting
from ..expr import Column, Compare, Const, Expr, Number, Text, ValueType, value_type
from ..expr.simplify import with_operands

__all__ = ["PaneSettings", "Register"]


@dataclass(frozen=True)
class Register(Column):
    """A constant that can be changed: a column that no tuple carries."""

    kind: ValueType
    initial: int

    @cached_property
    def type(self) -> ValueType:
        return self.kind

    @property
    def setting(self) -> Setting:
        about = "Constant of WHERE"
        if not isinstance(self.kind, Number):
            return Setting(self.name, 0, (1 << self.kind.bits[0]) - 1, self.initial, about)
        if self.kind.scale:
            about += f", times 10 ** {self.kind.scale}"
        return Setting(self.name, self.kind.low, self.kind.high, self.initial, about)


@dataclass(frozen=True)
class PaneSettings:
    """The settings of a build whose initial values are those of ``built``.

    RANGE may be as large as the largest built RANGE of all queries; SLIDE as the largest RANGE or
    SLIDE; SLACK as the largest of all. A constant of WHERE has the range of what it is compared
    with; one that is not compared, that of the narrowest column type that holds it.
    """

    stream: PaneStream
    built: tuple[PaneQuery, ...]

    @property
    def source(self) -> str:
        """The name under which conditions read the constants."""
        return f"{self.stream.name}_set"

    @property
    def most_range(self) -> int:
        return max(query.range for query in self.built)

    @property
    def most_slide(self) -> int:
        return max(self.most_range, *(query.slide for query in self.built))

    @property
    def most_slack(self) -> int:
        return max(self.most_slide, self.stream.slack)

    @cached_property
    def _opened(self) -> tuple[tuple[PaneQuery, ...], tuple[Register, ...]]:
        queries: list[PaneQuery] = []
        registers: list[Register] = []
        for k, query in enumerate(self.built):
            where = query.where
            if where is not None:
                where, found = _opened(where, self.source, f"where_{k}")
                registers += found
            queries.append(replace(query, where=where))
        return tuple(queries), tuple(registers)

    @property
    def queries(self) -> tuple[PaneQuery, ...]:
        """The queries, with registers for the constants of WHERE."""
        return self._opened[0]

    @property
    def constants(self) -> data.StructLayout:
        """The constants of WHERE, by name."""
        return data.StructLayout({each.name: Shape(*each.kind.bits) for each in self._opened[1]})

    def of_query(self, number: int) -> tuple[str, str]:
        """The names of RANGE and SLIDE of a query."""
        suffix = f"_{number}" if len(self.built) > 1 else ""
        return f"range{suffix}", f"slide{suffix}"

    @cached_property
    def all(self) -> tuple[Setting, ...]:
        found = []
        for k, query in enumerate(self.built):
            for name, most, value in zip(
                self.of_query(k),
                (self.most_range, self.most_slide),
                (query.range, query.slide),
                strict=True,
            ):
                about = f"{name.upper()[:5]}, in units of the time column"
                found.append(Setting(name, 1, most, value, about))
        about = "SLACK, in units of the time column"
        found.append(Setting("slack", 0, self.most_slack, self.stream.slack, about))
        return (*found, *(each.setting for each in self._opened[1]))

    @property
    def layout(self) -> data.StructLayout:
        """All settings, by name."""
        return data.StructLayout({each.name: each.shape for each in self.all})


def _opened(where: Expr, source: str, prefix: str) -> tuple[Expr, list[Register]]:
    """Return ``where`` with a register for each constant, and the registers."""
    found: list[Register] = []

    def opened(constant: Const, other: ValueType | None) -> Expr:
        kind = _kind(constant, other)
        if kind is None:
            return constant
        value = constant.value
        if isinstance(kind, Number) and isinstance(constant.kind, Number):
            value *= 10 ** (kind.scale - constant.kind.scale)
        if isinstance(kind, Text) and isinstance(constant.kind, Text):
            value <<= 8 * (kind.length - constant.kind.length)
        name = f"{prefix}_{len(found)}"
        found.append(Register(source, name, kind.column_type, kind, value))
        return found[-1]

    def visit(expr: Expr) -> Expr:
        match expr:
            case Const():
                return opened(expr, None)
            case Compare(left=left, right=Const() as right):
                left = visit(left)
                return Compare(expr.op, left, opened(right, left.type))
            case Compare(left=Const() as left, right=right):
                right = visit(right)
                return Compare(expr.op, opened(left, right.type), right)
        if not expr.operands:
            return expr
        return with_operands(expr, [visit(operand) for operand in expr.operands])

    return visit(where), found


def _kind(constant: Const, other: ValueType | None) -> ValueType | None:
    """The values that a register may take in place of ``constant``; None if it stays one."""
    match constant.kind, other:
        case Number() as own, Number() as compared:
            scale = max(own.scale, compared.scale)
            value, more = constant.value * 10 ** (scale - own.scale), 10 ** (scale - compared.scale)
            low, high = min(value, compared.low * more), max(value, compared.high * more)
            return Number(low, high, scale, own.unit)
        case Number() as own, None:
            return value_type(own.column_type)
        case Text() as own, Text() as compared:
            return Text(max(own.length, compared.length))
        case Text() as own, None:
            return own
    return None
