"""Joinery's hardware library: stream joins and aggregates as Amaranth components."""

__version__ = "0.1.0"
