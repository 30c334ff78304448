# amaranth: UnusedElaboratable=no
# (a pipeline that is refused is half made)
"""Expressions: their meaning, their types, and the hardware that computes them."""

import re
from fractions import Fraction

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.sim import Simulator
from hypothesis import given, settings
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
    ExprError,
    ExprPipeline,
    Logic,
    Negate,
    Not,
    Number,
    Text,
    columns_of,
    evaluate,
    operator_levels,
    pipeline_latency,
    value_type,
)
from joinery.expr.simplify import simplify
from joinery.tuples import (
    BoolType,
    DecimalType,
    Field,
    IntType,
    Schema,
    StringType,
    TimestampType,
    bits_for_range,
)

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
SCHEMA = Schema(
    (
        Field("a", IntType(5)),
        Field("b", IntType(9)),
        Field("u", IntType(4, signed=False)),
        Field("z", IntType(1)),
        Field("d", DecimalType(3, 1)),
        Field("e", DecimalType(4, 3)),
        Field("n", StringType(2)),
        Field("m", StringType(1)),
        Field("f", BoolType()),
        Field("t", TimestampType("s")),
    )
)
OPERANDS = data.StructLayout({"r": SCHEMA.layout, "s": SCHEMA.layout})


def column(name: str, source: str = "r") -> Column:
    return Column(source, name, SCHEMA[name])


A, B, U, Z, D, E = (column(name) for name in "abuzde")
F, N, M, T = (column(name) for name in "fnmt")
ONE, HALF = Const.number(1), Const.number(5, 1)


# Random expressions and rows


def columns(names: str) -> st.SearchStrategy[Expr]:
    return st.builds(column, st.sampled_from(names), st.sampled_from("rs"))


def grown(leaves, signs, make=Arith):
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Arith, st.sampled_from("+-*"), inner, inner)
            | st.builds(make, st.sampled_from(signs), inner, inner)
            | st.builds(Negate, inner)
            | st.builds(Abs, inner)
        ),
        max_leaves=4,
    )


WHOLE = grown(columns("abu") | st.integers(-40, 40).map(Const.number), "&|^", Bitwise)
SCALED = grown(
    columns("aude") | st.builds(Const.number, st.integers(-999, 999), st.integers(0, 3)), "+-"
)
TIMES = columns("t") | st.integers(-100, 100).map(lambda raw: Const(raw, Number(raw, raw, 0, "s")))
TIMES = TIMES | st.builds(Arith, st.sampled_from("+-"), columns("t"), columns("abu"))
NUMBERS = WHOLE | SCALED | st.builds(Arith, st.just("-"), TIMES, TIMES)
TEXTS = columns("nm") | st.sampled_from(["", "a", "ab", "é", "abc"]).map(Const.text)
SIGNS = st.sampled_from(COMPARISONS)
SIMPLE = (
    st.builds(Compare, SIGNS, NUMBERS, NUMBERS)
    | st.builds(Compare, SIGNS, SCALED, st.builds(Const.number, st.integers(-99, 99), st.just(2)))
    | st.builds(Compare, SIGNS, TIMES, TIMES)
    | st.builds(Compare, SIGNS, TEXTS, TEXTS)
    | columns("f")
    | st.integers(0, 1).map(lambda value: Const(value, Bool()))
)
CONDITIONS = st.recursive(
    SIMPLE,
    lambda inner: (
        st.builds(
            Logic,
            st.sampled_from(["AND", "OR"]),
            st.lists(inner, min_size=1, max_size=8).map(tuple),
        )
        | st.builds(Compare, st.sampled_from(["=", "<>"]), inner, inner)
        | st.builds(Not, inner)
    ),
    max_leaves=8,
)
EXPRESSIONS = CONDITIONS | NUMBERS | TIMES | TEXTS


