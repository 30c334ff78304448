"""``joinery run``: a file streamed through a card, with live throughput and latency."""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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
from .results import check_rows_file, prepare_input

if TYPE_CHECKING:
    from joinery.join import JoinPair
    from joinery_gen.fjoin_host import (
        CardLayout,
        Device,
        FeedSettings,
        HostSettings,
        Progress,
        RunReport,
        Side,
    )
    from joinery_gen.query import JoinQuery, Query

Made = TypeVar("Made", bound="FeedSettings | HostSettings")

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
    sim --help`. --set takes the parameters of the card (units_left, units_right, lanes,
    id_bits, time_bits), of the host (window_left, window_right, slice_tuples, stream_tuples,
    result_tuples, backlog) and of the way the tuples arrive (sources per stream, batch of tuples
    that make a task, signal_every so many tuples, disorder by which a tuple is held up at most,
    seed).

    \b
    Examples:
      joinery run gen/queries/order_taxi.cql --data taxi --limit 20000
      joinery run my.cql --data r=r.csv --data s=s.csv --set sources=4 -o out.parquet
    """
    from joinery_gen.fjoin_host import FeedSettings, HostSettings, card_pair, run_prepared

    parsed = read_query(query)
    if out is not None:
        check_rows_file(out)
    rest = dict(settings)
    feed, host = _take(FeedSettings, rest), _take(HostSettings, rest)
    parameters = card_parameters(rest)
    pair = card_pair(body_of(parsed))
    with tempfile.TemporaryDirectory(prefix="joinery-") as folder:
        prepared = prepare_input(parsed, Path(folder, "input"), **input_options)
        with open_card(pair, sim, parameters) as card, _live(frequency) as watch:
            report = run_prepared(
                parsed,
                prepared.folder,
                out,
                card.device,
                card.layout,
                feed=feed,
                settings=host,
                facts={"parameters": parameters, "versions": {}, "simulator": sim},
                watch=watch,
            )
    about = {"query": parsed.name, "engine": "fjoin", "simulator": sim, "out": out}
    found = {**about, "parameters": parameters, **report.as_dict(), **rates(report, frequency)}
    if as_json:
        print_json(found)
    else:
        _print(found)


@dataclass(frozen=True)
class OpenCard:
    """A card, and the records in its memory."""

    device: "Device"
    layout: "CardLayout"


CARD = {"units_left": 64, "units_right": 64, "lanes": 1, "id_bits": 32, "time_bits": 32}
"""The parameters of a card, and their defaults."""


def body_of(query: "Query") -> "JoinQuery":
    from joinery_gen.query import JoineryError, JoinQuery

    if not isinstance(query.body, JoinQuery):
        raise JoineryError(f"{query.name} is an aggregate, and a card joins two streams")
    return query.body


def card_parameters(settings: Settings) -> dict[str, int]:
    """Return the parameters of a card, of which ``settings`` has some."""
    from joinery_gen.query import JoineryError

    parameters = dict(CARD)
    for name, value in settings.items():
        if name not in parameters:
            raise JoineryError(f"run has no parameter {name!r}; `joinery run --help` lists all")
        parameters[name] = _whole(name, value)
        if parameters[name] < 1:
            raise JoineryError(f"{name} must be at least 1, not {value}")
    return parameters


@contextmanager
def open_card(pair: "JoinPair", sim: str, parameters: Mapping[str, int]) -> Iterator[OpenCard]:
    """Lend a card with a pipeline for each side."""
    from joinery.fjoin import FJoinCard
    from joinery_gen.fjoin_host import CardLayout, ModelDevice, PipelineInfo
    from joinery_gen.query import JoineryError
    from joinery_tb.card import SimulatedCard
    from joinery_tb.toolchain import check_simulator

    layout = CardLayout.of_pair(
        pair, id_bits=parameters["id_bits"], time_bits=parameters["time_bits"]
    )
    sides: tuple[Side, Side] = ("left", "right")
    pipelines = [(side, parameters[f"units_{side}"]) for side in sides]
    if sim == "model":
        yield OpenCard(
            ModelDevice(pair, layout, [PipelineInfo(*each) for each in pipelines]), layout
        )
        return
    check_simulator(sim)
    try:
        card = FJoinCard(
            pair,
            pipelines=pipelines,
            lanes=parameters["lanes"],
            id_bits=parameters["id_bits"],
            time_bits=parameters["time_bits"],
        )
    except ValueError as error:
        raise JoineryError(f"engine fjoin: {error}") from None
    with SimulatedCard(card) as device:
        yield OpenCard(device, CardLayout.from_dict(card.described["records"]))


def _take(kind: type[Made], settings: Settings) -> Made:
    """Make a dataclass of those settings that are its own, and leave the others."""
    names = {each.name for each in fields(kind)} - {"sources_left", "sources_right"}
    mine = {name: _whole(name, settings.pop(name)) for name in names & settings.keys()}
    return kind(**mine)


def _whole(name: str, value: int | str) -> int:
    from joinery_gen.query import JoineryError

    if not isinstance(value, int):
        raise JoineryError(f"{name} must be a whole number, not {value!r}")
    return value


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
