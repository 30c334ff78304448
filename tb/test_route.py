"""Place and route: one small design for real, and what a report of nextpnr is turned into."""

from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from joinery_synth.boundary import Boundary
from joinery_synth.netlist import Netlist
from joinery_synth.route import Hop, own_name, read_report, route_design, spread
from joinery_synth.tools import ToolError


class Slow(wiring.Component):
    """A long sum between two registers, and a short one."""

    def __init__(self) -> None:
        super().__init__({"a": In(24), "b": In(24), "long": Out(24), "short": Out(2)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.summer = summer = Module()
        here, total, found = Signal(24), Signal(24), Signal(24)
        m.d.sync += [here.eq(self.a), self.long.eq(found), self.short.eq(self.a[:2] + 1)]
        summer.d.comb += total.eq((here + self.b) * 3 + here)
        summer.d.sync += found.eq(total)
        return m


def test_a_small_design() -> None:
    found = route_design(Slow(), seed=1)
    assert 20 < found.fmax < 200
    assert 24 + 24 + 24 < found.used["TRELLIS_FF"] < found.available["TRELLIS_FF"]
    assert "found" in found.ends[1]
    total = sum(hop.logic + hop.routing for hop in found.path)
    assert abs(1000 / total - found.fmax) < 1
    assert route_design(Slow(), seed=1) == found


def test_boundary_has_two_pins_and_keeps_everything() -> None:
    text = Netlist.of(Boundary(Slow())).text
    top = text[text.index("module \\top\n") :]
    top = top[: top.index("\nend\n")]
    ports = {
        line.split()[-1] for line in top.splitlines() if " input " in line or " output " in line
    }
    assert ports == {"\\i", "\\o", "\\clk", "\\rst"}


def netlist(**modules: list[str]) -> Netlist:
    """Modules by name, and the kinds of their cells."""
    lines = []
    for name, kinds in modules.items():
        cells = [f"  cell \\{kind} \\{kind}_{k}" for k, kind in enumerate(kinds)]
        lines += [f"module \\{name}", *cells, "end"]
    return Netlist("\n".join(lines))


def test_repeated_units() -> None:
    """The outermost ones, wherever they are; a primitive is none."""
    leaves = {"leaf": ["$add", "$add"], "other": ["$mux"]}
    one = netlist(top=["shell"], shell=["core", "other"], core=["leaf", "leaf"], **leaves)
    assert one.repeated() == ["leaf"]
    two = netlist(top=["shell"], shell=["core", "other", "core"], core=["leaf", "leaf"], **leaves)
    assert two.repeated() == ["core"]
    assert netlist(top=["shell"], shell=["other"], **leaves).repeated() == []


REPORT: dict[str, Any] = {
    "fmax": {"fast": {"achieved": 300.0}, "clk": {"achieved": 101.239}},
    "utilization": {"TRELLIS_FF": {"used": 5, "available": 10}},
    "critical_paths": [
        {"from": "posedge fast", "to": "posedge fast", "path": []},
        {
            "from": "posedge clk",
            "to": "posedge clk",
            "path": [
                {"type": "clk-to-q", "delay": 0.5, "net": None,
                 "from": {"cell": "design.a.count_TRELLIS_FF_Q_3"},
                 "to": {"cell": "design.a.count_TRELLIS_FF_Q_3"}},
                {"type": "routing", "delay": 0.9, "net": "design.a.count[3]",
                 "from": {"cell": "x"}, "to": {"cell": "y"}},
                {"type": "logic", "delay": 0.2, "from": {"cell": "design.b.full_LUT4_Z"},
                 "to": {"cell": "design.b.full_LUT4_Z"}},
                {"type": "routing", "delay": 1.1, "net": "design.b.full",
                 "from": {"cell": "x"}, "to": {"cell": "y"}},
                {"type": "setup", "delay": 0.0, "from": {"cell": "x"},
                 "to": {"cell": "design.b.held_TRELLIS_FF_Q"}},
            ],
        },
    ],
}  # fmt: skip


def test_report() -> None:
    found = read_report(REPORT, seed=7)
    assert (found.fmax, found.seed) == (101.24, 7)
    assert found.path == [
        Hop("a.count[3]", 0.5, 0.9),
        Hop("b.full", 0.2, 1.1),
        Hop("b.held", 0.0, 0.0),
    ]
    assert found.ends == ("a.count[3]", "b.held")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("design.engine.core_3.left.row_0_TRELLIS_FF_Q_DI_LUT4_Z_D[2]", "engine.core_3.left.row_0"),
        ("engine.sequencer.left_CCU2C_S0_COUT_3", "engine.sequencer.left"),
        ("design.queue.rows.0.0.0", "queue"),
        ("design.engine.room", "engine.room"),
        ("$nextpnr_CCU2C_9$X", "$nextpnr"),
    ],
)
def test_names(name: str, own: str) -> None:
    assert own_name(name) == own


def test_spread() -> None:
    assert spread([103.0, 99.5, 110.25]) == {"lowest": 99.5, "median": 103.0, "highest": 110.25}


def test_out_of_time() -> None:
    with pytest.raises(ToolError, match=r"^yowasp-\S+ did not finish in time$"):
        route_design(Slow(), seed=99, timeout=0)