def raw_values(kind) -> st.SearchStrategy[int]:
    ends = [kind.low, kind.high, *({0, 1, -1} & set(range(-1 if kind.low < 0 else 0, 2)))]
    if isinstance(kind, StringType):
        ends += [kind.encode(text) for text in ("", "a", "ab") if len(text) <= kind.length]
    return st.sampled_from(ends) | st.integers(kind.low, kind.high)


ROWS = st.fixed_dictionaries(
    {(source, field.name): raw_values(field.type) for source in "rs" for field in SCHEMA}
)


def nodes(expr: Expr) -> list[Expr]:
    return [expr, *(node for operand in expr.operands for node in nodes(operand))]


# Meaning and types


def meaning(expr: Expr, row):
    """What an expression says, in fractions, truth values and strings of bytes."""
    operands = [meaning(operand, row) for operand in expr.operands]
    match expr:
        case Column() | Const():
            raw = row[expr.source, expr.name] if isinstance(expr, Column) else expr.value
            match expr.type:
                case Number(scale=scale):
                    return Fraction(raw, 10**scale)
                case Text(length):
                    return raw.to_bytes(length, "big").rstrip(b"\0")
            return bool(raw)
        case Logic():
            return all(operands) if expr.op == "AND" else any(operands)
        case Not():
            return not operands[0]
        case Negate():
            return -operands[0]
        case Abs():
            return abs(operands[0])
    left, right = operands
    match expr.op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "&":
            return Fraction(int(left) & int(right))
        case "|":
            return Fraction(int(left) | int(right))
        case "^":
            return Fraction(int(left) ^ int(right))
    compared = (left > right) - (left < right)
    return {
        "=": compared == 0, "<>": compared != 0, "<": compared < 0,
        "<=": compared <= 0, ">": compared > 0, ">=": compared >= 0,
    }[expr.op]  # fmt: skip


@settings(max_examples=400)
@given(EXPRESSIONS, ROWS)
def test_evaluate_is_the_meaning(expr, row):
    value = evaluate(expr, row)
    match expr.type:
        case Number(scale=scale):
            assert Fraction(value, 10**scale) == meaning(expr, row)
        case Text(length):
            assert value.to_bytes(length, "big").rstrip(b"\0") == meaning(expr, row)
        case Bool():
            assert value == meaning(expr, row)


def corner_rows(expr: Expr):
    """Every combination of least and largest values of the columns, and a middle one."""
    read = sorted(columns_of(expr))
    kinds = {(source, name): SCHEMA[name] for source, name in read}
    for choice in range(3 ** len(read)):
        row = {}
        for key in read:
            choice, which = divmod(choice, 3)
            row[key] = (kinds[key].low, kinds[key].high, min(1, kinds[key].high))[which]
        yield row


@settings(max_examples=300)
@given(WHOLE | SCALED)
def test_no_number_leaves_the_range_of_its_type(expr):
    for row in corner_rows(expr):
        for node in nodes(expr):
            assert node.type.low <= evaluate(node, row) <= node.type.high


@pytest.mark.parametrize("op", ["+", "-", "*"])
@pytest.mark.parametrize("left", [A, U, D, E, Const.number(-3), Const.number(7, 2)])
@pytest.mark.parametrize("right", [column(name, "s") for name in "abude"])
def test_ranges_are_no_wider_than_they_must_be(op, left, right):
    expr = Arith(op, left, right)
    values = [evaluate(expr, row) for row in corner_rows(expr)]
    assert (expr.type.low, expr.type.high) == (min(values), max(values))


@given(st.integers(-20, 20), st.integers(-20, 20), st.sampled_from([Negate, Abs]))
def test_ranges_of_one_operand(one, other, make):
    low, high = min(one, other), max(one, other)
    values = [evaluate(make(Const.number(value)), {}) for value in range(low, high + 1)]
    assert make(Const(low, Number(low, high))).type == Number(min(values), max(values))


