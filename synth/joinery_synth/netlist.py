"""A design as Yosys reads it, and the tree of its modules."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from joinery.units import UnitLibrary

__all__ = ["Netlist"]

MODULE = re.compile(r"^module \\(\S+)$")
CELL = re.compile(r"^  cell \\(\S+) \\(\S+)$")


@dataclass(frozen=True)
class Netlist:
    """RTLIL of a design whose top module is ``top``."""

    text: str

    @classmethod
    def of(cls, component: Any) -> "Netlist":
        """Write a component; repeated units are modules of their own."""
        return cls(UnitLibrary().rtlil(component))

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def modules(self) -> dict[str, dict[str, str]]:
        """For every module, its submodules: name of the instance to name of the module."""
        found: dict[str, dict[str, str]] = {}
        inside: dict[str, str] = {}
        for line in self.text.splitlines():
            if module := MODULE.match(line):
                inside = found.setdefault(module[1], {})
            elif cell := CELL.match(line):
                inside[cell[2]] = cell[1]
        return {
            module: {name: kind for name, kind in cells.items() if kind in found}
            for module, cells in found.items()
        }

    def blocks(self, depth: int = 2) -> list[str]:
        """The modules that have instances at most ``depth`` levels below the top."""
        names: dict[str, None] = {}

        def visit(module: str, left: int) -> None:
            for kind in self.modules[module].values():
                names[kind] = None
                if left > 1:
                    visit(kind, left - 1)

        visit("top", depth)
        return list(names)

    def repeated(self) -> list[str]:
        """The outermost modules of which a module has several instances."""
        names: dict[str, None] = {}

        def visit(module: str) -> None:
            inside = list(self.modules[module].values())
            for kind in dict.fromkeys(inside):
                if inside.count(kind) > 1:
                    names[kind] = None
                else:
                    visit(kind)

        visit("top")
        return list(names)

    def instances(self, module: str = "top", path: str = "") -> Iterator[tuple[str, str]]:
        """Path and module of every instance below ``module``, in depth-first order."""
        for name, kind in self.modules[module].items():
            here = f"{path}.{name}" if path else name
            yield here, kind
            yield from self.instances(kind, here)
