"""The AXI shell around an engine: AXI4-Stream in and out, AXI4-Lite registers, an acceptance log.

The end of a stream is a beat with ``tlast``; with ``tkeep`` all zero it carries no data, which is
how the shell sends it, so that a result without rows ends too. On the way in, ``tlast`` on a beat
with data is taken as the data and then the end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal, Value, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .expr import Expr
from .join import JoinEngine
from .project import Projection
from .registers import AxiLiteRegisters, Register, Row, counter_rows, lay_out
from .stream import Buffer

__all__ = ["COUNTERS", "JoinShell", "register_map"]

IDENTITY = int.from_bytes(b"JNRY", "big")

COUNTERS = {
    "cycles": "Cycles from the first beat of a stream until its end has left",
    "accepted_left": "Left tuples taken in",
    "accepted_right": "Right tuples taken in",
    "refused": "Input beats whose tuples were refused, for want of room for results",
    "results": "Results sent",
    "dropped_results": "Results lost, for want of room",
    "stall_input": "Cycles in which an input beat waited",
    "stall_output": "Cycles in which an output beat waited",
    "stall_engine": "Cycles in which the engine waited for room for results",
}


def register_map(
    parameters: Sequence[tuple[str, int]], version: int, query_hash: int
) -> list[Register]:
    """Lay the registers out: who this is, how it was built, what it has counted."""
    rows: list[Row] = [
        ("identity", "ro", "The letters JNRY", IDENTITY),
        ("version", "ro", "Joinery's version, a byte each for major, minor and patch", version),
        ("query_hash_lo", "ro", "Low half of the query's hash", query_hash & 0xFFFFFFFF),
        ("query_hash_hi", "ro", "High half of the query's hash", query_hash >> 32),
        ("control", "pulse", "Write 1 to set counters and errors to zero; reads as 0", 0),
    ]
    flags = "; ".join(f"bit {bit}: {text}" for bit, text in enumerate(JoinEngine.ERRORS))
    rows.append(
        ("errors", "ro", f"What may have cost results, until control is written: {flags}", 0)
    )
    rows += [(name, "ro", f"Parameter {name}", value) for name, value in parameters]
    return lay_out([*rows, *counter_rows(COUNTERS)])


class JoinShell(wiring.Component):
    """A join engine as an AXI core.

    Throughput: that of the engine. The shell adds one cycle at each end, and the latency of
    ``self.projection``.

    Parameters
    ----------
    engine : JoinEngine
    registers : sequence of Register
    columns : mapping of str to (Expr, Shape)
        The columns of the result, as for ``Projection``.

    Members
    -------
    s_axis_*, m_axis_* : AXI4-Stream
        Beats of whole bytes; ``input_layout`` and ``output_layout`` say where the columns are. An
        output beat has a place for the row of each lane, and ``tkeep`` says which are taken.
    s_axil_* : AXI4-Lite
    log_valid, log_refused : Out(1)
        The acceptance log: an input beat with data has been decided on, and was refused.
    """

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
        engine: JoinEngine,
        registers: Sequence[Register],
        columns: Mapping[str, tuple[Expr, Shape]],
    ) -> None:
        self.engine = engine
        self.registers = registers
        self.projection = Projection(engine.pair, columns, lanes=engine.lanes)
        pair = engine.pair
        self.input_layout = data.StructLayout(
            {"has_left": 1, "has_right": 1, "left": pair.left.layout, "right": pair.right.layout}
        )
        self.output_layout = self.projection.row
        self.input_bytes = -(-self.input_layout.size // 8)
        self.output_bytes = max(1, -(-self.output_layout.size // 8))
        wider = {
            "results": engine.lanes.bit_length(),
            "dropped_results": engine.DROPPED_BITS,
        }
        self.bank = AxiLiteRegisters(
            registers,
            {name: wider.get(name, 1) for name in COUNTERS},
            errors=len(engine.ERRORS),
        )
        lite = {f"s_axil_{name}": self.bank.signature.members[name] for name in self.bank.AXI}
        super().__init__(
            {
                "s_axis_tdata": In(8 * self.input_bytes),
                "s_axis_tkeep": In(self.input_bytes),
                "s_axis_tlast": In(1),
                "s_axis_tvalid": In(1),
                "s_axis_tready": Out(1),
                "m_axis_tdata": Out(8 * self.output_bytes * engine.lanes),
                "m_axis_tkeep": Out(self.output_bytes * engine.lanes),
                "m_axis_tlast": Out(1),
                "m_axis_tvalid": Out(1),
                "m_axis_tready": In(1),
                "log_valid": Out(1),
                "log_refused": Out(1),
                **lite,
            }
        )

    @property
    def predicted(self) -> dict[str, Any]:
        """What the engine predicts, with the cycles that the shell adds to a run."""
        found = self.engine.predicted
        added = 2 + self.projection.latency
        return {**found, "cycles": {**found["cycles"], "end": found["cycles"]["end"] + added}}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        engine, bank = self.engine, self.bank
        m.submodules.engine = engine
        m.submodules.registers = bank
        beat = data.StructLayout({"data": self.input_layout, "last": 1, "empty": 1})
        m.submodules.input = source = Buffer(beat)
        m.submodules.projection = projection = self.projection
        m.submodules.output = sink = Buffer(projection.result)

        # In: a last beat with data is two transfers, the data and then the end.
        taken = Signal()  # the data of the beat in front has been taken, its end has not
        here, ends = source.o.payload, Signal()
        m.d.comb += [
            source.i.valid.eq(self.s_axis_tvalid),
            source.i.payload.data.eq(self.s_axis_tdata[: self.input_layout.size]),
            source.i.payload.last.eq(self.s_axis_tlast),
            source.i.payload.empty.eq(~self.s_axis_tkeep.any()),
            self.s_axis_tready.eq(source.i.ready),
            ends.eq(here.last & (here.empty | taken)),
            engine.i.valid.eq(source.o.valid),
            engine.i.payload.end.eq(ends),
            engine.i.payload.has_left.eq(here.data.has_left & ~here.empty),
            engine.i.payload.has_right.eq(here.data.has_right & ~here.empty),
            engine.i.payload.left.eq(here.data.left),
            engine.i.payload.right.eq(here.data.right),
            source.o.ready.eq(engine.i.ready & (ends | ~here.last)),
        ]
        with m.If(engine.i.valid & engine.i.ready):
            m.d.sync += taken.eq(here.last & ~ends)

        # Out: the end is a beat of its own, without data.
        wiring.connect(m, engine.o, projection.i)
        wiring.connect(m, projection.o, sink.i)
        result = sink.o.payload
        m.d.comb += [
            self.m_axis_tvalid.eq(sink.o.valid),
            self.m_axis_tlast.eq(result.end),
            sink.o.ready.eq(self.m_axis_tready),
            self.log_valid.eq(engine.decided),
            self.log_refused.eq(engine.refused),
        ]
        for number, lane in enumerate(result.lanes):
            tdata = self.m_axis_tdata.word_select(number, 8 * self.output_bytes)
            tkeep = self.m_axis_tkeep.word_select(number, self.output_bytes)
            m.d.comb += [
                tdata.eq(Mux(lane.valid, lane.row.as_value(), 0)),
                tkeep.eq(lane.valid.replicate(self.output_bytes)),
            ]
        self._count(m)
        for name in bank.AXI:
            inside, outside = getattr(bank, name), getattr(self, f"s_axil_{name}")
            into = bank.signature.members[name].flow is In
            m.d.comb += inside.eq(outside) if into else outside.eq(inside)
        return m

    def _count(self, m: Module) -> None:
        bank, engine = self.bank, self.engine
        running = Signal()
        entering = engine.i.valid & engine.i.ready & ~engine.i.payload.end
        leaving: Value = self.m_axis_tvalid & self.m_axis_tready
        with m.If(self.s_axis_tvalid):
            m.d.sync += running.eq(1)
        with m.Elif(leaving & self.m_axis_tlast):
            m.d.sync += running.eq(0)
        # The engine decides on a transfer in the cycle after it took it.
        came_left, came_right = Signal(), Signal()
        m.d.sync += [
            came_left.eq(entering & engine.i.payload.has_left),
            came_right.eq(entering & engine.i.payload.has_right),
        ]
        rows = sum(self.m_axis_tkeep[number * self.output_bytes] for number in range(engine.lanes))
        counted: dict[str, ValueLike] = {
            "cycles": running | self.s_axis_tvalid,
            "accepted_left": came_left & ~engine.refused,
            "accepted_right": came_right & ~engine.refused,
            "refused": engine.refused,
            "results": Mux(leaving, rows, 0),
            "dropped_results": engine.dropped,
            "stall_input": self.s_axis_tvalid & ~self.s_axis_tready,
            "stall_output": self.m_axis_tvalid & ~self.m_axis_tready,
            "stall_engine": engine.stalled,
        }
        m.d.comb += bank.count_errors.eq(engine.errors)
        m.d.comb += [getattr(bank, f"count_{name}").eq(value) for name, value in counted.items()]