@pytest.mark.parametrize("op", ["&", "|", "^"])
@pytest.mark.parametrize("bits", [(3, 3), (2, 4), (4, 1)])
@pytest.mark.parametrize("signed", [(True, True), (True, False), (False, True), (False, False)])
def test_ranges_of_bitwise_operators(op, bits, signed):
    left, right = (
        Column(source, "x", IntType(width, sign))
        for source, width, sign in zip("rs", bits, signed, strict=True)
    )
    expr = Bitwise(op, left, right)
    values = [
        evaluate(expr, {("r", "x"): x, ("s", "x"): y})
        for x in range(left.type.low, left.type.high + 1)
        for y in range(right.type.low, right.type.high + 1)
    ]
    assert expr.type.low <= min(values) <= max(values) <= expr.type.high
    assert expr.type.bits == bits_for_range(min(values), max(values))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (Number(0, 1), IntType(8)),
        (Number(0, 127), IntType(8)),
        (Number(-128, 0), IntType(8)),
        (Number(0, 128), IntType(16)),
        (Number(-129, 0), IntType(16)),
        (Number(0, 2**31 - 1), IntType(32)),
        (Number(0, 2**31), IntType(64)),
        (Number(-(2**63), 2**63 - 1), IntType(64)),
        (Number(0, 5, 3), DecimalType(3, 3)),
        (Number(-10, 5, 1), DecimalType(2, 1)),
        (Number(0, 10**38 - 1, 38), DecimalType(38, 38)),
        (Number(0, 5, 0, "ms"), TimestampType("ms")),
        (Number(TimestampType("s").low, TimestampType("s").high + 60, 0, "s"), TimestampType("s")),
    ],
)
def test_column_types_of_numbers(number, expected):
    assert number.column_type == expected


def test_types_of_columns_and_literals():
    assert value_type(IntType(4, signed=False)) == Number(0, 15)
    assert value_type(DecimalType(3, 1)) == Number(-999, 999, 1)
    assert value_type(TimestampType("ms")).unit == "ms"
    assert value_type(StringType(3)) == Text(3)
    assert value_type(BoolType()) == Bool()
    assert (Text(3).column_type, Bool().column_type) == (StringType(3), BoolType())
    assert Const.text("").type == Text(1)
    assert Const.text("é").type == Text(2)
    assert Const.number(-25, 1).type == Number(-25, -25, 1)
    assert columns_of(Compare("=", A, column("b", "s")), F) == {("r", "a"), ("s", "b"), ("r", "f")}


MS = Column("r", "q", TimestampType("ms"))
YEARS = (
    "The result can be a time far outside the years 1 to 9999 of TIMESTAMP(s); add or subtract a "
    "narrower number"
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Arith("+", N, A).type, "+ takes numbers, and this is a string"),
        (lambda: Arith("-", A, F).type, "- takes numbers, and this is a condition"),
        (lambda: Arith("*", T, A).type, "* takes plain numbers, and this is a time in s"),
        (lambda: Arith("+", T, T).type,
         "Two times cannot be added; subtract them, or add an integer"),
        (lambda: Arith("-", T, MS).type, "The times count different units, s and ms"),
        (lambda: Arith("-", A, T).type, "A time cannot be subtracted from a plain number"),
        (lambda: Arith("+", D, T).type, "A time is moved by whole units only; use an integer"),
        (lambda: Negate(T).type, "- takes plain numbers, and this is a time in s"),
        (lambda: Abs(F).type, "abs takes numbers, and this is a condition"),
        (lambda: Bitwise("&", A, D).type, "& takes integers, and a DECIMAL is not one"),
        (lambda: Bitwise("^", T, A).type, "^ takes plain numbers, and this is a time in s"),
        (lambda: Compare("=", A, N).type, "A whole number cannot be compared with a string"),
        (lambda: Compare("=", D, F).type,
         "A number with 1 decimals cannot be compared with a condition"),
        (lambda: Compare("<", T, MS).type, "A time in s cannot be compared with a time in ms"),
        (lambda: Compare("<", F, F).type, "Conditions have no order; < needs numbers or strings"),
        (lambda: Logic("AND", (F, A)).type, "AND takes conditions, and this is a whole number"),
        (lambda: Logic("OR", ()).type, "OR takes conditions, and there are none"),
        (lambda: Not(N).type, "NOT takes a condition, and this is a string"),
        (lambda: Number(0, 2**63).column_type, "The result can be 0 to 9223372036854775808, and "
         "BIGINT holds -9223372036854775808 to 9223372036854775807"),
        (lambda: Number(0, 10**38, 2).column_type,
         "The result can have 39 digits, and 38 is the most"),
        (lambda: Number(0, 1, 39).column_type,
         "The result can have 39 digits, and 38 is the most"),
        (lambda: Number(0, 2**62, 0, "s").column_type, YEARS),
        (lambda: Number(-(2**62), 0, 0, "s").column_type, YEARS),
    ],
)  # fmt: skip
def test_what_the_tree_refuses(make, message):
    with pytest.raises(ExprError, match=f"^{re.escape(message)}$"):
        make()


