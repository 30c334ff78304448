"""The host of the `fjoin` engine: it keeps a card busy, and its results complete and in order."""

from .controller import Arrivals
from .device import CardStatus, CardTask, Device, DeviceError, PipelineInfo, Side, State
from .feed import Feed, FeedSettings
from .host import Host, HostSettings, Rows, TaskReport
from .layout import BitField, CardLayout, RecordLayout, card_pair
from .model import ModelDevice
from .performance import PerformanceModel, comparisons, utilisation
from .registers import RegisterCard
from .run import Progress, RunReport, run_prepared

__all__ = [
    "Arrivals",
    "BitField",
    "CardLayout",
    "CardStatus",
    "CardTask",
    "Device",
    "DeviceError",
    "Feed",
    "FeedSettings",
    "Host",
    "HostSettings",
    "ModelDevice",
    "PerformanceModel",
    "PipelineInfo",
    "Progress",
    "RecordLayout",
    "RegisterCard",
    "Rows",
    "RunReport",
    "Side",
    "State",
    "TaskReport",
    "card_pair",
    "comparisons",
    "run_prepared",
    "utilisation",
]
