"""Commands that pages and cluster files tell people to type: they are found, and read by the real command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from imharness.cli import cli

ROOT = Path(__file__).resolve().parents[1]
_END = {"|", "&", "&&", ";", ">", "2>&1"}


def blocks(page: str) -> list[str]:
    """The indented blocks of a page, without their indentation."""
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", (ROOT / page).read_text(), re.M)
    return [re.sub(r"^    ", "", block, flags=re.M) for block in found]


def commands(text: str) -> Iterator[list[str]]:
    """Yield each call of `harness` in a shell script, also one that another command is given in quotes."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        for word in words:
            if word.startswith("harness "):
                yield shlex.split(word)
        if "harness" in words:
            own = words[words.index("harness") :]
            yield own[: next((i for i, word in enumerate(own) if word in _END), len(own))]


def read(words: Sequence[str]) -> None:
    """Let the command line read a call of `harness` without running it; raises click's error for a wrong one."""
    command: click.Command = cli
    context, left = click.Context(cli, info_name="harness"), list(words[1:])
    while isinstance(command, click.Group):
        name = left.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name} in {shlex.join(words)}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_context(str(command.name), left, parent=context.parent)
