"""Run a join engine in Amaranth's simulator, and see all that it says."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from joinery.handshake import HandshakeJoin

from .joins import Arrival, arrivals_to_transfers, transfer_payload
from .simulate import Stall, run_stream

__all__ = ["Outcome", "run"]

Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""The kept columns of the left row and of the right row."""


class Outcome(NamedTuple):
    """The results of each input, and what the engine said beside them."""

    results: list[Counter[Pair]]
    cycles: int
    refused: list[bool]
    dropped: int
    errors: int
    stalled: int


def run(
    engine: HandshakeJoin,
    runs: Sequence[Sequence[Arrival]],
    *,
    stall_in: Stall = 0.0,
    stall_out: Stall = 0.0,
    together: bool = True,
    seed: int = 0,
    rate: float = 1.0,
) -> Outcome:
    """Send several inputs into ``engine``, one after the other.

    ``together`` puts a left tuple and the right one after it into one transfer; ``rate`` is the
    speed of a second clock, if the engine has one.
    """
    payloads = []
    for arrivals in runs:
        transfers = [*arrivals_to_transfers(arrivals, together=together), None]
        payloads += [transfer_payload(engine.pair, transfer) for transfer in transfers]
    refused: list[bool] = []
    seen: Counter[str] = Counter()

    def watch(ctx: Any) -> None:
        if ctx.get(engine.decided):
            refused.append(bool(ctx.get(engine.refused)))
        seen["dropped"] += ctx.get(engine.dropped)
        seen["errors"] |= ctx.get(engine.errors)
        seen["stalled"] += ctx.get(engine.stalled)

    outputs, cycles = run_stream(
        engine, {"i": payloads}, stall_in=stall_in, stall_out=stall_out, seed=seed, watch=watch,
        clocks=dict.fromkeys(engine.domains[1:], rate),
        idle=engine.end_cycles + engine.left_cycles + engine.right_cycles + 150,
    )  # fmt: skip
    results: list[Counter[Pair]] = []
    found: list[Pair] = []
    for result in outputs["o"]:
        matches = [lane["match"] for lane in result["lanes"] if lane["valid"]]
        if result["end"]:
            assert not matches, "the end has a match"
            results.append(Counter(found))
            found = []
        else:
            assert matches, "a transfer without a match"
            found += [(tuple(m["left"].values()), tuple(m["right"].values())) for m in matches]
    assert not found, "results after the last end"
    return Outcome(results, cycles, refused, seen["dropped"], seen["errors"], seen["stalled"])
