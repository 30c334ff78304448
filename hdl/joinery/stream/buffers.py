"""Blocks that hold transfers: a register that cuts every path, and a queue of any depth."""

from typing import Any

from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ._check import require_positive

__all__ = ["Buffer", "Queue"]


class Buffer(wiring.Component):
    """Cut both the forward and the backward paths of a stream with registers.

    Latency: 1 cycle. Throughput: one transfer per cycle. Holds at most two transfers.

    Every output, ``i.ready`` included, depends on registers alone.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.

    Members
    -------
    i : In(stream.Signature(shape))
    o : Out(stream.Signature(shape))
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: ShapeLike) -> None:
        self.shape = shape
        super().__init__(
            {"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()

        # The spare register takes the one transfer that arrives while the output is found stalled;
        # by the next cycle the source has been told.
        spare = Signal(self.shape)
        spare_full = Signal()

        m.d.comb += self.i.ready.eq(~spare_full)
        with m.If(~spare_full):
            m.d.sync += spare.eq(self.i.payload)

        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += self.o.valid.eq(self.i.valid | spare_full)
            m.d.sync += spare_full.eq(0)
            with m.If(spare_full):
                m.d.sync += self.o.payload.eq(spare)
            with m.Else():
                m.d.sync += self.o.payload.eq(self.i.payload)
        with m.Elif(self.i.valid):
            m.d.sync += spare_full.eq(1)

        return m


class Queue(wiring.Component):
    """Hold up to ``depth`` transfers, first in, first out.

    Latency: 1 cycle; 2 cycles in ``block`` style, 3 in ``behind`` style. Throughput: one transfer
    per cycle. Only in these two styles can the output be empty while the queue is not.

    From depth 2 on, ``i.ready`` depends on registers alone and is high exactly while ``level`` is
    below ``depth``, so ``depth - level`` is the room that a producer may count on. At depth 1 a
    full queue takes a transfer in the cycle in which it gives one, which needs a combinational path
    from ``o.ready`` to ``i.ready``.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    depth : int
        Transfers held at most; any number, not only powers of two.
    style : str
        ``distributed`` keeps rows in memory with asynchronous read (registers at depth 1),
        ``block`` in memory with synchronous read, which maps to block RAM. ``behind`` is ``block``
        with a register behind the memory, and ``beside`` with one beside it, which takes a transfer
        that need not wait. ``prompt`` is that with a `Buffer` in front, for who needs the output
        early in the cycle. ``auto`` chooses ``block`` above ``BLOCK_DEPTH`` rows.

    Members
    -------
    i : In(stream.Signature(shape))
    o : Out(stream.Signature(shape))
    level : Out(range(depth + 1))
        Transfers held now.
    """

    BLOCK_DEPTH = 64
    """Deepest queue that ``auto`` builds without block RAM: what one LUT of six inputs stores."""

    STYLES = ("auto", "distributed", "block", "behind", "beside", "prompt")

    i: stream.Interface
    o: stream.Interface
    level: Signal

    def __init__(self, shape: ShapeLike, *, depth: int, style: str = "auto") -> None:
        require_positive("Queue depth", depth)
        if style not in self.STYLES:
            known = f"{', '.join(self.STYLES[:-1])} or {self.STYLES[-1]}"
            raise ValueError(f"Queue style must be {known}, not {style!r}")
        if style == "auto":
            style = "block" if depth > self.BLOCK_DEPTH else "distributed"
        if style not in ("auto", "distributed") and depth == 1:
            raise ValueError(f"Queue of depth 1 is a register and has no {style} style")
        self.shape = shape
        self.depth = depth
        self.style = style
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()

        push = Signal()
        pop = Signal()
        m.d.comb += push.eq(self.i.valid & self.i.ready)
        m.d.comb += pop.eq(self.o.valid & self.o.ready)
        with m.If(push ^ pop):
            m.d.sync += self.level.eq(Mux(push, self.level + 1, self.level - 1))

        if self.depth == 1:
            m.d.comb += self.i.ready.eq(~self.level | self.o.ready)
            m.d.comb += self.o.valid.eq(self.level)
            with m.If(push):
                m.d.sync += self.o.payload.eq(self.i.payload)
            return m

        # What the handshakes need of the level is known a cycle ahead, so they begin at a register.
        full = Signal()
        with m.If(push ^ pop):
            m.d.sync += full.eq(push & (self.level == self.depth - 1))

        m.d.comb += self.i.ready.eq(~full)

        if self.style == "prompt":
            self._go_past(m, push)
            return m

        # No row is read while it is written, which Yosys would otherwise add logic for.
        attrs: Any = {"no_rw_check": 1} if self.style == "behind" else {}  # the stubs know text
        rows: Memory = Memory(shape=self.shape, depth=self.depth, init=[], attrs=attrs)
        m.submodules.rows = rows
        write = rows.write_port()
        read = rows.read_port(domain="comb" if self.style == "distributed" else "sync")
        stored = Signal()
        fetch = Signal()

        def after(row: Value) -> Value:
            return Mux(row == self.depth - 1, 0, row + 1)

        with m.If(stored):
            m.d.sync += write.addr.eq(after(write.addr))
        with m.If(fetch):
            m.d.sync += read.addr.eq(after(read.addr))

        m.d.comb += write.en.eq(stored)
        m.d.comb += write.data.eq(self.i.payload)

        if self.style == "distributed":
            m.d.comb += stored.eq(push)
            m.d.comb += fetch.eq(pop)
            m.d.comb += self.o.payload.eq(read.data)
            with m.If(push ^ pop):
                m.d.sync += self.o.valid.eq(push | (self.level != 1))
            return m

        # The memory's own output register presents the oldest transfer; the next is fetched into it
        # as that one leaves. A row counts as held until it has left.
        free = Signal()
        more = Signal()
        passes = Signal()
        if self.style == "behind":
            self._put_behind(m, read, fetch, stored, push)
            return m
        m.d.comb += free.eq(self.o.ready | ~self.o.valid)
        m.d.comb += more.eq(self.level > self.o.valid)
        m.d.comb += fetch.eq(more & free)
        m.d.comb += read.en.eq(fetch)
        m.d.comb += stored.eq(push & ~passes)
        with m.If(free):
            m.d.sync += self.o.valid.eq(more | passes)

        if self.style == "block":
            m.d.comb += self.o.payload.eq(read.data)
        else:
            beside = Signal(self.shape)
            passed = Signal()
            m.d.comb += passes.eq(push & free & ~more)
            m.d.comb += self.o.payload.eq(Mux(passed, beside, read.data))
            with m.If(free):
                m.d.sync += passed.eq(passes)
                m.d.sync += beside.eq(self.i.payload)
        return m

    def _put_behind(self, m: Module, read: Any, fetch: Signal, stored: Signal, push: Value) -> None:
        """Let what the memory gives pass a register, which a block RAM may have of its own."""
        given, taken = Signal(), Signal()
        behind = Signal(self.shape, reset_less=True)
        m.d.comb += [
            taken.eq(self.o.ready | ~self.o.valid),
            fetch.eq((self.level > self.o.valid + given) & (taken | ~given)),
            read.en.eq(fetch),
            stored.eq(push),
            self.o.payload.eq(behind),
        ]
        with m.If(taken):
            m.d.sync += [self.o.valid.eq(given), behind.eq(read.data)]
        with m.If(taken | ~given):
            m.d.sync += given.eq(fetch)

    def _go_past(self, m: Module, push: Value) -> None:
        """Send past the deep queue what need not wait for room in front."""
        m.submodules.deep = deep = Queue(self.shape, depth=self.depth, style="beside")
        m.submodules.front = front = Buffer(self.shape)
        wiring.connect(m, front.o, wiring.flipped(self.o))
        past = Signal()
        m.d.comb += [
            past.eq(~deep.o.valid & front.i.ready),
            deep.i.valid.eq(push & ~past),
            deep.i.payload.eq(self.i.payload),
            deep.o.ready.eq(front.i.ready),
            front.i.valid.eq(deep.o.valid | (push & past)),
            front.i.payload.eq(Mux(deep.o.valid, deep.o.payload, self.i.payload)),
        ]
