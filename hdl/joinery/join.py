"""What every join engine shares: the pair of streams, the predicate, and the interfaces.

The input of a join is one stream of transfers. Each carries a left tuple, a right tuple, one of
each (then the left one counts as first), or the end of the input; so the arrival order is part of
the data, and the result does not depend on stalls.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Signal
from amaranth.lib import data, stream, wiring

from .expr import Bool, Expr, columns_of
from .tuples import Schema

__all__ = ["JoinEngine", "JoinPair", "TimeBound", "split_rows"]


@dataclass(frozen=True)
class JoinPair:
    """Two streams, what pairs are wanted, and which columns of a pair leave the join.

    Parameters
    ----------
    names : tuple of str
        The sources' names, as the columns of ``predicate`` use them; left, then right.
    left, right : Schema
        The columns that tuples carry into the hardware.
    predicate : Expr
        A condition on a pair.
    keep_left, keep_right : tuple of str
        The columns of each side that a result carries.
    """

    names: tuple[str, str]
    left: Schema
    right: Schema
    predicate: Expr
    keep_left: tuple[str, ...]
    keep_right: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.names[0] == self.names[1]:
            raise ValueError(f"The two sides of a join need different names, not {self.names[0]!r}")
        if not isinstance(self.predicate.type, Bool):
            raise ValueError(f"A join predicate is a condition, not a {self.predicate.type}")
        carried = {(self.names[0], name) for name in self.left.names}
        carried |= {(self.names[1], name) for name in self.right.names}
        wanted = columns_of(self.predicate)
        wanted |= {(self.names[0], name) for name in self.keep_left}
        wanted |= {(self.names[1], name) for name in self.keep_right}
        for source, name in sorted(wanted - carried):
            raise ValueError(f"The tuples carry no column {source}.{name}")

    @property
    def operands(self) -> data.StructLayout:
        """A pair as the predicate sees it."""
        return data.StructLayout(
            {self.names[0]: self.left.layout, self.names[1]: self.right.layout}
        )

    @property
    def transfer(self) -> data.StructLayout:
        """One transfer of the input."""
        return data.StructLayout(
            {
                "end": 1,
                "has_left": 1,
                "has_right": 1,
                "left": self.left.layout,
                "right": self.right.layout,
            }
        )

    @property
    def match(self) -> data.StructLayout:
        """A pair that met, with the columns that leave."""
        return data.StructLayout(
            {
                "left": self.left.select(set(self.keep_left)).layout,
                "right": self.right.select(set(self.keep_right)).layout,
            }
        )

    def result(self, lanes: int = 1) -> data.StructLayout:
        """One transfer of the output: up to ``lanes`` matches, or the end, which has none."""
        lane = data.StructLayout({"valid": 1, "match": self.match})
        return data.StructLayout({"end": 1, "lanes": data.ArrayLayout(lane, lanes)})


@dataclass(frozen=True)
class TimeBound:
    """A time window: the columns with the times, how far apart they may be, and the disorder.

    The predicate tests the distance; an engine that keeps a number of rows, not a stretch of time,
    uses this to tell when that number was too small.
    """

    left: str
    right: str
    range: int
    slack: int


class JoinEngine(wiring.Component):
    """The interface of every join engine.

    Members
    -------
    i : In(stream.Signature(pair.transfer))
        ``end`` is a transfer of its own. After it the engine takes nothing until the end has left,
        then it starts anew with empty windows.
    o : Out(stream.Signature(pair.result(lanes)))
        A transfer that is not the end has at least one match.
    stalled : Out(1)
        High in a cycle in which the engine could work, but waits for room for results.
    decided, refused : Out(1)
        A transfer with data was taken; its tuples were refused. In the order of the input.
    dropped : Out(DROPPED_BITS)
        Matches that were lost in this cycle, by a policy that allows it.
    errors : Out(len(ERRORS))
        High in a cycle in which something happened that may have cost results.
    """

    DROPPED_BITS = 16
    ERRORS = ("a tuple left its window while still in range", "a tuple was later than the slack")

    i: stream.Interface
    o: stream.Interface
    stalled: Signal
    decided: Signal
    refused: Signal
    dropped: Signal
    errors: Signal
    pair: JoinPair
    lanes: int
    domains: tuple[str, ...] = ("sync",)  # the clocks that the engine runs on

    def __init__(self, pair: JoinPair, *, lanes: int = 1) -> None:
        if lanes not in (1, 2, 4):
            raise ValueError(f"Lanes must be 1, 2 or 4, not {lanes!r}")
        self.pair = pair
        self.lanes = lanes
        super().__init__(
            {
                "i": wiring.In(stream.Signature(pair.transfer)),
                "o": wiring.Out(stream.Signature(pair.result(lanes))),
                "stalled": wiring.Out(1),
                "decided": wiring.Out(1),
                "refused": wiring.Out(1),
                "dropped": wiring.Out(self.DROPPED_BITS),
                "errors": wiring.Out(len(self.ERRORS)),
            }
        )

    @property
    @abstractmethod
    def predicted(self) -> dict[str, Any]:
        """Cycles and resources as they are known before anything runs, for ``top.json``."""


def split_rows(rows: int, parts: int) -> Sequence[int]:
    """Share ``rows`` out over ``parts``, as evenly as possible, the larger shares first."""
    return [rows // parts + (k < rows % parts) for k in range(parts)]
