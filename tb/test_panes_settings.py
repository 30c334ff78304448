# amaranth: UnusedElaboratable=no
"""Settings of the panes engine that are changed at run time: against builds with those values."""

from collections import Counter
from math import gcd

import pytest
from amaranth.sim import Simulator

from joinery.aggregate import Aggregate, PaneQuery, PaneStream
from joinery.expr import Abs, Arith, Column, Compare, Const, Logic
from joinery.panes import PaneAggregation
from joinery.panes.plan import PanePlan
from joinery.panes.planner import PanePlanner
from joinery.panes.settings import PaneSettings
from joinery.tuples import DecimalType, Field, IntType, Schema, StringType, TimestampType
from joinery_tb.panes import expected_rows, items_to_transfers, run_engine
from joinery_tb.simulate import STALLS

SCHEMA = Schema((Field("time", TimestampType("ms")), Field("v", IntType(8))))
V = Column("t", "v", SCHEMA["v"])
COUNT = Aggregate("n", "count")
PLANNED = 169  # cycles from a request for the settings below until it is planned
ALL = (COUNT, Aggregate("mean", "avg", V), Aggregate("low", "min", V), Aggregate("high", "max", V))
EPOCH_MS = 1_700_000_000_000
BUILT = {"range": 24, "slide": 1, "slack": 4, "where_0_0": -200}


def one_query(values):
    """The stream and the query of a build with ``values``."""
    where = Compare(">", V, Const.number(values["where_0_0"]))
    query = PaneQuery(where, ALL, values["range"], values["slide"])
    return PaneStream("t", SCHEMA, "time", values["slack"]), [query]


def three_queries(values):
    queries = [
        PaneQuery(None, (COUNT,), values["range_0"], values["slide_0"]),
        PaneQuery(
            Logic(
                "AND",
                (
                    Compare("<=", Abs(V), Const.number(values["where_1_0"])),
                    Compare("<", Const.number(values["where_1_1"]), V),
                ),
            ),
            (COUNT, Aggregate("high", "max", V)),
            values["range_1"],
            values["slide_1"],
        ),
        PaneQuery(None, (Aggregate("total", "sum", V),), values["range_2"], values["slide_2"]),
    ]
    return PaneStream("t", SCHEMA, "time", values["slack"]), queries


