# amaranth: UnusedElaboratable=no
"""Settings of the panes engine that are changed at run time: against builds with those values."""

from collections import Counter
from math import gcd

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.aggregate import Aggregate, PaneQuery, PaneStream
from joinery.expr import Abs, Arith, Column, Compare, Const, Logic
from joinery.panes import PaneAggregation
from joinery.tuples import DecimalType, Field, IntType, Schema, StringType, TimestampType
from joinery_tb.panes import expected_rows, items_to_transfers, run_engine
from joinery_tb.simulate import STALLS

SCHEMA = Schema((Field("time", TimestampType("ms")), Field("v", IntType(8))))
V = Column("t", "v", SCHEMA["v"])
COUNT = Aggregate("n", "count")
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
        found.append(here if (seed >> 12) % 9 == 0 else {"time": here, "v": (seed >> 4) % 256 - 128})
    return found


def check(make, built, inputs, requests, *, effects=None, refused=0, lanes=1, wlq="parallel",
          **options):  # fmt: skip
    """Make requests, each in a cycle, and compare all rows with those of the definition.

    ``effects`` are the settings that come into force, one after the other. The transfers taken
    before that are one input to the definition, those after it another.
    """
    engine = PaneAggregation(*make(built), runtime=True, slots=64, lanes=lanes, wlq=wlq)
    source = engine.pane_stream
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
    options = {"idle": 4000, **options}
    found = run_engine(engine, transfers, act=act, **options)
    if effects is None:
        effects = [values for _, values in requests]
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


@pytest.mark.parametrize("wlq", ["parallel", "sequential"])
@pytest.mark.parametrize("values", WITHIN, ids=str)
def test_same_rows_as_a_build(values, wlq):
    """In the same order, in as many cycles, too: a request before the first tuple costs nothing."""
    items = items_of(60)
    found, cuts = check(one_query, BUILT, [items], [(0, values)], wlq=wlq)
    assert cuts == [0]
    build = PaneAggregation(*one_query(BUILT | values), slots=64, wlq=wlq)
    same = run_engine(build, [items_to_transfers(build.pane_stream, items)])
    assert found.rows == same.rows
    assert found.late == same.late
    assert found.stalled == same.stalled
    assert found.cycles == same.cycles


@settings(max_examples=12)
@given(
    values=st.sampled_from(WITHIN),
    after=st.sampled_from(WITHIN),
    moment=st.integers(2, 60),
    start=st.sampled_from([EPOCH_MS, -40, SCHEMA["time"].low + 8]),
    stall_in=st.sampled_from(sorted(STALLS)),
    stall_out=st.sampled_from(sorted(STALLS)),
)
def test_a_change_in_mid_stream(values, after, moment, start, stall_in, stall_out):
    """Two changes, far enough from each other that both come into force."""
    inputs = [items_of(1100, start=start), items_of(5)]
    _, cuts = check(
        one_query, BUILT, inputs, [(moment, values), (moment + 1100, after)],
        stall_in=STALLS[stall_in], stall_out=STALLS[stall_out],
    )  # fmt: skip
    assert 0 < cuts[0] < cuts[1]
