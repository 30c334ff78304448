# amaranth: UnusedElaboratable=no
"""A small multi-level queue proved: it never loses, repeats or reorders a value.

The values are numbered as they enter, so that what leaves tells all. Inputs, outputs and memories
pause as they like; reset may come at any time.
"""

from typing import Any

import pytest
from amaranth.hdl import Assert, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from joinery.mlq import Level, MultiLevelQueue, Queues
from joinery.mlq.pointers import PointerStep
from joinery_synth.prove import prove
from joinery_tb.mlq import attach_memories, make_memories
from joinery_tb.mutants import broken

WIDTH = 3
ROWS, SLIDE = 2, 1


class NumberedQueue(wiring.Component):
    """A queue of one key over two levels, fed with 0, 1, 2 and so on.

    Window ``n`` must be ``n`` and ``n + 1``: the first value from the levels, the second the
    newest.
    """

    def __init__(self) -> None:
        queues = Queues((Level(1, duplex=True), Level(2)), rows=ROWS, slots=1, width=WIDTH)
        self.queue = MultiLevelQueue(queues, key_width=1, ways=1, depth=2)
        self.memories = make_memories(queues.levels, slots=1, width=WIDTH)
        super().__init__({"valid": In(1), "ready": In(1), "tag_ready": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        me: Any = self
        m.submodules.queue = queue = self.queue
        attach_memories(m, queue, self.memories)
        number = Signal(WIDTH)
        window = Signal(WIDTH)
        waiting = Signal()
        m.d.comb += [
            queue.rows.eq(ROWS),
            queue.slide.eq(SLIDE),
            queue.i.valid.eq(me.valid | waiting),
            queue.i.p.value.eq(number),
            queue.o.ready.eq(me.ready),
            queue.o_tag.ready.eq(me.tag_ready),
            queue.o_evicted.ready.eq(1),
        ]
        m.d.sync += [
            waiting.eq(queue.i.valid & ~queue.i.ready),
            number.eq(number + (queue.i.valid & queue.i.ready)),
            window.eq(window + (queue.o.valid & queue.o.ready & queue.o.p.last)),
        ]
        old, newest = queue.o.p.values
        with m.If(queue.o.valid):
            m.d.comb += Assert(queue.o.p.last & (queue.o.p.mask == 0b11))
            m.d.comb += Assert((old == window) & (newest == (window + 1)[:WIDTH]))
        m.d.comb += Assert(~queue.o_evicted.valid)
        return m


class NumberedPointers(wiring.Component):
    """The pointers of a key, and values that move as the moves say; a tuple may come in any cycle.

    Whenever a tuple comes, the levels hold the values before it, oldest first, without a gap: so
    none is ever lost, repeated or out of order, whether a window is complete or not.
    """

    def __init__(self, values: tuple[int, ...], rows: int, slide: int) -> None:
        levels = tuple(Level(each) for each in values)
        self.queues = Queues(levels, rows=rows, slots=1, width=1)
        self.values = values
        self.rows = rows
        self.slide = slide
        self.step = PointerStep(self.queues)
        super().__init__({"valid": In(1), **self._more_members()})

    def _more_members(self) -> dict[str, Any]:
        return {}

    def _step(self, m: Module, step: Any, count: Any) -> tuple[Any, Any]:
        """Say what the step is; return how many values come and go."""
        complete = count + 1 == self.rows
        evicted = Mux(complete, self.slide, 0)
        m.d.comb += [step.insert.eq(1), step.aggregate.eq(complete), step.evict.eq(evicted)]
        return Const(1, 1), evicted

    def elaborate(self, platform: object) -> Module:
        m = Module()
        me: Any = self
        m.submodules.step = step = self.step
        pointers = Signal(step.before.shape())
        modulus = 2 << self.rows.bit_length()
        number = Signal(range(modulus))
        count = Signal(range(self.rows + 1))
        m.d.comb += step.before.eq(pointers)
        inserted, evicted = self._step(m, step, count)
        kept = [
            [Signal(range(modulus), name=f"kept_{k}_{n}") for n in range(size)]
            for k, size in enumerate(self.values)
        ]
        with m.If(me.valid):
            m.d.sync += [
                pointers.eq(step.after),
                number.eq(number + inserted),
                count.eq(count + inserted - evicted),
            ]

        before: Any = 0  # how many values lie in the levels above
        for k in reversed(range(len(self.values))):
            move = step.move.levels[f"level_{k}"]
            size = self.values[k]
            for place, each in enumerate(kept[k]):
                distance = Mux(place >= move.read, place - move.read, place + size - move.read)
                expected = (number + modulus - count + before + distance) % modulus
                m.d.comb += Assert((distance >= move.held) | (each == expected))
                source = kept[k - 1] if k else [number]
                for offset, value in enumerate(source):
                    with m.If(me.valid & move.write & (move.position + offset == place)):
                        m.d.sync += each.eq(value)
            before = before + move.held
        m.d.comb += Assert(before == count)
        return m


class NumberedSteps(NumberedPointers):
    """The same with steps as they come for windows of time: insert or not, and give up any number.

    The levels hold what came and was not given up, oldest first, up to as much as fits.
    """

    def _more_members(self) -> dict[str, Any]:
        return {"insert": In(1), "evict": In(self.queues.count)}

    def _step(self, m: Module, step: Any, count: Any) -> tuple[Any, Any]:
        me: Any = self
        insert = me.insert & (count != self.rows)
        held = count + insert
        evict = Mux(me.evict < held, me.evict, held)
        m.d.comb += [step.insert.eq(insert), step.evict.eq(evict)]
        return insert, evict


@pytest.mark.parametrize(
    ("values", "rows", "slide"),
    [((4,), 3, 2), ((2, 4), 4, 1), ((2, 4), 3, 2), ((1, 2, 4), 4, 3), ((2, 4), 4, 4)],
)
def test_pointers_keep_every_value_once_and_in_order(
    values: tuple[int, ...], rows: int, slide: int
) -> None:
    result = prove(NumberedPointers(values, rows, slide), mode="reach")
    assert result, result.log


@pytest.mark.parametrize(("values", "rows"), [((3,), 3), ((2, 4), 3)])
def test_any_steps_keep_every_value_once_and_in_order(values: tuple[int, ...], rows: int) -> None:
    result = prove(NumberedSteps(values, rows, 1), mode="reach")
    assert result, result.log


def test_a_full_ring_taken_for_an_empty_one_is_seen() -> None:
    design = NumberedSteps((3,), 3, 1)
    wrong = broken(
        PointerStep,
        "in_last if k == last else write - read",
        "write - read + Mux(write < read, values, 0)",
    )
    design.step = wrong(design.queues)
    assert not prove(design, mode="reach")


@pytest.mark.parametrize(
    ("slide", "old", "new"),
    [
        (3, "block - brought, 0", "0, 0"),
        (4, "Mux(empties, 0, end)", "end"),
        (3, "to_evict - gone", "to_evict"),
        (3, "Mux(move.flush, 0, write)", "write"),
    ],
)
def test_broken_pointers_fail(slide: int, old: str, new: str) -> None:
    design = NumberedPointers((2, 4), 4, slide)
    assert prove(design, mode="reach")
    design = NumberedPointers((2, 4), 4, slide)
    design.step = broken(PointerStep, old, new)(design.queues)
    assert not prove(design, mode="reach")


def test_the_first_windows_of_a_whole_queue() -> None:
    """With all its queues and memories; the first window is complete after 14 cycles."""
    result = prove(NumberedQueue(), mode="bmc", depth=15, timeout=600)
    assert result, result.log


def test_a_wrong_window_is_seen() -> None:
    wrong = broken(NumberedQueue, "old == window", "old != window")
    assert not prove(wrong(), mode="bmc", depth=15, timeout=600)
