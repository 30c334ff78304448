# amaranth: UnusedElaboratable=no
"""The simulated card, against every pair tested one by one."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.expr import Abs, Arith, Column, Compare, Const
from joinery.fjoin import FJoinCard
from joinery.join import JoinPair
from joinery.tuples import Field, IntType, Schema
from joinery_gen.fjoin_host.device import CardTask, DeviceError
from joinery_tb.card import SimulatedCard
from joinery_tb.card.device import CHANNELS
from joinery_tb.fjoin_runs import Batch, Row, expected, random_batches

ROW = Schema((Field("x", IntType(7)), Field("y", IntType(9, signed=False))))
WORD = 32


def near() -> Compare:
    x, y = (Abs(Arith("-", *(Column(s, name, ROW[name]) for s in "rs"))) for name in "xy")
    return Compare("<=", Arith("+", x, y), Const.number(40))


def card_of(**parameters: Any) -> FJoinCard:
    pair = JoinPair(("r", "s"), ROW, ROW, near(), (), ())
    settings = {"id_bits": 10, "time_bits": 12, "word_bytes": WORD, "burst": 4, **parameters}
    return FJoinCard(pair, pipelines=[("left", 5), ("right", 8)], cluster=3, **settings)


SHAPES = [each.pipeline.shape for each in card_of().pipelines]
"""They are the same for any number of lanes, as far as a test needs them."""


def pack(record: dict[str, Any], rows: Sequence[Row]) -> bytes:
    """Records as they lie in memory."""
    words = []
    for first in range(0, len(rows), record["per_word"]):
        word = 0
        for place, row in enumerate(rows[first : first + record["per_word"]]):
            for field in record["fields"]:
                value = row[field["name"].lstrip("#")] & ((1 << field["width"]) - 1)
                word |= value << (8 * record["stride"] * place + field["offset"])
        words.append(word.to_bytes(WORD, "little"))
    return b"".join(words)


STREAM, WINDOW, RESULT = 0x1000, 0x4000, 0x8FC0


MARK = b"\xa5" * WORD


def clean(device: SimulatedCard, address: int, capacity: int) -> None:
    """Mark what a result buffer covers, and the two words behind it."""
    device.write(address, MARK * (-(-8 * capacity // WORD) + 2))


def make_task(
    device: SimulatedCard, pipeline: int, batch: Batch, shift: int, **more: int
) -> CardTask:
    """Put a task into memory, with its window ``shift`` words into a ring that just holds it."""
    records = device.facts.records
    side = device.pipelines[pipeline].side
    other = {"left": "right", "right": "left"}[side]
    device.write(STREAM, pack(records[side], batch.stream))
    window = pack(records[other], batch.window)
    ring = max(len(window), WORD)
    shift %= ring // WORD
    device.write(WINDOW, (window[-shift * WORD :] + window[: -shift * WORD]) if shift else window)
    values = {
        "stream_address": STREAM, "stream_count": len(batch.stream),
        "window_address": WINDOW + shift * WORD, "window_count": len(batch.window),
        "window_base": WINDOW, "window_end": WINDOW + ring,
        "result_address": RESULT, "result_capacity": 100, "time_range": 200, **more,
    }  # fmt: skip
    clean(device, RESULT, values["result_capacity"])
    return CardTask(**values)


def finish(device: SimulatedCard, pipeline: int, capacity: int) -> "tuple[Counter[Any], list[int]]":
    """Let a task end; return its results, and how many each buffer had."""
    found: Counter[Any] = Counter()
    buffers = []
    address = RESULT
    waits = 0
    while True:
        status = device.status(pipeline)
        if status.state == "running":
            waits += 1
            assert waits < 200, "the task does not end"
            device._ask("g", 1000)
            continue
        data = device.read(address, 8 * status.results)
        for place in range(0, len(data), 8):
            ids = (data[place : place + 4], data[place + 4 : place + 8])
            found[tuple(int.from_bytes(each, "little") for each in ids)] += 1
        buffers.append(status.results)
        end = -(-(address + 8 * status.results) // WORD) * WORD
        assert device.read(end, WORD) == MARK
        if status.state == "done":
            return found, buffers
        assert status.state == "overflow"
        assert status.results == capacity
        address = RESULT + random.Random(len(buffers)).randrange(64) * WORD
        clean(device, address, capacity)
        device.resume(pipeline, address, capacity)


CARDS: dict[str, tuple[dict[str, Any], float]] = {
    "at full rate": ({"lanes": 2}, 0.0),
    "stalls": ({"lanes": 2}, 0.7),
    "paper": ({"paper": True}, 0.3),
}
"""Parameters, and how often the channels of memory pause; the paper's card has one lane."""


