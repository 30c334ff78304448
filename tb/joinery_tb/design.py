"""A generated design as the benches see it: ``top.v``, and ``top.json`` which explains it."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from joinery_gen.query import JoineryError

__all__ = ["Design", "DesignError"]


class DesignError(JoineryError):
    """The design does what no design may do: a check that failed, not an input that is wrong."""


@dataclass(frozen=True)
class Design:
    """The folder that ``joinery gen`` wrote.

    ``top`` is the content of ``top.json``, the only source of offsets, widths and addresses.
    """

    directory: Path

    def __init__(self, directory: str | Path) -> None:
        object.__setattr__(self, "directory", Path(directory))
        for name in ("top.v", "top.json"):
            if not (self.directory / name).is_file():
                raise JoineryError(
                    f"{self.directory} holds no {name}; write one with: "
                    f"joinery gen QUERY -o {self.directory}"
                )

    @cached_property
    def top(self) -> dict[str, Any]:
        path = self.directory / "top.json"
        try:
            top = json.loads(path.read_text())
        except ValueError as error:
            raise JoineryError(f"{path} is not valid JSON: {error}") from None
        assert isinstance(top, dict)
        return top

    @property
    def verilog(self) -> Path:
        return self.directory / "top.v"

    @property
    def sources(self) -> list[Path]:
        """What a simulator reads: the design, and the memories around it, where there are any."""
        more = self.top.get("simulation")
        return [self.verilog, *([self.directory / more["file"]] if more else [])]

    @property
    def simulated_module(self) -> str:
        """The module that a simulator takes: ``top``, or one that puts memories around it."""
        return str(self.top.get("simulation", self.top).get("module", "top"))

    def bytes_of(self, side: str) -> int:
        """Bytes of ``tdata`` on the ``input`` side, or of one lane of it on the ``output`` side."""
        return int(self.top[side]["bytes"])

    @property
    def lanes(self) -> int:
        """Lanes of the output: the rows that one transfer can carry."""
        return int(self.top["output"].get("lanes", 1))

    @property
    def has_merge_clock(self) -> bool:
        """Whether a second clock must be driven, ``merge_clk``."""
        return any(clock["name"] == "merge" for clock in self.top.get("clocks", ()))

    def port_width(self, name: str) -> int:
        return next(int(port["width"]) for port in self.top["ports"] if port["name"] == name)

    @property
    def registers(self) -> dict[str, int]:
        """Address of every register by name."""
        return {entry["name"]: int(entry["address"]) for entry in self.top["registers"]}
