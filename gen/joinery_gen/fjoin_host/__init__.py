"""The host of the `fjoin` engine: it keeps a card busy, and its results complete and in order."""

from .controller import Arrivals
from .device import CardStatus, CardTask, Device, DeviceError, PipelineInfo, Side, State
from .host import Host, HostSettings, Rows, TaskReport
from .layout import BitField, CardLayout, RecordLayout, card_pair
from .model import ModelDevice

__all__ = [
    "Arrivals",
    "BitField",
    "CardLayout",
    "CardStatus",
    "CardTask",
    "Device",
    "DeviceError",
    "Host",
    "HostSettings",
    "ModelDevice",
    "PipelineInfo",
    "RecordLayout",
    "Rows",
    "Side",
    "State",
    "TaskReport",
    "card_pair",
]
