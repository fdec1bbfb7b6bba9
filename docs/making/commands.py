"""The page of the command line: the help of every command."""

from collections.abc import Iterator

import click

from imharness.cli import cli

WIDTH = 100


def walk(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command and of all commands below it."""
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from walk(below, click.Context(below, parent=context, info_name=name, terminal_width=WIDTH))


def every_command() -> list[click.Context]:
    """Return the context of every command of the installed packages."""
    return list(walk(cli, click.Context(cli, info_name="harness", terminal_width=WIDTH, max_content_width=WIDTH)))


def pages() -> dict[str, str]:
    """Return the page by its name."""
    sections = ["# The command line\n\nWhat each command prints with `--help`.\n"]
    sections += [f"## {one.command_path}\n\n```text\n{one.command.get_help(one)}\n```\n" for one in every_command()]
    return {"commands": "\n".join(sections)}
