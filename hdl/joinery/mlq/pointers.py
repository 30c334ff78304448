"""What one tuple does to the pointers of its key: the rules of the paper's figure 4.

Every level but the last that is full moves its block to the next one; the value enters level 1;
when the window is complete, it is read as it was before the moves, and the oldest values are given
up by moving read pointers on. An emptied level starts again at its first place.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .levels import Queues

__all__ = ["PointerStep", "move_layout", "pointers_layout"]


def pointers_layout(queues: Queues) -> data.StructLayout:
    """The pointers of a key: where each level is read and written next, and the values in all."""
    pointers = {f"level_{k}": queues.pointer(k) for k in range(len(queues.levels))}
    return data.StructLayout(
        {
            "count": queues.count,
            "read": data.StructLayout(pointers),
            "write": data.StructLayout(pointers),
        }
    )


def move_layout(queues: Queues) -> data.StructLayout:
    """What a tuple causes in each level.

    Before the move, ``held`` values begin at ``read``. A block moves out with ``flush``; one moves
    in at ``position`` with ``write``.
    """

    def level(k: int) -> data.StructLayout:
        return data.StructLayout(
            {
                "read": queues.pointer(k),
                "held": Shape.cast(range(queues.levels[k].values + 1)),
                "flush": 1,
                "write": 1,
                "position": range(queues.levels[k].values),
            }
        )

    levels = {f"level_{k}": level(k) for k in range(len(queues.levels))}
    return data.StructLayout(
        {"aggregate": 1, "count": queues.count, "levels": data.StructLayout(levels)}
    )


class PointerStep(wiring.Component):
    """Work out the pointers after one more tuple, and what is to be done. Combinational.

    Parameters
    ----------
    queues : Queues

    Members
    -------
    rows, slide : In(queues.count)
        WS and WA.
    before : In(pointers_layout(queues))
    after : Out(pointers_layout(queues))
    move : Out(move_layout(queues))
    """

    rows: Signal
    slide: Signal
    before: Any
    after: Any
    move: Any

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        pointers = pointers_layout(queues)
        super().__init__(
            {
                "rows": In(queues.count),
                "slide": In(queues.count),
                "before": In(pointers),
                "after": Out(pointers),
                "move": Out(move_layout(queues)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        levels = self.queues.levels
        last = len(levels) - 1
        count = Signal(range(self.queues.rows + 2))
        aggregate = Signal()
        m.d.comb += [
            count.eq(self.before.count + 1),
            aggregate.eq(count == self.rows),
            self.after.count.eq(count - Mux(aggregate, self.slide, 0)),
            self.move.aggregate.eq(aggregate),
            self.move.count.eq(count),
        ]

        def around(level: int, place: Any) -> Any:
            """A place beyond the ring of the last level is one at its beginning."""
            values = levels[level].values
            return Mux(place >= values, place - values, place) if level == last else place

        to_evict: Any = Mux(aggregate, self.slide, 0)
        for k in range(last, -1, -1):
            name = f"level_{k}"
            move = self.move.levels[name]
            read, write = self.before.read[name], self.before.write[name]
            values = levels[k].values
            block = self.queues.block(k)
            brought = block - (self.before.read[f"level_{k - 1}"] if k else 0)
            head = Signal.like(read, name=f"head_{k}")
            place = Signal.like(read, name=f"place_{k}")
            start = Signal.like(read, name=f"start_{k}")
            end = Signal.like(read, name=f"end_{k}")
            held = Signal(range(values + 1), name=f"held_{k}")
            gone = Signal(range(values + 1), name=f"gone_{k}")
            empties = Signal(name=f"empties_{k}")
            m.d.comb += [
                move.read.eq(read),
                move.held.eq(write - read + (Mux(write < read, values, 0) if k == last else 0)),
                move.flush.eq((write == values) if k != last else 0),
                move.write.eq(self.move.levels[f"level_{k - 1}"].flush if k else 1),
                move.position.eq(place),
                head.eq(Mux(move.flush, 0, read)),
                place.eq(Mux(move.flush, 0, write)),
                # Values of the block that were given up before are behind the read pointer.
                start.eq(around(k, head + Mux(move.write & (head == place), block - brought, 0))),
                end.eq(around(k, place + Mux(move.write, block, 0))),
                held.eq(Mux(move.flush, 0, move.held) + Mux(move.write, brought, 0)),
                gone.eq(Mux(to_evict < held, to_evict, held)),
                empties.eq((gone == held) & int(k != last)),
                self.after.read[name].eq(Mux(empties, 0, around(k, start + gone))),
                self.after.write[name].eq(Mux(empties, 0, end)),
            ]
            to_evict = to_evict - gone
        return m
