"""What every generated top has, whatever its ports: an identity, registers, a description."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Member

from ..registers import AxiLiteRegisters, Register, Row
from ..tuples import Schema
from .memory import MemoryPins

__all__ = [
    "Identity",
    "RegisterShell",
    "Shell",
    "connect_registers",
    "describe_fields",
    "register_ports",
]

LETTERS = int.from_bytes(b"JNRY", "big")


@dataclass(frozen=True)
class Identity:
    """What a core says of itself: version and query hash as numbers, and how it was built."""

    version: int
    query_hash: int
    parameters: tuple[tuple[str, int], ...] = ()

    def rows(self, errors: Sequence[str]) -> list[Row]:
        """The registers that every core begins with; ``errors`` are the meanings of its bits."""
        flags = "; ".join(f"bit {bit}: {text}" for bit, text in enumerate(errors))
        low, high = self.query_hash & 0xFFFFFFFF, self.query_hash >> 32
        return [
            ("identity", "ro", "The letters JNRY", LETTERS),
            ("version", "ro", "Joinery's version, a byte each for major, minor and patch",
             self.version),
            ("query_hash_lo", "ro", "Low half of the query's hash", low),
            ("query_hash_hi", "ro", "High half of the query's hash", high),
            ("control", "pulse", "Write 1 to set counters and errors to zero; reads as 0", 0),
            ("errors", "ro", f"What may have cost results, until control is written: {flags}", 0),
            *((name, "ro", f"Parameter {name}", value) for name, value in self.parameters),
        ]  # fmt: skip


class Shell(wiring.Component):
    """The top of a generated design.

    ``registers`` is its register map, ``domains`` the clocks it runs on, the first of which is
    ``sync``, and ``errors`` says what each bit of the register ``errors`` means. ``memories`` are
    the channels of memory that it has as ports.
    """

    registers: Sequence[Register]
    errors: Sequence[str]
    domains: tuple[str, ...] = ("sync",)
    memories: Sequence[MemoryPins] = ()

    @property
    @abstractmethod
    def predicted(self) -> dict[str, Any]:
        """Cycles and resources as they are known before anything runs."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """How data goes in and out, as entries of ``top.json``."""


class RegisterShell(Shell):
    """A top without streams: all that a host has to tell and to ask goes over AXI4-Lite.

    Members
    -------
    s_axil_* : AXI4-Lite
    running : Out
        A bit for each part that is at work.
    """

    running: Signal


def register_ports(bank: AxiLiteRegisters) -> dict[str, Member]:
    """Return the ports of a top for its registers, ``s_axil_*``."""
    return {f"s_axil_{name}": bank.signature.members[name] for name in bank.AXI}


def connect_registers(m: Module, shell: wiring.Component, bank: AxiLiteRegisters) -> None:
    """Connect the ports of ``register_ports`` to ``bank``, a submodule of ``shell``."""
    for name in bank.AXI:
        inside, outside = getattr(bank, name), getattr(shell, f"s_axil_{name}")
        into = bank.signature.members[name].flow is In
        m.d.comb += inside.eq(outside) if into else outside.eq(inside)


def describe_fields(
    layout: StructLayout, columns: Schema | Mapping[str, Any], *, base: int = 0, **more: str
) -> list[dict[str, Any]]:
    """Say where each of ``columns`` lies in ``layout``, which itself begins at bit ``base``."""
    named: Iterable[tuple[str, Any]] = (
        ((field.name, field.type) for field in columns)
        if isinstance(columns, Schema)
        else columns.items()
    )
    return [
        {
            **more,
            "column": name,
            "offset": base + layout[name].offset,
            "width": kind.width,
            "signed": kind.shape.signed,
            "type": kind.sql,
        }
        for name, kind in named
    ]
