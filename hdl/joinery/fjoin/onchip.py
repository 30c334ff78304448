"""Block RAM for a card on a chip that has no other memory: AXI4 as `bus` has it, asked by many."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory

from ..stream import Arbiter, Buffer
from ..stream._check import require_positive
from .bus import axi4_members

__all__ = ["OnChipMemory", "check_memory"]

SLVERR = 0b10


def check_memory(memory_bytes: object, *, word_bytes: int, address_bits: int) -> None:
    """Raise ``ValueError`` unless a memory of this size goes with such a bus."""
    if not isinstance(memory_bytes, int) or memory_bytes < word_bytes or memory_bytes % word_bytes:
        raise ValueError(
            f"Memory on a chip has whole words of {word_bytes} bytes, not {memory_bytes!r} bytes"
        )
    if memory_bytes > 1 << address_bits:
        raise ValueError(
            f"Addresses of {address_bits} bits reach {1 << address_bits} bytes, not {memory_bytes}"
        )


class OnChipMemory(wiring.Component):
    """Words in block RAM, for several AXI4 masters.

    Masters take turns, a burst at a time; reads and writes go on side by side, and a word that is
    written while it is read gives either value. Bursts are of whole words at rising addresses. A
    word outside the memory is not written, reads as any, and makes the answer SLVERR.

    Latency: 3 cycles from ``arvalid`` to ``rvalid``. Throughput: a word per cycle each way, less
    one cycle for each burst that is read and two for each that is written.

    Parameters
    ----------
    masters : int
    memory_bytes : int
        Whole words.
    word_bytes, address_bits : int
        Width of the bus in bytes; bits of an address in bytes.

    Members
    -------
    s_axi_<k>_* : AXI4
        What master k asks.
    """

    def __init__(
        self, *, masters: int, memory_bytes: int, word_bytes: int, address_bits: int
    ) -> None:
        require_positive("Masters of a memory", masters)
        check_memory(memory_bytes, word_bytes=word_bytes, address_bits=address_bits)
        self.masters = masters
        self.words = memory_bytes // word_bytes
        self.word_bytes = word_bytes
        self.shift = (word_bytes - 1).bit_length()
        self.burst = data.StructLayout(
            {"master": range(masters), "id": 1, "word": address_bits - self.shift, "last": 8}
        )
        members = axi4_members(address_bits, word_bytes, slave=True)
        super().__init__(
            {
                f"s_axi_{k}_{name}": member
                for k in range(masters)
                for name, member in members.items()
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        memory: Any = Memory(shape=8 * self.word_bytes, depth=self.words, init=[])
        m.submodules.words = memory
        self._read(m, memory)
        self._write(m, memory)
        return m

    def _all(self, name: str) -> list[Any]:
        """This signal of every master."""
        return [getattr(self, f"s_axi_{k}_{name}") for k in range(self.masters)]

    def _asked(self, m: Module, channel: str) -> stream.Interface:
        """Return the bursts that all masters ask for on ``ar`` or ``aw``, one after the other."""
        arbiter = Arbiter(self.burst, inputs=self.masters)
        m.submodules[f"{channel}_turns"] = arbiter
        names = ("valid", "ready", "id", "addr", "len")
        asked = zip(*(self._all(f"{channel}{name}") for name in names), strict=True)
        for k, (valid, ready, number, address, length) in enumerate(asked):
            burst: Any = arbiter.i[k].p
            m.d.comb += [
                arbiter.i[k].valid.eq(valid),
                ready.eq(arbiter.i[k].ready),
                burst.master.eq(k),
                burst.id.eq(number),
                burst.word.eq(address >> self.shift),
                burst.last.eq(length),
            ]
        return arbiter.o

    def _read(self, m: Module, memory: Memory) -> None:
        asked = self._asked(m, "ar")
        port: Any = memory.read_port()
        answer = data.StructLayout(
            {"master": range(self.masters), "id": 1, "last": 1, "outside": 1}
        )
        whole = data.StructLayout({"about": answer, "data": 8 * self.word_bytes})
        m.submodules.answers = answers = Buffer(whole)
        burst: Any = Signal(self.burst)
        about: Any = Signal(answer)  # of the word at the memory's output
        found = Signal()
        moves, reads = Signal(), Signal()
        m.d.comb += [
            moves.eq(~found | answers.i.ready),
            port.addr.eq(burst.word),
            port.en.eq(reads),
            answers.i.valid.eq(found),
            answers.i.p.about.eq(about),
            answers.i.p.data.eq(port.data),
        ]
        with m.If(moves):
            m.d.sync += found.eq(reads)
        with m.FSM(name="read"):
            with m.State("rest"):
                m.d.comb += asked.ready.eq(1)
                m.d.sync += burst.eq(asked.payload)
                with m.If(asked.valid):
                    m.next = "words"
            with m.State("words"):
                m.d.comb += reads.eq(moves)
                with m.If(moves):
                    m.d.sync += [
                        about.master.eq(burst.master),
                        about.id.eq(burst.id),
                        about.last.eq(burst.last == 0),
                        about.outside.eq(burst.word >= self.words),
                        burst.word.eq(burst.word + 1),
                        burst.last.eq(burst.last - 1),
                    ]
                    with m.If(burst.last == 0):
                        m.next = "rest"
        given = answers.o.p
        m.d.comb += answers.o.ready.eq(Array(self._all("rready"))[given.about.master])
        names = ("valid", "id", "data", "resp", "last")
        ports = zip(*(self._all(f"r{name}") for name in names), strict=True)
        for k, (valid, number, word, response, last) in enumerate(ports):
            m.d.comb += [
                valid.eq(answers.o.valid & (given.about.master == k)),
                number.eq(given.about.id),
                word.eq(given.data),
                response.eq(Mux(given.about.outside, SLVERR, 0)),
                last.eq(given.about.last),
            ]

    def _write(self, m: Module, memory: Memory) -> None:
        asked = self._asked(m, "aw")
        port: Any = memory.write_port(granularity=8)
        burst: Any = Signal(self.burst)
        outside, wrong = Signal(), Signal()
        takes, answers = Signal(), Signal()
        valid, word, strobe = (
            Array(self._all(f"w{name}"))[burst.master] for name in ("valid", "data", "strb")
        )
        m.d.comb += outside.eq(burst.word >= self.words)
        # A register in front of the memory; a word is in it before its burst is answered.
        m.d.sync += [
            port.addr.eq(burst.word),
            port.data.eq(word),
            port.en.eq(Mux(takes & valid & ~outside, strobe, 0)),
        ]
        with m.FSM(name="write"):
            with m.State("rest"):
                m.d.comb += asked.ready.eq(1)
                m.d.sync += [burst.eq(asked.payload), wrong.eq(0)]
                with m.If(asked.valid):
                    m.next = "words"
            with m.State("words"):
                m.d.comb += takes.eq(1)
                with m.If(valid):
                    m.d.sync += [
                        wrong.eq(wrong | outside),
                        burst.word.eq(burst.word + 1),
                        burst.last.eq(burst.last - 1),
                    ]
                    with m.If(burst.last == 0):
                        m.next = "answer"
            with m.State("answer"):
                m.d.comb += answers.eq(1)
                with m.If(Array(self._all("bready"))[burst.master]):
                    m.next = "rest"
        names = ("wready", "bvalid", "bid", "bresp")
        ports = zip(*(self._all(name) for name in names), strict=True)
        for k, (ready, answered, number, response) in enumerate(ports):
            mine = burst.master == k
            m.d.comb += [
                ready.eq(takes & mine),
                answered.eq(answers & mine),
                number.eq(burst.id),
                response.eq(Mux(wrong, SLVERR, 0)),
            ]