def test_only_expressions_can_be_evaluated():
    with pytest.raises(TypeError, match=r"^Not an expression: 5$"):
        evaluate(5, {})
    with pytest.raises(TypeError, match=r"^Can't instantiate abstract class Expr with "):
        Expr()


# Hardware


def run(pipelines, rows, enables):
    """Offer ``rows`` to all pipelines; return what each shows in every cycle."""
    m = Module()
    i, en = Signal(OPERANDS), Signal()
    for number, pipeline in enumerate(pipelines):
        m.submodules[f"pipeline_{number}"] = pipeline
        m.d.comb += [pipeline.i.eq(i), pipeline.en.eq(en)]
    unused = Signal()
    m.d.sync += unused.eq(~unused)  # so that there is a clock, if none of the pipelines has one
    shown = []

    async def bench(ctx):
        for row, enable in zip(rows, enables, strict=True):
            ctx.set(i, {s: {f.name: row[s, f.name] for f in SCHEMA} for s in "rs"})
            ctx.set(en, enable)
            shown.append([ctx.get(pipeline.o) for pipeline in pipelines])
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return list(zip(*shown, strict=True))


def assert_computes(exprs, rows, enables, ops):
    """Hold pipelines of all ``exprs``, with each of ``ops`` per stage, to `evaluate`."""
    pipelines = [ExprPipeline(expr, OPERANDS, ops_per_stage=n) for expr in exprs for n in ops]
    for pipeline in pipelines:
        assert pipeline.latency == pipeline_latency(pipeline.expr, pipeline.ops_per_stage)
    drain = max(pipeline.latency for pipeline in pipelines)
    rows, enables = [*rows, *rows[-1:] * drain], [*enables, *[1] * drain]
    for pipeline, shown in zip(pipelines, run(pipelines, rows, enables), strict=True):
        taken = []  # the rows that were there at an enabled edge
        for row, enable, value in zip(rows, enables, shown, strict=True):
            if pipeline.latency == 0:
                assert value == evaluate(pipeline.expr, row)
            elif len(taken) >= pipeline.latency:
                assert value == evaluate(pipeline.expr, taken[-pipeline.latency])
            if enable:
                taken.append(row)
        assert len(taken) >= pipeline.latency


CYCLES = st.lists(st.tuples(ROWS, st.sampled_from([0, 1, 1])), min_size=8, max_size=16)


@settings(max_examples=100)
@given(st.lists(EXPRESSIONS, min_size=4, max_size=4), CYCLES)
def test_hardware_computes_expressions(exprs, cycles):
    rows, enables = zip(*cycles, strict=True)
    assert_computes(exprs, rows, enables, [None, 1, 2, 3])


