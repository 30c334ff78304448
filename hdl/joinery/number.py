"""Exact floor division of times by the length of a pane, one per cycle.

For a divisor d and numbers from ``low`` to ``high``, let M = (2^s + e) / d with 0 <= e < d. Then
(x M + A) / 2^s = x / d + (x e + d A) / (d 2^s), and the floor of the left side is that of x / d if
the last term is from 0 to less than 1 / d, that is, 0 <= x e + d A < 2^s for every x. A covers the
negative ones; s is the least with which the largest fits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .tuples import bits_for_range

__all__ = ["Divider", "Reciprocal", "SettableDivider", "chunk_products"]

CHUNK = 16  # bits of a factor that one multiplier of an FPGA takes, whatever its family


@dataclass(frozen=True)
class Reciprocal:
    """Constants with which ``(x * multiplier + offset) >> shift`` is ``x // divisor``."""

    divisor: int
    multiplier: int
    offset: int
    shift: int

    @classmethod
    def find(cls, divisor: int, low: int, high: int) -> "Reciprocal":
        """Return the constants with the least shift that are exact from ``low`` to ``high``."""
        if divisor < 1 or low > high:
            raise ValueError(f"Nothing from {low} to {high} can be divided by {divisor}")
        shift = 0
        while True:
            excess = -(1 << shift) % divisor
            offset = max(0, -(low * excess // divisor))
            if high * excess + divisor * offset < 1 << shift:
                return cls(divisor, ((1 << shift) + excess) // divisor, offset, shift)
            shift += 1


def chunk_products(value: Value, factor: Value | int) -> list[Value]:
    """Cut ``value`` (signed) in chunks and return their products with ``factor``, in place."""
    width = len(value)
    found: list[Value] = []
    for start in range(0, width, CHUNK):
        chunk = value[start : start + CHUNK]
        last = start + CHUNK >= width
        product = (chunk.as_signed() if last else chunk) * factor
        moved = Cat(Const(0, start), product)
        found.append(moved.as_signed() if last else moved)
    return found


class Divider(wiring.Component):
    """Divide a number by a constant, rounding down, after adding each of some constants.

    Latency: 2 cycles. Throughput: one number per cycle in which ``en`` is high; with ``en`` low
    everything holds.

    Parameters
    ----------
    shape : Shape
        Shape of the number.
    low, high : int
        Its range.
    divisor : int
    offsets : sequence of int
        What is added before each of the divisions.

    Members
    -------
    en : In(1)
    i : In(shape)
    o_k : Out(signed)
        ``(i + offsets[k]) // divisor``.
    fraction_k : Out(shift)
        The rest of that division over ``divisor``, times ``2 ** shift``, or a little more: less
        than the next rest's.
    """

    en: Signal
    i: Signal

    def __init__(
        self, shape: Shape, low: int, high: int, *, divisor: int, offsets: Sequence[int] = (0,)
    ) -> None:
        low, high = low + min(0, *offsets, 0), high + max(0, *offsets, 0)
        self.offsets = tuple(offsets)
        self.reciprocal = Reciprocal.find(divisor, low, high)
        self.shape = Shape(*bits_for_range(min(-1, low // divisor), high // divisor))
        outputs = {f"o_{k}": Out(self.shape) for k in range(len(offsets))}
        rests = {f"fraction_{k}": Out(self.reciprocal.shift) for k in range(len(offsets))}
        super().__init__({"en": In(1), "i": In(shape), **outputs, **rests})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        r = self.reciprocal
        number = Signal(signed(len(self.i) + 1))
        m.d.comb += number.eq(self.i)
        products = []
        for k, product in enumerate(chunk_products(number, r.multiplier)):
            held = Signal(product.shape(), name=f"product_{k}", reset_less=True)
            with m.If(self.en):
                m.d.sync += held.eq(product)
            products.append(held)
        for k, offset in enumerate(self.offsets):
            width = self.shape.width + r.shift
            total = Signal(signed(width), name=f"total_{k}", reset_less=True)
            with m.If(self.en):
                m.d.sync += total.eq(sum(products) + (r.offset + offset * r.multiplier))
            m.d.comb += [
                getattr(self, f"o_{k}").eq(total[r.shift :].as_signed()),
                getattr(self, f"fraction_{k}").eq(total[: r.shift]),
            ]
        return m


class SettableDivider(wiring.Component):
    """Divide a number by what a register says, rounding down, after adding what others say.

    Latency: 2 cycles. Throughput: one number per cycle in which ``en`` is high; with ``en`` low
    everything holds.

    Parameters
    ----------
    shape : Shape
        Shape of the number.
    shift : int
        Bits after the point of the reciprocal.
    width : int
        Bits of the quotient that are wanted, the low ones.
    sums : int
        How many quotients.

    Members
    -------
    en : In(1)
    i : In(shape)
    multiplier, offset_k : In
        The reciprocal, and what is added to the product with it.
    o_k : Out(signed(width))
    """

    en: Signal
    i: Signal
    multiplier: Signal

    def __init__(self, shape: Shape, *, shift: int, width: int, sums: int = 1) -> None:
        self.shift = shift
        self.sums = sums
        offsets = {f"offset_{k}": In(width + shift) for k in range(sums)}
        outputs = {f"o_{k}": Out(signed(width)) for k in range(sums)}
        members = {"en": In(1), "i": In(shape), "multiplier": In(shift + 1)}
        super().__init__({**members, **offsets, **outputs})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number = Signal(signed(len(self.i) + 1))
        m.d.comb += number.eq(self.i)
        products = []
        for k, product in enumerate(chunk_products(number, self.multiplier)):
            held = Signal(product.shape(), name=f"product_{k}", reset_less=True)
            with m.If(self.en):
                m.d.sync += held.eq(product)
            products.append(held)
        for k in range(self.sums):
            offset, quotient = getattr(self, f"offset_{k}"), getattr(self, f"o_{k}")
            total = Signal(len(offset), name=f"total_{k}", reset_less=True)
            with m.If(self.en):
                m.d.sync += total.eq(sum(products) + offset)
            m.d.comb += quotient.eq(total[self.shift :])
        return m
