"""Inputs for the host of a card, and what must come of them, by brute force."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from joinery.expr import evaluate
from joinery_gen.fjoin_host import (
    Arrivals,
    CardLayout,
    Device,
    Host,
    HostSettings,
    ModelDevice,
    PipelineInfo,
    Rows,
    Side,
    TaskReport,
    card_pair,
)
from joinery_gen.parse import parse
from joinery_gen.query import JoinQuery

__all__ = ["Case", "Tuple", "arrivals", "band_query", "make_tuples", "model_card", "run_host"]

KEYS = 8


def band_query(time_range: int, *, select: str = "r.k, s.v, r.v - s.v AS d") -> JoinQuery:
    """Return a band join over time windows of ``r`` and ``s``, both ``(k, v, time)``."""
    streams = "".join(f"CREATE STREAM {name} (k INT(4), v INT, time INT);\n" for name in ("r", "s"))
    windows = (f"{name} [RANGE {time_range} WATTR time]" for name in ("r", "s"))
    query = parse(
        f"{streams}SELECT {select} FROM {', '.join(windows)} WHERE abs(r.k - s.k) <= 1;\n",
        "band.cql",
    )
    assert isinstance(query.body, JoinQuery)
    return query.body


@dataclass(frozen=True)
class Tuple:
    """A tuple that arrives; ``v`` is its place among all."""

    side: Side
    source: int
    time: int
    k: int


def make_tuples(
    count: int,
    *,
    sources: tuple[int, int] = (1, 1),
    pace: float = 1.0,
    slack: int = 0,
    skew: int = 0,
    seed: int,
) -> list[Tuple]:
    """Return tuples whose times go on by ``1 / pace`` each, and back by ``slack`` at most.

    The clock of each source of a stream is ``skew`` behind that of the one before.
    """
    draw = random.Random(seed)
    tuples = []
    for place in range(count):
        side: Side = draw.choice(["left", "right"])
        source = draw.randrange(sources[side == "right"])
        time = int(place / pace) - draw.randint(0, slack) - skew * source
        tuples.append(Tuple(side, source, time, draw.randrange(-KEYS, KEYS)))
    return tuples


@dataclass
class Case:
    """An input: tuples, where it is cut into tasks, and after which tuples who signals what.

    ``signals`` is ``(after so many tuples, side, source, time)``.
    """

    query: JoinQuery
    time_range: int
    tuples: Sequence[Tuple]
    cuts: Sequence[int] = ()
    signals: Sequence[tuple[int, Side, int, int]] = ()
    settings: HostSettings = field(default_factory=HostSettings)

    def in_range(self) -> list[tuple[int, int]]:
        """The places of the left and the right tuple of each pair whose times are near."""
        places = {
            side: [n for n, each in enumerate(self.tuples) if each.side == side]
            for side in ("left", "right")
        }
        return [
            (left, right)
            for left in places["left"]
            for right in places["right"]
            if abs(self.tuples[left].time - self.tuples[right].time) <= self.time_range
        ]

    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of the result, in the order of the later tuple, then of the earlier one."""
        met = [
            (left, right)
            for left, right in self.in_range()
            if evaluate(
                self.query.predicate,
                {("r", "k"): self.tuples[left].k, ("s", "k"): self.tuples[right].k},
            )
        ]
        return sorted(met, key=lambda pair: (max(pair), min(pair)))

    def with_signals(self, every: int) -> "Case":
        """Return the case where all sources signal after every so many tuples.

        Each says the most that it can: the least time of the tuples that it still has.
        """
        signals: list[tuple[int, Side, int, int]] = []
        counts: dict[Side, int] = {
            "left": self.settings.sources_left,
            "right": self.settings.sources_right,
        }
        last = max((each.time for each in self.tuples), default=0)
        bound = {(side, source): last for side in counts for source in range(counts[side])}
        for after in range(len(self.tuples), 0, -1):
            if after % every == 0:
                signals += [(after, *who, time) for who, time in bound.items()]
            sent = self.tuples[after - 1]
            who = sent.side, sent.source
            bound[who] = min(bound[who], sent.time)
        return replace(self, signals=signals)


@dataclass
class Result:
    """What a host gave: pairs as places of the left and the right tuple, and the rows' columns."""

    pairs: list[tuple[int, int]] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    reports: list[TaskReport] = field(default_factory=list)
    kept: int = 0  # the most tuples that the host kept
    late: int = 0


def model_card(
    query: JoinQuery,
    pipelines: Sequence[PipelineInfo],
    *,
    id_bits: int = 32,
    time_bits: int = 32,
    word_bytes: int = 64,
    memory_bytes: int = 1 << 18,
    seed: int = 1,
) -> tuple[ModelDevice, CardLayout]:
    """Return a card of plain Python whose pipelines go at changing paces."""
    pair = card_pair(query)
    layout = CardLayout.of_pair(pair, id_bits=id_bits, time_bits=time_bits, word_bytes=word_bytes)
    draw = random.Random(seed)
    device = ModelDevice(
        pair, layout, pipelines, memory_bytes=memory_bytes, pace=lambda pipeline: draw.randrange(3)
    )
    return device, layout


def run_host(case: Case, device: Device, layout: CardLayout) -> Result:
    """Give a case to a host with this card."""
    result = Result()

    def emit(rows: Rows, report: TaskReport) -> None:
        assert report.rows == len(rows)
        result.pairs += zip(rows.left.tolist(), rows.right.tolist(), strict=True)
        columns = [rows.columns[output.name].tolist() for output in case.query.outputs]
        result.rows += zip(*columns, strict=True)
        result.reports.append(report)

    host = Host(case.query, device, layout, emit, case.settings)
    stops = sorted({0, len(case.tuples), *case.cuts, *(signal[0] for signal in case.signals)})
    for start, stop in zip(stops, [*stops[1:], len(case.tuples)], strict=True):
        for after, side, source, time in case.signals:
            if after == start:
                host.signal(side, source, time)
        if start in case.cuts:
            host.cut()
        host.add(arrivals(case.tuples[start:stop], start))
        stores = host.controller.stores.values()
        result.kept = max(result.kept, sum(store.end - store.first for store in stores))
    host.finish()
    result.late = sum(host.controller.late.values())
    return result


def arrivals(tuples: Sequence[Tuple], start: int) -> Arrivals:
    """Return tuples as the host takes them; the first one's place is ``start``."""
    sides: dict[Side, list[tuple[int, Tuple]]] = {"left": [], "right": []}
    for place, each in enumerate(tuples, start):
        sides[each.side].append((place, each))
    return Arrivals(
        np.array([each.side == "right" for each in tuples], bool),
        np.array([each.source for each in tuples], np.int64),
        np.array([each.time for each in tuples], np.int64),
        {
            side: {
                "k": np.array([each.k for _, each in mine], np.int64),
                "v": np.array([place for place, _ in mine], np.int64),
            }
            for side, mine in sides.items()
        },
    )
