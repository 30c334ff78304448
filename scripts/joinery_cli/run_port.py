"""``joinery run --port``: data through a board on a serial port, and its rows held against Spark's.

With ``--port sim`` the board is simulated, behind a pseudo-terminal; all else is the same.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    at_run_option,
    cell,
    data_options,
    json_option,
    make_table,
    master_option,
    plan_options,
    print_json,
    print_table,
    query_argument,
    read_query,
    say,
    show_option,
)
from .results import prepare_input, print_differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from joinery_gen.compare import Comparison
    from joinery_gen.engines import Plan
    from joinery_gen.link import Board
    from joinery_gen.link.board import Progress
    from joinery_gen.query import Query
    from joinery_tb.board_run import BoardReport

__all__ = ["SIMULATED", "PortRun", "run_port", "run_port_command"]

SIMULATED = "sim"
"""The port of a board that is simulated."""


@dataclass
class PortRun:
    """What a run over a port found, of one SELECT; those of one query file share the run.

    ``verdict`` is ``equal`` or ``different``, or ``failed`` where the core had an error to tell.
    ``frames_repeated`` were sent again by the host, ``frames_damaged`` came damaged to it.
    """

    query: str
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
    late_hardware: int = 0
    late_golden: int | None = None
    evicted: int = 0
    hardware_rows: int | None = None
    golden_rows: int | None = None
    missing: int | None = None
    extra: int | None = None
    duplicated: int | None = None
    verdict: str = "failed"
    error: str | None = None
    comparison: "Comparison | None" = None

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON, with the first different rows as ``differences``."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        comparison = told.pop("comparison")
        return told | {"differences": comparison.as_dict()["differences"] if comparison else []}


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
    from joinery_gen.engines import plan
    from joinery_gen.generate import describe
    from joinery_gen.link import BAUD, Board
    from joinery_gen.query import JoineryError
    from joinery_tb.board_run import run_board

    if damage and port != SIMULATED:
        raise JoineryError(f"Only a simulated board can have a damaged line: --port {SIMULATED}")
    chosen = plan(query, engine, settings)
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
                report = run_board(
                    board, prepared.folder, out,
                    accepted=accepted, evicted=folder / "evicted.parquet", writes=writes,
                    progress=advance,
                )  # fmt: skip
        truth_of = accepted if any(report.refused.values()) else prepared.folder
        found = [_start(part, port, board, report, simulation) for part in meant.parts]
        for number, (part, one) in enumerate(zip(meant.parts, found, strict=True)):
            say(f"{part.name}: golden ...")
            _judge(number, part, one, board, folder, truth_of, master, spark, show)
    return found


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
        evicted=report.evicted,
    )


def _judge(
    number: int,
    query: "Query",
    found: PortRun,
    board: "Board",
    folder: Path,
    truth_of: Path,
    master: str | None,
    spark: "SparkSession | None",
    show: int,
) -> None:
    """Hold the rows of the SELECT with this number against Spark's."""
    from joinery_gen.compare import compare
    from joinery_gen.golden import run_golden
    from joinery_tb.words import result_files

    files = result_files(board.top, folder / "out.parquet")
    several = len(files) > 1
    golden = folder / f"golden{number + 1 if several else ''}.parquet"
    evictions = folder / "evicted.parquet" if found.evicted else None
    truth = run_golden(query, truth_of, golden, master=master, spark=spark, evictions=evictions)
    compared = found.comparison = compare(files[number], golden, show=show)
    found.hardware_rows, found.golden_rows = compared.hardware_rows, compared.golden_rows
    found.missing, found.extra = compared.missing, compared.extra
    found.duplicated = compared.duplicated
    found.late_hardware = found.registers.get(f"late_{number}" if several else "late", 0)
    found.late_golden = truth.late
    found.verdict = compared.verdict if found.late_hardware == truth.late else "different"
    told = [
        text
        for bit, text in enumerate(board.top.get("errors", ()))
        if found.registers["errors"] >> bit & 1
    ]
    if truth.misreported:
        told.append(f"{truth.misreported} of {found.evicted} evictions were told wrongly")
    if told:
        found.error, found.verdict = "; ".join(told), "failed"


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
                task, completed=beats, told=f"{beats:,} beats, {rows:,} rows, {rate:,.0f} beats/s"
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
    found = run_port(read_query(query), data, **options)
    told = [one.as_dict() for one in found]
    if as_json:
        print_json(told[0] if len(told) == 1 else told)
    else:
        for one in found:
            print_differences(one.comparison.differences if one.comparison else ())
        print_table(_table(found))
    for one in found:
        if one.error:
            say(f"joinery: {one.query}: {one.error}")
    ctx.exit(0 if all(one.verdict == "equal" for one in found) else 1)


HIDDEN = {"query", "registers", "comparison", "error"}


def _table(found: Sequence[PortRun]) -> Any:
    """Lay out runs side by side, under the names of their queries."""
    table = make_table(None, [])
    for name in ("", *(one.query for one in found)):
        table.add_column(name)
    for each in fields(PortRun):
        if each.name not in HIDDEN:
            values = [cell(getattr(one, each.name)).replace(", ", "\n") for one in found]
            table.add_row(each.name, *values)
    return table