@settings(max_examples=10)
@given(st.lists(WHOLE | SCALED, min_size=3, max_size=3))
def test_hardware_does_not_wrap_at_the_ends_of_ranges(exprs):
    for expr in exprs:
        rows = list(corner_rows(expr))[:81]
        rows = [dict.fromkeys(((s, f.name) for s in "rs" for f in SCHEMA), 0) | row for row in rows]
        assert_computes([expr], rows, [1] * len(rows), [None, 1])


DISTANCE = Arith("+", Abs(Arith("-", D, column("d", "s"))), Abs(Arith("-", E, column("e", "s"))))
CHOICES = Logic("OR", tuple(Compare("=", B, Const.number(n)) for n in range(-20, 20)))


@settings(max_examples=3)
@given(CYCLES)
def test_hardware_computes_the_predicates_of_the_papers(cycles):
    exprs = [
        Compare("<=", DISTANCE, HALF),
        Logic("AND", (Compare("<=", Abs(Arith("-", A, column("a", "s"))), HALF), CHOICES)),
        Compare("=", Bitwise("&", Bitwise("^", U, column("u", "s")), Const.number(12)), ONE),
    ]
    rows, enables = zip(*cycles, strict=True)
    assert_computes(exprs, rows, enables, [None, 1, 2, 3])


def test_hardware_compares_strings_of_different_lengths():
    pairs = [(N, M), (M, N), (N, Const.text("a")), (M, Const.text("ab")), (Const.text("b"), N)]
    exprs = [Compare(op, left, right) for op in COMPARISONS for left, right in pairs]
    zero = dict.fromkeys(((source, field.name) for source in "rs" for field in SCHEMA), 0)
    rows = [
        zero | {("r", "n"): StringType(2).encode(n), ("r", "m"): StringType(1).encode(m)}
        for n in ("", "a", "ab", "b")
        for m in ("", "a", "b")
    ]
    assert_computes(exprs, rows, [1] * len(rows), [None])


def test_a_pipeline_is_enabled_unless_it_is_told_otherwise():
    m = Module()
    m.submodules.pipeline = pipeline = ExprPipeline(Arith("+", U, ONE), OPERANDS, ops_per_stage=1)
    seen = []

    async def bench(ctx):
        for value in (3, 15):
            ctx.set(pipeline.i.r.u, value)
            await ctx.tick()
            seen.append(ctx.get(pipeline.o))

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == [4, 16]


# What lies between two registers, read from the netlist


NAMES = re.compile(r"[\\$][^\s\[\]{}]+")


class Netlist:
    """The cells of a pipeline's RTLIL, and how far apart its registers are."""

    def __init__(self, pipeline: ExprPipeline) -> None:
        text = rtlil.convert(pipeline, emit_src=False)
        self.cells = []
        self.drivers: dict[str, tuple[str, set[str]]] = {}
        for kind, body in re.findall(r"^  cell \$(\w+) \S+\n(.*?)^  end", text, re.M | re.S):
            ports = dict(re.findall(r"connect \\(\w+) (.*)", body))
            output = ports.pop("Q" if kind == "dff" else "Y")
            ports.pop("CLK", None)
            self.cells.append((kind, ports))
            self._drive(output, self._kind(kind, ports), " ".join(ports.values()))
        for target, source in re.findall(r"^ *(?:assign|connect) ([\\$]\S+)(?: \[.*?\])? (.*)$",
                                         re.sub(r"^  cell .*?^  end", "", text, flags=re.M | re.S),
                                         re.M):  # fmt: skip
            self._drive(target, "wire", source)

    @staticmethod
    def _kind(kind: str, ports: dict[str, str]) -> str:
        """Tell inverters, with or without a condition of one bit, from operators."""
        parts = set(re.findall(r"[\\$]\S+(?: \[[\d:]+\])?|\d+'[01]+", ports.get("B", "")))
        one_bit = len(parts) == 1 and re.search(r" \[\d+\]$", min(parts))
        return "wire" if kind == "not" or (kind == "xor" and one_bit) else kind

    def _drive(self, target: str, kind: str, source: str) -> None:
        (name,) = NAMES.findall(target)
        before = self.drivers.get(name, (kind, set()))[1]
        self.drivers[name] = kind, before | set(NAMES.findall(source))

    def depth(self, name: str = r"\o") -> int:
        """Operators in series from the last registers to the wire ``name``."""
        kind, sources = self.drivers.get(name, ("dff", set()))
        if kind == "dff":
            return 0
        return (kind != "wire") + max((self.depth(source) for source in sources), default=0)

    def longest(self) -> int:
        """Operators in series between any two registers, or registers and ports."""
        ends = [r"\o"]
        for kind, sources in self.drivers.values():
            ends += sources if kind == "dff" else []
        return max(self.depth(end) for end in ends)

    def registers(self, name: str = r"\o") -> set[int]:
        """How many registers there are on the ways from the input to the wire ``name``."""
        if name == r"\i":
            return {0}
        kind, sources = self.drivers.get(name, ("wire", set()))
        if kind == "dff":  # D is the held value or the new one
            (chosen,) = sources
            sources = self.drivers[chosen][1] - {name}
        return {n + (kind == "dff") for source in sources for n in self.registers(source)}


