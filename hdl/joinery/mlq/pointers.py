"""What one step does to the pointers of its key: the rules of the paper's figure 4.

When a value is inserted, every level but the last that is full moves its block to the next one, and
the value enters level 1; to aggregate, all is read as it was before the moves; the oldest values
are given up by moving read pointers on. An emptied level starts again at its first place.
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
    """What a step causes in each level.

    ``count`` is how many values there are before anything is given up, the inserted one included.
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
    """Work out the pointers after one step, and what is to be done. Combinational.

    Parameters
    ----------
    queues : Queues

    Members
    -------
    insert : In(1)
        A value comes; there must be fewer than ``rows`` of them.
    aggregate : In(1)
        Read all values, the inserted one included.
    evict : In(queues.count)
        How many of the oldest values are given up, the inserted one included.
    before : In(pointers_layout(queues))
    after : Out(pointers_layout(queues))
    move : Out(move_layout(queues))
    """

    insert: Signal
    aggregate: Signal
    evict: Signal
    before: Any
    after: Any
    move: Any

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        pointers = pointers_layout(queues)
        super().__init__(
            {
                "insert": In(1),
                "aggregate": In(1),
                "evict": In(queues.count),
                "before": In(pointers),
                "after": Out(pointers),
                "move": Out(move_layout(queues)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        levels = self.queues.levels
        last = len(levels) - 1
        count = Signal(self.queues.count)
        m.d.comb += [
            count.eq(self.before.count + self.insert),
            self.after.count.eq(count - self.evict),
            self.move.aggregate.eq(self.aggregate),
            self.move.count.eq(count),
        ]

        def around(level: int, place: Any) -> Any:
            """A place beyond the ring of the last level is one at its beginning."""
            values = levels[level].values
            return Mux(place >= values, place - values, place) if level == last else place

        # The pointers of a last level that is full are equal, as those of an empty one.
        # What the others hold is worked out anew: read from ``move``, of which this becomes a part,
        # it would look like a loop to tools that take a vector as a whole.
        lower = [f"level_{k}" for k in range(last)]
        read_of_lower = sum(self.before.read[name] for name in lower)
        in_last = self.before.count + read_of_lower - sum(self.before.write[name] for name in lower)

        to_evict: Any = self.evict
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
                move.held.eq(in_last if k == last else write - read),
                move.flush.eq(self.insert & (write == values) if k != last else 0),
                move.write.eq(self.move.levels[f"level_{k - 1}"].flush if k else self.insert),
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
