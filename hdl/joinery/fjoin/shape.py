"""What all parts of a join pipeline agree on: sizes, layouts, and how many cycles things take."""

from dataclasses import dataclass
from functools import cached_property

from amaranth.hdl import Shape
from amaranth.lib import data

from ..expr import Column, Expr, columns_of, pipeline_latency
from ..join import JoinPair, split_rows
from ..stream._check import require_positive
from ..tuples import Schema
from .split import Split, live_bits, split_predicate

__all__ = ["BATCHES", "ROLES", "PipelineShape"]

ROLES = ("stream", "window")
"""The tuples that sit in the units, and those that flow past them."""

BATCHES = 4
"""Batches whose stream tuples are kept for results: loading, waiting or running, and draining."""


@dataclass(frozen=True)
class PipelineShape:
    """The parameters of a pipeline, checked, and what follows from them.

    Parameters
    ----------
    pair : JoinPair
        Only its names, schemas and predicate count: a result is a pair of ids.
    side : "left" or "right"
        The stream whose tuples sit in the units.
    units : int
        Join units: the largest batch.
    lanes : int
        Matches in a transfer of the output, at most: 1, 2 or 4.
    cluster : int
        Units that share a window register, at most.
    id_bits, time_bits : int
        Bits of a tuple's id and of its time, both modulo the power of two.
    ops_per_stage : int
        Bounds the operators between two registers.
    """

    pair: JoinPair
    side: str
    units: int
    lanes: int = 1
    cluster: int = 16
    id_bits: int = 32
    time_bits: int = 32
    ops_per_stage: int = 2

    def __post_init__(self) -> None:
        if self.side not in ("left", "right"):
            raise ValueError(f"Pipeline side must be left or right, not {self.side!r}")
        require_positive("Pipeline units", self.units)
        require_positive("Units of a cluster", self.cluster)
        if self.lanes not in (1, 2, 4):
            raise ValueError(f"Lanes must be 1, 2 or 4, not {self.lanes!r}")
        if self.lanes > self.clusters:
            raise ValueError(
                f"{self.units} units in clusters of {self.cluster} make {self.clusters} clusters, "
                f"too few for {self.lanes} lanes"
            )
        for what, bits in (("Ids", self.id_bits), ("Times", self.time_bits)):
            if not isinstance(bits, int) or not 2 <= bits <= 64:
                raise ValueError(f"{what} have 2 to 64 bits, not {bits!r}")

    def _index(self, role: str) -> int:
        """Which of left and right has this role."""
        return (self.side == "right") ^ (role == "window")

    def source(self, role: str) -> str:
        """The name of a side in the predicate."""
        return self.pair.names[self._index(role)]

    def columns(self, role: str) -> Schema:
        """The columns of a tuple beside its id and its time: those that the predicate reads."""
        source = self.source(role)
        schema = (self.pair.left, self.pair.right)[self._index(role)]
        read = columns_of(self.pair.predicate)
        return schema.select({name for each, name in read if each == source})

    def record(self, role: str) -> data.StructLayout:
        """A tuple as it comes in."""
        return data.StructLayout(
            {"id": self.id_bits, "time": self.time_bits, "columns": self.columns(role).layout}
        )

    def stride(self, role: str) -> int:
        """Bytes of a tuple in a card's memory."""
        return -(-self.record(role).size // 8)

    def transfer(self, role: str) -> data.StructLayout:
        """One transfer of an input: a tuple, or the end of a batch or of its window."""
        return data.StructLayout({"end": 1, "tuple": self.record(role)})

    @property
    def match(self) -> data.StructLayout:
        """A pair that met: the ids of its tuples."""
        return data.StructLayout({"stream": self.id_bits, "window": self.id_bits})

    @property
    def result(self) -> data.StructLayout:
        """One transfer of the output: up to ``lanes`` matches, or the end of a batch."""
        lane = data.StructLayout({"valid": 1, "match": self.match})
        return data.StructLayout({"end": 1, "lanes": data.ArrayLayout(lane, self.lanes)})

    # The units, and what is computed before them.

    @cached_property
    def split(self) -> Split:
        return split_predicate(self.pair.predicate, self.source("stream"), self.source("window"))

    def parts(self, role: str) -> dict[str, Expr]:
        """What is computed of a tuple before it meets others."""
        return self.split.stream if role == "stream" else self.split.window

    def kept(self, role: str) -> data.StructLayout:
        """What is computed of a tuple, without the bits that are always zero."""
        bits = {name: len(live_bits(expr)) for name, expr in self.parts(role).items()}
        return data.StructLayout(bits or {"none": 1})

    @property
    def met(self) -> data.StructLayout:
        """Both tuples as a unit's predicate sees them."""
        return data.StructLayout(
            {
                self.source(role): data.StructLayout(
                    {name: Shape(*expr.type.bits) for name, expr in self.parts(role).items()}
                )
                for role in ROLES
            }
        )

    def part_latency(self, expr: Expr) -> int:
        if isinstance(expr, Column):
            return 0
        return pipeline_latency(expr, self.ops_per_stage)

    @property
    def prepare_cycles(self) -> int:
        """Cycles that either side computes before its tuples reach the units."""
        parts = [expr for role in ROLES for expr in self.parts(role).values()]
        return max((self.part_latency(expr) for expr in parts), default=0)

    @property
    def predicate_cycles(self) -> int:
        return pipeline_latency(self.split.predicate, self.ops_per_stage)

    @property
    def clusters(self) -> int:
        return -(-self.units // self.cluster)

    @property
    def cluster_sizes(self) -> list[int]:
        """Units of each cluster. Tuple k of a batch goes to cluster ``k % clusters``."""
        return list(split_rows(self.units, self.clusters))

    @property
    def slots(self) -> int:
        """Units of the largest cluster."""
        return self.cluster_sizes[0]

    @property
    def segments(self) -> int:
        """Clusters of the lane that has most. Cluster k belongs to lane ``k % lanes``."""
        return -(-self.clusters // self.lanes)

    @property
    def flight_cycles(self) -> int:
        """Cycles from a window tuple's entry until its matches are known at the edge."""
        return self.prepare_cycles + self.clusters + self.predicate_cycles + 1

    # What goes past the clusters.

    @property
    def load(self) -> data.StructLayout:
        """A stream tuple on its way into a cluster's memory."""
        return data.StructLayout(
            {
                "valid": 1,
                "bank": 1,
                "cluster": range(self.clusters),
                "slot": range(self.slots),
                "columns": self.kept("stream"),
            }
        )

    @property
    def step(self) -> data.StructLayout:
        """A window tuple, or the command to refill one unit of every cluster."""
        refill = data.StructLayout(
            {"bank": 1, "slot": range(self.slots), "present": range(self.clusters + 1)}
        )
        return data.StructLayout(
            {
                "flows": 1,
                "refills": 1,
                "what": data.UnionLayout({"columns": self.kept("window"), "refill": refill}),
            }
        )

    # What is kept at the edge.

    @property
    def store(self) -> data.StructLayout:
        """A stream tuple's id and time, kept until the results of its batch have left."""
        return data.StructLayout(
            {
                "valid": 1,
                "bank": range(BATCHES),
                "cluster": range(self.clusters),
                "slot": range(self.slots),
                "id": self.id_bits,
                "time": self.time_bits,
            }
        )

    @property
    def tag(self) -> data.StructLayout:
        """What the edge must know of a window tuple, or of the end of a window."""
        return data.StructLayout(
            {
                "end": 1,
                "bank": range(BATCHES),
                "id": self.id_bits,
                "time": self.time_bits,
            }
        )
