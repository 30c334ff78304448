# amaranth: UnusedElaboratable=no
"""Proof for a small engine: every tuple in time is counted in exactly its windows.

The solver chooses the input, the stalls, and one window to watch, in runs of 11 cycles from a
reset. A counter holds what the definition says of that window; its row must say the same, come
once, and come if there is anything in it. A row needs 7 cycles, so that there is room for up to
three transfers before the one that closes the window.
"""

import pytest
from amaranth.hdl import Assert, Assume, Module, Mux, ResetSignal, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from joinery.aggregate import Aggregate, PaneQuery, PaneStream
from joinery.panes import PaneAggregation
from joinery.tuples import Field, IntType, Schema
from joinery_synth.prove import prove

BITS = 2  # of a time, which is signed


class CountsWindows(wiring.Component):
    """The engine, the definition's count of one window, and the assertions.

    Members
    -------
    i : In(stream)
        The input; nothing may follow the end.
    ready : In(1)
    watched : In(signed)
        The end of the window; it does not change.
    """

    def __init__(self, *, range, slide, slack, really=None):
        schema = Schema((Field("t", IntType(BITS)),))
        query = PaneQuery(None, (Aggregate("n", "count"),), range, slide)
        self.query, self.slack = query, slack
        self.engine = PaneAggregation(
            PaneStream("s", schema, "t", slack if really is None else really),
            [query],
            sum_rows=7,
            slots=4,
            tag_bits=2,
        )
        super().__init__(
            {
                "i": In(stream.Signature(self.engine.source.transfer())),
                "ready": In(1),
                "watched": In(self.engine.end_time),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self.engine
        slack, pane, query = self.slack, engine.pane, self.query
        wiring.connect(m, wiring.flipped(self.i), engine.i)
        m.d.comb += engine.o.ready.eq(self.ready)

        started, ended, held = Signal(), Signal(), Signal.like(self.watched, reset_less=True)
        m.d.sync += [started.eq(1), held.eq(self.watched)]
        m.d.comb += Assume(~started | (held == self.watched))
        m.d.comb += Assume((self.watched - query.range) % query.slide == 0)
        m.d.comb += Assume(~(ended & self.i.valid))
        m.d.comb += Assume(~ResetSignal() | ~started)

        lane = self.i.payload.lanes[0]
        seen, count = Signal(), Signal(4)
        time = Signal(IntType(BITS).shape)
        latest = Signal.like(time)
        m.d.comb += time.eq(lane.tuple.t)
        pane_end = (time // pane + 1) * pane
        late = seen & (pane_end <= latest - slack)
        inside = (time < self.watched) & (time >= self.watched - query.range)
        with m.If(self.i.valid & self.i.ready):
            with m.If(self.i.payload.end):
                m.d.sync += ended.eq(1)
            with m.Elif(lane.valid):
                m.d.sync += [seen.eq(1), latest.eq(Mux(seen & (latest > time), latest, time))]
                with m.If(~lane.punctuation & ~late & inside):
                    m.d.sync += count.eq(count + 1)

        out, came = engine.o.payload, Signal()
        row = out.rows[0].row.query_0
        leaves = engine.o.valid & self.ready
        is_watched = leaves & ~out.end & (row.end_time == self.watched)
        m.d.sync += came.eq(came | is_watched)
        m.d.comb += [
            Assert(~is_watched | ((row.value.n == count) & ~came)),
            Assert(~(leaves & out.end) | (came == (count != 0))),
        ]
        return m


SMALL = [
    {"range": 2, "slide": 1, "slack": 0},
    {"range": 3, "slide": 2, "slack": 1},
]


@pytest.mark.parametrize("shape", SMALL)
def test_every_tuple_in_its_windows(shape):
    assert prove(CountsWindows(**shape), mode="bmc", depth=11, timeout=120)


def test_the_proof_can_fail():
    """An engine with another slack than the definition is found out."""
    assert not prove(CountsWindows(range=2, slide=1, slack=0, really=1), mode="bmc", depth=11)
