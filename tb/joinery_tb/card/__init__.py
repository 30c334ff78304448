"""The simulated card: generated Verilog in Verilator, with AXI4 memory."""

from .device import SimulatedCard

__all__ = ["SimulatedCard"]
