"""The join pipeline as the paper has it (section 3.2, algorithm 1): the baseline.

Units stand in a chain. A stream tuple goes down it to the first unit that has none. A window tuple
goes on to the next register when that one is empty, so every second cycle at best; a unit has a
register for each cycle of the predicate. Results go down a chain of registers, one to a unit, in
which those of the units before go first; a unit that finds it taken holds its window tuple, and so
all that follow. When the last window tuple and its results have left, a clear goes down the chain,
and the next batch is loaded behind it.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..expr import ExprPipeline, pipeline_latency
from ..join import JoinPair
from ..stream import Queue
from ..units import place
from .edge import Outlet
from .shape import ROLES, PipelineShape

__all__ = ["FJoinPaper", "PaperUnit"]


def _offered(what: data.StructLayout) -> data.StructLayout:
    return data.StructLayout({"valid": 1, "tuple": what})


def _result(shape: PipelineShape) -> data.StructLayout:
    kept = data.StructLayout({"id": shape.id_bits, "time": shape.time_bits})
    return data.StructLayout({"valid": 1, "stream": kept, "window": kept})


class PaperUnit(wiring.Component):
    """One basic join unit.

    Latency: 1 cycle to the next unit for all but window tuples, which take a cycle for each of
    ``registers``. Throughput: a window tuple every two cycles.

    Parameters
    ----------
    shape : PipelineShape
    registers : int

    Members
    -------
    i_tuple, o_tuple : In, Out({"valid": 1, "tuple": shape.record("stream")})
    i_window, o_window : In, Out({"valid": 1, "tuple": shape.record("window")})
        What is valid moves when the next register is empty.
    i_empty, o_empty : In, Out(1)
        The register behind is empty; the first one of this unit is.
    i_result, o_result : In, Out({"valid": 1, "stream": ..., "window": ...})
    i_stall, o_stall : In, Out(1)
        No new results; from the end of the chain to its head.
    i_clear, o_clear : In, Out(1)
    """

    i_tuple: Any
    o_tuple: Any
    i_window: Any
    o_window: Any
    i_empty: Signal
    o_empty: Signal
    i_result: Any
    o_result: Any
    i_stall: Signal
    o_stall: Signal
    i_clear: Signal
    o_clear: Signal

    def __init__(self, shape: PipelineShape, *, registers: int) -> None:
        self.shape = shape
        self.registers = registers
        both = {
            "tuple": _offered(shape.record("stream")), "window": _offered(shape.record("window")),
            "empty": 1, "result": _result(shape), "stall": 1, "clear": 1,
        }  # fmt: skip
        super().__init__(
            {f"i_{name}": In(each) for name, each in both.items()}
            | {f"o_{name}": Out(each) for name, each in both.items()}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.shape
        held: Any = Signal(shape.record("stream"))
        full, joined, taken = Signal(), Signal(), Signal()
        windows: list[Any] = [
            Signal(_offered(shape.record("window")), name=f"window_{k}")
            for k in range(self.registers)
        ]
        m.d.sync += [
            self.o_clear.eq(self.i_clear), self.o_stall.eq(self.i_stall),
            self.o_tuple.eq(self.i_tuple), self.o_tuple.valid.eq(self.i_tuple.valid & full),
        ]  # fmt: skip
        with m.If(self.i_clear):
            m.d.sync += full.eq(0)
        with m.Elif(self.i_tuple.valid & ~full):
            m.d.sync += [full.eq(1), held.eq(self.i_tuple.tuple)]

        # The predicate is that of all registers together, as seen from the last one.
        m.submodules.predicate = predicate = ExprPipeline(
            shape.pair.predicate, shape.pair.operands, ops_per_stage=None
        )
        last: Any = windows[-1]
        for role, row in zip(ROLES, (held, last.tuple), strict=True):
            for name in shape.columns(role).names:
                m.d.comb += predicate.i[shape.source(role)][name].eq(row.columns[name])
        found, waits, goes = Signal(), Signal(), Signal()
        m.d.comb += [
            found.eq(last.valid & full & predicate.o & ~joined),
            taken.eq(self.i_result.valid | self.o_stall),
            waits.eq(found & taken),
            goes.eq(last.valid & self.i_empty & ~waits),
            self.o_window.valid.eq(goes),
            self.o_window.tuple.eq(last.tuple),
            self.o_empty.eq(~windows[0].valid),
        ]
        m.d.sync += self.o_result.eq(self.i_result)
        with m.If(found & ~taken):
            m.d.sync += [self.o_result.valid.eq(1), joined.eq(~goes)]
            for role, row in zip(ROLES, (held, last.tuple), strict=True):
                m.d.sync += [
                    self.o_result[role].id.eq(row.id),
                    self.o_result[role].time.eq(row.time),
                ]
        with m.Elif(goes):
            m.d.sync += joined.eq(0)
        source: Any = self.i_window
        for k, register in enumerate(windows):
            moves = goes if k == self.registers - 1 else register.valid & ~windows[k + 1].valid
            with m.If(register.valid):
                m.d.sync += register.valid.eq(~moves)
            with m.Elif(source.valid):
                m.d.sync += register.eq(source)
            source = register
        return m


class FJoinPaper(wiring.Component):
    """A pipeline of the paper's units, with the interface of ``FJoinPipeline``, and one lane.

    Throughput: a window tuple every two cycles, or a match per cycle, and between batches as many
    cycles as the batch has tuples and the pipeline has units.

    Parameters
    ----------
    pair, side, units, id_bits, time_bits, ops_per_stage
        As for ``PipelineShape``.

    Members
    -------
    i_stream, i_window, time_range, o, wrong_order, out_of_range
        As for ``FJoinPipeline``.
    """

    i_stream: stream.Interface
    i_window: stream.Interface
    time_range: Signal
    o: stream.Interface
    wrong_order: Signal
    out_of_range: Signal

    def __init__(
        self,
        pair: JoinPair,
        *,
        side: str,
        units: int,
        id_bits: int = 32,
        time_bits: int = 32,
        ops_per_stage: int = 2,
    ) -> None:
        self.shape = shape = PipelineShape(
            pair, side, units, id_bits=id_bits, time_bits=time_bits, ops_per_stage=ops_per_stage
        )
        self.registers = pipeline_latency(pair.predicate, ops_per_stage)
        # A stall takes `units` cycles to reach the head, and results as many to come from there.
        self.reserve = 2 * units + 4
        super().__init__(
            {
                "i_stream": In(stream.Signature(shape.transfer("stream"))),
                "i_window": In(stream.Signature(shape.transfer("window"))),
                "time_range": In(time_bits - 1),
                "o": Out(stream.Signature(shape.result)),
                "wrong_order": Out(1),
                "out_of_range": Out(1),
            }
        )

    @property
    def predicted(self) -> dict[str, int]:
        """Cycles of the parts of a task, and how many matches leave in one."""
        units = self.shape.units
        return {
            "per_window_tuple": 2,
            "per_batch": 2 * units,
            "load": units + 1,
            "latency": units,
            "matches_per_cycle": 1,
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.shape
        # What resets a part of a design does not reach into the modules of units.
        fresh = Signal(init=1)
        m.d.sync += fresh.eq(0)
        units = [PaperUnit(shape, registers=self.registers) for _ in range(shape.units)]
        for number, unit in enumerate(units):
            m.submodules[f"unit_{number}"] = place(
                unit, platform, shape, self.registers, reset=fresh
            )
        for one, after in pairwise(units):
            for name in ("tuple", "window", "result", "clear"):
                m.d.comb += getattr(after, f"i_{name}").eq(getattr(one, f"o_{name}"))
            m.d.comb += [one.i_empty.eq(after.o_empty), one.i_stall.eq(after.o_stall)]
        first, last = units[0], units[-1]

        layout = data.StructLayout({"end": 1, "result": _result(shape)})
        m.submodules.queue = queue = Queue(layout, depth=2 * self.reserve)
        m.submodules.outlet = outlet = Outlet(shape)
        inside, quiet, ends = Signal(32), Signal(2), Signal()
        tuples, windows = self.i_stream.payload, self.i_window.payload
        m.d.comb += [
            last.i_empty.eq(1),
            last.i_stall.eq(queue.level > self.reserve),
            first.i_tuple.tuple.eq(tuples.tuple),
            first.i_window.tuple.eq(windows.tuple),
            queue.i.valid.eq((last.o_result.valid & ~fresh) | ends),
            queue.i.payload.end.eq(ends),
            queue.i.payload.result.eq(last.o_result),
        ]
        enters = Signal()
        m.d.comb += enters.eq(first.i_window.valid & first.o_empty)
        m.d.sync += inside.eq(inside + enters - (last.o_window.valid & ~fresh))
        with m.FSM():
            with m.State("LOAD"):
                m.d.comb += [
                    self.i_stream.ready.eq(~fresh),
                    first.i_tuple.valid.eq(self.i_stream.valid & ~tuples.end & ~fresh),
                ]
                with m.If(self.i_stream.valid & tuples.end & ~fresh):
                    m.next = "JOIN"
            with m.State("JOIN"):
                m.d.comb += [
                    first.i_window.valid.eq(self.i_window.valid & ~windows.end),
                    self.i_window.ready.eq(first.o_empty | windows.end),
                ]
                m.d.sync += quiet.eq(0)
                with m.If(self.i_window.valid & windows.end):
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.sync += quiet.eq(quiet + 1)
                with m.If(inside != 0):
                    m.d.sync += quiet.eq(0)
                with m.Elif(quiet == 3):
                    m.d.comb += ends.eq(1)
                    with m.If(queue.i.ready):
                        m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += first.i_clear.eq(1)
                m.next = "LOAD"
        self._check(m, queue, outlet)
        return m

    def _check(self, m: Module, queue: Queue, outlet: Outlet) -> None:
        """Let a result leave if it is wanted, by the rule of ``Lane``."""
        result, i = queue.o.payload.result, outlet.i[0]
        order = Signal(self.shape.id_bits)
        apart = Signal(self.shape.time_bits)
        before, near, wanted = Signal(), Signal(), Signal()
        m.d.comb += [
            order.eq(result.stream.id - result.window.id),
            apart.eq(result.stream.time - result.window.time),
            before.eq((order != 0) & ~order[-1]),
            near.eq(abs(apart.as_signed()) <= self.time_range),
            wanted.eq(queue.o.payload.end | (before & near)),
            i.valid.eq(queue.o.valid & wanted),
            i.payload.end.eq(queue.o.payload.end),
            i.payload.match.stream.eq(result.stream.id),
            i.payload.match.window.eq(result.window.id),
            queue.o.ready.eq(i.ready | ~wanted),
            self.wrong_order.eq(queue.o.valid & ~queue.o.payload.end & ~before),
            self.out_of_range.eq(queue.o.valid & ~queue.o.payload.end & before & ~near),
        ]
        wiring.connect(m, outlet.o, wiring.flipped(self.o))
