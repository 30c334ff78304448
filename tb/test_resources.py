"""What designs cost: counts of families, blocks of a hierarchy, and results that are kept."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from click.testing import CliRunner, Result

from joinery.units import place
from joinery_cli.main import cli
from joinery_synth import cache, resources
from joinery_synth.families import FAMILIES
from joinery_synth.netlist import Netlist
from joinery_synth.resources import synthesize


class Unit(wiring.Component):
    """``width`` registers, each behind a look-up table of three inputs."""

    i: Signal
    en: Signal
    o: Signal

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__({"i": In(width), "en": In(width), "o": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.o.eq(self.o ^ (self.i & self.en))
        return m


class Row(wiring.Component):
    """Units of width 3 one behind the other, and one of width 5, of which two bits stay 0."""

    i: Signal
    o: Signal

    def __init__(self, units: int) -> None:
        self.units = units
        super().__init__({"i": In(3), "o": Out(5)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        before: Any = self.i
        for k in range(self.units):
            unit = Unit(3)
            m.submodules[f"unit_{k}"] = place(unit, platform, 3)
            m.d.comb += [unit.i.eq(before), unit.en.eq(self.i)]
            before = unit.o
        m.submodules.last = last = Unit(5)
        m.d.comb += [last.i.eq(before), last.en.eq(7), self.o.eq(last.o)]
        return m


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JOINERY_CACHE", str(tmp_path))
    return tmp_path / "synth"


def test_tree_of_modules() -> None:
    netlist = Netlist.of(Row(4))
    assert netlist.modules == {
        "top": {**{f"unit_{k}": "unit" for k in range(4)}, "last": "top.last"},
        "top.last": {},
        "unit": {},
    }
    assert netlist.blocks(1) == ["top.last", "unit"]
    assert list(netlist.instances()) == [
        ("last", "top.last"),
        *((f"unit_{k}", "unit") for k in range(4)),
    ]
    assert Netlist.of(Row(4)).hash == netlist.hash != Netlist.of(Row(5)).hash


@pytest.mark.parametrize("target", FAMILIES)
def test_blocks_add_up(target: str) -> None:
    found = synthesize(Row(4), target)
    blocks = {block.name: (block.count, block.used["lut"], block.used["ff"])
              for block in found.blocks}  # fmt: skip
    assert blocks == {"shell": (1, 0, 0), "last": (1, 3, 3), "unit_*": (4, 12, 12)}
    for name, used in found.used.items():
        assert used == sum(block.used[name] for block in found.blocks)
    assert found.yosys_version.startswith("Yosys 0.")


def test_flat_is_no_larger() -> None:
    flat = synthesize(Row(4), "xcup", hierarchy=False)
    kept = synthesize(Row(4), "xcup")
    assert flat.blocks == []
    assert flat.used["lut"] <= kept.used["lut"]
    assert flat.used["ff"] <= kept.used["ff"]


def test_families_count_cells() -> None:
    assert FAMILIES["xcup"].count({"LUT3": 4, "INV": 1, "RAM32M16": 2, "FDRE": 3, "FDSE": 1,
                                   "RAMB18E2": 3, "DSP48E2": 2, "CARRY4": 5, "BUFG": 1}) == {
        "lut": 21, "ff": 4, "bram": 1.5, "dsp": 2, "carry": 5
    }  # fmt: skip
    assert FAMILIES["ecp5"].count({"LUT4": 10, "CCU2C": 3, "TRELLIS_DPR16X4": 2, "TRELLIS_FF": 7,
                                   "PFUMX": 4, "DP16KD": 1, "MULT18X18D": 1}) == {
        "lut": 28, "ff": 7, "bram": 1, "dsp": 1, "carry": 3
    }  # fmt: skip
    assert FAMILIES["ice40"].count({"SB_LUT4": 5, "SB_CARRY": 2, "SB_DFFESR": 3,
                                    "SB_RAM40_4K": 1}) == {
        "lut": 5, "ff": 3, "bram": 1, "dsp": 0, "carry": 2
    }  # fmt: skip
    assert FAMILIES["gowin"].count({"LUT4": 5, "ALU": 2, "DFFRE": 3, "RAM16SDP4": 1, "SDPB": 1,
                                    "MUX2_LUT5": 9}) == {
        "lut": 11, "ff": 3, "bram": 1, "dsp": 0, "carry": 2
    }  # fmt: skip


def test_results_are_kept(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def make() -> dict[str, Any]:
        made.append(1)
        return {"answer": len(made)}

    for depends, answer in (({"a": 1}, 1), ({"a": 1}, 1), ({"a": 2}, 2), ({"a": 1}, 1)):
        assert cache.cached(depends, make) == {"answer": answer}
    assert len(list(own_cache.glob("*.json"))) == 2

    def ran(*arguments: Any) -> dict[str, Any]:
        raise AssertionError("Yosys was asked")

    synthesize(Row(1), "ice40")
    monkeypatch.setattr(resources, "_stat", ran)
    synthesize(Row(1), "ice40")
    for other in (lambda: synthesize(Row(2), "ice40"), lambda: synthesize(Row(1), "gowin")):
        with pytest.raises(AssertionError, match=r"^Yosys was asked$"):
            other()


def test_a_failure_is_not_kept(own_cache: Path) -> None:
    def fails() -> dict[str, Any]:
        raise ValueError("no")

    works: Callable[[], dict[str, Any]] = lambda: {"a": 1}  # noqa: E731
    with pytest.raises(ValueError, match=r"^no$"):
        cache.cached({"b": 1}, fails)
    assert cache.cached({"b": 1}, works) == {"a": 1}


def test_unknown_target() -> None:
    with pytest.raises(
        ValueError,
        match=r"^There is no target 'virtex'; these exist: xc7, xcup, ecp5, ice40, gowin$",
    ):
        synthesize(Netlist(""), "virtex")


def test_command(tmp_path: Path) -> None:
    """A table for people, JSON for scripts, a picture; and what can't be had."""

    def run(*arguments: str) -> Result:
        few = ["--set", "cores=2"]
        return CliRunner().invoke(cli, ["synth", str(query), *few, *arguments])

    query = tmp_path / "small.cql"
    query.write_text(SMALL)
    picture = tmp_path / "small.svg"
    table = run("--target", "xcup", "--picture", str(picture))
    assert table.exit_code == 0, table.output
    assert "engine.core_*" in table.stdout
    assert "blocks mapped one by one; Yosys 0." in table.stdout
    assert picture.read_text().startswith("<svg")
    found = json.loads(run("--target", "xcup", "--json").stdout)
    assert found["parameters"]["cores"] == 2
    assert found["used"]["ff"] == sum(block["used"]["ff"] for block in found["blocks"])
    refused = run("--target", "ice40", "--route")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "joinery: place and route is for the target ecp5 alone, not ice40\n",
    )
    refused = run("--flat", "--picture", str(picture))
    assert (refused.exit_code, refused.stderr) == (
        2,
        "joinery: a picture shows blocks, which --flat does away with\n",
    )


SMALL = """\
CREATE STREAM r (key UINT(4));
CREATE STREAM s (key UINT(4));
SELECT r.key FROM r [ROWS 4], s [ROWS 4] WHERE r.key = s.key
"""
