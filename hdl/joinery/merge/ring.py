"""The adaptive network (Oge 2012, chapter 6): a ring that spreads results over all the buffers.

Each input has a node, each node a FIFO, and links lead from a node to both of its neighbours. A
node holds nothing: what arrives leaves in the same cycle, to the FIFO or over a link (bufferless
deflection routing, BLESS in the thesis). The three arriving transfers are ranked, those of the ring
before the node's own and the one with more hops first, and each in turn gets the port that is left
with the emptiest buffer behind it. A tree without buffers brings the FIFOs' transfers together.

Where this goes past the thesis:

- The thesis stops the cores before a FIFO is full. Here a full FIFO is a port that is not there:
  the two transfers of the ring have the two links, and ``i.ready`` falls when no port is left.
- A transfer prefers a neighbour whose buffer holds fewer by two at least (three in block RAM),
  since a hop takes a cycle and the buffer it turns away from must not run dry meanwhile. So
  whenever a transfer is at a node, some FIFO has one to give in the next cycle, and no cycle of
  the output is lost.
- A transfer that has hopped as often as there are nodes asks for the FIFO wherever it comes, and
  goes straight on if it cannot have it.
- That is not enough where FIFOs stay full: the tree empties a place at each node once in a round,
  the transfers on the ring come by once in a round as well, and it could be the same ones that find
  the place, for ever. So in each direction one transfer at a time has its turn. It goes first, and
  a node that must refuse it keeps the next free place for it (nodes with even numbers for those
  that go up, odd ones for those that go down). When it has left, the turn passes to the place on
  the ring behind it. So every transfer leaves the ring, however the others come.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream import MergeTree, Queue
from ..units import place
from .network import MergingNetwork, check_fan_in
from .tree import collect, tree_rows

__all__ = ["RingNetwork", "RingNode", "link_layout"]


def link_layout(shape: ShapeLike, hops: int) -> data.StructLayout:
    """What a link carries: a transfer if ``valid``, its hops so far, whether it has its turn."""
    return data.StructLayout({"valid": 1, "payload": shape, "hops": range(hops + 1), "turn": 1})


CLAIM = data.StructLayout({"valid": 1, "upward": 1, "urgent": 1, "room": 1})
"""What routing sees of a transfer: whether it is there, goes up, asks for the FIFO, may have it."""

PORTS = data.StructLayout({"own": 1, "up": 1, "down": 1})
"""A node's outputs: its FIFO, and the links to the node after and to the node before it."""


