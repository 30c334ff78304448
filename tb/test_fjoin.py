# amaranth: UnusedElaboratable=no
# (a pipeline whose parameters are refused is left half made)
"""Join pipelines in Amaranth's simulator, against every pair tested one by one."""

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.expr import Abs, Arith, Bitwise, Column, Compare, Const, Expr, Logic
from joinery.fjoin import FJoinPaper, FJoinPipeline
from joinery.join import JoinPair
from joinery.tuples import DecimalType, Field, IntType, Schema
from joinery_tb.fjoin_runs import Batch, expected, random_batches, run_batches
from joinery_tb.simulate import STALLS

ROW = Schema(
    (
        Field("key", IntType(3)),
        Field("at", IntType(4, signed=False)),
        Field("more", DecimalType(3, 1)),
    )
)


def column(source: str, name: str) -> Column:
    return Column(source, name, ROW[name])


def apart(name: str) -> Expr:
    return Abs(Arith("-", column("r", name), column("s", name)))


EQUAL = Compare("=", column("r", "key"), column("s", "key"))
PREDICATES = {
    "equal": EQUAL,
    "distance": Compare("<=", Arith("+", apart("key"), apart("more")), Const.number(25, 1)),
    "prefix": Compare(
        "=",
        Bitwise("&", Bitwise("^", column("r", "key"), column("s", "key")), Const.number(6)),
        Const.number(0),
    ),
    "time": Logic("AND", (EQUAL, Compare(">", column("r", "at"), column("s", "at")))),
    "product": Compare(">", Arith("*", column("r", "key"), column("s", "key")), Const.number(3)),
    "one side": Compare("<", column("r", "key"), Const.number(0)),
    "always": Compare("=", Const.number(1), Const.number(1)),
    "never": Compare("=", Const.number(1), Const.number(2)),
}


def pair_of(predicate: Expr) -> JoinPair:
    return JoinPair(("r", "s"), ROW, ROW, predicate, (), ())


def pipeline_of(predicate: str = "equal", **parameters: Any) -> FJoinPipeline:
    settings = {
        "side": "left",
        "units": 4,
        "cluster": 2,
        "id_bits": 8,
        "time_bits": 12,
        **parameters,
    }
    return FJoinPipeline(pair_of(PREDICATES[predicate]), **settings)


RANGES = {"key": (-4, 3), "at": (0, 9), "more": (-60, 60)}


def values(rng: random.Random) -> Any:
    return lambda role, name: rng.randint(*RANGES[name])


def check(pipeline: FJoinPipeline, batches: list[Batch], time_range: int, **stalls: Any) -> None:
    found, _ = run_batches(pipeline, batches, time_range=time_range, **stalls)
    assert found == expected(pipeline.shape, batches, time_range)


STALLED = st.sampled_from(sorted(STALLS)).map(STALLS.__getitem__)


