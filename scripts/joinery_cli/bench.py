"""``joinery bench``: measurements, each a table.

A benchmark is a function that returns flat rows, all with the same columns. Its parameters have
defaults and can be set from the command line. A column that is False says that a check failed;
columns that end in ``_version`` are printed below the table.
"""

import importlib
import inspect
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

import click

from .common import Settings, json_option, make_table, print_json, print_table, read_settings, say

if TYPE_CHECKING:
    from rich.table import Table

BENCHES = {
    "boards": (
        "joinery_cli.bench_boards:bench_boards",
        "every engine as a bitstream for a board, and the frequency that it reaches there",
    ),
    "fjoin": (
        "joinery_cli.bench_fjoin:bench_fjoin",
        "deep join pipelines: utilisation and results per cycle by units, window and selectivity",
    ),
    "fjoin_area": (
        "joinery_cli.bench_fjoin:bench_area",
        "what a join unit of these pipelines costs, beside the paper's",
    ),
    "golden": (
        "joinery_cli.bench_golden:bench_golden",
        "the golden job's time at 1, 2 and 4 times the rows, and the same rows from a cluster",
    ),
    "handshake": (
        "joinery_cli.bench_handshake:bench_handshake",
        "the papers' experiments on handshake join, with a plot of each",
    ),
    "mlq": (
        "joinery_cli.bench_mlq:bench_mlq",
        "multi-level queues over the paper's windows and memories, simulated and modelled",
    ),
    "panes": (
        "joinery_cli.bench_panes:bench_panes",
        "pane-based aggregation and its baselines: cycles, latency and area, beside the paper's",
    ),
    "replay": (
        "joinery_cli.bench_replay:bench_generated",
        "how much faster the replay harness is than cocotb driving every cycle",
    ),
    "sweep": (
        "joinery_cli.bench_sweep:bench_sweep",
        "random handshake joins, every network and policy: what is lost, duplicated, invented",
    ),
    "synth": (
        "joinery_cli.bench_synth:bench_synth",
        "what every engine costs at two sizes on five families, beside the papers' tables",
    ),
    "timing": (
        "joinery_cli.bench_synth:bench_timing",
        "the highest frequency of routed designs as they grow, and the path that limits it",
    ),
    "forecast": (
        "joinery_cli.bench_forecast:bench_forecast",
        "the resources and cycles that `joinery plan` foretells against those measured",
    ),
}
"""Where each benchmark is, and what it measures."""

Rows = list[dict[str, Any]]
VERSION = "_version"


def load(name: str) -> Callable[..., Rows]:
    """Return the function of a benchmark."""
    module, _, function = BENCHES[name][0].partition(":")
    found: Callable[..., Rows] = getattr(importlib.import_module(module), function)
    return found


def run(name: str, settings: Mapping[str, int | str]) -> Rows:
    """Run a benchmark with some of its parameters set."""
    from joinery_gen.query import JoineryError

    function = load(name)
    known = {
        each.name: each.default
        for each in inspect.signature(function).parameters.values()
        if isinstance(each.default, int | str)
    }
    for key, value in settings.items():
        if key not in known:
            raise JoineryError(f"bench {name} has no parameter {key!r}; it has {', '.join(known)}")
        if isinstance(value, int) != isinstance(known[key], int):
            kind = "a whole number" if isinstance(known[key], int) else "a word"
            raise JoineryError(f"bench {name}: {key} must be {kind}, not {value!r}")
    return function(**settings)


def bench_table(name: str, rows: Sequence[Mapping[str, Any]]) -> "Table":
    versions = {"joinery": metadata.version("joinery"), "python": platform.python_version()}
    shown: Rows = []
    for row in rows:
        tools = {each: row[each] for each in row if each.endswith(VERSION)}
        versions |= {each.removesuffix(VERSION): version for each, version in tools.items()}
        shown.append({each: value for each, value in row.items() if each not in tools})
    caption = ", ".join(f"{tool} {version}" for tool, version in versions.items())
    return make_table(f"bench {name}", shown, caption=f"{os.cpu_count()} cores; {caption}")


LISTING = "\b\n" + "\n".join(f"  {name:10}  {what}" for name, (_, what) in BENCHES.items())


@click.command(
    "bench",
    help=f"""Measure something on this machine and print a table.

    NAME is one of the following, or all:

    {LISTING.replace(chr(10), chr(10) + "    ")}

    The exit code is 1 where a check that belongs to it fails.

    \b
    Examples:
      joinery bench replay
      joinery bench golden --set rows=100000 --json
    """,
)
@click.argument("name", metavar="NAME", type=click.Choice([*BENCHES, "all"]))
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_settings,
    help="Set a parameter of the benchmark. May be given several times.",
)
@json_option
@click.pass_context
def bench_command(ctx: click.Context, name: str, settings: Settings, as_json: bool) -> None:
    names = list(BENCHES) if name == "all" else [name]
    found: Rows = []
    for each in names:
        say(f"bench {each} ...")
        rows = run(each, settings)
        found += rows
        if not as_json:
            print_table(bench_table(each, rows))
    if as_json:
        print_json(found)
    ctx.exit(1 if any(value is False for row in found for value in row.values()) else 0)
