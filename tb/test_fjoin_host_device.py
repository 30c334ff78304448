"""The card in plain Python, and how tuples lie in its memory, against plain definitions."""

import random
import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joinery.expr import Abs, Arith, Column, Compare, Const, Expr, Logic, evaluate
from joinery.join import JoinPair
from joinery.tuples import DecimalType, Field, IntType, Schema, StringType
from joinery_gen.fjoin_host import (
    BitField,
    CardLayout,
    CardTask,
    DeviceError,
    ModelDevice,
    PipelineInfo,
    RecordLayout,
)
from joinery_gen.query import JoineryError

K, V = IntType(6), IntType(8)
SCHEMA = Schema((Field("k", K), Field("v", V)))


def make_pair(most: int = 5) -> JoinPair:
    """A band join of ``r`` and ``s`` on ``k``."""
    apart = Arith("-", Column("r", "k", K), Column("s", "k", K))
    near = Compare("<=", Abs(apart), Const.number(most))
    return JoinPair(("r", "s"), SCHEMA, SCHEMA, near, (), ())


PAIR = make_pair()


# Layout.


def test_layout_is_plain_data() -> None:
    layout = CardLayout.of_pair(PAIR, id_bits=6, time_bits=9, word_bytes=16)
    described = layout.as_dict()
    assert described["left"] == {
        "word_bytes": 16,
        "stride": 3,
        "per_word": 5,
        "fields": [
            {"name": "#id", "offset": 0, "width": 6, "signed": False},
            {"name": "#time", "offset": 6, "width": 9, "signed": False},
            {"name": "k", "offset": 15, "width": 6, "signed": True},
        ],
    }
    assert described["result"]["fields"] == [
        {"name": "#stream", "offset": 0, "width": 6, "signed": False},
        {"name": "#window", "offset": 32, "width": 6, "signed": False},
    ]
    assert CardLayout.from_dict(described) == layout
    assert (layout.id_bits, layout.time_bits, layout.word_bytes) == (6, 9, 16)


def test_four_taxis_in_a_word() -> None:
    """The tuples of the order/taxi join need a quarter of the 64 bytes of the paper's."""
    degrees = DecimalType(9, 6)
    names = ("longitude", "latitude")
    schema = Schema(tuple(Field(name, degrees) for name in names))
    o, t = ([Column(alias, name, degrees) for name in names] for alias in "ot")
    terms = [Abs(Arith("-", a, b)) for a, b in zip(o, t, strict=True)]
    near = Compare("<=", Arith("+", *terms), Const.number(5, 3))
    layout = CardLayout.of_pair(JoinPair(("o", "t"), schema, schema, near, (), ()))
    assert (layout.left.stride, layout.left.per_word) == (16, 4)
    assert (layout.result.stride, layout.result.per_word) == (8, 8)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"id_bits": 1}, "Ids have 2 to 32 bits, not 1"),
        ({"time_bits": 65}, "Times have 2 to 64 bits, not 65"),
        ({"word_bytes": 12}, "A bus word has a power of two of bytes, and 8 at least, not 12"),
        (
            {"word_bytes": 8},
            "A tuple takes 9 bytes in the card's memory, and a bus word has 8; use shorter columns "
            "in the predicate, or a wider bus",
        ),
    ],
)
def test_layout_refuses(settings: dict[str, int], error: str) -> None:
    with pytest.raises(JoineryError, match=f"^{re.escape(error)}$"):
        CardLayout.of_pair(PAIR, **settings)


