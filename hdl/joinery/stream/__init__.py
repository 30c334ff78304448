"""Elastic building blocks: components that move, copy, merge and reshape streams.

Every block keeps the stream law: ``valid`` never waits for ``ready``, and ``valid`` and the
payload hold until the transfer. Given inputs that keep it, no block loses, repeats, invents or
reorders anything, under any pattern of stalls; ``tb/test_stream.py`` proves it.
"""

from .buffers import Buffer, Queue
from .routing import Arbiter, Fork, Merger, MergeTree
from .width import Narrow, Widen, part_layout, word_layout

__all__ = [
    "Arbiter",
    "Buffer",
    "Fork",
    "MergeTree",
    "Merger",
    "Narrow",
    "Queue",
    "Widen",
    "part_layout",
    "word_layout",
]
