# amaranth: UnusedElaboratable=no
# (an engine whose parameters are refused is left half made)
"""Handshake and nested-loop joins in Amaranth's simulator, against the definition of the join."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.expr import Abs, Arith, Column, Compare, Const, Expr, Logic
from joinery.handshake import POLICIES, HandshakeJoin
from joinery.join import JoinPair, TimeBound
from joinery.tuples import Field, IntType, Schema
from joinery_tb.engine_runs import run
from joinery_tb.joins import arrivals_to_transfers, join_rows, transfer_payload
from joinery_tb.simulate import STALLS, run_stream

ROW = Schema((Field("key", IntType(3, signed=False)), Field("tag", IntType(12, signed=False))))


def column(source: str, name: str) -> Column:
    return Column(source, name, ROW[name])


EQUAL = Compare("=", column("r", "key"), column("s", "key"))
BAND = Compare("<=", Abs(Arith("-", column("r", "key"), column("s", "key"))), Const.number(1))
ALL = Compare("=", Const.number(1), Const.number(1))
NONE = Compare("<", column("r", "key"), Const.number(0))
MIXED = Logic(
    "OR", (Logic("AND", (EQUAL, Compare("<>", column("r", "key"), Const.number(3)))), NONE)
)


def pair_of(predicate: Expr) -> JoinPair:
    return JoinPair(("r", "s"), ROW, ROW, predicate, ("tag",), ("tag",))


def numbered(keys: list[tuple[str, int]]) -> list[tuple[str, dict[str, int]]]:
    """Arrivals with the given keys, each with a tag of its own."""
    return [(side, {"key": key, "tag": tag}) for tag, (side, key) in enumerate(keys)]


def expected(engine, runs):
    return [
        Counter(join_rows(engine.pair, arrivals, engine.rows_left, engine.rows_right))
        for arrivals in runs
    ]


ARRIVALS = st.lists(st.tuples(st.sampled_from(["left", "right"]), st.integers(0, 7)), max_size=40)


@st.composite
def networks(draw, cores):
    merge = draw(st.sampled_from(["tree", "ring", "fsm_tree"]))
    if merge == "fsm_tree":
        return {"merge": merge}
    return {
        "merge": merge,
        "lanes": draw(st.sampled_from([n for n in (1, 2, 4) if n <= cores])),
        "fan_in": draw(st.integers(2, 4)),
        "merge_depth": draw(st.integers(2 if merge == "ring" else 1, 3)),
    }


@st.composite
def configurations(draw):
    """Arguments of an engine. The engine itself is made in the test: hypothesis may drop draws."""
    predicate = draw(st.sampled_from([EQUAL, BAND, ALL, NONE, MIXED]))
    rows_left, rows_right = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    cores = draw(st.integers(1, min(rows_left, rows_right)))
    return {
        "pair": pair_of(predicate),
        "rows_left": rows_left,
        "rows_right": rows_right,
        "cores": cores,
        "comparators": draw(st.integers(1, -(-max(rows_left, rows_right) // cores))),
        "storage": draw(st.sampled_from(["registers", "memory"])),
        "flow": draw(st.sampled_from(["chain", "broadcast"])),
        "ops_per_stage": draw(st.integers(1, 3)),
        **draw(networks(cores)),
    }


STALLED = st.sampled_from(sorted(STALLS)).map(STALLS.__getitem__)


@settings(max_examples=60)
@given(
    configuration=configurations(),
    runs=st.lists(ARRIVALS.map(numbered), min_size=1, max_size=2),
    stall_in=STALLED,
    stall_out=STALLED,
    together=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_handshake_is_the_join(configuration, runs, stall_in, stall_out, together, seed):
    engine = HandshakeJoin(**configuration)
    found = run(engine, runs, stall_in=stall_in, stall_out=stall_out, together=together, seed=seed)
    assert found.results == expected(engine, runs)
    assert found.refused == [False] * len(found.refused)
    assert found.dropped == found.errors == 0


@settings(max_examples=12)
@given(
    configuration=configurations(),
    arrivals=ARRIVALS.map(numbered),
    stall_out=STALLED,
    rate=st.sampled_from([0.3, 0.77, 1.0, 2.9]),
)
def test_network_on_its_own_clock(configuration, arrivals, stall_out, rate):
    engine = HandshakeJoin(**configuration, merge_clock="own")
    found = run(engine, [arrivals, arrivals], stall_out=stall_out, rate=rate)
    assert found.results == expected(engine, [arrivals, arrivals])


@settings(max_examples=25)
@given(
    configuration=configurations(),
    runs=st.lists(ARRIVALS.map(numbered), min_size=1, max_size=2),
    stall_out=st.sampled_from([0.5, 0.9, 0.97]),
    seed=st.integers(0, 1000),
)
def test_shed_joins_what_it_accepts(configuration, runs, stall_out, seed):
    engine = HandshakeJoin(**configuration, policy="shed")
    found = run(engine, runs, stall_out=stall_out, seed=seed)
    log = iter(found.refused)
    accepted = []
    for arrivals in runs:
        kept = [t for t in arrivals_to_transfers(arrivals) if not next(log)]
        sides = [(side, row) for t in kept for side, row in zip(("left", "right"), t, strict=True)]
        accepted.append([(side, row) for side, row in sides if row is not None])
    assert next(log, None) is None
    assert found.results == expected(engine, accepted)


def test_shed_refuses_and_block_waits():
    """With a slow output and everything matching, shed loses tuples and block loses time."""
    arrivals = numbered([("left" if k % 2 else "right", 0) for k in range(120)])
    outcomes = {}
    for policy in POLICIES:
        engine = HandshakeJoin(pair_of(ALL), rows_left=8, rows_right=8, cores=2, policy=policy)
        outcomes[policy] = run(engine, [arrivals], stall_out=0.8)
    block, shed, drop = (outcomes[policy] for policy in POLICIES)
    everything = expected(engine, [arrivals])
    assert block.results == everything
    assert block.stalled > 0
    assert not any(block.refused)
    assert any(shed.refused)
    assert shed.results[0] < everything[0]
    assert shed.dropped == block.dropped == drop.stalled == 0
    assert drop.results[0] < everything[0]
    assert drop.dropped == (everything[0] - drop.results[0]).total() > 0
    assert not any(drop.refused)
    assert drop.cycles < block.cycles


@settings(max_examples=15)
@given(
    configuration=configurations(),
    arrivals=ARRIVALS.map(numbered),
    stall_out=st.sampled_from([0.0, 0.9]),
)
def test_drop_results_invents_nothing(configuration, arrivals, stall_out):
    engine = HandshakeJoin(**configuration, policy="drop_results", queue_depth=2)
    found = run(engine, [arrivals], stall_out=stall_out)
    (everything,) = expected(engine, [arrivals])
    assert found.results[0] <= everything
    assert (everything - found.results[0]).total() == found.dropped


def last_wait(flow: str) -> int:
    """Cycles that the match of the last two tuples waits when nothing comes after them."""
    engine = HandshakeJoin(pair_of(EQUAL), rows_left=64, rows_right=64, cores=8, flow=flow)
    payloads = [
        transfer_payload(engine.pair, t)
        for t in arrivals_to_transfers(numbered([("left", 1), ("right", 1)]))
    ]
    outputs, cycles = run_stream(engine, {"i": payloads}, idle=500)
    return cycles if outputs["o"] else -1


def test_broadcast_bounds_the_latency():
    """In a chain the pair waits for tuples that never come; in a broadcast it is out at once."""
    assert last_wait("chain") == -1
    assert (
        last_wait("broadcast") == 9
    )  # commands 2, read 1, predicate 1, queue 1, outlet 1, tree 2, and itself


@pytest.mark.parametrize("flow", ["chain", "broadcast"])
@pytest.mark.parametrize(
    ("rows", "cores", "comparators"), [(12, 3, 1), (12, 3, 2), (12, 3, 4), (13, 4, 3)]
)
def test_rate_without_matches(flow, rows, cores, comparators):
    """One tuple of each stream every ceil(W / (n k)) cycles, exactly."""
    engine = HandshakeJoin(
        pair_of(NONE),
        rows_left=rows,
        rows_right=rows - 1,
        cores=cores,
        comparators=comparators,
        flow=flow,
    )
    sides = ["left", "right"]
    cycles = [
        run(engine, [numbered([(side, 0) for _ in range(pairs) for side in sides])]).cycles
        for pairs in (20, 50)
    ]
    assert cycles[1] - cycles[0] == 30 * -(-rows // (cores * comparators))


TIMED = Schema((Field("time", IntType(6)), Field("tag", IntType(12, signed=False))))
NEAR = Compare(
    "<=",
    Abs(Arith("-", *(Column(name, "time", TIMED["time"]) for name in "rs"))),
    Const.number(3),
)


@settings(max_examples=30)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["left", "right"]), st.integers(-2, 3)), max_size=40),
    rows=st.integers(2, 12),
    slack=st.integers(0, 2),
    flow=st.sampled_from(["chain", "broadcast"]),
)
def test_time_windows(steps, rows, slack, flow):
    """Exact where no flag is raised; no flag where every tuple stays as long as it must."""
    pair = JoinPair(("r", "s"), TIMED, TIMED, NEAR, ("tag",), ("tag",))
    engine = HandshakeJoin(
        pair, rows_left=rows, rows_right=rows + 1, cores=2, flow=flow,
        bound=TimeBound("time", "time", 3, slack),
    )  # fmt: skip
    time, arrivals = 0, []
    for tag, (side, step) in enumerate(steps):
        time = min(max(time + step, -32), 31)
        arrivals.append((side, {"time": time, "tag": tag}))
    found = run(engine, [arrivals])
    exact = Counter(join_rows(pair, arrivals, len(arrivals) + 1, len(arrivals) + 1))
    latest, kept, flags = None, {"left": [], "right": []}, 0
    sizes = {"left": rows, "right": rows + 1}
    for side, row in arrivals:
        if latest is not None and row["time"] + slack < latest:
            flags |= 2
        latest = row["time"] if latest is None else max(latest, row["time"])
        kept[side].append(row["time"])
        if len(kept[side]) > sizes[side] and kept[side].pop(0) + 3 + slack >= latest:
            flags |= 1
    assert found.results[0] <= exact
    if not flags:
        assert found.errors == 0
        assert found.results[0] == exact
    if found.results[0] != exact:
        assert found.errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows_left": 0}, "The left window must have a positive number of rows, not 0"),
        ({"cores": 9}, "Cores must be 1 to 8, the smaller window's rows, not 9"),
        ({"comparators": 6}, "Comparators must be 1 to 5, the most rows of a core, not 6"),
        ({"storage": "disk"}, "Storage must be registers or memory, not 'disk'"),
        ({"flow": "ring"}, "Flow must be chain or broadcast, not 'ring'"),
        ({"policy": "wait"}, "Policy must be block or shed or drop_results, not 'wait'"),
        ({"merge": "bus"}, "Merge must be tree or ring or fsm_tree, not 'bus'"),
        ({"merge_clock": "fast"}, "Merge clock must be same or own, not 'fast'"),
        ({"lanes": 3}, "Lanes must be 1, 2 or 4, not 3"),
        (
            {"queue_depth": 4},
            "Result queues of 4 can overflow: 5 rounds of matches may be on their way when a core "
            "asks to wait, so the depth must be at least 6",
        ),
    ],
)
def test_wrong_parameters(change, message):
    right = {"rows_left": 8, "rows_right": 10, "cores": 2}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        HandshakeJoin(pair_of(EQUAL), **(right | change))
