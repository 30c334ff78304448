"""Memories behind the native port: block RAM, and simulated memories with the time they take."""

from typing import Any

from amaranth.hdl import ClockSignal, Instance, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In

from ..stream import Queue
from .ports import MemoryPort

__all__ = ["WORDS_MODULE", "BlockMemory", "TimedMemory"]

WORDS_MODULE = "joinery_words"


class BlockMemory(wiring.Component):
    """A channel in block RAM, with a port for reads and one for writes. Synthesizable.

    Latency: 1 cycle from a request to its word. Throughput: one request per cycle, which may read
    and write.

    Parameters
    ----------
    lines, word, width : int
        As for ``MemoryPort``.

    Members
    -------
    port : In(MemoryPort)
    """

    port: Any

    def __init__(self, *, lines: int, word: int, width: int) -> None:
        self.memory: memory.Memory = memory.Memory(
            shape=unsigned(word * width), depth=lines, init=[]
        )
        self.width = width
        super().__init__({"port": In(MemoryPort(lines=lines, word=word, width=width, burst=1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = self.memory
        read = self.memory.read_port()
        write = self.memory.write_port(granularity=self.width)
        request, response = self.port.request, self.port.response
        free = Signal()
        m.d.comb += [
            free.eq(~response.valid | response.ready),
            request.ready.eq(~request.p.read | free),
            read.addr.eq(request.p.read_line),
            read.en.eq(request.valid & request.p.read & free),
            write.addr.eq(request.p.write_line),
            write.data.eq(request.p.data),
            response.payload.eq(read.data),
        ]
        with m.If(request.valid & request.ready & request.p.write):
            m.d.comb += write.en.eq(request.p.mask)
        with m.If(free):
            m.d.sync += response.valid.eq(read.en)
        return m


class TimedMemory(wiring.Component):
    """A channel of a simulated memory: each access takes its time, and data come ``latency`` later.

    An access takes ``short`` cycles, one in a burst of at least ``burst_from`` words ``long``; both
    are fractions. Where the memory is not ``duplex``, reads and writes wait for each other.

    Parameters
    ----------
    lines, word, width, burst : int
        As for ``MemoryPort``.
    short, long : (int, int)
    burst_from : int
    duplex : bool
    latency : int
        At least 2.
    outside : bool
        Words are kept by an instance of ``WORDS_MODULE``, whose Verilog is in ``words.v``: for
        memories so large that Amaranth would take long to write down their initial contents.

    Members
    -------
    port : In(MemoryPort)
    """

    port: Any

    def __init__(
        self,
        *,
        lines: int,
        word: int,
        width: int,
        burst: int,
        short: tuple[int, int] = (1, 1),
        long: tuple[int, int] = (1, 1),
        burst_from: int = 1,
        duplex: bool = False,
        latency: int = 2,
        outside: bool = False,
    ) -> None:
        for name, (cycles, accesses) in (("short", short), ("long", long)):
            if not 1 <= accesses <= cycles:
                raise ValueError(
                    f"TimedMemory {name} access time must be a fraction of at least one cycle, "
                    f"not {cycles}/{accesses}"
                )
        if not isinstance(latency, int) or latency < 2:
            raise ValueError(f"TimedMemory latency must be at least 2 cycles, not {latency!r}")
        self.memory: memory.Memory | None = None
        if not outside:
            self.memory = memory.Memory(shape=unsigned(word * width), depth=lines, init=[])
        self.lines = lines
        self.word = word
        self.short = short
        self.long = long
        self.burst_from = burst_from
        self.duplex = duplex
        self.latency = latency
        self.width = width
        signature = MemoryPort(lines=lines, word=word, width=width, burst=burst)
        super().__init__({"port": In(signature)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        read, write = self._keep_words(m)
        depth = 2 * self.latency
        m.submodules.data = queue = Queue(read.data.shape(), depth=depth, style="distributed")
        request = self.port.request

        left = Signal.like(request.p.count)  # words of a burst that are still to be read
        line = Signal.like(request.p.read_line)
        late = Signal()  # the burst is a long one
        reading = Signal()
        room = Signal()
        m.d.comb += [
            write.addr.eq(request.p.write_line),
            write.data.eq(request.p.data),
            read.en.eq(reading),
        ]

        writing = Signal()
        reads = (reading, Mux(left != 0, late, request.p.count >= self.burst_from))
        writes = (writing, request.p.run >= self.burst_from)
        if self.duplex:
            can_read = self._count_time(m, "read", reads)
            can_write = self._count_time(m, "write", writes)
        else:
            can_read = can_write = self._count_time(m, "access", reads, writes)
        m.d.comb += request.ready.eq(
            (left == 0) & (~request.p.read | (can_read & room)) & (~request.p.write | can_write)
        )
        taken = request.valid & request.ready
        m.d.comb += writing.eq(taken & request.p.write)
        m.d.comb += write.en.eq(Mux(writing, request.p.mask, 0))
        with m.If(left != 0):
            m.d.comb += [reading.eq(can_read & room), read.addr.eq(line)]
            with m.If(reading):
                m.d.sync += [left.eq(left - 1), line.eq(line + 1)]
        with m.Else():
            m.d.comb += [reading.eq(taken & request.p.read), read.addr.eq(request.p.read_line)]
            with m.If(reading):
                m.d.sync += [
                    left.eq(request.p.count - 1),
                    line.eq(request.p.read_line + 1),
                    late.eq(request.p.count >= self.burst_from),
                ]
        self._deliver(m, queue, reading, room, read.data, depth)
        return m

    def _keep_words(self, m: Module) -> tuple[Any, Any]:
        """Return a port to read words and one to write them."""
        if self.memory is not None:
            m.submodules.memory = self.memory
            return self.memory.read_port(), self.memory.write_port(granularity=self.width)
        address, word = range(self.lines), self.word * self.width
        read: Any = Signal(data.StructLayout({"en": 1, "addr": address, "data": word}), name="read")
        write: Any = Signal(
            data.StructLayout({"en": self.word, "addr": address, "data": word}), name="write"
        )
        found = Signal(word)
        m.d.comb += read.data.eq(found)
        m.submodules.memory = Instance(
            WORDS_MODULE,
            p_LINES=self.lines,
            p_ADDRESS=max(1, len(read.addr)),
            p_WORD=self.word,
            p_WIDTH=self.width,
            i_clk=ClockSignal(),
            i_read=read.en,
            i_read_line=read.addr,
            i_write=write.en,
            i_write_line=write.addr,
            i_write_data=write.data,
            o_read_data=found,
        )
        return read, write

    def _count_time(self, m: Module, name: str, *accesses: tuple[Any, Any]) -> Any:
        """Return whether there may be an access: each adds to a debt that passing cycles pay.

        ``accesses`` are pairs: whether there is one, and whether it is in a long burst.
        """
        unit = self.short[1] * self.long[1]  # of a cycle, so that all times are whole
        short, long = (cycles * unit // parts - unit for cycles, parts in (self.short, self.long))
        debt = Signal(range(unit + max(short, long) + 1), name=f"{name}_debt")
        with m.If(debt >= unit):
            m.d.sync += debt.eq(debt - unit)
        for access, in_burst in accesses:
            with m.If(access):
                m.d.sync += debt.eq(debt + Mux(in_burst, long, short))
        return debt < unit

    def _deliver(
        self, m: Module, queue: Queue, reading: Any, room: Any, word: Any, depth: int
    ) -> None:
        """Keep what was read until its time has come and it is taken."""
        response = self.port.response
        steps = Signal(self.latency - 1)
        due = Signal(range(depth + 1))
        under_way = Signal(range(depth + 1))
        taken = Signal()
        m.d.comb += taken.eq(response.valid & response.ready)
        m.d.sync += steps.eq((steps << 1) | reading)
        m.d.sync += due.eq(due + steps[-1] - taken)
        m.d.sync += under_way.eq(under_way + reading - taken)
        m.d.comb += [
            room.eq(under_way != depth),
            queue.i.valid.eq(steps[0]),
            queue.i.payload.eq(word),
            queue.o.ready.eq(taken),
            response.valid.eq(due != 0),
            response.payload.eq(queue.o.payload),
        ]
