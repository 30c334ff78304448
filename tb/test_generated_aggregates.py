"""Generated tops for aggregates, from query text to rows, against the definition."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.aggregate import AggregateEngine
from joinery_gen.at_run import change
from joinery_gen.engines import plan
from joinery_gen.generate import generate
from joinery_gen.query import JoineryError, Query
from joinery_tb.aggregate_cases import AggregateCase, random_tuples, sliding_query
from joinery_tb.bench import Script
from joinery_tb.design import Design
from joinery_tb.replay import simulate
from joinery_tb.runner import run_cocotb
from joinery_tb.words import encode, result_files

DESIGNS: dict[str, tuple[Query, str, dict[str, Any]]] = {
    "panes": (sliding_query((12, 4), slack=9, where="x > -5"), "panes", {}),
    "panes, lanes": (sliding_query((35, 10), slack=4, where="x > -5"), "panes", {"lanes": 4}),
    "panes, sequential": (sliding_query((9, 6), slack=9), "panes", {"wlq": "sequential"}),
    "panes, keys": (
        sliding_query((12, 8), slack=9, by="k", select="t, k, count(*), max(x), avg(x)"),
        "panes",
        {"keys": 16},
    ),
    "wid": (sliding_query((10, 4), slack=9, where="x > -5"), "wid", {"sum_rows": 500}),
    "panes, several queries": (
        sliding_query((12, 4), (9, 2), (6, 6), (35, 5), slack=7, where="k <> 3"),
        "panes",
        {"sum_rows": 300},
    ),
    "panes, counted steps": (
        sliding_query((64, 1), select="count(*), t", time="INT(12)", slack=3),
        "panes",
        {"slots": 32},
    ),
}
VERILATED = ("panes, several queries", "verilator")
"""Builds of Verilator take longest, so that it gets the design that has most in it."""
TUPLES = 400
"""Enough for every slot to be used again."""


def tuples_for(query: Query, count: int, seed: int = 1, disorder: int = 12) -> AggregateCase:
    stream = random_tuples(count, seed=seed, disorder=disorder)
    low, high = query.sources[0].schema["t"].low, query.sources[0].schema["t"].high
    size = high - low + 1
    if size < 1 << 20:  # where time ends, it does not leap far
        stream = [{**each, "t": (each["t"] - low) % size + low} for each in stream]
    return AggregateCase(query, stream)


def check(case: AggregateCase, design: Path, folder: Path, **options: Any) -> int:
    """Hold rows and counters to the definition; return the cycles."""
    prepared = case.prepare(folder / "input")
    out = folder / "out.parquet"
    report = simulate(design, prepared, out, **options)
    top = Design(design).top
    for number, file in enumerate(result_files(top, out)):
        assert case.rows_of(pq.read_table(file), number) == case.found[number][0], number
    counted = {name: report.replay.registers[name] for name in case.counters}
    assert counted == case.counters
    assert report.replay.registers["errors"] == 0
    return report.replay.cycles


@pytest.fixture(scope="module")
def designs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("designs")
    for name, (query, engine, parameters) in DESIGNS.items():
        generate(plan(query, engine, parameters), folder / name)
    return {name: folder / name for name in DESIGNS}


@pytest.mark.parametrize(("name", "sim"), [*((name, "icarus") for name in DESIGNS), VERILATED])
def test_rows_and_late_tuples(
    designs: dict[str, Path], name: str, sim: str, tmp_path: Path
) -> None:
    case = tuples_for(DESIGNS[name][0], TUPLES)
    assert all(rows for rows, _ in case.found)
    assert case.counters["late"]
    for stalls in ({}, {"stall_in": 0.3, "stall_out": 0.7}):
        check(case, designs[name], tmp_path, sim=sim, **stalls)


@settings(max_examples=15)
@given(
    st.lists(st.integers(-40, 40), max_size=40),
    st.sampled_from(sorted(DESIGNS)),
    st.integers(0, 3),
)
def test_any_times(
    designs: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    times: list[int],
    name: str,
    marks: int,
) -> None:
    """In any order, a punctuation among them now and then."""
    stream = [
        {"t": t, "k": n % 8, "x": 7 * n, "_punctuation": int(marks > 0 and n % 4 == marks)}
        for n, t in enumerate(times)
    ]
    case = AggregateCase(DESIGNS[name][0], stream)
    check(case, designs[name], tmp_path_factory.mktemp("any"), sim="icarus")


# Settings.

BUILT = sliding_query((35, 10), (12, 6), slack=9, where="x > -5 AND k <> 3")
CHANGES = [
    {"range_0": 14, "slide_0": 7, "range_1": 7, "slide_1": 7, "slack": 3},
    {"range_1": 11, "slide_1": 3, "where_0_0": 2000, "where_1_1": -8},
]


def test_settings_give_the_rows_of_a_build_with_their_values(tmp_path: Path) -> None:
    top = generate(plan(BUILT, "panes", {"runtime": 1, "sum_rows": 500}), tmp_path / "design")
    case = tuples_for(BUILT, TUPLES)
    for values in CHANGES:
        meant, writes = change(BUILT, top, values)
        assert meant.body != BUILT.body
        check(
            AggregateCase(meant, case.tuples), tmp_path / "design", tmp_path, sim="icarus",
            writes=writes,
        )  # fmt: skip
    check(case, tmp_path / "design", tmp_path, sim="icarus")
    _, too_many_panes = change(BUILT, top, {"range_1": 13, "slide_1": 1})
    out = tmp_path / "out.parquet"
    report = simulate(
        tmp_path / "design", tmp_path / "input", out, sim="icarus", writes=too_many_panes
    )
    assert case.rows_of(pq.read_table(out / "case.cql_1.parquet")) == case.found[0][0]
    told = {name: report.replay.registers[name] for name in ("applied", "refused", "errors")}
    assert told == {"applied": 0, "refused": 1, "errors": 1 << AggregateEngine.SETTING}


def test_wrong_settings(tmp_path: Path) -> None:
    top = generate(plan(BUILT, "panes", {"runtime": 1, "sum_rows": 500}), tmp_path / "design")
    plain = {**top, "settings": []}
    names = "range_0, slide_0, range_1, slide_1, slack, where_0_0, where_0_1, where_1_0, where_1_1"
    for described, values, message in (
        (plain, {"range": 5}, "The design has no setting 'range'; it has none; try --set "
         "runtime=1"),
        (top, {"range": 5}, f"The design has no setting 'range'; it has {names}"),
        (top, {"range_1": 36}, "Setting range_1 is built for 1 to 35, not 36"),
    ):  # fmt: skip
        with pytest.raises(JoineryError, match=f"^{message}$"):
            change(BUILT, described, values)


# At the ports.

AT_PORTS = ("panes, lanes", "panes, keys", "wid")
PROTOCOL_TESTS = 17
REGISTER_TESTS = 4


def leave_script(design: Design, case: AggregateCase, folder: Path) -> dict[str, str]:
    """Leave what cocotb is to send and to expect, and return the variable that names it."""
    stimulus = encode(design.top, case.prepare(folder / "prepared"), folder / "stimulus")
    script = Script.of_stimulus(
        design, stimulus.path, case.words(design.top), {**case.counters, "errors": 0}
    )
    script.save(folder / "script.json")
    return {"JOINERY_BENCH_SCRIPT": str(folder / "script.json")}


@pytest.mark.parametrize(("name", "sim"), [*((name, "icarus") for name in AT_PORTS), VERILATED])
def test_protocol(designs: dict[str, Path], name: str, sim: str, tmp_path: Path) -> None:
    case = tuples_for(DESIGNS[name][0], 40, seed=3)
    env = leave_script(Design(designs[name]), case, tmp_path)
    assert run_cocotb(designs[name], sim=sim, extra_env=env) == PROTOCOL_TESTS


def test_registers(designs: dict[str, Path], tmp_path: Path) -> None:
    name = "panes"
    env = leave_script(Design(designs[name]), tuples_for(DESIGNS[name][0], 40), tmp_path)
    module = "joinery_tb.cocotb_tests.registers"
    assert run_cocotb(designs[name], sim="icarus", module=module, extra_env=env) == REGISTER_TESTS
