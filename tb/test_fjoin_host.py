"""The host with a card of plain Python, against brute force over all pairs."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery_gen.fjoin_host import (
    CardLayout,
    CardTask,
    Host,
    HostSettings,
    ModelDevice,
    PipelineInfo,
    Side,
    card_pair,
)
from joinery_gen.query import JoineryError
from joinery_tb.host_cases import (
    Case,
    Tuple,
    arrivals,
    band_query,
    make_tuples,
    model_card,
    run_host,
)

PIPELINES = [PipelineInfo("left", 4), PipelineInfo("right", 4)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    time_range = draw(st.integers(0, 12))
    sources = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    tuples = make_tuples(
        draw(st.integers(0, 60)),
        sources=sources,
        pace=draw(st.sampled_from([0.2, 0.5, 1.0, 3.0])),
        slack=draw(st.integers(0, 6)),
        skew=draw(st.sampled_from([0, 0, 3, 9])),
        seed=draw(st.integers(0, 1000)),
    )
    chosen = HostSettings(
        sources_left=sources[0],
        sources_right=sources[1],
        slice_tuples=draw(st.integers(1, 8)),
        stream_tuples=draw(st.sampled_from([None, 1, 3, 8])),
        result_tuples=draw(st.sampled_from([None, 1, 3, 8])),
        backlog=draw(st.integers(1, 4)),
    )
    cuts = draw(st.lists(st.integers(0, len(tuples)), max_size=12))
    case = Case(band_query(time_range), time_range, tuples, cuts, settings=chosen)
    every = draw(st.sampled_from([0, 1, 5, 20]))
    return case.with_signals(every) if every else case


@st.composite
def pipelines(draw: st.DrawFn) -> list[PipelineInfo]:
    units = st.lists(st.integers(1, 6), min_size=1, max_size=3)
    found = [PipelineInfo("left", n) for n in draw(units)]
    found += [PipelineInfo("right", n) for n in draw(units)]
    return draw(st.permutations(found))


def cards(**widths: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries(
        {"word_bytes": st.sampled_from([16, 32, 64]), "seed": st.integers(0, 1000), **widths}
    )


@settings(max_examples=200)
@given(cases(), pipelines(), cards(time_bits=st.sampled_from([10, 32, 64])))
def test_each_pair_once_and_in_order(
    case: Case, pipelines: list[PipelineInfo], card: dict[str, int]
) -> None:
    device, layout = model_card(case.query, pipelines, **card)
    result = run_host(case, device, layout)
    assert result.pairs == case.pairs()
    tuples = case.tuples
    assert result.rows == [(tuples[r].k, s, r - s) for r, s in result.pairs]
    assert sum(report.tuples for report in result.reports) == len(tuples)
    assert result.late == 0


@settings(max_examples=200)
@given(cases(), pipelines(), cards(id_bits=st.integers(4, 6)))
def test_ids_that_wrap(case: Case, pipelines: list[PipelineInfo], card: dict[str, int]) -> None:
    """Exact however often ids wrap; refused exactly where a pair is half of all ids apart."""
    device, layout = model_card(case.query, pipelines, **card)
    half = 1 << card["id_bits"] - 1
    if all(abs(left - right) < half for left, right in case.in_range()):
        assert run_host(case, device, layout).pairs == case.pairs()
    else:
        with pytest.raises(JoineryError, match=rf"ids of {card['id_bits']} bits tell .* {half};"):
            run_host(case, device, layout)


@pytest.mark.parametrize("bits", [4, 5])
def test_ids_half_a_round_apart(bits: int) -> None:
    """The last distance that ids can tell, and the first that they can't."""
    half = 1 << bits - 1
    near, far = Tuple("right", 0, 0, 0), Tuple("right", 0, 1000, 0)
    for distance in (half - 1, half):
        tuples = [Tuple("left", 0, 0, 0), *[far] * (distance - 1), near]
        case = Case(band_query(1), 1, tuples)
        device, layout = model_card(case.query, PIPELINES, id_bits=bits)
        if distance < half:
            assert run_host(case, device, layout).pairs == [(0, distance)]
        else:
            with pytest.raises(JoineryError, match=r"larger id_bits$"):
                run_host(case, device, layout)


