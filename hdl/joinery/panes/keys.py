"""A table that numbers keys in the order in which they first come."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["KeyTable"]


class KeyTable(wiring.Component):
    """Find the number of a key, and give it the next one if it has none.

    Latency: 2 cycles. Throughput: a key per cycle, equal keys in a row included: a key is compared
    with all keys of the table in the cycle in which it may enter it.

    Parameters
    ----------
    key : data.StructLayout
    keys : int
        Keys that the table holds.
    places : int
        Range of the numbers, at least ``keys``.

    Members
    -------
    put : In(1), key : In(key)
    clear : In(1)
        Forget all keys.
    found : Out(1), number : Out(range(places))
        The key has a number, 2 cycles after ``put``.
    full : Out(1)
        The key has none, and there is none left.
    read : In(range(places)), value : Out(key)
        The key of a number.
    """

    LATENCY = 2

    put: Signal
    key: Any
    clear: Signal
    found: Signal
    number: Signal
    full: Signal
    read: Signal
    value: Any

    def __init__(self, key: data.StructLayout, *, keys: int, places: int) -> None:
        self.key_layout = key
        self.keys = keys
        super().__init__(
            {
                "put": In(1),
                "key": In(key),
                "clear": In(1),
                "found": Out(1),
                "number": Out(range(places)),
                "full": Out(1),
                "read": In(range(places)),
                "value": Out(key),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values: Memory = Memory(shape=self.key_layout, depth=self.keys, init=[])
        m.submodules.values = values
        write, read = values.write_port(), values.read_port(domain="comb")
        entries = Array(Signal(self.key_layout.size, name=f"entry_{k}") for k in range(self.keys))
        used = Signal(range(self.keys + 1))
        now, key = Signal(), Signal(self.key_layout.size)
        m.d.sync += [now.eq(self.put), key.eq(self.key)]
        equal = Cat((used > k) & (entry == key) for k, entry in enumerate(entries))
        hit, enters, is_full = Signal(), Signal(), Signal()
        m.d.comb += [
            hit.eq(equal.any()),
            is_full.eq(used == self.keys),
            enters.eq(now & ~hit & ~is_full),
            write.addr.eq(used),
            write.data.eq(key),
            write.en.eq(enters),
            read.addr.eq(self.read),
            self.value.eq(read.data),
        ]
        for k, entry in enumerate(entries):
            with m.If(enters & (used == k)):
                m.d.sync += entry.eq(key)
        with m.If(self.clear):
            m.d.sync += used.eq(0)
        with m.Elif(enters):
            m.d.sync += used.eq(used + 1)

        matched, fresh = Signal(self.keys), Signal.like(used)
        was_hit = Signal()
        m.d.sync += [
            self.found.eq(now & (hit | ~is_full)),
            self.full.eq(now & ~hit & is_full),
            was_hit.eq(hit),
            matched.eq(equal),
            fresh.eq(used),
        ]
        numbers = [
            Cat(matched[k] for k in range(self.keys) if k >> bit & 1).any()
            for bit in range(len(self.number))
        ]
        with m.If(was_hit):
            m.d.comb += self.number.eq(Cat(numbers))
        with m.Else():
            m.d.comb += self.number.eq(fresh)
        return m
