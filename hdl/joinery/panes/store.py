"""The pane-level query: the state of every open pane, in memory, updated by a tuple per cycle.

A row of the memory belongs to the pane whose tag it holds; any other pane finds it empty. So
nothing has to be cleared, between panes or after a reset.

What a memory gives goes into a register at once, for nothing else fits into its cycle. So a row is
fetched before it is known to be needed, and what was written meanwhile is put in its place from the
registers of the last writes.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .plan import PanePlan
from .terms import PaneTerms

__all__ = ["PaneStore", "argument_layout"]


class PaneStore(wiring.Component):
    """Keep the terms of open panes; take a tuple and give the state of a pane in every cycle.

    Latency: a tuple is seen by a read one cycle after it was taken; a read takes 1 cycle.

    Parameters
    ----------
    plan : PanePlan
    terms : PaneTerms
    keys : int
        Rows of a place: one for each key; a power of two.

    Members
    -------
    en : In(1)
        Tuples move on.
    look : In
        The row of the tuple that is taken ``FETCH`` moves later. Another row does as well if its
        pane had no tuple before, or none but the last one.
    put : In(1), row, place : In
        Take a tuple. Low while ``en`` is.
    passes : In(len(terms.wheres)), arguments : In(struct)
        Which conditions hold, and the values of the arguments. One cycle after ``put``.
    next_row : In
        The row that may be read in the next cycle.
    read : In(1), read_row, read_place : In
        Read this row; the answer stands until the next read.
    value : Out(struct)
        The terms, as of no tuple if the row is of another place.
    """

    en: Signal
    look: Signal
    put: Signal
    row: Signal
    place: Signal
    passes: Signal
    arguments: Any
    next_row: Signal
    read: Signal
    read_row: Signal
    read_place: Signal
    value: Any

    FETCH = 2
    """Moves from ``look`` to ``put``."""

    def __init__(self, plan: PanePlan, terms: PaneTerms, *, keys: int = 1) -> None:
        self.plan = plan
        self.terms = terms
        self.rows = plan.slots * keys
        self.state = data.StructLayout(
            {f"term_{k}": terms.shape(term) for k, term in enumerate(terms.all)}
        )
        super().__init__(
            {
                "en": In(1),
                "look": In(range(self.rows)),
                "put": In(1),
                "row": In(range(self.rows)),
                "place": In(plan.place),
                "passes": In(len(terms.wheres)),
                "arguments": In(argument_layout(terms)),
                "next_row": In(range(self.rows)),
                "read": In(1),
                "read_row": In(range(self.rows)),
                "read_place": In(plan.place),
                "value": Out(self.state),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        stored = data.StructLayout({"tag": plan.tag_bits, "state": self.state})
        memory: Memory = Memory(shape=stored, depth=self.rows, init=[])
        m.submodules.state = memory
        write = memory.write_port()
        old, closed = memory.read_port(), memory.read_port()

        # What tells rows apart among the places that may be under way together.
        near = len(self.row) + plan.near - plan.slot_bits

        def near_name(row: Value, place: Value) -> Value:
            return Cat(row, place[plan.slot_bits : plan.near])

        # A tuple's row is fetched ahead, so that it is there when the tuple is.
        looked = [Signal.like(self.look, name=f"looked_{k}") for k in range(self.FETCH)]
        fetched: Any = Signal(stored)
        m.d.comb += [old.addr.eq(self.look), old.en.eq(self.en)]
        with m.If(self.en):
            m.d.sync += [looked[0].eq(self.look), looked[1].eq(looked[0]), fetched.eq(old.data)]

        # The tuple that is added now, and the writes of the moves before, the last one first.
        entry = data.StructLayout({"live": 1, "name": near, "state": self.state})
        writes: list[Any] = [Signal(entry, name=f"write_{k}") for k in range(self.FETCH + 1)]
        moved, adds, again = Signal(), Signal(), Signal()
        name, tag = Signal(near), Signal(plan.tag_bits)
        base, new = Signal(self.state), Signal(self.state)
        m.d.comb += [
            new.eq(self._updated(m, Mux(again, writes[0].state, base))),
            write.addr.eq(name),
            write.en.eq(adds),
            write.data.tag.eq(tag),
            write.data.state.eq(new),
        ]
        m.d.sync += moved.eq(self.en)
        with m.If(moved):
            m.d.sync += [later.eq(each) for each, later in pairwise(writes)]
            m.d.sync += [
                writes[0].live.eq(adds),
                writes[0].name.eq(name),
                writes[0].state.eq(new),
            ]

        def state_of(own: Value, mine: Value, state: Any, latest: list[Any]) -> Value:
            """The state that was written last: by ``latest``, or what was fetched if ``mine``."""
            written = [each.live & (each.name == own) for each in latest]
            value: Value = Value.cast(latest[-1].state)
            for is_it, each in zip(reversed(written[:-1]), reversed(latest[:-1]), strict=True):
                value = Mux(is_it, each.state, value)
            nothing = Cat(self.terms.identity(term) for term in self.terms.all)
            return Mux(Cat(written).any(), value, Mux(mine, state, nothing))

        put_name = near_name(self.row, self.place)
        put_tag = self.place[plan.slot_bits :]
        mine = (fetched.tag == put_tag) & (looked[1] == self.row)
        m.d.sync += [
            adds.eq(self.put),
            name.eq(put_name),
            tag.eq(put_tag),
            again.eq(adds & (name == put_name)),
            Value.cast(base).eq(state_of(put_name, mine, fetched.state, writes)),
        ]

        # A row that may be read is fetched anew in every cycle, and held once it was read.
        read: Any = Signal(stored)
        read_name, read_tag = Signal(near), Signal(plan.tag_bits)
        mine = read.tag == read_tag
        m.d.comb += [
            closed.addr.eq(self.next_row),
            Value.cast(self.value).eq(state_of(read_name, mine, read.state, writes[:2])),
        ]
        with m.If(self.read):
            m.d.sync += [
                read.eq(closed.data),
                read_name.eq(near_name(self.read_row, self.read_place)),
                read_tag.eq(self.read_place[plan.slot_bits :]),
            ]
        with m.Else():
            m.d.sync += [read.tag.eq(read_tag), read.state.eq(self.value)]
        return m

    def _updated(self, m: Module, before: Value) -> Signal:
        """The state of a row after the tuple has been added."""
        old: Any = Signal(self.state, name="old_state")
        new: Any = Signal(self.state, name="new_state")
        m.d.comb += Value.cast(old).eq(before)
        for k, term in enumerate(self.terms.all):
            name = f"term_{k}"
            if term.kind == "count":
                # It never exceeds the most, so that only the ones of that need to be looked at.
                most = self.terms.rows + 1
                full = Cat(bit for n, bit in enumerate(old[name]) if most >> n & 1).all()
                after = old[name] + ~full
            else:
                index = self.terms.arguments.index(term.argument)
                value = self.arguments[f"argument_{index}"]
                after = term.merge(old[name], value, self.terms.rows)
            passes = self.passes[self.terms.wheres.index(term.where)]
            m.d.comb += new[name].eq(Mux(passes, after, old[name]))
        return new


def argument_layout(terms: PaneTerms) -> data.StructLayout:
    """The values of all arguments of a tuple."""
    return data.StructLayout(
        {f"argument_{k}": Shape(*each.type.bits) for k, each in enumerate(terms.arguments)}
    )