def items_of(count, *, start=EPOCH_MS, seed=7):
    """Tuples out of order, with a leap and punctuations."""
    time, found = start, []
    for k in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        time += (seed >> 16) % 4 + (1000 if k == count // 2 else 0)
        here = time - ((seed >> 8) % 8 if seed >> 20 & 1 else 0)
        found.append(
            here if (seed >> 12) % 9 == 0 else {"time": here, "v": (seed >> 4) % 256 - 128}
        )
    return found


def check(make, built, inputs, requests, *, effects=None, refused=0, lanes=1, wlq="parallel",
          keys=64, **options):  # fmt: skip
    """Make requests, each in a cycle, and compare all rows with those of the definition.

    ``effects`` are the settings that come into force, one after the other. The transfers taken
    before that are one input to the definition, those after it another.
    """
    engine = PaneAggregation(*make(built), runtime=True, slots=64, lanes=lanes, wlq=wlq, keys=keys)
    source = engine.source
    seen = {"cycle": 0, "taken": 0, "refused": 0}
    cuts = []

    def act(ctx):
        ctx.set(engine.apply, 0)
        for moment, values in requests:
            if moment == seen["cycle"]:
                for name, value in values.items():
                    ctx.set(getattr(engine, f"set_{name}"), value)
                ctx.set(engine.apply, 1)
        if ctx.get(engine.applied):
            cuts.append(seen["taken"])
            assert not (ctx.get(engine.i.valid) and ctx.get(engine.i.ready))
        seen["taken"] += ctx.get(engine.i.valid) and ctx.get(engine.i.ready)
        seen["refused"] += ctx.get(engine.refused)
        seen["cycle"] += 1

    transfers = [items_to_transfers(source, items, lanes=lanes) for items in inputs]
    options = {"idle": 260, **options}
    found = run_engine(engine, transfers, act=act, **options)
    if effects is None:
        effects = [values for _, values in requests]
    elif callable(effects):
        effects = effects(len(cuts))
    assert len(cuts) == len(effects)
    assert seen["refused"] == refused
    assert found.errors == (refused > 0) << engine.SETTING

    now, left, begin = dict(built), list(zip(cuts, effects, strict=True)), 0
    late = [0] * len(engine.queries)
    for items, rows in zip(inputs, found.rows, strict=True):
        size = -(-len(items) // lanes) + 1
        expected = [Counter() for _ in engine.queries]
        first = 0
        while True:
            while left and left[0][0] <= begin + first:
                now |= left.pop(0)[1]
            last = left[0][0] - begin if left and left[0][0] < begin + size else size
            stream, queries = make(now)
            pane = gcd(*(each.range for each in queries), *(each.slide for each in queries))
            for k, query in enumerate(queries):
                part = items[first * lanes : last * lanes]
                more, missed = expected_rows(stream, query, part, pane=pane)
                expected[k] += more
                late[k] += missed
            first = last
            if last == size:
                break
        begin += size
        assert [Counter(each) for each in rows] == expected
    assert found.late == late
    return found, cuts


WITHIN = [
    {"range": 24, "slide": 1},
    {"range": 23, "slide": 1},
    {"range": 10, "slide": 4},
    {"range": 7, "slide": 5},
    {"range": 3, "slide": 7},
    {"range": 1, "slide": 1},
    {"range": 1, "slide": 24},
    {"range": 2, "slide": 1},
    {"range": 24, "slide": 24},
    {"range": 24, "slide": 9},
    {"range": 12, "slide": 12, "slack": 24},
    {"range": 20, "slide": 8, "slack": 0},
    {"range": 5, "slide": 1, "slack": 1, "where_0_0": 0},
    {"where_0_0": 127},
    {"where_0_0": -128},
]


@pytest.mark.parametrize(
    ("values", "wlq"),
    [*((each, "parallel") for each in WITHIN), *((each, "sequential") for each in WITHIN[1:8:2])],
    ids=str,
)
def test_same_rows_as_a_build(values, wlq):
    """In the same order, in as many cycles, too: a request before the first tuple costs nothing."""
    items, idle = items_of(50), 260 if wlq == "parallel" else 800
    found, cuts = check(one_query, BUILT, [items], [(0, values)], wlq=wlq, idle=idle)
    assert cuts == [0]
    build = PaneAggregation(*one_query(BUILT | values), slots=64, wlq=wlq)
    same = run_engine(build, [items_to_transfers(build.source, items)], idle=idle)
    assert found.rows == same.rows
    assert found.late == same.late
    assert found.stalled == same.stalled
    assert found.cycles == same.cycles


LOWEST = SCHEMA["time"].low


@pytest.mark.parametrize(
    ("values", "after", "moment", "start", "stall_in", "stall_out"),
    [
        ({"range": 10, "slide": 4}, {"range": 3, "slide": 7}, 2, EPOCH_MS, "none", "none"),
        ({"range": 1, "slide": 1}, {"range": 24, "slide": 9}, 33, LOWEST + 8, "none", "random"),
        ({"range": 2, "slide": 1, "slack": 0}, BUILT, 9, -40, "periodic", "periodic"),
        ({"where_0_0": 0, "slack": 24}, {"range": 5, "slack": 1}, 57, -300, "random", "random"),
    ],
    ids=str,
)
def test_a_change_in_mid_stream(values, after, moment, start, stall_in, stall_out):
    """Two changes, far enough from each other that both come into force."""
    inputs = [items_of(550, start=start), items_of(5)]
    _, cuts = check(
        one_query, BUILT, inputs, [(moment, values), (moment + 420, after)],
        stall_in=STALLS[stall_in], stall_out=STALLS[stall_out],
    )  # fmt: skip
    assert 0 < cuts[0] < cuts[1]


BUILT_THREE = {
    "range_0": 12, "slide_0": 4, "range_1": 6, "slide_1": 2, "range_2": 4, "slide_2": 6,
    "slack": 2, "where_1_0": 100, "where_1_1": -3,
}  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        {"range_1": 2, "slide_1": 4, "where_1_0": 5, "where_1_1": -128},
        {"range_0": 12, "slide_0": 12, "range_1": 6, "slide_1": 6, "range_2": 6, "slide_2": 12},
        {"range_0": 6, "slide_0": 1, "range_1": 3, "slide_1": 5, "range_2": 2, "slide_2": 3},
    ],
    ids=str,
)
def test_queries_with_settings_of_their_own(values):
    inputs = [items_of(20), items_of(500), items_of(20)]
    _, cuts = check(
        three_queries, BUILT_THREE, inputs, [(40, values), (480, BUILT_THREE)], idle=420
    )
    assert len(inputs[0]) < cuts[0] < cuts[1]


