"""Faults put into generated Verilog, one at a time: the simulation must find each of them."""

import re
from collections import Counter
from pathlib import Path

import pytest

from joinery_gen.engines import plan
from joinery_gen.generate import generate
from joinery_tb.cases import JoinCase, join_query, random_arrivals
from joinery_tb.design import Design, DesignError
from joinery_tb.joins import Arrival
from joinery_tb.replay import replay
from joinery_tb.words import decode, encode

QUERY = join_query(20, 13, where="r.k < s.k")  # not the same from left to right as back
MANY = JoinCase(QUERY, random_arrivals(120, 8))


def one_match(before: int) -> JoinCase:
    """Only the last two tuples match; they meet in the last step of the drain, at a place in the
    memories that depends on the number of tuples before them."""
    arrivals: list[Arrival] = [
        ("left", {"k": 9, "v": n}) if n % 2 else ("right", {"k": 1, "w": n}) for n in range(before)
    ]
    arrivals += [("left", {"k": 4, "v": before}), ("right", {"k": 5, "w": before + 1})]
    return JoinCase(QUERY, arrivals)


# One after the other: what is left of one shows in the next.
STREAMS = (MANY, MANY, *(one_match(before) for before in range(30, 40)))

CORE = r"join_core(_\d+)?"
PROBER, LEFT_PROBER = CORE + r"\.prober_\w+", CORE + r"\.prober_left"
QUEUE, SEQUENCER = PROBER + r"\.queue", r"top\.engine\.sequencer"
FAULTS = {
    "inverted comparison": ("expr_pipeline", r"(less = .+) < ", r"\1 >= ", 1),
    "swapped operands": (LEFT_PROBER, r"\{ rows__0, probe \}", "{ probe, rows__0 }", 2),
    "column of another row": (LEFT_PROBER, r"\{ rows__0(\[.+\], probe,)", r"{ probe\1", 2),
    "dropped valid": (CORE, r"(assign valid = probe_left_valid) & .+;", r"\1;", 2),
    "lost valid": (r"top\.output", r"= i__valid \| spare_full;", "= i__valid;", 1),
    "stuck ready": (r"top\.input", r"(assign i__ready) = .+;", r"\1 = 1'h1;", 1),
    "ready that never comes": (r"merger\.queue", r"(assign i__ready) = .+;", r"\1 = 1'h0;", 1),
    "wrong address increment": (QUEUE, r"(read__addr \+) 1'h1", r"\1 2'h2", 4),
    "queue that overflows": (PROBER, r"(assign room) = .+;", r"\1 = 1'h1;", 4),
    "window one row short": (CORE + r"\.left", r"(wraps = .+) == 3'h4;", r"\1 == 3'h3;", 2),
    "windows not cleared": (SEQUENCER, r"(command__clear) <= .+;", r"\1 <= 1'h0;", 1),
    "scan one row short": (SEQUENCER, r"(= \w+) (== final_now;)", r"\1 + 1'h1 \2", 1),
    "half a drain": (SEQUENCER, r"(steps_left -) 1'h1", r"\1 2'h2", 1),
    "early end": (SEQUENCER, r"(flight ==) \d'h\w", r"\1 2", 1),
    "lost end": (SEQUENCER, r"(assign o_end__valid) = .+;", r"\1 = 1'h0;", 1),
    "wrong count": (r"top\.registers", r"(= results) \+ ", r"\1 - ", 1),
}
"""By name: the modules it goes into, what is replaced there, by what, and how often it is found."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Design:
    folder = tmp_path_factory.mktemp("good")
    generate(plan(QUERY, "handshake", {"cores": 4, "storage": "memory"}), folder)
    return Design(folder)


@pytest.fixture(scope="module")
def stimulus(good: Design, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stimulus")
    words = b""
    for number, case in enumerate(STREAMS):
        prepared = case.prepare(folder / f"prepared_{number}")
        words += encode(good.top, prepared, folder / "words").path.read_bytes()
    (folder / "words").write_bytes(words)
    return folder / "words"


def inject(text: str, fault: tuple[str, str, str, int]) -> str:
    """Return the Verilog with a fault in it."""
    module, pattern, replacement, times = fault
    found = 0

    def change(match: re.Match[str]) -> str:
        nonlocal found
        changed, count = re.subn(pattern, replacement, match[0])
        found += count
        return changed

    text = re.sub(rf"^module \\?{module} ?\(.*?^endmodule", change, text, flags=re.M | re.S)
    assert found == times, f"{pattern!r} is there {found} times"
    return text


def find_fault(design: Design, stimulus: Path, folder: Path) -> str:
    """Return what is wrong with a design; nothing, where it is right."""
    try:
        report = replay(
            design, stimulus, folder / "results", sim="icarus", stall_out=0.5, patience=3000
        )
        rows = MANY.rows_of(decode(design.top, folder / "results"))
    except DesignError as error:
        return str(error)
    right = sum((case.rows for case in STREAMS), Counter())
    if rows != right:
        return f"{(right - rows).total()} rows missing, {(rows - right).total()} too many"
    expected = sum((Counter(case.counters) for case in STREAMS), Counter())
    counted = {name: report.registers[name] for name in expected}
    return "" if counted == expected else f"counted {counted}, not {dict(expected)}"


def test_no_fault(good: Design, stimulus: Path, tmp_path: Path) -> None:
    assert find_fault(good, stimulus, tmp_path) == ""


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name: str, good: Design, stimulus: Path, tmp_path: Path) -> None:
    (tmp_path / "top.json").write_text((good.directory / "top.json").read_text())
    (tmp_path / "top.v").write_text(inject(good.verilog.read_text(), FAULTS[name]))
    found = find_fault(Design(tmp_path), stimulus, tmp_path)
    print(found)
    assert found
