"""Settings that are changed in a finished design: what to write, and what the query is then."""

from collections.abc import Mapping
from typing import Any

from .engines import ENGINES
from .query import JoineryError, Query

__all__ = ["change"]

WORD = 32


def change(
    query: Query, top: Mapping[str, Any], values: Mapping[str, int]
) -> tuple[Query, list[tuple[str, int]]]:
    """Return the query that a design runs with ``values``, and the register writes that it takes.

    ``top`` is the ``top.json`` of the design of ``query``, which lists its ``settings``: ``slack``,
    ``range`` and ``slide``, and each constant of WHERE, as ``where_0_2`` for the third of the first
    SELECT. Where there are several SELECTs, their numbers from 0 on follow, as in ``range_1``.
    Values are raw: in units of the time column, and without the point of decimals.
    """
    if not values:
        return query, []
    known = {each["name"]: each for each in top.get("settings", ())}
    for name, value in values.items():
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none; try --set runtime=1"
            raise JoineryError(f"The design has no setting {name!r}; {has}")
        if not known[name]["low"] <= value <= known[name]["high"]:
            raise JoineryError(
                f"Setting {name} is built for {known[name]['low']} to {known[name]['high']}, "
                f"not {value}"
            )
    writes = [
        (register, value >> WORD * part & (1 << WORD) - 1)
        for name, value in values.items()
        for part, register in enumerate(known[name]["registers"])
    ]
    changed = ENGINES[top["engine"]].changed
    assert changed is not None, "its designs have settings"
    return changed(query, values), [*writes, ("apply", 1)]