@pytest.mark.parametrize("bits", [4, 5])
def test_a_task_of_more_than_a_round(bits: int) -> None:
    """Two stream tuples with the same id are told apart, though both fit one task."""
    last = 1 << bits
    tuples = [Tuple("left", 0, 1000, 0)] * (last + 1)
    tuples[last - 2], tuples[last] = Tuple("right", 0, 0, 0), Tuple("left", 0, 0, 0)
    case = Case(band_query(1), 1, tuples, settings=HostSettings(stream_tuples=100))
    device, layout = model_card(case.query, [PipelineInfo("left", 100), *PIPELINES], id_bits=bits)
    assert run_host(case, device, layout).pairs == [(last, last - 2)]


def test_ids_wrap_many_times() -> None:
    """A hundred rounds of 6 bits, with 4 sources each and disorder."""
    tuples = make_tuples(6400, sources=(4, 4), pace=1.0, slack=3, seed=5)
    chosen = HostSettings(4, 4, slice_tuples=4, result_tuples=2)
    case = Case(band_query(10), 10, tuples, range(0, 6400, 7), settings=chosen)
    case = case.with_signals(5)
    device, layout = model_card(case.query, [PipelineInfo("left", 3), *PIPELINES], id_bits=6)
    assert run_host(case, device, layout).pairs == case.pairs()


@settings(max_examples=200)
@given(cases(), pipelines(), cards(), st.integers(1, 30), st.integers(1, 30))
def test_small_windows(
    case: Case, pipelines: list[PipelineInfo], card: dict[str, int], left: int, right: int
) -> None:
    """Exact or refused; never refused where all that was ever in range would fit."""
    case = replace(case, settings=replace(case.settings, window_left=left, window_right=right))
    device, layout = model_card(case.query, pipelines, **card)
    expected = case.pairs()
    try:
        assert run_host(case, device, layout).pairs == expected
    except JoineryError as error:
        pattern = (
            r"^The card holds \d+ tuples of the (left|right) stream, and \d+ are needed at once; "
            r"raise window_(left|right), or have the sources of the (left|right) stream signal "
            r"their time more often$"
        )
        assert re.match(pattern, str(error))  # noqa: PT017 - both outcomes are right
        sides = [each.side for each in case.tuples]
        assert sides.count("left") > left or sides.count("right") > right


def test_a_small_window_takes_a_large_batch() -> None:
    """A task that is larger than the ring is cut into parts that wait for each other."""
    tuples = make_tuples(2000, pace=1.0, seed=8)
    chosen = HostSettings(window_left=64, window_right=64, slice_tuples=4)
    case = Case(band_query(8), 8, tuples, settings=chosen)
    device, layout = model_card(case.query, PIPELINES)
    assert run_host(case, device, layout).pairs == case.pairs()


@settings(max_examples=100)
@given(cases(), pipelines(), cards(time_bits=st.integers(5, 8)))
def test_times_that_wrap(case: Case, pipelines: list[PipelineInfo], card: dict[str, int]) -> None:
    """Exact or refused; never refused where all times are near each other."""
    device, layout = model_card(case.query, pipelines, **card)
    times = [each.time for each in case.tuples]
    try:
        assert run_host(case, device, layout).pairs == case.pairs()
    except JoineryError as error:
        assert re.match(r"^Times in one window are \d+ apart, and with times", str(error))  # noqa: PT017
        assert max(times) - min(times) >= (1 << card["time_bits"]) - case.time_range


