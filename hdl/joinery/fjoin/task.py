"""A join pipeline with its own way to memory: it runs a task at a time.

It reads by two fetches, one for stream tuples and one for the window, which it reads anew for every
batch; the fetches have an id each. It writes results as they come, and stops when their buffer is
full, until it is given another.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..stream import Arbiter, Narrow
from .bus import axi4_members, connect_address
from .control import COUNTER_BITS, COUNTERS, STATES
from .deliver import Packer, Writer
from .fetch import Batcher, Fetch, burst_layout, stretch_layout
from .shape import ROLES

__all__ = ["CardPipeline"]


class CardPipeline(wiring.Component):
    """One pipeline with its AXI4 master: runs a task at a time.

    Throughput: as the pipeline, where memory gives a word of window tuples in time.

    Parameters
    ----------
    pipeline : FJoinPipeline
        Or a component with the same interface.
    word_bytes, address_bits, burst : int
        Width of the bus; bits of an address in bytes; words in a burst, at most.

    Members
    -------
    start, resume, abort : In(1)
    stream, window : In(stretch_layout)
        The task, which holds while it runs; as are ``result_address`` and ``result_capacity``,
        which may change before ``resume``.
    state : Out(2)
        One of ``STATES``.
    results : Out(32)
        Results in the present buffer.
    count_* : Out(COUNTER_BITS)
        Since the start of the task.
    error : Out(1)
        Memory answered with an error.
    awid ... rready : AXI4
    """

    start: Signal
    resume: Signal
    abort: Signal
    stream: Any
    window: Any
    result_address: Signal
    result_capacity: Signal
    time_range: Signal
    state: Signal
    results: Signal
    error: Signal

    def __init__(self, pipeline: Any, *, word_bytes: int, address_bits: int, burst: int) -> None:
        self.pipeline = pipeline
        self.word_bytes = word_bytes
        self.burst = burst
        self.word_shift = (word_bytes - 1).bit_length()
        self.word_address = address_bits - self.word_shift
        shape = pipeline.shape
        super().__init__(
            {
                "start": In(1),
                "resume": In(1),
                "abort": In(1),
                "stream": In(stretch_layout(self.word_address)),
                "window": In(stretch_layout(self.word_address)),
                "result_address": In(self.word_address),
                "result_capacity": In(32),
                "time_range": In(shape.time_bits - 1),
                "state": Out(2),
                "results": Out(32),
                **{f"count_{name}": Out(COUNTER_BITS) for name in COUNTERS},
                "error": Out(1),
                **axi4_members(address_bits, word_bytes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.pipeline.shape
        clear, begin, stop, flush = Signal(), Signal(), Signal(), Signal()
        whole = ResetInserter(clear)
        common = {
            "word_bytes": self.word_bytes, "address_bits": self.word_address, "burst": self.burst
        }  # fmt: skip
        streams = Fetch(stride=shape.stride("stream"), per_round=1, **common)
        windows = Fetch(stride=shape.stride("window"), per_round=shape.units, **common)
        packer, writer = Packer(shape, word_bytes=self.word_bytes), Writer(**common)
        for name, unit in (
            ("pipeline", self.pipeline), ("stream_fetch", streams), ("window_fetch", windows),
            ("packer", packer), ("writer", writer),
        ):  # fmt: skip
            m.submodules[name] = whole(unit)
        starts, ended = self._control(
            m, packer, writer, (streams, windows), clear, begin, stop, flush
        )
        m.d.comb += [
            streams.stretch.eq(self.stream), streams.rounds.eq(1),
            windows.stretch.eq(self.window), windows.rounds.eq(self.stream.count),
            self.pipeline.time_range.eq(self.time_range),
            packer.capacity.eq(self.result_capacity), writer.address.eq(self.result_address),
            self.results.eq(packer.results), ended.eq(packer.ended),
        ]  # fmt: skip
        for fetch in (streams, windows):
            m.d.comb += [fetch.start.eq(starts), fetch.stop.eq(stop)]
        for unit in (packer, writer):
            m.d.comb += [unit.begin.eq(begin), unit.flush.eq(flush)]
        m.d.comb += writer.stop.eq(stop)
        self._feed(m, whole, streams, windows)
        wiring.connect(m, self.pipeline.o, packer.i)
        wiring.connect(m, packer.o, writer.i)
        self._read_bus(m, streams, windows)
        self._write_bus(m, writer)
        self._count(m, starts, packer)
        return m

    def _control(
        self,
        m: Module,
        packer: Packer,
        writer: Writer,
        fetches: Sequence[Fetch],
        clear: Signal,
        begin: Signal,
        stop: Signal,
        flush: Signal,
    ) -> tuple[Signal, Signal]:
        """The states of a task; return when one starts, and where to say that a batch ended."""
        starts, ended = Signal(), Signal()
        left = Signal(32)  # stream tuples of the batches that have not ended
        units = self.pipeline.shape.units
        written = Signal()
        m.d.comb += written.eq(packer.empty & writer.idle)
        with m.FSM(name="task"):
            for state in ("IDLE", "DONE"):
                with m.State(state):
                    m.d.comb += self.state.eq(STATES.index(state.lower()))
                    with m.If(self.abort):
                        m.next = "STOP"
                    with m.Elif(self.start):
                        m.d.comb += [starts.eq(1), begin.eq(1)]
                        m.d.sync += left.eq(self.stream.count)
                        m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.state.eq(STATES.index("running"))
                with m.If(ended):
                    m.d.sync += left.eq(left - units)
                with m.If(self.abort):
                    m.next = "STOP"
                with m.Elif(ended & (left <= units)):
                    m.next = "FINISH"
                with m.Elif(packer.full):
                    m.next = "FILL"
            for state, after in (("FINISH", "DONE"), ("FILL", "OVERFLOW")):
                with m.State(state):
                    m.d.comb += [self.state.eq(STATES.index("running")), flush.eq(1)]
                    with m.If(self.abort):
                        m.next = "STOP"
                    with m.Elif(written):
                        m.next = after
            with m.State("OVERFLOW"):
                m.d.comb += self.state.eq(STATES.index("overflow"))
                with m.If(self.abort):
                    m.next = "STOP"
                with m.Elif(self.resume):
                    m.d.comb += begin.eq(1)
                    m.next = "RUN"
            with m.State("STOP"):
                # What was asked of memory comes, and is dropped.
                m.d.comb += [self.state.eq(STATES.index("running")), stop.eq(1)]
                with m.If(~Cat(fetch.busy for fetch in fetches).any() & writer.quiet):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += [self.state.eq(STATES.index("running")), clear.eq(1)]
                m.next = "IDLE"
        return starts, ended

    def _feed(self, m: Module, whole: Any, streams: Fetch, windows: Fetch) -> None:
        """Take words apart into tuples for the pipeline."""
        shape = self.pipeline.shape
        narrows = []
        for role, fetch in zip(ROLES, (streams, windows), strict=True):
            narrow = Narrow(8 * fetch.stride, factor=fetch.per_word)
            m.submodules[f"{role}_narrow"] = whole(narrow)
            wiring.connect(m, fetch.o, narrow.i)
            narrows.append(narrow)
        batcher = Batcher(shape, bits=8 * streams.stride)
        m.submodules.batcher = whole(batcher)
        wiring.connect(m, narrows[0].o, batcher.i)
        wiring.connect(m, batcher.o, self.pipeline.i_stream)
        window, tuples = narrows[1].o, self.pipeline.i_window
        m.d.comb += [
            tuples.valid.eq(window.valid),
            tuples.payload.end.eq(window.payload.end),
            tuples.payload.tuple.eq(window.payload.data[: shape.record("window").size]),
            window.ready.eq(tuples.ready),
        ]

    def _read_bus(self, m: Module, *fetches: Fetch) -> None:
        layout = data.StructLayout({"id": 1, "burst": burst_layout(self.word_address)})
        m.submodules.asks = asks = Arbiter(layout, inputs=2)
        bus: Any = self
        for number, fetch in enumerate(fetches):
            m.d.comb += [
                asks.i[number].valid.eq(fetch.ask.valid),
                asks.i[number].payload.id.eq(number),
                asks.i[number].payload.burst.eq(fetch.ask.payload),
                fetch.ask.ready.eq(asks.i[number].ready),
                fetch.valid.eq(bus.rvalid & (bus.rid == number)),
                fetch.word.eq(bus.rdata),
            ]
        connect_address(m, self, "ar", asks.o.payload.burst, shift=self.word_shift)
        m.d.comb += [
            bus.arid.eq(asks.o.payload.id),
            bus.arvalid.eq(asks.o.valid),
            asks.o.ready.eq(bus.arready),
            bus.rready.eq(1),
        ]

    def _write_bus(self, m: Module, writer: Writer) -> None:
        bus: Any = self
        connect_address(m, self, "aw", writer.ask.payload, shift=self.word_shift)
        m.d.comb += [
            bus.awvalid.eq(writer.ask.valid), writer.ask.ready.eq(bus.awready),
            bus.wdata.eq(writer.o.payload.data), bus.wstrb.eq(~0),
            bus.wlast.eq(writer.o.payload.last), bus.wvalid.eq(writer.o.valid),
            writer.o.ready.eq(bus.wready),
            bus.bready.eq(1), writer.written.eq(bus.bvalid),
            bus.error.eq((bus.bvalid & bus.bresp[1]) | (bus.rvalid & bus.rresp[1])),
        ]  # fmt: skip

    def _count(self, m: Module, starts: Signal, packer: Packer) -> None:
        window = self.pipeline.i_window
        more = {
            "cycles": self.state == STATES.index("running"),
            "batches": packer.ended,
            "window_tuples": window.valid & window.ready & ~window.payload.end,
            "matches": packer.taken,
            "rejected_order": self.pipeline.wrong_order,
            "rejected_time": self.pipeline.out_of_range,
        }
        for name, number in more.items():
            count = getattr(self, f"count_{name}")
            m.d.sync += count.eq(Mux(starts, 0, count + number))
