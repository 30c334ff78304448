"""What each side of a predicate computes alone: the parts together mean what the whole does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.expr import (
    Abs,
    Arith,
    Bitwise,
    Column,
    Compare,
    Const,
    Expr,
    Logic,
    Negate,
    Not,
    columns_of,
    evaluate,
)
from joinery.fjoin import live_bits, split_predicate
from joinery.tuples import DecimalType, IntType

TYPES = {
    "a": IntType(8),
    "b": IntType(5, signed=False),
    "c": DecimalType(4, 2),
}


def column(source: str, name: str) -> Column:
    return Column(source, name, TYPES[name])


COLUMNS = [column(source, name) for source in "sw" for name in TYPES]
NUMBERS = st.recursive(
    st.sampled_from(COLUMNS) | st.integers(-99, 99).map(Const.number),
    lambda inner: st.one_of(
        st.builds(Arith, st.sampled_from("+-*"), inner, inner),
        st.builds(Abs, inner),
        st.builds(Negate, inner),
    ),
    max_leaves=6,
)
WHOLE = st.sampled_from([each for each in COLUMNS if each.name != "c"])
MASKED = st.builds(
    lambda op, left, right, mask, zero: Compare(
        op, Bitwise("&", Bitwise("^", left, right), Const.number(mask)), Const.number(zero)
    ),
    st.sampled_from(["=", "<>"]),
    WHOLE,
    WHOLE,
    st.integers(0, 31),
    st.integers(0, 1),
)
CONDITIONS = st.recursive(
    MASKED
    | st.builds(Compare, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), NUMBERS, NUMBERS),
    lambda inner: (
        st.builds(
            Logic,
            st.sampled_from(["AND", "OR"]),
            st.lists(inner, min_size=1, max_size=3).map(tuple),
        )
        | st.builds(Not, inner)
    ),
    max_leaves=3,
)
ROWS = st.fixed_dictionaries(
    {(each.source, each.name): st.integers(each.column.low, each.column.high) for each in COLUMNS}
)


def parts_of(predicate: Expr, row: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """What both sides compute of ``row``, with the bits that are dropped taken out."""
    split = split_predicate(predicate, "s", "w")
    values = {}
    for source, columns in (("s", split.stream), ("w", split.window)):
        for name, expr in columns.items():
            assert {source} >= {each for each, _ in columns_of(expr)}
            value = evaluate(expr, row)
            assert (
                not value
                & sum(1 << bit for bit in range(expr.type.bits[0]))
                & ~sum(1 << bit for bit in live_bits(expr))
            )
            values[source, name] = value
    return values


@settings(max_examples=400)
@given(predicate=CONDITIONS, row=ROWS)
def test_split_means_the_same(predicate: Expr, row: dict[tuple[str, str], int]) -> None:
    apart = split_predicate(predicate, "s", "w").predicate
    assert evaluate(apart, parts_of(predicate, row)) == evaluate(predicate, row)


def test_manhattan_is_four_comparisons_of_two_sums() -> None:
    x, y = (Abs(Arith("-", column("s", name), column("w", name))) for name in "ac")
    split = split_predicate(Compare("<=", Arith("+", x, y), Const.number(5)), "s", "w")
    assert len(split.stream) == 2
    assert len(split.window) == 4
    assert isinstance(split.predicate, Logic)
    todo = list(split.predicate.terms)
    compared = []
    while todo:
        term = todo.pop()
        if isinstance(term, Logic):
            todo += term.terms
        else:
            compared.append(term)
    assert len(compared) == 4
    for each in compared:
        assert isinstance(each, Compare)
        assert isinstance(each.left, Column)
        assert isinstance(each.right, Column)


def test_masked_bits_are_not_kept() -> None:
    both = Bitwise("^", column("s", "b"), column("w", "b"))
    predicate = Compare("=", Bitwise("&", both, Const.number(0b11010)), Const.number(0))
    split = split_predicate(predicate, "s", "w")
    assert [live_bits(expr) for expr in split.stream.values()] == [[1, 3, 4]]
    assert [live_bits(expr) for expr in split.window.values()] == [[1, 3, 4]]