@pytest.fixture(scope="module", params=CARDS)
def device(request: pytest.FixtureRequest) -> Iterator[SimulatedCard]:
    parameters, chance = CARDS[request.param]
    stalls = dict.fromkeys(CHANNELS, chance)
    card = card_of(**parameters)
    with SimulatedCard(card, memory_bytes=1 << 16, latency=7, stalls=stalls) as opened:
        yield opened


def batch_of(device: SimulatedCard, pipeline: int, sizes: tuple[int, int], seed: int) -> Batch:
    rng = random.Random(seed)
    ranges = {"x": (-64, 63), "y": (0, 100)}
    shape = SHAPES[pipeline]
    return random_batches(
        shape, [sizes], rng=rng, value=lambda role, name: rng.randint(*ranges[name]),
        first_id=rng.randrange(1024), disorder=300,
    )[0]  # fmt: skip


def check(device: SimulatedCard, pipeline: int, batch: Batch, capacity: int, shift: int) -> None:
    shape = SHAPES[pipeline]
    if device.status(pipeline).state != "done":
        device.abort(pipeline)  # what a failure before this has left
    task = make_task(device, pipeline, batch, shift, result_capacity=capacity)
    device.start(pipeline, task)
    found, buffers = finish(device, pipeline, capacity)
    wanted = expected(shape, [batch], task.time_range)
    assert found == wanted.pairs[0]
    assert buffers[:-1] == [capacity] * (len(buffers) - 1)
    counters = dict(device.status(pipeline).counters)
    rounds = -(-len(batch.stream) // shape.units)
    assert counters.pop("cycles") > 0
    assert counters == {
        "batches": rounds,
        "window_tuples": rounds * len(batch.window),
        "results": wanted.pairs[0].total(),
        "rejected_order": wanted.wrong_order,
        "rejected_time": wanted.out_of_range,
    }


@settings(max_examples=20)
@given(
    pipeline=st.integers(0, 1),
    stream=st.integers(1, 17),
    window=st.integers(0, 70),
    capacity=st.integers(1, 60),
    shift=st.integers(0, 40),
    seed=st.integers(0, 1000),
)
def test_every_pair_once(
    device: SimulatedCard,
    pipeline: int,
    stream: int,
    window: int,
    capacity: int,
    shift: int,
    seed: int,
) -> None:
    batch = batch_of(device, pipeline, (stream, window), seed)
    check(device, pipeline, batch, capacity, shift)


@pytest.mark.parametrize("pipeline", [0, 1])
def test_batches_of_every_size(device: SimulatedCard, pipeline: int) -> None:
    units = device.pipelines[pipeline].units
    for count in range(1, 2 * units + 2):
        for window in (0, 1, 7):
            check(device, pipeline, batch_of(device, pipeline, (count, window), count), 9, 0)


@settings(max_examples=15)
@given(cycles=st.integers(0, 400), seed=st.integers(0, 100), capacity=st.sampled_from([3, 100]))
def test_abort_and_restart(device: SimulatedCard, cycles: int, seed: int, capacity: int) -> None:
    """A task that is cut off anywhere leaves nothing behind for the next one."""
    pipeline = seed % 2
    batch = batch_of(device, pipeline, (11, 40), seed)
    device.start(pipeline, make_task(device, pipeline, batch, seed, result_capacity=capacity))
    device._ask("g", cycles)
    device.abort(pipeline)
    assert device.status(pipeline).state == "idle"
    check(device, pipeline, batch_of(device, pipeline, (9, 33), seed + 1), 50, seed)


def test_errors_of_the_host(device: SimulatedCard) -> None:
    batch = batch_of(device, 0, (5, 20), 1)
    task = make_task(device, 0, batch, 0)
    device.start(0, task)
    with pytest.raises(DeviceError, match=r"^Pipeline 0 was started in the middle of a task$"):
        device.start(0, task)
    with pytest.raises(DeviceError, match=r"^Pipeline 0 was resumed, and it is running$"):
        device.resume(0, RESULT, 1)
    finish(device, 0, 100)


def test_errors_of_tasks(device: SimulatedCard) -> None:
    task = make_task(device, 1, batch_of(device, 1, (5, 20), 1), 0)
    wrong: list[tuple[dict[str, int], str]] = [
        ({"stream_count": 0}, "A task has 0 stream tuples, and 1 is the least"),
        ({"result_capacity": 0}, "A result buffer holds 0 results, and 1 is the least"),
        ({"time_range": 2048}, "A time range of 2048 does not fit"),
        ({"stream_address": 1}, "A stream buffer at 1 does not begin at a bus word"),
        ({"window_address": 0}, "A window of 128 bytes at 0 is not in a ring"),
    ]
    for values, message in wrong:
        with pytest.raises(DeviceError, match=f"^{message}$"):
            device.start(1, replace(task, **values))


@pytest.mark.parametrize("channel", ["r", "b"])
def test_errors_of_the_memory(channel: str) -> None:
    """An answer with an error is never taken for data, even where the task comes to its end."""
    parameters, _ = CARDS["at full rate"]
    card = card_of(**parameters)
    with SimulatedCard(card, memory_bytes=1 << 16, latency=7, faults={channel: 2}) as device:
        batch = batch_of(device, 1, (9, 70), 3)
        task = make_task(device, 1, batch, 0)
        results = expected(SHAPES[1], [batch], task.time_range).pairs[0].total()
        assert results > 4 * WORD // 8, "they take more than one burst of four words"
        device.start(1, task)
        message = (
            "The card's memory answered pipeline 1 with an error; "
            "what it read or wrote is not to be trusted"
        )
        with pytest.raises(DeviceError, match=f"^{re.escape(message)}$"):
            finish(device, 1, 100)
        assert device.status(0).state == "idle"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"id_bits": 33}, "Ids on a card have 2 to 32 bits, not 33"),
    ({"word_bytes": 24}, "A bus word has 8, 16, 32, 64 or 128 bytes, not 24"),
    ({"address_bits": 8}, "Addresses have 16 to 64 bits, not 8"),
    ({"burst": 129}, "A burst of this bus has 1 to 128 words, not 129"),
    ({"word_bytes": 8, "time_bits": 64}, "A tuple takes 12 bytes in memory, and a bus word has 8"),
]


@pytest.mark.parametrize(("parameters", "message"), WRONG)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        card_of(**parameters)


def test_registers_and_records() -> None:
    card = card_of()
    names = [register.name for register in card.registers]
    assert len(set(names)) == len(names)
    assert {"p0_command", "p1_state", "p1_cycles_hi"} <= set(names)
    records = card.describe()["records"]
    assert records["left"] == {
        "word_bytes": 32, "stride": 5, "per_word": 6,
        "fields": [
            {"name": "#id", "offset": 0, "width": 10, "signed": False},
            {"name": "#time", "offset": 10, "width": 12, "signed": False},
            {"name": "x", "offset": 22, "width": 7, "signed": True},
            {"name": "y", "offset": 29, "width": 9, "signed": False},
        ],
    }  # fmt: skip
    assert records["result"]["stride"] == 8
