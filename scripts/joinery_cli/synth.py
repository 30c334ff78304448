"""``joinery synth``: what a design costs in an FPGA, and how fast it runs there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    Settings,
    check_parent,
    json_option,
    make_table,
    plan_options,
    print_json,
    print_table,
    query_argument,
    read_query,
    stderr_console,
)

if TYPE_CHECKING:
    from joinery_synth.resources import Resources
    from joinery_synth.route import Routing

TARGETS = ("xc7", "xcup", "ecp5", "ice40", "gowin")


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say on a terminal what takes so long, and for how long it has."""
    with stderr_console().status(f"{text} ..."):
        yield


@click.command("synth")
@query_argument
@click.option(
    "--target",
    type=click.Choice(TARGETS),
    default="ecp5",
    show_default=True,
    help="The family of FPGAs.",
)
@click.option(
    "--flat",
    is_flag=True,
    help="Let logic move across the edges of blocks: fewer cells, longer to compute, no table of "
    "blocks.",
)
@click.option(
    "--route", is_flag=True, help="Place and route as well (ecp5 only), and show the slowest path."
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Place with seeds 1 to N; more than one shows how far they spread.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    metavar="FILE.svg",
    help="Draw the blocks, what each of them costs, and how many bits go from one to the next.",
)
@plan_options
@json_option
def synth_command(
    query: str,
    target: str,
    flat: bool,
    route: bool,
    seeds: int,
    picture: Path | None,
    engine: str | None,
    settings: Settings,
    as_json: bool,
) -> None:
    """Count what the design of QUERY costs in an FPGA, block by block.

    Yosys maps the design; with --route, nextpnr places and routes it for an ECP5 of speed grade 6,
    with registers around its ports. Results are kept: asking again is quick.

    \b
    Examples:
      joinery synth tick_band --target xcup --set cores=64
      joinery synth tick_band --target ecp5 --set cores=4 --route --seeds 3
    """
    from joinery_gen.engines import plan
    from joinery_gen.generate import shell_of
    from joinery_gen.query import JoineryError
    from joinery_synth.netlist import Netlist
    from joinery_synth.picture import draw
    from joinery_synth.resources import synthesize
    from joinery_synth.route import route_design

    if (route or seeds > 1) and target != "ecp5":
        raise JoineryError(f"place and route is for the target ecp5 alone, not {target}")
    if picture is not None:
        check_parent(picture)
        if flat:
            raise JoineryError("a picture shows blocks, which --flat does away with")
    chosen = plan(read_query(query), engine, settings)
    with working(f"mapping {chosen.query.name} to {target}"):
        found = synthesize(shell_of(chosen), target, hierarchy=not flat)
    if picture is not None:
        title = f"{chosen.query.name}, {chosen.engine}"
        picture.write_text(draw(title, Netlist.of(shell_of(chosen)), found))
    routings = []
    for seed in range(1, seeds + 1) if route or seeds > 1 else ():
        with working(f"placing and routing, seed {seed} of {seeds}"):
            routings.append(route_design(shell_of(chosen), seed=seed))
    about = {
        "query": chosen.query.name,
        "engine": chosen.engine,
        "parameters": dict(chosen.parameters),
    }
    if as_json:
        print_json({**about, **asdict(found), "routing": [asdict(each) for each in routings]})
        return
    print_table(resource_table(f"{chosen.query.name}, {chosen.engine}", found))
    if routings:
        print_routings(routings)


def resource_table(title: str, found: "Resources") -> Any:
    """A row for each kind of block, and the sum."""
    rows: list[dict[str, Any]] = [
        {"block": block.name, "count": block.count, **block.used} for block in found.blocks
    ]
    rows.append({"block": "total", "count": 1, **found.used})
    how = "blocks mapped one by one" if found.hierarchy else "mapped as a whole"
    caption = f"{found.target}, {how}; {found.yosys_version.partition(' (')[0]}"
    return make_table(title, rows, caption=caption)


def print_routings(routings: "list[Routing]") -> None:
    """The frequency for each seed, and the slowest path of the slowest."""
    from joinery_synth.build import CELLS

    rows: list[dict[str, Any]] = [
        {
            "seed": routing.seed,
            "fmax_mhz": routing.fmax,
            "from": routing.ends[0],
            "to": routing.ends[1],
            **{kind: routing.used.get(cell, 0) for kind, cell in CELLS["ecp5"].items()},
        }
        for routing in routings
    ]
    slowest = min(routings, key=lambda routing: routing.fmax)
    caption = f"ECP5-85F, speed grade 6; nextpnr {slowest.nextpnr_version}"
    print_table(make_table("place and route", rows, caption=caption))
    hops = [
        {"signal": hop.signal, "logic_ns": hop.logic, "routing_ns": hop.routing}
        for hop in slowest.path
    ]
    print_table(make_table(f"slowest path, seed {slowest.seed}", hops))
