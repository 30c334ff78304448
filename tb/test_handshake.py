"""Handshake and nested-loop joins in Amaranth's simulator, against the definition of the join."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.expr import Abs, Arith, Column, Compare, Const, Expr, Logic
from joinery.handshake import HandshakeJoin
from joinery.join import JoinEngine, JoinPair
from joinery.tuples import Field, IntType, Schema
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


def run(engine: JoinEngine, runs, *, stall_in=0.0, stall_out=0.0, together=True, seed=0):
    """Send several inputs, one after the other; return the results of each, and the cycles."""
    payloads = []
    for arrivals in runs:
        transfers = [*arrivals_to_transfers(arrivals, together=together), None]
        payloads += [transfer_payload(engine.pair, transfer) for transfer in transfers]
    outputs, cycles = run_stream(
        engine, {"i": payloads}, stall_in=stall_in, stall_out=stall_out, seed=seed,
        idle=engine.quiet_cycles + engine.left_cycles + engine.right_cycles + 20,
    )  # fmt: skip
    results, found = [], []
    for result in outputs["o"]:
        if result["end"]:
            results.append(Counter(found))
            found = []
        else:
            match = result["match"]
            found.append((tuple(match["left"].values()), tuple(match["right"].values())))
    assert not found, "results after the last end"
    return results, cycles


def expected(engine, runs):
    return [
        Counter(join_rows(engine.pair, arrivals, engine.rows_left, engine.rows_right))
        for arrivals in runs
    ]


ARRIVALS = st.lists(st.tuples(st.sampled_from(["left", "right"]), st.integers(0, 7)), max_size=40)


@st.composite
def configurations(draw):
    """Arguments of an engine. The engine itself is made in the test: hypothesis may drop draws."""
    predicate = draw(st.sampled_from([EQUAL, BAND, ALL, NONE, MIXED]))
    rows_left, rows_right = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return dict(
        pair=pair_of(predicate),
        rows_left=rows_left,
        rows_right=rows_right,
        cores=draw(st.integers(1, min(rows_left, rows_right))),
        storage=draw(st.sampled_from(["registers", "memory"])),
        ops_per_stage=draw(st.integers(1, 3)),
        fan_in=draw(st.integers(2, 4)),
        merge_depth=draw(st.integers(1, 3)),
    )


@settings(max_examples=60)
@given(
    configuration=configurations(),
    runs=st.lists(ARRIVALS.map(numbered), min_size=1, max_size=2),
    stall_in=st.sampled_from(sorted(STALLS)),
    stall_out=st.sampled_from(sorted(STALLS)),
    together=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_handshake_is_the_join(configuration, runs, stall_in, stall_out, together, seed):
    engine = HandshakeJoin(**configuration)
    results, _ = run(
        engine, runs, stall_in=STALLS[stall_in], stall_out=STALLS[stall_out],
        together=together, seed=seed,
    )  # fmt: skip
    assert results == expected(engine, runs)
