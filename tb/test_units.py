# amaranth: UnusedElaboratable=no
"""Repeated units: one module for equal ones, modules of their own for different ones."""

import re
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from joinery.handshake import HandshakeJoin
from joinery.units import UnitLibrary, place
from joinery_gen.engines import join_pair, plan
from joinery_gen.generate import generate
from joinery_gen.parse import parse

ROWS_LEFT, ROWS_RIGHT = 100, 70
QUERY = parse(
    f"""
CREATE STREAM r (k INT(8), v INT(8));
CREATE STREAM s (k INT(8));
SELECT r.v FROM r [ROWS {ROWS_LEFT}], s [ROWS {ROWS_RIGHT}] WHERE r.k = s.k
""",
    "units.cql",
)


class AddOne(wiring.Component):
    """``o`` is ``i`` plus one, a cycle later."""

    amount = 1

    def __init__(self, width: int = 4) -> None:
        self.width = width
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.o.eq(self.i + self.amount)
        return m


class AddTwo(AddOne):
    amount = 2


class Row(wiring.Component):
    """Units side by side, each of a class and with a key of its own."""

    def __init__(self, units: list[tuple[AddOne, tuple[Any, ...]]]) -> None:
        self.units = units
        super().__init__(
            {
                name: member
                for k, (unit, _) in enumerate(units)
                for name, member in ((f"i{k}", In(unit.width)), (f"o{k}", Out(unit.width)))
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k, (unit, key) in enumerate(self.units):
            m.submodules[f"unit_{k}"] = place(unit, platform, *key)
            m.d.comb += [unit.i.eq(getattr(self, f"i{k}")), getattr(self, f"o{k}").eq(unit.o)]
        return m


def modules_of(text: str) -> dict[str, str]:
    """The text of every module of RTLIL, by name; each name must be there once."""
    found = re.findall(r"^module \\(\S+)\n(.*?)^end$", text, re.MULTILINE | re.DOTALL)
    modules = dict(found)
    assert len(modules) == len(found), [name for name, _ in found]
    return modules


def units_of(text: str) -> dict[str, str]:
    """The module of every unit in a row, by the unit's name."""
    cells = re.findall(r"^  cell \\(\S+) \\(unit_\d+)$", modules_of(text)["top"], re.MULTILINE)
    return {unit: module for module, unit in cells}


def added(module: str) -> int:
    """The constant that a unit's module adds."""
    (number,) = re.findall(r"connect \\B \d+'([01]+)", module)
    return int(number, 2)


def test_equal_units_share_a_module() -> None:
    text = UnitLibrary().rtlil(Row([(AddOne(), (4,)) for _ in range(3)]))
    assert set(modules_of(text)) == {"top", "add_one"}
    assert units_of(text) == {"unit_0": "add_one", "unit_1": "add_one", "unit_2": "add_one"}


def test_different_keys_have_different_modules() -> None:
    text = UnitLibrary().rtlil(Row([(AddOne(w), (w,)) for w in (4, 5, 4, 6)]))
    assert [*units_of(text).values()] == ["add_one", "add_one_1", "add_one", "add_one_2"]
    widths = {
        name: int(re.findall(r"wire width (\d+) input \d+ +\\i$", module, re.MULTILINE)[0])
        for name, module in modules_of(text).items()
        if name != "top"
    }
    assert widths == {"add_one": 4, "add_one_1": 5, "add_one_2": 6}


def test_different_classes_under_equal_keys_have_different_modules() -> None:
    text = UnitLibrary().rtlil(Row([(AddOne(), (4,)), (AddTwo(), (4,)), (AddOne(), (4,))]))
    assert [*units_of(text).values()] == ["add_one", "add_two", "add_one"]
    modules = modules_of(text)
    assert (added(modules["add_one"]), added(modules["add_two"])) == (1, 2)


def test_classes_of_one_name_have_different_modules() -> None:
    other = type("AddOne", (AddOne,), {"amount": 3})
    named_top = type("Top", (AddOne,), {"amount": 5})
    text = UnitLibrary().rtlil(Row([(AddOne(), ()), (other(), ()), (named_top(), ())]))
    assert [*units_of(text).values()] == ["add_one", "add_one_1", "top_1"]
    modules = modules_of(text)
    assert [added(modules[name]) for name in units_of(text).values()] == [1, 3, 5]


def test_different_ports_under_one_key_are_refused() -> None:
    text = "^Two units AddOne with different ports were placed under one key$"
    with pytest.raises(ValueError, match=text):
        UnitLibrary().rtlil(Row([(AddOne(4), ()), (AddOne(5), ())]))


def test_a_unit_is_itself_in_simulation() -> None:
    unit = AddOne()
    assert place(unit, None, 4) is unit
    assert rtlil.convert(unit).count("module") == 1


class CheckedLibrary(UnitLibrary):
    """Compares every placed unit with the module that will stand for it."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, set[str]] = {}

    def instance(self, unit: wiring.Component, key: tuple[Any, ...]) -> Any:
        placed = super().instance(unit, key)
        alone = rtlil.convert(unit, name="unit", platform=UnitLibrary(), emit_src=False)
        self.texts.setdefault(placed.type, set()).add(alone)
        return placed


@pytest.mark.parametrize(
    "options",
    [
        {"merge": "tree"},
        {"merge": "ring"},
        {"merge": "fsm_tree", "flow": "broadcast"},
        {"comparators": 2, "lanes": 2, "storage": "memory", "fan_in": 2},
    ],
)
def test_keys_tell_all_that_a_unit_depends_on(options: dict[str, Any]) -> None:
    """Every unit of a real design is, gate by gate, what the module in its place is."""
    library = CheckedLibrary()
    pair = join_pair(QUERY.body)
    library.rtlil(HandshakeJoin(pair, rows_left=13, rows_right=11, cores=6, **options))
    assert len(library.texts) > 1
    assert {name: len(texts) for name, texts in library.texts.items() if len(texts) > 1} == {}


def shares(rows: int, cores: int) -> list[int]:
    """Rows of each core: dealt out one by one, from the first core on."""
    dealt = [0] * cores
    for row in range(rows):
        dealt[row % cores] += 1
    return dealt


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_a_core_is_written_once_for_each_shape(cores, tmp_path):
    generate(plan(QUERY, "handshake", {"cores": cores}), tmp_path)
    text = (tmp_path / "top.v").read_text()
    modules = re.findall(r"^module (join_core\w*)\(", text, re.MULTILINE)
    instances = re.findall(r"^  (join_core\w*) core_(\d+) \($", text, re.MULTILINE)
    shapes = list(zip(shares(ROWS_LEFT, cores), shares(ROWS_RIGHT, cores), strict=True))
    assert len(modules) == len(set(modules)) == len(set(shapes))
    assert sorted(int(number) for _, number in instances) == list(range(cores))
    # Cores share a module exactly where they share a shape.
    module_of = {int(number): module for module, number in instances}
    assert len({(module_of[k], shapes[k]) for k in range(cores)}) == len(modules)
    assert set(module_of.values()) == set(modules)
