"""Benches, replay and simulator builds for generated designs."""
