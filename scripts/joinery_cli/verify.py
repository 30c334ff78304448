"""``joinery verify``: gen, sim, golden and compare in one go. ``verify`` is the same for Python."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    sim_options,
)
from .hosted import HostOptions, check_design_simulator, has_host, simulate_design
from .results import prepare_input, print_differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.table import Table

    from joinery_gen.compare import Comparison
    from joinery_gen.data import Prepared
    from joinery_gen.query import Query
    from joinery_tb.design import Design
    from joinery_tb.replay import SimReport

__all__ = ["Verification", "verdict_table", "verify"]


@dataclass
class Verification:
    """What a verification found.

    ``verdict`` is ``equal`` or ``different`` (rows or late tuples), or ``failed`` where the design
    misbehaved, as ``error`` tells; then nothing is known about rows. ``predicted_cycles`` is None
    for a run that the cycle model does not know: with stalls, refused tuples or a second clock. Of
    a card it is what the busiest pipeline needs, without memory and host.
    Where tuples were refused, the rows are held against those of the accepted ones, and where keys
    were evicted, against those of keys that start anew. A query file
    with several SELECTs has a verification for each; they share the design and its run.
    """

    query: str
    query_hash: str
    engine: str
    parameters: dict[str, int | str]
    simulator: str
    simulator_version: str
    tuples: dict[str, int]
    tuples_in: int
    dropped: dict[str, int]
    punctuations: int | None = None
    at_run: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    dropped_results: int | None = None
    hardware_rows: int | None = None
    golden_rows: int | None = None
    missing: int | None = None
    extra: int | None = None
    duplicated: int | None = None
    late_hardware: int | None = None
    late_golden: int | None = None
    evicted: int | None = None
    cycles: int | None = None
    predicted_cycles: int | None = None
    verdict: str = "failed"
    error: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    comparison: "Comparison | None" = None

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON, with the first different rows as ``differences``."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        comparison = told.pop("comparison")
        return told | {"differences": comparison.as_dict()["differences"] if comparison else []}


def verify(
    query: "Query",
    data: Sequence[str],
    *,
    engine: str | None = None,
    settings: Mapping[str, int | str] | None = None,
    verilog: Path | None = None,
    sim: str = "verilator",
    stall_in: float = 0.0,
    stall_out: float = 0.0,
    seed: int = 1,
    keep: Path | None = None,
    master: str | None = None,
    spark: "SparkSession | None" = None,
    show: int = 10,
    at_run: Mapping[str, int] | None = None,
    **input_options: Any,
) -> list[Verification]:
    """Generate the hardware of ``query``, run it on ``data``, and hold its rows against Spark's.

    Returns what was found of each SELECT. ``verilog`` is a folder that ``gen`` wrote, to be used as
    it is now. ``keep`` is a folder for the design, the prepared input and both results, which
    otherwise go. A running session given as ``spark`` is used, and left running. ``at_run`` has
    settings that are changed in the finished design, before it sees a tuple; the rows are held
    against those of a query with these values. ``input_options`` are those of ``prepare``:
    ``order_by``, ``on_bad_row``, ``limit`` and ``punctuation``.
    """
    from joinery_gen.at_run import change
    from joinery_gen.fjoin_host import DeviceError
    from joinery_tb.design import DesignError

    steps = _Steps(query.name)
    with _folder(keep) as folder:
        with steps("generate"):
            design, options = _design(query, engine, settings or {}, verilog, sim, folder)
        meant, writes = change(query, design.top, at_run or {})
        with steps("prepare"):
            prepared = prepare_input(query, folder / "input", data=data, **input_options)
        found = [_start(part, design, prepared, sim, steps, at_run or {}) for part in meant.parts]
        try:
            with steps("simulate"):
                report = simulate_design(
                    query,
                    design,
                    prepared.folder,
                    folder / "out.parquet",
                    options=options,
                    accepted=folder / "accepted",
                    evicted=folder / "evicted.parquet",
                    writes=writes,
                    sim=sim,
                    stall_in=stall_in,
                    stall_out=stall_out,
                    seed=seed,
                )
        except (DesignError, DeviceError) as error:
            for one in found:
                one.error = str(error)
            return found
        plain = not (stall_in or stall_out or at_run or design.has_merge_clock)
        run = _Run(folder, design, prepared, report, steps, predictable=plain)
        for number, (part, one) in enumerate(zip(meant.parts, found, strict=True)):
            run.judge(number, part, one, master=master, spark=spark, show=show)
    return found


@dataclass
class _Run:
    """A finished simulation, whose results can be judged."""

    folder: Path
    design: "Design"
    prepared: "Prepared"
    report: "SimReport"
    steps: "_Steps"
    predictable: bool

    def judge(
        self,
        number: int,
        query: "Query",
        found: Verification,
        *,
        master: str | None,
        spark: "SparkSession | None",
        show: int,
    ) -> None:
        """Hold the rows of the SELECT with this number against Spark's."""
        from joinery_gen.compare import compare
        from joinery_gen.cycles import predict_cycles
        from joinery_gen.golden import run_golden
        from joinery_tb.card import CardReport
        from joinery_tb.words import result_files

        registers = self.report.replay.registers
        refused_any = any(self.report.refused.values())
        accepted = self.folder / "accepted" if refused_any else self.prepared.folder
        files = result_files(self.design.top, self.folder / "out.parquet")
        golden = self.folder / f"golden{number + 1 if len(files) > 1 else ''}.parquet"
        with self.steps("golden"):
            truth = run_golden(
                query,
                accepted,
                golden,
                master=master,
                spark=spark,
                evictions=self.folder / "evicted.parquet" if self.report.evicted else None,
            )
        with self.steps("compare"):
            found.comparison = compare(files[number], golden, show=show)
            if isinstance(self.report, CardReport):
                found.predicted_cycles = self.report.predicted_cycles if self.predictable else None
            elif self.predictable and not refused_any:
                found.predicted_cycles = predict_cycles(
                    self.design.top, self.prepared.folder, golden, query
                )
        found.refused = self.report.refused
        found.cycles = self.report.replay.cycles
        late = f"late_{number}" if len(files) > 1 else "late"
        found.late_hardware, found.late_golden = registers.get(late, 0), truth.late
        _judge(found, found.comparison)
        if "evicted" in registers:
            found.evicted = self.report.evicted
        found.dropped_results = registers.get("dropped_results")
        found.error = _complaint(self.design, registers)
        if isinstance(self.report, CardReport) and not self.report.run.in_order:
            found.error = "The rows left in another order than that of their tuples"
        if truth.misreported or (found.evicted or 0) != registers.get("evicted", 0):
            found.error = f"{truth.misreported} of {found.evicted} evictions were told wrongly"
        if found.error:
            found.verdict = "failed"


