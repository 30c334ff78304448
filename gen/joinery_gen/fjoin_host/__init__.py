"""The host of the `fjoin` engine: it keeps a card busy, and its results complete and in order."""

from .device import CardStatus, CardTask, Device, DeviceError, PipelineInfo, Side, State
from .layout import BitField, CardLayout, RecordLayout
from .model import ModelDevice

__all__ = [
    "BitField",
    "CardLayout",
    "CardStatus",
    "CardTask",
    "Device",
    "DeviceError",
    "ModelDevice",
    "PipelineInfo",
    "RecordLayout",
    "Side",
    "State",
]
