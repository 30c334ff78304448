"""The link between a host and a core on a board: frames over a UART that survive a bad line.

``protocol`` says what goes over the line. The host's end is ``joinery_gen.link``.
"""

from .board import BoardTop
from .port import LinkEnd, LinkPort
from .protocol import LinkShape

__all__ = ["BoardTop", "LinkEnd", "LinkPort", "LinkShape"]
