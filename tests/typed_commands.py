"""Commands that pages and cluster files tell people to type: they are found, and read by the real command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from imharness.cli import cli

ROOT = Path(__file__).resolve().parents[1]
_END = {"|", "&", "&&", ";", ">", "2>", "2>&1"}
"""Words of a shell that end a command."""


def blocks(page: str) -> list[str]:
    """Return the indented blocks of a page, without their indentation."""
    matches = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", (ROOT / page).read_text(), re.M)
    return [re.sub(r"^    ", "", block, flags=re.M) for block in matches]


def commands(text: str) -> Iterator[list[str]]:
    """Yield each call of `harness` in a shell script, also one that another command is given in quotes."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        for word in words:
            if word.startswith("harness "):
                yield shlex.split(word)
        if "harness" in words:
            command = words[words.index("harness") :]
            yield command[: next((i for i, word in enumerate(command) if word in _END), len(command))]


def read(words: Sequence[str]) -> None:
    """Let the command line read a call of `harness` without running it; raises click's error for a wrong one."""
    command: click.Command = cli
    context, remaining = click.Context(cli, info_name="harness"), list(words[1:])
    while isinstance(command, click.Group):
        if command.invoke_without_command and (not remaining or remaining[0].startswith("-")):
            break
        name = remaining.pop(0)
        subcommand = command.get_command(context, name)
        assert subcommand is not None, f"there is no command {name} in {shlex.join(words)}"
        command, context = subcommand, click.Context(subcommand, parent=context, info_name=name)
    try:
        command.make_context(str(command.name), remaining, parent=context.parent)
    except click.BadParameter as error:
        if "does not exist" not in error.message:  # a file of the reader's, whose name stands for any
            raise
