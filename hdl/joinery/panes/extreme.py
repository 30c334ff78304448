"""The window-level query at a pane per cycle: least and largest values, in constant time.

As van Herk and Gil and Werman: panes are cut in blocks, and a window is the end of one block, whole
blocks, and the beginning of the newest. They compute the ends of a block in one go when it is
complete, which takes as many steps as it has panes. Here blocks are half a window long, so that
the ends of a block are computed backwards, one per step, while the next block comes in; a window
reaches back no further than to the block before that, whose ends are complete.

With n panes to a window, blocks of h = ceil(n / 2), and the newest pane at place i of its block,
the window has i + 1 panes of this block; then all h of the block before; then the last
n - h - i - 1 of the one before that, which begin at place i + 1 + (n odd). Where n is odd and i the
last place, the window leaves the first pane of the block before out.
"""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from ..pipe import KeyedRegister, delayed
from .terms import PaneTerms, Term
from .window import window_members

__all__ = ["ExtremeWindow"]


class ExtremeWindow(wiring.Component):
    """The least or largest value of the last ``panes`` panes, for each of ``keys`` keys in turn.

    Latency: 3 cycles from ``value``, which comes ``READ`` cycles later than the rest of its step.
    Throughput: a step per cycle. Parameters and members as for `AdditiveWindow`, with one term;
    ``o`` moves while ``en`` is high.
    """

    READ = 2
    """Cycles from an address to the register behind the memory."""
    latency = 3

    step: Signal
    fresh: Signal
    key: Signal
    value: Any
    en: Signal
    o: Any
    length: Signal
    restart: Signal

    def __init__(
        self, terms: PaneTerms, term: Term, *, panes: int, keys: int = 1, settable: bool = False
    ) -> None:
        self.terms = terms
        self.term = term
        self.panes = panes
        self.keys = keys
        self.settable = settable
        members, _, _ = window_members(terms, (term,), panes, keys, settable)
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        most = -(-self.panes // 2)
        block: Any = (self.length + 1)[1:] if self.settable else most
        odd: Any = self.length[0] if self.settable else self.panes % 2
        shape, none = self.terms.shape(self.term), self.terms.identity(self.term)

        def merged(left: Value, right: Value) -> Value:
            return self.term.merge(left, right, self.terms.rows)

        # Where the pane lies: its place in the block, the half of memory, complete blocks before.
        place, half, blocks = Signal(range(most)), Signal(), Signal(range(3))
        here, before = Signal(range(most)), Signal(range(3))
        last_key, last_place = self.key == self.keys - 1, here == block - 1
        m.d.comb += [
            here.eq(Mux(self.fresh, 0, place)),
            before.eq(Mux(self.fresh, 0, blocks)),
        ]
        with m.If(self.step & last_key):
            m.d.sync += [
                place.eq(Mux(last_place, 0, here + 1)),
                half.eq(half ^ last_place),
                blocks.eq(Mux(last_place & (before != 2), before + 1, before)),
            ]

        # What the memory gives goes into a register: all else waits for it. The pane at place 0 of
        # a block needs nothing of it, and any other a pane that came three steps before at least.
        panes = self._memory(m, "panes", most)
        back = self._row(~half, block - 1 - here, self.key, most)
        pane = Signal(shape, name="pane", reset_less=True)

        def later(value: Any, name: str) -> Value:
            return delayed(m, value, self.READ, self.en, f"{name}_later")

        step, key, value = (
            later(self.step, "step") & self.en,
            later(self.key, "key"),
            self.value.term_0,
        )
        row = self._row(half, here, self.key, most)
        m.d.comb += [
            panes[0].addr.eq(later(row, "row")),
            panes[0].data.eq(value),
            panes[0].en.eq(step),
            panes[1].addr.eq(back),
            panes[1].en.eq(self.en),
        ]
        with m.If(self.en):
            m.d.sync += pane.eq(panes[1].data)
        starts = later(here == 0, "starts")

        # The newest block from its beginning, the whole block before, and its ends.
        names = ("newest", "whole", "end", "last")
        newest, whole, end, last = (
            KeyedRegister(m, shape, keys=self.keys, name=name) for name in names
        )
        new_newest, new_whole, new_end = Signal(shape), Signal(shape), Signal(shape)
        m.d.comb += [
            new_newest.eq(Mux(starts, value, merged(newest.value, value))),
            new_whole.eq(Mux(starts, newest.value, whole.value)),
            new_end.eq(Mux(starts, last.value, merged(end.value, pane))),
        ]
        for register, new in (
            (newest, new_newest), (whole, new_whole), (end, new_end), (last, value),
        ):  # fmt: skip
            register.write(new, step, key)

        # The end that a window needs was written before the step: it is read one cycle after it.
        ends = self._memory(m, "ends", most)
        begins = here + 1 + odd
        address = self._row(half, Mux(begins < block, begins, 0), self.key, most)
        m.d.comb += [
            ends[0].addr.eq(later(back, "back")),
            ends[0].data.eq(new_end),
            ends[0].en.eq(step),
            ends[1].addr.eq(delayed(m, address, 1, self.en, "address")),
            ends[1].en.eq(self.en),
        ]

        # Where the number of panes is odd, the block before is cut as well.
        cut: Any = last_place & odd if self.settable else last_place if odd else Const(0)
        if self.settable:
            all_but_one: Any = Mux(block > 1, end.value, none)
        else:
            all_but_one = end.value if block > 1 else none
        is_first, is_cut = later(before == 0, "is_first"), later(cut, "is_cut")
        reaches = later((before == 2) & (begins < block), "reaches")
        middle = Mux(is_first, none, Mux(is_cut, all_but_one, new_whole))
        parts = ("newest", "middle", "oldest", "older", "newer")
        part = {name: Signal(shape, name=f"{name}_part") for name in parts}
        with m.If(self.en):
            m.d.sync += [
                part["newest"].eq(new_newest),
                part["middle"].eq(middle),
                part["oldest"].eq(Mux(reaches, ends[1].data, none)),
                part["older"].eq(merged(part["middle"], part["oldest"])),
                part["newer"].eq(part["newest"]),
                self.o.term_0.eq(merged(part["older"], part["newer"])),
            ]
        return m

    def _memory(self, m: Module, name: str, block: int) -> tuple[Any, Any]:
        memory: Memory = Memory(
            shape=self.terms.shape(self.term), depth=2 * block * self.keys, init=[]
        )
        m.submodules[name] = memory
        return memory.write_port(), memory.read_port()

    def _row(self, half: Value, place: Value, key: Value, block: int) -> Value:
        return (Mux(half, block, 0) + place) * self.keys + key
