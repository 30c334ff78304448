"""The `joinery` command."""
