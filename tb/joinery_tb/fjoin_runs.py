"""Batches for join pipelines, what they must give by definition, and how to run them."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from joinery.expr import evaluate
from joinery.fjoin import PipelineShape

from .simulate import Run, run_stream

__all__ = ["Batch", "Outcome", "Row", "expected", "random_batches", "run_batches"]

Row = dict[str, int]
"""A tuple: ``id``, ``time``, and the columns of the predicate."""


class Batch(NamedTuple):
    """Stream tuples and the window that flows past them."""

    stream: Sequence[Row]
    window: Sequence[Row]


class Outcome(NamedTuple):
    """What left a pipeline: the pairs of ids of each batch, and how many pairs it left out."""

    pairs: list["Counter[tuple[int, int]]"]
    wrong_order: int
    out_of_range: int


def expected(shape: PipelineShape, batches: Sequence[Batch], time_range: int) -> Outcome:
    """Every pair of each batch, tested one by one."""
    found = Outcome([], 0, 0)
    wrong_order = out_of_range = 0
    for batch in batches:
        pairs: Counter[tuple[int, int]] = Counter()
        for stream in batch.stream:
            for window in batch.window:
                if not evaluate(shape.pair.predicate, _operands(shape, stream, window)):
                    continue
                ahead = (stream["id"] - window["id"]) % (1 << shape.id_bits)
                if not 0 < ahead < 1 << (shape.id_bits - 1):
                    wrong_order += 1
                elif _apart(stream["time"] - window["time"], shape.time_bits) > time_range:
                    out_of_range += 1
                else:
                    pairs[stream["id"], window["id"]] += 1
        found.pairs.append(pairs)
    return Outcome(found.pairs, wrong_order, out_of_range)


def _apart(difference: int, bits: int) -> int:
    """How far apart times are that wrap."""
    return min(difference % (1 << bits), -difference % (1 << bits))


def _operands(shape: PipelineShape, stream: Row, window: Row) -> dict[tuple[str, str], int]:
    return {
        (shape.source(role), name): row[name]
        for role, row in (("stream", stream), ("window", window))
        for name in shape.columns(role).names
    }


def run_batches(
    pipeline: Any,
    batches: Sequence[Batch],
    *,
    time_range: int,
    watch: Callable[[Any], None] | None = None,
    **stalls: Any,
) -> tuple[Outcome, Run]:
    """Send ``batches`` through a pipeline in Amaranth's simulator."""
    shape = pipeline.shape
    counts = {"wrong_order": 0, "out_of_range": 0}

    def look(ctx: Any) -> None:
        ctx.set(pipeline.time_range, time_range)
        for name in counts:
            counts[name] += ctx.get(getattr(pipeline, name))
        if watch is not None:
            watch(ctx)

    inputs: dict[str, list[Any]] = {"i_stream": [], "i_window": []}
    for batch in batches:
        for role in ("stream", "window"):
            inputs[f"i_{role}"] += [
                *({"end": 0, "tuple": _record(shape, role, row)} for row in getattr(batch, role)),
                {"end": 1},
            ]
    # Pairs that are left out keep the output quiet for as long as they are many.
    quiet = max(len(batch.stream) * len(batch.window) for batch in batches)
    run = run_stream(pipeline, inputs, watch=look, idle=40 + quiet, **stalls)
    found: list[Counter[tuple[int, int]]] = [Counter()]
    for transfer in run.outputs["o"]:
        matches = [lane["match"] for lane in transfer["lanes"] if lane["valid"]]
        assert bool(matches) != bool(transfer["end"]), "a transfer has matches or is the end"
        found[-1].update((match["stream"], match["window"]) for match in matches)
        if transfer["end"]:
            found.append(Counter())
    assert not found.pop(), "matches after the last end"
    return Outcome(found, counts["wrong_order"], counts["out_of_range"]), run


def _record(shape: PipelineShape, role: str, row: Row) -> dict[str, Any]:
    columns = {name: row[name] for name in shape.columns(role).names}
    return {"id": row["id"], "time": row["time"], "columns": columns}


def random_batches(
    shape: PipelineShape,
    sizes: Sequence[tuple[int, int]],
    *,
    rng: random.Random,
    value: Callable[[str, str], int],
    first_id: int = 0,
    disorder: int = 0,
) -> list[Batch]:
    """Batches of the given sizes (stream and window tuples) with ids in order of arrival.

    The tuples of a batch and its window arrive mixed; ``value(role, column)`` gives each value.
    ``disorder`` bounds how far a time may be from the order of the ids.
    """
    batches = []
    clock = first_id
    for count, window in sizes:
        roles = ["stream"] * count + ["window"] * window
        rng.shuffle(roles)
        rows: dict[str, list[Row]] = {"stream": [], "window": []}
        for role in roles:
            clock += 1
            row = {"id": clock % (1 << shape.id_bits), "time": clock + rng.randint(0, disorder)}
            row["time"] %= 1 << shape.time_bits
            row |= {name: value(role, name) for name in shape.columns(role).names}
            rows[role].append(row)
        batches.append(Batch(rows["stream"], rows["window"]))
    return batches
