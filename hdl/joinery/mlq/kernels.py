"""Kernels: what is computed of each window, part by part as the memories deliver it."""

from abc import abstractmethod
from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..tuples import bits_for_range

__all__ = ["Count", "Fold", "Kernel", "Maximum", "Minimum", "Sum", "values_layout"]


def values_layout(shape: Shape, lanes: int, rows: int) -> data.StructLayout:
    """Part of a window, of one column: some values, and how many the whole window has."""
    return data.StructLayout(
        {
            "last": 1,
            "count": range(rows + 1),
            "mask": lanes,
            "values": data.ArrayLayout(shape, lanes),
        }
    )


class Kernel(wiring.Component):
    """One result for each window.

    Throughput: one part of a window per cycle.

    Parameters
    ----------
    shape : Shape
        Shape of a value.
    lanes : int
        Values in a part.
    rows : int
        Values in a window, at most.
    parts : int
        Parts that a window comes in, at most.

    Members
    -------
    i : In(stream.Signature(values_layout(shape, lanes, rows)))
    o : Out(stream.Signature(result_shape(shape, rows)))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: Shape, *, lanes: int, rows: int, parts: int) -> None:
        for name, value in (("lanes", lanes), ("rows", rows), ("parts", parts)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"Kernel {name} must be a positive integer, not {value!r}")
        self.shape = Shape.cast(shape)
        self.lanes = lanes
        self.rows = rows
        self.parts = parts
        super().__init__(
            {
                "i": In(stream.Signature(values_layout(self.shape, lanes, rows))),
                "o": Out(stream.Signature(self.result_shape(self.shape, rows))),
            }
        )

    @classmethod
    @abstractmethod
    def result_shape(cls, shape: Shape, rows: int) -> Shape:
        """The shape of the result for windows of at most ``rows`` values."""

    @classmethod
    def latency(cls, shape: Shape, *, lanes: int, parts: int) -> int:
        """Cycles from the first part of a window to its result, if one comes after the other."""
        return parts + lanes.bit_length()


class Fold(Kernel):
    """A kernel that joins values two by two, in any order: a tree, and a sum of what it gives.

    Latency: a cycle for each level of the tree, and one. Throughput: one part per cycle.
    """

    @classmethod
    @abstractmethod
    def lift(cls, value: Any) -> Value:
        """What a single value counts as."""

    @classmethod
    @abstractmethod
    def join(cls, first: Value, second: Value) -> Value:
        """Join what two groups of values count as."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        free = Signal()
        m.d.comb += [free.eq(~self.o.valid | self.o.ready), self.i.ready.eq(free)]
        shape = self.o.payload.shape()

        def register(value: Any, name: str, like: Any = 1) -> Any:
            """The same value one step later."""
            later = Signal(like, name=name)
            with m.If(free):
                m.d.sync += later.eq(value)
            return later

        valid, last = self.i.valid, self.i.p.last
        groups = [(self.i.p.mask[k], self.lift(value)) for k, value in enumerate(self.i.p.values)]
        level = 0
        while len(groups) > 1:
            level += 1
            joined = []
            for k in range(0, len(groups), 2):
                some, value = self._join_groups(*groups[k : k + 2])
                joined.append(
                    (
                        register(some, f"some_{level}_{k}"),
                        register(value, f"value_{level}_{k}", shape),
                    )
                )
            groups = joined
            valid = register(valid, f"valid_{level}")
            last = register(last, f"last_{level}")

        so_far = Signal(shape)
        begun = Signal()
        some, value = self._join_groups((begun, so_far), groups[0])
        with m.If(free):
            m.d.sync += [self.o.valid.eq(valid & last), self.o.payload.eq(value)]
            with m.If(valid):
                m.d.sync += [so_far.eq(value), begun.eq(some & ~last)]
        return m

    def _join_groups(self, *groups: tuple[Any, Any]) -> tuple[Any, Any]:
        """Join one or two groups, of which any may have no values."""
        if len(groups) == 1:
            return groups[0]
        (some, value), (more, other) = groups
        both = Mux(some & more, self.join(value, other), Mux(some, value, other))
        return some | more, both


class Sum(Fold):
    """The sum, never wrapping."""

    @classmethod
    def result_shape(cls, shape: Shape, rows: int) -> Shape:
        low = -(1 << shape.width - 1) if shape.signed else 0
        high = (1 << shape.width - shape.signed) - 1
        return Shape(*bits_for_range(low * rows, high * rows))

    @classmethod
    def lift(cls, value: Any) -> Value:
        return Value.cast(value)

    @classmethod
    def join(cls, first: Value, second: Value) -> Value:
        return first + second


class Minimum(Fold):
    """The least value."""

    @classmethod
    def result_shape(cls, shape: Shape, rows: int) -> Shape:
        return shape

    @classmethod
    def lift(cls, value: Any) -> Value:
        return Value.cast(value)

    @classmethod
    def join(cls, first: Value, second: Value) -> Value:
        return Mux(first < second, first, second)


class Maximum(Minimum):
    """The largest value."""

    @classmethod
    def join(cls, first: Value, second: Value) -> Value:
        return Mux(first < second, second, first)


class Count(Kernel):
    """How many values there are. Latency: 1 cycle."""

    @classmethod
    def result_shape(cls, shape: Shape, rows: int) -> Shape:
        return Shape.cast(range(rows + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        free = ~self.o.valid | self.o.ready
        m.d.comb += self.i.ready.eq(free)
        with m.If(free):
            m.d.sync += self.o.valid.eq(self.i.valid & self.i.p.last)
            m.d.sync += self.o.payload.eq(self.i.p.count)
        return m
