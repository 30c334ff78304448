"""``joinery gen`` and ``joinery plan``: a query to hardware, and what it would be."""

from pathlib import Path

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
@plan_options
@json_option
def plan_command(query: str, engine: str | None, settings: Settings, as_json: bool) -> None:
    """Show the engine and the parameters that QUERY gets, and what it will cost.

    Nothing is written. The parameters are those that --set takes.

    \b
    Example:
      joinery plan gen/queries/flights_weather.cql --engine nested_loop
    """
    from joinery_gen.engines import plan

    chosen = plan(read_query(query), engine, settings)
    predicted = chosen.build().predicted
    about = {
        "query": chosen.query.name,
        "engine": chosen.engine,
        "parameters": dict(chosen.parameters),
        "predicted": predicted,
    }
    if as_json:
        print_json(about)
        return
    lines = {"query": chosen.query.name, "engine": chosen.engine}
    lines |= {f"parameter {name}": cell(value) for name, value in chosen.parameters.items()}
    for group, values in predicted.items():
        lines |= {f"{group}, {name}": cell(value) for name, value in values.items()}
    table = make_table(None, ({"what": name, "value": value} for name, value in lines.items()))
    table.show_header = False
    print_table(table)
