"""``joinery build``: from a query to what a board loads."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    Settings,
    cell,
    json_option,
    make_table,
    plan_options,
    print_json,
    print_table,
    query_argument,
    read_query,
    say,
)
from .synth import working

if TYPE_CHECKING:
    from joinery_gen.engines import Plan
    from joinery_synth.boards import Board
    from joinery_synth.build import DoesNotFitError

BOARD_NAMES = ("ulx3s_85f", "ecpix5_85f", "ice40_hx8k", "arty_a7", "alveo_u280")

board_option = click.option(
    "--board", type=click.Choice(BOARD_NAMES), required=True, help="The board."
)


@click.command("build")
@query_argument
@board_option
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="The build's folder."
)
@click.option(
    "--clock",
    type=click.FloatRange(min=12),
    metavar="MHZ",
    help="The frequency; by default one that the board's PLL and the UART both divide well.",
)
@click.option(
    "--seed", type=int, metavar="N", default=1, show_default=True, help="Seed of the placement."
)
@plan_options
@json_option
@click.pass_context
def build_command(
    ctx: click.Context,
    query: str,
    board: str,
    out: Path,
    clock: float | None,
    seed: int,
    engine: str | None,
    settings: Settings,
    as_json: bool,
) -> None:
    """Build the design of QUERY for a board.

    The folder gets the core with its UART link, pins, clock and lights, and, for boards whose tools
    are open, the bitstream. For arty_a7 and alveo_u280 it gets Verilog, constraints and a Tcl
    script, which have not been run here. The exit code is 1 where the clock is faster than the
    design.

    \b
    Examples:
      joinery build tick_band --board ulx3s_85f -o build/ulx3s --set cores=8
      joinery build tick_band --board alveo_u280 -o build/u280 --clock 250
    """
    from joinery_gen.engines import plan

    chosen = plan(read_query(query), engine, settings, on_board=board != "alveo_u280")
    hertz = None if clock is None else clock * 1e6
    about = {"query": chosen.query.name, "engine": chosen.engine, "board": board}
    if board == "alveo_u280":
        about |= build_kernel(chosen, out, hertz or 250e6)
    else:
        about |= build_bitstream(chosen, board, out, hertz, seed)
    (out / "board.json").write_text(json.dumps(about, indent=2, default=str) + "\n")
    if as_json:
        print_json(about)
    else:
        rows = [{"what": name, "value": cell(value)} for name, value in about.items()]
        table = make_table(None, rows)
        table.show_header = False
        print_table(table)
    if about.get("meets_timing") is False:
        say(f"The clock of {about['clock_mhz']} MHz is too fast for the design; see --clock")
        ctx.exit(1)


def build_kernel(chosen: "Plan", out: Path, clock: float) -> dict[str, Any]:
    """Write a kernel for an Alveo card."""
    from joinery_gen.generate import generate
    from joinery_synth.alveo import write_kernel

    top = generate(chosen, out)
    files = write_kernel(top, out, clock=clock)
    return {
        "clock_mhz": clock / 1e6,
        "files": ", ".join(file.name for file in files),
        "run": "not run here; vivado -mode batch -source kernel.tcl",
    }


def build_bitstream(
    chosen: "Plan", board: str, out: Path, clock: float | None, seed: int
) -> dict[str, Any]:
    """Build for a board with a UART; return what there is to say of it."""
    from joinery_gen.generate import board_top, generate
    from joinery_gen.query import JoineryError
    from joinery_gen.verilog import to_verilog
    from joinery_synth.boards import BOARDS, cycles_per_bit, pll_of
    from joinery_synth.build import DoesNotFitError, build_board, tool_versions

    entry: Board = BOARDS[board]
    pll = pll_of(entry, clock or entry.clock)
    bit = cycles_per_bit(pll.frequency)
    core = board_top(chosen, cycles_per_bit=bit)
    generate(chosen, out / "core")
    try:
        with working(f"building {chosen.query.name} for {entry.what}"):
            built = build_board(
                entry, core, out, clock=pll.frequency, to_verilog=to_verilog, seed=seed
            )
    except DoesNotFitError as error:
        raise JoineryError(
            f"{chosen.query.name} does not fit on {board}: {error}{_nearest(chosen, entry, error)}"
        ) from None
    about: dict[str, Any] = {
        "clock_mhz": round(built.clock / 1e6, 3),
        "baud": round(built.clock / bit),
        "lights": ", ".join(built.lights),
    }
    if built.bitstream is None or built.routing is None:
        return {**about, "run": f"not run here; sh {out}/build_top.sh, with Vivado on PATH"}
    return {
        **about,
        "bitstream": built.bitstream,
        "fmax_mhz": built.routing.fmax,
        "meets_timing": built.meets_timing,
        "slowest_path": " to ".join(built.routing.ends),
        "used": {kind: count for kind, count in built.routing.used.items() if count},
        "tools": tool_versions(entry),
    }


def _nearest(chosen: "Plan", board: "Board", error: "DoesNotFitError") -> str:
    """Say what would fit, as far as that is known."""
    from joinery_synth.boards import BLOCK_BYTES
    from joinery_synth.model import forecast, has_units, most_units

    memory = int(chosen.parameters.get("memory_kib", 0))  # type: ignore[arg-type] # a number
    if "bram" in error.over and memory:
        taken, there = error.over["bram"]
        least = memory - -(-(taken - there) * BLOCK_BYTES[board.family] // 1024)
        return f"; --set memory_kib={least} would fit" if least > 0 else ""
    if not has_units(chosen):
        return ""
    found = forecast(chosen, board.family)
    most = most_units(found, board.device)
    return "" if most is None else f"; {most} {found.unit} of this size would fit"
