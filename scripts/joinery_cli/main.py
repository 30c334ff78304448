"""The `joinery` command: its groups, and what goes wrong turned into a message and an exit code."""

import logging
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

import click

from . import bench, build, datasets, demo, design, results, run, synth, verify

CHECK_FAILED, WRONG_INPUT = 1, 2
INTERRUPTED, BROKEN_PIPE = 128 + signal.SIGINT, 128 + signal.SIGPIPE

EPILOG = """
\b
Exit codes: 0 all well, 1 a comparison or check failed, 2 the input or the options were wrong.
"""


class Commands(click.Group):
    """A group whose commands may raise what Joinery raises, listed in the order of their use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a broken pipe is still caught
            return result
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            # Whoever read us has gone; Python must not complain when it flushes at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            _explain(ctx, error)


def _explain(ctx: click.Context, error: Exception) -> NoReturn:
    """End with the message of an error that a person can act on; let all others pass."""
    from joinery_gen.fjoin_host import DeviceError
    from joinery_gen.query import JoineryError
    from joinery_tb.design import DesignError

    if isinstance(error, OSError) and error.filename:
        message = f"{error.filename}: {error.strerror}"
    elif isinstance(error, JoineryError):
        message = str(error)
    else:
        raise error
    if ctx.params["verbose"]:
        traceback.print_exception(error)
    click.echo(f"joinery: {message}", err=True)
    ctx.exit(CHECK_FAILED if isinstance(error, DesignError | DeviceError) else WRONG_INPUT)


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="joinery")
@click.option("-v", "--verbose", is_flag=True, help="Show where in Joinery an error came from.")
def cli(verbose: bool) -> None:
    """One streaming query in, verified hardware out.

    A query is CQL: SQL with a window after each stream. From it come Verilog (gen), a simulation of
    it on data (sim), the same result by Spark (golden), and their comparison (compare); verify does
    all four.

    \b
    Examples:
      joinery verify gen/queries/tick_band.cql --data ticks --limit 20000
      joinery gen my.cql -o build/my --set cores=64
      joinery data
    """


for command in (
    verify.verify_command,
    design.gen_command,
    design.plan_command,
    synth.synth_command,
    build.build_command,
    results.sim_command,
    results.golden_command,
    results.compare_command,
    run.run_command,
    datasets.data_command,
    bench.bench_command,
    demo.demo_command,
):
    cli.add_command(command)


def main() -> None:
    """Run the command; a request to end, as by Ctrl-C, lets everything tidy up first."""
    logging.disable()  # libraries log what an interrupt does to them; our own words are elsewhere
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    cli(prog_name="joinery")
