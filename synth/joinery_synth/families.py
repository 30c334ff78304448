"""The FPGA families that designs are mapped to, and what their cells count as."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FAMILIES", "Family"]


@dataclass(frozen=True)
class Family:
    """How Yosys maps to a family of chips.

    ``weights`` has, for each resource, patterns of cell types and how much of it a cell takes; the
    first pattern that matches counts. A cell may take several resources, and most take none.
    ``inputs`` are those of its look-up tables.
    """

    name: str
    what: str
    inputs: int
    synth: str
    weights: Mapping[str, Mapping[str, float]] = field(repr=False)
    bram_kbit: int

    def count(self, cells: Mapping[str, int]) -> dict[str, float]:
        """Turn numbers of cells into resources."""
        return {
            resource: sum(self._weight(kind, patterns) * n for kind, n in cells.items())
            for resource, patterns in self.weights.items()
        }

    @staticmethod
    def _weight(kind: str, patterns: Mapping[str, float]) -> float:
        for pattern, weight in patterns.items():
            if re.fullmatch(pattern, kind):
                return weight
        return 0


XILINX_LUT = {
    "INV|LUT[1-6]": 1,
    # Look-up tables that each memory primitive takes.
    "RAM32X1D|RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8, "RAM32M|RAM64M": 4,
    "RAM32M16|RAM64M8|RAM32X16DR8|RAM64X8SW": 8, "RAM32X1S|RAM64X1S": 1, "RAM128X1S": 2,
    "RAM256X1S": 4, "RAM512X1S": 8, "SRL16E|SRLC32E": 1,
}  # fmt: skip
XILINX_FF = {"FD[RSCP]E(_1)?": 1}


def _xilinx(name: str, what: str, bram: Mapping[str, float]) -> Family:
    return Family(
        name,
        what,
        inputs=6,
        synth=f"synth_xilinx -family {name} -flatten -noiopad",
        weights={
            "lut": XILINX_LUT,
            "ff": XILINX_FF,
            "bram": bram,
            "dsp": {"DSP48E[12]": 1},
            "carry": {"CARRY[48]": 1},
        },
        bram_kbit=36,
    )


FAMILIES = {
    family.name: family
    for family in (
        _xilinx("xc7", "Xilinx 7 series", {"RAMB18E1": 0.5, "RAMB36E1": 1}),
        _xilinx("xcup", "Xilinx UltraScale+", {"RAMB18E2": 0.5, "RAMB36E2": 1}),
        Family(
            "ecp5",
            "Lattice ECP5",
            inputs=4,
            synth="synth_ecp5",
            weights={
                # A carry cell sits in two look-up tables; a 16x4 memory in four, with two more for
                # its write port.
                "lut": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6},
                "ff": {"TRELLIS_FF": 1},
                "bram": {"DP16KD|PDPW16KD": 1},
                "dsp": {"MULT18X18D|ALU54B": 1},
                "carry": {"CCU2C": 1},
            },
            bram_kbit=18,
        ),
        Family(
            "ice40",
            "Lattice iCE40",
            inputs=4,
            synth="synth_ice40 -dsp",
            weights={
                "lut": {"SB_LUT4": 1},
                "ff": {"SB_DFF.*": 1},
                "bram": {"SB_RAM40_4K.*": 1},
                "dsp": {"SB_MAC16": 1},
                "carry": {"SB_CARRY": 1},
            },
            bram_kbit=4,
        ),
        Family(
            "gowin",
            "Gowin GW2A",
            inputs=4,
            synth="synth_gowin -family gw2a -noiopads",
            weights={
                "lut": {"INV|LUT[1-4]": 1, "ALU": 1, "RAM16S4|RAM16SDP4": 4, "RAM16SDP2": 2,
                        "RAM16SDP1": 1},
                "ff": {"DFF.*": 1},
                "bram": {"SP|SPX9|SDP|SDPX9|SDPB|SDPX9B|DP|DPX9|DPB|DPX9B": 1},
                "dsp": {"MULT9X9|MULT18X18|MULT36X36|MULTADDALU18X18|MULTALU36X18": 1},
                "carry": {"ALU": 1},
            },
            bram_kbit=18,
        ),
    )
}  # fmt: skip
