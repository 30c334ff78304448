"""``joinery bench sweep``: random handshake joins, each held against the definition of the join."""

import random
from collections import Counter
from typing import Any

from joinery.expr import Abs, Arith, Column, Compare, Const, Expr
from joinery.handshake import POLICIES, HandshakeJoin
from joinery.join import JoinPair
from joinery.tuples import Field, IntType, Schema
from joinery_tb.engine_runs import run
from joinery_tb.joins import Arrival, arrivals_to_transfers, join_rows

from .common import say

__all__ = ["bench_sweep"]

ROW = Schema((Field("key", IntType(3, signed=False)), Field("tag", IntType(12, signed=False))))
LEFT, RIGHT = (Column(source, "key", ROW["key"]) for source in "rs")
PREDICATES: dict[str, Expr] = {
    "equal": Compare("=", LEFT, RIGHT),
    "band": Compare("<=", Abs(Arith("-", LEFT, RIGHT)), Const.number(1)),
    "all": Compare("=", Const.number(1), Const.number(1)),
    "none": Compare("<", LEFT, Const.number(0)),
}


def bench_sweep(configurations: int = 1000, seed: int = 1) -> list[dict[str, Any]]:
    """Run so many random configurations on random inputs with random stalls.

    One row for each network and policy: how many were run, and what was lost, duplicated or
    invented over all of them. Results that ``drop_results`` counted as dropped are not lost.
    """
    draw = random.Random(seed)
    totals: dict[tuple[str, str], Counter[str]] = {}
    for number in range(configurations):
        if number % 50 == 0:
            say(f"sweep: {number} of {configurations}")
        settings = _settings(draw)
        total = totals.setdefault((settings["merge"], settings["policy"]), Counter())
        total += _run(settings, draw)
    return [
        {
            "experiment": "random",
            "merge": merge,
            "policy": policy,
            **{name: total[name] for name in COLUMNS},
            "right": not (total["lost"] or total["duplicated"] or total["invented"]),
        }
        for (merge, policy), total in sorted(totals.items())
    ]


COLUMNS = (
    "configurations",
    "tuples",
    "refused",
    "results",
    "dropped",
    "lost",
    "duplicated",
    "invented",
)


def _settings(draw: random.Random) -> dict[str, Any]:
    rows_left, rows_right = draw.randint(1, 12), draw.randint(1, 12)
    cores = draw.randint(1, min(rows_left, rows_right))
    merge = draw.choice(["tree", "ring", "fsm_tree"])
    settings = {
        "rows_left": rows_left,
        "rows_right": rows_right,
        "cores": cores,
        "comparators": draw.randint(1, -(-max(rows_left, rows_right) // cores)),
        "storage": draw.choice(["registers", "memory"]),
        "flow": draw.choice(["chain", "broadcast"]),
        "policy": draw.choice(POLICIES),
        "merge": merge,
        "merge_clock": draw.choice(["same", "same", "own"]),
        "ops_per_stage": draw.randint(1, 3),
    }
    if merge != "fsm_tree":
        settings["lanes"] = draw.choice([lanes for lanes in (1, 2, 4) if lanes <= cores])
        settings["fan_in"] = draw.randint(2, 8)
        settings["merge_depth"] = draw.randint(2, 5)
    return settings


def _run(settings: dict[str, Any], draw: random.Random) -> "Counter[str]":
    predicate = PREDICATES[draw.choice(list(PREDICATES))]
    engine = HandshakeJoin(
        JoinPair(("r", "s"), ROW, ROW, predicate, ("tag",), ("tag",)), **settings
    )
    arrivals: list[Arrival] = [
        (draw.choice(["left", "right"]), {"key": draw.randrange(8), "tag": tag})
        for tag in range(draw.randint(0, 60))
    ]
    found = run(
        engine,
        [arrivals],
        stall_in=draw.choice([0.0, 0.3, 0.8]),
        stall_out=draw.choice([0.0, 0.3, 0.9]),
        seed=draw.randrange(1 << 30),
        rate=draw.choice([0.3, 1.0, 2.3]),
    )
    transfers = arrivals_to_transfers(arrivals)
    accepted: list[Arrival] = [
        (side, row)
        for transfer, refused in zip(transfers, found.refused, strict=True)
        for side, row in zip(("left", "right"), transfer, strict=True)
        if row is not None and not refused
    ]
    expected = Counter(join_rows(engine.pair, accepted, engine.rows_left, engine.rows_right))
    (results,) = found.results
    surplus = results - expected
    duplicated = sum(surplus[pair] for pair in surplus if pair in expected)
    return Counter(
        configurations=1,
        tuples=len(arrivals),
        refused=sum(found.refused),
        results=results.total(),
        dropped=found.dropped,
        lost=(expected - results).total() - found.dropped,
        duplicated=duplicated,
        invented=surplus.total() - duplicated,
    )
