"""AXI4 as a card speaks it: the signals of a master, and how its bursts are told."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["AXI4", "axi4_members", "connect_address", "connect_master", "connect_slave"]

AXI4: dict[str, tuple[Any, Any]] = {
    "awid": (Out, 1), "awaddr": (Out, "address"), "awlen": (Out, 8), "awsize": (Out, 3),
    "awburst": (Out, 2), "awcache": (Out, 4), "awprot": (Out, 3), "awvalid": (Out, 1),
    "awready": (In, 1), "wdata": (Out, "data"), "wstrb": (Out, "strobe"), "wlast": (Out, 1),
    "wvalid": (Out, 1), "wready": (In, 1), "bid": (In, 1), "bresp": (In, 2), "bvalid": (In, 1),
    "bready": (Out, 1), "arid": (Out, 1), "araddr": (Out, "address"), "arlen": (Out, 8),
    "arsize": (Out, 3), "arburst": (Out, 2), "arcache": (Out, 4), "arprot": (Out, 3),
    "arvalid": (Out, 1), "arready": (In, 1), "rid": (In, 1), "rdata": (In, "data"),
    "rresp": (In, 2), "rlast": (In, 1), "rvalid": (In, 1), "rready": (Out, 1),
}  # fmt: skip
"""The signals of an AXI4 master, their flow and width; addresses have as many bits as asked for."""

INCREASING, BUFFERABLE = 0b01, 0b0011


def axi4_members(address_bits: int, word_bytes: int, *, slave: bool = False) -> dict[str, Any]:
    """Return the members of an AXI4 master, or of what is asked by one."""
    widths: dict[Any, int] = {
        "address": address_bits, "data": 8 * word_bytes, "strobe": word_bytes
    }  # fmt: skip
    members = {name: flow(widths.get(width, width)) for name, (flow, width) in AXI4.items()}
    return {name: member.flip() for name, member in members.items()} if slave else members


def connect_address(
    m: Module, master: wiring.Component, channel: str, burst: Any, *, shift: int
) -> None:
    """Tell a burst on the channel ``ar`` or ``aw``; a word has ``2**shift`` bytes."""
    told = {
        "addr": burst.address << shift, "len": burst.last, "size": shift, "burst": INCREASING,
        "cache": BUFFERABLE, "prot": 0,
    }  # fmt: skip
    m.d.comb += [getattr(master, f"{channel}{name}").eq(value) for name, value in told.items()]


def connect_master(
    m: Module, outside: wiring.Component, prefix: str, inside: wiring.Component
) -> None:
    """Connect the ports ``prefix...`` of ``outside`` with the master that ``inside`` is."""
    for name, (flow, _) in AXI4.items():
        outer, inner = getattr(outside, f"{prefix}{name}"), getattr(inside, name)
        m.d.comb += inner.eq(outer) if flow is In else outer.eq(inner)


def connect_slave(
    m: Module, master: wiring.Component, prefix: str, slave: wiring.Component, slave_prefix: str
) -> None:
    """Connect the ports ``prefix...`` of a master with those of who answers it."""
    for name, (flow, _) in AXI4.items():
        asks, answers = getattr(master, f"{prefix}{name}"), getattr(slave, f"{slave_prefix}{name}")
        m.d.comb += asks.eq(answers) if flow is In else answers.eq(asks)
