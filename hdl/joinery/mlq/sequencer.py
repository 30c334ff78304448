"""The order of things for windows by time: what closes before a tuple may enter its queue.

A tuple that moves the watermark past the end of windows waits until they are closed. To close one,
a sweep reads the queue of every slot that has values, and is told of each how many of its oldest
values are dead; these are given up. The sweep is over when all has been answered: so no two reads
of a queue overlap, and what is lost when a queue is full does not depend on how quick anything is.
"""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..number import Divider, chunk_products
from ..pipe import delayed
from ..stream import Queue
from .keys import Ask, SlotTable
from .sift import answer_layout
from .windows import TimeWindows

__all__ = ["Sequencer", "sweep_layout", "timed_tuple_layout"]


def timed_tuple_layout(
    windows: TimeWindows, columns: data.StructLayout, key_width: int
) -> data.StructLayout:
    """A tuple, a punctuation, of which only the time counts, or the end of the input."""
    return data.StructLayout(
        {"end": 1, "punctuation": 1, "key": key_width, "value": columns, "time": windows.time}
    )


def sweep_layout(windows: TimeWindows, table: SlotTable) -> data.StructLayout:
    """A window that is being closed: its end, and how many queues are read for it."""
    slots = range(table.queues.slots + 1)
    return data.StructLayout({"end_time": windows.end_time, "slots": slots})