class RingNode(wiring.Component):
    """Send each arriving transfer on, to the node's FIFO or to one of its neighbours.

    Latency: 1 cycle to a link or through the FIFO (2 where it is in block RAM). Throughput: a
    transfer per cycle at each port. Every output depends on registers alone.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a transfer.
    depth : int
        Places in the FIFO.
    hops : int
        Hops after which a transfer asks for the FIFO wherever it is.
    keeps : "up" or "down"
        The direction for which the node keeps a place.
    first : bool
        Whether the turns start here; true of one node in a ring.

    Members
    -------
    i : In(stream.Signature(shape))
    o : Out(stream.Signature(shape))
    i_up, i_down : In(link_layout(shape, hops))
        From the node before, and from the node after this one.
    o_up, o_down : Out(link_layout(shape, hops))
        To the node after, and to the node before this one.
    level, level_up, level_down : range(depth + 1)
        What the FIFO holds, Out, and what those of the node after and of the node before hold, In.
    busy : Out(1)
        High while a transfer is in the FIFO or on a link that leaves.
    """

    i: stream.Interface
    o: stream.Interface
    i_up: Any
    i_down: Any
    o_up: Any
    o_down: Any
    level: Signal
    level_up: Signal
    level_down: Signal
    busy: Signal

    def __init__(self, shape: ShapeLike, *, depth: int, hops: int, keeps: str, first: bool) -> None:
        self.shape = shape
        self.depth = depth
        self.hops = hops
        self.keeps = keeps
        self.first = first
        self.lead = 2 if depth > Queue.BLOCK_DEPTH else 1  # cycles that a transfer takes through
        self.key = (shape, depth, hops, keeps, first)
        link = link_layout(shape, hops)
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "i_up": In(link),
                "i_down": In(link),
                "o_up": Out(link),
                "o_down": Out(link),
                "level": Out(range(depth + 1)),
                "level_up": In(range(depth + 1)),
                "level_down": In(range(depth + 1)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = Queue(self.shape, depth=self.depth)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        m.d.comb += self.level.eq(queue.level)
        m.d.comb += self.busy.eq(queue.level.any() | self.o_up.valid | self.o_down.valid)

        turn_up, turn_down, kept = Signal(), Signal(), Signal()
        up, down, own = self._route(m, turn_up, turn_down, kept)

        m.d.comb += queue.i.valid.eq(up.own | down.own | own.own)
        with m.If(up.own):
            m.d.comb += queue.i.payload.eq(self.i_up.payload)
        with m.Elif(down.own):
            m.d.comb += queue.i.payload.eq(self.i_down.payload)
        with m.Else():
            m.d.comb += queue.i.payload.eq(self.i.payload)

        self._send(m, self.o_up, from_up=up.up, from_down=down.up, from_own=own.up)
        self._send(m, self.o_down, from_up=up.down, from_down=down.down, from_own=own.down)

        refused_up = self._pass_turn(m, "up", turn_up, self.i_up, self.o_up, up.own)
        refused_down = self._pass_turn(m, "down", turn_down, self.i_down, self.o_down, down.own)
        turn, refused = {"up": (turn_up, refused_up), "down": (turn_down, refused_down)}[self.keeps]
        with m.If(turn):
            m.d.sync += kept.eq(refused)
        return m

    def _route(
        self, m: Module, turn_up: Signal, turn_down: Signal, kept: Signal
    ) -> tuple[Any, Any, Any]:
        """Return which ports are taken by what comes from below, from above, and from ``i``."""
        names = ("up", "down", "own", "first", "second")
        claims: list[Any] = [Signal(CLAIM, name=f"claim_{name}") for name in names]
        up, down, own, first, second = claims
        m.d.comb += [
            own.valid.eq(self.i.valid),
            own.upward.eq(1),  # where both neighbours are as good
            own.room.eq(self.level < self.depth - kept),
        ]
        for way, claim, link, turn in (
            ("up", up, self.i_up, turn_up),
            ("down", down, self.i_down, turn_down),
        ):
            # The kept place is for the transfer that has its turn in the direction kept for.
            mine = turn & (self.level != self.depth) if way == self.keeps else 0
            m.d.comb += [
                claim.valid.eq(link.valid),
                claim.upward.eq(way == "up"),
                claim.urgent.eq(turn | (link.hops == self.hops)),
                claim.room.eq(own.room | mine),
            ]

        up_first = Signal()
        m.d.comb += up_first.eq(Cat(self.i_up.hops, turn_up) >= Cat(self.i_down.hops, turn_down))
        with m.If(up_first):
            m.d.comb += [first.eq(up), second.eq(down)]
        with m.Else():
            m.d.comb += [first.eq(down), second.eq(up)]

        _, first_takes = self._pick(m, "first", first, C(0, PORTS.size))
        _, second_takes = self._pick(m, "second", second, first_takes)
        own_port, own_takes = self._pick(m, "own", own, first_takes | second_takes)
        m.d.comb += self.i.ready.eq(own_port.any())
        return (
            PORTS(Mux(up_first, first_takes, second_takes)),
            PORTS(Mux(up_first, second_takes, first_takes)),
            PORTS(own_takes),
        )

    def _pick(self, m: Module, name: str, claim: Any, taken: Value) -> tuple[Value, Value]:
        """Choose a port for a transfer among those not taken; return it, and what is then taken."""
        port: Any = Signal(PORTS, name=f"{name}_port")
        free: Any = Signal(PORTS, name=f"{name}_free")
        rather_up = Signal(name=f"{name}_rather_up")
        away = Signal(name=f"{name}_away")
        m.d.comb += [
            free.eq(~taken),
            rather_up.eq(
                Mux(
                    claim.urgent | (self.level_up == self.level_down),
                    claim.upward,
                    self.level_up < self.level_down,
                )
            ),
            away.eq(
                (free.up & (self.level_up + self.lead < self.level))
                | (free.down & (self.level_down + self.lead < self.level))
            ),
            port.own.eq(free.own & claim.room & (claim.urgent | ~away)),
            port.up.eq(~port.own & free.up & (rather_up | ~free.down)),
            port.down.eq(~port.own & free.down & ~port.up),
        ]
        return Value.cast(port), Value.cast(port) & claim.valid.replicate(PORTS.size)

    def _send(
        self, m: Module, link: Any, *, from_up: Value, from_down: Value, from_own: Value
    ) -> None:
        """Put a transfer on a link that leaves, and count the hop."""
        m.d.sync += link.valid.eq(from_up | from_down | from_own)
        with m.If(from_up):
            m.d.sync += link.payload.eq(self.i_up.payload)
        with m.Elif(from_down):
            m.d.sync += link.payload.eq(self.i_down.payload)
        with m.Else():
            m.d.sync += link.payload.eq(self.i.payload)
        hops = Mux(from_up, self.i_up.hops, self.i_down.hops)
        m.d.sync += link.hops.eq(Mux(from_own, 0, Mux(hops == self.hops, hops, hops + 1)))

    def _pass_turn(
        self, m: Module, way: str, turn: Signal, source: Any, link: Any, leaves: Value
    ) -> Value:
        """Keep the turn with the transfer that has it, and pass it on when that has left.

        The turn waits here for the place on the ring that comes next; it goes on with an empty
        place only if it has waited, so that it comes to all places and to all nodes. Returns
        whether a transfer that has its turn is refused.
        """
        waits = Signal(name=f"waits_{way}", init=self.first)
        refused = Signal(name=f"refused_{way}")
        goes = Signal(name=f"goes_{way}")
        m.d.comb += [
            turn.eq(waits | source.turn),
            refused.eq(turn & source.valid & ~leaves),
            goes.eq(refused | (waits & ~source.valid)),
        ]
        m.d.sync += [link.turn.eq(goes), waits.eq(turn & ~goes)]
        return refused


class RingNetwork(MergingNetwork):
    """Spread the results over the buffers of all inputs, and collect them without more buffers.

    Latency: 1 cycle (2 where the FIFOs are in block RAM), and 1 for each level of the tree, if
    nothing is in the way. Throughput: one transfer per cycle in each lane, from any input.

    Results may overtake each other, also those of one input. ``i[k].ready`` depends on registers
    alone; an input is refused only while both links to its node are occupied and neither transfer
    can enter the node's FIFO.

    Parameters
    ----------
    shape, inputs, lanes
        See ``MergingNetwork``. The FIFO of input k leads to lane ``k % lanes``.
    depth : int
        Places in each FIFO; at least 2.
    fan_in : int
        Most inputs of a merger of the tree behind the FIFOs, 2 to 8.
    """

    def __init__(
        self,
        shape: ShapeLike,
        *,
        inputs: int,
        lanes: int = 1,
        depth: int = 8,
        fan_in: int = 4,
    ) -> None:
        super().__init__(shape, inputs=inputs, lanes=lanes)
        check_fan_in(fan_in)
        if isinstance(depth, Sequence) and not isinstance(depth, str):
            raise ValueError(f"ring takes one depth, as it has one layer of FIFOs, not {depth!r}")
        if not isinstance(depth, int) or isinstance(depth, bool) or depth < 2:
            raise ValueError(
                f"ring depth must be at least 2, not {depth!r}: a FIFO of one place takes a "
                "transfer only when it gives one, and the ring cannot wait for the output"
            )
        self.depth = depth
        self.fan_in = fan_in
        levels = len(MergeTree.count_mergers(len(self.inputs_of(0)), fan_in))
        self.depths = (1,) * levels  # registers
        trees = (tree_rows(len(self.inputs_of(k)), fan_in, self.depths) for k in range(lanes))
        links = 2 * inputs if inputs > 1 else 0
        self.rows = inputs * depth + links + sum(trees)
        self.key = (shape, inputs, lanes, depth, fan_in)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fifos: list[Any] = []
        if self.inputs == 1:
            m.submodules.fifo = fifo = Queue(self.shape, depth=self.depth)
            fifos.append(fifo)
            busy = fifo.level.any()
        else:
            fifos = [
                RingNode(
                    self.shape,
                    depth=self.depth,
                    hops=self.inputs - 1,
                    keeps="down" if k % 2 else "up",
                    first=k == 0,
                )
                for k in range(self.inputs)
            ]
            for k, node in enumerate(fifos):
                before, after = fifos[k - 1], fifos[(k + 1) % self.inputs]
                m.submodules[f"node_{k}"] = place(node, platform, *node.key)
                m.d.comb += [
                    node.i_up.eq(before.o_up),
                    node.i_down.eq(after.o_down),
                    node.level_up.eq(after.level),
                    node.level_down.eq(before.level),
                ]
            busy = Cat(node.busy for node in fifos).any()
        for i, fifo in zip(self.i, fifos, strict=True):
            wiring.connect(m, wiring.flipped(i), fifo.i)
        trees_busy = collect(m, self, [fifo.o for fifo in fifos], self.fan_in, self.depths)
        m.d.comb += self.busy.eq(busy | trees_busy)
        return m
