"""The engine for windows of time: the same queues, closed by the watermark."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Buffer, Queue
from .commands import eviction_layout
from .engine import KernelBank, KeyedAggregate, check_aggregates
from .keys import SlotTable
from .levels import Queues
from .ports import pass_on
from .sequencer import Sequencer, timed_tuple_layout
from .sift import Sifter
from .storage import Storage, check_storage
from .windows import TimeWindows

__all__ = ["KeyedTimeAggregator"]


class KeyedTimeAggregator(wiring.Component):
    """Aggregates over sliding windows of time, for each key: queues, and kernels.

    The windows are those of ``TimeWindows``. A tuple whose pane had closed when it came is dropped
    and late. A window is reported for each key that has tuples in it, once the watermark has
    reached its end, or at the end of the input.

    Throughput: one tuple per cycle while no window closes, as far as the memories keep up. While
    one closes, no tuple is taken: that takes the time of ``Sequencer``, and of reading all values
    kept of all keys once.

    Parameters
    ----------
    queues : Queues
        ``rows`` is the most values that a key may have; its ``width`` is that of
        ``windows.kept(columns)``.
    windows : TimeWindows
    columns : data.StructLayout
        What is kept of a tuple, besides its label.
    aggregates : sequence of KeyedAggregate
    key_width, ways, depth : int
        As for ``MultiLevelQueue``.

    Members
    -------
    i : In(stream.Signature(timed_tuple_layout(windows, columns, key_width)))
        After ``end`` nothing is taken until the key table is clear again.
    o : Out(stream.Signature({"end", "key", "end_time", "value": self.results}))
        The rows of a window in any order, the windows in theirs; and the end.
    o_evicted : Out(stream.Signature(eviction_layout(queues, key_width)))
        Keys that lost their place while they had values. Its ``count`` has values that are in no
        window any more, if they came after others that are.
    late : Out(1)
        A tuple was late, in this cycle.
    overflow : Out(1)
        A tuple found the queue of its key full and was lost; high until reset.
    ports_<k>
        As for ``MultiLevelQueue``.
    """

    i: stream.Interface
    o: stream.Interface
    o_evicted: stream.Interface
    late: Signal
    overflow: Signal

    def __init__(
        self,
        queues: Queues,
        windows: TimeWindows,
        columns: data.StructLayout,
        aggregates: Sequence[KeyedAggregate],
        *,
        key_width: int,
        ways: int = 4,
        depth: int = 16,
    ) -> None:
        kept = windows.kept(columns).size
        if kept != queues.width:
            raise ValueError(
                f"Columns of {columns.size} bits and labels of {windows.label.size} "
                f"are no values of {queues.width}"
            )
        check_aggregates(columns, aggregates)
        check_storage(queues, key_width, ways, depth)
        self.queues = queues
        self.windows = windows
        self.columns = columns
        self.aggregates = tuple(aggregates)
        self.depth = depth
        self.table = SlotTable(queues, key_width=key_width, ways=ways)
        self.sequencer = Sequencer(windows, columns, self.table)
        self.storage = Storage(self.table, depth=depth)
        self.kernels = KernelBank(queues, columns, aggregates, lanes=queues.lanes)
        self.results = self.kernels.results
        row = data.StructLayout(
            {"end": 1, "key": key_width, "end_time": windows.end_time, "value": self.results}
        )
        outputs = self.storage.signature.members
        super().__init__(
            {
                "i": In(stream.Signature(timed_tuple_layout(windows, columns, key_width))),
                "o": Out(stream.Signature(row)),
                "o_evicted": Out(stream.Signature(eviction_layout(queues, key_width))),
                "late": Out(1),
                "overflow": Out(1),
                **{f"ports_{k}": outputs[f"ports_{k}"] for k in range(len(queues.levels))},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sequencer = sequencer = self.sequencer
        m.submodules.table = table = self.table
        m.submodules.steps = steps = Buffer(table.step)
        m.submodules.storage = storage = self.storage
        m.submodules.sifter = sifter = Sifter(self.queues, self.windows, self.columns)
        m.submodules.kernels = kernels = self.kernels
        m.submodules.sweeps = sweeps = Queue(sequencer.o_sweep.payload.shape(), depth=4)
        m.submodules.found = found = Queue(1, depth=4 * self.depth)
        wiring.connect(m, wiring.flipped(self.i), sequencer.i)
        wiring.connect(m, sequencer.o, table.i)
        wiring.connect(m, table.o, steps.i)
        wiring.connect(m, steps.o, storage.i)
        wiring.connect(m, storage.o, sifter.i)
        wiring.connect(m, sifter.o, kernels.i)
        wiring.connect(m, sequencer.o_sweep, sweeps.i)
        pass_on(m, storage, self, omit=("i", "o", "o_tag"))

        done = steps.o.valid & steps.o.ready
        answer = sifter.o_answer
        m.d.comb += [
            self.late.eq(sequencer.late),
            sifter.window.eq(sequencer.window),
            sequencer.done.eq(done),
            sequencer.fresh.eq(steps.o.p.fresh),
            sequencer.slot.eq(steps.o.p.slot),
            sequencer.i_answer.payload.eq(answer.payload),
            found.i.payload.eq(answer.p.found),
            # The sequencer always has room for an answer.
            sequencer.i_answer.valid.eq(answer.valid & found.i.ready),
            found.i.valid.eq(answer.valid),
            answer.ready.eq(found.i.ready),
        ]
        with m.If(done & steps.o.p.overflow):
            m.d.sync += self.overflow.eq(1)
        self._deliver(m, storage.o_tag, kernels.o, found.o, sweeps.o)
        return m

    def _deliver(self, m: Module, tag: Any, results: Any, found: Any, sweep: Any) -> None:
        """Make a row of what belongs together; a window without tuples of the key has none."""
        m.submodules.rows = rows = Buffer(self.o.payload.shape())
        wiring.connect(m, rows.o, wiring.flipped(self.o))
        complete = Signal()
        moved = Signal()
        seen = Signal.like(sweep.p.slots)
        last = sweep.p.slots == seen + 1
        m.d.comb += [
            complete.eq(tag.valid & (tag.p.end | (results.valid & found.valid & sweep.valid))),
            rows.i.valid.eq(complete & (tag.p.end | found.payload)),
            rows.i.p.end.eq(tag.p.end),
            rows.i.p.key.eq(tag.p.key),
            rows.i.p.end_time.eq(sweep.p.end_time),
            rows.i.p.value.eq(results.payload),
            moved.eq(complete & (rows.i.ready | ~rows.i.valid)),
            tag.ready.eq(moved),
            results.ready.eq(moved & ~tag.p.end),
            found.ready.eq(moved & ~tag.p.end),
            sweep.ready.eq(moved & ~tag.p.end & last),
        ]
        with m.If(moved & ~tag.p.end):
            m.d.sync += seen.eq(Mux(last, 0, seen + 1))