class Sequencer(wiring.Component):
    """Number the windows of tuples, drop the late ones, and close windows as the watermark passes.

    Latency: 2 cycles. Throughput: one tuple per cycle while no window closes. A window that closes
    costs a cycle for each slot with values, another for each that gives some up, the time of the
    memories, and 6 cycles. However far time leaps, no more windows close one by one than
    (SLACK + RANGE) / SLIDE: once no queue has values, all others are passed over at once.

    Parameters
    ----------
    windows : TimeWindows
    columns : data.StructLayout
        What there is of a value besides its label.
    table : SlotTable

    Members
    -------
    i : In(stream.Signature(timed_tuple_layout(windows, columns, key_width)))
    o : Out(stream.Signature(table.tuple))
        What the table is to do.
    i_answer : In(stream.Signature(answer_layout(queues)))
        Once for each ``Ask.READ``, in their order. It is never kept waiting.
    o_sweep : Out(stream.Signature(sweep_layout(windows, table)))
        Before the reads of each window.
    done : In(1)
        The table has done one more of what it was told.
    fresh, slot : In
        With ``done``: this slot had no values and has one now.
    window : Out
        The window that closes next, as labels have it.
    late : Out(1)
        A tuple was late and is dropped, in this cycle.
    """

    READING = 64
    """Reads that are not yet answered, at most: about as many as a DRAM's latency takes."""

    i: stream.Interface
    o: stream.Interface
    i_answer: stream.Interface
    o_sweep: stream.Interface
    done: Signal
    fresh: Signal
    slot: Signal
    window: Signal
    late: Signal

    def __init__(self, windows: TimeWindows, columns: data.StructLayout, table: SlotTable) -> None:
        self.windows = windows
        self.columns = columns
        self.table = table
        queues = table.queues
        tuple_ = timed_tuple_layout(windows, columns, table.key_width)
        super().__init__(
            {
                "i": In(stream.Signature(tuple_)),
                "o": Out(stream.Signature(table.tuple)),
                "i_answer": In(stream.Signature(answer_layout(queues))),
                "o_sweep": Out(stream.Signature(sweep_layout(windows, table))),
                "done": In(1),
                "fresh": In(1),
                "slot": In(queues.slot),
                "window": Out(windows.label["last"].shape),
                "late": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        queues, windows = self.table.queues, self.windows
        m.submodules.in_use = in_use = Queue(queues.slot, depth=max(2, queues.slots))
        taken = Signal()
        found = self._number(m, taken)
        here, shape = found["tuple"], found["last"].shape()

        begun = Signal()
        next_window = Signal(shape)  # the first that is not closed
        next_pane = Signal(found["bound"].shape())
        under_way = Signal(range(8))
        quiet = Signal()
        m.d.sync += under_way.eq(under_way + (self.o.valid & self.o.ready) - self.done)
        m.d.comb += [quiet.eq(under_way == 0), self.window.eq(next_window)]

        left = Signal.like(in_use.level)
        sweeping, read, swept = self._sweep(m, in_use, left)
        products = self._multiply(m, next_window, windows.slide)
        m.d.comb += [
            self.o_sweep.p.slots.eq(in_use.level),
            self.o.p.key.eq(here.key),
            self.o.p.value.eq(found["kept"]),
        ]
        with m.FSM():
            with m.State("TAKE"), m.If(found["valid"]):
                closes = here.end | (next_window < found["open"])
                with m.If(~here.end & ~begun):
                    m.d.sync += [begun.eq(1), next_window.eq(found["open"])]
                    m.d.sync += next_pane.eq(found["bound"])
                with m.Elif(~here.end & (found["pane"] < next_pane)):
                    m.d.comb += [taken.eq(1), self.late.eq(~here.punctuation)]
                with m.Elif(closes & (in_use.level != 0)), m.If(quiet):
                    m.next = "MULTIPLY"
                with m.Elif(here.end):
                    # What is under way may be the first tuple of all.
                    m.d.comb += [self.o.valid.eq(quiet), self.o.p.end.eq(1)]
                    m.d.comb += taken.eq(quiet & self.o.ready)
                    with m.If(taken):
                        m.d.sync += begun.eq(0)
                with m.Elif(closes), m.If(quiet):
                    m.d.sync += next_window.eq(found["open"])
                with m.Else():
                    m.d.comb += [
                        self.o.valid.eq(~here.punctuation),
                        self.o.p.ask.eq(Ask.INSERT),
                        taken.eq(here.punctuation | self.o.ready),
                    ]
                    with m.If(taken & (next_pane < found["bound"])):
                        m.d.sync += next_pane.eq(found["bound"])
            with m.State("MULTIPLY"):
                m.next = "ADD"
            with m.State("ADD"):
                m.d.sync += self.o_sweep.p.end_time.eq(sum(products) + windows.range)
                m.next = "ANNOUNCE"
            with m.State("ANNOUNCE"):
                m.d.comb += self.o_sweep.valid.eq(1)
                m.d.sync += left.eq(in_use.level)
                with m.If(self.o_sweep.ready):
                    m.next = "SWEEP"
            with m.State("SWEEP"):
                m.d.comb += sweeping.eq(1)
                with m.If(read):
                    m.d.sync += left.eq(left - 1)
                with m.If(swept & quiet):
                    m.d.sync += next_window.eq(next_window + 1)
                    m.next = "TAKE"
        return m

    def _number(self, m: Module, taken: Any) -> dict[str, Any]:
        """The tuple that is looked at, with its pane and windows, and those of the watermark."""
        windows = self.windows
        moves = Signal()
        layout = self.i.payload.shape()
        enters = delayed(m, self.i.valid, 2, moves, "valid")
        here = data.View(layout, delayed(m, self.i.payload, 2, moves, "tuple"))
        m.d.comb += [moves.eq(~enters | taken), self.i.ready.eq(moves)]

        def divide(name: str, divisor: int, *offsets: int) -> list[Any]:
            unit = Divider(
                windows.time, windows.low, windows.high, divisor=divisor, offsets=offsets
            )
            m.submodules[name] = unit
            m.d.comb += [unit.en.eq(moves), unit.i.eq(self.i.p.time)]
            return [getattr(unit, f"o_{k}") for k in range(len(offsets))]

        pane, bound = divide("panes", windows.pane, 0, -windows.slack)
        fewer: Any = Const(0, 0)
        if windows.pane == windows.slide:
            last, open_ = pane, bound - (windows.most - 1)
        else:
            offsets = (0, -windows.range, -windows.range - windows.slack)
            last, before, closed = divide("windows", windows.slide, *offsets)
            fewer, open_ = last - before != windows.most, closed + 1
        kept: Any = Signal(windows.kept(self.columns))
        opens = Signal(Shape(len(last) + 1, signed=True), name="open")
        m.d.comb += [
            opens.eq(open_),
            kept.value.eq(here.value),
            kept.label.last.eq(last),
            kept.label.fewer.eq(fewer),
        ]
        return {"valid": enters, "tuple": here, "pane": pane, "bound": bound, "last": last,
                "open": opens, "kept": kept}  # fmt: skip

    def _multiply(self, m: Module, window: Signal, slide: int) -> list[Signal]:
        """Return the products of ``window`` and ``slide``, in parts, a cycle later."""
        found = []
        for k, product in enumerate(chunk_products(window, slide)):
            held = Signal(product.shape(), name=f"product_{k}")
            m.d.sync += held.eq(product)
            found.append(held)
        return found

    def _sweep(self, m: Module, in_use: Queue, left: Signal) -> tuple[Signal, Signal, Signal]:
        """Read queues while ``sweeping``, and give up what the answers say.

        Return ``sweeping``, whether one is read in this cycle, and whether there is nothing left.
        """
        m.submodules.reading = reading = Queue(self.table.queues.slot, depth=self.READING)
        m.submodules.answers = answers = Queue(self.i_answer.payload.shape(), depth=self.READING)
        wiring.connect(m, wiring.flipped(self.i_answer), answers.i)
        answer = answers.o.p
        sweeping, read, gives, holds = Signal(), Signal(), Signal(), Signal()
        wanted, drops = Signal(), Signal()
        m.d.comb += [
            # Every read has a place for its answer, so that nothing behind the table can get stuck.
            wanted.eq(sweeping & (left != 0) & in_use.o.valid & reading.i.ready),
            drops.eq(sweeping & answers.o.valid & (answer.dead != 0)),
            gives.eq(drops & ~holds),
            read.eq(wanted & ~gives & self.o.ready),
            in_use.o.ready.eq(read),
            reading.i.valid.eq(read),
            reading.i.payload.eq(in_use.o.payload),
            answers.o.ready.eq(Mux(answer.dead == 0, 1, gives & self.o.ready)),
            reading.o.ready.eq(answers.o.valid & answers.o.ready),
            # A slot that has values left, and one that has its first, is in use.
            in_use.i.valid.eq((reading.o.ready & answer.left) | (self.done & self.fresh)),
            in_use.i.payload.eq(Mux(sweeping, reading.o.payload, self.slot)),
        ]
        m.d.sync += holds.eq(wanted & ~gives & ~self.o.ready)  # an offer stands
        with m.If(sweeping):
            m.d.comb += [
                self.o.valid.eq(gives | wanted),
                self.o.p.ask.eq(Mux(gives, Ask.DROP, Ask.READ)),
                self.o.p.slot.eq(Mux(gives, reading.o.payload, in_use.o.payload)),
                self.o.p.number.eq(answer.dead),
            ]
        swept = Signal()
        m.d.comb += swept.eq((left == 0) & (reading.level == 0))
        return sweeping, read, swept
