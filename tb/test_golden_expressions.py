"""Expressions and values in Spark: what they mean there is what they mean everywhere."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from joinery.expr import (
    Abs,
    Arith,
    Bitwise,
    Bool,
    Compare,
    Const,
    Expr,
    Logic,
    Negate,
    Not,
    Number,
    evaluate,
)
from joinery.tuples import ColumnType, DecimalType, IntType, TimestampType
from joinery_gen.golden.expressions import natural_type, raw_name, to_natural, to_raw, translate
from joinery_gen.golden.reference import Tuple
from joinery_gen.golden.session import MEANING
from joinery_tb.golden_cases import SCHEMA, col, random_streams

numbers = st.sampled_from(["k", "x", "y", "big"]).map(lambda name: col("a", name))
constants = st.builds(Const.number, st.integers(-300, 300), st.integers(0, 3))
arithmetic: st.SearchStrategy[Expr] = st.recursive(
    numbers | constants,
    lambda inner: (
        st.builds(Arith, st.sampled_from("+-*"), inner, inner)
        | st.builds(Negate, inner)
        | st.builds(Abs, inner)
    ),
    max_leaves=3,
)
integers = st.sampled_from([col("a", "k"), col("a", "y"), Const.number(5), Const.number(-6)])
bitwise = st.builds(Bitwise, st.sampled_from("&|^"), integers, integers)
comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
texts = st.sampled_from([col("a", "n"), Const.text("ab"), Const.text(""), Const.text("é")])
tests = (
    st.builds(Compare, comparisons, arithmetic, arithmetic)
    | st.builds(Compare, comparisons, texts, texts)
    | st.builds(Compare, comparisons, bitwise, integers)
    | st.just(col("a", "f"))
    | st.just(Const(1, Bool()))
)
conditions: st.SearchStrategy[Expr] = st.recursive(
    tests,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(Logic, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=1).map(tuple))
    ),
    max_leaves=4,
)


def fits_spark(expr: Expr) -> bool:
    """No value on the way has more than the 38 digits that Spark holds."""
    widest = expr.type
    own = not isinstance(widest, Number) or max(-widest.low, widest.high) < 10**33
    return own and all(fits_spark(operand) for operand in expr.operands)


@settings(
    max_examples=8,
    phases=(Phase.generate,),  # a run takes a second, and shrinking would take hundreds of them
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists((arithmetic | bitwise | conditions).filter(fits_spark), min_size=20, max_size=20),
    st.builds(random_streams, st.integers(0, 1 << 32), st.just("a"), st.just(40), st.just("far")),
)
def test_expressions_mean_what_evaluate_says(
    spark: SparkSession, exprs: list[Expr], rows: dict[str, list[Tuple]]
) -> None:
    session = spark.newSession()
    for name, value in MEANING.items():
        session.conf.set(name, value)
    natural = [
        [field.type.decode(values[field.name]) for field in SCHEMA] for _, values in rows["a"]
    ]
    schema = ", ".join(f"`{field.name}` {natural_type(field.type)}" for field in SCHEMA)
    frame = session.createDataFrame(natural, schema).select(
        [
            to_raw(fn.col(field.name), field.type).alias(raw_name("a", field.name))
            for field in SCHEMA
        ]
    )
    found = frame.select(
        [translate(expr).cast("string").alias(str(i)) for i, expr in enumerate(exprs)]
    ).collect()
    for (_, raw), row in zip(rows["a"], found, strict=True):
        values = {("a", name): value for name, value in raw.items()}
        assert [_integer(text) for text in row] == [evaluate(expr, values) for expr in exprs]


def _integer(text: str) -> int:
    return {"true": 1, "false": 0}[text] if text in ("true", "false") else int(text)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (DecimalType(38, 0), 10**38 - 1),
        (DecimalType(38, 38), -(10**38) + 1),
        (DecimalType(38, 20), 1),
        (DecimalType(18, 18), 10**18 - 1),
        (TimestampType("us"), TimestampType("us").low),
        (TimestampType("ms"), -1),
        (IntType(64), -(1 << 63)),
    ],
)
def test_raw_values_pass_through_spark(spark: SparkSession, kind: ColumnType, raw: int) -> None:
    session = spark.newSession()
    for name, value in MEANING.items():
        session.conf.set(name, value)
    frame = session.createDataFrame([(kind.decode(raw),)], f"v {natural_type(kind)}")
    there = frame.select(to_raw(fn.col("v"), kind).alias("raw"))
    back = there.select("raw", to_natural(fn.col("raw"), kind).alias("v")).collect()[0]
    assert (int(back["raw"]), back["v"]) == (raw, kind.decode(raw))
