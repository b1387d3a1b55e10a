"""Groups whose commands are read when one of them is asked for: most calls need a tenth of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """``elsewhere``: name of a command → ``module:attribute`` of this package."""

    def __init__(self, *args: Any, elsewhere: dict[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.elsewhere = elsewhere or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.elsewhere})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if place := self.elsewhere.get(cmd_name):
            module, _, attribute = place.partition(":")
            command: click.Command = getattr(import_module(f"berth_cli.{module}"), attribute)
            return command
        return super().get_command(ctx, cmd_name)
