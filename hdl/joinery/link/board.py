"""The top of a board: a core behind the link."""

from typing import Any

from amaranth.hdl import (
    DomainRenamer,
    Elaboratable,
    Instance,
    Module,
    Mux,
    ResetInserter,
    Signal,
    Value,
)
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..axi import RegisterShell, Shell, StreamShell
from ..registers import AxiLiteRegisters
from ..stream import Queue
from ..units import UnitLibrary, place
from .commands import Commands
from .port import LINK_STATUS, LinkPort
from .protocol import ADDRESS_BYTES, LinkShape
from .registers import RegisterAccess
from .replies import NUMBER_BITS, Replies
from .uart import require_cycles

__all__ = ["STATUS", "BoardTop"]

STATUS = data.StructLayout({"link": LINK_STATUS, "running": 1, "waiting": 1})
"""For a person to see: the link; a stream or a task is under way; a beat waits for the core to take
it."""

REFUSALS = 16
"""Numbers of refused beats that wait to be sent; while they all do, no beat enters the core."""


class BoardTop(wiring.Component):
    """A core behind a UART: of one stream in and one out, or all registers.

    Opening a session resets the core. Nothing else on the board needs to know it: results wait in
    the core while the host does not take them, and beats wait in the link while the core does not.

    A second clock of the core runs at the speed of the first.

    Parameters
    ----------
    shell : StreamShell or RegisterShell
    cycles_per_bit : int
        Clock cycles of a bit on the wires, 4 or more: 3 Mbaud need a clock of 12 MHz or more.
    shape : LinkShape

    Members
    -------
    rx : In(1)
    tx : Out(1)
    status : Out(STATUS)
        Comes and goes in single cycles; lights need to be stretched.
    """

    rx: Signal
    tx: Signal
    status: Any

    def __init__(
        self, shell: Shell, *, cycles_per_bit: int, shape: LinkShape | None = None
    ) -> None:
        if not isinstance(shell, StreamShell | RegisterShell):
            raise ValueError(
                "A board takes a core with one stream in and one out, or one that is all "
                f"registers, not a {type(shell).__name__}"
            )
        require_cycles(cycles_per_bit)
        ports: Any = shell
        if len(ports.s_axil_awaddr) > 8 * ADDRESS_BYTES:
            raise ValueError(
                f"Addresses of the link have {8 * ADDRESS_BYTES} bits, and those of the core "
                f"{len(ports.s_axil_awaddr)}"
            )
        self.shell = shell
        self.port = LinkPort(
            cycles_per_bit=cycles_per_bit,
            beat_bytes=shell.input_bytes if isinstance(shell, StreamShell) else 0,
            row_bytes=shell.output_bytes if isinstance(shell, StreamShell) else 0,
            shape=shape or LinkShape(),
        )
        super().__init__(
            {
                "rx": In(1, init=1),  # type: ignore[call-arg] # not in the stubs
                "tx": Out(1, init=1),  # type: ignore[call-arg] # not in the stubs
                "status": Out(STATUS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shell: Any = self.shell
        port = self.port
        streams = shell if isinstance(shell, StreamShell) else None
        # Without streams, beats are of a byte that goes nowhere, and no row comes.
        commands = Commands(beat_bytes=streams.input_bytes if streams else 1)
        replies = (
            Replies(row_bytes=streams.output_bytes, lanes=streams.lanes)
            if streams
            else Replies(row_bytes=1)
        )
        access = RegisterAccess(address_width=len(shell.s_axil_awaddr))
        m.submodules.port = port
        m.submodules.core = _core(shell, platform, port.clear)
        parts = {"commands": commands, "replies": replies, "access": access}
        for name, part in parts.items():
            m.submodules[name] = ResetInserter(port.clear)(part)
        m.d.comb += [port.rx.eq(self.rx), self.tx.eq(port.tx), self.status.link.eq(port.status)]
        wiring.connect(m, port.o, commands.i)
        wiring.connect(m, replies.o, port.i)
        wiring.connect(m, commands.o_access, access.i)
        wiring.connect(m, access.o, replies.i_answer)
        for name in AxiLiteRegisters.AXI:
            inside, outside = getattr(access, name), getattr(shell, f"s_axil_{name}")
            into = shell.signature.members[f"s_axil_{name}"].flow is In
            m.d.comb += outside.eq(inside) if into else inside.eq(outside)
        if streams:
            refusals = Queue(NUMBER_BITS, depth=REFUSALS)
            m.submodules.refusals = ResetInserter(port.clear)(refusals)
            wiring.connect(m, refusals.o, replies.i_refused)
            self._feed(m, streams, commands.o_beat, refusals)
            self._drain(m, streams, replies.i_rows)
        else:
            m.d.comb += [
                commands.o_beat.ready.eq(1),
                self.status.running.eq(shell.running.any()),
            ]
        return m

    def _feed(self, m: Module, shell: StreamShell, beats: Any, refusals: Queue) -> None:
        """Beats into the core, as long as there is room to tell that all of them were refused."""
        clear = self.port.clear
        begun = Signal(range(REFUSALS + 1))  # entered, and not decided on
        room = Signal()
        entered = Signal()
        number = Signal(NUMBER_BITS)  # of the next beat to be decided on
        beat = beats.p
        m.d.comb += [
            shell.s_axis_tdata.eq(Mux(beat.end, 0, beat.data)),
            shell.s_axis_tkeep.eq((~beat.end).replicate(shell.input_bytes)),
            shell.s_axis_tlast.eq(beat.end),
            shell.s_axis_tvalid.eq(beats.valid & room),
            beats.ready.eq(shell.s_axis_tready & room),
            entered.eq(beats.valid & beats.ready & ~beat.end),
            refusals.i.valid.eq(shell.log_valid & shell.log_refused),
            refusals.i.payload.eq(number),
            self.status.waiting.eq(beats.valid & ~beats.ready),
        ]
        m.d.sync += [
            room.eq(begun + refusals.level < REFUSALS - 1),  # a cycle old: one may have entered
            begun.eq(begun + entered - shell.log_valid),
            number.eq(number + shell.log_valid),
        ]
        with m.If(clear):
            m.d.sync += [begun.eq(0), number.eq(0)]

    def _drain(self, m: Module, shell: StreamShell, rows: Any) -> None:
        """Rows out of the core."""
        clear = self.port.clear
        running = Signal()
        size = shell.output_bytes
        m.d.comb += [
            rows.p.data.eq(shell.m_axis_tdata),
            rows.p.valid.eq(shell.m_axis_tkeep[::size]),
            rows.p.end.eq(shell.m_axis_tlast),
            rows.valid.eq(shell.m_axis_tvalid),
            shell.m_axis_tready.eq(rows.ready),
            self.status.running.eq(running),
        ]
        with m.If(clear | (rows.valid & rows.ready & rows.p.end)):
            m.d.sync += running.eq(0)
        with m.Elif(shell.s_axis_tvalid):
            m.d.sync += running.eq(1)


def _core(shell: Shell, platform: object, clear: Value) -> Elaboratable | Instance:
    """Return ``shell`` with a reset of its own, beside that of the board.

    Units that are placed within it have their reset from the module they are in, which an inserted
    reset would not reach; so in Verilog the shell is such a module too.
    """
    extra = shell.domains[1:]
    if not isinstance(platform, UnitLibrary):
        return DomainRenamer(dict.fromkeys(extra, "sync"))(ResetInserter(clear)(shell))
    return place(shell, platform, reset=clear, domains=extra)
