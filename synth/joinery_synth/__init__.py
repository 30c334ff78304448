"""Synthesis flows, boards and proofs for generated designs."""
