# amaranth: UnusedElaboratable=no
# (a shell that is refused leaves its engine)
"""The shell of engines for aggregates, and the words to and from it, around an engine that only
reports each tuple: lanes, punctuations, several queries, averages, settings."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from joinery.aggregate import Setting
from joinery.axi import Identity
from joinery.expr import evaluate
from joinery_gen.engines import Engine, Form, Plan
from joinery_gen.engines.aggregates import aggregate_shell, pane_queries, pane_stream
from joinery_gen.generate import generate
from joinery_gen.query import AVG_EXTRA_DIGITS, AggregateOutput, KeyOutput, Query, WindowEndOutput
from joinery_tb.aggregate_cases import AggregateCase, sliding_query
from joinery_tb.design import Design, DesignError
from joinery_tb.replay import replay
from joinery_tb.single import SingleTuples
from joinery_tb.words import decode, encode

ONE = sliding_query((9, 3), where="x > 0.5")
KEYED = sliding_query((9, 3), (7, 7), select="k, max(x), t, avg(x - k) AS off, count(*)", by="k")
SETTINGS = (
    Setting("range", 1, 99, 9, "RANGE"),
    Setting("limit", -(1 << 40), 1 << 40, -5, "The constant of WHERE"),
)
DESIGNS: dict[str, tuple[Query, dict[str, Any]]] = {
    "one lane": (ONE, {}),
    "four lanes": (ONE, {"lanes": 4}),
    "two queries, keys": (KEYED, {"lanes": 2}),
    "settings": (ONE, {"settings": SETTINGS}),
}


def plan_of(query: Query, parameters: dict[str, Any]) -> Plan:
    def build(plan: Plan) -> SingleTuples:
        return SingleTuples(pane_stream(query), pane_queries(query), **parameters)

    return Plan(query, "single", {}, Engine((Form.SLIDING,), build, aggregate_shell))


def tuples(count: int) -> list[dict[str, int]]:
    """Times before the epoch and after it, and a punctuation now and then."""
    return [
        {"t": 3 * n - 40, "_punctuation": 1}
        if n % 7 == 3
        else {"t": 3 * n - 40, "k": n % 16 - 8, "x": (37 * n) % 1999 - 999}
        for n in range(count)
    ]


def single_rows(query: Query, stream: list[dict[str, int]]) -> Counter[tuple[int, ...]]:
    """What the engine reports of each tuple."""
    body: Any = query.body

    def value(output: Any, values: dict[tuple[str, str], int]) -> int:
        match output:
            case WindowEndOutput() | KeyOutput():
                return values["a", output.column.name]
            case AggregateOutput(argument=None):
                return 1
        scale = 10**AVG_EXTRA_DIGITS if output.function == "avg" else 1
        return evaluate(output.argument, values) * scale

    named = [{("a", name): each for name, each in row.items()} for row in stream]
    return Counter(
        tuple(value(output, values) for output in body.outputs)
        for values in named
        if not values.get(("a", "_punctuation"))
        and not values["a", "t"] % 2
        and (body.where is None or evaluate(body.where, values))
    )


@pytest.mark.parametrize("pair", [True, False], ids=["full transfers", "single tuples"])
@pytest.mark.parametrize("name", DESIGNS)
def test_words_there_and_back(name: str, pair: bool, tmp_path: Path) -> None:
    query, parameters = DESIGNS[name]
    generate(plan_of(query, parameters), tmp_path / "design")
    design = Design(tmp_path / "design")
    case = AggregateCase(query, tuples(61))
    prepared = case.prepare(tmp_path / "input")
    stimulus = encode(design.top, prepared, tmp_path / "words", pair=pair)
    lanes = parameters.get("lanes", 1) if pair else 1
    assert stimulus.transfers == -(-61 // lanes) + 1
    assert (stimulus.tuples, stimulus.punctuations) == ({"a": 52}, {"a": 9})
    report = replay(design, stimulus.path, tmp_path / "rows", sim="icarus", stall_out=0.3)
    assert report.registers["accepted"] == 52
    assert report.registers["punctuations"] == 9
    for number, part in enumerate(query.parts):
        rows = case.rows_of(decode(design.top, tmp_path / "rows", number), number)
        assert rows == single_rows(part, case.tuples)
    assert report.registers["results"] == report.results
    late = [sum(single_rows(part, shifted(case.tuples)).values()) for part in query.parts]
    assert report.registers["late"] == sum(late)
    if len(late) > 1:
        assert [report.registers[f"late_{k}"] for k in range(len(late))] == late


def shifted(stream: list[dict[str, int]]) -> list[dict[str, int]]:
    """Make odd times even, and even ones odd."""
    return [{**row, "t": row["t"] + 1} for row in stream]


def test_reports_are_as_many_as_queries() -> None:
    engine = plan_of(KEYED, {}).build()
    with pytest.raises(ValueError, match=r"^There are 2 queries, and 1 reports$"):
        aggregate_shell(plan_of(ONE, {}), engine, Identity(1, 2))


@pytest.mark.parametrize("sim", ["verilator", "icarus"])
def test_settings(sim: str, tmp_path: Path) -> None:
    """Registers reach the engine, wide ones in two halves, and tell what became of a request."""
    query, parameters = DESIGNS["settings"]
    top = generate(plan_of(query, parameters), tmp_path / "design")
    registers = {each["name"]: each for each in top["registers"]}
    assert [registers[name]["reset"] for name in ("range", "limit_lo", "limit_hi")] == [
        9,
        0xFFFFFFFB,
        0xFFFFFFFF,
    ]
    assert registers["limit_lo"]["description"] == (
        f"The constant of WHERE, {-1 << 40} to {1 << 40}"
    )
    stimulus = encode(top, AggregateCase(query, []).prepare(tmp_path / "input"), tmp_path / "words")
    for writes, applied, refused in (
        ([("range", 8), ("apply", 1), ("range", 6), ("apply", 1)], 2, 0),
        ([("range", 8), ("apply", 1), ("range", 7), ("apply", 1)], 1, 1),
        ([("range", 7), ("apply", 1), ("range", 8), ("apply", 1)], 1, 0),
        ([("limit_lo", -6), ("apply", 0)], 0, 0),
    ):
        report = replay(
            tmp_path / "design", stimulus.path, tmp_path / "rows", writes=writes, sim=sim
        )
        found = {name: report.registers[name] for name in ("applied", "refused")}
        assert found == {"applied": applied, "refused": refused}
        assert report.registers["range"] == dict(writes).get("range", 9)
    assert report.registers["limit"] == 2**64 - 6
    with pytest.raises(DesignError, match=r"^A register did not take what was written to it$"):
        replay(
            tmp_path / "design",
            stimulus.path,
            tmp_path / "rows",
            writes=[("identity", 1)],
            sim=sim,
        )