@st.composite
def records(draw: st.DrawFn) -> tuple[RecordLayout, dict[str, list[int]]]:
    widths = draw(st.lists(st.tuples(st.integers(1, 90), st.booleans()), min_size=1, max_size=5))
    fields, end = [], 0
    for number, (width, signed) in enumerate(widths):
        end += draw(st.integers(0, 3))
        fields.append(BitField(f"f{number}", end, width, signed))
        end += width
    layout = RecordLayout(64, -(-end // 8), tuple(fields))
    count = draw(st.integers(0, 20))
    columns = {}
    for field in fields:
        low = -(1 << field.width - 1) if field.signed else 0
        high = low + (1 << field.width) - 1
        columns[field.name] = draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
    return layout, columns


@given(records())
def test_pack_by_definition(case: tuple[RecordLayout, dict[str, list[int]]]) -> None:
    layout, columns = case
    arrays = {name: np.array(values, dtype=object) for name, values in columns.items()}
    words = layout.pack(arrays)
    count = len(next(iter(columns.values())))
    assert len(words) == layout.words(count) * 64
    whole = int.from_bytes(words, "little")
    expected = 0
    for row in range(count):
        word, place = divmod(row, layout.per_word)
        for field in layout.fields:
            raw = columns[field.name][row] & (1 << field.width) - 1
            expected |= raw << 8 * (64 * word + layout.stride * place) + field.offset
    assert whole == expected
    back = layout.unpack(words, count)
    assert {name: values.tolist() for name, values in back.items()} == columns


# The model.


def by_definition(
    task: CardTask,
    units: int,
    stream: list[tuple[int, int, int]],
    window: list[tuple[int, int, int]],
    layout: CardLayout,
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a task of side left, in the order of a pipeline."""
    half, whole = 1 << layout.id_bits - 1, 1 << layout.id_bits
    times = 1 << layout.time_bits
    for first in range(0, len(stream), units):
        for w_id, w_time, w_k in window:
            for x_id, x_time, x_k in stream[first : first + units]:
                apart = (x_time - w_time) % times
                apart -= times if apart >= times // 2 else 0
                if (
                    0 < (x_id - w_id) % whole < half
                    and abs(apart) <= task.time_range
                    and evaluate(PAIR.predicate, {("r", "k"): x_k, ("s", "k"): w_k})
                ):
                    yield x_id, w_id


def write_records(
    device: ModelDevice, layout: RecordLayout, address: int, rows: list[tuple[int, int, int]]
) -> None:
    columns = dict(zip(("#id", "#time", "k"), zip(*rows, strict=True), strict=True))
    device.write(address, layout.pack({n: np.array(v) for n, v in columns.items()}))


@pytest.mark.parametrize("seed", range(20))
def test_model_by_definition(seed: int) -> None:
    draw = random.Random(seed)
    layout = CardLayout.of_pair(PAIR, id_bits=5, time_bits=6, word_bytes=16)
    per_word = layout.right.per_word
    units, capacity = draw.randint(1, 8), draw.randint(1, 30)
    device = ModelDevice(PAIR, layout, [PipelineInfo("left", units)], memory_bytes=1 << 12)

    def rows(count: int) -> list[tuple[int, int, int]]:
        return [(draw.randrange(32), draw.randrange(64), draw.randrange(-8, 8))
                for _ in range(count)]  # fmt: skip

    stream, ring = rows(draw.randint(1, 20)), rows(10 * per_word)
    base, end = 0x400, 0x400 + 16 * 10
    write_records(device, layout.left, 0, stream)
    write_records(device, layout.right, base, ring)
    first = draw.randrange(10)
    count = draw.randint(0, len(ring))
    window = (ring[first * per_word :] + ring)[:count]
    task = CardTask(
        *(0, len(stream)), *(base + 16 * first, count), *(base, end), *(0x800, capacity), 11
    )
    device.start(0, task)
    found: list[tuple[int, int]] = []
    status = None
    while status is None or status.state != "done":
        device.wait()
        status = device.status(0)
        if status.state != "running":
            content = device.read(0x800, 8 * status.results)
            got = layout.result.unpack(content, status.results)
            found += zip(got["#stream"].tolist(), got["#window"].tolist(), strict=True)
        if status.state == "overflow":
            assert status.results == capacity
            device.resume(0, 0x800, capacity)
    assert found == list(by_definition(task, units, stream, window, layout))
    counters = device.status(0).counters
    assert counters["batches"] == -(-len(stream) // units)
    assert counters["window_tuples"] == counters["batches"] * count
    assert counters["results"] == len(found)
    assert device.cycles == counters["cycles"]


def test_model_aborts() -> None:
    layout = CardLayout.of_pair(PAIR, word_bytes=64)
    device = ModelDevice(PAIR, layout, [PipelineInfo("left", 1)])
    write_records(device, layout.left, 0, [(3, 0, 0), (4, 0, 0)])
    write_records(device, layout.right, 64, [(1, 0, 0), (2, 0, 0)])
    task = CardTask(*(0, 2), *(64, 2), *(64, 128), *(128, 1), 0)
    for _ in range(2):  # in the middle of a full buffer, and again from there
        device.start(0, task)
        device.wait()
        assert device.status(0).state == "overflow"
        device.abort(0)
        assert device.status(0).state == "idle"


TASK = CardTask(*(0, 1), *(64, 2), *(64, 128), *(128, 8), 0)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"stream_count": 0}, "A task has 0 stream tuples, and 1 is the least"),
        ({"stream_address": 8}, "A stream buffer at 8 does not begin at a bus word"),
        ({"stream_address": 4096}, "A stream buffer of 64 bytes at 4096 is outside the memory"),
        ({"result_capacity": 0}, "A result buffer holds 0 results, and 1 is the least"),
        ({"window_address": 128}, "A window of 64 bytes at 128 is not in a ring"),
        ({"window_count": 99}, "A window of 960 bytes at 64 is not in a ring"),
        ({"window_end": 100}, "A ring's end at 100 does not begin at a bus word"),
        ({"time_range": 1 << 31}, "A time range of 2147483648 does not fit"),
    ],
)
def test_model_refuses_tasks(change: dict[str, int], error: str) -> None:
    layout = CardLayout.of_pair(PAIR)
    device = ModelDevice(PAIR, layout, [PipelineInfo("left", 4)], memory_bytes=4096)
    with pytest.raises(DeviceError, match=f"^{re.escape(error)}$"):
        device.start(0, CardTask(**{**vars(TASK), **change}))


def test_model_refuses_commands() -> None:
    layout = CardLayout.of_pair(PAIR)
    device = ModelDevice(PAIR, layout, [PipelineInfo("left", 4)], memory_bytes=4096)
    with pytest.raises(DeviceError, match=r"^Pipeline 0 was resumed, and it is idle$"):
        device.resume(0, 0, 8)
    device.start(0, TASK)
    with pytest.raises(DeviceError, match=r"^Pipeline 0 was started in the middle of a task$"):
        device.start(0, TASK)
    with pytest.raises(DeviceError, match=r"^A write of 3 bytes is not one of whole bus words$"):
        device.write(0, b"abc")
    with pytest.raises(DeviceError, match=r"^A read of 8 bytes at 4090 is outside the memory$"):
        device.read(4090, 8)


def test_wide_columns_in_the_predicate() -> None:
    """Strings of more than 8 bytes are compared as Python's integers."""
    kind = StringType(12)
    schema = Schema((Field("name", kind),))
    same: Expr = Compare("=", Column("r", "name", kind), Column("s", "name", kind))
    pair = JoinPair(("r", "s"), schema, schema, Logic("AND", (same, same)), (), ())
    layout = CardLayout.of_pair(pair)
    device = ModelDevice(pair, layout, [PipelineInfo("right", 4)], memory_bytes=4096)
    names = [kind.encode(name) for name in ("a", "abcdefghijkl", "a")]
    for address, layout_of, first in ((0, layout.right, 3), (64, layout.left, 0)):
        columns = {"#id": np.arange(first, first + 3), "#time": np.zeros(3, np.int64)}
        words = layout_of.pack({**columns, "name": np.array(names, dtype=object)})
        device.write(address, words)
    device.start(0, CardTask(*(0, 3), *(64, 3), *(64, 128), *(128, 8), 0))
    device.wait()
    got = layout.result.unpack(device.read(128, 64), device.status(0).results)
    pairs = list(zip(got["#stream"].tolist(), got["#window"].tolist(), strict=True))
    assert pairs == [(3, 0), (5, 0), (4, 1), (3, 2), (5, 2)]
