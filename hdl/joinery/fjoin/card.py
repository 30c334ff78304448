# amaranth: UnusedElaboratable=no
# (a card is described without being built, or refused when half made)
"""A card: join pipelines that work on memory behind AXI4, told what to do through AXI4-Lite.

Each pipeline has an AXI4 master of its own, as cards with several banks of memory want it: none
waits for another, and nothing has to be fair. It reads by two fetches, one for stream tuples and
one for the window, which it reads anew for every batch; the fetches have an id each. It writes
results as they come, and stops when their buffer is full, until it is given another.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..join import JoinPair
from ..registers import AxiLiteRegisters, Register, Row, lay_out
from ..stream import Arbiter, Narrow
from ..stream._check import require_positive
from .deliver import RESULT_BYTES, Packer, Writer
from .fetch import PAGE, Fetch, burst_layout, stretch_layout
from .pipeline import FJoinPipeline
from .shape import ROLES, PipelineShape

__all__ = ["AXI4", "COUNTERS", "STATES", "CardPipeline", "FJoinCard"]

STATES = ("idle", "running", "overflow", "done")
"""What the register ``state`` of a pipeline says; aborting, it is still running."""

COUNTERS = {
    "cycles": "Cycles of the task until it was done",
    "batches": "Batches that were joined",
    "window_tuples": "Window tuples that flowed past a batch",
    "matches": "Results of the task",
    "rejected_order": "Pairs left out as the window tuple came later",
    "rejected_time": "Pairs left out as their times are too far apart",
}
COUNTER_BITS = 64

AXI4: dict[str, tuple[Any, Any]] = {
    "awid": (Out, 1), "awaddr": (Out, "address"), "awlen": (Out, 8), "awsize": (Out, 3),
    "awburst": (Out, 2), "awcache": (Out, 4), "awprot": (Out, 3), "awvalid": (Out, 1),
    "awready": (In, 1), "wdata": (Out, "data"), "wstrb": (Out, "strobe"), "wlast": (Out, 1),
    "wvalid": (Out, 1), "wready": (In, 1), "bid": (In, 1), "bresp": (In, 2), "bvalid": (In, 1),
    "bready": (Out, 1), "arid": (Out, 1), "araddr": (Out, "address"), "arlen": (Out, 8),
    "arsize": (Out, 3), "arburst": (Out, 2), "arcache": (Out, 4), "arprot": (Out, 3),
    "arvalid": (Out, 1), "arready": (In, 1), "rid": (In, 1), "rdata": (In, "data"),
    "rresp": (In, 2), "rlast": (In, 1), "rvalid": (In, 1), "rready": (Out, 1),
}  # fmt: skip
"""The signals of an AXI4 master, their flow and width; addresses have as many bits as asked for."""

INCREASING, BUFFERABLE = 0b01, 0b0011


def axi4_members(address_bits: int, word_bytes: int) -> dict[str, Any]:
    """Return the members of an AXI4 master."""
    widths: dict[Any, int] = {
        "address": address_bits, "data": 8 * word_bytes, "strobe": word_bytes
    }  # fmt: skip
    return {name: flow(widths.get(width, width)) for name, (flow, width) in AXI4.items()}


def stride_of(shape: PipelineShape, role: str) -> int:
    """Bytes of a tuple in memory."""
    return -(-shape.record(role).size // 8)


class Batcher(wiring.Component):
    """Put an end after every ``units`` tuples.

    Latency: 0 cycles. Throughput: a tuple per cycle, and one cycle for each end.

    Parameters
    ----------
    shape : PipelineShape
    bits : int
        Bits of a tuple with its padding.

    Members
    -------
    i : In(stream.Signature({"data": bits, "end": 1}))
    o : Out(stream.Signature(shape.transfer("stream")))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: PipelineShape, *, bits: int) -> None:
        self.shape = shape
        part = data.StructLayout({"data": bits, "end": 1})
        super().__init__(
            {
                "i": In(stream.Signature(part)),
                "o": Out(stream.Signature(shape.transfer("stream"))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i, o = self.i, self.o
        count = Signal(range(self.shape.units + 1))
        full, over = Signal(), Signal()
        record = self.shape.record("stream")
        m.d.comb += [
            full.eq(count == self.shape.units),
            over.eq(i.valid & i.payload.end & (count == 0)),  # the last batch was a full one
            o.valid.eq((i.valid & ~over) | full),
            o.payload.end.eq(full | i.payload.end),
            o.payload.tuple.eq(i.payload.data[: record.size]),
            i.ready.eq(over | (o.ready & ~full)),
        ]
        with m.If(o.valid & o.ready):
            m.d.sync += count.eq(Mux(o.payload.end, 0, count + 1))
        return m


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
        streams = Fetch(stride=stride_of(shape, "stream"), per_round=1, **common)
        windows = Fetch(stride=stride_of(shape, "window"), per_round=shape.units, **common)
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

    def _address(self, m: Module, bus: dict[str, Any], burst: Any) -> None:
        """Fill one of the address channels."""
        m.d.comb += [
            bus["addr"].eq(burst.address << self.word_shift),
            bus["len"].eq(burst.last),
            bus["size"].eq(self.word_shift),
            bus["burst"].eq(INCREASING),
            bus["cache"].eq(BUFFERABLE),
            bus["prot"].eq(0),
        ]

    def _channel(self, prefix: str) -> dict[str, Any]:
        return {name[2:]: getattr(self, name) for name in AXI4 if name.startswith(prefix)}

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
        self._address(m, self._channel("ar"), asks.o.payload.burst)
        m.d.comb += [
            bus.arid.eq(asks.o.payload.id),
            bus.arvalid.eq(asks.o.valid),
            asks.o.ready.eq(bus.arready),
            bus.rready.eq(1),
        ]

    def _write_bus(self, m: Module, writer: Writer) -> None:
        bus: Any = self
        self._address(m, self._channel("aw"), writer.ask.payload)
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


COMMAND = {"start": 0, "resume": 1, "abort": 2}
"""The bits of a pipeline's register ``command``."""

WIDE = (
    "stream_address",
    "window_address",
    "window_base",
    "window_end",
    "result_address",
    "time_range",
)
"""What a task has two registers for, the low half first."""

NARROW = {
    "stream_count": "Stream tuples, one at least",
    "stream_words": "Bus words that hold them",
    "window_count": "Window tuples",
    "window_words": "Bus words that hold them",
    "result_capacity": "Results that the buffer holds",
}
WIDE_TEXT = {
    "stream_address": "Where the stream tuples lie; a multiple of the bus word, as all addresses",
    "window_address": "Where the window begins",
    "window_base": "Where the ring of the window begins",
    "window_end": "Where it ends",
    "result_address": "Where results go",
    "time_range": "The most that the times of a pair may differ",
}


def pipeline_rows(number: int) -> list[Row]:
    """Return the registers of a pipeline."""
    stem = f"p{number}_"
    acts = ", ".join(f"bit {bit}: {name}" for name, bit in COMMAND.items())
    rows: list[Row] = [(f"{stem}command", "pulse", f"What the pipeline shall do: {acts}", 0)]
    rows.append((f"{stem}state", "ro", f"{', '.join(STATES)}, from 0 on", 0))
    rows.append((f"{stem}results", "ro", "Results in the present buffer", 0))
    for name in WIDE:
        rows.append((f"{stem}{name}_lo", "rw", WIDE_TEXT[name], 0))
        rows.append((f"{stem}{name}_hi", "rw", "High half", 0))
    rows += [(f"{stem}{name}", "rw", text, 0) for name, text in NARROW.items()]
    for name, text in COUNTERS.items():
        rows.append((f"{stem}{name}_lo", "ro", text, 0))
        rows.append((f"{stem}{name}_hi", "ro", "High half", 0))
    return rows


class FJoinCard(wiring.Component):
    """Join pipelines behind AXI4-Lite registers, each with an AXI4 master.

    Throughput: that of the pipelines.

    Parameters
    ----------
    pair : JoinPair
        The streams and the predicate, without the test of times.
    pipelines : sequence of (side, units)
        ``"left"`` where stream tuples are left ones, and how many a batch has.
    lanes, cluster, id_bits, time_bits, ops_per_stage
        As for ``PipelineShape``, for all pipelines; ids have 32 bits at most.
    word_bytes, address_bits, burst : int
        Width of the memory's bus in bytes; bits of an address in bytes; words in a burst, at most.
    identity : sequence of (name, description, value)
        Registers that say who this is.

    Members
    -------
    s_axil_* : AXI4-Lite
    m_axi_<k>_* : AXI4
        The master of pipeline k.
    running : Out(len(pipelines))
        Which pipelines are neither idle nor done nor in want of a buffer: an interrupt when low.
    """

    running: Signal

    def __init__(
        self,
        pair: JoinPair,
        *,
        pipelines: Sequence[tuple[str, int]],
        lanes: int = 1,
        cluster: int = 16,
        id_bits: int = 32,
        time_bits: int = 32,
        ops_per_stage: int = 2,
        word_bytes: int = 64,
        address_bits: int = 40,
        burst: int = 64,
        identity: Sequence[tuple[str, str, int]] = (),
    ) -> None:
        require_positive("Pipelines of a card", len(pipelines))
        if not isinstance(id_bits, int) or not 2 <= id_bits <= 32:
            raise ValueError(f"Ids on a card have 2 to 32 bits, not {id_bits!r}")
        if not isinstance(word_bytes, int) or word_bytes not in (8, 16, 32, 64, 128):
            raise ValueError(f"A bus word has 8, 16, 32, 64 or 128 bytes, not {word_bytes!r}")
        if not isinstance(address_bits, int) or not 16 <= address_bits <= 64:
            raise ValueError(f"Addresses have 16 to 64 bits, not {address_bits!r}")
        most = min(256, PAGE // word_bytes)
        if not isinstance(burst, int) or not 1 <= burst <= most:
            raise ValueError(f"A burst of this bus has 1 to {most} words, not {burst!r}")
        self.pair = pair
        self.word_bytes = word_bytes
        self.pipelines = []
        for side, units in pipelines:
            pipeline = FJoinPipeline(
                pair, side=side, units=units, lanes=lanes, cluster=cluster, id_bits=id_bits,
                time_bits=time_bits, ops_per_stage=ops_per_stage,
            )  # fmt: skip
            for role in ROLES:
                if stride_of(pipeline.shape, role) > word_bytes:
                    raise ValueError(
                        f"A tuple takes {stride_of(pipeline.shape, role)} bytes in memory, and a "
                        f"bus word has {word_bytes}"
                    )
            self.pipelines.append(
                CardPipeline(
                    pipeline, word_bytes=word_bytes, address_bits=address_bits, burst=burst
                )
            )
        self.registers = self._lay_out(identity)
        live = {
            f"p{number}_{name}": bits
            for number in range(len(pipelines))
            for name, bits in (
                ("state", 2), ("results", 32),
                *((f"{each}_{half}", 32) for each in COUNTERS for half in ("lo", "hi")),
            )
        }  # fmt: skip
        self.bank = AxiLiteRegisters(self.registers, {}, errors=len(pipelines), live=live)
        masters = {
            f"m_axi_{number}_{name}": member
            for number in range(len(pipelines))
            for name, member in axi4_members(address_bits, word_bytes).items()
        }
        lite = {f"s_axil_{name}": self.bank.signature.members[name] for name in self.bank.AXI}
        super().__init__({**lite, **masters, "running": Out(len(pipelines))})

    def _lay_out(self, identity: Sequence[tuple[str, str, int]]) -> list[Register]:
        rows: list[Row] = [(name, "ro", text, value) for name, text, value in identity]
        rows.append(("control", "pulse", "Write 1 to set errors to zero; reads as 0", 0))
        rows.append(("errors", "ro", "Bit k: memory answered pipeline k with an error", 0))
        for number in range(len(self.pipelines)):
            rows += pipeline_rows(number)
        return lay_out(rows)

    @property
    def described(self) -> dict[str, Any]:
        """Pipelines and records as plain data, for ``top.json``."""
        sides = {}
        first = self.pipelines[0].pipeline.shape
        for role in ROLES:
            side = (
                first.side if role == "stream" else {"left": "right", "right": "left"}[first.side]
            )
            record = first.record(role)
            fields = [
                {"name": f"#{name}", "offset": record[name].offset, "width": record[name].width,
                 "signed": False}
                for name in ("id", "time")
            ]  # fmt: skip
            base = record["columns"].offset
            for column in first.columns(role):
                fields.append(
                    {"name": column.name, "width": column.type.width,
                     "offset": base + record["columns"].shape[column.name].offset,
                     "signed": column.type.shape.signed}
                )  # fmt: skip
            sides[side] = self._record(stride_of(first, role), fields)
        half = 4 * RESULT_BYTES
        ids = [
            {"name": f"#{role}", "offset": half * k, "width": first.id_bits, "signed": False}
            for k, role in enumerate(ROLES)
        ]
        return {
            "pipelines": [
                {"side": each.pipeline.shape.side, "units": each.pipeline.shape.units}
                for each in self.pipelines
            ],
            "records": {
                "left": sides["left"],
                "right": sides["right"],
                "result": self._record(RESULT_BYTES, ids),
            },
        }

    def _record(self, stride: int, fields: list[dict[str, Any]]) -> dict[str, Any]:
        per_word = self.word_bytes // stride
        return {
            "word_bytes": self.word_bytes, "stride": stride, "per_word": per_word, "fields": fields
        }  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bank: Any = self.bank
        m.submodules.registers = bank
        for name in bank.AXI:
            outer, inner = getattr(self, f"s_axil_{name}"), getattr(bank, name)
            inwards = bank.signature.members[name].flow is In
            m.d.comb += inner.eq(outer) if inwards else outer.eq(inner)
        for number, unit in enumerate(self.pipelines):
            m.submodules[f"card_pipeline_{number}"] = unit
            self._connect(m, number, unit)
            m.d.comb += [
                self.running[number].eq(unit.state == STATES.index("running")),
                bank.count_errors[number].eq(unit.error),
            ]
            for name, (flow, _) in AXI4.items():
                outer, inner = getattr(self, f"m_axi_{number}_{name}"), getattr(unit, name)
                m.d.comb += inner.eq(outer) if flow is In else outer.eq(inner)
        return m

    def _connect(self, m: Module, number: int, unit: Any) -> None:
        """Connect a pipeline with its registers."""
        bank, stem, shift = self.bank, f"p{number}_", unit.word_shift

        def told(name: str) -> Any:
            return getattr(bank, f"set_{stem}{name}")

        def wide(name: str) -> Any:
            return Cat(told(f"{name}_lo"), told(f"{name}_hi"))

        def words(name: str) -> Any:
            return wide(name)[shift : shift + unit.word_address]

        for name, bit in COMMAND.items():
            m.d.comb += getattr(unit, name).eq(getattr(bank, f"pulse_{stem}command")[bit])
        m.d.comb += [
            unit.stream.address.eq(words("stream_address")),
            unit.stream.base.eq(0),
            unit.stream.end.eq(Const(-1, unit.word_address)),
            unit.window.address.eq(words("window_address")),
            unit.window.base.eq(words("window_base")),
            unit.window.end.eq(words("window_end")),
            unit.result_address.eq(words("result_address")),
            unit.result_capacity.eq(told("result_capacity")),
            unit.time_range.eq(wide("time_range")),
            getattr(bank, f"live_{stem}state").eq(unit.state),
            getattr(bank, f"live_{stem}results").eq(unit.results),
        ]
        for role in ROLES:
            stretch = getattr(unit, role)
            m.d.comb += [
                stretch.words.eq(told(f"{role}_words")),
                stretch.count.eq(told(f"{role}_count")),
            ]
        for name in COUNTERS:
            count = getattr(unit, f"count_{name}")
            m.d.comb += [
                getattr(bank, f"live_{stem}{name}_lo").eq(count[:32]),
                getattr(bank, f"live_{stem}{name}_hi").eq(count[32:]),
            ]
