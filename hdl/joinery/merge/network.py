"""What every merging network has in common: its interface, and the checks of its options."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream._check import require_positive

__all__ = ["FAN_INS", "LANES", "MergingNetwork", "check_fan_in"]

LANES = (1, 2, 4)
FAN_INS = range(2, 9)


class MergingNetwork(wiring.Component):
    """Bring the results of many cores to ``lanes`` outputs.

    What goes in comes out once, in one of the lanes, whatever the stalls on either side; no
    ``o[k].valid`` waits for a ``ready``.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a result.
    inputs : int
        Number of cores.
    lanes : 1, 2 or 4
        Number of outputs; at most ``inputs``.

    Attributes
    ----------
    rows : int
        Transfers that the network can hold, in buffers and in single registers.
    fan_in : int
        Most inputs of a merger.
    depths : tuple of int
        Places behind the mergers of each level of the trees, the leaves' level first.
    key : tuple
        Everything that the network's logic depends on, beside its class.

    Members
    -------
    i : In(stream.Signature(shape)).array(inputs)
    o : Out(stream.Signature(shape)).array(lanes)
    busy : Out(1)
        High while a transfer is inside; depends on registers alone.
    """

    i: Sequence[stream.Interface]
    o: Sequence[stream.Interface]
    busy: Signal

    rows: int
    fan_in: int
    depths: tuple[int, ...]
    key: tuple[Any, ...]

    def __init__(self, shape: ShapeLike, *, inputs: int, lanes: int = 1) -> None:
        require_positive("Merging network inputs", inputs)
        if isinstance(lanes, bool) or lanes not in LANES:
            raise ValueError(f"Lanes must be 1, 2 or 4, not {lanes!r}")
        if lanes > inputs:
            raise ValueError(
                f"A merging network has at most as many lanes as inputs, {inputs}, not {lanes}"
            )
        self.shape = shape
        self.inputs = inputs
        self.lanes = lanes
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(inputs),
                "o": Out(stream.Signature(shape)).array(lanes),
                "busy": Out(1),
            }
        )

    def inputs_of(self, lane: int) -> range:
        """Return the inputs, or what stands for each, that lead to ``lane``: dealt in turn."""
        return range(lane, self.inputs, self.lanes)


def check_fan_in(fan_in: object) -> None:
    """Raise ``ValueError`` unless a merger may have ``fan_in`` inputs."""
    if not isinstance(fan_in, int) or isinstance(fan_in, bool) or fan_in not in FAN_INS:
        raise ValueError(f"Fan-in must be 2 to 8, not {fan_in!r}")