def _complaint(design: "Design", registers: Mapping[str, int]) -> str | None:
    """What the design says may have cost results, or None."""
    from joinery_gen.engines import ENGINES

    advice = ENGINES[design.top["engine"]].advice
    told = [
        f"{text}; {advice[bit]}" if bit in advice else text
        for bit, text in enumerate(design.top.get("errors", ()))
        if registers["errors"] >> bit & 1
    ]
    if registers.get("dropped_results"):
        told.append(f"{registers['dropped_results']:,} results were dropped, as the policy allows")
    return "; ".join(told) or None


def _design(
    query: "Query",
    engine: str | None,
    settings: Mapping[str, int | str],
    verilog: Path | None,
    sim: str,
    folder: Path,
) -> "tuple[Design, HostOptions]":
    """Generate the design into ``folder``, or check that the one in ``verilog`` is the query's.

    Of an engine with a host, some of the ``settings`` are the host's.
    """
    from joinery_gen.engines import engine_for, plan
    from joinery_gen.generate import generate
    from joinery_gen.query import JoineryError
    from joinery_tb.design import Design

    fixed = JoineryError(
        f"The design in {verilog} has its engine and parameters already; "
        "leave out --engine and --set"
    )
    if verilog is not None:
        if engine:
            raise fixed
        design = Design(verilog)
        name, hosted = design.top["engine"], has_host(design.top["engine"])
    else:
        name, entry = engine_for(query, engine)
        hosted = entry.host
    check_design_simulator(name, sim)
    options = HostOptions.take(settings if hosted else {})
    rest = options.rest if hosted else settings
    if verilog is None:
        generate(plan(query, name, rest), folder / "design")
        return Design(folder / "design"), options
    if rest:
        raise fixed
    made_of = design.top["query"]["hash"]
    if made_of != query.hash:
        raise JoineryError(
            f"{verilog} holds the design of another query, {design.top['name']} ({made_of}, not "
            f"{query.hash}); write the one of {query.name} with: joinery gen QUERY -o {verilog}"
        )
    return design, options


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Lend the folder to keep, or one that goes at the end."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="joinery-verify-") as folder:
        yield Path(folder)