@pytest.mark.parametrize("apart", [245, 246, 247, 256])
def test_times_a_round_apart(apart: int) -> None:
    """The difference of two times that is nearly a round never seems to be in range."""
    tuples = [Tuple("left", 0, time, 0) for time in (0, apart, 0)] + [Tuple("right", 0, 0, 0)]
    case = Case(band_query(10), 10, tuples)
    device, layout = model_card(case.query, PIPELINES, time_bits=8)
    if apart < 246:
        assert run_host(case, device, layout).pairs == case.pairs()
    else:
        with pytest.raises(JoineryError, match=r"larger time_bits$"):
            run_host(case, device, layout)


# Memory.


def test_a_slice_expires_when_it_is_out_of_range() -> None:
    """A tuple that is exactly RANGE older than a signal is still met; one a unit older is gone."""
    for age, kept in ((20, 1), (21, 0)):
        tuples = [Tuple("left", 0, 100 - age, 0), Tuple("right", 0, 100, 0)]
        signals: list[tuple[int, Side, int, int]] = [(1, "right", 0, 100)]
        case = Case(band_query(20), 20, tuples, [1], signals)
        device, layout = model_card(case.query, PIPELINES)
        result = run_host(case, device, layout)
        assert (result.pairs == [(0, 1)], len(result.pairs)) == (bool(kept), kept)


def test_a_waiting_tuple_is_kept() -> None:
    """What is in no task yet stays, however old it is; only then it goes."""
    query = band_query(20)
    device, layout = model_card(query, PIPELINES)
    host = Host(query, device, layout, lambda rows, report: None)
    host.add(arrivals([Tuple("left", 0, 0, 0)], 0))
    host.signal("right", 0, 100)
    host.controller.expire()
    assert len(host.controller.slices["left"]) == 0
    assert host.controller.oldest("left") == 0
    host.controller.take()
    assert host.controller.oldest("left") == 1


def test_memory_stays_bounded() -> None:
    """A long stream needs no more than a short one, and no pair is lost."""
    kept = []
    for count in (500, 4000):
        tuples = make_tuples(count, sources=(2, 3), pace=1.0, slack=2, seed=9)
        chosen = HostSettings(2, 3, slice_tuples=4, window_left=64, window_right=64)
        case = Case(band_query(10), 10, tuples, range(0, count, 20), settings=chosen)
        case = case.with_signals(10)
        device, layout = model_card(case.query, PIPELINES)
        result = run_host(case, device, layout)
        assert result.pairs == case.pairs()
        kept.append(result.kept)
    assert kept[1] <= 1.2 * kept[0] < 200


def test_one_silent_source_keeps_everything() -> None:
    tuples = [replace(each, source=0) for each in make_tuples(400, pace=1.0, seed=2)]
    chosen = HostSettings(2, 1, slice_tuples=4)
    case = Case(band_query(3), 3, tuples, range(0, 400, 20), settings=chosen)
    case = replace(case.with_signals(10))
    silent = [each for each in case.signals if each[1:3] != ("left", 1)]
    device, layout = model_card(case.query, PIPELINES)
    result = run_host(replace(case, signals=silent), device, layout)
    assert result.pairs == case.pairs()
    # left tuples expire by the right sources, right tuples by the left ones
    assert result.kept > sum(each.side == "right" for each in tuples) - 20


def test_the_slowest_source_counts() -> None:
    """A stream is only as far as the source that is least far."""
    tuples = [Tuple("left", 0, 0, 0), Tuple("right", 1, 0, 0)]
    signals: list[tuple[int, Side, int, int]] = [(1, "right", 0, 100), (1, "right", 1, 0)]
    case = Case(band_query(5), 5, tuples, [1], signals, HostSettings(sources_right=2))
    device, layout = model_card(case.query, PIPELINES)
    assert run_host(case, device, layout).pairs == [(0, 1)]


