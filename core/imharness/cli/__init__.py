"""The command line. Help and version import neither torch nor plugins: each command is loaded when it is called."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys

import click

import imharness
from imharness.errors import HarnessError, UsageError

COMMANDS = {
    "run": "imharness.cli.run:run",
    "plugins": "imharness.cli.plugins:plugins",
    "results": "imharness.cli.results:results",
    "assets": "imharness.cli.assets:assets",
    "doctor": "imharness.cli.doctor:doctor",
}
GROUP = "imharness.commands"
"""Entry-point group for further commands; their modules import nothing heavy at the top."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all command names."""
        further = {point.name for point in importlib.metadata.entry_points(group=GROUP)}
        return [*COMMANDS, *sorted(further - set(COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name].partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return command
        for point in importlib.metadata.entry_points(group=GROUP, name=cmd_name):
            loaded: click.Command = point.load()
            return loaded
        return None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(imharness.__version__, prog_name="harness")
def cli() -> None:
    """Score attacks, defenses, metrics and membership-inference evaluators, and rank them."""


def main() -> None:
    """Run the command line; exit 0 fine, 1 some cells failed, 2 wrong usage, 130 interrupted."""
    try:
        code = cli.main(prog_name="harness", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; everything finished is kept", err=True)
        code = 130
    except UsageError as error:
        click.echo(f"usage: {error}", err=True)
        code = 2
    except HarnessError as error:
        click.echo(f"error: {error}", err=True)
        code = 1
    sys.exit(code or 0)