@settings(max_examples=100)
@given(CONDITIONS | NUMBERS, st.sampled_from([None, 1, 2, 3]))
def test_no_more_operators_than_allowed_lie_between_two_registers(expr, ops):
    pipeline = ExprPipeline(expr, OPERANDS, ops_per_stage=ops)
    netlist = Netlist(pipeline)
    if ops is None:
        assert netlist.longest() == operator_levels(expr)
    else:
        assert netlist.longest() <= ops
    if columns_of(simplify(expr)):
        assert netlist.registers() == {pipeline.latency}
    for kind, ports in netlist.cells:
        assert NAMES.findall(" ".join(ports.values())), "this could be computed beforehand"
        assert not kind.startswith("reduce") or len(re.findall(r"\[", ports["A"])) <= 6


def test_the_netlist_of_a_known_expression():
    """The check itself: an operator more, or a register less, would be seen."""
    expr = Compare("<", Arith("+", Arith("*", A, B), Abs(A)), U)
    assert operator_levels(expr) == 3
    assert Netlist(ExprPipeline(expr, OPERANDS, ops_per_stage=None)).longest() == 3
    for ops, longest, latency in [(1, 1, 3), (2, 2, 2), (3, 3, 1), (4, 3, 1)]:
        netlist = Netlist(ExprPipeline(expr, OPERANDS, ops_per_stage=ops))
        assert (netlist.longest(), netlist.registers()) == (longest, {latency})
    kinds = [kind for kind, _ in netlist.cells if kind != "dff"]
    assert sorted(kinds) == ["add", "add", "lt", "mul", "xor"]


