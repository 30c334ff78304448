"""Joins in plain Python, straight from their definition, and what benches feed to join engines."""

from collections.abc import Sequence
from typing import Any

from joinery.expr import evaluate
from joinery.join import JoinPair

__all__ = ["Arrival", "arrivals_to_transfers", "join_rows", "transfer_payload"]

Arrival = tuple[str, dict[str, int]]
"""``"left"`` or ``"right"``, and the raw values of the tuple's columns."""

Transfer = tuple[dict[str, int] | None, dict[str, int] | None]


def join_rows(
    pair: JoinPair, arrivals: Sequence[Arrival], rows_left: int, rows_right: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Kang's three steps: compare with the other window, then take the own one's oldest row out
    and put the new one in. Returns the kept columns of each pair."""
    windows: dict[str, list[dict[str, int]]] = {"left": [], "right": []}
    sizes = {"left": rows_left, "right": rows_right}
    found = []
    for side, row in arrivals:
        for other in windows["right" if side == "left" else "left"]:
            left, right = (row, other) if side == "left" else (other, row)
            values = {(pair.names[0], name): value for name, value in left.items()}
            values |= {(pair.names[1], name): value for name, value in right.items()}
            if evaluate(pair.predicate, values):
                found.append(
                    (
                        tuple(left[name] for name in pair.left.names if name in pair.keep_left),
                        tuple(right[name] for name in pair.right.names if name in pair.keep_right),
                    )
                )
        windows[side] = [*windows[side], row][-sizes[side] :]
    return found


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
