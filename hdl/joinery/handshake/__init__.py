"""The handshake join engine."""

from .core import JoinCore
from .engine import POLICIES, HandshakeJoin, core_of_left, core_of_right, drain_steps

__all__ = [
    "POLICIES",
    "HandshakeJoin",
    "JoinCore",
    "core_of_left",
    "core_of_right",
    "drain_steps",
]
