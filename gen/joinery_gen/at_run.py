"""Settings that are changed in a finished design: what to write, and what the query is then."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .query import AggregateQuery, JoineryError, Query, SlidingWindow, share_panes

__all__ = ["change"]


def change(
    query: Query, top: Mapping[str, Any], values: Mapping[str, int]
) -> tuple[Query, list[tuple[str, int]]]:
    """Return the query that a design runs with ``values``, and the register writes that it takes.

    ``top`` is the ``top.json`` of the design of ``query``. Names are those of its ``settings``:
    ``slack``, and ``range`` and ``slide``, with the number of the SELECT from 0 on where there are
    several, as in ``range_1``.
    """
    if not values:
        return query, []
    known = {each["name"]: each for each in top.get("settings", ())}
    for name, value in values.items():
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none; build it with runtime=1"
            raise JoineryError(f"The design has no setting {name!r}; {has}")
        if not known[name]["low"] <= value <= known[name]["high"]:
            raise JoineryError(
                f"Setting {name} is built for {known[name]['low']} to {known[name]['high']}, "
                f"not {value}"
            )
    writes = [
        (register, value >> 32 * part & 0xFFFFFFFF)
        for name, value in values.items()
        for part, register in enumerate(known[name]["registers"])
    ]
    bodies = [
        _changed(body, values, f"_{number}" if query.more else "")
        for number, body in enumerate([query.body, *query.more])
    ]
    if query.more:
        bodies = list(share_panes(bodies))
    return replace(query, body=bodies[0], more=tuple(bodies[1:])), [*writes, ("apply", 1)]


def _changed(body: Any, values: Mapping[str, int], suffix: str) -> AggregateQuery:
    window = body.source.window
    assert isinstance(window, SlidingWindow), "no other window has settings"
    changed = replace(
        window,
        range=values.get(f"range{suffix}", window.range),
        slide=values.get(f"slide{suffix}", window.slide),
        slack=values.get("slack", window.slack),
    )
    made: AggregateQuery = replace(body, source=replace(body.source, window=changed))
    return made
