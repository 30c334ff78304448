"""The handshake join engine."""

from .core import JoinCore
from .engine import HandshakeJoin, core_of_left, core_of_right, drain_steps

__all__ = ["HandshakeJoin", "JoinCore", "core_of_left", "core_of_right", "drain_steps"]
