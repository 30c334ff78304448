"""``joinery run``: data through a running machine, a simulated card or a board on a port."""

from typing import Any

import click

from .run_card import run_card_command
from .run_port import run_port_command

PORT = "--port"


class Run(click.Command):
    """One command to a person; with ``--port`` it has the options of a board, else of a card."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        to_port = any(each == PORT or each.startswith(f"{PORT}=") for each in args)
        chosen = run_port_command if to_port else run_card_command
        return chosen.make_context(info_name, args, parent, **extra)


run_command = Run("run", short_help="Run data through a card, or through a board on a port.")
