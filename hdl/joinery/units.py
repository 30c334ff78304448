"""Repeated units: elaborated once, instantiated many times.

Amaranth writes a module of its own for every submodule, equal or not. Where a design repeats a
unit, its parent says ``m.submodules.core_3 = place(core, platform)``. In simulation that is the
component itself. Under a ``UnitLibrary`` (the platform used to write Verilog) it becomes an
instance of one shared module, so that a thousand units take as long to write as one.
"""

import re
from collections.abc import Sequence
from itertools import count
from typing import Any

from amaranth.back import rtlil  # type: ignore[attr-defined] # not in the stubs
from amaranth.hdl import ClockSignal, Elaboratable, Instance, ResetSignal, Value, ValueLike
from amaranth.lib import wiring

__all__ = ["UnitLibrary", "place"]


class UnitLibrary:
    """Collects the units that a design places, and writes each of them once."""

    def __init__(self) -> None:
        self._units: dict[tuple[Any, ...], tuple[str, wiring.Component]] = {}
        self._todo: list[tuple[str, wiring.Component]] = []
        self._names: set[str] = set()

    def instance(
        self,
        unit: wiring.Component,
        key: tuple[Any, ...],
        *,
        reset: ValueLike = 0,
        domains: Sequence[str] = (),
    ) -> Instance:
        """Return an instance of the module that stands for every unit with this key.

        ``reset`` resets it too, beside the reset of where it is placed. Its other clocks, those of
        ``domains``, are the same as the one it is placed in.
        """
        key = (type(unit), *key)
        if key not in self._units:
            self._units[key] = (self._new_name(type(unit).__name__), unit)
            self._todo.append(self._units[key])
        name, first = self._units[key]
        if unit.signature != first.signature:
            raise ValueError(
                f"Two units {type(unit).__name__} with different ports were placed under one key"
            )
        ports = {
            ("i_" if member.flow is wiring.In else "o_") + "__".join(map(str, path)): value
            for path, member, value in unit.signature.flatten(unit)
        }
        return Instance(
            name,
            i_clk=ClockSignal(),
            i_rst=ResetSignal() | reset,
            **{f"i_{domain}_clk": ClockSignal() for domain in domains},
            **{f"i_{domain}_rst": ResetSignal() | reset for domain in domains},
            **{port: Value.cast(value) for port, value in ports.items()},
        )

    def _new_name(self, class_name: str) -> str:
        stem = name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
        for number in count(1):
            if name not in self._names:
                break
            name = f"{stem}_{number}"
        self._names.add(name)
        return name

    def rtlil(self, top: wiring.Component, name: str = "top") -> str:
        """Return the RTLIL of ``top`` and of all the units in it."""
        self._names.add(name)
        texts = [rtlil.convert(top, name=name, platform=self, emit_src=False)]
        while self._todo:
            unit_name, unit = self._todo.pop(0)
            texts.append(rtlil.convert(unit, name=unit_name, platform=self, emit_src=False))
        return "\n".join(texts)


def place(
    unit: wiring.Component, platform: object, *key: Any, **more: Any
) -> Elaboratable | Instance:
    """Return ``unit``, or an instance of the shared module for it.

    ``key`` must hold everything that the unit's logic depends on, beside its class. ``more`` is for
    ``UnitLibrary.instance``.
    """
    if not isinstance(platform, UnitLibrary):
        return unit
    unit._MustUse__used = True  # type: ignore[attr-defined] # as the interface of an instance
    return platform.instance(unit, key, **more)
