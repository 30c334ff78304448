"""``joinery sim``, ``golden`` and ``compare``: the two results of a query, and their difference."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    Settings,
    at_run_option,
    cell,
    check_parent,
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
    sim_options,
    stderr_console,
)
from .hosted import HostOptions, check_design_simulator, simulate_design

if TYPE_CHECKING:
    from joinery_gen.compare import Comparison, Difference
    from joinery_gen.data import Prepared
    from joinery_gen.query import Query


@contextmanager
def scratch(out: Path) -> Iterator[Path]:
    """Lend a folder beside ``out``, where a cluster that writes ``out`` can read too."""
    check_parent(out)
    with tempfile.TemporaryDirectory(dir=out.resolve().parent, prefix=".joinery-") as folder:
        yield Path(folder)


def prepare_input(query: "Query", folder: Path, **options: Any) -> "Prepared":
    """Prepare the data of ``--data`` and tell what a person should know about it."""
    from joinery_gen.data import prepare

    data = options.pop("data")
    prepared = prepare(query, data, folder, progress=stderr_console(), **options)
    for note in prepared.notes:
        say(note)
    return prepared


@click.command("sim")
@query_argument
@data_options
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="The Parquet file to write."
)
@plan_options
@sim_options
@at_run_option
@json_option
def sim_command(
    query: str,
    out: Path,
    engine: str | None,
    settings: Settings,
    sim: str,
    stall_in: float,
    stall_out: float,
    seed: int,
    at_run: Mapping[str, int],
    as_json: bool,
    **input_options: Any,
) -> None:
    """Run QUERY's hardware on data and write its rows to a Parquet file.

    The columns are those of the query, and _row, the position in the hardware's output. For a query
    with several SELECTs, a folder with a file for each is written.

    \b
    Examples:
      joinery sim gen/queries/tick_band.cql --data ticks --limit 20000 -o out.parquet
      joinery sim my.cql --data r=left.csv --data s=right.csv -o out.parquet --sim icarus
    """
    from joinery_gen.at_run import change
    from joinery_gen.engines import engine_for, plan
    from joinery_gen.generate import generate
    from joinery_tb.design import Design

    parsed = read_query(query)
    name, entry = engine_for(parsed, engine)
    told = HostOptions.take(settings if entry.host else {})
    chosen = plan(parsed, name, told.rest if entry.host else settings)
    check_design_simulator(name, sim)
    if chosen.query.more:
        check_rows_folder(out)
    else:
        check_rows_file(out)
    with scratch(out) as folder:
        prepared = prepare_input(chosen.query, folder / "input", **input_options)
        top = generate(chosen, folder / "design")
        report = simulate_design(
            chosen.query,
            Design(folder / "design"),
            prepared.folder,
            out,
            options=told,
            writes=change(chosen.query, top, at_run)[1],
            sim=sim,
            stall_in=stall_in,
            stall_out=stall_out,
            seed=seed,
        )
    if as_json:
        print_json({"query": chosen.query.name, "out": out, **report.as_dict()})
    else:
        run = report.replay
        if report.evicted:
            say(f"{report.evicted:,} keys lost their place to others and started anew; raise keys")
        say(
            f"{out}: {report.rows:,} rows from {report.tuples_in:,} tuples in {run.cycles:,} "
            f"cycles; {sim} took {run.seconds:.1f} s"
        )


def check_rows_file(out: Path) -> None:
    """Refuse a place that holds anything else than an earlier result of a simulation."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from joinery_gen.query import JoineryError

    check_parent(out)
    if out.is_dir():
        raise JoineryError(f"{out} is a folder; name a file for the rows")
    if out.exists():
        try:
            ours = b"joinery" in (pq.read_schema(out).metadata or {})
        except pa.ArrowInvalid:
            ours = False
        if not ours:
            raise JoineryError(
                f"{out} exists and is no result of a simulation; it is left alone, "
                "name another place"
            )


