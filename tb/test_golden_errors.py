"""What can go wrong around the golden job, and what is left behind."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from joinery.expr import Arith, Bitwise, Const
from joinery_gen.golden import arrivals, run_golden
from joinery_gen.golden.expressions import translate
from joinery_gen.golden.session import start_spark
from joinery_gen.manifest import data_hash
from joinery_gen.query import JoineryError
from joinery_tb.golden_cases import FORMS, col, prepare, stamped


def test_wide_bitwise_is_refused() -> None:
    product = Arith("*", col("a", "y"), col("a", "y"))
    message = (
        "^Spark computes & on integers of 64 bits with their sign, and an operand here can need "
        "128 bits; use narrower columns$"
    )
    with pytest.raises(JoineryError, match=message):
        translate(Bitwise("&", product, Const.number(1)))


def test_number_of_39_digits_is_refused(spark: SparkSession) -> None:
    message = f"^The number {10**38} has more than 38 digits, the most that Spark holds$"
    with pytest.raises(JoineryError, match=message):
        translate(Const.number(10**38))


def test_missing_manifest(spark: SparkSession, tmp_path: Path) -> None:
    message = f"^There is no manifest.json in {re.escape(str(tmp_path))}; prepare the input first$"
    with pytest.raises(JoineryError, match=message):
        run_golden(FORMS["time"], tmp_path, tmp_path / "out", spark=spark)


def test_missing_source_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    query = FORMS["time"]
    inputs = prepare(tmp_path, query, {"r": [], "s": []})
    (inputs / "s.parquet").unlink()
    message = (
        f"^There is no {re.escape(str(inputs))}/s.parquet; "
        "prepare the input of the query's source 's' first$"
    )
    before = sorted(tmp_path.iterdir())
    with pytest.raises(JoineryError, match=message):
        run_golden(query, inputs, tmp_path / "out", spark=spark)
    assert sorted(tmp_path.iterdir()) == before


def test_missing_column(spark: SparkSession, tmp_path: Path) -> None:
    query = FORMS["sliding"]
    inputs = prepare(tmp_path, query, stamped(1))
    path = inputs / "a.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["x"]), path)
    message = f"^{re.escape(str(path))} has no column 'x'; it was not prepared for this query$"
    with pytest.raises(JoineryError, match=message):
        run_golden(query, inputs, tmp_path / "out", spark=spark)


def test_uncounted_arrivals(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "LEAST_BIN", 4)  # positions are counted in whole bins
    query = FORMS["sliding"]
    inputs = prepare(tmp_path, query, stamped(*range(9)))
    manifest = inputs / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"arrivals": 9', '"arrivals": 2'))
    message = (
        "^The prepared input has arrival positions that its manifest.json does not count; "
        "prepare it again$"
    )
    with pytest.raises(JoineryError, match=message):
        run_golden(query, inputs, tmp_path / "out", spark=spark)


def test_an_earlier_result_is_replaced_and_other_folders_are_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = FORMS["sliding"]
    inputs = prepare(tmp_path, query, stamped(1, 2, 3))
    out = tmp_path / "out"
    for _ in range(2):
        rows = run_golden(query, inputs, out, spark=spark).rows
        assert pq.read_table(out).num_rows == rows
    assert {path.suffix for path in out.iterdir()} <= {".parquet", ".json", ""}
    precious = tmp_path / "precious"
    precious.mkdir()
    message = (
        f"^{re.escape(str(precious))} exists and is not a golden result; "
        "it is left alone, name another place$"
    )
    with pytest.raises(JoineryError, match=message):
        run_golden(query, inputs, precious, spark=spark)
    assert precious.is_dir()


def test_a_second_spark_is_refused(spark: SparkSession) -> None:
    message = "^A Spark session is running in this process: pass it as `spark`$"
    with pytest.raises(JoineryError, match=message):
        run_golden(FORMS["time"], Path("in"), Path("out"))


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joinery_gen.golden.session.SparkContext._active_spark_context", None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    message = (
        "^Spark needs Java 17 or later, and none was found; install it with: "
        "sudo apt-get install openjdk-17-jre-headless$"
    )
    with pytest.raises(JoineryError, match=message):
        start_spark()


def test_data_hash_is_of_the_data_alone() -> None:
    one = {"query": "1", "sources": {"r": {"sha256": "x"}, "s": {"sha256": "y"}}}
    other = {"query": "2", "sources": {"s": {"sha256": "y"}, "r": {"sha256": "x", "from": "f"}}}
    swapped = {"query": "1", "sources": {"r": {"sha256": "y"}, "s": {"sha256": "x"}}}
    assert data_hash(one) == data_hash(other) != data_hash(swapped)