@pytest.mark.parametrize(
    ("expr", "levels"),
    [
        (A, 0),
        (ONE, 0),
        (Not(F), 0),
        (Arith("+", ONE, ONE), 0),
        (Arith("+", A, U), 1),
        (Arith("+", A, D), 2),
        (Arith("+", D, ONE), 1),
        (Compare("<", A, D), 2),
        (Compare("<", D, ONE), 1),
        (Compare("<", A, HALF), 1),
        (Compare("=", A, HALF), 0),
        (Compare("<", N, M), 1),
        (Abs(A), 1),
        (Abs(U), 0),
        (Compare("<=", Abs(Arith("-", A, U)), HALF), 3),
        (Compare("<=", Abs(Arith("-", A, U)), B), 3),
        (Compare("<=", DISTANCE, HALF), 5),
        (Logic("AND", (F,)), 0),
        (Logic("AND", (F,) * 6), 1),
        (Logic("AND", (F,) * 7), 2),
        (Logic("OR", (F,) * 36), 2),
        (Logic("OR", (F,) * 37), 3),
        (CHOICES, 4),
        (Logic("AND", (Compare("<=", Abs(A), ONE), Compare("<=", Abs(U), ONE), F, F, F)), 2),
    ],
)
def test_operators_in_series(expr, levels):
    assert operator_levels(expr) == levels
    assert pipeline_latency(expr, None) == 0
    for ops in (1, 2, 3):
        assert pipeline_latency(expr, ops) == max(1, (levels + ops - 1) // ops)


def late(levels: int) -> Expr:
    """A condition with as many operators in series."""
    total: Expr = A
    for _ in range(levels - 1):
        total = Arith("+", total, B)
    return Compare("<", total, U) if levels else F


@given(st.lists(st.integers(0, 5), min_size=2, max_size=60), st.sampled_from(["AND", "OR"]))
def test_conditions_are_joined_in_the_shallowest_tree(levels, op):
    # A node at depth n under the root can have 6 ** n places; a late term takes up many of them.
    room = sum(6**level for level in levels)
    least = next(depth for depth in range(20) if 6**depth >= room)
    assert operator_levels(Logic(op, tuple(late(level) for level in levels))) == least


@settings(max_examples=400)
@given(EXPRESSIONS, ROWS)
def test_simplified_expressions_are_equal(expr, row):
    simple = simplify(expr)
    assert evaluate(simple, row) == evaluate(expr, row)
    assert type(simple.type) is type(expr.type)
    if isinstance(expr.type, Number):
        assert (simple.type.scale, simple.type.unit) == (expr.type.scale, expr.type.unit)
        assert expr.type.low <= simple.type.low <= simple.type.high <= expr.type.high


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("value", [-25, -20, -5, 0, 5, 10, 20, 25, 99, 1000])
@pytest.mark.parametrize("left", [A, Abs(A), Abs(Arith("-", A, U)), Abs(Z), Negate(U), D])
def test_comparisons_with_constants_need_no_products(op, value, left):
    """All values of ``left`` against a constant with more digits, on both sides."""
    right = Const.number(value, 1)
    read = sorted(columns_of(left))
    for expr in (Compare(op, left, right), Compare(op, right, left)):
        simple = simplify(expr)
        assert not [node for node in nodes(simple) if isinstance(node, Arith) and node.op == "*"]
        for raw in range(-32, 32):
            row = {key: min(max(raw, SCHEMA[key[1]].low), SCHEMA[key[1]].high) for key in read}
            assert evaluate(simple, row) == evaluate(expr, row)


def cells_of(expr: Expr) -> list[str]:
    netlist = Netlist(ExprPipeline(expr, OPERANDS, ops_per_stage=None))
    return sorted(kind for kind, _ in netlist.cells)


def test_what_hardware_is_spared():
    band = Compare("<=", Abs(Arith("-", A, column("a", "s"))), HALF)
    assert cells_of(band) == ["ge", "le", "reduce_and", "sub"]
    assert cells_of(Compare(">", Abs(A), ONE)) == ["gt", "lt", "reduce_or"]
    assert cells_of(Compare("<", A, HALF)) == ["lt"]
    assert cells_of(Compare("=", A, HALF)) == []
    assert cells_of(Arith("+", D, ONE)) == ["add"]
    assert cells_of(Abs(A)) == ["add", "xor"]
    assert cells_of(Abs(U)) == []
    assert cells_of(Arith("*", Arith("+", A, B), Arith("+", A, B))) == ["add", "mul"]
    assert cells_of(Compare("<", N, M)) == ["lt"]


@pytest.mark.parametrize("ops", [0, -1, 1.5, True, "2"])
def test_operators_per_stage_are_counted(ops):
    message = f"Operators per stage must be a positive integer or None, not {ops!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ExprPipeline(A, OPERANDS, ops_per_stage=ops)


@pytest.mark.parametrize("source", ["r", "x"])
def test_the_operands_have_every_column(source):
    with pytest.raises(ValueError, match=rf"^The operands have no column {source}\.x$"):
        ExprPipeline(Not(Column(source, "x", BoolType())), OPERANDS)
