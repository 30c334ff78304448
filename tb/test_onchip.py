# amaranth: UnusedElaboratable=no
"""Memory on the chip: bursts of several masters against bytes in Python, and a card that has it."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from amaranth.sim import Simulator

from joinery.expr import Column, Compare
from joinery.fjoin import FJoinCard, OnChipCard, OnChipMemory
from joinery.join import JoinPair
from joinery.tuples import Field, IntType, Schema
from joinery_tb.stalls import STALLS, Stall, pauses

MASTERS, WORD = 3, 8
SIZE = 96 * WORD
SLVERR = 2


def memory_of(**parameters: int) -> OnChipMemory:
    sizes = {"masters": MASTERS, "memory_bytes": SIZE, "word_bytes": WORD, "address_bits": 16}
    return OnChipMemory(**{**sizes, **parameters})


def simulate(dut: Any, *benches: Any) -> None:
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


@dataclass
class Master:
    """One master, which pauses on all channels, and the bytes that it expects in the memory."""

    dut: Any
    number: int
    stall: Stall = 0.0
    content: bytearray = field(default_factory=lambda: bytearray(SIZE))

    def __post_init__(self) -> None:
        self.pauses = pauses(self.stall, self.number)

    def port(self, name: str) -> Any:
        return getattr(self.dut, f"s_axi_{self.number}_{name}")

    async def move(self, ctx: Any, mine: str, other: str) -> None:
        """Pause as the stall says, then wait for one transfer."""
        while next(self.pauses):
            await ctx.tick()
        ctx.set(self.port(mine), 1)
        await ctx.tick().until(self.port(other))
        ctx.set(self.port(mine), 0)

    async def ask(self, ctx: Any, channel: str, address: int, words: int, number: int) -> None:
        for name, value in (("addr", address), ("len", words - 1), ("id", number)):
            ctx.set(self.port(f"{channel}{name}"), value)
        await self.move(ctx, f"{channel}valid", f"{channel}ready")

    async def write(
        self, ctx: Any, address: int, words: list[int], strobes: list[int], number: int
    ) -> int:
        """Write a burst; return its response."""
        await self.ask(ctx, "aw", address, len(words), number)
        for place, (word, strobe) in enumerate(zip(words, strobes, strict=True)):
            for name, value in (("data", word), ("strb", strobe), ("last", 0)):
                ctx.set(self.port(f"w{name}"), value)
            ctx.set(self.port("wlast"), place == len(words) - 1)
            await self.move(ctx, "wvalid", "wready")
            first = address + WORD * place
            for byte, value in enumerate(word.to_bytes(WORD, "little")):
                if strobe >> byte & 1 and first < SIZE:
                    self.content[first + byte] = value
        while next(self.pauses):
            await ctx.tick()
        ctx.set(self.port("bready"), 1)
        found = (
            await ctx.tick().sample(self.port("bid"), self.port("bresp")).until(self.port("bvalid"))
        )
        ctx.set(self.port("bready"), 0)
        assert found[0] == number
        return int(found[1])

    async def read(self, ctx: Any, address: int, words: int, number: int) -> list[tuple[int, int]]:
        """Read a burst; return the words, and the responses."""
        await self.ask(ctx, "ar", address, words, number)
        found = []
        for place in range(words):
            while next(self.pauses):
                await ctx.tick()
            ctx.set(self.port("rready"), 1)
            names = ("rid", "rlast", "rdata", "rresp")
            got_id, last, word, response = (
                await ctx.tick()
                .sample(*(self.port(name) for name in names))
                .until(self.port("rvalid"))
            )
            ctx.set(self.port("rready"), 0)
            assert (got_id, last) == (number, place == words - 1)
            found.append((word, response))
        return found

    def expected(self, address: int, words: int) -> list[tuple[int, int]]:
        part = self.content[address : address + WORD * words]
        return [
            (int.from_bytes(part[at : at + WORD], "little"), 0) for at in range(0, len(part), 8)
        ]


@pytest.mark.parametrize("stall", STALLS)
def test_bursts_of_several_masters(stall: str) -> None:
    """Each works in a third of the memory; afterwards one reads it all."""
    dut = memory_of()
    masters = [Master(dut, k, STALLS[stall]) for k in range(MASTERS)]
    share = SIZE // WORD // MASTERS
    ended = []

    def bench(master: Master) -> Any:
        source = random.Random(master.number)

        async def run(ctx: Any) -> None:
            for _ in range(30):
                words = source.randrange(1, 17)
                first = master.number * share + source.randrange(share - words + 1)
                number = source.randrange(2)
                if source.random() < 0.5:
                    data = [source.getrandbits(8 * WORD) for _ in range(words)]
                    strobes = [source.choice([0xFF, 0xF0, 0x01, 0]) for _ in range(words)]
                    assert await master.write(ctx, WORD * first, data, strobes, number) == 0
                else:
                    found = await master.read(ctx, WORD * first, words, number)
                    assert found == master.expected(WORD * first, words)
            ended.append(master)

        return run

    async def check(ctx: Any) -> None:
        await ctx.tick().until(dut.s_axi_0_awlen == 99)
        whole = Master(dut, 0)
        for each in masters:
            part = slice(WORD * share * each.number, WORD * share * (each.number + 1))
            whole.content[part] = each.content[part]
        assert await whole.read(ctx, 0, SIZE // WORD, 1) == whole.expected(0, SIZE // WORD)
        ended.append(whole)

    async def tell(ctx: Any) -> None:
        while len(ended) < MASTERS:
            await ctx.tick()
        ctx.set(dut.s_axi_0_awlen, 99)

    simulate(dut, *map(bench, masters), tell, check)
    assert len(ended) == MASTERS + 1


def test_a_word_per_cycle() -> None:
    dut = memory_of()
    words = 32
    came = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.s_axi_1_rready, 1)
        ctx.set(dut.s_axi_1_arlen, words - 1)
        ctx.set(dut.s_axi_1_arvalid, 1)
        for cycle in range(words + 10):
            if ctx.get(dut.s_axi_1_rvalid):
                came.append(cycle)
            taken = ctx.get(dut.s_axi_1_arready)
            await ctx.tick()
            if taken:
                ctx.set(dut.s_axi_1_arvalid, 0)

    simulate(dut, bench)
    assert came == list(range(3, 3 + words))


def test_words_outside_are_errors() -> None:
    dut = memory_of()
    master = Master(dut, 2)

    async def bench(ctx: Any) -> None:
        edge = SIZE - WORD
        assert await master.write(ctx, edge, [7, 8], [0xFF, 0xFF], 0) == SLVERR
        assert await master.write(ctx, 0, [9], [0xFF], 0) == 0
        found = await master.read(ctx, edge, 2, 1)
        assert (found[0], found[1][1]) == ((7, 0), SLVERR)
        assert await master.read(ctx, 0, 1, 1) == [(9, 0)]

    simulate(dut, bench)


# A card that has it.


def card_of(memory_bytes: int) -> OnChipCard:
    row = Schema((Field("x", IntType(7)),))
    same = Compare("=", *(Column(side, "x", row["x"]) for side in "rs"))
    card = FJoinCard(
        JoinPair(("r", "s"), row, row, same, (), ()),
        pipelines=[("left", 2), ("right", 2)], id_bits=10, time_bits=12, word_bytes=16, burst=4,
        address_bits=16,
    )  # fmt: skip
    return OnChipCard(card, memory_bytes=memory_bytes)


class Lite:
    """A master on the registers of a core."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut

    async def write(self, ctx: Any, address: int, value: int, strobe: int = 0xF) -> int:
        dut = self.dut
        for name, each in (("awaddr", address), ("wdata", value), ("wstrb", strobe)):
            ctx.set(getattr(dut, f"s_axil_{name}"), each)
        ctx.set(dut.s_axil_awvalid, 1)
        ctx.set(dut.s_axil_wvalid, 1)
        await ctx.tick().until(dut.s_axil_awready)
        ctx.set(dut.s_axil_awvalid, 0)
        ctx.set(dut.s_axil_wvalid, 0)
        ctx.set(dut.s_axil_bready, 1)
        (response,) = await ctx.tick().sample(dut.s_axil_bresp).until(dut.s_axil_bvalid)
        ctx.set(dut.s_axil_bready, 0)
        return int(response)

    async def read(self, ctx: Any, address: int) -> tuple[int, int]:
        dut = self.dut
        ctx.set(dut.s_axil_araddr, address)
        ctx.set(dut.s_axil_arvalid, 1)
        await ctx.tick().until(dut.s_axil_arready)
        ctx.set(dut.s_axil_arvalid, 0)
        ctx.set(dut.s_axil_rready, 1)
        found = await ctx.tick().sample(dut.s_axil_rdata, dut.s_axil_rresp).until(dut.s_axil_rvalid)
        ctx.set(dut.s_axil_rready, 0)
        return int(found[0]), int(found[1])


