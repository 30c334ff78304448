"""``joinery run``: a file streamed through a card, with live throughput and latency."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    Settings,
    cell,
    data_options,
    json_option,
    make_table,
    print_json,
    print_table,
    query_argument,
    read_query,
    say,
    set_option,
)
from .hosted import HostOptions
from .results import check_rows_file, prepare_input

if TYPE_CHECKING:
    from joinery_gen.engines import Plan
    from joinery_gen.fjoin_host import Progress, RunReport
    from joinery_tb.card import OpenCard

MEGA = 1e6
STEPS = 10
"""Lines of progress where nobody looks at a terminal."""


@click.command("run")
@query_argument
@data_options
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="A Parquet file for the rows, if wanted."
)
@set_option
@click.option(
    "--sim",
    type=click.Choice(["verilator", "model"]),
    default="verilator",
    show_default=True,
    help="What plays the card: its Verilog, or a model in plain Python.",
)
@click.option(
    "--frequency",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MHZ",
    default=300.0,
    show_default=True,
    help="The card's clock, by which its cycles are told as time.",
)
@json_option
def run_card_command(
    query: str,
    out: Path | None,
    settings: Settings,
    sim: str,
    frequency: float,
    as_json: bool,
    **input_options: Any,
) -> None:
    """Stream data through a card that runs QUERY, a join of time windows.

    The host keeps the card busy and its rows complete and in order, and tells throughput and
    latency as it goes. With --port the data goes through a board instead; see `joinery run --port
    sim --help`. --set takes the parameters of the card, which `joinery plan QUERY --engine fjoin`
    shows, of the host (window_left, window_right, slice_tuples, stream_tuples,
    result_tuples, backlog) and of the way the tuples arrive (sources per stream, batch of tuples
    that make a task, signal_every so many tuples, disorder by which a tuple is held up at most,
    seed).

    \b
    Examples:
      joinery run gen/queries/order_taxi.cql --data taxi --limit 20000
      joinery run my.cql --data r=r.csv --data s=s.csv --set sources=4 -o out.parquet
    """
    from joinery_gen.engines import plan
    from joinery_tb.card import run_card

    parsed = read_query(query)
    if out is not None:
        check_rows_file(out)
    told = HostOptions.take(settings)
    chosen = plan(parsed, "fjoin", told.rest)
    with tempfile.TemporaryDirectory(prefix="joinery-") as folder:
        prepared = prepare_input(parsed, Path(folder, "input"), **input_options)
        with _lend_card(chosen, sim, Path(folder, "design")) as card, _live(frequency) as watch:
            report = run_card(
                parsed, card, prepared.folder, out, feed=told.feed, host=told.host, watch=watch
            ).run
    about: dict[str, Any] = {
        "query": parsed.name,
        "engine": chosen.engine,
        "simulator": sim,
        "out": out,
    }
    about["parameters"] = dict(chosen.parameters)
    found = {**about, **report.as_dict(), **rates(report, frequency)}
    if as_json:
        print_json(found)
    else:
        _print(found)


@contextmanager
def _lend_card(chosen: "Plan", sim: str, folder: Path) -> "Iterator[OpenCard]":
    from joinery_gen.generate import describe, generate
    from joinery_tb.card import open_card, open_model
    from joinery_tb.design import Design
    from joinery_tb.toolchain import check_simulator

    if sim == "model":
        yield open_model(chosen.query, describe(chosen))
        return
    check_simulator(sim)
    generate(chosen, folder)
    with open_card(Design(folder)) as card:
        yield card


# Telling.


def rates(report: "RunReport", frequency: float) -> dict[str, float]:
    """Return what the card reaches at this clock, in tuples and comparisons per second."""
    seconds = report.cycles / (frequency * MEGA)
    return {
        "frequency": frequency,
        "tuples_per_second": round(report.tuples_in / seconds) if seconds else 0,
        "compared_per_second": round(report.compared / seconds) if seconds else 0,
        "latency_us": round(report.latency_cycles["median"] / frequency, 1),
        "largest_latency_us": round(report.latency_cycles["largest"] / frequency, 1),
        "host_tuples_per_second": round(report.tuples_in / report.seconds),
    }


@contextmanager
def _live(frequency: float) -> "Iterator[Callable[[Progress], None]]":
    """Show progress on standard error: a bar for a person, else a line now and then."""
    from rich import progress
    from rich.console import Console

    def text(now: "Progress") -> str:
        seconds = now.cycles / (frequency * MEGA)
        rate = now.tuples / seconds if seconds else 0
        return (
            f"{now.tuples:,} tuples, {now.rows:,} rows; card: {rate:,.0f} tuples/s, latency "
            f"{now.task.cycles / frequency:,.0f} us; host: {now.tuples / now.seconds:,.0f} tuples/s"
        )

    if not sys.stderr.isatty():
        told = 0

        def tell(now: "Progress") -> None:
            nonlocal told
            if now.tuples * STEPS // now.of > told:
                told = now.tuples * STEPS // now.of
                say(text(now))

        yield tell
        return
    columns = progress.BarColumn(), progress.TextColumn("{task.description}")
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda now: bar.update(
            task, description=text(now), completed=now.tuples, total=now.of
        )


def _print(found: dict[str, Any]) -> None:
    shown = ("query", "engine", "simulator", "parameters", "tuples", "late", "rows", "in_order",
             "tasks", "overflows", "cycles", "eta", "frequency", "tuples_per_second",
             "compared_per_second", "latency_us", "largest_latency_us", "seconds")  # fmt: skip
    lines = {name: found[name] for name in shown} | {"out": found["out"]}
    lines |= {name: round(lines[name], 3) for name in ("eta", "seconds")}
    table = make_table(None, ({"what": name, "value": cell(each)} for name, each in lines.items()))
    table.show_header = False
    print_table(table)
