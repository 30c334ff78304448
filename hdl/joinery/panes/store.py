"""The pane-level query: the state of every open pane, in memory, updated by a tuple per cycle.

A row of the memory belongs to the pane whose tag it holds; any other pane finds it empty. So
nothing has to be cleared, between panes or after a reset.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .terms import PaneTerms

__all__ = ["PaneStore", "argument_layout"]


class PaneStore(wiring.Component):
    """Keep the terms of open panes; take a tuple and give the state of a pane in every cycle.

    Latency: a tuple is seen by a read one cycle after it was taken; a read takes 1 cycle.

    Parameters
    ----------
    terms : PaneTerms
    rows : int
        Rows of the memory: panes times keys; a power of two.
    tag_bits : int

    Members
    -------
    put : In(1)
        Take a tuple.
    address, tag : In
        Row and tag of its pane.
    passes : In(len(terms.wheres)), arguments : In(struct)
        Which conditions hold, and the values of the arguments. One cycle after ``put``.
    read, read_address : In
        Read a row; the answer stands until the next read.
    read_tag : In
        The tag that the row must have. One cycle after ``read``.
    value : Out(struct)
        The terms, as of no tuple if the tag is another one.
    """

    put: Signal
    address: Signal
    tag: Signal
    passes: Signal
    arguments: Any
    read: Signal
    read_address: Signal
    read_tag: Signal
    value: Any

    def __init__(self, terms: PaneTerms, *, rows: int, tag_bits: int) -> None:
        self.terms = terms
        self.rows = rows
        self.state = data.StructLayout(
            {f"term_{k}": terms.shape(term) for k, term in enumerate(terms.all)}
        )
        self.row = data.StructLayout({"tag": tag_bits, "state": self.state})
        super().__init__(
            {
                "put": In(1),
                "address": In(range(rows)),
                "tag": In(tag_bits),
                "passes": In(len(terms.wheres)),
                "arguments": In(argument_layout(terms)),
                "read": In(1),
                "read_address": In(range(rows)),
                "read_tag": In(tag_bits),
                "value": Out(self.state),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        memory: Memory = Memory(shape=self.row, depth=self.rows, init=[])
        m.submodules.state = memory
        write = memory.write_port()
        old, closed = memory.read_port(), memory.read_port()

        # A tuple reads its row in one cycle and writes it in the next.
        held = data.StructLayout({"put": 1, "address": self.address.shape(), "tag": len(self.tag)})
        now: Any = Signal(held)
        wrote: Any = Signal(data.StructLayout({"address": self.address.shape(), "row": self.row}))
        wrote_now = Signal()
        found: Any = Signal(self.row)
        m.d.comb += [
            old.addr.eq(self.address),
            found.eq(Mux(wrote_now & (wrote.address == now.address), wrote.row, old.data)),
            write.addr.eq(now.address),
            write.en.eq(now.put),
            write.data.tag.eq(now.tag),
            write.data.state.eq(self._updated(m, found, now.tag)),
        ]
        m.d.sync += [
            now.put.eq(self.put),
            now.address.eq(self.address),
            now.tag.eq(self.tag),
            wrote_now.eq(write.en),
            wrote.address.eq(write.addr),
            wrote.row.eq(write.data),
        ]

        # The last tuple of a pane may be written in the cycle in which the pane is read.
        crossed, crossing = Signal(), Signal(self.row)
        m.d.comb += [closed.addr.eq(self.read_address), closed.en.eq(self.read)]
        with m.If(self.read):
            m.d.sync += [
                crossed.eq(write.en & (write.addr == self.read_address)),
                crossing.eq(write.data),
            ]
        answer: Any = Signal(self.row)
        m.d.comb += answer.eq(Mux(crossed, crossing, closed.data))
        mine = answer.tag == self.read_tag
        for k, term in enumerate(self.terms.all):
            state = answer.state[f"term_{k}"]
            m.d.comb += self.value[f"term_{k}"].eq(Mux(mine, state, self.terms.identity(term)))
        return m

    def _updated(self, m: Module, found: Any, tag: Signal) -> Signal:
        """The state of a row after the tuple has been added."""
        new: Any = Signal(self.state, name="new_state")
        mine = Signal()
        m.d.comb += mine.eq(found.tag == tag)
        for k, term in enumerate(self.terms.all):
            name = f"term_{k}"
            before = Signal(self.terms.shape(term), name=f"before_{k}")
            m.d.comb += before.eq(Mux(mine, found.state[name], self.terms.identity(term)))
            if term.kind == "count":
                full = before == self.terms.rows + 1
                after = before + ~full
            else:
                index = self.terms.arguments.index(term.argument)
                value = self.arguments[f"argument_{index}"]
                after = term.merge(before, value, self.terms.rows)
            passes = self.passes[self.terms.wheres.index(term.where)]
            m.d.comb += new[name].eq(Mux(passes, after, before))
        return new


def argument_layout(terms: PaneTerms) -> data.StructLayout:
    """The values of all arguments of a tuple."""
    return data.StructLayout(
        {f"argument_{k}": Shape(*each.type.bits) for k, each in enumerate(terms.arguments)}
    )
