"""Multi-level queues: windows of very many keys, over a hierarchy of memories."""

from .aggregation import KeyedAggregation, TimedAggregation, kept_columns, time_windows
from .engine import KeyedAggregate, WindowAggregator
from .functions import FUNCTIONS
from .kernels import Fold, Kernel
from .levels import Level, Queues
from .memory import BlockMemory, TimedMemory
from .ports import MemoryPort
from .queue import MultiLevelQueue
from .timed import KeyedTimeAggregator
from .windows import TimeWindows

__all__ = [
    "FUNCTIONS",
    "BlockMemory",
    "Fold",
    "Kernel",
    "KeyedAggregate",
    "KeyedAggregation",
    "KeyedTimeAggregator",
    "Level",
    "MemoryPort",
    "MultiLevelQueue",
    "Queues",
    "TimeWindows",
    "TimedAggregation",
    "TimedMemory",
    "WindowAggregator",
    "kept_columns",
    "time_windows",
]
