"""Multi-level queues: windows of very many keys, over a hierarchy of memories."""

from .aggregation import KeyedAggregation, kept_columns
from .engine import KeyedAggregate, WindowAggregator
from .functions import FUNCTIONS
from .kernels import Fold, Kernel
from .levels import Level, Queues
from .memory import BlockMemory, TimedMemory
from .ports import MemoryPort
from .queue import MultiLevelQueue

__all__ = [
    "FUNCTIONS",
    "BlockMemory",
    "Fold",
    "Kernel",
    "KeyedAggregate",
    "KeyedAggregation",
    "Level",
    "MemoryPort",
    "MultiLevelQueue",
    "Queues",
    "TimedMemory",
    "WindowAggregator",
    "kept_columns",
]
