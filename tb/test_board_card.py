"""A card on a board: its host over the link, against every pair tested one by one."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from joinery.link import LinkShape
from joinery_gen.engines import plan
from joinery_gen.fjoin_host import CardLayout, DeviceError, HostSettings
from joinery_gen.generate import generate, generate_board
from joinery_gen.link import Board, BoardCard, LinkError
from joinery_gen.link import board as board_module
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError, JoinQuery
from joinery_tb.card import open_card
from joinery_tb.design import Design
from joinery_tb.host_cases import Case, make_tuples, run_host
from joinery_tb.simulated_board import SimulatedBoard
from joinery_tb.toolchain import environment

QUERY = parse(
    """
CREATE STREAM r (k INT(4), v INT, time INT);
CREATE STREAM s (k INT(4), v INT, time INT);
SELECT r.k, s.v, r.v - s.v AS d FROM r [RANGE 10 WATTR time], s [RANGE 10 WATTR time]
WHERE abs(r.k - s.k) <= 1
""",
    "band",
)
SMALL = {
    "fjoin": {"units_left": 4, "units_right": 3, "cluster": 2, "id_bits": 8, "memory_kib": 4},
    "fjoin_paper": {"units_left": 2, "units_right": 2, "memory_kib": 4},
}


def small(engine: str = "fjoin", **settings: int) -> Any:
    return plan(QUERY, engine, {**SMALL[engine], **settings}, on_board=True)


@pytest.mark.parametrize("engine", SMALL)
def test_each_pair_once_and_in_order_over_a_bad_line(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several sources, disorder, rounds of ids, full result buffers, and many turns of the line."""
    monkeypatch.setattr(board_module, "AT_ONCE", 64)
    tuples = make_tuples(300, sources=(2, 2), pace=1.0, slack=5, skew=2, seed=7)
    chosen = HostSettings(2, 2, slice_tuples=8, result_tuples=4, stream_tuples=9)
    assert isinstance(QUERY.body, JoinQuery)
    case = Case(QUERY.body, 10, tuples, range(0, 300, 40), settings=chosen).with_signals(20)
    simulated = SimulatedBoard(
        small(engine), tmp_path, damage=0.005, seed=3, shape=LinkShape(8, 32)
    )
    with simulated, Board(simulated.path, simulated.top) as board:
        device = BoardCard(board)
        result = run_host(case, device, CardLayout.from_dict(simulated.top["records"]))
        assert result.pairs == case.pairs()
        assert len(result.pairs) > 200
        assert board.read("errors") == 0
        before = device.cycles
        assert device.cycles > before > 10_000
        check_errors(device, board)
    assert simulated.report["damaged_in"] > 20


def check_errors(device: BoardCard, board: Board) -> None:
    size = device.memory_bytes
    with pytest.raises(DeviceError, match=f"^A read of 8 bytes at {size} is outside the memory$"):
        device.read(size, 8)
    base = board.top["memory"]["address"]
    with pytest.raises(LinkError, match=f"^The core has no memory to be written at {base - 4:#x}$"):
        board.store(base - 4, bytes(4))
    with pytest.raises(LinkError, match=f"^The core has no memory to be read at {base - 4:#x}$"):
        board.load(base - 4, 4)
    device.write(16, bytes(range(160)))
    assert device.read(18, 150) == bytes(range(2, 152))


def test_a_card_on_a_board_is_clean_verilog(tmp_path: Path) -> None:
    chosen = small()
    generate(chosen, tmp_path)
    top = generate_board(chosen, tmp_path, cycles_per_bit=4)
    assert top["memory"] == {"address": 4096, "bytes": 4096}
    assert {"input", "output"}.isdisjoint(top)
    for module in ("top", "board"):
        lint = ["verilator", "--lint-only", "-Wall", "--top-module", module, f"{module}.v"]
        result = subprocess.run(
            lint, cwd=tmp_path, env=environment("verilator"), capture_output=True, text=True
        )
        assert (result.returncode, result.stderr) == (0, "")


def test_defaults_on_a_board() -> None:
    """A word is as wide as the widest tuple; elsewhere memory lies outside."""
    on_board = plan(QUERY, None, {}, on_board=True).parameters
    assert (on_board["word_bytes"], on_board["memory_kib"]) == (16, 128)
    assert plan(QUERY).parameters["memory_kib"] == 0
    assert plan(QUERY, None, {"memory_kib": 64}, on_board=True).parameters["memory_kib"] == 64


def refuses(message: str) -> Any:
    return pytest.raises(JoineryError, match=f"^{re.escape(message)}$")


def test_cards_that_can_not_be(tmp_path: Path) -> None:
    with refuses(
        "band has no board: it leaves memories outside, and boards have block RAM; try --set "
        "memory_kib=128"
    ):
        outside = plan(QUERY, None, {"memory_kib": 0}, on_board=True)
        generate_board(outside, tmp_path, cycles_per_bit=8)
    with refuses("engine fjoin: Addresses of 20 bits reach 1048576 bytes, not 2097152"):
        generate_board(small(memory_kib=2048), tmp_path, cycles_per_bit=8)
    with refuses("band has no board: Addresses of the link have 24 bits, and those of the core 25"):
        generate_board(small(memory_kib=1 << 14, address_bits=24), tmp_path, cycles_per_bit=8)
    generate(small(), tmp_path)
    with (
        refuses(
            "A card with its memory on the chip is simulated as a board: joinery run --port sim; "
            "or leave out --set memory_kib"
        ),
        open_card(Design(tmp_path)),
    ):
        pass
