"""A tree of buffered mergers (Teubner 2011, appendix A.4), with the buffers of Oge's chapter 5."""

from collections.abc import Sequence
from operator import mul
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, ShapeLike, Value
from amaranth.lib import wiring

from ..stream import MergeTree
from .network import MergingNetwork, check_fan_in

__all__ = ["TABLE_5_1", "BufferPlan", "TreeNetwork", "collect", "plan_depths", "tree_rows"]


class BufferPlan(NamedTuple):
    """Depths of the buffers of 64 cores and of the binary tree behind them.

    ``cores`` is the depth of each core's result queue; ``mergers`` has the depth for each of the
    six levels of mergers, the leaves' level (32 mergers) first and the root last.
    """

    cores: int
    mergers: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Results that all the buffers hold together."""
        levels = len(self.mergers)
        rows = [depth << (levels - 1 - level) for level, depth in enumerate(self.mergers)]
        return (self.cores << levels) + sum(rows)


TABLE_5_1 = {
    "uniform": BufferPlan(16, (16, 16, 16, 16, 16, 16)),
    "config1": BufferPlan(16, (16, 16, 8, 4, 4, 4)),
    "config2": BufferPlan(4, (4, 8, 16, 32, 64, 1024)),
    "config3": BufferPlan(4, (8, 16, 32, 64, 128, 256)),
}
"""The configurations of table 5.1 of Oge's thesis, and the uniform one that they are held against.

The table lists the root first; ``BufferPlan`` has it last, as ``depth`` of a tree does.
"""


def plan_depths(
    name: str, depth: int | Sequence[int], *, levels: int, least: int, reason: str
) -> tuple[int, ...]:
    """Return the depth of each of a tree's levels, the leaves' level first.

    ``depth`` is for all levels or lists one for each; ``reason`` says why it is at least ``least``.
    """
    listed = isinstance(depth, Sequence) and not isinstance(depth, str)
    depths: Sequence[int] = depth if listed else (depth,) * levels  # type: ignore[assignment]
    if len(depths) != levels:
        raise ValueError(
            f"{name} takes {levels} depths here, one per level from the leaves to the root, "
            f"not {len(depths)}"
        )
    for each in depths:
        if not isinstance(each, int) or isinstance(each, bool) or each < least:
            raise ValueError(f"{name} depth must be at least {least}, not {each!r}: {reason}")
    return tuple(depths)


def tree_rows(inputs: int, fan_in: int, depths: Sequence[int]) -> int:
    """Return the transfers that a tree holds; a tree of fewer levels has the last of ``depths``."""
    mergers = MergeTree.count_mergers(inputs, fan_in)
    return sum(map(mul, mergers, depths[-len(mergers) :]))


def collect(
    m: Module,
    network: MergingNetwork,
    streams: Sequence[Any],
    fan_in: int,
    depths: Sequence[int],
    kind: type[MergeTree] = MergeTree,
) -> Value:
    """Lead ``streams``, one for each input, to the lanes through trees; return whether one is busy.

    ``depths`` has the levels of the largest tree, the leaves' level first.
    """
    busy = []
    for lane, o in enumerate(network.o):
        sources = network.inputs_of(lane)
        levels = len(MergeTree.count_mergers(len(sources), fan_in))
        tree = kind(network.shape, inputs=len(sources), fan_in=fan_in, depth=depths[-levels:])
        m.submodules[f"lane_{lane}"] = tree
        for i, source in zip(tree.i, sources, strict=True):
            wiring.connect(m, streams[source], i)
        wiring.connect(m, tree.o, wiring.flipped(o))
        busy.append(tree.busy)
    return Cat(busy).any()


class TreeNetwork(MergingNetwork):
    """Merge the results through a tree for each lane, with a buffer behind every merger.

    Latency: 1 cycle per level (2 where a level's buffers are in block RAM). Throughput: one
    transfer per cycle in each lane, from a single input or from many.

    Input k leads to lane ``k % lanes``; the mergers take their inputs round robin. The results of
    one input keep their order. A buffer of one place gives way in the cycle in which it is emptied,
    so that such levels are one path from ``o[k].ready`` to ``i[k].ready``.

    Parameters
    ----------
    shape, inputs, lanes
        See ``MergingNetwork``.
    depth : int or sequence of int
        Places in the buffer of a merger: for all levels, or for each, the leaves' level first. A
        lane with fewer inputs than the first may have a level less; the first depth is then not
        for it.
    fan_in : int
        Most inputs of a merger, 2 to 8.
    """

    def __init__(
        self,
        shape: ShapeLike,
        *,
        inputs: int,
        lanes: int = 1,
        depth: int | Sequence[int] = 2,
        fan_in: int = 4,
    ) -> None:
        super().__init__(shape, inputs=inputs, lanes=lanes)
        check_fan_in(fan_in)
        self.fan_in = fan_in
        self.depths = plan_depths(
            "tree",
            depth,
            levels=len(MergeTree.count_mergers(len(self.inputs_of(0)), fan_in)),
            least=1,
            reason="a merger holds what it has taken",
        )
        self.rows = sum(
            tree_rows(len(self.inputs_of(lane)), fan_in, self.depths) for lane in range(lanes)
        )
        self.key = (shape, inputs, lanes, self.depths, fan_in)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        busy = collect(m, self, [wiring.flipped(i) for i in self.i], self.fan_in, self.depths)
        m.d.comb += self.busy.eq(busy)
        return m
