"""AXI shells: an engine as a core that other designs can use.

The end of a stream is a beat with ``tlast``; with ``tkeep`` all zero it carries no data, which is
how a shell sends it, so that a result without rows ends too. On the way in, ``tlast`` on a beat
with data is taken as the data and then the end.
"""

from .aggregate import AggregateShell, Report, ReportColumn
from .join import JoinShell
from .memory import MemoryPins
from .shell import Identity, RegisterShell, Shell, connect_registers, register_ports
from .stream import StreamShell

__all__ = [
    "AggregateShell",
    "Identity",
    "JoinShell",
    "MemoryPins",
    "RegisterShell",
    "Report",
    "ReportColumn",
    "Shell",
    "StreamShell",
    "connect_registers",
    "register_ports",
]
