"""``joinery bench boards``: every engine as a bitstream, built as `joinery build` does it.

Sizes are small, so that place and route takes minutes: what counts is that each engine, with its
link, its clock and its pins, becomes what a board loads, and reaches the board's clock.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joinery_gen.engines import Plan, plan
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError
from joinery_synth.boards import BOARDS
from joinery_synth.build import CELLS

from .bench_synth import names_of
from .build import build_bitstream
from .common import read_query, say

__all__ = ["CASES", "Case", "bench_boards"]


@dataclass(frozen=True)
class Case:
    """A query of the repository for an engine, with other windows where ``rows`` says so."""

    query: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[int, int] = field(default_factory=dict)

    def plan(self, engine: str) -> Plan:
        query = read_query(self.query)
        text = query.text
        for old, new in self.rows.items():
            text = text.replace(f"ROWS {old}]", f"ROWS {new}]")
        named = parse(text, query.name)
        return plan(named, engine, self.settings, on_board=True)


FEW = {300: 12, 200: 8}
CARD = {"units_left": 4, "units_right": 4, "memory_kib": 32}

CASES = {
    "handshake": Case("tick_band", {"cores": 2}, FEW),
    "nested_loop": Case("tick_band", {}, FEW),
    "fjoin": Case("order_taxi", {**CARD, "cluster": 4}),
    "fjoin_paper": Case("order_taxi", CARD),
    "panes": Case("ubsn_count"),
    "wid": Case("ubsn_count"),
    "glacier": Case("ubsn_count"),
    "mlq": Case("airport_delays", {"keys": 64}),
}
"""All engines."""


def bench_boards(
    engine: str = "all", board: str = "ulx3s_85f", seed: int = 1
) -> list[dict[str, Any]]:
    """Build each engine for a board with open tools, which takes minutes for each.

    The check of a row: the design reaches the board's clock.
    """
    names = names_of("bench boards: engine", engine, CASES)
    if board not in BOARDS or not BOARDS[board].runs:
        known = ", ".join(each.name for each in BOARDS.values() if each.runs)
        raise JoineryError(f"bench boards: board must be {known}, not {board!r}")
    return [_row(name, board, seed) for name in names]


def _row(engine: str, board: str, seed: int) -> dict[str, Any]:
    chosen = CASES[engine].plan(engine)
    say(f"  {engine}, {board}")
    with tempfile.TemporaryDirectory(prefix="joinery-boards-") as folder:
        about = build_bitstream(chosen, board, Path(folder), None, seed)
        size = Path(about["bitstream"]).stat().st_size
    cells = CELLS[BOARDS[board].family]
    used = {
        what: about["used"].get(cells[what], 0) if what in cells else None
        for what in ("lut", "ff", "bram")
    }
    return {
        "engine": engine,
        "query": chosen.query.name,
        "board": board,
        "clock_mhz": about["clock_mhz"],
        "fmax_mhz": about["fmax_mhz"],
        "meets_timing": about["meets_timing"],
        "bitstream_bytes": size,
        **used,
        **{f"{tool}_version": version for tool, version in about["tools"].items()},
    }
