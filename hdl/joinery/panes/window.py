"""The window-level query at a pane per cycle: counts and sums by subtract-on-evict.

The panes of a window are in a ring in memory. What the newest pane brings is added, what leaves
with the oldest one is subtracted.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..pipe import KeyedRegister, delayed
from ..tuples import bits_for_range
from .terms import PaneTerms, Term

__all__ = ["AdditiveWindow", "window_members", "window_shape"]


def window_shape(term: Term, rows: int, panes: int) -> Shape:
    """The shape of a term over a window: exact for counts, so that too many can be told."""
    if term.kind == "count":
        return Shape(*bits_for_range(0, panes * (rows + 1)))
    return term.shape(rows)


def window_members(
    terms: PaneTerms, own: Sequence[Term], panes: int, keys: int, settable: bool
) -> tuple[dict[str, Any], data.StructLayout, data.StructLayout]:
    """The members that every kind of window has, and the layouts of a pane and of a window."""
    pane = data.StructLayout({f"term_{k}": terms.shape(term) for k, term in enumerate(own)})
    window = data.StructLayout(
        {f"term_{k}": window_shape(term, terms.rows, panes) for k, term in enumerate(own)}
    )
    members = {
        "step": In(1),
        "fresh": In(1),
        "key": In(range(keys)),
        "value": In(pane),
        "en": In(1),
        "o": Out(window),
    }
    if settable:
        members |= {"length": In(range(panes + 1)), "restart": In(1)}
    return members, pane, window


class AdditiveWindow(wiring.Component):
    """Counts and sums over the last ``panes`` panes, for each of ``keys`` keys in turn.

    Latency: 1 cycle, or 2 with a ``register``. Throughput: a step per cycle.

    Parameters
    ----------
    terms : PaneTerms
    own : sequence of Term
        Counts and sums.
    panes, keys : int
    register : bool
        What comes is reduced by what leaves in a cycle of its own.
    settable : bool
        The number of panes can be changed, up to ``panes``.

    Members
    -------
    step : In(1)
        Take a pane and key. Low while ``en`` is.
    fresh : In(1)
        The windows were empty before this pane.
    key : In(range(keys))
    value : In(struct)
        The terms of the pane.
    en : In(1)
        ``o`` moves.
    o : Out(struct)
        The terms of the window that ends with it.
    length : In(range(panes + 1)), restart : In(1)
        Only if settable: the number of panes, and a pulse with which a new one comes; the next
        step must be fresh.
    """

    step: Signal
    fresh: Signal
    key: Signal
    value: Any
    en: Signal
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
        register: bool = False,
    ) -> None:
        self.terms = terms
        self.latency = 1 + register
        self.own = tuple(own)
        self.panes = panes
        self.keys = keys
        self.settable = settable
        members, self.pane_layout, self.window_layout = window_members(
            terms, own, panes, keys, settable
        )
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        panes: Any = self.length if self.settable else self.panes
        last_key = self.key == self.keys - 1
        age, age_here = Signal(range(self.panes + 1)), Signal(range(self.panes + 1))
        age_after, full = Signal.like(age), Signal()
        m.d.comb += [
            age_here.eq(Mux(self.fresh, 0, age)),
            age_after.eq(Mux(full & ~self.fresh, panes, age_here + 1)),
        ]
        with m.If(self.step & last_key):
            m.d.sync += [age.eq(age_after), full.eq(age_after == panes)]

        leaving = self._leaving(m)

        def later(value: Any, name: str) -> Value:
            return delayed(m, value, self.latency - 1, self.en, f"{name}_later")

        step, fresh, key = (
            later(self.step, "step") & self.en, later(self.fresh, "fresh"), later(self.key, "key"),
        )  # fmt: skip
        for k, term in enumerate(self.own):
            name = f"term_{k}"
            total = KeyedRegister(
                m, window_shape(term, self.terms.rows, self.panes), keys=self.keys,
                name=f"total_{k}",
            )  # fmt: skip
            new, change = (
                Signal.like(self.o[name], name=f"{each}_{k}") for each in ("new", "change")
            )
            value = self.value[name]
            if self.latency == 1:
                leaves = Mux(full & ~self.fresh, leaving[name], 0)
                m.d.comb += [change.eq(value - leaves), new.eq(Mux(fresh, 0, total.value) + change)]
            else:
                # Sums first, then choices: those come from registers, and have far to go.
                m.d.comb += change.eq(Mux(full & ~self.fresh, value - leaving[name], value))
                changed = later(change, f"change_{k}")
                m.d.comb += new.eq(Mux(fresh, changed, total.value + changed))
            total.write(new, step, key)
            with m.If(step):
                m.d.sync += self.o[name].eq(new)
        return m

    def _leaving(self, m: Module) -> Any:
        """The pane that leaves with this step, if the window is full: in a register.

        It is read from the ring two steps before. What was written since comes past the ring.
        """
        rows = self.panes * self.keys
        last_row: Any = (self.length if self.settable else Const(self.panes)) * self.keys - 1
        leaving: Any = Signal(self.pane_layout, name="leaving")
        newest: Any = Signal(self.pane_layout, name="newest")
        coming: Any = Signal(self.pane_layout, name="coming")  # what leaves with the next step
        with m.If(self.step):
            m.d.sync += [newest.eq(self.value), leaving.eq(coming)]
        with m.If(last_row == 0):
            m.d.comb += coming.eq(self.value)
        with m.Elif(last_row == 1):
            m.d.comb += coming.eq(newest)
        if rows <= 2:
            return leaving

        ring: Memory = Memory(shape=self.pane_layout, depth=rows, init=[])
        m.submodules.ring = ring
        write, read = ring.write_port(), ring.read_port()
        position, ahead = Signal(range(rows)), Signal(range(rows), init=2)
        m.d.comb += [
            write.addr.eq(position),
            write.data.eq(self.value),
            write.en.eq(self.step),
            read.addr.eq(ahead),
            read.en.eq(self.step),
        ]
        with m.If(last_row > 1):
            m.d.comb += coming.eq(read.data)
        with m.If(self.step):
            m.d.sync += [row.eq(Mux(row == last_row, 0, row + 1)) for row in (position, ahead)]
        if self.settable:
            with m.If(self.restart):
                m.d.sync += [position.eq(0), ahead.eq(2)]
        return leaving
