"""The engine `fjoin` from query text to rows: plan, Verilog, and verification on its card."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from joinery_cli.common import QUERIES
from joinery_cli.main import cli
from joinery_cli.verify import Verification, verify
from joinery_gen.engines import plan
from joinery_gen.fjoin_host import DeviceError, run_prepared
from joinery_gen.generate import generate
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError, Query
from joinery_tb.card import SimulatedCard
from test_generated import lint

TEXT = """\
CREATE STREAM orders (item SMALLINT, time TIMESTAMP(s));
CREATE STREAM offers (item SMALLINT, time TIMESTAMP(s));

SELECT o.item, o.time, f.time AS offered
FROM orders [RANGE 9 SECONDS WATTR time] AS o, offers [RANGE 9 SECONDS WATTR time] AS f
WHERE o.item = f.item;
"""
SMALL = {"units_left": 4, "units_right": 6, "cluster": 2, "id_bits": 8}
ENGINES: dict[str, dict[str, int | str]] = {
    "fjoin": {**SMALL, "lanes": 2},
    "fjoin_paper": {"units_left": 3, "units_right": 2},
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the query, its data, and the design of each engine."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "small.cql").write_text(TEXT)
    for seed, (name, count) in enumerate((("orders", 120), ("offers", 100))):
        draw = Random(seed)
        times = sorted(draw.sample(range(4 * count), count))
        lines = [f"{draw.randrange(4)},{time}" for time in times]
        (folder / f"{name}.csv").write_text("\n".join(["item,time", *lines]) + "\n")
    for name, settings in ENGINES.items():
        generate(plan(query(), name, settings), folder / name)
    return folder


def query() -> Query:
    return parse(TEXT, name="small")


def data_of(shop: Path) -> list[str]:
    return [f"{name}={shop / name}.csv" for name in ("orders", "offers")]


def test_default_of_time_windows() -> None:
    chosen = plan(query())
    assert chosen.engine == "fjoin"
    assert (chosen.parameters["units_left"], chosen.parameters["time_bits"]) == (64, 32)
    far = plan(parse(TEXT.replace("9 SECONDS", "9999999999 SECONDS"), name="far"))
    assert far.parameters["time_bits"] == 36


@pytest.mark.parametrize("engine", ENGINES)
def test_same_plan_same_bytes(shop: Path, engine: str, tmp_path: Path) -> None:
    generate(plan(query(), engine, ENGINES[engine]), tmp_path)
    for file in ("top.v", "top.json"):
        assert (tmp_path / file).read_bytes() == (shop / engine / file).read_bytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_verilator_has_nothing_to_say(shop: Path, engine: str) -> None:
    assert lint(shop / engine / "top.v") == ""


def test_a_thousand_units_are_written_once(tmp_path: Path) -> None:
    many = parse((QUERIES / "order_taxi.cql").read_text(), name="many")
    generate(plan(many, "fjoin", {"units_left": 512, "units_right": 512}), tmp_path)
    assert (tmp_path / "top.v").stat().st_size < 1_000_000
    assert lint(tmp_path / "top.v") == ""


def test_top_says_what_a_host_needs(shop: Path) -> None:
    top = json.loads((shop / "fjoin" / "top.json").read_text())
    assert top["pipelines"] == [{"side": "left", "units": 4}, {"side": "right", "units": 6}]
    assert top["records"]["left"]["stride"] == 7
    assert top["predicted"] == {
        "cycles": {
            "per_window_tuple": 1, "per_batch": 3, "load": 7, "latency": 18, "matches_per_cycle": 2
        },
        "resources": {"units": 10, "bytes_left": 7, "bytes_right": 7},
    }  # fmt: skip
    names = [register["name"] for register in top["registers"]]
    assert names[:4] == ["identity", "version", "query_hash_lo", "query_hash_hi"]
    assert {"errors", "p0_command", "p1_cycles_hi"} <= set(names)
    assert top["errors"] == [f"memory answered pipeline {k} with an error" for k in (0, 1)]
    ports = {port["name"] for port in top["ports"]}
    assert {"clk", "rst", "s_axil_awaddr", "m_axi_0_araddr", "m_axi_1_wdata", "running"} <= ports


def check(found: Verification) -> None:
    assert (found.verdict, found.error) == ("equal", None)
    assert (found.missing, found.extra, found.duplicated) == (0, 0, 0)
    assert found.hardware_rows == found.golden_rows
    assert found.hardware_rows
    assert found.cycles


def test_verify(shop: Path, spark: Any) -> None:
    (found,) = verify(query(), data_of(shop), settings=ENGINES["fjoin"], spark=spark)
    check(found)
    assert (found.engine, found.tuples) == ("fjoin", {"o": 120, "f": 100})
    assert found.predicted_cycles
    assert found.cycles
    assert found.predicted_cycles < found.cycles


def test_verify_with_stalls_and_sources(shop: Path, spark: Any) -> None:
    settings = {**ENGINES["fjoin"], "sources": 4, "disorder": 20, "batch": 25, "result_tuples": 8}
    (found,) = verify(
        query(), data_of(shop), settings=settings, stall_in=0.3, stall_out=0.5, spark=spark
    )
    check(found)
    assert found.predicted_cycles is None
    assert "sources" not in found.parameters


def test_a_fault_in_the_verilog_is_found(shop: Path, spark: Any, tmp_path: Path) -> None:
    """Units that compare all bits of an item but the lowest find pairs that are none."""
    broken = tmp_path / "design"
    shutil.copytree(shop / "fjoin", broken)
    text = (broken / "top.v").read_text()
    assert "i[15:0] == i[31:16]" in text
    (broken / "top.v").write_text(text.replace("i[15:0] == i[31:16]", "i[15:1] == i[31:17]"))
    (found,) = verify(query(), data_of(shop), verilog=broken, spark=spark)
    assert (found.verdict, found.missing, found.duplicated) == ("different", 0, 0)
    assert (found.extra or 0) > 100


def test_a_card_that_breaks_a_rule_has_failed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DeviceError("Pipeline 0 caught fire")

    monkeypatch.setattr(SimulatedCard, "start", broken)
    (found,) = verify(query(), data_of(shop), verilog=shop / "fjoin")
    assert (found.verdict, found.error) == ("failed", "Pipeline 0 caught fire")
    assert found.hardware_rows is None


def test_rows_out_of_order_have_failed(
    shop: Path, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    def disordered(*given: Any, **more: Any) -> Any:
        return replace(run_prepared(*given, **more), in_order=False)

    monkeypatch.setattr("joinery_tb.card.simulate.run_prepared", disordered)
    (found,) = verify(query(), data_of(shop), verilog=shop / "fjoin", spark=spark)
    error = "The rows left in another order than that of their tuples"
    assert (found.verdict, found.error) == ("failed", error)


def test_settings_of_a_finished_design(shop: Path) -> None:
    error = "The design in .* has its engine and parameters already; leave out --engine and --set"
    with pytest.raises(JoineryError, match=f"^{error}$"):
        verify(query(), data_of(shop), verilog=shop / "fjoin", settings={"lanes": 4, "batch": 9})


@pytest.fixture
def run(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(shop)
    return lambda *arguments: CliRunner().invoke(cli, list(map(str, arguments)))


def given(shop: Path, **settings: int | str) -> list[str]:
    data = [word for each in data_of(shop) for word in ("--data", each)]
    return data + [
        word for each in settings.items() for word in ("--set", "=".join(map(str, each)))
    ]


def test_sim(run: Callable[..., Result], shop: Path) -> None:
    options = given(shop, **ENGINES["fjoin"])
    done = run("sim", "small.cql", *options, "-o", "out.parquet", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["tuples_in"], found["simulator"]) == (220, "verilator")
    assert found["rows"] == found["run"]["rows"] > 100
    assert found["run"]["in_order"]


def test_refuses_icarus(run: Callable[..., Result], shop: Path) -> None:
    error = "A card runs in verilator only, where its memory is; leave out --sim icarus"
    for command in (["verify", "small.cql"], ["sim", "small.cql", "-o", "rows.parquet"]):
        done = run(*command, *given(shop), "--sim", "icarus")
        assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, f"joinery: {error}")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"id_bits": 40}, "engine fjoin: Ids on a card have 2 to 32 bits, not 40"),
        ({"lanes": 3}, "engine fjoin: Lanes must be 1, 2 or 4, not 3"),
        ({"units_left": 0}, "engine fjoin: Pipeline units must be a positive integer, not 0"),
    ],
)
def test_refuses_parameters(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(JoineryError, match=f"^{re.escape(error)}$"):
        plan(query(), "fjoin", settings).build()