def check_rows_folder(out: Path) -> None:
    """Refuse a folder that has anything else than earlier results of simulations."""
    from joinery_gen.query import JoineryError

    check_parent(out)
    if out.is_file():
        raise JoineryError(f"{out} is a file; name a folder for the rows of several SELECTs")
    for file in out.iterdir() if out.is_dir() else ():
        check_rows_file(file)


@click.command("golden")
@query_argument
@data_options
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="The folder to write."
)
@master_option
@json_option
def golden_command(
    query: str, out: Path, master: str | None, as_json: bool, **input_options: Any
) -> None:
    """Compute QUERY's result with Spark into a folder of Parquet files.

    Works for all windows of the language, whether an engine exists for them or not. The columns are
    those of the query; for a join also _left_arrival and _right_arrival, the positions of the two
    tuples in the input.

    \b
    Example:
      joinery golden gen/queries/tick_band.cql --data ticks -o golden.parquet
    """
    from joinery_gen.golden import run_golden

    parsed = read_query(query)
    told = []
    with scratch(out) as folder:
        prepared = prepare_input(parsed, folder / "input", **input_options)
        for part in parsed.parts:
            place = out / f"{part.name}.parquet" if parsed.more else out
            place.parent.mkdir(exist_ok=True)
            found = run_golden(part, prepared.folder, place.resolve(), master=master)
            told.append({"query": part.name, "out": place, **asdict(found)})
            late = f", {found.late:,} late tuples" if found.late else ""
            if not as_json:
                say(f"{place}: {found.rows:,} rows{late}; Spark took {found.seconds:.1f} s")
    if as_json:
        print_json(told if parsed.more else told[0])


@click.command("compare")
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("golden", type=click.Path(path_type=Path))
@show_option
@json_option
@click.pass_context
def compare_command(ctx: click.Context, out: Path, golden: Path, show: int, as_json: bool) -> None:
    """Compare the rows of OUT with those of GOLDEN, as multisets.

    Both are Parquet files or folders. Missing rows are in GOLDEN only, extra rows in OUT only;
    duplicated ones are in OUT more often than in GOLDEN. Columns that start with _ are not
    compared, but say where a row came from. The exit code is 1 where anything differs.

    \b
    Example:
      joinery compare out.parquet golden.parquet --show 3
    """
    from joinery_gen.compare import compare

    found = compare(out, golden, show=show)
    if as_json:
        print_json({"out": out, "golden": golden, **found.as_dict()})
    else:
        click.echo(summary(found))
        print_differences(found.differences)
    ctx.exit(0 if found.verdict == "equal" else 1)


def summary(found: "Comparison") -> str:
    return (
        f"{found.verdict}: {found.hardware_rows:,} rows from the hardware, "
        f"{found.golden_rows:,} golden; {found.missing:,} missing, {found.extra:,} extra, "
        f"{found.duplicated:,} duplicated"
    )


def print_differences(differences: Sequence["Difference"]) -> None:
    """Print the first rows of each kind with all their columns, and where they came from."""
    from joinery_gen.compare import KINDS

    for kind in KINDS:
        found = [each for each in differences if each.kind == kind]
        if found:
            some_near = any(each.near for each in found)
            rows = [_difference_row(each, some_near) for each in found]
            print_table(make_table(f"First {kind}", rows))


def _difference_row(found: "Difference", some_near: bool) -> dict[str, Any]:
    row = {name: str(value) for name, value in found.row.items()}
    # The spaces tell these columns apart from those of the query.
    row[" in hardware"], row[" in golden"] = str(found.hardware_copies), str(found.golden_copies)
    row |= {f" {name.strip('_')}": str(value) for name, value in found.provenance.items()}
    if some_near and found.near is None:
        row[" nearly"] = ""
    elif found.near is not None:
        columns = ", ".join(
            f"{name} {ours} instead of {golden}"
            for name, (golden, ours) in found.near.columns.items()
        )
        place = cell({name.strip("_"): at for name, at in found.near.provenance.items()})
        row[" nearly"] = f"{place}: {columns}"
    return row
