# amaranth: UnusedElaboratable=no
# (a card that is only asked what it would be is never built)
"""The engines that join two streams on a card with a host: `fjoin`, and its baseline."""

from typing import Any

from joinery.axi import Identity
from joinery.fjoin import FJoinCard, OnChipCard

from ..fjoin_host.layout import CardLayout, card_pair, time_windows
from ..query import JoinQuery, Query
from .model import Engine, Form, Parameter, Plan, Setting

__all__ = ["ENGINES"]

WIDEST = 128
"""Bytes of the widest word that a card's memory has."""

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
    "memory_kib": Parameter("number", 0, "KiB of block RAM for the card; 0: memory lies outside"),
}
FJOIN = {
    "lanes": Parameter("number", 1, "results per cycle of each pipeline: 1, 2 or 4"),
    "cluster": Parameter("number", 16, "join units that share a window register"),
    **PAPER,
}


def _on_board(query: Query) -> dict[str, Setting]:
    """A card that a chip of 80,000 look-up tables has room for, in words that a tuple fills."""
    pair = card_pair(_join(query))
    layout = CardLayout.of_pair(pair, time_bits=_time_bits(query), word_bytes=WIDEST)
    stride = max(layout.left.stride, layout.right.stride, layout.result.stride)
    return {
        "units_left": 32,
        "units_right": 32,
        "word_bytes": 1 << (stride - 1).bit_length(),
        "address_bits": 20,
        "burst": 16,
        "memory_kib": 128,
    }


def _card(plan: Plan, *, paper: bool, **more: Any) -> FJoinCard | OnChipCard:
    settings: dict[str, Any] = dict(plan.parameters)
    pipelines = [(side, settings.pop(f"units_{side}")) for side in ("left", "right")]
    memory = settings.pop("memory_kib") * 1024
    pair = card_pair(_join(plan.query))
    card = FJoinCard(pair, pipelines=pipelines, paper=paper, **settings, **more)
    return OnChipCard(card, memory_bytes=memory) if memory else card


def _engine(parameters: dict[str, Parameter], *, paper: bool) -> Engine:
    def build(plan: Plan) -> FJoinCard | OnChipCard:
        return _card(plan, paper=paper)

    def shell(plan: Plan, _: FJoinCard, identity: Identity) -> FJoinCard | OnChipCard:
        return _card(plan, paper=paper, identity=identity)

    return Engine((Form.TIME_JOIN,), build, shell, parameters, host=True, on_board=_on_board)


ENGINES = {"fjoin": _engine(FJOIN, paper=False), "fjoin_paper": _engine(PAPER, paper=True)}
