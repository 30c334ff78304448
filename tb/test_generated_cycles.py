"""The cycle model against the simulated design: exact without matches, within 2 % with them."""

from pathlib import Path
from typing import Any

import pytest

from joinery_gen.cycles import predict_cycles
from joinery_gen.engines import plan
from joinery_gen.generate import generate
from joinery_gen.query import Query
from joinery_tb.cases import JoinCase, join_query, random_arrivals
from joinery_tb.replay import simulate

DESIGNS: dict[str, tuple[Query, str, dict[str, Any]]] = {
    "nested_loop": (join_query(20, 13), "nested_loop", {}),
    "nested_loop of one row": (join_query(1, 1), "nested_loop", {}),
    "1 core": (join_query(3, 8), "handshake", {"cores": 1}),
    "4 cores": (join_query(20, 13), "handshake", {"cores": 4}),
    "5 cores, computed columns": (
        join_query(11, 26, select="r.v + s.w AS total, r.k", where="abs(r.k - s.k) < 1"),
        "handshake",
        {"cores": 5, "storage": "memory", "ops_per_stage": 1},
    ),
    "13 cores, 2 lanes": (join_query(13, 40), "handshake", {"cores": 13, "lanes": 2}),
}
NOTHING_MATCHES = {
    "empty": random_arrivals(0, 0),
    "one left row": random_arrivals(1, 0, order="r"),
    "one right row": random_arrivals(1, 0, order="s"),
    "one row of each": random_arrivals(2, 0, order="rsrs"),
    "left rows": random_arrivals(50, 0, order="r"),
    "right rows": random_arrivals(50, 0, order="s"),
    "in turn": random_arrivals(101, 0, order="rsrs"),
    "in any order": random_arrivals(150, 0),
}

LARGER: dict[str, tuple[Query, str, dict[str, Any]]] = {
    "nested_loop": (join_query(33, 17), "nested_loop", {}),
    "4 cores": (join_query(20, 13), "handshake", {"cores": 4}),
    "16 cores": (join_query(64, 50), "handshake", {"cores": 16, "storage": "memory"}),
    "13 cores, 2 lanes": (join_query(13, 40), "handshake", {"cores": 13, "lanes": 2}),
    "broadcast": (join_query(64, 50), "handshake", {"cores": 8, "flow": "broadcast"}),
    "comparators": (join_query(64, 50), "handshake", {"cores": 4, "comparators": 4}),
    "8 cores, near one result per cycle": (join_query(64, 64), "handshake", {"cores": 8}),
}
MATCHES = {
    "few match": (1500, 64),
    "more match": (1500, 16),
    "some match": (1500, 8),
    "all match": (300, 1),
}
"""Tuples, and different keys."""


def run(case: JoinCase, design: Path, top: dict[str, Any], folder: Path) -> tuple[int | None, int]:
    """Return the cycles as predicted and as simulated."""
    prepared = case.prepare(folder / "prepared")
    golden = case.write_golden(folder / "golden.parquet")
    report = simulate(design, prepared, folder / "out.parquet", sim="icarus")
    assert report.rows == len(case.pairs)
    assert report.replay.registers["cycles"] == report.replay.cycles
    return predict_cycles(top, prepared, golden), report.replay.cycles


@pytest.mark.parametrize("name", DESIGNS)
def test_exact_without_matches(name: str, tmp_path: Path) -> None:
    query, engine, settings = DESIGNS[name]
    top = generate(plan(query, engine, settings), tmp_path / "design")
    found = {
        kind: run(JoinCase(query, arrivals), tmp_path / "design", top, tmp_path)
        for kind, arrivals in NOTHING_MATCHES.items()
    }
    assert found == {kind: (cycles, cycles) for kind, (_, cycles) in found.items()}


@pytest.mark.parametrize(("count", "keys"), MATCHES.values(), ids=MATCHES)
@pytest.mark.parametrize("name", LARGER)
def test_near_with_matches(name: str, count: int, keys: int, tmp_path: Path) -> None:
    query, engine, settings = LARGER[name]
    top = generate(plan(query, engine, settings), tmp_path / "design")
    case = JoinCase(query, random_arrivals(count, keys))
    predicted, cycles = run(case, tmp_path / "design", top, tmp_path)
    assert case.pairs
    assert cycles > 3000
    assert abs(predicted - cycles) <= 0.02 * cycles
