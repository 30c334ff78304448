"""Expressions to equal ones that cost less in hardware, with one operator in every node.

The value stays the one that `evaluate` gives. Afterwards both operands of a sum, a difference or a
comparison have the same scale, constants are folded, and AND and OR take at most ``LOGIC_INPUTS``
conditions each.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace

from .tree import (
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
    evaluate,
)

LOGIC_INPUTS = 6  # of a look-up table in the FPGAs of today
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def levels(expr: Expr) -> int:
    """Return the longest chain of operators in a simplified expression."""
    below = max((levels(operand) for operand in expr.operands), default=0)
    return below + (not isinstance(expr, Column | Const | Not))


def simplify(expr: Expr) -> Expr:
    """Return the cheap equal of ``expr``."""
    if not expr.operands:
        return expr
    expr = with_operands(expr, [simplify(operand) for operand in expr.operands])
    if all(isinstance(operand, Const) for operand in expr.operands):
        return _folded(expr)
    match expr:
        case Compare(left=Const()):
            return _comparison(MIRRORED[expr.op], expr.right, expr.left)
        case Compare():
            return _comparison(expr.op, expr.left, expr.right)
        case Arith(op="+" | "-"):
            scale = expr.type.scale
            return Arith(expr.op, _scaled(expr.left, scale), _scaled(expr.right, scale))
        case Abs(operand=Expr(type=Number(low=low)) as operand) if low >= 0:
            return operand
        case Logic():
            return _tree(expr.op, expr.terms)
    return expr


def with_operands(expr: Expr, operands: Sequence[Expr]) -> Expr:
    match expr:
        case Arith() | Bitwise() | Compare():
            return type(expr)(expr.op, *operands)
        case Abs() | Negate() | Not():
            return type(expr)(*operands)
    assert isinstance(expr, Logic), "it has operands"
    return Logic(expr.op, tuple(operands))


def _folded(expr: Expr) -> Const:
    value, kind = evaluate(expr, {}), expr.type
    return Const(value, replace(kind, low=value, high=value) if isinstance(kind, Number) else kind)


def _scaled(expr: Expr, scale: int) -> Expr:
    """Return the number ``expr`` with more digits after the point: its product with 1.00."""
    assert isinstance(expr.type, Number), "the tree checks its operands"
    digits = scale - expr.type.scale
    if not digits:
        return expr
    product = Arith("*", expr, Const.number(10**digits, digits))
    return _folded(product) if isinstance(expr, Const) else product


def _comparison(op: str, left: Expr, right: Expr) -> Expr:
    """Compare two operands, of which ``left`` is not a constant."""
    a, b = left.type, right.type
    if not isinstance(a, Number) or not isinstance(b, Number):
        return Compare(op, left, right)
    if isinstance(right, Const) and b.scale > a.scale:
        return _with_coarse(op, left, right, b.scale - a.scale)
    scale = max(a.scale, b.scale)
    left, right = _scaled(left, scale), _scaled(right, scale)
    return _with_constant(op, left, right) if isinstance(right, Const) else Compare(op, left, right)


def _with_coarse(op: str, left: Expr, right: Const, digits: int) -> Expr:
    """Compare with a constant that has ``digits`` more after the point: round the constant."""
    quotient, rest = divmod(right.value, 10**digits)
    if rest and op in ("=", "<>"):
        return Const(int(op == "<>"), Bool())
    if rest and op in ("<", ">="):  # x < 2.5 where x < 3, but x <= 2.5 where x <= 2
        quotient += 1
    assert isinstance(right.kind, Number)
    return _with_constant(op, left, Const.number(quotient, right.kind.scale - digits))


def _with_constant(op: str, left: Expr, right: Const) -> Expr:
    """Compare with a constant. |x| <= c is x <= c and x >= -c; |x| > c is x > c or x < -c."""
    if not isinstance(left, Abs) or op in ("=", "<>"):
        return Compare(op, left, right)
    assert isinstance(right.kind, Number)
    opposite = Const.number(-right.value, right.kind.scale)
    ends = Compare(op, left.operand, right), Compare(MIRRORED[op], left.operand, opposite)
    return _tree("AND" if op in ("<", "<=") else "OR", ends)


def _tree(op: str, terms: Sequence[Expr]) -> Expr:
    """Join conditions by ``op``, in the shallowest tree of nodes with few inputs."""
    todo = sorted((leaf for term in terms for leaf in _leaves(op, term)), key=levels)
    count = (len(todo) - 2) % (LOGIC_INPUTS - 1) + 2  # then every later node is full
    while len(todo) > 1:
        node = Logic(op, tuple(todo[:count]))
        del todo[:count]
        insort(todo, node, key=levels)
        count = LOGIC_INPUTS
    return todo[0]


def _leaves(op: str, expr: Expr) -> list[Expr]:
    """Take apart what is joined by ``op`` itself."""
    if isinstance(expr, Logic) and expr.op == op:
        return [leaf for term in expr.terms for leaf in _leaves(op, term)]
    return [expr]
