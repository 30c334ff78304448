"""The `joinery` command.

Modules here import the rest of Joinery inside functions, so that `joinery --help` answers at once.
"""
