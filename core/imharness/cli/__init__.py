"""The command line. Help and version import neither torch nor plugins: a command is loaded when it is called."""

from __future__ import annotations

import atexit
import gc
import importlib.metadata
import os
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, TextIO

import click

from imharness.cli.options import Group
from imharness.errors import HarnessError, UsageError
from imharness.reading.text import stripped, warning_text
from imharness.results.version import DISTRIBUTION, __version__

COMMANDS = {
    "run": "imharness.cli.run:run",
    "status": "imharness.cli.status:status",
    "plugins": "imharness.cli.plugins:plugins",
    "results": "imharness.cli.results:results",
    "papers": "imharness.cli.papers:papers",
    "assets": "imharness.cli.assets:assets",
    "doctor": "imharness.cli.doctor:doctor",
    "completion": "imharness.cli.completion:completion",
}
SECTIONS = {
    "Run": ("run", "train"),
    "Look": ("status", "results", "site", "papers"),
    "Your own": ("score", "plugins", "membership", "reconstruction"),
    "Leaderboard keepers": ("submissions", "evidence", "reproduce", "season", "annotate"),
    "Machine": ("doctor", "assets", "completion"),
}
"""Title of a section of the help text -> its commands."""
FURTHER = "Studies and libraries"
"""The title of the last section, which has all other commands."""
GROUP = "imharness.commands"
"""The group of the entry points by which packages add commands."""
SELDOM = 100_000
"""The number of new objects after which Python collects garbage. Collecting takes time and would free little, because
modules and plans are used until the end."""
_said = set[str]()
"""The warnings that were shown."""


class LazyGroup(Group):
    """A group whose commands are imported when they are used.

    Packages add commands by entry points in the group ``imharness.commands``; ``plugins.check`` is the command `check`
    of the group `plugins`. A module with commands must not import anything heavy at its top.

    Args:
        lazy: command name -> ``module:function``, in the order of the help text.
        prefix: the prefix of the entry points of this group, such as ``plugins.``; "" means those of the first level.
    """

    def __init__(self, *args: Any, prefix: str, lazy: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._lazy, self._prefix = lazy or {}, prefix

    def _points(self) -> dict[str, EntryPoint]:
        """Return name -> entry point of the group's commands: first those of `lazy`, then those of packages by name.

        A command of `lazy`, and one of the harness's own distribution, cannot be replaced by another package.
        """
        commands = {name: EntryPoint(name, value, GROUP) for name, value in self._lazy.items()}
        of_packages = dict[str, EntryPoint]()
        for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name):
            name = point.name.removeprefix(self._prefix)
            is_in_group = point.name.startswith(self._prefix) and "." not in name
            if is_in_group and not (name in of_packages and _is_first_party(of_packages[name])):
                of_packages[name] = point
        return {**commands, **{name: point for name, point in of_packages.items() if name not in commands}}

    def sections(self, names: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
        """Return the sections of the first level; groups below it have one."""
        if self._prefix:
            return super().sections(names)
        listed = {title: [name for name in members if name in names] for title, members in SECTIONS.items()}
        listed[FURTHER] = [name for name in names if not any(name in members for members in SECTIONS.values())]
        return [(title, members) for title, members in listed.items() if members]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._points()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        point = self._points().get(cmd_name)
        command: click.Command | None = super().get_command(ctx, cmd_name) or (point.load() if point else None)
        if command is not None and ctx.resilient_parsing:  # a shell asks for completions
            from imharness.cli.completion import with_names

            return with_names(command)
        return command


def _is_first_party(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == DISTRIBUTION


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    prefix="",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="harness")
def cli() -> None:
    """Score attacks, defenses, metrics and membership-inference evaluators, and rank them."""


def main() -> None:
    """Run the command line; exit with 0 (success), 1 (error or failed tasks), 2 (wrong usage) or 130 (interrupted)."""
    gc.set_threshold(SELDOM)
    warnings.showwarning = _warned
    atexit.register(gc.disable)  # Python collects garbage three times when it ends; this way only twice
    try:
        code = cli.main(prog_name="harness", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; everything finished is kept", err=True)
        code = 130
        _leave_at_once()
    except UsageError as error:
        click.echo(f"usage: {stripped(str(error))}", err=True)
        code = 2
    except HarnessError as error:
        click.echo(f"error: {stripped(str(error))}", err=True)
        code = 1
    except BrokenPipeError:  # the reader of the output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {stripped(where + (error.strerror or str(error)))}", err=True)
        code = 1
    except MemoryError:
        click.echo("error: memory is used up; use --limit, fewer --workers, or a machine with more memory", err=True)
        code = 1
    sys.exit(code or 0)


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning, each text once."""
    text = warning_text(message, category, filename, lineno, line)
    if text not in _said:
        _said.add(text)
        click.echo(text, err=True, nl=False)


def _leave_at_once() -> None:
    """End the process at once if a thread is still making tables, because an interrupted run does not wait for it."""
    from imharness.running.publishing import THREAD

    if any(thread.name == THREAD for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
