"""Merging networks: they bring the results of many cores to one or a few outputs.

All have the interface of ``MergingNetwork`` and none loses, repeats or invents a result, under any
pattern of stalls; ``tb/test_merge_proofs.py`` proves it on small instances.
"""

from .crossing import MERGE_DOMAIN, CrossedNetwork
from .fsm_tree import FsmTreeNetwork
from .network import MergingNetwork
from .ring import RingNetwork
from .tree import TABLE_5_1, BufferPlan, TreeNetwork

__all__ = [
    "MERGE_DOMAIN",
    "NETWORKS",
    "TABLE_5_1",
    "BufferPlan",
    "CrossedNetwork",
    "FsmTreeNetwork",
    "MergingNetwork",
    "RingNetwork",
    "TreeNetwork",
]

NETWORKS: dict[str, type[MergingNetwork]] = {
    "tree": TreeNetwork,
    "ring": RingNetwork,
    "fsm_tree": FsmTreeNetwork,
}
