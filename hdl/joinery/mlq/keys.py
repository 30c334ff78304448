"""The key table: finds the place of a key, and keeps its pointers.

One memory per hash function, all read at once. The hash functions exchange places among keys whose
upper bits are equal, and each key looks first into the memory that its upper bits name: so keys
that are numbered from 0 find a place each, up to the last. A key that finds all its places taken
takes that of the key among them that was used longest ago, and that one is reported.
"""

import random
from functools import reduce
from operator import xor
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from .levels import Queues, require_power
from .pointers import PointerStep, move_layout, pointers_layout

__all__ = ["Ask", "KeyTable", "SlotTable", "check_table", "hash_key", "tuple_layout"]

STAMP_BITS = 32
"""Bits of the number of the tuple that used a key last; who was used longest ago is known among
keys used within so many tuples."""


def tuple_layout(key_width: int, width: int) -> data.StructLayout:
    """A tuple, or the end of the input."""
    return data.StructLayout({"end": 1, "key": key_width, "value": width})


class Ask(enum.Enum, shape=2):  # type: ignore[call-arg] # the shape is Amaranth's
    """What a ``SlotTable`` is asked."""

    INSERT = 0
    """Insert the value of a key."""
    READ = 1
    """Read all values of a slot, and give up none."""
    DROP = 2
    """Give up the oldest values of a slot, and read none."""


def hash_key(key: Any, *, way: int, bits: int, key_width: int) -> Any:
    """Return the place of ``key`` in one of the memories, ``bits`` wide.

    The lower bits of the key, with a mixture of the upper ones over them. ``key`` is a value of the
    hardware, or a number.
    """
    draw = random.Random(f"mlq {way} {bits} {key_width}")
    upper = key_width - bits
    masks = [draw.getrandbits(upper) if upper > 0 else 0 for _ in range(bits)]
    if isinstance(key, int):
        mixed = sum(((key >> bits & mask).bit_count() & 1) << k for k, mask in enumerate(masks))
        return (key ^ mixed) & ((1 << bits) - 1)
    chosen = [
        reduce(xor, (key[bits + j] for j in range(upper) if mask >> j & 1), Const(0, 1))
        for mask in masks
    ]
    return Cat(key[:bits]) ^ Cat(chosen) if bits else Const(0, 0)


def check_table(queues: Queues, key_width: int, ways: int) -> None:
    """Raise ``ValueError`` unless there can be such a table."""
    require_power("Ways", ways)
    require_power("Slots", queues.slots)
    if ways > queues.slots:
        raise ValueError(f"{queues.slots} slots are fewer than {ways} ways")
    if not isinstance(key_width, int) or key_width < 1:
        raise ValueError(f"Key width must be a positive integer, not {key_width!r}")


