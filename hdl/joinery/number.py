"""Exact floor division of times by the length of a pane, one per cycle.

For a divisor d and numbers from ``low`` to ``high``, let M = (2^s + e) / d with 0 <= e < d. Then
(x M + A) / 2^s = x / d + (x e + d A) / (d 2^s), and the floor of the left side is that of x / d if
the last term is from 0 to less than 1 / d, that is, 0 <= x e + d A < 2^s for every x. A covers the
negative ones; s is the least with which the largest fits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as pairs

from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipe import delayed
from .tuples import bits_for_range

__all__ = ["Divider", "Reciprocal", "SettableDivider", "chunk_products", "less"]

FACTOR = 17  # bits of an unsigned factor that multipliers of 18 bits with a sign take
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


def less(left: Value, right: Value) -> Value:
    """``left < right``, as a comparison of unsigned numbers.

    That takes one carry chain, and no more than its last carry.
    """
    shapes = [Value.cast(each).shape() for each in (left, right)]
    if not any(shape.signed for shape in shapes):
        return left < right
    width = max(shape.width + (not shape.signed) for shape in shapes)

    def moved(value: Value, is_signed: bool) -> Value:
        sign = value[-1] if is_signed else Const(0, 1)
        more = width - len(value)
        whole = Cat(value, sign.replicate(more)) if more else value
        return Cat(whole[:-1], ~whole[-1])

    return moved(left, shapes[0].signed) < moved(right, shapes[1].signed)


class Divider(wiring.Component):
    """Divide a number by a constant, rounding down, after adding each of some constants.

    Latency: ``stages`` cycles. Throughput: one number per cycle in which ``en`` is high; with
    ``en`` low everything holds.

    Parameters
    ----------
    shape : Shape
        Shape of the number.
    low, high : int
        Its range.
    divisor : int
    offsets : sequence of int
        What is added before each of the divisions.
    stages : int
        2; or 3, for a higher frequency.

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
        self,
        shape: Shape,
        low: int,
        high: int,
        *,
        divisor: int,
        offsets: Sequence[int] = (0,),
        stages: int = 2,
    ) -> None:
        self.stages = stages
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
        width = self.shape.width + r.shift
        added = [r.offset + offset * r.multiplier for offset in self.offsets]
        if self.stages == 2:
            parts, known = self._products(m), 0
        else:
            parts, known = self._rows(m, width, added[0]), added[0]
        for k, constant in enumerate(added):
            total = Signal(signed(width), name=f"total_{k}", reset_less=True)
            with m.If(self.en):
                m.d.sync += total.eq(sum(parts) + (constant - known))
            m.d.comb += [
                getattr(self, f"o_{k}").eq(total[r.shift :].as_signed()),
                getattr(self, f"fraction_{k}").eq(total[: r.shift]),
            ]
        return m

    def _held(self, m: Module, value: Value, name: str) -> Signal:
        held = Signal(value.shape(), name=name, reset_less=True)
        with m.If(self.en):
            m.d.sync += held.eq(value)
        return held

    def _products(self, m: Module) -> list[Value]:
        """Parts of the product of the number and the reciprocal."""
        number = Signal(signed(len(self.i) + 1))
        m.d.comb += number.eq(self.i)
        found = chunk_products(number, self.reciprocal.multiplier)
        return [self._held(m, part, f"product_{k}") for k, part in enumerate(found)]

    def _rows(self, m: Module, width: int, constant: int) -> list[Value]:
        """Two numbers whose sum is that product and ``constant``.

        A multiplier takes most of a cycle, and a chain of carries through the whole sum another
        one. So the products are reduced in between, in which no carry goes further than one place.
        """
        number, bias = Signal(len(self.i)), 0
        m.d.comb += number.eq(self.i)
        if self.i.shape().signed:  # as an unsigned number, which is larger by half of its range
            m.d.comb += number[-1].eq(~self.i[-1])
            bias = self.reciprocal.multiplier << (len(number) - 1)
        factors = self.reciprocal.multiplier
        rows: list[Value] = []
        ends: list[int] = []  # where each row has no bits yet
        for k, n in sorted(
            pairs(range(0, len(number), FACTOR), range(0, factors.bit_length(), FACTOR)), key=sum
        ):
            factor = factors >> n & (1 << FACTOR) - 1
            held = self._held(m, number[k : k + FACTOR] * factor, f"product_{k}_{n}")
            at = next((row for row, end in enumerate(ends) if end <= k + n), len(rows))
            if at == len(rows):
                rows.append(Const(0, 0))
                ends.append(0)
            rows[at] = Cat(rows[at], Const(0, k + n - ends[at]), held)
            ends[at] = len(rows[at])
        rows.append(Const((constant - bias) & (1 << width) - 1, width))
        while len(rows) > 2:
            rows = [each for start in range(0, len(rows), 3) for each in
                    _carry_save(m, rows[start : start + 3], width)]  # fmt: skip
        return [self._held(m, row, f"row_{k}") for k, row in enumerate(rows)]


def _carry_save(m: Module, rows: list[Value], width: int) -> list[Value]:
    """Two numbers with the sum of three; fewer are left as they are."""
    if len(rows) < 3:
        return rows
    a, b, c = (Signal(width, name="row") for _ in rows)
    m.d.comb += [a.eq(rows[0]), b.eq(rows[1]), c.eq(rows[2])]
    return [a ^ b ^ c, Cat(Const(0, 1), (a & b) | (a & c) | (b & c))[:width]]


class SettableDivider(wiring.Component):
    """Divide a number by what a register says, rounding down, after adding what others say.

    Latency: ``stages`` cycles, 2 or more. Throughput: one number per cycle in which ``en`` is high;
    with ``en`` low everything holds.

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
    offset_0: Signal

    def __init__(
        self, shape: Shape, *, shift: int, width: int, sums: int = 1, stages: int = 2
    ) -> None:
        self.stages = stages
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
        whole: Value = Signal(len(self.offset_0), name="whole")
        m.d.comb += whole.eq(sum(products))
        whole = delayed(m, whole, self.stages - 2, self.en, "whole_later")
        for k in range(self.sums):
            offset, quotient = getattr(self, f"offset_{k}"), getattr(self, f"o_{k}")
            total = Signal(len(offset), name=f"total_{k}", reset_less=True)
            with m.If(self.en):
                m.d.sync += total.eq(whole + offset)
            m.d.comb += quotient.eq(total[self.shift :])
        return m
