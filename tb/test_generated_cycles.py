"""The cycle model against simulated designs: exact for joins without matches, else within 2 %."""

from pathlib import Path
from typing import Any

import pytest

from joinery_gen.cycles import predict_cycles
from joinery_gen.engines import plan
from joinery_gen.generate import generate
from joinery_gen.query import Query
from joinery_tb.aggregate_cases import AggregateCase, keyed_query, random_tuples, sliding_query
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


def run(case: JoinCase, design: Path, top: dict[str, Any], folder: Path) -> tuple[int, int]:
    """Return the cycles as predicted and as simulated."""
    prepared = case.prepare(folder / "prepared")
    golden = case.write_golden(folder / "golden.parquet")
    report = simulate(design, prepared, folder / "out.parquet", sim="icarus")
    assert report.rows == len(case.pairs)
    assert report.replay.registers["cycles"] == report.replay.cycles
    return predict_cycles(top, prepared, golden, case.query), report.replay.cycles


@pytest.mark.parametrize("name", DESIGNS)
def test_exact_without_matches(name: str, tmp_path: Path) -> None:
    query, engine, settings = DESIGNS[name]
    top = generate(plan(query, engine, settings), tmp_path / "design")
    found = {
        kind: run(JoinCase(query, arrivals), tmp_path / "design", top, tmp_path)
        for kind, arrivals in NOTHING_MATCHES.items()
    }
    assert found == {kind: (cycles, cycles) for kind, (_, cycles) in found.items()}


@pytest.mark.parametrize("name", LARGER)
def test_near_with_matches(name: str, tmp_path: Path) -> None:
    query, engine, settings = LARGER[name]
    top = generate(plan(query, engine, settings), tmp_path / "design")
    for kind, (count, keys) in MATCHES.items():
        case = JoinCase(query, random_arrivals(count, keys))
        predicted, cycles = run(case, tmp_path / "design", top, tmp_path)
        assert case.pairs
        assert cycles > 3000
        assert abs(predicted - cycles) <= 0.02 * cycles, kind


ALL = "t, count(*), avg(x), max(x)"
AGGREGATES: dict[str, tuple[Query, str, dict[str, Any]]] = {
    "tuples that close a pane": (sliding_query((10, 1)), "panes", {}),
    "leaps and disorder": (sliding_query((60, 7), slack=9), "panes", {}),
    "several SELECTs": (sliding_query((20, 4), (30, 6), slack=3), "panes", {}),
    "4 lanes": (sliding_query((60, 10)), "panes", {"lanes": 4}),
    "keys": (sliding_query((60, 10), select="t, k, count(*)", by="k"), "panes", {"keys": 16}),
    "sequential": (sliding_query((20, 1), select=ALL), "panes", {"wlq": "sequential"}),
    "sequential, panes without an end": (
        sliding_query((20, 4), select=ALL),
        "panes",
        {"wlq": "sequential"},
    ),
    "wid": (sliding_query((20, 4), slack=3), "wid", {}),
    "glacier": (sliding_query((20, 5)), "glacier", {}),
}
NO_WINDOW_SLIDES = {"no tuple": [], "one tuple": [{"t": 5, "k": 1, "x": 1}]}


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(name: str, tmp_path: Path) -> None:
    """Within 2 %, and within a few cycles where there are hardly any."""
    query, engine, settings = AGGREGATES[name]
    top = generate(plan(query, engine, settings), tmp_path / "design")
    disorder = 2 if query.body.source.window.slack else 0  # type: ignore[union-attr]
    streams = {
        "slow": random_tuples(700, step=1, disorder=disorder),
        "fast": random_tuples(500, seed=2, step=9, disorder=disorder),
        **NO_WINDOW_SLIDES,
    }
    for kind, tuples in streams.items():
        case = AggregateCase(query, tuples)
        prepared = case.prepare(tmp_path / "prepared")
        report = simulate(tmp_path / "design", prepared, tmp_path / "out.parquet", sim="icarus")
        assert report.rows == case.counters["results"]
        predicted = predict_cycles(top, prepared, "unused", query)
        assert abs(predicted - report.replay.cycles) <= max(3, 0.02 * report.replay.cycles), kind


def test_row_windows_in_block_ram(tmp_path: Path) -> None:
    query = keyed_query(7, 5, select="k, median(x), count(*)")
    top = generate(plan(query, "mlq", {"keys": 64}), tmp_path / "design")
    case = AggregateCase(query, random_tuples(3000))
    prepared = case.prepare(tmp_path / "prepared")
    report = simulate(tmp_path / "design", prepared, tmp_path / "out.parquet", sim="icarus")
    assert report.rows == case.counters["results"]
    predicted = predict_cycles(top, prepared, "unused", query)
    assert abs(predicted - report.replay.cycles) <= 0.02 * report.replay.cycles