@pytest.mark.parametrize(
    ("built", "values"),
    [
        (BUILT, {"range": 25}),
        (BUILT, {"range": 0}),
        (BUILT, {"slide": 0}),
        (BUILT, {"slide": 25}),
        (BUILT, {"slack": 25}),
        (BUILT, {"slack": 31}),
        (BUILT | {"range": 24, "slide": 8}, {"slide": 2}),  # 12 panes instead of 3
        (BUILT | {"range": 10, "slide": 5}, {"range": 1}),  # windows 5 panes apart instead of 2
        (BUILT | {"range": 512, "slide": 512}, {"range": 4, "slide": 4, "slack": 252}),
    ],
    ids=str,
)
def test_refused(built, values):
    """A request out of the limits changes nothing, neither at the beginning nor later."""
    inputs = [items_of(10), items_of(30)]
    check(one_query, built, inputs, [(0, values), (60, values)], effects=[], refused=2)


def test_slack_as_far_as_slots_go():
    values = {"range": 4, "slide": 4, "slack": 4 * 63 - 1}
    items = [*items_of(10), EPOCH_MS + 250, *items_of(20, seed=3)]
    check(one_query, BUILT | {"range": 512, "slide": 512}, [items], [(0, values)])


def test_constants_are_refused_beyond_their_range():
    """Two values that the register holds, but not the column that it is compared with."""
    for value, good in ((-201, 0), (-200, 1), (127, 1), (128, 0)):
        check(
            one_query, BUILT, [items_of(8)], [(0, {"where_0_0": value})],
            effects=None if good else [], refused=1 - good,
        )  # fmt: skip


def test_a_request_replaces_one_that_waits():
    first, second, third = {"range": 8}, {"slide": 3}, {"range": 6, "slide": 25}
    items = [items_of(350)]
    _, cuts = check(one_query, BUILT, items, [(20, first), (60, second)], effects=[first | second])
    assert cuts[0] > 60
    check(one_query, BUILT, items, [(20, third), (22, first | {"slide": 2})],
          effects=[first | {"slide": 2}])  # fmt: skip


def test_a_request_while_windows_leave():
    """At the end of an input, and while another request is about to come into force.

    Until the plan of the first one is made, a second one replaces it; then it comes after it.
    """
    first, second = {"range": 8, "slide": 2}, {"range": 5, "slide": 1, "where_0_0": 3}
    for moment in range(30, 60, 9):
        inputs = [items_of(30), items_of(20)]
        check(one_query, BUILT, inputs, [(moment, first)], stall_out=0.5)
    outcomes = []
    for moment in range(PLANNED - 3, PLANNED + 33, 9):
        _, cuts = check(
            one_query, BUILT, [items_of(200), items_of(9)], [(10, first), (10 + moment, second)],
            effects=lambda count: [first | second] if count == 1 else [first, second],
        )  # fmt: skip
        outcomes.append(len(cuts))
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {1, 2}
    requests = [(10, first), (10 + PLANNED + 6, {"range": 0})]
    check(one_query, BUILT, [items_of(300)], requests, effects=[first], refused=1)


def test_lanes_with_settings():
    values = {"range": 7, "slide": 3, "slack": 6}
    check(one_query, BUILT, [items_of(1000)], [(20, values), (210, BUILT)], lanes=4)


DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    "values",
    [
        {"range": DAY_US, "slide": DAY_US // 7 * 2 + 1, "slack": 0},
        {"range": DAY_US - 1, "slide": DAY_US - 1, "slack": DAY_US},
        {"range": 600_000_000, "slide": 1_000_000, "slack": 3},
        {"range": 1, "slide": 3, "slack": 61},
        {"range": 832_040 * 48, "slide": 514_229 * 48, "slack": 0},  # Fibonacci's
    ],
    ids=str,
)
def test_the_plan_is_exact(values):
    """Around multiples, and at the ends of the range, for years of microseconds."""
    column = TimestampType("us")
    source = PaneStream("t", Schema((Field("time", column),)), "time")
    changes = PaneSettings(source, (PaneQuery(None, (COUNT,), DAY_US, 1),))
    plan = PanePlan(source, changes.queries, slots=1 << 40, settings=changes)
    found, cycles = planned(plan, values)
    pane = gcd(values["range"], values["slide"])
    panes, step = values["range"] // pane, values["slide"] // pane
    window = found.windows[0]
    assert (found.pane, found.most_panes, window.panes, window.step) == (pane, panes, panes, step)
    assert (panes - 1 + window.phase) % step == 0
    assert window.phase < step
    short = window.shape()["offset"].width
    for width, divisor, multiplier, offsets in (
        (
            plan.total_bits,
            pane,
            found.multiplier,
            ((plan.offset, 0), (found.offset, values["slack"])),
        ),
        (short, values["slide"], window.multiplier, ((window.offset, values["slack"]),)),
    ):
        for number in edges(divisor, column.low, column.high, values["slack"]):
            for offset, less in offsets:
                total = (number * multiplier + offset) % (1 << width)
                quotient = (number - less) // divisor
                assert total >> plan.shift == quotient % (1 << width - plan.shift)
    assert cycles < 5000


def planned(plan, values):
    """What the planner makes of settings, and the cycles that it takes."""
    planner = PanePlanner(plan)
    found = []

    async def bench(ctx):
        for name, value in values.items():
            ctx.set(planner.asked[name], value)
        ctx.set(planner.apply, 1)
        await ctx.tick()
        ctx.set(planner.apply, 0)
        cycles = 1
        while not ctx.get(planner.ready):
            assert not ctx.get(planner.refused)
            await ctx.tick()
            cycles += 1
        found.extend([ctx.get(planner.planned), cycles])

    simulator = Simulator(planner)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def edges(divisor, low, high, slack):
    """Numbers around multiples, shifted by ``slack`` and not, that are from low to high."""
    first, last = low // divisor, high // divisor
    for quotient in (first + 1, -2, -1, 0, 1, 2, 12_345, last):
        for near in range(quotient * divisor - 2, quotient * divisor + 3):
            yield from (number for number in (near, near + slack) if low <= number <= high)


def test_what_constants_become():
    """The range of what they are compared with, at the finer scale; else of a column type."""
    schema = Schema(
        (
            Field("time", TimestampType("ms")),
            Field("p", DecimalType(4, 2)),
            Field("c", StringType(3)),
            Field("v", IntType(8)),
        )
    )
    p, c, v = (Column("t", name, schema[name]) for name in ("p", "c", "v"))
    where = Logic(
        "AND",
        (
            Compare("<", p, Const.number(7)),
            Compare("<>", Const.text("ab"), c),
            Compare(">", v, Const.number(25, 1)),
            Compare("=", v, Arith("*", Arith("+", v, Const.number(3)), Const.number(1))),
        ),
    )
    source = PaneStream("t", schema, "time")
    found = PaneSettings(source, (PaneQuery(where, (COUNT,), 4, 2),)).all
    assert [(each.name, each.low, each.high, each.initial) for each in found] == [
        ("range", 1, 4, 4),
        ("slide", 1, 4, 2),
        ("slack", 0, 4, 0),
        ("where_0_0", -9999, 9999, 700),
        ("where_0_1", 0, (1 << 24) - 1, StringType(3).encode("ab")),
        ("where_0_2", -1280, 1270, 25),
        ("where_0_3", -128, 127, 3),
        ("where_0_4", -128, 127, 1),
    ]
    assert found[3].description == "Constant of WHERE, times 10 ** 2"


def test_keys_with_settings():
    """Keys are forgotten as at an end: the table holds those of either part, not all."""
    schema = Schema((*SCHEMA.fields, Field("k", IntType(8))))

    def make(values):
        query = PaneQuery(None, ALL, values["range"], values["slide"])
        return PaneStream("t", schema, "time", values["slack"], ("k",)), [query]

    items = [
        item if isinstance(item, int) else item | {"k": number // 60}
        for number, item in enumerate(items_of(240))
    ]
    built = {"range": 6, "slide": 1, "slack": 2}
    requests = [(0, {"range": 1}), (350, {"range": 5})]
    _, cuts = check(make, built, [items], requests, keys=3)
    assert 60 < cuts[1] < 180
