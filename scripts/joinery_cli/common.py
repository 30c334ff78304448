"""What the commands share: options, the query they are about, and how they print."""

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from joinery_gen.query import Query

Command = TypeVar("Command", bound=Callable[..., Any])
Settings = dict[str, int | str]

SIMULATORS = ("verilator", "icarus")
QUERIES = Path(__file__).parents[2] / "gen" / "queries"
"""The queries of the repository; `QUERY` may name one without path and suffix."""


def read_query(name: str) -> "Query":
    """Return the query in a file, or the one of the repository's queries that has this name."""
    from joinery_gen.parse import parse_file
    from joinery_gen.query import JoineryError

    known = {path.stem: path for path in sorted(QUERIES.glob("*.cql"))}
    if Path(name).is_file() or not known or Path(name).suffix:
        return parse_file(name)
    if name not in known:
        close = get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"queries are {', '.join(known)}"
        raise JoineryError(f"There is neither a file nor a query {name!r}; {hint}")
    return parse_file(known[name])


# Options.


def read_settings(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> Settings:
    """Turn every ``NAME=VALUE`` into an entry, with whole numbers as such."""
    settings: Settings = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise click.BadParameter(f"{item!r} is not NAME=VALUE, such as cores=64")
        if name in settings:
            raise click.BadParameter(f"{name} is set twice")
        settings[name] = int(value) if re.fullmatch(r"-?[0-9]+", value) else value
    return settings


def read_numbers(
    ctx: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, int]:
    """As ``read_settings``, of whole numbers only."""
    settings = read_settings(ctx, parameter, given)
    for name, value in settings.items():
        if not isinstance(value, int):
            raise click.BadParameter(f"{name} takes a whole number, not {value!r}")
    return {name: int(value) for name, value in settings.items()}


def _together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several options, which --help lists in this order."""

    def decorate(command: Command) -> Command:
        return functools.reduce(lambda made, option: option(made), reversed(options), command)

    return decorate


query_argument = click.argument("query", metavar="QUERY")

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on standard output, for scripts."
)

set_option = click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_settings,
    help="Set a parameter of the engine; `joinery plan` shows them. May be given several times.",
)

plan_options = _together(
    click.option("--engine", metavar="NAME", help="Use this engine, not the window's default."),
    set_option,
)

data_options = _together(
    click.option(
        "--data",
        metavar="SET|STREAM=PATH",
        multiple=True,
        required=True,
        help="Where tuples come from: a set of `joinery data`, or a CSV, Parquet, JSON lines or "
        "pcap file for a stream of the query. May be given several times.",
    ),
    click.option(
        "--order-by",
        metavar="[ALIAS.]COLUMN",
        multiple=True,
        help="Interleave two streams by this column: a time, or whole numbers that are the arrival "
        "order itself. By default the time column of each stream.",
    ),
    click.option(
        "--on-bad-row",
        type=click.Choice(["stop", "drop"]),
        default="stop",
        show_default=True,
        help="What to do at a row that does not fit the declared types.",
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        help="Take only the first N tuples in arrival order.",
    ),
    click.option(
        "--punctuation",
        metavar="COLUMN",
        help="The column of the data that marks punctuations: where it is true, the row is no "
        "tuple, but says that its time has been reached.",
    ),
)

_probability = click.FloatRange(0, 1, max_open=True)
sim_options = _together(
    click.option(
        "--sim",
        type=click.Choice(SIMULATORS),
        default="verilator",
        show_default=True,
        help="The simulator.",
    ),
    click.option(
        "--stall-in",
        type=_probability,
        metavar="P",
        default=0.0,
        help="Hold the input back in a cycle with probability P.",
    ),
    click.option(
        "--stall-out",
        type=_probability,
        metavar="P",
        default=0.0,
        help="Refuse results in a cycle with probability P.",
    ),
    click.option(
        "--seed", type=int, metavar="N", default=1, show_default=True, help="Seed of the stalls."
    ),
)

at_run_option = click.option(
    "--at-run",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_numbers,
    help="Change a setting of the finished design before it sees a tuple, as a host does through "
    "its registers; top.json lists them as `settings`. May be given several times.",
)

master_option = click.option(
    "--master",
    metavar="URL",
    help="The Spark cluster, such as spark://host:7077; by default all cores of this machine. Its "
    "workers must see this machine's files under the same paths.",
)

show_option = click.option(
    "--show",
    type=click.IntRange(min=0),
    metavar="N",
    default=10,
    show_default=True,
    help="Rows to show of each kind of difference.",
)


# Printing. Results go to standard output, all else to standard error.


def say(text: str) -> None:
    click.echo(text, err=True)


def stderr_console() -> "Console":
    from rich.console import Console

    return Console(stderr=True)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str))


def print_table(table: "Table") -> None:
    """Print to standard output: as wide as the terminal, or as the table where there is none."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else 10_000)
    with console.capture() as captured:
        console.print(table)
    text = "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    click.echo(text if terminal else click.unstyle(text), nl=False)


def make_table(
    title: str | None, rows: Iterable[Mapping[str, Any]], *, caption: str | None = None
) -> "Table":
    """Lay out flat rows, with columns named after the keys of the first."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    rows = list(rows)
    table = Table(title=title, caption=caption, box=box.SIMPLE, title_style="bold")
    for name, value in rows[0].items() if rows else ():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(escape(name), justify="right" if number else "left")
    for row in rows:
        table.add_row(*(escape(cell(value)) for value in row.values()))
    return table


def cell(value: Any) -> str:
    """Spell a value for a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {cell(each)}" for name, each in value.items()) or "-"
    return str(value)


# Outputs.


def check_parent(path: Path) -> None:
    """Refuse an output before the work for it begins."""
    from joinery_gen.query import JoineryError

    parent = path.resolve().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise JoineryError(f"{path} can't be written: {parent} is not a folder one can write to")
