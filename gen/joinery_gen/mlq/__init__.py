"""Multi-level queues: the model of their throughput, and the choice of their levels."""

from .memories import HIERARCHIES, MEMORIES, MemorySpec
from .model import Accesses, LevelLoad, Prediction, Problem, predict, worst_case
from .partition import choose_values, search_values
from .pointers import LevelRead, Move, Pointers, walk

__all__ = [
    "HIERARCHIES",
    "MEMORIES",
    "Accesses",
    "LevelLoad",
    "LevelRead",
    "MemorySpec",
    "Move",
    "Pointers",
    "Prediction",
    "Problem",
    "choose_values",
    "predict",
    "search_values",
    "walk",
    "worst_case",
]
