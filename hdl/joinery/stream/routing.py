"""Blocks with several streams on one side: copying, choosing, merging."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..units import place
from ._check import require_positive
from .buffers import Queue

__all__ = ["Arbiter", "Fork", "MergeTree", "Merger"]


class Fork(wiring.Component):
    """Deliver every transfer to each of the outputs, exactly once.

    Latency: 0 cycles. Throughput: one transfer per cycle while all outputs are ready.

    Outputs may take a transfer in different cycles; the input is taken with the last of them.
    ``i.ready`` depends on every ``o[k].ready``; no ``o[k].valid`` depends on any ``ready``.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    outputs : int
        Number of copies.

    Members
    -------
    i : In(stream.Signature(shape))
    o : Out(stream.Signature(shape)).array(outputs)
    """

    i: stream.Interface
    o: Sequence[stream.Interface]

    def __init__(self, shape: ShapeLike, *, outputs: int) -> None:
        require_positive("Fork outputs", outputs)
        self.outputs = outputs
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)).array(outputs),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()

        served = Signal(self.outputs)
        taken = Cat(served[k] | self.o[k].ready for k in range(self.outputs))

        m.d.comb += self.i.ready.eq(taken.all())
        for k in range(self.outputs):
            m.d.comb += self.o[k].payload.eq(self.i.payload)
            m.d.comb += self.o[k].valid.eq(self.i.valid & ~served[k])

        with m.If(self.i.valid & self.i.ready):
            m.d.sync += served.eq(0)
        with m.Elif(self.i.valid):
            m.d.sync += served.eq(taken)

        return m


class Arbiter(wiring.Component):
    """Pass on the transfers of several inputs, one at a time, in turn.

    Latency: 0 cycles. Throughput: one transfer per cycle, from one input or from many.

    Round robin: a waiting input sees at most ``inputs - 1`` transfers of others go first. The
    choice stands until its transfer. ``o.valid`` and the payload depend on the inputs and on
    registers; ``i[k].ready`` depends on them and on ``o.ready``.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    inputs : int
        Number of inputs.

    Members
    -------
    i : In(stream.Signature(shape)).array(inputs)
    o : Out(stream.Signature(shape))
    """

    i: Sequence[stream.Interface]
    o: stream.Interface

    def __init__(self, shape: ShapeLike, *, inputs: int) -> None:
        require_positive("Arbiter inputs", inputs)
        self.inputs = inputs
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(inputs),
                "o": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()

        # Those from the turn on that ask go before the rest, each in order of their number. Between
        # two halves of the inputs, that takes two bits of each half, so the choice is a tree.
        from_turn = Signal(self.inputs)
        grant = Signal(self.inputs)
        first = [i.valid & from_turn[k] for k, i in enumerate(self.i)]

        def choose(inputs: range, wanted: Value) -> Value:
            """Grant one of ``inputs`` if any is ``wanted``; return its payload."""
            if len(inputs) == 1:
                m.d.comb += grant[inputs[0]].eq(wanted & self.i[inputs[0]].valid)
                return Value.cast(self.i[inputs[0]].payload)
            low, high = inputs[: len(inputs) // 2], inputs[len(inputs) // 2 :]
            lower = Signal(name=f"lower_{low[0]}_{high[-1]}")
            soon, late = (Cat(first[k] for k in half).any() for half in (low, high))
            m.d.comb += lower.eq(soon | (~late & Cat(self.i[k].valid for k in low).any()))
            return Mux(lower, choose(low, wanted & lower), choose(high, wanted & ~lower))

        m.d.comb += self.o.valid.eq(Cat(i.valid for i in self.i).any())
        m.d.comb += Value.cast(self.o.payload).eq(choose(range(self.inputs), Const(1)))
        for k, i in enumerate(self.i):
            m.d.comb += i.ready.eq(grant[k] & self.o.ready)
        # A choice that is not taken at once stands, as its input goes on to ask.
        with m.If(self.o.valid):
            for k in range(self.inputs):
                m.d.sync += from_turn[k].eq(grant[:k].any() | (grant[k] & ~self.o.ready))

        return m


class Merger(wiring.Component):
    """Merge several streams into one: an ``Arbiter`` and a ``Queue`` behind it.

    Latency: 1 cycle (2 where the queue is in block RAM). Throughput: one transfer per cycle, from
    one input or from many. ``o.valid`` and the payload depend on registers alone.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    inputs : int
        Number of inputs.
    depth : int
        Depth of the queue. At depth 1, ``o.ready`` reaches ``i[k].ready`` in the same cycle.

    Members
    -------
    i : In(stream.Signature(shape)).array(inputs)
    o : Out(stream.Signature(shape))
    level : Out(range(depth + 1))
        Transfers held now.
    """

    i: Sequence[stream.Interface]
    o: stream.Interface
    level: Signal

    def __init__(self, shape: ShapeLike, *, inputs: int, depth: int = 2) -> None:
        require_positive("Merger inputs", inputs)
        require_positive("Merger depth", depth)
        self.shape = shape
        self.inputs = inputs
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(inputs),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = Arbiter(self.shape, inputs=self.inputs)
        m.submodules.queue = queue = Queue(self.shape, depth=self.depth)
        for k in range(self.inputs):
            wiring.connect(m, wiring.flipped(self.i[k]), arbiter.i[k])
        wiring.connect(m, arbiter.o, queue.i)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        m.d.comb += self.level.eq(queue.level)
        return m


class MergeTree(wiring.Component):
    """Merge any number of streams into one through a tree of ``Merger``.

    Latency: at most 1 cycle per level (2 for a level whose queues are in block RAM).
    Throughput: one transfer per cycle, from one leaf or from many.

    The inputs of a level are shared out evenly, in order, over as few mergers as ``fan_in`` allows.
    A merger that would have one input is left out, so some leaves may have fewer levels to pass;
    a tree of one leaf is one queue. Transfers of one leaf keep their order; those of different
    leaves may overtake each other.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    inputs : int
        Number of leaves.
    fan_in : int
        Most inputs that a merger has; at least 2.
    depth : int or sequence of int
        Depth of the mergers' queues, for all levels or one for each, the leaves' level first.

    Members
    -------
    i : In(stream.Signature(shape)).array(inputs)
    o : Out(stream.Signature(shape))
    busy : Out(1)
        High while a transfer is inside.
    """

    i: Sequence[stream.Interface]
    o: stream.Interface
    busy: Signal

    def __init__(
        self,
        shape: ShapeLike,
        *,
        inputs: int,
        fan_in: int = 2,
        depth: int | Sequence[int] = 2,
    ) -> None:
        require_positive("MergeTree inputs", inputs)
        if not isinstance(fan_in, int) or isinstance(fan_in, bool) or fan_in < 2:
            raise ValueError(f"MergeTree fan-in must be an integer of at least 2, not {fan_in!r}")
        self.shape = shape
        self.inputs = inputs
        self.fan_in = fan_in
        self.levels = len(self.count_mergers(inputs, fan_in))
        if isinstance(depth, Sequence) and not isinstance(depth, str):
            if len(depth) != self.levels:
                raise ValueError(
                    f"MergeTree of {inputs} inputs with fan-in {fan_in} takes {self.levels} "
                    f"depths, one per level, not {len(depth)}"
                )
            self.depths = tuple(depth)
        else:
            self.depths = (depth,) * self.levels
        for each in self.depths:
            require_positive("MergeTree depth", each)
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(inputs),
                "o": Out(stream.Signature(shape)),
                "busy": Out(1),
            }
        )

    @staticmethod
    def count_mergers(inputs: int, fan_in: int) -> list[int]:
        """Return how many mergers each level of a tree has, the leaves' level first."""
        counts: list[int] = []
        while not counts or inputs > 1:
            groups = -(-inputs // fan_in)
            # With fewer than two inputs to a group, some groups are of one and have no merger.
            counts.append(min(groups, inputs - groups) or 1)
            inputs = groups
        return counts

    def groups(self) -> Iterator[list[range]]:
        """For each level, leaves first, say which of its inputs each merger takes."""
        return self.share_inputs(self.inputs, self.fan_in)

    @staticmethod
    def share_inputs(count: int, fan_in: int) -> Iterator[list[range]]:
        """The ``groups`` of a tree of ``count`` leaves."""
        while True:
            mergers = -(-count // fan_in)
            bounds = [count * k // mergers for k in range(mergers + 1)]
            yield [range(*pair) for pair in pairwise(bounds)]
            if mergers == 1:
                return
            count = mergers

    def merger(self, inputs: int, depth: int) -> Any:
        """Return a merger for the tree: ``i``, ``o`` and ``level`` as ``Merger`` has them."""
        return Merger(self.shape, inputs=inputs, depth=depth)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        busy = []
        streams: list[Any] = [wiring.flipped(i) for i in self.i]
        for level, (groups, depth) in enumerate(zip(self.groups(), self.depths, strict=True)):
            merged = []
            for k, group in enumerate(groups):
                if len(group) == 1 and len(groups) > 1:
                    merged.append(streams[group[0]])
                    continue
                merger = self.merger(len(group), depth)
                key = (self.shape, len(group), depth)
                m.submodules[f"level_{level}_merger_{k}"] = place(merger, platform, *key)
                for port, source in enumerate(group):
                    wiring.connect(m, streams[source], merger.i[port])
                merged.append(merger.o)
                busy.append(merger.level.any())
            streams = merged
        m.d.comb += self.busy.eq(Cat(busy).any())
        wiring.connect(m, streams[0], wiring.flipped(self.o))
        return m
