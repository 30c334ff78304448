"""A core with simulated memories at its ports, which has only the ports of any other core."""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from joinery.axi import MemoryPins, Shell
from joinery.mlq import TimedMemory

__all__ = ["SimulatedTop"]


class SimulatedTop(wiring.Component):
    """The module ``top`` with a `TimedMemory` for each channel of memory that it leaves outside.

    Parameters
    ----------
    shell : Shell
        What ``top`` was written from.
    memories : sequence of (MemoryPins, mapping)
        Each channel, and the timing that its `TimedMemory` has.

    Members
    -------
    Those of the shell, but for the channels.
    """

    def __init__(
        self, shell: Shell, memories: Sequence[tuple[MemoryPins, Mapping[str, Any]]]
    ) -> None:
        self.memories = memories
        self.core = dict(shell.signature.members.items())
        inner = {name for pins, _ in memories for name in pins.members()}
        super().__init__({name: each for name, each in self.core.items() if name not in inner})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wires: dict[str, Any] = {
            name: getattr(self, name) if name in self.signature.members else Signal(each.shape,
                                                                                    name=name)
            for name, each in self.core.items()
        }  # fmt: skip
        ports = {
            f"{'i' if each.flow is In else 'o'}_{name}": wires[name]
            for name, each in self.core.items()
        }
        m.submodules.top = Instance("top", i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)
        for pins, timing in self.memories:
            memory = TimedMemory(
                lines=pins.port.lines,
                word=pins.port.word,
                width=pins.port.width,
                burst=pins.port.burst,
                **timing,
            )
            m.submodules[pins.name] = memory
            pins.attach(m, wires, memory.port)
        return m
