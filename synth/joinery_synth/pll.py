"""Clocks of boards: the settings of each family's PLL for a frequency."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Const, Instance, Module, Signal

__all__ = ["PLLS", "Ecp5Pll", "Ice40Pll", "XilinxPll"]


@dataclass(frozen=True)
class Ecp5Pll:
    """EHXPLLL, with its first output fed back (Lattice TN-02200)."""

    source: float
    divide: int
    multiply: int
    post: int

    VCO = (400e6, 800e6)
    INPUT = (3.125e6, 400e6)  # of the phase detector

    @property
    def frequency(self) -> float:
        return self.source / self.divide * self.multiply

    @classmethod
    def near(cls, source: float, wanted: float) -> "Ecp5Pll":
        """Return the settings that come nearest, with the VCO in the middle of its range."""
        found = [
            cls(source, divide, multiply, post)
            for divide in range(1, 129)
            if cls.INPUT[0] <= source / divide <= cls.INPUT[1]
            for multiply in range(1, 81)
            for post in range(1, 129)
            if cls.VCO[0] <= source / divide * multiply * post <= cls.VCO[1]
        ]
        return min(
            found,
            key=lambda pll: (
                abs(pll.frequency - wanted),
                pll.divide,
                abs(pll.frequency * pll.post - 600e6),
            ),
        )

    def place(self, m: Module, source: Signal, out: Signal, locked: Signal) -> None:
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=str(self.source / 1e6),
            a_FREQUENCY_PIN_CLKOP=str(self.frequency / 1e6),
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            p_OUTDIVIDER_MUXA="DIVA",
            p_CLKI_DIV=self.divide,
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=self.post,
            p_CLKOP_CPHASE=self.post // 2,
            p_CLKOP_FPHASE=0,
            p_FEEDBK_PATH="CLKOP",
            p_CLKFB_DIV=self.multiply,
            i_RST=Const(0),
            i_STDBY=Const(0),
            i_CLKI=source,
            i_CLKFB=out,
            i_PHASESEL0=Const(0),
            i_PHASESEL1=Const(0),
            i_PHASEDIR=Const(1),
            i_PHASESTEP=Const(1),
            i_PHASELOADREG=Const(1),
            i_PLLWAKESYNC=Const(0),
            i_ENCLKOP=Const(0),
            o_CLKOP=out,
            o_LOCK=locked,
        )


@dataclass(frozen=True)
class Ice40Pll:
    """SB_PLL40_CORE with simple feedback (Lattice TN-02052)."""

    source: float
    divide: int
    multiply: int
    post: int  # a power of two

    VCO = (533e6, 1066e6)
    INPUT = (10e6, 133e6)
    FILTERS = ((17e6, 1), (26e6, 2), (44e6, 3), (66e6, 4), (101e6, 5), (133e6, 6))

    @property
    def frequency(self) -> float:
        return self.source / self.divide * self.multiply / self.post

    @classmethod
    def near(cls, source: float, wanted: float) -> "Ice40Pll":
        found = [
            cls(source, divide, multiply, 1 << post)
            for divide in range(1, 17)
            if cls.INPUT[0] <= source / divide <= cls.INPUT[1]
            for multiply in range(1, 129)
            for post in range(1, 7)
            if cls.VCO[0] <= source / divide * multiply <= cls.VCO[1]
        ]
        return min(found, key=lambda pll: (abs(pll.frequency - wanted), pll.divide))

    def place(self, m: Module, source: Signal, out: Signal, locked: Signal) -> None:
        detected = self.source / self.divide
        m.submodules.pll = Instance(
            "SB_PLL40_CORE",
            p_FEEDBACK_PATH="SIMPLE",
            p_DIVR=Const(self.divide - 1, 4),
            p_DIVF=Const(self.multiply - 1, 7),
            p_DIVQ=Const(self.post.bit_length() - 1, 3),
            p_FILTER_RANGE=Const(next(n for top, n in self.FILTERS if detected <= top), 3),
            i_RESETB=Const(1),
            i_BYPASS=Const(0),
            i_REFERENCECLK=source,
            o_PLLOUTGLOBAL=out,
            o_LOCK=locked,
        )


@dataclass(frozen=True)
class XilinxPll:
    """MMCME2_BASE (Xilinx UG472)."""

    source: float
    divide: int
    multiply: int
    post: int

    VCO = (600e6, 1200e6)

    @property
    def frequency(self) -> float:
        return self.source / self.divide * self.multiply / self.post

    @classmethod
    def near(cls, source: float, wanted: float) -> "XilinxPll":
        found = [
            cls(source, divide, multiply, post)
            for divide in range(1, 11)
            for multiply in range(2, 65)
            for post in range(1, 129)
            if cls.VCO[0] <= source / divide * multiply <= cls.VCO[1]
        ]
        return min(found, key=lambda pll: (abs(pll.frequency - wanted), pll.divide, -pll.multiply))

    def place(self, m: Module, source: Signal, out: Signal, locked: Signal) -> None:
        feedback = Signal(name="pll_feedback")
        unbuffered = Signal(name="pll_out")
        m.submodules.pll = Instance(
            "MMCME2_BASE",
            p_CLKIN1_PERIOD=1e9 / self.source,
            p_DIVCLK_DIVIDE=self.divide,
            p_CLKFBOUT_MULT_F=float(self.multiply),
            p_CLKOUT0_DIVIDE_F=float(self.post),
            i_CLKIN1=source,
            i_CLKFBIN=feedback,
            i_RST=Const(0),
            i_PWRDWN=Const(0),
            o_CLKFBOUT=feedback,
            o_CLKOUT0=unbuffered,
            o_LOCKED=locked,
        )
        m.submodules.pll_buffer = Instance("BUFG", i_I=unbuffered, o_O=out)


PLLS: dict[str, Any] = {"ecp5": Ecp5Pll, "ice40": Ice40Pll, "xc7": XilinxPll}
