"""``joinery verify``: gen, sim, golden and compare in one go. ``verify`` is the same for Python."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    sim_options,
)
from .hosted import HostOptions, check_design_simulator, has_host, simulate_design
from .judge import Golden, Judged, report
from .results import prepare_input

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from joinery_gen.data import Prepared
    from joinery_gen.query import Query
    from joinery_tb.design import Design
    from joinery_tb.replay import SimReport

__all__ = ["Verification", "verify"]


@dataclass(kw_only=True)
class Verification(Judged):
    """What a verification found.

    ``predicted_cycles`` is None for a run that the cycle model does not know: with stalls, refused
    tuples or a second clock. Of a card it is what the busiest pipeline needs, without memory and
    host. Where tuples were refused, the rows are held against those of the accepted ones, and where
    keys were evicted, against those of keys that start anew. A query file with several SELECTs has
    a verification for each; they share the design and its run.
    """

    HIDDEN = Judged.HIDDEN | {"query_hash", "dropped"}

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
    cycles: int | None = None
    predicted_cycles: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)


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
        inputs = folder / "accepted" if any(report.refused.values()) else prepared.folder
        golden = Golden(design.top, folder, inputs, master, spark, show)
        plain = not (stall_in or stall_out or at_run or design.has_merge_clock)
        run = _Run(golden, prepared, report, steps, predictable=plain)
        for number, (part, one) in enumerate(zip(meant.parts, found, strict=True)):
            run.judge(number, part, one)
    return found


@dataclass
class _Run:
    """A finished simulation, whose results can be judged."""

    golden: Golden
    prepared: "Prepared"
    report: "SimReport"
    steps: "_Steps"
    predictable: bool

    def judge(self, number: int, query: "Query", found: Verification) -> None:
        """Hold the rows of the SELECT with this number against Spark's."""
        from joinery_tb.card import CardReport

        run, registers = self.report, self.report.replay.registers
        found.refused, found.cycles = run.refused, run.replay.cycles
        found.dropped_results = registers.get("dropped_results")
        with self.steps("golden"):
            self.golden.judge(number, query, found, registers, run.evicted)
        if self.predictable:
            found.predicted_cycles = self._predict(number, query)
        if isinstance(run, CardReport) and not run.run.in_order:
            found.error = "The rows left in another order than that of their tuples"
            found.verdict = "failed"

    def _predict(self, number: int, query: "Query") -> int | None:
        from joinery_gen.cycles import predict_cycles
        from joinery_tb.card import CardReport

        if isinstance(self.report, CardReport):
            return self.report.predicted_cycles
        if any(self.report.refused.values()):
            return None
        golden = self.golden
        return predict_cycles(golden.top, self.prepared.folder, golden.path(number), query)


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
    report(ctx, found, as_json)