class _Steps:
    """Tells a person which step has begun, and remembers how long each took."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        say(f"{self.name}: {step} ...")
        started = time.monotonic()
        yield
        taken = self.seconds.get(step, 0.0) + time.monotonic() - started
        self.seconds[step] = round(taken, 1)


def _start(
    query: "Query",
    design: "Design",
    prepared: "Prepared",
    sim: str,
    steps: _Steps,
    at_run: Mapping[str, int],
) -> Verification:
    from joinery_tb.toolchain import version

    return Verification(
        query=query.name,
        query_hash=query.hash,
        engine=design.top["engine"],
        parameters=design.top["parameters"],
        simulator=sim,
        simulator_version=version(sim),
        tuples=prepared.rows,
        tuples_in=sum(prepared.rows.values()),
        dropped=prepared.dropped,
        punctuations=prepared.punctuations,
        at_run=dict(at_run),
        seconds=steps.seconds,
    )


def _judge(found: Verification, comparison: "Comparison") -> None:
    found.hardware_rows, found.golden_rows = comparison.hardware_rows, comparison.golden_rows
    found.missing, found.extra = comparison.missing, comparison.extra
    found.duplicated = comparison.duplicated
    same_late = found.late_hardware == found.late_golden
    found.verdict = comparison.verdict if same_late else "different"


HIDDEN = {"query", "query_hash", "error", "dropped", "comparison"}


def verdict_table(found: Sequence[Verification]) -> "Table":
    """Lay out verifications side by side, under the names of their queries."""
    table = make_table(None, [])
    for name in ("", *(one.query for one in found)):
        table.add_column(name)
    for each in fields(Verification):
        if each.name not in HIDDEN:
            table.add_row(each.name, *(_lines(getattr(one, each.name)) for one in found))
    return table


def _lines(value: Any) -> str:
    """Spell a value, a mapping with one entry per line, so that the table stays narrow."""
    return cell(value).replace(", ", "\n") if isinstance(value, Mapping) else cell(value)


@click.command("verify")
@query_argument
@data_options
@plan_options
@click.option(
    "--verilog",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Take the design from this folder, which `joinery gen` wrote, as it is now.",
)
@sim_options
@at_run_option
@master_option
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the design, the prepared input and both results in this folder.",
)
@show_option
@json_option
@click.pass_context
def verify_command(
    ctx: click.Context, query: str, data: Sequence[str], as_json: bool, **options: Any
) -> None:
    """Prove QUERY's hardware right on data: gen, sim, golden, compare.

    Prints one table with the verdict; the exit code is 1 where a row differs or the design
    misbehaves.

    \b
    Examples:
      joinery verify gen/queries/flights_weather.cql --data flights --data weather
      joinery verify my.cql --data r=left.csv --data s=right.parquet --engine nested_loop
      joinery verify gen/queries/tick_band.cql --data ticks --limit 5000 --sim icarus --json
    """
    found = verify(read_query(query), data, **options)
    report(ctx, found, as_told(found) if as_json else None)


def as_told(found: Sequence[Verification]) -> Any:
    """Return verifications for JSON: an object, or where there are several a list of them."""
    told = [one.as_dict() for one in found]
    return told[0] if len(told) == 1 else told


def report(ctx: click.Context, found: Sequence[Verification], as_json: Any = None) -> None:
    """Print verifications, as JSON if that is given, and end with the exit code they call for."""
    if as_json is not None:
        print_json(as_json)
    else:
        for one in found:
            print_differences(one.comparison.differences if one.comparison else ())
        print_table(verdict_table(found))
    for one in found:
        if one.error:
            say(f"joinery: {one.query}: {one.error}")
    ctx.exit(0 if all(one.verdict == "equal" for one in found) else 1)
