"""Data: the catalogue of real sets, and any file of a person's own, brought into arrival order."""

from .fetch import SetInfo, get_set, list_sets
from .prepare import Prepared, prepare

__all__ = ["Prepared", "SetInfo", "get_set", "list_sets", "prepare"]
