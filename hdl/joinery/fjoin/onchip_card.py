# amaranth: UnusedElaboratable=no
# (a card is described without being built, or refused when half made)
"""A card with its memory: block RAM, which a host reads and writes as it does registers."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from ..axi.shell import RegisterShell, register_ports
from .bus import AXI4, INCREASING, connect_slave
from .card import FJoinCard
from .onchip import SLVERR, OnChipMemory

__all__ = ["OnChipCard"]

WORD = 4  # bytes of a register, and of an access to memory
BITS = 8 * WORD


class OnChipCard(RegisterShell):
    """A card whose pipelines share a block RAM, where a chip has no other memory for them.

    The upper half of the addresses is the memory, which begins at ``base``. Accesses are made one
    at a time each way; one past the end of the registers or of the memory is answered with SLVERR.

    Throughput: that of the card, as far as one word per cycle for all pipelines allows.

    Parameters
    ----------
    card : FJoinCard
    memory_bytes : int
        Whole words of the card's bus.

    Members
    -------
    s_axil_* : AXI4-Lite
    running : Out(pipelines)
        As for the card.
    """

    running: Signal

    def __init__(self, card: FJoinCard, *, memory_bytes: int) -> None:
        self.card = card
        self.memory = OnChipMemory(
            masters=len(card.pipelines) + 1,
            memory_bytes=memory_bytes,
            word_bytes=card.word_bytes,
            address_bits=card.address_bits,
        )
        self.memory_bytes = memory_bytes
        self.registers, self.errors = card.registers, card.errors
        bits = max(card.bank.address_width, (memory_bytes - 1).bit_length())
        self.base = 1 << bits
        wider = {f"s_axil_{name}": In(bits + 1) for name in ("awaddr", "araddr")}
        running = Out(len(card.pipelines))
        super().__init__({**register_ports(card.bank), **wider, "running": running})

    @property
    def predicted(self) -> dict[str, Any]:
        return self.card.predicted

    def describe(self) -> dict[str, Any]:
        """Say what the card says, and where the memory is."""
        memory = {"address": self.base, "bytes": self.memory_bytes}
        return {**self.card.describe(), "memory": memory}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.card = card = self.card
        m.submodules.block_ram = memory = self.memory
        host = len(card.pipelines)
        for k in range(host):
            connect_slave(m, card, f"m_axi_{k}_", memory, f"s_axi_{k}_")
        m.d.comb += self.running.eq(card.running)
        port = {name: getattr(memory, f"s_axi_{host}_{name}") for name in AXI4}
        size = memory.shift
        for channel in ("ar", "aw"):
            told = {"len": 0, "size": size, "burst": INCREASING}
            m.d.comb += [port[f"{channel}{name}"].eq(value) for name, value in told.items()]
        self._write(m, port)
        self._read(m, port)
        return m

    def _write(self, m: Module, port: dict[str, Any]) -> None:
        """Writes of the host: to registers, or a burst of one word of which a part is written."""
        host = self._lite
        card: Any = self.card
        address, value = Signal.like(host("awaddr")), Signal(BITS)
        strobe = Signal(WORD)
        parts = self.card.word_bytes // WORD
        part = address[WORD.bit_length() - 1 : self.memory.shift]
        m.d.comb += [
            card.s_axil_awaddr.eq(address),
            card.s_axil_wdata.eq(value),
            card.s_axil_wstrb.eq(strobe),
            port["awaddr"].eq(address[:-1]),
            port["wdata"].eq(value.replicate(parts)),
            port["wstrb"].word_select(part, WORD).eq(strobe),
            port["wlast"].eq(1),
        ]
        with m.FSM(name="host_write"):
            with m.State("rest"):
                taken = host("awvalid") & host("wvalid")
                m.d.comb += [host("awready").eq(taken), host("wready").eq(taken)]
                m.d.sync += [
                    address.eq(host("awaddr")),
                    value.eq(host("wdata")),
                    strobe.eq(host("wstrb")),
                ]
                m.d.sync += host("bresp").eq(SLVERR)
                with m.If(taken):
                    with m.If(host("awaddr")[-1]):
                        m.next = "burst"
                    with m.Elif(self._beyond(host("awaddr"))):
                        m.next = "answer"
                    with m.Else():
                        m.next = "register"
            with m.State("register"):
                # Registers take both halves of a write at once.
                m.d.comb += [card.s_axil_awvalid.eq(1), card.s_axil_wvalid.eq(1)]
                with m.If(card.s_axil_awready):
                    m.next = "register written"
            with m.State("register written"):
                m.d.comb += card.s_axil_bready.eq(1)
                m.d.sync += host("bresp").eq(card.s_axil_bresp)
                with m.If(card.s_axil_bvalid):
                    m.next = "answer"
            with m.State("burst"):
                m.d.comb += port["awvalid"].eq(1)
                with m.If(port["awready"]):
                    m.next = "word"
            with m.State("word"):
                m.d.comb += port["wvalid"].eq(1)
                with m.If(port["wready"]):
                    m.next = "word written"
            with m.State("word written"):
                m.d.comb += port["bready"].eq(1)
                m.d.sync += host("bresp").eq(port["bresp"])
                with m.If(port["bvalid"]):
                    m.next = "answer"
            with m.State("answer"):
                m.d.comb += host("bvalid").eq(1)
                with m.If(host("bready")):
                    m.next = "rest"

    def _read(self, m: Module, port: dict[str, Any]) -> None:
        """Reads of the host: of registers, or of a part of a word of memory."""
        host = self._lite
        card: Any = self.card
        address = Signal.like(host("araddr"))
        part = address[WORD.bit_length() - 1 : self.memory.shift]
        m.d.comb += [card.s_axil_araddr.eq(address), port["araddr"].eq(address[:-1])]
        with m.FSM(name="host_read"):
            with m.State("rest"):
                m.d.comb += host("arready").eq(1)
                m.d.sync += address.eq(host("araddr"))
                m.d.sync += host("rresp").eq(SLVERR)
                with m.If(host("arvalid")):
                    with m.If(host("araddr")[-1]):
                        m.next = "burst"
                    with m.Elif(self._beyond(host("araddr"))):
                        m.next = "answer"
                    with m.Else():
                        m.next = "register"
            with m.State("register"):
                m.d.comb += card.s_axil_arvalid.eq(1)
                with m.If(card.s_axil_arready):
                    m.next = "register read"
            with m.State("register read"):
                m.d.comb += card.s_axil_rready.eq(1)
                m.d.sync += [
                    host("rdata").eq(card.s_axil_rdata),
                    host("rresp").eq(card.s_axil_rresp),
                ]
                with m.If(card.s_axil_rvalid):
                    m.next = "answer"
            with m.State("burst"):
                m.d.comb += port["arvalid"].eq(1)
                with m.If(port["arready"]):
                    m.next = "word"
            with m.State("word"):
                m.d.comb += port["rready"].eq(1)
                m.d.sync += [
                    host("rdata").eq(port["rdata"].word_select(part, BITS)),
                    host("rresp").eq(port["rresp"]),
                ]
                with m.If(port["rvalid"]):
                    m.next = "answer"
            with m.State("answer"):
                m.d.comb += host("rvalid").eq(1)
                with m.If(host("rready")):
                    m.next = "rest"

    def _beyond(self, address: Any) -> Any:
        """Is this above the registers, and below the memory?"""
        return address[self.card.bank.address_width : -1].any()

    def _lite(self, name: str) -> Any:
        """This signal of the host's."""
        return getattr(self, f"s_axil_{name}")
