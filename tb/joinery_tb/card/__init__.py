"""The simulated card: generated Verilog in Verilator, with AXI4 memory, and its host beside it."""

from .device import CardFacts, SimulatedCard
from .simulate import (
    CardReport,
    OpenCard,
    check_card_simulator,
    open_card,
    open_model,
    run_card,
)

__all__ = [
    "CardFacts",
    "CardReport",
    "OpenCard",
    "SimulatedCard",
    "check_card_simulator",
    "open_card",
    "open_model",
    "run_card",
]
