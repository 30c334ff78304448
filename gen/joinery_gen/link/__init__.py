"""The host's end of the link to a board: ``joinery.link`` is the other one.

It needs a serial port and ``top.json``, and neither a simulator nor Spark.
"""

from .board import BAUD, Board, StreamRun
from .card import BoardCard
from .channel import Channel, LinkError

__all__ = ["BAUD", "Board", "BoardCard", "Channel", "LinkError", "StreamRun"]
