"""Channels of memory as ports of a core: what a memory controller is attached to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib.wiring import In, Member, Out

from ..mlq.ports import MemoryChannel, MemoryPort

__all__ = ["MemoryPins"]


@dataclass(frozen=True)
class MemoryPins:
    """One channel of a memory, whose ports all begin with ``name``.

    A request has a port for each of its fields, so that who attaches a controller needs to know of
    no bit offsets; ``MemoryPort`` says what they mean.
    """

    channel: MemoryChannel

    @property
    def name(self) -> str:
        return f"{self.channel.name}_{self.channel.number}"

    @property
    def port(self) -> MemoryPort:
        return self.channel.port

    @property
    def fields(self) -> dict[str, int]:
        """The fields of a request, and their bits."""
        return {name: field.width for name, field in self.port.request_layout}

    def members(self) -> dict[str, Member]:
        request = {f"request_{name}": Out(width) for name, width in self.fields.items()}
        found = {
            "request_valid": Out(1),
            "request_ready": In(1),
            **request,
            "response_valid": In(1),
            "response_ready": Out(1),
            "response_data": In(self.port.word * self.port.width),
        }
        return {f"{self.name}_{name}": member for name, member in found.items()}

    def connect(self, m: Module, core: Any, port: Any) -> None:
        """Lead ``port``, from the side that uses it, to the ports of ``core``."""
        wires = {name: getattr(core, name) for name in self.members()}
        self._join(m, wires, port, out=True)

    def attach(self, m: Module, wires: Mapping[str, Any], port: Any) -> None:
        """Attach a memory by ``port`` to the wires that have the names of the ports."""
        self._join(m, wires, port, out=False)

    def _join(self, m: Module, wires: Mapping[str, Any], port: Any, *, out: bool) -> None:
        request, response = port.request, port.response
        pairs = {
            "request_valid": request.valid,
            "request_ready": request.ready,
            **{f"request_{name}": Value.cast(request.payload[name]) for name in self.fields},
            "response_valid": response.valid,
            "response_ready": response.ready,
            "response_data": response.payload,
        }
        for name, member in self.members().items():
            wire, mine = wires[name], pairs[name.removeprefix(f"{self.name}_")]
            m.d.comb += wire.eq(mine) if (member.flow is Out) == out else mine.eq(wire)

    def describe(self) -> dict[str, Any]:
        """An entry of ``memories`` in ``top.json``."""
        return {
            "name": self.name,
            "level": self.channel.level,
            "channel": self.channel.number,
            "lines": self.port.lines,
            "values_per_word": self.port.word,
            "bits_per_value": self.port.width,
            "burst": self.port.burst,
            "duplex": self.channel.duplex,
        }
