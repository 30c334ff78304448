"""What is read of a queue, sifted by time: which values are in the window, and which are dead."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .collector import count_layout, part_of_window
from .levels import Queues
from .windows import TimeWindows

__all__ = ["Sifter", "answer_layout"]


def answer_layout(queues: Queues) -> data.StructLayout:
    """What is learned of a queue that was read: how many of its oldest values are dead.

    ``left``: it has others. ``found``: some are in the window.
    """
    return data.StructLayout({"dead": queues.count, "left": 1, "found": 1})


def count_ones(bits: Value) -> Value:
    """Return how many bits are set, by a tree of adders."""
    if len(bits) <= 1:
        return bits
    half = len(bits) // 2
    return count_ones(bits[:half]) + count_ones(bits[half:])


class Sifter(wiring.Component):
    """Let the values of one window through to the kernels, without the labels.

    Latency: 3 cycles. Throughput: one part per cycle.

    Parameters
    ----------
    queues : Queues
    windows : TimeWindows
    columns : data.StructLayout
        What there is of a value besides its label.

    Members
    -------
    window : In(the last window of a label)
        The window that is looked at; it must not change while there is anything here.
    i : In(stream.Signature(part_of_window(queues, False)))
    o : Out(stream.Signature(count_layout(columns.size, queues.lanes, queues)))
        ``count`` is right in the last part.
    o_answer : Out(stream.Signature(answer_layout(queues)))
        With each last part.
    """

    window: Signal
    i: stream.Interface
    o: stream.Interface
    o_answer: stream.Interface

    def __init__(self, queues: Queues, windows: TimeWindows, columns: data.StructLayout) -> None:
        self.queues = queues
        self.windows = windows
        self.columns = columns
        super().__init__(
            {
                "window": In(windows.label["last"].shape),
                "i": In(stream.Signature(part_of_window(queues, False))),
                "o": Out(stream.Signature(count_layout(columns.size, queues.lanes, queues))),
                "o_answer": Out(stream.Signature(answer_layout(queues))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, count = self.queues.lanes, self.queues.count
        free = Signal()
        sent, answered = Signal(), Signal()  # the two outputs may be taken in different cycles
        valid = Signal(3)
        m.d.comb += [
            self.o.valid.eq(valid[2] & ~sent),
            self.o_answer.valid.eq(valid[2] & self.o.p.last & ~answered),
            free.eq((~self.o.valid | self.o.ready) & (~self.o_answer.valid | self.o_answer.ready)),
            self.i.ready.eq(free),
        ]
        with m.If(free):
            m.d.sync += [valid.eq(Cat(self.i.valid, valid)), sent.eq(0), answered.eq(0)]
        with m.Else():
            m.d.sync += [
                sent.eq(sent | (self.o.valid & self.o.ready)),
                answered.eq(answered | (self.o_answer.valid & self.o_answer.ready)),
            ]

        # First what each value is, then how many of a part, then how many of the queue.
        part = data.StructLayout(
            {"last": 1, "count": count, "mask": lanes, "values": self.o.p.values.shape()}
        )
        sorted_: Any = Signal(part)
        counted: Any = Signal(part)
        oldest = Signal(lanes)
        inside, dead = Signal(range(lanes + 1)), Signal(range(lanes + 1))
        stops = Signal()
        are_inside, are_dead = self._judge(m)
        alive = self.i.p.mask & ~are_dead
        with m.If(free):
            m.d.sync += [
                sorted_.last.eq(self.i.p.last),
                sorted_.count.eq(self.i.p.count),
                sorted_.mask.eq(self.i.p.mask & are_inside),
                oldest.eq(self.i.p.mask & ~alive & (alive - 1)[:lanes]),
                stops.eq(alive.any()),
                counted.eq(sorted_),
                inside.eq(count_ones(sorted_.mask)),
                dead.eq(count_ones(oldest)),
            ]
            for lane, value in enumerate(self.i.p.values):
                m.d.sync += sorted_.values[lane].eq(value[self.windows.label.size :])

        stopped, stops_now = Signal(), Signal()
        inside_before, dead_before = Signal(count), Signal(count)
        inside_all, dead_all = Signal(count), Signal(count)
        m.d.comb += [
            inside_all.eq(inside_before + inside),
            dead_all.eq(dead_before + Mux(stopped, 0, dead)),
        ]
        with m.If(free):
            m.d.sync += stops_now.eq(stops)
            with m.If(valid[1]):
                m.d.sync += [
                    inside_before.eq(Mux(counted.last, 0, inside_all)),
                    dead_before.eq(Mux(counted.last, 0, dead_all)),
                    stopped.eq((stopped | stops_now) & ~counted.last),
                ]
            m.d.sync += [
                self.o.p.last.eq(counted.last),
                self.o.p.mask.eq(counted.mask),
                self.o.p.values.eq(counted.values),
                self.o.p.count.eq(inside_all),
                self.o_answer.p.dead.eq(dead_all),
                self.o_answer.p.left.eq(dead_all != counted.count),
                self.o_answer.p.found.eq(inside_all != 0),
            ]
        return m

    def _judge(self, m: Module) -> tuple[Signal, Signal]:
        """Return which values are in the window, and which are in none that is still to come."""
        windows = self.windows
        inside, dead = Signal(self.queues.lanes), Signal(self.queues.lanes)
        for lane, value in enumerate(self.i.p.values):
            label = data.View(windows.label, value[: windows.label.size])
            # From the oldest that can be there; a tuple's windows end with its last.
            place = Signal(len(self.window), name=f"place_{lane}")
            most = windows.behind + windows.most - 1 - label.fewer
            m.d.comb += [
                place.eq(label.last - self.window + windows.behind),
                inside[lane].eq((place >= windows.behind) & (place <= most)),
                dead[lane].eq(place <= windows.behind),
            ]
        return inside, dead
