"""The host's end of the link against a board in plain Python, over lines that damage bytes."""

import random
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from joinery.link.protocol import ESCAPE, FLAG, LinkShape, Op
from joinery_gen.link import Channel, LinkError
from joinery_gen.link.frames import FrameReader, frame
from joinery_gen.link.messages import Answer, Message, MessageReader, Refusal, beat, read, write
from joinery_tb.board_model import DAMAGE, BadLine, BoardModel

SMALL = LinkShape(8, 16)
STEP = 0.001

special = st.sampled_from([FLAG, ESCAPE, FLAG ^ 0x20, ESCAPE ^ 0x20, 0])
texts = st.lists(special | st.integers(0, 255), max_size=300).map(bytes)
plans = st.dictionaries(
    st.integers(0, 600),
    st.tuples(st.sampled_from(sorted(DAMAGE)), st.integers(0, 255)),
    max_size=40,
)


def exchange(
    to_board: bytes,
    to_host: bytes,
    *,
    board: BoardModel | None = None,
    down: BadLine | None = None,
    up: BadLine | None = None,
    nonce: int = 1,
    turns: int = 20_000,
) -> tuple[Channel, BoardModel]:
    """Send both texts at once, and hold what arrives against them."""
    board = board or BoardModel(SMALL)
    down, up = down or BadLine(), up or BadLine()
    channel = Channel(nonce, 0.0)
    got = b""
    said = False
    for turn in range(turns):
        now = turn * STEP
        board.feed(down.carry(channel.outgoing(now)))
        channel.feed(up.carry(board.take()), now)
        if channel.is_open and not said:
            said = True
            channel.write(to_board)
            board.say(to_host)
        got += channel.read()
        assert to_host.startswith(got)
        if said:
            assert to_board.startswith(bytes(board.heard))
        if said and got == to_host and board.heard == to_board and not channel.unused:
            return channel, board
    raise AssertionError(f"stuck: {len(got)} of {len(to_host)} bytes, {len(board.heard)} to board")


@given(texts, texts)
def test_a_good_line_needs_no_repetition(to_board: bytes, to_host: bytes) -> None:
    channel, _ = exchange(to_board, to_host)
    assert (channel.repeated, channel.damaged) == (0, 0)


@given(texts, texts, plans, plans)
@example(bytes(300), bytes(300), dict.fromkeys(range(0, 600, 9), ("drop", 0)), {})
@example(bytes(300), bytes(300), {}, dict.fromkeys(range(0, 600, 9), ("double", 0)))
def test_any_damage_is_repaired(
    to_board: bytes,
    to_host: bytes,
    down: dict[int, tuple[str, int]],
    up: dict[int, tuple[str, int]],
) -> None:
    exchange(to_board, to_host, down=BadLine(down), up=BadLine(up))


@pytest.mark.parametrize("chance", [0.01, 0.05])
@pytest.mark.parametrize("shape", [SMALL, LinkShape(64, 128)], ids=str)
def test_a_long_run_over_a_bad_line(chance: float, shape: LinkShape) -> None:
    source = random.Random(1)
    texts = [source.randbytes(6_000) for _ in range(2)]
    lines = [BadLine(chance=chance, seed=seed) for seed in range(2)]
    channel, _ = exchange(
        *texts, board=BoardModel(shape), down=lines[0], up=lines[1], turns=200_000
    )
    assert channel.repeated
    assert channel.damaged


def test_a_new_session_forgets_the_one_before() -> None:
    board = BoardModel(SMALL)
    channel, _ = exchange(b"a" * 100, b"b" * 100, board=board)
    channel.write(b"never read " * 5)
    board.feed(channel.outgoing(100.0))
    board.say(b"never sent " * 50)
    board.take()
    exchange(b"c" * 100, b"d" * 100, board=board, nonce=2)


def test_a_board_that_was_reset_is_told_from_one_that_lost_a_frame() -> None:
    channel, _ = exchange(b"a", b"b")
    fresh = BoardModel(SMALL)
    channel.write(b"more")
    fresh.feed(channel.outgoing(100.0))
    with pytest.raises(LinkError, match=r"^The board was reset while it was in use; start again$"):
        channel.feed(fresh.take(), 100.0)


def test_another_version_is_refused() -> None:
    channel = Channel(7, 0.0)
    body = bytes([3, 7, 0, 0, 0, 99, 8, 16, 1, 0, 1, 0])
    with pytest.raises(
        LinkError, match=r"^The board speaks version 99 of the link, and this is version 2$"
    ):
        channel.feed(frame(body), 0.0)


def test_a_board_that_is_silent_is_asked_again() -> None:
    channel = Channel(7, 0.0)
    asked = sum(bool(channel.outgoing(turn * STEP)) for turn in range(2_000))
    assert 5 <= asked <= 20


def test_frames_stay_small_on_a_bad_line() -> None:
    shape = LinkShape(64, 128)
    lines = [BadLine(chance=0.02, seed=seed) for seed in range(2)]
    text = random.Random(2).randbytes(4_000)
    channel, _ = exchange(
        text, text, board=BoardModel(shape), down=lines[0], up=lines[1], turns=100_000
    )
    assert channel._best_size() < 40  # 128 bytes would come through once in 14 times
    clean, _ = exchange(text, text, board=BoardModel(shape))
    assert clean._best_size() == 128


@given(texts, st.lists(st.integers(1, 5), min_size=1))
def test_frames_are_found_however_they_are_cut(body: bytes, cuts: list[int]) -> None:
    reader, found, line = FrameReader(), [], frame(body) * 2
    while line:
        size = cuts[len(line) % len(cuts)]
        found += reader.feed(line[:size])
        line = line[size:]
    assert found == [body, body] * bool(body)
    assert reader.damaged == 0


def test_what_is_no_frame_is_counted() -> None:
    reader = FrameReader()
    wrong = b"abc" + zlib.crc32(b"abd").to_bytes(4, "little")
    for line in (b"abc", wrong, bytes([ESCAPE]), b"x" * 5_000):
        assert reader.feed(line + bytes([FLAG])) == []
    assert reader.damaged == 4


rows = st.binary(min_size=11, max_size=11) | st.sets(st.integers(0, 10)).map(
    lambda places: bytes(k in places for k in range(11))
)
kinds = st.one_of(
    rows,
    st.none(),
    st.builds(Refusal, st.integers(0, 2**32 - 1)),
    st.builds(Answer, st.integers(0, 3), st.none() | st.integers(0, 2**32 - 1)),
)


@given(st.lists(kinds), st.integers(1, 40))
def test_messages_are_found_however_they_are_cut(sent: list[Message], size: int) -> None:
    def text(message: Message) -> bytes:
        match message:
            case None:
                return bytes([Op.END])
            case Refusal(number):
                return bytes([Op.REFUSED]) + number.to_bytes(4, "little")
            case Answer(response, None):
                return bytes([Op.WRITE, response])
            case Answer(response, value):
                return bytes([Op.READ, response]) + (value or 0).to_bytes(4, "little")
        return beat(message)

    line = b"".join(map(text, sent))
    reader = MessageReader(11)
    assert [
        m for at in range(0, len(line), size) for m in reader.feed(line[at : at + size])
    ] == sent


def test_messages_to_a_board() -> None:
    assert beat(bytes([0, 5, 0, 7])) == bytes([Op.BEAT, 0b1010, 5, 7])
    assert beat(bytes(9)) == bytes([Op.BEAT, 0, 0])
    assert read(0x1234) == bytes([Op.READ, 0x34, 0x12, 0])
    assert write(8, 1) == bytes([Op.WRITE, 8, 0, 0, 1, 0, 0, 0])
