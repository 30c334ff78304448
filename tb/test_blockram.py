# amaranth: UnusedElaboratable=no
"""What is done for block RAM of ECP5 before and after Yosys."""

import json

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from joinery_synth.blockram import use_output_registers, without_collisions
from joinery_synth.netlist import Netlist


class Memories(wiring.Component):
    """Two memories, of which one has no need of rows that are being written."""

    def __init__(self):
        super().__init__({"row": In(4), "data": In(8), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        total = Signal(8)
        for name, attrs in (("careless", {"no_rw_check": 1}), ("careful", {})):
            memory = Memory(shape=8, depth=16, init=[], attrs=attrs)
            m.submodules[name] = memory
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.addr.eq(self.row),
                write.data.eq(self.data),
                write.en.eq(1),
                read.addr.eq(~self.row),
            ]
            m.d.sync += total.eq(total + read.data)
        m.d.comb += self.o.eq(total)
        return m


def test_only_marked_memories_may_collide():
    before = Netlist.of(Memories()).text
    assert before.count("COLLISION_X_MASK 1'0") == 2
    after = without_collisions(before)
    assert after.count("COLLISION_X_MASK 1'0") == after.count("COLLISION_X_MASK 1'1") == 1
    assert after.replace("COLLISION_X_MASK 1'1", "COLLISION_X_MASK 1'0") == before
    marked = after[: after.index("COLLISION_X_MASK 1'1")]
    assert marked.rindex('MEMID "\\\\careless"') > marked.rfind('MEMID "\\\\careful"')


def cell(kind, parameters, inputs, outputs):
    """A cell as in Yosys' JSON; bits are numbers."""
    directions = dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output")
    return {
        "type": kind,
        "parameters": parameters,
        "port_directions": directions,
        "connections": {name: [bit] for name, bit in {**inputs, **outputs}.items()},
    }


def design(**changes):
    """A block RAM with two outputs, and a register behind each."""
    modes = {"REGMODE_A": "NOREG", "REGMODE_B": "NOREG"}
    muxes = {"CEMUX": "CE", "CLKMUX": "CLK", "LSRMUX": "LSR"}
    control = {"CLK": 2, "CE": 3, "LSR": "0"}
    cells = {
        "ram": cell("DP16KD", modes, {"CLKB": 2, "OCEB": "1"}, {"DOB0": 10, "DOB1": 11}),
        "r0": cell("TRELLIS_FF", muxes, {**control, "DI": 10}, {"Q": 20}),
        "r1": cell("TRELLIS_FF", muxes, {**control, "DI": 11}, {"Q": 21}),
        "use": cell("LUT4", {}, {"A": 20, "B": 21}, {"Z": 30}),
    }
    for path, value in changes.items():
        name, pin = path.split("_")
        cells[name]["connections"][pin] = [value]
    return {"modules": {"top": {"cells": cells}}}


def test_registers_move_into_the_block_ram():
    cells = json.loads(use_output_registers(json.dumps(design())))["modules"]["top"]["cells"]
    assert set(cells) == {"ram", "use"}
    assert cells["ram"]["parameters"] == {"REGMODE_A": "NOREG", "REGMODE_B": "OUTREG"}
    assert cells["ram"]["connections"] == {"CLKB": [2], "OCEB": [3], "DOB0": [20], "DOB1": [21]}


def test_other_registers_stay():
    """With another clock or enable, with a reset, with a one at first, behind logic, or where the
    output goes on."""
    for changes in (
        {"r0_CLK": 4},
        {"r0_CLK": 4, "r1_CLK": 4},
        {"r1_CE": 4},
        {"r0_LSR": 4},
        {"r0_LSR": 4, "r1_LSR": 4},
        {"use_B": 11, "r1_DI": 30},
        {"use_A": 10},
    ):
        given = design(**changes)
        assert json.loads(use_output_registers(json.dumps(given))) == given, changes
    given = design()
    given["modules"]["top"]["cells"]["r0"]["parameters"]["REGSET"] = "SET"
    assert json.loads(use_output_registers(json.dumps(given))) == given
