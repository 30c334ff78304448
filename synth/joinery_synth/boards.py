"""The boards that designs are built for, and the top of each: clock, reset, UART, lights."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.build import Platform
from amaranth.build.res import ResourceError
from amaranth.hdl import (
    Cat,
    ClockDomain,
    ClockSignal,
    Elaboratable,
    Instance,
    Module,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer  # type: ignore[import-untyped] # not in the stubs

from .pll import PLLS

__all__ = [
    "BAUD",
    "BLOCK_BYTES",
    "BOARDS",
    "CHIPS",
    "Board",
    "BoardPins",
    "Chip",
    "cycles_per_bit",
    "pll_of",
]

BAUD = 3_000_000
STRETCH_HZ = 12  # lights show what was true at some time in the last twelfth of a second


@dataclass(frozen=True)
class Chip:
    """The chip of a board: its family and size, and the clock of a design unless told otherwise."""

    family: str
    clock: float
    device: Mapping[str, int]


@dataclass(frozen=True)
class Board:
    """A board that `amaranth-boards` describes.

    ``pins`` is the module and class of its description, ``device`` the size of its chip: look-up
    tables, registers and blocks of memory. ``clock`` is the frequency of a design unless another
    one is asked for: one that engines reach, as the line is far slower. ``runs`` says whether its
    tools are ones that anyone can install.
    """

    name: str
    what: str
    family: str
    pins: str
    clock: float
    device: Mapping[str, int]
    runs: bool = True

    def platform(self) -> Platform:
        module, _, name = self.pins.partition(":")
        found: Platform = getattr(importlib.import_module(f"amaranth_boards.{module}"), name)()
        return found


BLOCK_BYTES = {"ecp5": 2048, "ice40": 512, "xc7": 4096}
"""Bytes in a block of memory, by family, those for parity left out."""
ECP5_85 = {"lut": 83640, "ff": 83640, "bram": 208, "dsp": 156}

BOARDS = {
    board.name: board
    for board in (
        Board("ulx3s_85f", "Radiona ULX3S with LFE5U-85F, speed grade 6", "ecp5",
              "ulx3s:ULX3S_85F_Platform", 45e6, ECP5_85),
        Board("ecpix5_85f", "LambdaConcept ECPIX-5 with LFE5UM5G-85F, speed grade 8", "ecp5",
              "ecpix5:ECPIX585Platform", 45e6, ECP5_85),
        Board("ice40_hx8k", "Lattice iCE40-HX8K breakout board", "ice40",
              "ice40_hx8k_b_evn:ICE40HX8KBEVNPlatform", 36e6,
              {"lut": 7680, "ff": 7680, "bram": 32, "dsp": 0}),
        Board("arty_a7", "Digilent Arty A7-100T", "xc7", "arty_a7:ArtyA7_100Platform", 96e6,
              {"lut": 63400, "ff": 126800, "bram": 135, "dsp": 240}, runs=False),
    )
}  # fmt: skip


CHIPS = {
    **{board.name: Chip(board.family, board.clock, board.device) for board in BOARDS.values()},
    "alveo_u280": Chip("xcup", 250e6, {"lut": 1303680, "ff": 2607360, "bram": 2016, "dsp": 9024}),
}
"""Chips by board, also of boards that no bitstream is built for."""


def cycles_per_bit(clock: float) -> int:
    """Clock cycles of a bit on the wires, as near to ``BAUD`` as the clock allows."""
    return max(4, round(clock / BAUD))


def pll_of(board: Board, clock: float) -> Any:
    """The settings of the board's PLL that come nearest to ``clock``; ``frequency`` is theirs."""
    source = float(board.platform().default_clk_constraint.frequency)
    return PLLS[board.family].near(source, clock)


class BoardPins(Elaboratable):
    """What lies between the pins of a board and a core with ``rx``, ``tx`` and ``status``.

    The clock comes from the board's PLL. Reset is held until the PLL has locked and, where the
    board has a reset button, while that is pressed. The first light blinks while the clock runs;
    each other one shows a bit of ``status``.

    Parameters
    ----------
    board : Board
    clock : float
        The frequency wanted; ``self.pll.frequency`` is what it will be.
    core : wiring.Component
        Only its signature is used: the module ``core`` itself is in a file of its own.
    """

    def __init__(self, board: Board, clock: float, core: Any) -> None:
        self.board = board
        self.pll = pll_of(board, clock)
        self.status = core.status.shape()
        self.lights = ["clock", *_names(self.status)]

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        locked = Signal()
        m.domains.sync = sync = ClockDomain()
        clk: Signal = sync.clk  # type: ignore[attr-defined] # not in the stubs
        pin = platform.request(platform.default_clk, dir="-")
        m.submodules.clock_pin = clock_pin = io.Buffer(io.Direction.Input, pin)
        # A name that no submodule has for this net: the constraint goes by the last one.
        clock = Signal(name="pll_clock", attrs={"keep": "true"})
        self.pll.place(m, clock_pin.i, clock, locked)
        platform.add_clock_constraint(clock, self.pll.frequency)
        m.d.comb += clk.eq(clock)
        held: Value = ~locked
        if platform.default_rst is not None:
            m.submodules.reset_pin = reset = io.Buffer(
                io.Direction.Input, platform.request(platform.default_rst, dir="-")
            )
            held = held | reset.i
        m.submodules.reset = ResetSynchronizer(held)

        uart = platform.request("uart", 0, dir="-")
        m.submodules.rx_pin = rx = io.Buffer(io.Direction.Input, uart.rx)
        m.submodules.tx_pin = tx = io.Buffer(io.Direction.Output, uart.tx)
        status = Signal(self.status)
        m.submodules.core = Instance(
            "core",
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            i_rx=rx.i,
            o_tx=tx.o,
            o_status=Value.cast(status),
        )
        self._light(m, platform, Value.cast(status))
        return m

    def _light(self, m: Module, platform: Any, status: Value) -> None:
        """Show each bit for as long as an eye needs."""
        ticks = int(self.pll.frequency / STRETCH_HZ)
        timer = Signal(range(ticks))
        beat = Signal(3)
        seen, shown = Signal(len(status)), Signal(len(status))
        m.d.sync += [timer.eq(timer + 1), seen.eq(seen | status)]
        with m.If(timer == ticks - 1):
            m.d.sync += [timer.eq(0), beat.eq(beat + 1), shown.eq(seen), seen.eq(status)]
        for number, (light, value) in enumerate(
            zip(_lights(platform), Cat(beat[-1], shown), strict=False)
        ):
            m.submodules[f"light_{number}"] = pin = io.Buffer(io.Direction.Output, light)
            m.d.comb += pin.o.eq(value)


def _names(layout: Any, prefix: str = "") -> list[str]:
    """The bits of a layout of layouts, the lowest first."""
    if not hasattr(layout, "__iter__"):
        width = Value.cast(Signal(layout)).shape().width
        return [prefix] if width == 1 else [f"{prefix}_{bit}" for bit in range(width)]
    return [
        name
        for key, field in layout
        for name in _names(field.shape, f"{prefix}.{key}" if prefix else str(key))
    ]


def _lights(platform: Any) -> list[Any]:
    """The lights of a board: single ones, then those of three colours, all of their colours."""
    found: list[Any] = []
    for number in range(8):
        try:
            found.append(platform.request("led", number, dir="-"))
        except ResourceError:
            break
    for number in range(4):
        try:
            light = platform.request("rgb_led", number, dir="-")
        except ResourceError:
            break
        found += [light.g, light.r, light.b]
    return found
