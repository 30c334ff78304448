"""``joinery run --port``: from data to verdict, over a bad line to a simulated board."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from joinery_cli.main import cli
from joinery_cli.run_port import run_port
from joinery_gen.parse import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = """
CREATE STREAM r (k INT(8), v INT(16));
CREATE STREAM s (k INT(8), w INT(16));
SELECT r.v, s.w FROM r [ROWS 6], s [ROWS 6] WHERE r.k = s.k
"""


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    rows = [f"{n * n % 5},{n},{2 * n}" for n in range(120)]
    for name, column in (("r", "v"), ("s", "w")):
        (tmp_path / f"{name}.csv").write_text("\n".join([f"k,{column},at", *rows]))
    return [f"{name}={tmp_path / name}.csv" for name in "rs"]


def test_a_run_over_a_bad_line_equals_spark(data: list[str], spark: "SparkSession") -> None:
    query = parse(TEXT.replace("INT(16))", "INT(16), at INT)"), "port")
    (found,) = run_port(
        query, data, "sim", settings={"cores": 2}, damage=0.01, spark=spark, order_by=["at"]
    )
    assert (found.verdict, found.error) == ("equal", None)
    assert found.hardware_rows == found.golden_rows
    assert found.tuples == {"r": 120, "s": 120}
    assert found.registers["accepted_left"] == 120
    assert found.simulation["damaged_in"]
    told = json.loads(json.dumps(found.as_dict(), default=str))
    assert told["differences"] == []


def test_a_card_over_a_bad_line_equals_spark(data: list[str], spark: "SparkSession") -> None:
    """Settings of its host go beside those of the hardware."""
    text = TEXT.replace("INT(16))", "INT(16), at INT)").replace("ROWS 6", "RANGE 9 WATTR at")
    settings = {"units_left": 3, "units_right": 4, "cluster": 2, "memory_kib": 4, "batch": 50}
    query = parse(text, "port_card")
    (found,) = run_port(query, data, "sim", settings=settings, damage=0.01, spark=spark)
    assert (found.engine, found.verdict, found.error) == ("fjoin", "equal", None)
    assert found.hardware_rows == found.golden_rows
    assert found.tuples == {"r": 120, "s": 120}
    assert "batch" not in found.parameters
    assert found.registers["clock"] > 10_000
    assert found.simulation["damaged_in"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "/dev/none"], "There is no port /dev/none; is the board plugged in?"),
        (
            ["--port", "/dev/none", "--damage", "0.1"],
            "Only a simulated board can have a damaged line: --port sim",
        ),
    ],
)
def test_what_can_not_run(
    tmp_path: Path, data: list[str], options: list[str], message: str
) -> None:
    path = tmp_path / "port.cql"
    path.write_text(TEXT)
    given = [part for each in data for part in ("--data", each)]
    result = CliRunner().invoke(cli, ["run", str(path), *given, *options, "--order-by", "at"])
    assert result.exit_code == 2
    assert f"joinery: {message}" in result.output
