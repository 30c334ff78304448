"""A query's data through a card and its host, told as a replay is."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joinery_gen.cycles import predict_card_cycles
from joinery_gen.fjoin_host import (
    CardLayout,
    Device,
    FeedSettings,
    HostSettings,
    ModelDevice,
    PipelineInfo,
    Progress,
    RunReport,
    card_pair,
    run_prepared,
)
from joinery_gen.query import JoineryError, JoinQuery, Query

from ..build import tool_versions
from ..design import Design
from ..replay import ReplayReport, SimReport, join_halves
from ..toolchain import version
from .device import SimulatedCard

__all__ = ["CardReport", "OpenCard", "check_card_simulator", "open_card", "open_model", "run_card"]

SIMULATOR = "verilator"
INWARDS, OUTWARDS = ("ar", "r"), ("aw", "w", "b")
"""The channels that pause where the input does, and those that pause where results do."""


@dataclass(frozen=True)
class OpenCard:
    """A card, the records in its memory, and what its ``top.json`` says."""

    device: Device
    layout: CardLayout
    top: Mapping[str, Any]


@dataclass(frozen=True)
class CardReport(SimReport):
    """A simulation of a card, and what its host has to tell.

    ``predicted_cycles`` are those of the model without stalls, for the tasks that the host made.
    """

    run: RunReport
    predicted_cycles: int

    def as_dict(self) -> dict[str, Any]:
        told = {"predicted_cycles": self.predicted_cycles, "run": self.run.as_dict()}
        return {**super().as_dict(), **told}


def check_card_simulator(sim: str) -> None:
    """Refuse a simulator that has no memory for a card."""
    if sim != SIMULATOR:
        raise JoineryError(
            f"A card runs in {SIMULATOR} only, where its memory is; leave out --sim {sim}"
        )


@contextmanager
def open_card(
    design: Design, *, stall_in: float = 0.0, stall_out: float = 0.0, seed: int = 1
) -> Iterator[OpenCard]:
    """Lend the card that ``joinery gen`` wrote, as it is now."""
    stalls = dict.fromkeys(INWARDS, stall_in) | dict.fromkeys(OUTWARDS, stall_out)
    with SimulatedCard(design, stalls=stalls, seed=seed) as device:
        yield OpenCard(device, CardLayout.from_dict(design.top["records"]), design.top)


def open_model(query: Query, top: Mapping[str, Any]) -> OpenCard:
    """Return the card that ``top`` describes, as a model in plain Python."""
    layout = CardLayout.from_dict(top["records"])
    pipelines = [PipelineInfo(**each) for each in top["pipelines"]]
    assert isinstance(query.body, JoinQuery)
    return OpenCard(ModelDevice(card_pair(query.body), layout, pipelines), layout, top)


def run_card(
    query: Query,
    card: OpenCard,
    prepared: Path,
    out: Path | None,
    *,
    feed: FeedSettings | None = None,
    host: HostSettings | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> CardReport:
    """Join prepared tuples on a card and write the rows to ``out``, if that is given.

    What the simulation found in the registers counts for the whole run only where they do so
    themselves: those of a pipeline begin anew with each task.
    """
    simulated = isinstance(card.device, SimulatedCard)
    sim = SIMULATOR if simulated else "model"
    facts = {
        "engine": card.top["engine"],
        "parameters": card.top["parameters"],
        "versions": {**card.top["versions"], **(tool_versions(sim) if simulated else {})},
        "simulator": sim,
    }
    started = time.perf_counter()
    run = run_prepared(
        query, prepared, out, card.device, card.layout,
        feed=feed, settings=host, facts=facts, watch=watch,
    )  # fmt: skip
    registers = {"late": sum(run.late.values()), "errors": 0}
    if isinstance(card.device, SimulatedCard):
        registers |= join_halves(card.device.registers)
    replay = ReplayReport(
        simulator=sim,
        version=version(sim) if simulated else "",
        cycles=run.cycles,
        beats=run.tuples_in,
        refused=0,
        results=run.rows,
        stalls_in=0,
        stalls_out=0,
        seconds=time.perf_counter() - started,
        registers=registers,
    )
    predicted = predict_card_cycles(card.top, run.pipelines)
    refused = dict.fromkeys(run.tuples, 0)
    return CardReport(out or Path(), run.tuples, refused, run.rows, replay, run, predicted)
