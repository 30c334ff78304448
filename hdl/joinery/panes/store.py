"""The pane-level query: the state of every open pane, in memory, updated by a tuple per cycle.

A row of the memory belongs to the pane whose tag it holds; any other pane finds it empty. So
nothing has to be cleared, between panes or after a reset.

What a memory gives goes into a register at once, for nothing else fits into its cycle. So a row is
fetched before it is known to be needed, and what was written meanwhile is put in its place from the
registers of the last writes.

Where the plan is relaxed, a tuple takes one cycle more, in which it is known already which of these
holds its row; and panes are read when no tuple of theirs is under way any more.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..pipe import delayed
from .plan import PanePlan
from .terms import PaneTerms

__all__ = ["PaneStore", "argument_layout"]


class PaneStore(wiring.Component):
    """Keep the terms of open panes; take a tuple and give the state of a pane in every cycle.

    Latency: a tuple is seen by a read one cycle after it was taken, or three where the plan is
    relaxed; a read takes ``plan.read_latency`` cycles in which ``read`` is high.

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
        The row that may be read in the next cycle; not used where the plan is relaxed.
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

    ALIKE = 16
    """Bits of tags that are compared in a cycle, where the plan is relaxed."""

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
        self._stored = data.StructLayout({"tag": self.plan.tag_bits, "state": self.state})
        # Where a row is read while it is written, what is read is of no use.
        attrs: Any = {"no_rw_check": 1}  # the stubs know text alone
        memory: Memory = Memory(shape=self._stored, depth=self.rows, init=[], attrs=attrs)
        m.submodules.state = memory
        write = memory.write_port()
        old, closed = memory.read_port(), memory.read_port()

        # What tells rows apart among the places that may be under way together.
        self._near = len(self.row) + self.plan.near - self.plan.slot_bits

        # A tuple's row is fetched ahead, so that it is there when the tuple is.
        looked = [Signal.like(self.look, name=f"looked_{k}") for k in range(self.FETCH)]
        fetched: Any = Signal(self._stored, reset_less=True)
        m.d.comb += [old.addr.eq(self.look), old.en.eq(self.en)]
        with m.If(self.en):
            m.d.sync += [looked[0].eq(self.look), looked[1].eq(looked[0]), fetched.eq(old.data)]
        put_tag = self.place[self.plan.slot_bits :]
        found, wanted = Cat(fetched.tag, looked[1]), Cat(put_tag, self.row)
        mine = found == wanted

        if self.plan.relaxed:
            self._take_relaxed(m, write, fetched.state, self._alike(found, wanted))
            self._give_relaxed(m, closed)
        else:
            writes = self._take(m, write, fetched.state, mine)
            self._give(m, closed, writes)
        return m

    def _near_name(self, row: Value, place: Value) -> Value:
        return Cat(row, place[self.plan.slot_bits : self.plan.near])

    def _writes(self, m: Module, count: int, moved: Value, last: Any) -> list[Any]:
        """The writes of so many moves before, the last one first; ``last`` is that of now."""
        writes: list[Any] = [Signal(last.shape(), name=f"write_{k}") for k in range(count)]
        with m.If(moved):
            m.d.sync += [later.eq(each) for each, later in pairwise([last, *writes])]
        return writes

    @property
    def _entry(self) -> data.StructLayout:
        return data.StructLayout({"live": 1, "name": self._near, "state": self.state})

    def _put(self, m: Module, write: Any, item: Any, tag: Value) -> None:
        """Write an item to its row."""
        m.d.comb += [
            write.addr.eq(item.name),
            write.en.eq(item.live),
            write.data.tag.eq(tag),
            write.data.state.eq(item.state),
        ]

    def _nothing(self) -> Value:
        return Cat(self.terms.identity(term) for term in self.terms.all)

    def _state_of(self, own: Value, mine: Value, state: Any, latest: list[Any]) -> Value:
        """The state that was written last: by ``latest``, or what was fetched if ``mine``."""
        written = [each.live & (each.name == own) for each in latest]
        value: Value = Value.cast(latest[-1].state)
        for is_it, each in zip(reversed(written[:-1]), reversed(latest[:-1]), strict=True):
            value = Mux(is_it, each.state, value)
        return Mux(Cat(written).any(), value, Mux(mine, state, self._nothing()))

    def _take(self, m: Module, write: Any, fetched: Any, mine: Value) -> list[Any]:
        """Add a tuple, and return the last writes."""
        item: Any = Signal(self._entry, name="item")  # the tuple that is added now
        adds, again, moved = Signal(), Signal(), Signal()
        name, tag = Signal(self._near), Signal(self.plan.tag_bits)
        base: Any = Signal(self.state, name="base")
        m.d.sync += moved.eq(self.en)
        writes = self._writes(m, self.FETCH + 1, moved, item)
        m.d.comb += [
            item.live.eq(adds),
            item.name.eq(name),
            item.state.eq(self._updated(m, Mux(again, writes[0].state, base), self._given())),
        ]
        self._put(m, write, item, tag)
        put_name = self._near_name(self.row, self.place)
        m.d.sync += [
            adds.eq(self.put),
            name.eq(put_name),
            tag.eq(self.place[self.plan.slot_bits :]),
            again.eq(adds & (name == put_name)),
            Value.cast(base).eq(self._state_of(put_name, mine, fetched, writes)),
        ]
        return writes

    def _alike(self, left: Value, right: Value) -> Value:
        """A bit for each part in which they are equal: all of them are not known in one cycle."""
        starts = range(0, len(left), self.ALIKE)
        return Cat(left[k : k + self.ALIKE] == right[k : k + self.ALIKE] for k in starts)

    def _take_relaxed(self, m: Module, write: Any, fetched: Any, mine: Value) -> None:
        """Add a tuple two cycles after it was put: in the cycle between, its state is chosen."""
        item: Any = Signal(self._entry, name="item")
        adds, moved, shifts = Signal(), Signal(), Signal()
        name, tag = Signal(self._near), Signal(self.plan.tag_bits)
        base: Any = Signal(self.state, name="base")
        m.d.sync += [moved.eq(self.en), shifts.eq(moved)]
        writes = self._writes(m, self.FETCH + 2, shifts, item)

        # Where the state will be in the next cycle, that in which it is chosen.
        put_name = self._near_name(self.row, self.place)
        chooses, again = Signal(), Signal()
        own, own_tag = Signal(self._near), Signal(self.plan.tag_bits)
        own_state: Any = Signal(self.state, name="own_state")
        is_mine, hits = Signal(len(mine)), Signal(len(writes))
        equal = [each.live & (each.name == put_name) for each in (item, *writes)]
        m.d.sync += [
            chooses.eq(self.put),
            own.eq(put_name),
            own_tag.eq(self.place[self.plan.slot_bits :]),
            own_state.eq(fetched),
            is_mine.eq(mine),
            again.eq(chooses & (own == put_name)),
            hits.eq(Mux(shifts, Cat(equal[:-1]), Cat(equal[1:]))),
        ]
        state: Value = Mux(is_mine.all(), own_state, self._nothing())
        for hit, each in reversed(list(zip(hits, writes, strict=True))):
            state = Mux(hit, each.state, state)
        given = [Signal(value.shape(), name=f"given_{k}") for k, value in enumerate(self._given())]
        m.d.sync += [held.eq(value) for held, value in zip(given, self._given(), strict=True)]
        m.d.sync += [
            adds.eq(chooses),
            name.eq(own),
            tag.eq(own_tag),
            Value.cast(base).eq(Mux(again, item.state, state)),
        ]
        m.d.comb += [
            item.live.eq(adds),
            item.name.eq(name),
            item.state.eq(self._updated(m, base, given)),
        ]
        self._put(m, write, item, tag)

    def _give(self, m: Module, closed: Any, writes: list[Any]) -> None:
        """A row that may be read is fetched anew in every cycle, and held once it was read."""
        read: Any = Signal(self._stored)
        read_name, read_tag = Signal(self._near), Signal(self.plan.tag_bits)
        mine = read.tag == read_tag
        m.d.comb += [
            closed.addr.eq(self.next_row),
            Value.cast(self.value).eq(self._state_of(read_name, mine, read.state, writes[:2])),
        ]
        with m.If(self.read):
            m.d.sync += [
                read.eq(closed.data),
                read_name.eq(self._near_name(self.read_row, self.read_place)),
                read_tag.eq(self.read_place[self.plan.slot_bits :]),
            ]
        with m.Else():
            m.d.sync += [read.tag.eq(read_tag), read.state.eq(self.value)]

    def _give_relaxed(self, m: Module, closed: Any) -> None:
        """A row, with a register behind the memory and one behind the comparison of tags."""
        read: Any = Signal(self._stored, name="read", reset_less=True)
        state: Any = Signal(self.state, name="read_state", reset_less=True)
        tag = delayed(m, self.read_place[self.plan.slot_bits :], 2, self.read, "read_tag")
        alike = self._alike(read.tag, tag)
        mine = Signal(len(alike))
        m.d.comb += [
            closed.addr.eq(self.read_row),
            closed.en.eq(self.read),
            Value.cast(self.value).eq(Mux(mine.all(), state, self._nothing())),
        ]
        with m.If(self.read):
            m.d.sync += [read.eq(closed.data), state.eq(read.state), mine.eq(alike)]

    def _given(self) -> list[Value]:
        """What a tuple adds to each term: 1 for a count; for least and largest values, whether it
        passes, and the value."""
        found: list[Value] = []
        for term in self.terms.all:
            passes = self.passes[self.terms.wheres.index(term.where)]
            if term.kind == "count":
                found.append(passes)
                continue
            argument = self.arguments[f"argument_{self.terms.arguments.index(term.argument)}"]
            if term.kind == "sum":
                found.append(Mux(passes, argument, 0))
            else:
                found.append(Cat(passes, argument))
        return found

    def _updated(self, m: Module, before: Value, given: Sequence[Value]) -> Signal:
        """The state of a row after the tuple has been added."""
        old: Any = Signal(self.state, name="old_state")
        new: Any = Signal(self.state, name="new_state")
        m.d.comb += Value.cast(old).eq(before)
        for k, (term, value) in enumerate(zip(self.terms.all, given, strict=True)):
            name = f"term_{k}"
            if term.kind == "count":
                # It never exceeds the most, so that only the ones of that need to be looked at.
                most = self.terms.rows + 1
                full = Cat(bit for n, bit in enumerate(old[name]) if most >> n & 1).all()
                m.d.comb += new[name].eq(old[name] + (value & ~full))
            elif term.kind == "sum":
                m.d.comb += new[name].eq(old[name] + value)
            else:
                argument = value[1:].as_signed() if old[name].shape().signed else value[1:]
                after = term.merge(old[name], argument, self.terms.rows)
                m.d.comb += new[name].eq(Mux(value[0], after, old[name]))
        return new


def argument_layout(terms: PaneTerms) -> data.StructLayout:
    """The values of all arguments of a tuple."""
    return data.StructLayout(
        {f"argument_{k}": Shape(*each.type.bits) for k, each in enumerate(terms.arguments)}
    )