@pytest.mark.parametrize("memory_bytes", [256, 3 << 10])
def test_registers_and_memory_side_by_side(memory_bytes: int) -> None:
    """All addresses, those between and behind included; a memory of 3 KiB ends before a power."""
    dut = card_of(memory_bytes)
    lite = Lite(dut)
    addresses = {each.name: each.address for each in dut.registers}
    assert dut.describe()["memory"] == {"address": dut.base, "bytes": memory_bytes}
    source = random.Random(memory_bytes)
    places = source.sample(range(0, memory_bytes, 4), 40)
    words = {place: source.getrandbits(32) for place in places}

    async def bench(ctx: Any) -> None:
        assert await lite.read(ctx, addresses["identity"]) == (0x4A4E5259, 0)
        assert await lite.write(ctx, addresses["identity"], 1) == SLVERR
        target = addresses["p0_stream_count"]
        assert await lite.write(ctx, target, 77) == 0
        for place, word in words.items():
            assert await lite.write(ctx, dut.base + place, word) == 0
        for place, word in words.items():
            assert await lite.read(ctx, dut.base + place) == (word, 0)
        assert await lite.read(ctx, target) == (77, 0)
        assert await lite.write(ctx, dut.base, 0xA1B2C3D4) == 0
        assert await lite.write(ctx, dut.base, 0xFFFFFFFF, 0b0100) == 0
        assert await lite.read(ctx, dut.base) == (0xA1FFC3D4, 0)
        behind = [] if memory_bytes == dut.base else [dut.base + memory_bytes]
        for address in (4 * len(dut.registers), dut.base - 4, *behind):
            assert (await lite.read(ctx, address))[1] == SLVERR
            assert await lite.write(ctx, address, 5) == SLVERR
        clock = (await lite.read(ctx, addresses["clock_lo"]))[0]
        assert (await lite.read(ctx, addresses["clock_lo"]))[0] > clock > 100

    simulate(dut, bench)


def wrong() -> Iterator[tuple[dict[str, int], str]]:
    yield {"masters": 0}, "Masters of a memory must be a positive integer, not 0"
    for size in (12, 4, -8):
        yield (
            {"memory_bytes": size},
            f"Memory on a chip has whole words of 8 bytes, not {size} bytes",
        )
    yield (
        {"memory_bytes": 1 << 17},
        "Addresses of 16 bits reach 65536 bytes, not 131072",
    )


@pytest.mark.parametrize(("parameters", "message"), list(wrong()))
def test_memories_that_can_not_be(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        memory_of(**parameters)
