"""When one side of a stream pauses, told the same way to every driver."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from joinery_gen.query import JoineryError

__all__ = ["STALLS", "Stall", "StallNumbers", "pauses", "stall_numbers"]

Stall = float | Sequence[bool]
"""A probability of pausing per cycle, or a pattern of pauses to repeat."""

STALLS: dict[str, Stall] = {"none": 0.0, "periodic": (False, False, True), "random": 0.5}
"""The stalls that every generated design is tested under, on both sides."""

LONGEST_PATTERN = 64


def pauses(stall: Stall, seed: int) -> Iterator[bool]:
    """Yield for each cycle whether to pause in it, without end."""
    if isinstance(stall, float | int):
        rng = random.Random(seed)
        while True:
            yield rng.random() < stall
    while True:
        yield from stall


class StallNumbers(NamedTuple):
    """A stall as the replay harnesses read it.

    A cycle pauses with probability ``chance / 256``, and where bit ``cycle % period`` of ``mask``
    is set.
    """

    chance: int
    mask: int
    period: int


def stall_numbers(stall: Stall) -> StallNumbers:
    """Return ``stall`` for the replay harnesses; a probability is rounded to 1/256, never to 1."""
    if isinstance(stall, float | int):
        if not 0 <= stall < 1:
            raise JoineryError(f"A stall probability is at least 0 and less than 1, not {stall}")
        return StallNumbers(min(round(stall * 256), 255), 0, 1)
    if not 1 <= len(stall) <= LONGEST_PATTERN or all(stall):
        raise JoineryError(
            f"A stall pattern has 1 to {LONGEST_PATTERN} cycles and lets at least one of them pass"
        )
    mask = sum(1 << cycle for cycle, pause in enumerate(stall) if pause)
    return StallNumbers(0, mask, len(stall))
