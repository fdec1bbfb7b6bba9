"""Numbers that users give on the command line."""

from __future__ import annotations

from typing import Any

import click


class Share(click.FloatRange):
    """A number from 0 to 1; "nan", which is neither below nor above a bound, is refused."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; raises `click.BadParameter`."""
        found = super().convert(value, param, ctx)
        if not 0 <= found <= 1:
            self.fail(f"{value} is not a number from 0 to 1.", param, ctx)
        return found
