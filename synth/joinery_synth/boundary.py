"""Registers around a design with more ports than a chip has pins."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Boundary"]


class Boundary(wiring.Component):
    """A design between registers, behind one pin for its inputs and one for its outputs.

    Every input comes from a register of a chain through which ``i`` is shifted; every output goes
    to a register, and all of these are folded into ``o``, four to one, with a register behind each.
    So no path leads through a pin, none of the design is optimised away, and the registers around
    it never are the slowest part.

    Parameters
    ----------
    design : wiring.Component
        Its members are plain ports.

    Members
    -------
    i : In(1)
    o : Out(1)
    """

    i: Signal
    o: Signal

    FOLD = 4

    def __init__(self, design: Any) -> None:
        self.design = design
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.design = self.design
        ports = list(self.design.signature.flatten(self.design))
        inputs = [Value.cast(value) for _, member, value in ports if member.flow is In]
        outputs = [Value.cast(value) for _, member, value in ports if member.flow is Out]
        given = Cat(inputs)
        chain = Signal(len(given), reset_less=True)
        m.d.sync += chain.eq(Cat(self.i, chain))
        m.d.comb += given.eq(chain)

        taken: Value = Cat(outputs)
        level = 0
        while True:
            held = Signal(len(taken), name=f"held_{level}", reset_less=True)
            m.d.sync += held.eq(taken)
            if len(held) == 1:
                break
            taken = Cat(held[k : k + self.FOLD].xor() for k in range(0, len(held), self.FOLD))
            level += 1
        m.d.comb += self.o.eq(held)
        return m
