"""``joinery demo``: two queries over real data, proved right from end to end."""

import click

from .common import json_option, read_query
from .judge import report
from .verify import verify

DEMO = {"flights_weather": ["flights", "weather"], "tick_band": ["ticks"]}
"""The queries, and the data sets of each."""


@click.command("demo")
@json_option
@click.pass_context
def demo_command(ctx: click.Context, as_json: bool) -> None:
    """Verify two queries on all rows of real data.

    Flights are joined with the weather at their airport and hour, and trades of an E-mini future
    with others of nearly the same price and volume: handshake engine, Verilator, Spark.

    \b
    Example:
      joinery demo
    """
    from joinery_gen.golden.session import start_spark

    spark = start_spark()
    try:
        found = [
            one
            for name, data in DEMO.items()
            for one in verify(read_query(name), data, engine="handshake", spark=spark)
        ]
    finally:
        spark.stop()
    report(ctx, found, as_json)
