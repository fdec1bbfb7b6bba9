"""Options that several commands share, groups that describe their commands, and types of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from imharness.errors import did_you_mean

LARGEST_SEED = 2**63 - 1
Command = TypeVar("Command", bound=Callable[..., Any])
DEVICES = "auto|cpu|cuda|cuda:N|mps"


class Group(click.Group):
    """A group whose help shows the full first sentence of each command, and which suggests a name for a wrong one."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and what they do, over several lines if necessary."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, _sentence(command)) for name, command in named if command is not None and not command.hidden]
        for title, names in self.sections([name for name, _ in rows]):
            with formatter.section(title):
                formatter.write_dl([row for name in names for row in rows if row[0] == name])

    def sections(self, names: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
        """Return titles and the commands below each, of these commands; a title without commands is left out."""
        return [("Commands", names)] if names else []

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and the remaining words; raises `click.UsageError` for an unknown command."""
        commands = self.list_commands(ctx)
        if args[0] not in commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}.{did_you_mean(args[0], commands)}", ctx)
        return super().resolve_command(ctx, args)


class Choice(click.Choice):  # type: ignore[type-arg]  # click 8.1 has no type argument
    """One of a few words; the nearest one is suggested for a wrong one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word; raises `click.BadParameter`."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{error.message}{did_you_mean(str(value), self.choices)}", param, ctx)


class Share(click.FloatRange):
    """A number from 0 to 1; "nan" is refused, although it is neither below nor above a bound."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; raises `click.BadParameter`."""
        share = super().convert(value, param, ctx)
        if not 0 <= share <= 1:
            self.fail(f"{value} is not a number from 0 to 1.", param, ctx)
        return share


class Seed(click.IntRange):
    """A seed: a whole number from 0 to the largest signed one of 64 bits."""

    name = "seed"

    def __init__(self) -> None:
        super().__init__(0, LARGEST_SEED)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; raises `click.BadParameter`."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"a seed is a whole number from 0 to 2^63 - 1, not {value}.", param, ctx)


def seed_option(of: str = "all randomness", default: int | None = 0) -> Callable[[Command], Command]:
    """Return the option ``--seed``, a whole number from 0; without a default, a new one is drawn each time."""
    drawn = "" if default is not None else " Default: a new one is drawn each time, and shown."
    return click.option(
        "--seed",
        type=Seed(),
        default=default,
        show_default=default is not None,
        metavar="N",
        help=f"Seed of {of}.{drawn}",
    )


def store_option(name: str = "store") -> Callable[[Command], Command]:
    """Return the option ``--store``, the address of a store, which goes to the parameter `name`."""
    return click.option(
        "--store",
        name,
        default="store",
        show_default=True,
        metavar="FOLDER|s3://BUCKET/PATH|gs://BUCKET/PATH",
        help="Store of the results.",
    )


def log_option() -> Callable[[Command], Command]:
    """Return the option ``--log-to``, whose values go to the parameter `log_to`."""
    return click.option(
        "--log-to",
        multiple=True,
        metavar="mlflow:URI|wandb:PROJECT|tensorboard:FOLDER",
        help="Send the tables there, too; may be given several times.",
    )


def site_option(name: str = "site_dir") -> Callable[[Command], Command]:
    """Return the option ``--site``, a folder, which goes to the parameter `name`."""
    return click.option(
        "--site",
        name,
        type=click.Path(path_type=Path),
        default="site",
        show_default=True,
        metavar="FOLDER",
        help="Folder of the leaderboard's pages.",
    )


def assets_option(what: str = "weights and data") -> Callable[[Command], Command]:
    """Return the option ``--assets``, a folder that must exist."""
    return click.option(
        "--assets",
        type=click.Path(path_type=Path, exists=True),
        metavar="FOLDER",
        help=f"Look for {what} in this folder first.",
    )


def device_option(name: str = "device", *, multiple: bool = False) -> Callable[[Command], Command]:
    """Return the option ``--device``, whose value or values go to the parameter `name`."""
    return click.option(
        "--device",
        name,
        default=["auto"] if multiple else "auto",
        show_default=True,
        metavar=DEVICES,
        multiple=multiple,
        help="Where to compute; auto uses GPUs of CUDA, and the CPU for tracks that a profile leaves to it; may be "
        "given several times."
        if multiple
        else "Where to compute; auto uses a GPU of CUDA if there is one.",
    )


def limit_option() -> Callable[[Command], Command]:
    """Return the option ``--limit``, a number of images or None."""
    return click.option(
        "--limit",
        type=click.IntRange(1),
        metavar="N",
        help="Use only the first N images of each data set. Default: all.",
    )


def json_option(more: str = "") -> Callable[[Command], Command]:
    """Return the flag ``--json``, which goes to the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print facts as JSON{more}.")


def _sentence(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return command.get_short_help_str(limit=10_000)
