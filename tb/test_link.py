# amaranth: UnusedElaboratable=no
"""The board's end of the link in Amaranth's simulator, with the host's end as its other side."""

import random
import re
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from hypothesis import example, given, settings
from hypothesis import strategies as st

from joinery.link import BoardTop, LinkEnd, LinkShape
from joinery.link.commands import Commands
from joinery.link.frames import Deframer, Framer
from joinery.link.protocol import ESCAPE, FLAG, Kind
from joinery.link.registers import RegisterAccess
from joinery.link.replies import Replies
from joinery.link.sender import LinkSender
from joinery.link.uart import UartReceiver, UartTransmitter
from joinery_gen.link import Channel
from joinery_gen.link.frames import FrameReader, frame
from joinery_gen.link.messages import END, Answer, MessageReader, Refusal, beat, read, write
from joinery_tb.board_model import DAMAGE, BadLine
from joinery_tb.simulate import STALLS, run_stream

SMALL = LinkShape(8, 16)
STALL_IDS = sorted(STALLS)


def simulate(dut: Any, *benches: Any, cycles: int = 20_000) -> None:
    """Run ``benches`` until the first of them ends."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(benches[0])
    for bench in benches[1:]:
        simulator.add_testbench(bench, background=True)
    simulator.run_until(cycles * 1e-6)


# ---------------------------------------------------------------------------------------------
# The wire
# ---------------------------------------------------------------------------------------------


class Loop(wiring.Component):
    """A transmitter whose wire ends in a receiver."""

    def __init__(self, cycles_per_bit: int) -> None:
        self.transmitter = UartTransmitter(cycles_per_bit=cycles_per_bit)
        self.receiver = UartReceiver(cycles_per_bit=cycles_per_bit)
        super().__init__(
            {
                "i": In(self.transmitter.signature.members["i"].signature),
                "o": Out(self.receiver.signature.members["o"].signature),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.transmitter = self.transmitter
        m.submodules.receiver = self.receiver
        m.d.comb += self.receiver.rx.eq(self.transmitter.tx)
        m.d.comb += self.transmitter.i.payload.eq(self.i.payload)
        m.d.comb += self.transmitter.i.valid.eq(self.i.valid)
        m.d.comb += self.i.ready.eq(self.transmitter.i.ready)
        m.d.comb += self.o.payload.eq(self.receiver.o.payload)
        m.d.comb += self.o.valid.eq(self.receiver.o.valid)
        return m


@pytest.mark.parametrize("cycles_per_bit", [4, 5, 16])
def test_bytes_pass_a_wire_at_full_speed(cycles_per_bit: int) -> None:
    dut = Loop(cycles_per_bit)
    sent = [0x00, 0xFF, 0x55, 0xAA, 0x7E, 0x01, 0x80]
    found: list[int] = []
    took: list[int] = []

    async def bench(ctx: Any) -> None:
        left = list(sent)
        for cycle in range(12 * cycles_per_bit * len(sent)):
            ctx.set(dut.i.valid, bool(left))
            ctx.set(dut.i.payload, left[0] if left else 0)
            if left and ctx.get(dut.i.ready):
                took.append(cycle)
                left.pop(0)
            if ctx.get(dut.o.valid):
                found.append(ctx.get(dut.o.payload))
            await ctx.tick()

    simulate(dut, bench)
    assert found == sent
    assert {b - a for a, b in pairwise(took)} == {10 * cycles_per_bit}


def levels(byte: int, *, stop: int = 1) -> list[int]:
    return [0, *(byte >> k & 1 for k in range(8)), stop]


@pytest.mark.parametrize("skew", [-0.03, 0.0, 0.03])
def test_a_wire_at_another_speed(skew: float) -> None:
    """Three parts in a hundred off, which is more than any two crystals."""
    cycles = 16
    dut = UartReceiver(cycles_per_bit=cycles)
    sent = [0x00, 0xFF, 0x5A, 0x80]
    # A spike shorter than half a bit is no start, and a byte with a low stop bit is dropped.
    wire = [1] * 20 + [0] * 3 + [1] * 30
    bits = [bit for byte in sent for bit in levels(byte)] + [1] * 2 + levels(0x12, stop=0) + [1] * 3
    length = cycles * (1 + skew)
    wire += [bits[int(k / length)] for k in range(int(length * len(bits)))]
    found: list[int] = []

    async def bench(ctx: Any) -> None:
        for level in wire:
            ctx.set(dut.rx, level)
            await ctx.tick()
            if ctx.get(dut.o.valid):
                found.append(ctx.get(dut.o.payload))

    simulate(dut, bench)
    assert found == sent


# ---------------------------------------------------------------------------------------------
# Frames
# ---------------------------------------------------------------------------------------------

BODIES = [bytes([FLAG, ESCAPE, 0, 0x5E, 0x5D]), b"\x01", bytes(range(70, 140)), bytes(9)]


@pytest.mark.parametrize("stall", STALL_IDS)
def test_frames_are_made_as_the_host_makes_them(stall: str) -> None:
    payloads = [
        payload
        for body in BODIES
        for payload in [*({"data": byte, "end": 0} for byte in body), {"data": 0, "end": 1}]
    ]
    run = run_stream(Framer(), {"i": payloads}, stall_in=STALLS[stall], stall_out=STALLS[stall])
    assert bytes(run.outputs["o"]) == b"".join(map(frame, BODIES))


def deframe(line: bytes) -> list[tuple[bytes, bool]]:
    """Return the bodies that the hardware finds in ``line``, and whether they are good."""
    dut = Deframer()
    found: list[tuple[bytes, bool]] = []

    async def bench(ctx: Any) -> None:
        body = bytearray()
        ctx.set(dut.i.valid, 1)
        for byte in line:
            ctx.set(dut.i.payload, byte)
            if ctx.get(dut.o.valid):
                event = ctx.get(dut.o.payload)
                if event["end"]:
                    found.append((bytes(body), bool(event["good"])))
                    body.clear()
                else:
                    body.append(event["data"])
            await ctx.tick()

    simulate(dut, bench)
    return found


def test_frames_are_found_as_the_host_finds_them() -> None:
    line = b"".join(map(frame, BODIES))
    assert deframe(line) == [(body, True) for body in BODIES]
    noise = random.Random(3)
    for kind, change in DAMAGE.items():
        bad = BadLine({noise.randrange(len(line)): (kind, noise.randrange(256)) for _ in range(2)})
        damaged = bad.carry(line)
        good = [body for body, is_good in deframe(damaged) if is_good]
        assert good == FrameReader().feed(damaged), change


def test_what_is_no_frame_is_not_good() -> None:
    wrong = b"abcd" + zlib.crc32(b"abce").to_bytes(4, "little")
    for line in (wrong, b"abc", bytes([ESCAPE]) + b"a" * 9 + bytes([ESCAPE])):
        assert [good for _, good in deframe(line + bytes([FLAG]))] in ([False], [])
    assert deframe(bytes([FLAG] * 3)) == []


# ---------------------------------------------------------------------------------------------
# Both ends
# ---------------------------------------------------------------------------------------------


def converse(
    to_board: bytes,
    to_host: bytes,
    down: BadLine,
    up: BadLine,
    *,
    stall: float = 0.0,
    cycles: int = 30_000,
) -> Channel:
    """Send both texts at once between a ``Channel`` and a ``LinkEnd``; a byte takes two cycles.

    As in a core, what is sent to the host comes after something has come from it.
    """
    to_board = b"!" + to_board
    dut = LinkEnd(beat_bytes=5, row_bytes=300, shape=SMALL)
    channel = Channel(0xC0FFEE7E, 0.0)
    heard, got, line = bytearray(), bytearray(), bytearray()
    pauses = random.Random(4)

    async def bench(ctx: Any) -> None:
        left = list(to_host)
        told = False
        for cycle in range(cycles):
            now = cycle * 4e-4
            if cycle % 2 == 0:
                if not line:
                    line.extend(down.carry(channel.outgoing(now)))
                ctx.set(dut.i_line.valid, bool(line))
                if line:
                    ctx.set(dut.i_line.payload, line.pop(0))
                ctx.set(dut.o_line.ready, 1)
            else:
                ctx.set(dut.i_line.valid, 0)
                ctx.set(dut.o_line.ready, 0)
            taken = pauses.random() >= stall
            ctx.set(dut.o.ready, taken)
            ctx.set(dut.i.valid, bool(left and heard))
            if left:
                ctx.set(dut.i.p.data, left[0])
                ctx.set(dut.i.p.last, len(left) % 7 == 1)
            if taken and ctx.get(dut.o.valid):
                heard.append(ctx.get(dut.o.payload))
                assert to_board.startswith(bytes(heard))
            if ctx.get(dut.i.valid) and ctx.get(dut.i.ready):
                left.pop(0)
            if ctx.get(dut.o_line.valid) and ctx.get(dut.o_line.ready):
                channel.feed(up.carry(bytes([ctx.get(dut.o_line.payload)])), now)
            if channel.is_open and not told:
                told = True
                channel.write(to_board)
            got.extend(channel.read())
            assert to_host.startswith(bytes(got))
            if told and got == to_host and heard == to_board and not channel.unused:
                return
            await ctx.tick()
        raise AssertionError(f"stuck: {len(got)} of {len(to_host)}, {len(heard)} to the board")

    simulate(dut, bench, cycles=cycles + 1)
    assert (bytes(got), bytes(heard)) == (to_host, to_board)
    return channel


@pytest.mark.parametrize("stall", [0.0, 0.9])
def test_a_good_line_needs_no_repetition(stall: float) -> None:
    texts = [random.Random(seed).randbytes(200) + bytes([FLAG, ESCAPE] * 9) for seed in range(2)]
    channel = converse(*texts, BadLine(), BadLine(), stall=stall)
    assert (channel.repeated, channel.damaged) == (0, 0)
    assert (channel.beat_bytes, channel.row_bytes, channel.shape) == (5, 300, SMALL)


plans = st.dictionaries(
    st.integers(0, 250),
    st.tuples(st.sampled_from(sorted(DAMAGE)), st.integers(0, 255)),
    max_size=12,
)


@settings(max_examples=5)
@given(st.binary(max_size=60), st.binary(max_size=60), plans, plans)
@example(bytes(60), bytes(60), dict.fromkeys(range(0, 250, 12), ("drop", 0)), {})
@example(bytes(60), bytes(60), {}, dict.fromkeys(range(0, 250, 12), ("double", 0)))
def test_any_damage_is_repaired(
    to_board: bytes,
    to_host: bytes,
    down: dict[int, tuple[str, int]],
    up: dict[int, tuple[str, int]],
) -> None:
    converse(to_board, to_host, BadLine(down), BadLine(up))


def answers(lines: list[bytes], to_host: bytes = b"") -> tuple[bytes, list[bytes]]:
    """Send each of ``lines`` to a board, wait for all that it answers, and return both streams."""
    dut = LinkEnd(beat_bytes=5, row_bytes=300, shape=SMALL)
    heard = bytearray()
    reader, bodies = FrameReader(), []

    async def bench(ctx: Any) -> None:
        left = list(to_host)
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.o_line.ready, 1)
        for number, line in enumerate(lines):
            rest = list(line)
            quiet = 0
            while rest or quiet < 20:
                ctx.set(dut.i_line.valid, bool(rest))
                ctx.set(dut.i_line.payload, rest.pop(0) if rest else 0)
                ctx.set(dut.i.valid, bool(left and number))
                ctx.set(dut.i.p.data, left[0] if left else 0)
                ctx.set(dut.i.p.last, 1)
                if ctx.get(dut.i.valid) and ctx.get(dut.i.ready):
                    left.pop(0)
                if ctx.get(dut.o.valid):
                    heard.append(ctx.get(dut.o.payload))
                quiet += 1
                if ctx.get(dut.o_line.valid):
                    bodies.extend(reader.feed(bytes([ctx.get(dut.o_line.payload)])))
                    quiet = 0
                await ctx.tick()

    simulate(dut, bench)
    return bytes(heard), bodies


OPEN = frame(bytes([Kind.OPEN, 1, 2, 3, 4]))


def data(number: int, text: bytes) -> bytes:
    return frame(bytes([Kind.DATA, number]) + text)


def status(tick: int, base: int, *, wanted: int = 0, limit: int = 16) -> bytes:
    return frame(bytes([Kind.STATUS, tick, base, limit, wanted]))


def test_frames_count_once_and_only_where_there_is_room() -> None:
    ahead, late = data(1, b"b"), data(0, b"a")
    too_far, too_long, empty = data(8, b"x"), data(2, bytes(17)), data(2, b"")
    lines = [OPEN, too_far, too_long, empty, ahead, ahead, late, late, ahead, data(2, b"c")]
    heard, bodies = answers(lines)
    assert heard == b"abc"
    held = [(body[2], body[4]) for body in bodies if body[0] == Kind.STATUS]
    # The number of the first frame that has not been used, and the slots that are filled.
    assert held == [(0, 0), (0, 0), (0, 2), (0, 2), (0, 3), (2, 0), (2, 0), (2, 4)]


def test_a_damaged_number_does_not_spoil_a_frame_that_waits() -> None:
    spoiling = data(1, b"x")[:-2] + bytes([0x11, FLAG])
    heard, _ = answers([OPEN, data(1, b"b"), spoiling, data(0, b"a")])
    assert heard == b"ab"


def frames_in(bodies: list[bytes]) -> dict[int, list[bytes]]:
    """Return what each DATA frame said, each time that it was sent."""
    frames: dict[int, list[bytes]] = {}
    for body in bodies:
        if body[0] == Kind.DATA:
            frames.setdefault(body[1], []).append(body[2:])
    return frames


TEXT = bytes(range(32, 32 + 16 * 12))


def test_frames_are_sent_again_when_they_are_wanted() -> None:
    steps = [OPEN, status(1, 0), status(2, 0, wanted=0b10000001), status(3, 6),
             status(4, 8, wanted=0b10), status(5, 9, wanted=0b10)]  # fmt: skip
    frames = frames_in(answers(steps, TEXT)[1])
    assert TEXT.startswith(b"".join(copies[0] for copies in frames.values()))
    assert all(len(set(copies)) == 1 for copies in frames.values())
    assert {number: len(copies) for number, copies in frames.items() if len(copies) > 1} == {
        0: 2, 7: 2, 9: 3
    }  # fmt: skip


def test_frames_that_are_no_longer_wanted_are_forgotten() -> None:
    """The slots are filled anew, and must not be taken for those that were wanted."""
    steps = [OPEN, status(1, 0), status(2, 0, wanted=0xFF) + status(3, 8), status(4, 11)]
    frames = frames_in(answers(steps, TEXT)[1])
    assert list(frames) == list(range(len(frames)))
    assert TEXT.startswith(b"".join(copies[0] for copies in frames.values()))
    assert {number for number, copies in frames.items() if len(copies) > 1} <= {0, 1}


def test_nothing_passes_before_a_session() -> None:
    heard, bodies = answers([data(0, b"a"), status(1, 5, wanted=0xFF), OPEN, data(0, b"b")], b"z")
    assert heard == b"b"
    kinds = [body[0] for body in bodies]
    assert kinds[:3] == [Kind.CLOSED, Kind.CLOSED, Kind.OPEN]
    assert Kind.CLOSED not in kinds[3:]


# ---------------------------------------------------------------------------------------------
# Messages
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stall", STALL_IDS)
@pytest.mark.parametrize("size", [1, 8, 11])
def test_messages_of_the_host(size: int, stall: str) -> None:
    source = random.Random(size)
    beats = [bytes(source.choice([0, 7, 255]) for _ in range(size)) for _ in range(12)]
    text = read(0x123456) + b"".join(map(beat, beats)) + b"\xfe" + END + write(8, 0x89ABCDEF)
    run = run_stream(
        Commands(beat_bytes=size), {"i": list(text)},
        stall_in=STALLS[stall], stall_out=STALLS[stall],
    )  # fmt: skip
    sent = [(int.from_bytes(each, "little"), 0) for each in beats]
    found = [(each["data"], each["end"]) for each in run.outputs["o_beat"]]
    assert found[:-1] == sent
    assert found[-1][1] == 1
    reading, writing = run.outputs["o_access"]
    assert (reading["write"], reading["address"]) == (0, 0x123456)
    assert writing == {"write": 1, "address": 8, "value": 0x89ABCDEF}


@pytest.mark.parametrize("stall", STALL_IDS)
@pytest.mark.parametrize(("size", "lanes"), [(1, 1), (8, 2), (11, 4)])
def test_messages_for_the_host(size: int, lanes: int, stall: str) -> None:
    source = random.Random(size)
    beats = [
        [bytes(source.choice([0, 7, 255]) for _ in range(size)) for _ in range(lanes)]
        for _ in range(12)
    ]
    valid = [source.randrange(1, 1 << lanes) for _ in beats]
    rows = [
        {"data": [int.from_bytes(row, "little") for row in rows], "valid": marks, "end": 0}
        for rows, marks in zip(beats, valid, strict=True)
    ]
    end = {"data": [0] * lanes, "valid": 0, "end": 1}
    answers = [
        {"write": 0, "response": 2, "value": 0x12345678},
        {"write": 1, "response": 1, "value": 0},
    ]
    run = run_stream(
        Replies(row_bytes=size, lanes=lanes),
        {"i_rows": [*rows, end], "i_answer": answers, "i_refused": [5, 1 << 31]},
        stall_in=STALLS[stall], stall_out=STALLS[stall],
    )  # fmt: skip
    out = run.outputs["o"]
    reader = MessageReader(size)
    found = []
    for byte in out:
        messages = list(reader.feed(bytes([byte["data"]])))
        assert len(messages) == byte["last"]
        found += messages
    assert [each for each in found if isinstance(each, Answer)] == [
        Answer(2, 0x12345678), Answer(1),
    ]  # fmt: skip
    assert [each for each in found if isinstance(each, Refusal)] == [Refusal(5), Refusal(1 << 31)]
    assert [each for each in found if isinstance(each, bytes)] == [
        row for rows, marks in zip(beats, valid, strict=True)
        for lane, row in enumerate(rows) if marks >> lane & 1
    ]  # fmt: skip
    assert found.count(None) == 1


def test_registers_beyond_the_bus() -> None:
    dut = RegisterAccess(address_width=4)
    ask = {"write": 0, "address": 1 << 8, "value": 0}
    run = run_stream(dut, {"i": [ask, {**ask, "write": 1}]})
    assert [each["response"] for each in run.outputs["o"]] == [2, 2]


# ---------------------------------------------------------------------------------------------
# Parameters
# ---------------------------------------------------------------------------------------------


def wrong() -> Iterator[tuple[Any, str]]:
    sizes = {"beat_bytes": 1, "row_bytes": 1}
    yield lambda: LinkShape(slots=12), "Link slots must be 8, 16, 32 or 64, not 12"
    yield lambda: LinkShape(frame_bytes=8), "Link frames have 16, 32, 64 or 128 bytes, not 8"
    for uart in (UartReceiver, UartTransmitter):
        yield (
            lambda uart=uart: uart(cycles_per_bit=3),
            "A UART needs at least 4 clock cycles per bit, not 3",
        )
    for name in sizes:
        what = name.removesuffix("_bytes")
        yield (
            lambda name=name: LinkSender(SMALL, **{**sizes, name: 1 << 16}),
            f"A {what} has 0 to 65535 bytes, not 65536",
        )
    yield lambda: Commands(beat_bytes=0), "A beat has at least one byte, not 0"
    yield lambda: Replies(row_bytes=0), "Row bytes must be a positive integer, not 0"
    yield lambda: Replies(row_bytes=1, lanes=0), "Lanes must be a positive integer, not 0"
    yield (
        lambda: RegisterAccess(address_width=25),
        "Register addresses have 1 to 24 bits, not 25",
    )
    yield (
        lambda: BoardTop(Framer(), cycles_per_bit=4),  # type: ignore[arg-type]
        "A board takes a core with one stream in and one out, or one that is all registers, not a "
        "Framer",
    )


@pytest.mark.parametrize(("make", "message"), list(wrong()), ids=lambda each: str(each)[:20])
def test_wrong_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
