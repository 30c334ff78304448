"""What the host of a card refuses, and what it notices of a card that breaks the contract."""

import re

import numpy as np
import pytest

from joinery_gen.fjoin_host import (
    CardLayout,
    CardStatus,
    DeviceError,
    Host,
    HostSettings,
    ModelDevice,
    PipelineInfo,
    card_pair,
)
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError, JoinQuery
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


def test_refuses_row_windows() -> None:
    streams = "CREATE STREAM r (k INT);\nCREATE STREAM s (k INT);\n"
    query = parse(f"{streams}SELECT r.k FROM r [ROWS 2], s [ROWS 2] WHERE r.k = s.k;", "q").body
    assert isinstance(query, JoinQuery)
    device, layout = model_card(band_query(1), PIPELINES)
    error = r"^A card joins time windows, \[RANGE \.\.\.\]; this query's are of rows$"
    with pytest.raises(JoineryError, match=error):
        Host(query, device, layout, lambda rows, report: None)


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        ({"sources_left": 0}, "The left stream needs at least 1 source, not 0"),
        ({"slice_tuples": 0}, "A slice has at least 1 tuple, not 0"),
        ({"stream_tuples": 0}, "stream_tuples must be at least 1, not 0"),
        ({"result_tuples": 0}, "result_tuples must be at least 1, not 0"),
        ({"window_right": 0}, "window_right must be at least 1 tuple, not 0"),
        ({"backlog": 0}, "backlog must be at least 1, not 0"),
        (
            {"window_right": 1 << 20},
            "The buffers need more than the 262144 bytes of the card's memory; lower "
            "stream_tuples, result_tuples or the windows",
        ),
    ],
)
def test_refuses_settings(chosen: dict[str, int], error: str) -> None:
    query = band_query(1)
    device, layout = model_card(query, PIPELINES)
    with pytest.raises(JoineryError, match=f"^{re.escape(error)}$"):
        Host(query, device, layout, lambda rows, report: None, HostSettings(**chosen))


def test_refuses_a_range_of_too_many_bits() -> None:
    query = band_query(16)
    device, layout = model_card(query, PIPELINES, time_bits=5)
    error = (
        "RANGE is 16, and a card with times of 5 bits takes at most 15; build it with a larger "
        "time_bits"
    )
    with pytest.raises(JoineryError, match=f"^{re.escape(error)}$"):
        Host(query, device, layout, lambda rows, report: None)


def test_refuses_a_card_with_one_side() -> None:
    query = band_query(1)
    device, layout = model_card(query, [PipelineInfo("left", 4)])
    error = r"^The card has no pipeline for tuples of the right stream$"
    with pytest.raises(JoineryError, match=error):
        Host(query, device, layout, lambda rows, report: None)


def one_task() -> Case:
    tuples = [Tuple(side, 0, 0, 0) for side in ("left", "right", "left", "right")]
    return Case(band_query(1), 1, tuples)


def test_says_what_is_too_far_apart() -> None:
    tuples = [Tuple("left", 0, 0, 0), *[Tuple("left", 0, 99, 0)] * 8, Tuple("right", 0, 0, 0)]
    case = Case(band_query(1), 1, tuples)
    device, layout = model_card(case.query, PIPELINES, id_bits=4)
    error = (
        "Two tuples in range of each other are 9 tuples apart, and ids of 4 bits tell which came "
        "first only below 8; build the card with a larger id_bits"
    )
    with pytest.raises(JoineryError, match=f"^{re.escape(error)}$"):
        run_host(case, device, layout)


def test_says_that_times_wrap() -> None:
    times = [0, 500, 0]
    tuples = [Tuple("left", 0, time, 0) for time in times] + [Tuple("right", 0, 0, 0)]
    case = Case(band_query(1), 1, tuples)
    device, layout = model_card(case.query, PIPELINES, time_bits=8)
    error = (
        "Times in one window are 500 apart, and with times of 8 bits and RANGE 1 they must be less "
        "than 255; build the card with a larger time_bits"
    )
    with pytest.raises(JoineryError, match=f"^{re.escape(error)}$"):
        run_host(case, device, layout)


def test_says_that_the_window_is_full() -> None:
    """Nobody signals, so nothing expires: the host says what to raise, and does not hang."""
    tuples = make_tuples(100, pace=1.0, seed=4)
    chosen = HostSettings(window_left=14)
    case = Case(band_query(1), 1, tuples, range(0, 100, 10), settings=chosen)
    device, layout = model_card(case.query, PIPELINES)
    error = (
        r"^The card holds 14 tuples of the left stream, and \d+ are needed at once; raise "
        r"window_left, or have the sources of the right stream signal their time more often$"
    )
    with pytest.raises(JoineryError, match=error):
        run_host(case, device, layout)


class Broken(ModelDevice):
    """A card that does not keep the contract."""

    status_of: CardStatus | None = None
    ids: bytes | None = None

    def status(self, pipeline: int) -> CardStatus:
        found = super().status(pipeline)
        return self.status_of if self.status_of and found.state == "done" else found

    def read(self, address: int, count: int) -> bytes:
        return self.ids if self.ids is not None else super().read(address, count)

    def wait(self) -> None:
        super().wait()
        self.cycles += 10_000_000


def broken_card() -> tuple[Broken, CardLayout]:
    pair = card_pair(one_task().query)
    layout = CardLayout.of_pair(pair)
    return Broken(pair, layout, PIPELINES), layout


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (CardStatus("idle"), "Pipeline 0 is idle in the middle of a task"),
        (CardStatus("running"), "No pipeline has moved for 50000000 cycles"),
    ],
)
def test_notices_a_card_that_stops(status: CardStatus, error: str) -> None:
    device, layout = broken_card()
    device.status_of = status
    with pytest.raises(DeviceError, match=f"^{error}$"):
        run_host(one_task(), device, layout)


def test_notices_too_many_results() -> None:
    device, layout = broken_card()
    device.status_of = CardStatus("done", 1 << 30)
    error = r"^Pipeline 0 reports 1073741824 results in a buffer for \d+$"
    with pytest.raises(DeviceError, match=error):
        run_host(one_task(), device, layout)


@pytest.mark.parametrize(("stream", "window", "side"), [(1, 0, "left"), (2, 0, "right")])
def test_notices_pairs_of_other_tuples(stream: int, window: int, side: str) -> None:
    device, layout = broken_card()
    ids = {"#stream": np.array([stream]), "#window": np.array([window])}
    device.ids = layout.result.pack(ids)
    number = {"left": stream, "right": window}[side]
    error = (
        f"Pipeline 0 reports a pair with tuple {number} of the {side} stream, which was not in its "
        "task"
    )
    device.status_of = CardStatus("done", 1)
    with pytest.raises(DeviceError, match=f"^{re.escape(error)}$"):
        run_host(one_task(), device, layout)


def test_abort_leaves_the_card_idle() -> None:
    query = band_query(1)
    device, layout = model_card(query, PIPELINES)
    host = Host(query, device, layout, lambda rows, report: None)
    tuples = make_tuples(50, pace=10.0, seed=1)
    host.add(arrivals(tuples, 0))
    host.cut()
    host.scheduler.step()
    assert "running" in [device.status(number).state for number in range(2)]
    host.abort()
    assert [device.status(number).state for number in range(2)] == ["idle", "idle"]