def test_late_tuples_are_counted() -> None:
    """What came too late still meets what is kept."""
    tuples = [Tuple("left", 0, 50, 0), Tuple("right", 0, 40, 0), Tuple("right", 0, 49, 0)]
    signals = [(1, side, 0, 50) for side in ("left", "right")]
    case = Case(band_query(20), 20, tuples, signals=signals)  # type: ignore[arg-type]
    device, layout = model_card(case.query, PIPELINES)
    result = run_host(case, device, layout)
    assert (result.late, result.pairs) == (2, [(0, 1), (0, 2)])


# Order, transfers, and the turn of pipelines.


class Spy(ModelDevice):
    """A card that remembers what it was told."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.told: list[tuple[Any, ...]] = []
        self.written = 0

    def start(self, pipeline: int, task: CardTask) -> None:
        self.told.append(("start", pipeline, task.stream_count))
        super().start(pipeline, task)

    def write(self, address: int, data: bytes) -> None:
        self.told.append(("write", address))
        self.written += len(data)
        super().write(address, data)

    def read(self, address: int, count: int) -> bytes:
        if hasattr(self, "told"):
            self.told.append(("read", address))
        return super().read(address, count)


def spied(case: Case, pipelines: list[PipelineInfo]) -> tuple[Spy, CardLayout]:
    layout = CardLayout.of_pair(card_pair(case.query))
    return Spy(card_pair(case.query), layout, pipelines), layout


def test_equal_pipelines_take_turns() -> None:
    tuples = [Tuple("left", 0, 0, 0)] + [Tuple("right", 0, 0, 0)] * 30
    case = Case(band_query(1), 1, tuples, range(1, 31))
    device, layout = spied(case, [PipelineInfo("left", 4), *[PipelineInfo("right", 4)] * 3])
    run_host(case, device, layout)
    turns = [pipeline for what, pipeline, *_ in device.told if what == "start"]
    assert turns == [1, 2, 3] * 10


def test_pipelines_get_shares_of_their_size() -> None:
    tuples = [Tuple("left", 0, 0, 0)] + [Tuple("right", 0, 0, 0)] * 120
    case = Case(band_query(1), 1, tuples, settings=HostSettings(stream_tuples=100))
    device, layout = spied(
        case, [PipelineInfo("left", 4), PipelineInfo("right", 2), PipelineInfo("right", 10)]
    )
    run_host(case, device, layout)
    starts = [each[1:] for each in device.told if each[0] == "start"]
    assert sorted(starts) == [(1, 20), (2, 100)]


def test_windows_are_written_once() -> None:
    """Besides the stream tuples, each tuple travels to the card once, in whole words."""
    tuples = make_tuples(1000, pace=10.0, seed=3)
    case = Case(band_query(50), 50, tuples, range(0, 1000, 100))
    device, layout = spied(case, PIPELINES)
    run_host(case, device, layout)
    assert layout.left.stride == layout.right.stride == 9
    records = 2 * len(tuples)
    # a task writes at most two words of each kind that are not full
    assert device.written <= 64 * (records / layout.left.per_word + 4 * 10)


def test_transfers_overlap() -> None:
    """The next stream tuples are written, and results are read, while the pipeline works."""
    tuples = [Tuple("left", 0, 0, 0)] + [Tuple("right", 0, 0, 0)] * 40
    chosen = HostSettings(stream_tuples=4, result_tuples=64)
    case = Case(band_query(1), 1, tuples, settings=chosen)
    device, layout = spied(case, PIPELINES)
    busy: list[tuple[str, bool]] = []
    for name in ("write", "read"):

        def watch(*arguments: Any, name: str = name) -> Any:
            busy.append((name, device.status(1).state == "running"))
            return getattr(Spy, name)(device, *arguments)

        setattr(device, name, watch)
    run_host(case, device, layout)
    writes = [working for name, working in busy if name == "write"]
    # the ring and the first buffer, then all while it runs
    assert writes == [False] * 2 + [True] * 9
    assert [working for name, working in busy if name == "read"][-1] is False
