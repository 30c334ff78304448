"""``joinery run --port``: data through a board on a serial port, and its rows held against Spark's.

With ``--port sim`` the board is simulated, behind a pseudo-terminal; all else is the same.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    at_run_option,
    data_options,
    json_option,
    master_option,
    plan_options,
    query_argument,
    read_query,
    say,
    show_option,
)
from .hosted import HostOptions, has_host
from .judge import Golden, Judged, report
from .results import prepare_input

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from joinery_gen.engines import Plan
    from joinery_gen.link import Board
    from joinery_gen.link.board import Progress
    from joinery_gen.query import Query
    from joinery_tb.board_run import BoardReport

__all__ = ["SIMULATED", "PortRun", "run_port", "run_port_command"]

SIMULATED = "sim"
"""The port of a board that is simulated."""


@dataclass(kw_only=True)
class PortRun(Judged):
    """What a run over a port found, of one SELECT; those of one query file share the run.

    ``frames_repeated`` were sent again by the host, ``frames_damaged`` came damaged to it.
    """

    HIDDEN = Judged.HIDDEN | {"registers"}

    port: str
    engine: str
    parameters: Mapping[str, Any]
    tuples: dict[str, int]
    refused: dict[str, int]
    seconds: float
    tuples_per_second: int
    frames_sent: int
    frames_heard: int
    frames_repeated: int
    frames_damaged: int
    reconnected: int
    registers: dict[str, int]
    simulation: dict[str, int] = field(default_factory=dict)


def run_port(
    query: "Query",
    data: Sequence[str],
    port: str,
    *,
    engine: str | None = None,
    settings: Mapping[str, int | str] | None = None,
    at_run: Mapping[str, int] | None = None,
    baud: int | None = None,
    damage: float = 0.0,
    seed: int = 1,
    keep: Path | None = None,
    master: str | None = None,
    spark: "SparkSession | None" = None,
    show: int = 10,
    **input_options: Any,
) -> list[PortRun]:
    """Send data through the board on ``port``, and hold its rows against Spark's.

    Returns what was found of each SELECT. ``engine`` and ``settings`` are those that the board was
    built with. ``damage`` and ``seed`` are for a simulated board. The others are as for ``verify``.
    """
    from joinery_gen.at_run import change
    from joinery_gen.engines import engine_for, plan
    from joinery_gen.generate import describe
    from joinery_gen.link import BAUD, Board
    from joinery_gen.query import JoineryError
    from joinery_tb.board_run import run_board

    if damage and port != SIMULATED:
        raise JoineryError(f"Only a simulated board can have a damaged line: --port {SIMULATED}")
    hosted = has_host(engine_for(query, engine)[0])
    options = HostOptions.take(settings or {}) if hosted else None
    chosen = plan(query, engine, options.rest if options else settings, on_board=True)
    top = describe(chosen)
    meant, writes = change(query, top, at_run or {})
    with ExitStack() as stack:
        folder = _folder(stack, keep)
        prepared = prepare_input(query, folder / "input", data=data, **input_options)
        out, accepted = folder / "out.parquet", folder / "accepted"
        with ExitStack() as while_running:
            path, simulation = _board(while_running, chosen, port, folder, damage, seed)
            board = while_running.enter_context(Board(path, top, baud=baud or BAUD))
            say(f"{query.name}: sending {sum(prepared.rows.values()):,} tuples to {path} ...")
            with _progress(query.name, sum(prepared.rows.values())) as advance:
                if options is not None:
                    report = _run_card(query, board, prepared.folder, out, options, advance)
                else:
                    report = run_board(
                        board, prepared.folder, out,
                        accepted=accepted, evicted=folder / "evicted.parquet", writes=writes,
                        progress=advance,
                    )  # fmt: skip
        inputs = accepted if any(report.refused.values()) else prepared.folder
        golden = Golden(top, folder, inputs, master, spark, show)
        found = [_start(part, port, board, report, simulation) for part in meant.parts]
        for number, (part, one) in enumerate(zip(meant.parts, found, strict=True)):
            say(f"{part.name}: golden ...")
            golden.judge(number, part, one, report.registers, report.evicted)
    return found


def _run_card(
    query: "Query",
    board: "Board",
    prepared: Path,
    out: Path,
    options: HostOptions,
    advance: "Progress",
) -> "BoardReport":
    from joinery_tb.board_run import run_board_card

    return run_board_card(
        query, board, prepared, out, feed=options.feed, host=options.host,
        watch=lambda now: advance(now.tuples, now.rows),
    )  # fmt: skip


def _folder(stack: ExitStack, keep: Path | None) -> Path:
    if keep is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="joinery-run-")))
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


def _board(
    stack: ExitStack, plan: "Plan", port: str, folder: Path, damage: float, seed: int
) -> tuple[str, dict[str, int]]:
    """Return the path of the port, and where a simulation will report, once it has ended."""
    if port != SIMULATED:
        return port, {}
    from joinery_tb.simulated_board import SimulatedBoard

    board = SimulatedBoard(plan, folder / "board", damage=damage, seed=seed)
    stack.enter_context(board)
    return board.path, board.report


def _start(
    query: "Query",
    port: str,
    board: "Board",
    report: "BoardReport",
    simulation: dict[str, int],
) -> PortRun:
    return PortRun(
        query=query.name,
        port=port,
        engine=board.top["engine"],
        parameters=board.top["parameters"],
        tuples=report.tuples,
        refused=report.refused,
        seconds=round(report.stream.seconds, 1),
        tuples_per_second=round(report.tuples_per_second),
        frames_sent=report.stream.frames_sent,
        frames_heard=report.stream.frames_heard,
        frames_repeated=report.stream.repeated,
        frames_damaged=report.stream.damaged,
        reconnected=report.stream.reconnected,
        registers=report.registers,
        simulation=simulation,
    )


@contextmanager
def _progress(name: str, total: int) -> "Iterator[Progress]":
    """Show a bar with the rate on standard error when a person is looking at it."""
    from rich import progress

    from .common import stderr_console

    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[told]}"),
        console=stderr_console(),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(name, total=total, told="")
        started = time.monotonic()

        def advance(beats: int, rows: int) -> None:
            rate = beats / max(time.monotonic() - started, 0.001)
            bar.update(
                task, completed=beats, told=f"{beats:,} sent, {rows:,} rows, {rate:,.0f} per second"
            )

        yield advance


@click.command("run")
@query_argument
@click.option(
    "--port",
    metavar=f"PATH|{SIMULATED}",
    required=True,
    help=f"The serial port of the board, such as /dev/ttyUSB0; {SIMULATED} simulates a board.",
)
@data_options
@plan_options
@at_run_option
@click.option("--baud", type=click.IntRange(min=1), metavar="N", help="Speed, if not 3000000.")
@click.option(
    "--damage",
    type=click.FloatRange(0, 1, max_open=True),
    metavar="P",
    default=0.0,
    help="Damage each byte with probability P in both directions, on a simulated board.",
)
@click.option(
    "--seed", type=int, metavar="N", default=1, show_default=True, help="Seed of the damage."
)
@master_option
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the prepared input and both results in this folder.",
)
@show_option
@json_option
@click.pass_context
def run_port_command(
    ctx: click.Context, query: str, data: Sequence[str], as_json: bool, **options: Any
) -> None:
    """Send data through a board that holds QUERY's hardware, and compare with Spark.

    The board must have been built from the same query, engine and parameters; this is checked. The
    exit code is 1 where a row differs.

    \b
    Examples:
      joinery run gen/queries/tick_band.cql --port /dev/ttyUSB0 --data ticks --limit 10000
      joinery run gen/queries/tick_band.cql --port sim --damage 0.01 --data ticks --limit 10000
    """
    report(ctx, run_port(read_query(query), data, **options), as_json)
