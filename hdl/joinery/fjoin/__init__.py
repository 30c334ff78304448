"""FJoin: a deep pipeline of join units, past which the tuples of a time window flow."""

from .pipeline import FJoinPipeline
from .shape import PipelineShape
from .split import RangeType, Split, live_bits, split_predicate

__all__ = [
    "FJoinPipeline",
    "PipelineShape",
    "RangeType",
    "Split",
    "live_bits",
    "split_predicate",
]