class KeyTable(wiring.Component):
    """Turn tuples into moves of the pointers of their keys.

    Latency: 2 cycles. Throughput: one tuple per cycle, of any keys. After reset and after the end
    of the input, the table is cleared: one cycle for each place of a memory.

    Parameters
    ----------
    queues : Queues
    key_width : int
        Bits of a key.
    ways : int
        Hash functions, each with a memory of its own; a power of two.

    Members
    -------
    i : In(stream.Signature(tuple_layout(key_width, width)))
    o : Out(stream.Signature(self.step))
        For each tuple its key, its value, the slot of the key, its move, and ``at``, its number
        from 0 on since reset or the end; with ``evicted``, the key whose place it took, and how
        many values that had.
    rows, slide : In(queues.count)
        WS and WA; they must not change between the first tuple and the end.
    """

    READS_NEWEST = True
    """Whether what is read has the value that is inserted by the same step."""

    i: stream.Interface
    o: stream.Interface
    rows: Signal
    slide: Signal

    def __init__(self, queues: Queues, *, key_width: int, ways: int) -> None:
        check_table(queues, key_width, ways)
        self.queues = queues
        self.key_width = key_width
        self.ways = ways
        self.depth = queues.slots // ways
        self.bits = self.depth.bit_length() - 1
        self.tuple = self._request_layout()
        self.entry = data.StructLayout(
            {
                "valid": 1,
                "key": key_width,
                "used": STAMP_BITS,
                "pointers": pointers_layout(queues),
            }
        )
        self.step = self._step_layout()
        self.memories: list[memory.Memory] = [
            memory.Memory(shape=self.entry, depth=self.depth, init=[]) for _ in range(ways)
        ]
        super().__init__(
            {
                "i": In(stream.Signature(self.tuple)),
                "o": Out(stream.Signature(self.step)),
                **self._more_members(),
            }
        )

    def _request_layout(self) -> data.StructLayout:
        return tuple_layout(self.key_width, self.queues.width)

    def _step_layout(self) -> data.StructLayout:
        layout = tuple_layout(self.key_width, self.queues.width)
        return data.StructLayout(
            {
                **{name: field.shape for name, field in layout},
                "slot": self.queues.slot,
                "move": move_layout(self.queues),
                "evicted": 1,
                "evicted_key": self.key_width,
                "evicted_count": self.queues.count,
                "at": STAMP_BITS,
            }
        )

    def _more_members(self) -> dict[str, Any]:
        return {"rows": In(self.queues.count), "slide": In(self.queues.count)}

    def _by_slot(self, request: Any) -> tuple[Any, Any]:
        """Return whether ``request`` names a slot, and which."""
        return Const(0), Const(0, self.queues.slot)

    def _decide(self, m: Module, step: PointerStep, request: Any, before: Any) -> None:
        """Say what is to be done with the pointers of the key, ``step.before``.

        ``before`` is the entry as it was, maybe of another key.
        """
        complete = step.before.count + 1 == self.rows
        m.d.comb += [
            step.insert.eq(1),
            step.aggregate.eq(complete),
            step.evict.eq(Mux(complete, self.slide, 0)),
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.step = step = PointerStep(self.queues)
        clearing = Signal(init=1)
        clear_place = Signal(range(self.depth))
        ending = Signal()
        go = Signal()
        number = Signal(STAMP_BITS)
        m.d.comb += self.i.ready.eq(go & ~clearing & ~ending)

        # Three steps: the places are read, one of them is chosen, it is changed and written back.
        looking, choosing = Signal(), Signal()
        wanted_number, chosen_number = Signal(STAMP_BITS), Signal(STAMP_BITS)
        wanted: Any = Signal(self.tuple)
        chosen: Any = Signal(self.tuple)
        entry: Any = Signal(self.entry)
        before: Any = Signal(self.entry)  # what was there, of whatever key
        evicts = Signal()
        changed: Any = Signal(self.entry)
        way = Signal(range(self.ways))
        place = Signal(range(self.depth))
        m.d.comb += go.eq(~choosing | self.o.ready)
        with m.If(go):
            m.d.sync += [
                looking.eq(self.i.valid & self.i.ready),
                wanted.eq(self.i.payload),
                wanted_number.eq(number),
                choosing.eq(looking),
                chosen.eq(wanted),
                chosen_number.eq(wanted_number),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [ending.eq(self.i.p.end), number.eq(Mux(self.i.p.end, 0, number + 1))]

        write_back = Signal()
        by_slot, _ = self._by_slot(chosen)
        m.d.comb += [
            write_back.eq(choosing & self.o.ready & ~chosen.end),
            step.before.eq(entry.pointers),
            self.o.p.at.eq(chosen_number),
            changed.valid.eq(1),
            changed.key.eq(Mux(by_slot, before.key, chosen.key)),
            changed.used.eq(Mux(by_slot, before.used, chosen_number)),
            changed.pointers.eq(step.after),
        ]
        self._decide(m, step, chosen, before)
        found = self._read_places(
            m, go, wanted, write_back, way, place, changed, clearing, clear_place
        )
        picked, hit = self._choose(m, found, wanted, number)
        places = Array(self._address(wanted, w) for w in range(self.ways))
        with m.If(go):
            m.d.sync += [
                way.eq(picked),
                place.eq(places[picked]),
                before.eq(Array(found)[picked]),
                entry.eq(Mux(hit, Value.cast(Array(found)[picked]), 0)),
                evicts.eq(Array(found)[picked].valid & ~hit & ~wanted.end),
            ]
        m.d.comb += [
            self.o.valid.eq(choosing),
            self.o.p.end.eq(chosen.end),
            self.o.p.key.eq(changed.key),
            self.o.p.value.eq(chosen.value),
            self.o.p.slot.eq(Cat(place, way)),
            self.o.p.move.eq(step.move),
            self.o.p.evicted.eq(evicts & (before.pointers.count != 0)),
            self.o.p.evicted_key.eq(before.key),
            self.o.p.evicted_count.eq(before.pointers.count),
        ]

        with m.If(choosing & self.o.ready & chosen.end):
            m.d.sync += clearing.eq(1)
        with m.If(clearing):
            m.d.sync += [clear_place.eq(clear_place + 1), ending.eq(0)]
            with m.If(clear_place == self.depth - 1):
                m.d.sync += [clearing.eq(0), clear_place.eq(0)]
        return m

    def _address(self, request: Any, way: int) -> Any:
        """Where to look in a memory."""
        by_slot, slot = self._by_slot(request)
        hashed = hash_key(request.key, way=way, bits=self.bits, key_width=self.key_width)
        return Mux(by_slot, slot[: self.bits], hashed)

    def _read_places(
        self, m: Module, go: Any, wanted: Any, write_back: Any, way: Any, place: Any, changed: Any,
        clearing: Any, clear_place: Any,
    ) -> list[Any]:  # fmt: skip
        """Return the entries at the places of ``wanted``, with what is being written back."""
        found = []
        for w, table in enumerate(self.memories):
            m.submodules[f"table_{w}"] = table
            write = table.write_port()
            read = table.read_port(transparent_for=(write,))
            mine = way == w
            current: Any = Signal(self.entry, name=f"found_{w}")
            m.d.comb += [
                read.addr.eq(self._address(self.i.p, w)),
                read.en.eq(go),
                write.addr.eq(Mux(clearing, clear_place, place)),
                write.data.eq(Mux(clearing, 0, Value.cast(changed))),
                write.en.eq(clearing | (write_back & mine)),
            ]
            ahead = write_back & mine & (place == self._address(wanted, w))
            m.d.comb += current.eq(Mux(ahead, Value.cast(changed), Value.cast(read.data)))
            found.append(current)
        return found

    def _choose(self, m: Module, found: list[Any], wanted: Any, number: Any) -> tuple[Any, Any]:
        """Return the way to use, and whether the key is there."""
        key = wanted.key
        by_slot, slot = self._by_slot(wanted)
        picked = Signal(range(self.ways))
        hits = Signal(self.ways)
        free = Signal(self.ways)
        m.d.comb += [
            hits.eq(Cat(entry.valid & (entry.key == key) for entry in found)),
            free.eq(Cat(~entry.valid | (entry.pointers.count == 0) for entry in found)),
        ]
        # Of the free places, the one in the memory where the key is at home, or the next.
        home = Signal(range(self.ways))
        if self.key_width > self.bits:
            m.d.comb += home.eq(key[self.bits :][: len(home)])
        oldest: Any = Const(0, len(home))
        age = number - found[0].used
        for w in range(1, self.ways):
            other = (number - found[w].used)[:STAMP_BITS]
            older = other > age[:STAMP_BITS]
            oldest, age = Mux(older, w, oldest), Mux(older, other, age[:STAMP_BITS])
        m.d.comb += picked.eq(oldest)
        for step in reversed(range(self.ways)):
            candidate = (home + step)[: len(home)] if self.ways > 1 else Const(0, 1)
            with m.If(free.bit_select(candidate, 1)):
                m.d.comb += picked.eq(candidate)
        for w in range(self.ways):
            with m.If(hits[w]):
                m.d.comb += picked.eq(w)
        with m.If(by_slot):
            m.d.comb += picked.eq(slot[self.bits :])
        return picked, hits.any() | by_slot


class SlotTable(KeyTable):
    """A key table for windows that end by time: it inserts, and is told by slot what else to do.

    Latency and throughput are those of ``KeyTable``, and its parameters.

    Members
    -------
    i : In(stream.Signature(self.tuple))
        ``ask`` says what to do: ``INSERT`` with ``key`` and ``value``; ``READ`` with ``slot``;
        ``DROP`` with ``slot`` and ``number``, no more than there are.
    o : Out(stream.Signature(self.step))
        As of ``KeyTable``; and ``fresh`` if the slot had no values and has one now, ``overflow`` if
        the queue of the key was full, so that the value is lost.
    """

    READS_NEWEST = False

    def _request_layout(self) -> data.StructLayout:
        layout = tuple_layout(self.key_width, self.queues.width)
        more = {"ask": Ask, "slot": self.queues.slot, "number": self.queues.count}
        return data.StructLayout({**{name: field.shape for name, field in layout}, **more})

    def _more_members(self) -> dict[str, Any]:
        return {}

    def _step_layout(self) -> data.StructLayout:
        layout = super()._step_layout()
        more = {"fresh": 1, "overflow": 1}
        return data.StructLayout({**{name: field.shape for name, field in layout}, **more})

    def _by_slot(self, request: Any) -> tuple[Any, Any]:
        return request.ask != Ask.INSERT, request.slot

    def _decide(self, m: Module, step: PointerStep, request: Any, before: Any) -> None:
        inserts = ~request.end & (request.ask == Ask.INSERT)
        full = step.before.count == self.queues.rows
        m.d.comb += [
            step.insert.eq(inserts & ~full),
            step.aggregate.eq(~request.end & (request.ask == Ask.READ)),
            step.evict.eq(Mux(request.ask == Ask.DROP, request.number, 0)),
            self.o.p.fresh.eq(inserts & (before.pointers.count == 0)),
            self.o.p.overflow.eq(inserts & full),
        ]