@st.composite
def configurations(draw: Any) -> dict[str, Any]:
    units = draw(st.integers(1, 9))
    cluster = draw(st.integers(1, 5))
    return {
        "predicate": draw(st.sampled_from(sorted(PREDICATES))),
        "side": draw(st.sampled_from(["left", "right"])),
        "units": units,
        "cluster": cluster,
        "lanes": draw(st.sampled_from([n for n in (1, 2, 4) if n <= -(-units // cluster)])),
        "ops_per_stage": draw(st.integers(1, 3)),
        "id_bits": draw(st.sampled_from([8, 32])),
    }


@settings(max_examples=45)
@given(data=st.data(), configuration=configurations(), stall_out=STALLED)
def test_every_pair_once(data: Any, configuration: dict[str, Any], stall_out: Any) -> None:
    pipeline = pipeline_of(**configuration)
    sizes = st.tuples(st.integers(0, configuration["units"]), st.integers(0, 12))
    rng = random.Random(data.draw(st.integers(0, 1000)))
    batches = random_batches(
        pipeline.shape,
        data.draw(st.lists(sizes, min_size=1, max_size=5)),
        rng=rng,
        value=values(rng),
        first_id=data.draw(st.sampled_from([0, 120, 250])),
        disorder=data.draw(st.sampled_from([0, 10])),
    )
    check(
        pipeline,
        batches,
        data.draw(st.sampled_from([0, 5, 2047])),
        stall_in={"i_stream": data.draw(STALLED), "i_window": data.draw(STALLED)},
        stall_out=stall_out,
    )


@settings(max_examples=15)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), min_size=1, max_size=3),
    predicate=st.sampled_from(sorted(PREDICATES)),
    stall=STALLED,
    seed=st.integers(0, 1000),
)
def test_paper(sizes: list[tuple[int, int]], predicate: str, stall: Any, seed: int) -> None:
    pipeline = FJoinPaper(
        pair_of(PREDICATES[predicate]), side="left", units=5, id_bits=8, time_bits=12
    )
    rng = random.Random(seed)
    batches = random_batches(pipeline.shape, sizes, rng=rng, value=values(rng))
    check(pipeline, batches, 100, stall_in=stall, stall_out=stall, seed=seed)


def test_batches_of_every_size() -> None:
    """Batches of 0 to all units, each with windows of 0, 1 and several tuples, back to back."""
    pipeline = pipeline_of(units=7, cluster=3, lanes=2)
    sizes = [(count, window) for count in range(8) for window in (0, 1, 9)]
    rng = random.Random(1)
    batches = random_batches(pipeline.shape, sizes, rng=rng, value=values(rng))
    check(pipeline, batches, 2047)


@pytest.mark.parametrize("stall", STALLS)
def test_every_pair_matches(stall: str) -> None:
    """As many results as pairs, and an output that cannot keep up."""
    pipeline = pipeline_of("always", units=8, cluster=4, lanes=2, depth=16)
    rng = random.Random(2)
    batches = random_batches(pipeline.shape, [(8, 40), (5, 30)], rng=rng, value=values(rng))
    check(pipeline, batches, 2047, stall_out=STALLS[stall])


WIDE = IntType(32)
FAR = Schema((Field("x", WIDE), Field("y", WIDE)))


@pytest.mark.parametrize("bound", [0, 1, 5000, 2**32, 2**33 - 3, 2**33 - 2])
def test_coordinates_at_the_ends_of_their_range(bound: int) -> None:
    x, y = (Abs(Arith("-", Column("r", name, WIDE), Column("s", name, WIDE))) for name in "xy")
    near = Compare("<=", Arith("+", x, y), Const.number(bound))
    pair = JoinPair(("r", "s"), FAR, FAR, near, (), ())
    pipeline = FJoinPipeline(pair, side="right", units=8)
    rng = random.Random(3)
    ends = [WIDE.low, WIDE.low + 1, -1, 0, 1, WIDE.high - 5000, WIDE.high - 1, WIDE.high]
    batches = random_batches(
        pipeline.shape, [(8, 40)], rng=rng, value=lambda role, name: rng.choice(ends)
    )
    check(pipeline, batches, 2**31 - 1)


@pytest.mark.parametrize("time_range", [0, 1, 5, 7])
def test_times_that_wrap(time_range: int) -> None:
    pipeline = pipeline_of("always", time_bits=4)
    window = [{"id": 1, "time": time} for time in range(16)]
    batches = [
        Batch([{"id": 2, "time": time} for time in range(16)][k::4], window) for k in range(4)
    ]
    check(pipeline, batches, time_range)


def test_ids_that_wrap() -> None:
    """Of two ids, the one up to half the space behind the other came first."""
    pipeline = pipeline_of("always", id_bits=4, units=1)
    batches = [
        Batch([{"id": stream, "time": 0}], [{"id": window, "time": 0} for window in range(16)])
        for stream in range(16)
    ]
    found, _ = run_batches(pipeline, batches, time_range=0)
    assert found == expected(pipeline.shape, batches, 0)
    assert found.pairs[3] == {(3, window % 16): 1 for window in range(12, 19)}


def steady(pipeline: FJoinPipeline, sizes: list[tuple[int, int]], seed: int = 0) -> int:
    """Cycles of a run whose inputs and output never pause."""
    rng = random.Random(seed)
    batches = random_batches(pipeline.shape, sizes, rng=rng, value=values(rng))
    found, run = run_batches(pipeline, batches, time_range=2047)
    assert found == expected(pipeline.shape, batches, 2047)
    return run.cycles


@pytest.mark.parametrize("window", [0, 1, 60])
def test_cycles_of_a_batch(window: int) -> None:
    """A window tuple per cycle, and for the change of batch the rows of units and the end."""
    runs = [
        steady(pipeline_of("never", units=12, cluster=4), [(12, window)] * count)
        for count in (9, 10)
    ]
    assert runs[1] - runs[0] == max(window + 4 + 1, 12 + 1)  # loading takes as long as it is


@pytest.mark.parametrize("lanes", [1, 2])
def test_cycles_of_results(lanes: int) -> None:
    """A match per cycle and lane, left out or not."""
    runs = [
        steady(pipeline_of("always", units=8, cluster=2, lanes=lanes), [(8, window)])
        for window in (40, 60)
    ]
    assert runs[1] - runs[0] == 20 * 8 // lanes


BAD: list[tuple[dict[str, Any], str]] = [
    ({"side": "both"}, "Pipeline side must be left or right, not 'both'"),
    ({"units": 0}, "Pipeline units must be a positive integer, not 0"),
    ({"cluster": 0}, "Units of a cluster must be a positive integer, not 0"),
    ({"lanes": 3}, "Lanes must be 1, 2 or 4, not 3"),
    ({"lanes": 4}, "4 units in clusters of 2 make 2 clusters, too few for 4 lanes"),
    ({"id_bits": 1}, "Ids have 2 to 64 bits, not 1"),
    ({"time_bits": 65}, "Times have 2 to 64 bits, not 65"),
    (
        {"depth": 6},
        "A queue of 6 can overflow: the matches of 6 window tuples may be on their way, so the "
        "depth must be at least 7",
    ),
]


@pytest.mark.parametrize(("parameters", "message"), BAD)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        pipeline_of(**parameters)
