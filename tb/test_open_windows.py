# amaranth: UnusedElaboratable=no
"""The baselines against the same definition as the panes engine."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.aggregate import PaneQuery, PaneStream
from joinery.open_windows import GlacierAggregation, WIDAggregation
from joinery_tb.panes import items_to_transfers, run_engine
from joinery_tb.simulate import STALLS
from test_panes import ALL, COUNT, KEYED, POSITIVE, SHAPES, check, item_lists, source_of


@settings(max_examples=15)
@given(
    shape=SHAPES,
    slack=st.sampled_from([0, 1, 5]),
    inputs=st.lists(item_lists(), min_size=1, max_size=2),
    stall_in=st.sampled_from(sorted(STALLS)),
    stall_out=st.sampled_from(sorted(STALLS)),
)
def test_wid(shape, slack, inputs, stall_in, stall_out):
    engine = WIDAggregation(source_of(slack), [PaneQuery(POSITIVE, ALL, *shape)])
    check(engine, inputs, stall_in=STALLS[stall_in], stall_out=STALLS[stall_out])


def time_of(item):
    return item if isinstance(item, int) else item["time"]


@settings(max_examples=10)
@given(shape=SHAPES, items=item_lists(), stall_out=st.sampled_from(sorted(STALLS)))
def test_glacier_in_order(shape, items, stall_out):
    engine = GlacierAggregation(source_of(), [PaneQuery(POSITIVE, ALL, *shape)])
    check(engine, [sorted(items, key=time_of)] * 2, stall_out=STALLS[stall_out])


def test_glacier_tells_disorder():
    engine = GlacierAggregation(source_of(5), [PaneQuery(None, (COUNT,), 4, 2)])
    items = [{"time": time, "v": 0} for time in (10, 12, 11)]
    found = run_engine(engine, [items_to_transfers(source_of(), items)])
    assert found.errors == 1 << engine.ORDER


def test_one_module_per_window():
    for n in (64, 128):
        engine = WIDAggregation(source_of(), [PaneQuery(None, (COUNT,), 60 * n, 60)])
        assert engine.modules == n + 1


@pytest.mark.parametrize(
    ("source", "queries", "message"),
    [
        (source_of(), [PaneQuery(None, (COUNT,), 4, 2)] * 2, "A baseline takes one query, not 2"),
        (
            PaneStream("t", KEYED, "time", 0, ("k",)),
            [PaneQuery(None, (COUNT,), 4, 2)],
            "A baseline takes no GROUP BY",
        ),
    ],
)
def test_wrong_parameters(source, queries, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        WIDAggregation(source, queries)
