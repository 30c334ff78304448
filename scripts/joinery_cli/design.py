"""``joinery gen`` and ``joinery plan``: a query to hardware, and what it would be."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .build import BOARD_NAMES
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


@click.command("gen")
@query_argument
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="The design's folder."
)
@plan_options
@json_option
def gen_command(
    query: str, out: Path, engine: str | None, settings: Settings, as_json: bool
) -> None:
    """Write the Verilog of QUERY.

    The folder gets top.v, an AXI core in plain Verilog, and top.json, which describes it: ports,
    layouts with bit offsets, registers. The same query and parameters give the same bytes.

    \b
    Example:
      joinery gen gen/queries/tick_band.cql -o build/tick_band --set cores=32
    """
    from joinery_gen.engines import plan
    from joinery_gen.generate import generate

    chosen = plan(read_query(query), engine, settings)
    check_design_folder(out)
    generate(chosen, out)
    files = {name: (out / name).stat().st_size for name in ("top.v", "top.json")}
    if as_json:
        about = {"query": chosen.query.name, "engine": chosen.engine}
        print_json({**about, "parameters": dict(chosen.parameters), "folder": out, "files": files})
    else:
        for name, size in files.items():
            say(f"{out / name}: {size:,} bytes, engine {chosen.engine}")


def check_design_folder(out: Path) -> None:
    """Refuse a folder in which ``top.v`` is somebody else's."""
    from joinery_gen.query import JoineryError

    if out.exists() and not out.is_dir():
        raise JoineryError(f"{out} is a file; name a folder for the design")
    if (out / "top.v").exists() and not (out / "top.json").exists():
        raise JoineryError(
            f"{out} holds a top.v that is not Joinery's; it is left alone, name another folder"
        )


@click.command("plan")
@query_argument
@click.option(
    "--board",
    type=click.Choice(BOARD_NAMES),
    help="Forecast what the design takes of this board, and how fast it is there.",
)
@plan_options
@json_option
def plan_command(
    query: str, board: str | None, engine: str | None, settings: Settings, as_json: bool
) -> None:
    """Show the engine and the parameters that QUERY gets, and what it will cost.

    Nothing is written. The parameters are those that --set takes. With --board, a small design of
    the same kind is mapped, once, and multiplied.

    \b
    Examples:
      joinery plan gen/queries/flights_weather.cql --engine nested_loop
      joinery plan tick_pairs --board ulx3s_85f --set cores=64 --set storage=memory
    """
    from joinery_gen.engines import plan

    linked = board not in (None, "alveo_u280")
    chosen = plan(read_query(query), engine, settings, on_board=linked)
    predicted = chosen.predict(chosen.build().predicted)
    about: dict[str, Any] = {
        "query": chosen.query.name,
        "engine": chosen.engine,
        "parameters": dict(chosen.parameters),
        "predicted": predicted,
    }
    if board is not None:
        about["board"] = board_forecast(chosen, board, predicted["cycles"])
    if as_json:
        print_json(about)
        return
    lines = {"query": chosen.query.name, "engine": chosen.engine}
    lines |= {f"parameter {name}": cell(value) for name, value in chosen.parameters.items()}
    for group, values in predicted.items():
        lines |= {f"{group}, {name}": cell(value) for name, value in values.items()}
    if board is not None:
        lines |= {f"{board}, {name}": cell(value) for name, value in about["board"].items()}
    table = make_table(None, ({"what": name, "value": value} for name, value in lines.items()))
    table.show_header = False
    print_table(table)


def board_forecast(chosen: "Plan", board: str, cycles: Mapping[str, Any]) -> dict[str, Any]:
    """What a design is expected to take of a board, and to reach there."""
    from joinery_synth.boards import CHIPS
    from joinery_synth.model import forecast, most_units

    chip = CHIPS[board]
    with working(f"mapping a small design of this kind to {chip.family}"):
        found = forecast(chosen, chip.family)
    uses = {name: found.used[name] for name in chip.device}
    parts = {
        name: round(100 * uses[name] / total, 1) for name, total in chip.device.items() if total
    }
    about: dict[str, Any] = {"clock_mhz": chip.clock / 1e6}
    steps = [cycles[name] for name in ("per_left", "per_right", "per_transfer") if name in cycles]
    if steps:
        about["transfers_per_second"] = round(chip.clock / max(steps))
    about |= uses
    about |= {f"{name}_percent": part for name, part in parts.items()}
    about["fits"] = all(uses[name] <= total for name, total in chip.device.items())
    most = most_units(found, chip.device)
    if most is not None:
        about[f"most_{found.unit}_of_this_size"] = most
    return about
