"""The paper's window-level query: for each window, walk over all of its panes in the pane buffer.

After algorithms 3 and 4 of the paper: the panes are in a ring in memory; where a window ends, a
read address runs over its panes, one per cycle, and one module aggregates what comes out. Until it
is done no further pane is taken.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .terms import PaneTerms, Term
from .window import window_members

__all__ = ["SequentialWindow"]


class SequentialWindow(wiring.Component):
    """Any terms over the last ``panes`` panes, for each of ``keys`` keys in turn.

    Latency: 1 cycle, and while ``busy``. Throughput: a step per cycle where no window ends, else
    one every ``panes`` + 2 cycles; fewer while the stream is younger than a window.

    Parameters and members as for `AdditiveWindow`, and:

    Members
    -------
    ends : In(1)
        A window ends with this pane.
    busy : Out(1)
        The result is not ready; there must be no step.
    """

    latency = 1

    step: Signal
    fresh: Signal
    key: Signal
    value: Any
    en: Signal
    ends: Signal
    busy: Signal
    o: Any
    length: Signal
    restart: Signal

    def __init__(
        self,
        terms: PaneTerms,
        own: Sequence[Term],
        *,
        panes: int,
        keys: int = 1,
        settable: bool = False,
    ) -> None:
        self.terms = terms
        self.own = tuple(own)
        self.panes = panes
        self.keys = keys
        self.settable = settable
        members, self.pane_layout, self.window_layout = window_members(
            terms, own, panes, keys, settable
        )
        super().__init__({**members, "ends": In(1), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = self.panes * self.keys
        panes: Any = self.length if self.settable else self.panes
        last_key = self.key == self.keys - 1
        age, age_here = Signal(range(self.panes + 1)), Signal(range(self.panes + 1))
        m.d.comb += age_here.eq(Mux(self.fresh, 0, age))
        held = Signal(range(self.panes + 1))  # panes of the window that have been walked over
        m.d.comb += held.eq(Mux(age_here == panes, panes, age_here + 1))

        buffer: Memory = Memory(shape=self.pane_layout, depth=rows, init=[])
        m.submodules.buffer = buffer
        write, read = buffer.write_port(), buffer.read_port()
        write_row, read_row = Signal(range(rows)), Signal(range(rows))
        left, arrives = Signal(range(self.panes + 1)), Signal()
        m.d.comb += [
            write.addr.eq(write_row),
            write.data.eq(self.value),
            write.en.eq(self.step),
            read.addr.eq(read_row),
            self.busy.eq((left != 0) | arrives),
        ]
        m.d.sync += arrives.eq(left != 0)
        with m.If(self.step):
            m.d.sync += [
                write_row.eq(Mux(write_row == panes * self.keys - 1, 0, write_row + 1)),
                read_row.eq(write_row),
            ]
            with m.If(last_key):
                m.d.sync += age.eq(held)
            with m.If(self.ends):
                m.d.sync += left.eq(held)
        with m.Elif(left != 0):
            back = Mux(
                read_row < self.keys, read_row + (panes - 1) * self.keys, read_row - self.keys
            )
            m.d.sync += [left.eq(left - 1), read_row.eq(back)]

        if self.settable:
            with m.If(self.restart):
                m.d.sync += write_row.eq(0)

        for k, term in enumerate(self.own):
            name = f"term_{k}"
            total = self.o[name]
            if term.kind == "count":
                more = total + read.data[name]
            else:
                more = term.merge(total, read.data[name], self.terms.rows)
            with m.If(self.step):
                m.d.sync += total.eq(self.terms.identity(term))
            with m.Elif(arrives):
                m.d.sync += total.eq(more)
        return m
