"""Generated tops at their ports, driven cycle by cycle in both simulators."""

from pathlib import Path
from typing import Any

import pytest

from joinery_gen.engines import plan
from joinery_gen.generate import generate
from joinery_tb.bench import Script
from joinery_tb.cases import JoinCase, join_query, random_arrivals
from joinery_tb.design import Design
from joinery_tb.runner import run_cocotb
from joinery_tb.words import encode

SIMULATORS = ["verilator", "icarus"]
QUERY = join_query(20, 13)
DESIGNS: dict[str, tuple[str, dict[str, Any]]] = {
    "nested_loop": ("nested_loop", {}),
    "4 cores": ("handshake", {"cores": 4}),
    "13 cores": ("handshake", {"cores": 13, "storage": "memory", "lanes": 2}),
}
INPUTS = {"some match": 5, "all match": 1, "none match": 0}
"""The number of different keys."""

PROTOCOL_TESTS = 17
REGISTER_TESTS = 4


@pytest.fixture(scope="module")
def designs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Design]:
    folder = tmp_path_factory.mktemp("designs")
    for name, (engine, settings) in DESIGNS.items():
        generate(plan(QUERY, engine, settings), folder / name)
    return {name: Design(folder / name) for name in DESIGNS}


def leave_script(design: Design, keys: int, folder: Path) -> dict[str, str]:
    """Leave what cocotb is to send and to expect, and return the variable that names it."""
    case = JoinCase(QUERY, random_arrivals(40, keys))
    stimulus = encode(design.top, case.prepare(folder / "prepared"), folder / "stimulus")
    lost = {"refused": 0, "dropped_results": 0, "errors": 0}
    script = Script.of_stimulus(
        design, stimulus.path, case.words(design.top), {**case.counters, **lost}
    )
    script.save(folder / "script.json")
    return {"JOINERY_BENCH_SCRIPT": str(folder / "script.json")}


@pytest.mark.parametrize("sim", SIMULATORS)
@pytest.mark.parametrize("keys", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("name", DESIGNS)
def test_protocol(
    designs: dict[str, Design], name: str, keys: int, sim: str, tmp_path: Path
) -> None:
    env = leave_script(designs[name], keys, tmp_path)
    assert run_cocotb(designs[name].directory, sim=sim, extra_env=env) == PROTOCOL_TESTS


@pytest.mark.parametrize("sim", SIMULATORS)
def test_registers(designs: dict[str, Design], sim: str, tmp_path: Path) -> None:
    env = leave_script(designs["4 cores"], 5, tmp_path)
    module = "joinery_tb.cocotb_tests.registers"
    ran = run_cocotb(designs["4 cores"].directory, sim=sim, module=module, extra_env=env)
    assert ran == REGISTER_TESTS
