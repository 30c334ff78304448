"""Between the sequencer and the cores, where there are more of them than one register reaches."""

import math
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..join import JoinPair, split_rows
from .segment import slot_layout

__all__ = ["Relay", "groups_of", "orders_layout"]

REACH = 4
"""So many cores lie close enough around a register that tells them what to do."""


def groups_of(cores: int) -> list[range]:
    """Return which cores share a relay, neighbours in the chain; none where all are in reach.

    Where cores are very many, there are about as many groups as cores in each.
    """
    if cores <= REACH:
        return []
    most = max(REACH, math.isqrt(cores - 1) + 1)
    sizes = split_rows(cores, -(-cores // most))
    ends = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    return [range(ends[k], ends[k + 1]) for k in range(len(sizes))]


def orders_layout(pair: JoinPair, *, cores: int, span: int, rows: bool) -> data.StructLayout:
    """What so many cores are told: all the same, but for a bit each to shift.

    With ``rows``, which a broadcast needs, also the rows to shift in and to compare.
    """
    left, right = slot_layout(pair.left.layout), slot_layout(pair.right.layout)
    told: dict[str, Any] = {
        "clear": 1,
        "scan_left": 1,
        "scan_right": 1,
        "index": range(span),
        "shift_left": cores,
        "shift_right": cores,
    }
    if rows:
        told |= {"left": left, "right": right, "probe_left": left, "probe_right": right}
    return data.StructLayout(told)


class Relay(wiring.Component):
    """Pass on what some of the cores are told, and whether any of them is busy.

    Latency: 1 cycle, both ways.

    Parameters
    ----------
    orders : data.StructLayout
    cores : int

    Members
    -------
    i, o : In, Out(orders)
    i_busy : In(cores)
    o_busy : Out(1)
    """

    i: Any
    o: Any
    i_busy: Signal
    o_busy: Signal

    def __init__(self, orders: data.StructLayout, *, cores: int) -> None:
        super().__init__({"i": In(orders), "o": Out(orders), "i_busy": In(cores), "o_busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += [self.o.eq(self.i), self.o_busy.eq(self.i_busy.any())]
        return m
