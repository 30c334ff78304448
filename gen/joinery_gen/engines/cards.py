# amaranth: UnusedElaboratable=no
# (a card that is only asked what it would be is never built)
"""The engines that join two streams on a card with a host: `fjoin`, and its baseline."""

from typing import Any

from joinery.axi import Identity
from joinery.fjoin import FJoinCard

from ..fjoin_host.layout import card_pair, time_windows
from ..query import JoinQuery, Query
from .model import Engine, Form, Parameter, Plan

__all__ = ["ENGINES"]

SPARE = 2
"""Bits of a time beyond those of the range: its sign, and room for tuples out of order."""


def _join(query: Query) -> JoinQuery:
    assert isinstance(query.body, JoinQuery), "the form has been checked"
    return query.body


def _time_bits(query: Query) -> int:
    """As many as the range needs, and 32 at least."""
    return max(32, time_windows(_join(query))[0].range.bit_length() + SPARE)


PAPER = {
    "units_left": Parameter("number", 64, "join units that hold tuples of the first stream"),
    "units_right": Parameter("number", 64, "join units that hold tuples of the second stream"),
    "id_bits": Parameter("number", 32, "bits of a tuple's number on the card, 32 at most"),
    "time_bits": Parameter("number", _time_bits, "bits of a tuple's time on the card"),
    "ops_per_stage": Parameter("number", 2, "operators between two registers of the predicate"),
    "word_bytes": Parameter("number", 64, "bytes of a word of the card's memory"),
    "address_bits": Parameter("number", 40, "bits of an address in the card's memory"),
    "burst": Parameter("number", 64, "words that are asked of memory at once"),
}
FJOIN = {
    "lanes": Parameter("number", 1, "results per cycle of each pipeline: 1, 2 or 4"),
    "cluster": Parameter("number", 16, "join units that share a window register"),
    **PAPER,
}


def _card(plan: Plan, *, paper: bool, **more: Any) -> FJoinCard:
    settings: dict[str, Any] = dict(plan.parameters)
    pipelines = [(side, settings.pop(f"units_{side}")) for side in ("left", "right")]
    pair = card_pair(_join(plan.query))
    return FJoinCard(pair, pipelines=pipelines, paper=paper, **settings, **more)


def _engine(parameters: dict[str, Parameter], *, paper: bool) -> Engine:
    def build(plan: Plan) -> FJoinCard:
        return _card(plan, paper=paper)

    def shell(plan: Plan, _: FJoinCard, identity: Identity) -> FJoinCard:
        return _card(plan, paper=paper, identity=identity)

    return Engine((Form.TIME_JOIN,), build, shell, parameters, host=True)


ENGINES = {"fjoin": _engine(FJOIN, paper=False), "fjoin_paper": _engine(PAPER, paper=True)}
