"""The thesis's first network (Oge 2012, chapter 4): a binary tree of mergers with three states.

The text, sections 4.2 and 4.3: in its first state a merger reads both input ports into registers;
in the second it writes what came from the first port to its FIFO, in the third what came from the
second port; then it starts again, for ever. A FIFO is in block RAM and has a full flag, which rises
when "only few locations" are left and disables the merger's inputs.

The text does not say how many cycles a turn takes, how often a FIFO is read, and when it counts as
almost full. Our reading comes from the measured figures of section 5.1 (64 cores, 262,144 results):

- A turn takes four cycles. What the third state writes to a block RAM can be read two cycles later,
  so a cycle passes before the first state. All mergers turn together.
- A merger's FIFO is read once in a turn, by the next merger's first state or, at the root, by the
  output. So up to two results enter a merger in a turn and one leaves: the root gives one result
  every four cycles. The thesis measures 1,054,012 cycles, 4 per result and 5,436 more; until the
  first rows meet, half a window has passed, 256 steps of 21 cycles.
- The full flag rises with three places left. With buffers of 4 a merger then reads its ports in
  every third turn and gives a result every six cycles; from 5 on, every four. The thesis measures
  5.6 with buffers of 4 and 4.02 from 8 on; a flag that rises with two left shows no such step.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import MergeTree, Queue
from .network import MergingNetwork
from .tree import collect, plan_depths, tree_rows

__all__ = ["FsmMerger", "FsmTreeNetwork"]

STATES = ("WAIT", "READ", "WRITE_0", "WRITE_1")
"""A merger's turn: the thesis's three states, after the cycle in which the block RAM is read."""

PLACES_LEFT = 3
"""Free places of a FIFO with which its full flag rises."""


class FsmMerger(wiring.Component):
    """Merge two streams in turns of four cycles: up to two transfers enter, one leaves.

    Latency: 2 cycles from the first port, 3 from the second, and on to the next turn's second
    cycle. Throughput: a transfer every four cycles. Every output depends on registers alone.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    inputs : 1 or 2
        Number of ports.
    depth : int
        Depth of the FIFO; at least 4.

    Members
    -------
    i : In(stream.Signature(shape)).array(inputs)
    o : Out(stream.Signature(shape))
    level : Out(range(depth + inputs + 1))
        Transfers held now.
    """

    i: Sequence[stream.Interface]
    o: stream.Interface
    level: Signal

    def __init__(self, shape: ShapeLike, *, inputs: int, depth: int) -> None:
        self.shape = shape
        self.inputs = inputs
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(inputs),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + inputs + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = Queue(self.shape, depth=self.depth)
        state = Signal(range(len(STATES)))
        ports = [Signal(self.shape, name=f"port_{k}") for k in range(self.inputs)]
        valid = Signal(self.inputs)
        full = Signal()
        waiting = Signal()

        m.d.sync += state.eq(state + 1)
        reading = state == STATES.index("READ")
        m.d.comb += full.eq(queue.level >= self.depth - PLACES_LEFT)
        for k, (i, port) in enumerate(zip(self.i, ports, strict=True)):
            m.d.comb += i.ready.eq(reading & ~full)
            with m.If(reading):
                m.d.sync += [port.eq(i.payload), valid[k].eq(i.valid & i.ready)]
            with m.Elif(state == STATES.index(f"WRITE_{k}")):
                m.d.comb += [queue.i.valid.eq(valid[k]), queue.i.payload.eq(port)]
                m.d.sync += valid[k].eq(0)

        # An offer is made when the next merger reads its ports, at the same time as this one, and
        # then stands.
        m.d.sync += waiting.eq(self.o.valid & ~self.o.ready)
        m.d.comb += [
            self.o.valid.eq(queue.o.valid & (reading | waiting)),
            self.o.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.o.valid & self.o.ready),
            self.level.eq(queue.level + sum(valid)),
        ]
        return m


class FsmMergeTree(MergeTree):
    """A binary tree of ``FsmMerger``."""

    def merger(self, inputs: int, depth: int) -> Any:
        return FsmMerger(self.shape, inputs=inputs, depth=depth)


class FsmTreeNetwork(MergingNetwork):
    """Merge the results through a binary tree of three-state mergers, to one lane.

    Latency: 4 cycles per level at least. Throughput: one transfer every four cycles, every six
    with buffers of 4. The results of one input keep their order.

    Parameters
    ----------
    shape, inputs
        See ``MergingNetwork``.
    lanes : 1
    depth : int or sequence of int
        Places in the FIFO of a merger: for all levels, or for each, the leaves' level first. At
        least 4, which is what the thesis has in section 4.5.2.
    fan_in : None
        Not taken.
    """

    def __init__(
        self,
        shape: ShapeLike,
        *,
        inputs: int,
        lanes: int = 1,
        depth: int | Sequence[int] = 4,
        fan_in: int | None = None,
    ) -> None:
        if lanes != 1:
            raise ValueError(f"fsm_tree has one lane, not {lanes!r}")
        if fan_in is not None:
            raise ValueError(f"fsm_tree takes no fan_in, not {fan_in!r}: it is a binary tree")
        super().__init__(shape, inputs=inputs)
        self.fan_in = 2
        mergers = MergeTree.count_mergers(inputs, 2)
        self.depths = plan_depths(
            "fsm_tree",
            depth,
            levels=len(mergers),
            least=PLACES_LEFT + 1,
            reason=f"a merger counts as full with {PLACES_LEFT} places left and would take nothing",
        )
        ports = sum(mergers) * min(inputs, 2)
        self.rows = tree_rows(inputs, 2, self.depths) + ports
        self.key = (shape, inputs, self.depths)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        streams = [wiring.flipped(i) for i in self.i]
        busy = collect(m, self, streams, 2, self.depths, kind=FsmMergeTree)
        m.d.comb += self.busy.eq(busy)
        return m
