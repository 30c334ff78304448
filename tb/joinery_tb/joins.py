"""Joins in plain Python, straight from their definition, and what benches feed to join engines."""

from collections.abc import Sequence
from typing import Any

from joinery.expr import evaluate
from joinery.join import JoinPair
from joinery.tuples import Schema

__all__ = [
    "Arrival",
    "arrivals_to_transfers",
    "join_pairs",
    "join_rows",
    "pair_values",
    "transfer_payload",
]

Arrival = tuple[str, dict[str, int]]
"""``"left"`` or ``"right"``, and the raw values of the tuple's columns."""

Transfer = tuple[dict[str, int] | None, dict[str, int] | None]


def join_pairs(
    pair: JoinPair, arrivals: Sequence[Arrival], rows_left: int, rows_right: int
) -> list[tuple[int, int]]:
    """Kang's three steps: compare with the other window, then take the own one's oldest row out
    and put the new one in. Returns the positions of each pair in ``arrivals``, the left one's
    first."""
    windows: dict[str, list[int]] = {"left": [], "right": []}
    sizes = {"left": rows_left, "right": rows_right}
    found = []
    for position, (side, _) in enumerate(arrivals):
        for other in windows["right" if side == "left" else "left"]:
            left, right = (position, other) if side == "left" else (other, position)
            if evaluate(pair.predicate, pair_values(pair.names, arrivals, left, right)):
                found.append((left, right))
        windows[side] = [*windows[side], position][-sizes[side] :]
    return found


def pair_values(
    names: tuple[str, str], arrivals: Sequence[Arrival], left: int, right: int
) -> dict[tuple[str, str], int]:
    """Return the columns of the tuples at two positions as ``evaluate`` takes them."""
    return {
        (source, name): value
        for source, position in zip(names, (left, right), strict=True)
        for name, value in arrivals[position][1].items()
    }


def join_rows(
    pair: JoinPair, arrivals: Sequence[Arrival], rows_left: int, rows_right: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the kept columns of each pair that ``join_pairs`` finds."""

    def kept(position: int, schema: Schema, columns: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(arrivals[position][1][name] for name in schema.names if name in columns)

    return [
        (kept(left, pair.left, pair.keep_left), kept(right, pair.right, pair.keep_right))
        for left, right in join_pairs(pair, arrivals, rows_left, rows_right)
    ]


def arrivals_to_transfers(arrivals: Sequence[Arrival], *, together: bool = True) -> list[Transfer]:
    """Put a left tuple and the right one that follows it into one transfer, if ``together``."""
    transfers: list[Transfer] = []
    for side, row in arrivals:
        if side == "left":
            transfers.append((row, None))
        elif together and transfers and transfers[-1][1] is None:
            transfers[-1] = (transfers[-1][0], row)
        else:
            transfers.append((None, row))
    return transfers


def transfer_payload(pair: JoinPair, transfer: Transfer | None) -> dict[str, Any]:
    """Return the payload of a transfer; None is the end of the input."""
    left, right = transfer or (None, None)
    return {
        "end": int(transfer is None),
        "has_left": int(left is not None),
        "has_right": int(right is not None),
        "left": left or dict.fromkeys(pair.left.names, 0),
        "right": right or dict.fromkeys(pair.right.names, 0),
    }
