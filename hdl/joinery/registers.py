"""Registers behind AXI4-Lite: what every generated core shows to a host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["AxiLiteRegisters", "Register", "counter_rows", "lay_out"]


@dataclass(frozen=True)
class Register:
    """One 32-bit register as a host sees it.

    ``access`` is ``ro``; ``rw``: it holds what was written; or ``pulse``: a write acts once, and it
    reads as 0.
    """

    name: str
    address: int
    access: str
    description: str
    reset: int


Row = tuple[str, str, str, int]
"""A register that has no address yet: name, access, description, reset value."""


def lay_out(rows: Sequence[Row]) -> list[Register]:
    """Give registers their addresses, in order."""
    return [Register(row[0], 4 * k, *row[1:]) for k, row in enumerate(rows)]


def counter_rows(counters: Mapping[str, str]) -> list[Row]:
    """Two registers for each counter of 64 bits, by name and description."""
    rows: list[Row] = []
    for name, description in counters.items():
        rows.append((f"{name}_lo", "ro", f"{description}; reading holds the high half", 0))
        rows.append((f"{name}_hi", "ro", f"High half, as it was when {name}_lo was read", 0))
    return rows


class AxiLiteRegisters(wiring.Component):
    """Registers behind AXI4-Lite, one access at a time.

    A write to a read-only register and any access outside the map answer SLVERR. A write without
    all of its byte strobes changes only those bytes. Bit 0 of ``control`` sets counters and errors
    to zero.

    Parameters
    ----------
    registers : sequence of Register
    counters : mapping of str to int
        Bits of what is added to each counter in a cycle.
    errors : int
        Bits of the register ``errors``, each of which stays set.
    live : mapping of str to int
        Read-only registers that show an input, and its bits.

    Members
    -------
    count_*, live_* : In
    count_errors : In(errors)
    set_* : Out(32)
        What an ``rw`` register holds.
    pulse_* : Out(32)
        What was written to a ``pulse`` register, for one cycle; else 0.
    awaddr ... rready : AXI4-Lite
    """

    AXI = (
        "awaddr", "awprot", "awvalid", "awready", "wdata", "wstrb", "wvalid", "wready", "bresp",
        "bvalid", "bready", "araddr", "arprot", "arvalid", "arready", "rdata", "rresp", "rvalid",
        "rready",
    )  # fmt: skip
    """The members that are the bus."""

    count_errors: Signal
    pulse_control: Signal
    awaddr: Signal
    awvalid: Signal
    awready: Signal
    wdata: Signal
    wstrb: Signal
    wvalid: Signal
    wready: Signal
    bresp: Signal
    bvalid: Signal
    bready: Signal
    araddr: Signal
    arvalid: Signal
    arready: Signal
    rdata: Signal
    rresp: Signal
    rvalid: Signal
    rready: Signal

    def __init__(
        self,
        registers: Sequence[Register],
        counters: Mapping[str, int],
        *,
        errors: int,
        live: Mapping[str, int] | None = None,
    ) -> None:
        self.registers = registers
        self.counters = dict(counters)
        self.live = dict(live or {})
        self.address_width = max(4, (4 * len(registers) - 1).bit_length())
        stems = {"rw": "set", "pulse": "pulse"}
        super().__init__(
            {
                **{f"count_{name}": In(bits) for name, bits in counters.items()},
                **{f"live_{name}": In(bits) for name, bits in self.live.items()},
                **{
                    f"{stems[each.access]}_{each.name}": Out(32, init=each.reset)  # type: ignore[call-arg] # not in the stubs
                    for each in registers
                    if each.access in stems
                },
                "count_errors": In(errors),
                "awaddr": In(self.address_width),
                "awprot": In(3),
                "awvalid": In(1),
                "awready": Out(1),
                "wdata": In(32),
                "wstrb": In(4),
                "wvalid": In(1),
                "wready": Out(1),
                "bresp": Out(2),
                "bvalid": Out(1),
                "bready": In(1),
                "araddr": In(self.address_width),
                "arprot": In(3),
                "arvalid": In(1),
                "arready": Out(1),
                "rdata": Out(32),
                "rresp": Out(2),
                "rvalid": Out(1),
                "rready": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        zero, high = Signal(), Signal(32)
        m.d.comb += zero.eq(self.pulse_control[0])
        counted, errors = Signal.like(self.count_errors), Signal.like(self.count_errors)
        m.d.sync += [
            counted.eq(self.count_errors),
            errors.eq(Mux(zero, 0, errors | counted)),
        ]
        counts = {name: Signal(64, name=name) for name in self.counters}
        for name, count in counts.items():
            step = Signal(self.counters[name], name=f"{name}_step")
            m.d.sync += [
                step.eq(getattr(self, f"count_{name}")),
                count.eq(Mux(zero, 0, count + step)),
            ]

        # A write is held in registers for the cycle in which it takes effect, a read for that in
        # which its register is looked up.
        writing, reading = Signal(), Signal()
        into = Signal(self.address_width - 2)
        of = Signal(len(self.registers))  # a bit for each, for a short way to what is read
        self._data, self._strobe = Signal(32, name="data"), Signal(4, name="strobe")
        m.d.comb += [
            self.awready.eq(self.awvalid & self.wvalid & ~self.bvalid & ~writing),
            self.wready.eq(self.awready),
            self.arready.eq(~self.rvalid & ~reading),
        ]
        m.d.sync += [
            writing.eq(self.awready),
            into.eq(self.awaddr[2:]),
            self._data.eq(self.wdata),
            self._strobe.eq(self.wstrb),
            reading.eq(self.arvalid & self.arready),
            of.eq(Cat(self.araddr[2:] == each.address // 4 for each in self.registers)),
        ]
        for register in self.registers:
            if register.access == "pulse":
                m.d.sync += getattr(self, f"pulse_{register.name}").eq(0)
        with m.If(self.bready):
            m.d.sync += self.bvalid.eq(0)
        with m.If(writing):
            m.d.sync += [self.bvalid.eq(1), self.bresp.eq(0b10)]
            with m.Switch(into):
                for register in self.registers:
                    if register.access != "ro":
                        with m.Case(register.address // 4):
                            m.d.sync += self.bresp.eq(0)
                            self._write(m, register)

        with m.If(self.rready):
            m.d.sync += self.rvalid.eq(0)
        with m.If(reading):
            m.d.sync += [self.rvalid.eq(1), self.rresp.eq(Mux(of.any(), 0, 0b10))]
            read: list[Value] = []
            held: list[Value] = []
            holds: list[Value] = []
            for chosen, register in zip(of, self.registers, strict=True):
                stem, _, half = register.name.rpartition("_")
                value: Value = Const(register.reset, 32)
                if stem in counts and half == "lo":
                    value = counts[stem][:32]
                    held.append(Mux(chosen, counts[stem][32:], 0))
                    holds.append(chosen)
                elif register.access == "rw":
                    value = getattr(self, f"set_{register.name}")
                elif register.name in self.live:
                    value = getattr(self, f"live_{register.name}")
                elif register.name == "errors":
                    value = errors
                elif stem in counts:
                    value = high
                read.append(Mux(chosen, value, 0))
            m.d.sync += self.rdata.eq(reduce(or_, read))
            with m.If(Cat(holds).any()):
                m.d.sync += high.eq(reduce(or_, held, Const(0)))
        return m

    def _write(self, m: Module, register: Register) -> None:
        """Do what the accepted write means for ``register``."""
        for byte in range(4):
            bits = slice(8 * byte, 8 * byte + 8)
            with m.If(self._strobe[byte]):
                if register.access == "rw":
                    m.d.sync += getattr(self, f"set_{register.name}")[bits].eq(self._data[bits])
                else:
                    m.d.sync += getattr(self, f"pulse_{register.name}")[bits].eq(self._data[bits])
