"""The host with the simulated card: generated Verilog, memory and all."""

from collections.abc import Iterator

import pytest

from joinery.fjoin import FJoinCard
from joinery_gen.fjoin_host import CardLayout, HostSettings, card_pair
from joinery_tb.card import SimulatedCard
from joinery_tb.host_cases import Case, band_query, make_tuples, run_host

QUERY = band_query(10)
LAYOUT = CardLayout.of_pair(card_pair(QUERY), id_bits=8, time_bits=16, word_bytes=16)


@pytest.fixture(scope="module")
def card() -> FJoinCard:
    pipelines = [("left", 4), ("right", 3), ("right", 6)]
    return FJoinCard(
        card_pair(QUERY), pipelines=pipelines, cluster=2, id_bits=8, time_bits=16, word_bytes=16,
        burst=4,
    )  # fmt: skip


@pytest.fixture
def device(card: FJoinCard) -> Iterator[SimulatedCard]:
    with SimulatedCard(card, memory_bytes=1 << 16, stalls={"r": 0.2, "w": 0.2}) as device:
        yield device


def test_card_and_host_agree_on_records(card: FJoinCard) -> None:
    assert card.describe()["records"] == LAYOUT.as_dict()


@pytest.mark.parametrize("results", [4, None])
def test_each_pair_once_and_in_order(device: SimulatedCard, results: int | None) -> None:
    """Four sources each, disorder, several rounds of ids, and result buffers of any size."""
    tuples = make_tuples(600, sources=(4, 4), pace=1.0, slack=5, skew=2, seed=7)
    chosen = HostSettings(4, 4, slice_tuples=8, result_tuples=results, stream_tuples=9)
    case = Case(QUERY, 10, tuples, range(0, 600, 40), settings=chosen).with_signals(20)
    result = run_host(case, device, LAYOUT)
    assert result.pairs == case.pairs()
    assert len(result.pairs) > 500


def test_it_starts_anew_after_an_abort(device: SimulatedCard) -> None:
    tuples = make_tuples(100, pace=20.0, seed=3)
    case = Case(QUERY, 10, tuples)
    expected = case.pairs()
    for _ in range(2):
        assert run_host(case, device, LAYOUT).pairs == expected
        for pipeline in range(3):
            device.abort(pipeline)
