"""A shell with AXI4-Stream in and out: what the shells of joins and of aggregates share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out

from ..registers import AxiLiteRegisters, Row, counter_rows, lay_out
from ..stream import Buffer
from .shell import Identity, Shell, connect_registers, register_ports

__all__ = ["StreamShell"]


class StreamShell(Shell):
    """An engine with one stream of tuples in and one of rows out, as an AXI core.

    Throughput: that of the engine. The shell adds one cycle at each end.

    A subclass says how a beat becomes a transfer of the engine (``feed``), what leaves
    (``results``), and what is counted (``COUNTERS``, ``counted``). The engine has ``i`` and ``o``,
    whose payloads have ``end``, and ``stalled`` and ``errors``.

    Parameters
    ----------
    engine : wiring.Component
    identity : Identity
    input, output : StructLayout
        The tuples of an input beat, and one row of an output beat.
    lanes : int
        Rows in an output beat, at most.
    widths : mapping of str to int
        Bits of what is added to a counter in a cycle, where it may be more than one.
    settings : sequence of Row
        More registers, such as those that can be written.
    live : mapping of str to int
        As for ``AxiLiteRegisters``.

    Members
    -------
    s_axis_*, m_axis_* : AXI4-Stream
        Beats of whole bytes; ``input_layout`` and ``output_layout`` say where the columns are. An
        output beat has a place for the row of each lane, and ``tkeep`` says which are taken.
    s_axil_* : AXI4-Lite
    log_valid, log_refused : Out(1)
        The acceptance log: an input beat with data has been decided on, and was refused.
    """

    COUNTERS: Mapping[str, str]
    """Descriptions of the counters by name; those of ``SHARED`` must be among them."""

    SHARED = {  # noqa: RUF012 - read only
        "cycles": "Cycles from the first beat of a stream until its end has left",
        "results": "Results sent",
        "stall_input": "Cycles in which an input beat waited",
        "stall_output": "Cycles in which an output beat waited",
        "stall_engine": "Cycles in which the engine waited for room for results",
    }

    s_axis_tdata: Signal
    s_axis_tkeep: Signal
    s_axis_tlast: Signal
    s_axis_tvalid: Signal
    s_axis_tready: Signal
    m_axis_tdata: Signal
    m_axis_tkeep: Signal
    m_axis_tlast: Signal
    m_axis_tvalid: Signal
    m_axis_tready: Signal
    log_valid: Signal
    log_refused: Signal

    def __init__(
        self,
        engine: Any,
        identity: Identity,
        *,
        input: data.StructLayout,
        output: data.StructLayout,
        lanes: int = 1,
        widths: Mapping[str, int] | None = None,
        settings: Sequence[Row] = (),
        live: Mapping[str, int] | None = None,
    ) -> None:
        self.engine = engine
        self.lanes = lanes
        self.domains = engine.domains
        self.errors = tuple(engine.ERRORS)
        self.input_layout, self.output_layout = input, output
        self.input_bytes = -(-input.size // 8)
        self.output_bytes = max(1, -(-output.size // 8))
        self.registers = lay_out(
            [*identity.rows(self.errors), *settings, *counter_rows(self.COUNTERS)]
        )
        wider = {"results": lanes.bit_length(), **(widths or {})}
        self.bank = AxiLiteRegisters(
            self.registers,
            {name: wider.get(name, 1) for name in self.COUNTERS},
            errors=len(self.errors),
            live=live,
        )
        super().__init__({**self._stream_ports(), **register_ports(self.bank)})

    def _stream_ports(self) -> dict[str, Member]:
        taken, given = self.input_bytes, self.output_bytes * self.lanes
        return {
            "s_axis_tdata": In(8 * taken),
            "s_axis_tkeep": In(taken),
            "s_axis_tlast": In(1),
            "s_axis_tvalid": In(1),
            "s_axis_tready": Out(1),
            "m_axis_tdata": Out(8 * given),
            "m_axis_tkeep": Out(given),
            "m_axis_tlast": Out(1),
            "m_axis_tvalid": Out(1),
            "m_axis_tready": In(1),
            "log_valid": Out(1),
            "log_refused": Out(1),
        }

    ADDED: Sequence[str]
    """The predicted ``cycles`` of the engine to which those of the shell are added."""

    @property
    def latency(self) -> int:
        """Cycles that the shell adds between the engine's input and its output."""
        return 2

    @property
    def predicted(self) -> dict[str, Any]:
        """What the engine predicts, with the cycles that the shell adds to a run."""
        found = self.engine.predicted
        added = {name: found["cycles"][name] + self.latency for name in self.ADDED}
        return {**found, "cycles": {**found["cycles"], **added}}

    # What a subclass says.

    @abstractmethod
    def feed(self, m: Module, beat: Any, present: Value) -> None:
        """Drive all of the engine's input payload but ``end``; a beat may carry no data."""

    @abstractmethod
    def results(self, m: Module) -> stream.Interface:
        """Return the stream of rows: ``end``, and ``lanes`` of ``valid`` and ``row``."""

    @abstractmethod
    def counted(self, m: Module, entering: Value) -> dict[str, ValueLike]:
        """What the counters that are not ``SHARED`` count; a transfer with data is ``entering``."""

    @abstractmethod
    def decisions(self, m: Module, entering: Value) -> tuple[Value, Value]:
        """Return when the engine has decided on a transfer with data, and has refused it."""

    @abstractmethod
    def describe_input(self) -> dict[str, Any]:
        """Where the columns are in ``input_layout``."""

    @abstractmethod
    def describe_output(self) -> dict[str, Any]:
        """Where the columns are in ``output_layout``."""

    # The rest is common.

    def describe(self) -> dict[str, Any]:
        return {
            "input": {
                "port": "s_axis",
                "width": self.input_layout.size,
                "bytes": self.input_bytes,
                **self.describe_input(),
            },
            "output": {
                "port": "m_axis",
                "width": self.output_layout.size,
                "bytes": self.output_bytes,
                "lanes": self.lanes,
                **self.describe_output(),
            },
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.engine = self.engine
        m.submodules.registers = self.bank
        self._take(m)
        self._give(m)
        self._count(m)
        connect_registers(m, self, self.bank)
        return m

    def _take(self, m: Module) -> None:
        """Beats to transfers: a last beat with data is two, the data and then the end."""
        engine = self.engine
        beat = data.StructLayout({"data": self.input_layout, "last": 1, "empty": 1, "bare": 1})
        m.submodules.input = source = Buffer(beat)
        taken = Signal()  # the data of the beat in front has been taken, its end has not
        here, ends = source.o.payload, Signal()
        empty = ~self.s_axis_tkeep.any()
        m.d.comb += [
            source.i.valid.eq(self.s_axis_tvalid),
            source.i.payload.data.eq(self.s_axis_tdata[: self.input_layout.size]),
            source.i.payload.last.eq(self.s_axis_tlast),
            source.i.payload.empty.eq(empty),
            source.i.payload.bare.eq(empty & self.s_axis_tlast),  # nothing but the end
            self.s_axis_tready.eq(source.i.ready),
            ends.eq(here.bare | (here.last & taken)),
            engine.i.valid.eq(source.o.valid),
            engine.i.payload.end.eq(ends),
            source.o.ready.eq(engine.i.ready & (ends | ~here.last)),
        ]
        self.feed(m, here.data, ~here.empty)
        with m.If(engine.i.valid & engine.i.ready):
            m.d.sync += taken.eq(here.last & ~ends)

    def _give(self, m: Module) -> None:
        """Rows to beats: the end is a beat of its own, without data."""
        rows = self.results(m)
        m.submodules.output = sink = Buffer(rows.payload.shape())
        wiring.connect(m, rows, sink.i)
        result = sink.o.payload
        m.d.comb += [
            self.m_axis_tvalid.eq(sink.o.valid),
            self.m_axis_tlast.eq(result.end),
            sink.o.ready.eq(self.m_axis_tready),
        ]
        for number in range(self.lanes):
            lane = result.lanes[number]
            tdata = self.m_axis_tdata.word_select(number, 8 * self.output_bytes)
            tkeep = self.m_axis_tkeep.word_select(number, self.output_bytes)
            m.d.comb += [
                tdata.eq(Mux(lane.valid, lane.row.as_value(), 0)),
                tkeep.eq(lane.valid.replicate(self.output_bytes)),
            ]

    def _count(self, m: Module) -> None:
        bank, engine = self.bank, self.engine
        running = Signal()
        entering = engine.i.valid & engine.i.ready & ~engine.i.payload.end
        leaving: Value = self.m_axis_tvalid & self.m_axis_tready
        with m.If(self.s_axis_tvalid):
            m.d.sync += running.eq(1)
        with m.Elif(leaving & self.m_axis_tlast):
            m.d.sync += running.eq(0)
        rows = sum(self.m_axis_tkeep[number * self.output_bytes] for number in range(self.lanes))
        counted: dict[str, ValueLike] = {
            "cycles": running | self.s_axis_tvalid,
            "results": Mux(leaving, rows, 0),
            "stall_input": self.s_axis_tvalid & ~self.s_axis_tready,
            "stall_output": self.m_axis_tvalid & ~self.m_axis_tready,
            "stall_engine": engine.stalled,
            **self.counted(m, entering),
        }
        decided, refused = self.decisions(m, entering)
        m.d.comb += [
            bank.count_errors.eq(engine.errors),
            self.log_valid.eq(decided),
            self.log_refused.eq(refused),
        ]
        m.d.comb += [getattr(bank, f"count_{name}").eq(value) for name, value in counted.items()]
