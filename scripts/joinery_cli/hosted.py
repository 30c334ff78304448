"""Designs that run by themselves, and those that need a host: one way to simulate them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from joinery_gen.fjoin_host import FeedSettings, HostSettings
    from joinery_gen.query import Query
    from joinery_tb.design import Design
    from joinery_tb.replay import SimReport

__all__ = ["HostOptions", "check_design_simulator", "has_host", "simulate_design"]

Made = TypeVar("Made", bound="FeedSettings | HostSettings")


@dataclass(frozen=True)
class HostOptions:
    """How tuples arrive at a host, and what is set of it; ``rest`` is for the hardware."""

    feed: "FeedSettings"
    host: "HostSettings"
    rest: dict[str, int | str]

    @staticmethod
    def take(settings: Mapping[str, int | str]) -> "HostOptions":
        from joinery_gen.fjoin_host import FeedSettings, HostSettings

        rest = dict(settings)
        return HostOptions(_take(FeedSettings, rest), _take(HostSettings, rest), rest)


def _take(kind: type[Made], settings: dict[str, int | str]) -> Made:
    """Make a dataclass of those settings that are its own, and leave the others."""
    names = {each.name for each in fields(kind)} - {"sources_left", "sources_right"}
    mine = {name: _whole(name, settings.pop(name)) for name in names & settings.keys()}
    return kind(**mine)


def _whole(name: str, value: int | str) -> int:
    from joinery_gen.query import JoineryError

    if not isinstance(value, int):
        raise JoineryError(f"{name} must be a whole number, not {value!r}")
    return value


def has_host(engine: str) -> bool:
    """Does this engine need a host?"""
    from joinery_gen.engines import ENGINES

    return ENGINES[engine].host


def check_design_simulator(engine: str, sim: str) -> None:
    """Refuse a simulator that is not there, or cannot run designs of this engine."""
    from joinery_tb.card import check_card_simulator
    from joinery_tb.toolchain import check_simulator

    check_simulator(sim)
    if has_host(engine):
        check_card_simulator(sim)


def simulate_design(
    query: "Query",
    design: "Design",
    prepared: Path,
    out: Path,
    *,
    options: HostOptions,
    stall_in: float,
    stall_out: float,
    seed: int,
    **streamed: Any,
) -> "SimReport":
    """Run prepared tuples through a design, with its host where it needs one.

    ``streamed`` is what `joinery_tb.replay.simulate` takes of a design that needs none.
    """
    from joinery_tb.card import open_card, run_card
    from joinery_tb.replay import simulate

    stalls: dict[str, Any] = {"stall_in": stall_in, "stall_out": stall_out, "seed": seed}
    if not has_host(design.top["engine"]):
        return simulate(design.directory, prepared, out, **streamed, **stalls)
    with open_card(design, **stalls) as card:
        return run_card(query, card, prepared, out, feed=options.feed, host=options.host)
