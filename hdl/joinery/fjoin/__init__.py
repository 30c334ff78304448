"""FJoin: a deep pipeline of join units, past which the tuples of a time window flow."""

from .card import FJoinCard
from .onchip import OnChipMemory
from .onchip_card import OnChipCard
from .paper import FJoinPaper
from .pipeline import FJoinPipeline
from .shape import PipelineShape
from .split import RangeType, Split, live_bits, split_predicate

__all__ = [
    "FJoinCard",
    "FJoinPaper",
    "FJoinPipeline",
    "OnChipCard",
    "OnChipMemory",
    "PipelineShape",
    "RangeType",
    "Split",
    "live_bits",
    "split_predicate",
]
