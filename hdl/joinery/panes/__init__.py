"""Sliding-window aggregates by panes."""

from .engine import PaneAggregation

__all__ = ["PaneAggregation"]
