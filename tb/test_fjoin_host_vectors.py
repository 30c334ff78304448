"""Expressions on whole columns, against their meaning row by row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joinery.expr import (
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
    evaluate,
)
from joinery.tuples import BoolType, ColumnType, DecimalType, IntType, StringType
from joinery_gen.fjoin_host.vectors import evaluate_columns

TYPES: dict[str, ColumnType] = {
    "a": IntType(5),
    "w": IntType(64),
    "d": DecimalType(6, 2),
    "e": DecimalType(24, 3),
    "n": StringType(2),
    "m": StringType(9),
    "f": BoolType(),
}
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")

Strategy = st.SearchStrategy[Expr]


def columns(names: str) -> Strategy:
    return st.builds(
        lambda name, source: Column(source, name, TYPES[name]),
        st.sampled_from(names),
        st.sampled_from("rs"),
    )


def grown(leaves: Strategy, signs: str, make: Callable[..., Expr]) -> Strategy:
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(make, st.sampled_from(signs), inner, inner)
            | st.builds(Negate, inner)
            | st.builds(Abs, inner)
        ),
        max_leaves=4,
    )


SCALED = columns("awde") | st.builds(Const.number, st.integers(-999, 999), st.integers(0, 3))
NUMBERS = grown(SCALED, "+-*", Arith) | grown(columns("aw"), "&|^", Bitwise)
TEXTS = columns("nm") | st.sampled_from(["", "a", "abc"]).map(Const.text)
CONDITIONS = st.recursive(
    st.builds(Compare, st.sampled_from(COMPARISONS), NUMBERS, NUMBERS)
    | st.builds(Compare, st.sampled_from(COMPARISONS), TEXTS, TEXTS)
    | columns("f")
    | st.just(Const(1, Bool())),
    lambda inner: (
        st.builds(
            Logic,
            st.sampled_from(["AND", "OR"]),
            st.lists(inner, min_size=1, max_size=3).map(tuple),
        )
        | st.builds(Not, inner)
    ),
    max_leaves=4,
)


def raw_values(kind: ColumnType) -> st.SearchStrategy[int]:
    return st.sampled_from([kind.low, kind.high]) | st.integers(kind.low, kind.high)


ROWS = st.lists(
    st.fixed_dictionaries(
        {(source, name): raw_values(kind) for source in "rs" for name, kind in TYPES.items()}
    ),
    max_size=5,
)


@given(NUMBERS | TEXTS | CONDITIONS, ROWS)
def test_columns_as_rows(expr: Expr, rows: list[dict[tuple[str, str], int]]) -> None:
    arrays: dict[tuple[str, str], Any] = {}
    for source in "rs":
        for name, kind in TYPES.items():
            fits = kind.low >= -(1 << 63) and kind.high < 1 << 63
            values = [row[source, name] for row in rows]
            arrays[source, name] = np.array(values, dtype=np.int64 if fits else object)
    found = evaluate_columns(expr, arrays, len(rows))
    assert found.tolist() == [evaluate(expr, row) for row in rows]


W, A = (Column("r", name, TYPES[name]) for name in "wa")


@pytest.mark.parametrize(
    ("expr", "kind"),
    [
        (Arith("+", A, A), np.int64),
        (Arith("-", W, Const.number(1)), object),
        (Compare("<", W, Const.number(5, 1)), np.int64),  # though 10 times W does not fit
    ],
)
def test_only_wide_numbers_are_pythons(expr: Expr, kind: Any) -> None:
    values = {("r", "a"): np.array([1]), ("r", "w"): np.array([-(1 << 63)])}
    found = evaluate_columns(expr, values, 1)
    assert found.dtype == kind
    assert found.tolist() == [evaluate(expr, {name: int(each[0]) for name, each in values.items()})]
