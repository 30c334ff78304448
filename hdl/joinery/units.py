"""Repeated units: elaborated once, instantiated many times.

Amaranth writes a module of its own for every submodule, equal or not. Where a design repeats a
unit, its parent says ``m.submodules.core_3 = place(core, platform)``. In simulation that is the
component itself. Under a ``UnitLibrary`` (the platform used to write Verilog) it becomes an
instance of one shared module, so that a thousand units take as long to write as one.
"""

import re
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Elaboratable, Instance, ResetSignal, Value
from amaranth.lib import wiring

__all__ = ["UnitLibrary", "place"]


class UnitLibrary:
    """Collects the units that a design places, and writes each of them once."""

    def __init__(self) -> None:
        self._names: dict[tuple[Any, ...], str] = {}
        self._todo: list[tuple[str, wiring.Component]] = []

    def instance(self, unit: wiring.Component, key: tuple[Any, ...]) -> Instance:
        """Return an instance of the module that stands for every unit with this key."""
        key = (type(unit), *key)
        if key not in self._names:
            stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(unit).__name__).lower()
            taken = sum(known[0] is type(unit) for known in self._names)
            self._names[key] = f"{stem}_{taken}" if taken else stem
            self._todo.append((self._names[key], unit))
        ports = {
            ("i_" if member.flow is wiring.In else "o_") + "__".join(map(str, path)): value
            for path, member, value in unit.signature.flatten(unit)
        }
        return Instance(
            self._names[key],
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            **{name: Value.cast(value) for name, value in ports.items()},
        )

    def rtlil(self, top: wiring.Component, name: str = "top") -> str:
        """Return the RTLIL of ``top`` and of all the units in it."""
        texts = [rtlil.convert(top, name=name, platform=self, emit_src=False)]
        while self._todo:
            unit_name, unit = self._todo.pop(0)
            texts.append(rtlil.convert(unit, name=unit_name, platform=self, emit_src=False))
        return "\n".join(texts)


def place(unit: wiring.Component, platform: object, *key: Any) -> Elaboratable:
    """Return ``unit``, or an instance of the shared module for it.

    ``key`` must hold everything that the unit's logic depends on, beside its class.
    """
    if not isinstance(platform, UnitLibrary):
        return unit
    unit._MustUse__used = True  # type: ignore[attr-defined] # as the interface of an instance
    return platform.instance(unit, key)
