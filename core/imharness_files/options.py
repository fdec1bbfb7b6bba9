"""Options that several commands have, and numbers that users give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

LARGEST_SEED = 2**63 - 1
Command = TypeVar("Command", bound=Callable[..., Any])


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


class Seed(click.IntRange):
    """A seed: a whole number from 0 to the largest that fits into 64 bits with a sign."""

    name = "seed"

    def __init__(self) -> None:
        super().__init__(0, LARGEST_SEED)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; raises `click.BadParameter`."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"a seed is a whole number from 0 to 2^63 - 1, not {value}.", param, ctx)


def seed_option(help: str = "Seed of all randomness.", default: int | None = 0) -> Callable[[Command], Command]:
    """Return the option ``--seed``."""
    return click.option(
        "--seed", type=Seed(), default=default, show_default=default is not None, help=help, metavar="N"
    )


def store_option(name: str = "store") -> Callable[[Command], Command]:
    """Return the option ``--store``, whose value, the address of a store, goes to the parameter `name`."""
    return click.option(
        "--store", name, default="store", show_default=True, metavar="FOLDER|s3://BUCKET/PATH|gs://BUCKET/PATH",
        help="Where results are kept.",
    )  # fmt: skip


def log_option() -> Callable[[Command], Command]:
    """Return the option ``--log-to``, whose values go to the parameter `log_to`."""
    return click.option(
        "--log-to", multiple=True, metavar="mlflow:URI|wandb:PROJECT|tensorboard:FOLDER",
        help="Send the tables there, too; may be given several times.",
    )  # fmt: skip
