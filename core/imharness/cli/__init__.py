"""The command line. Help and version import neither torch nor plugins: each command is loaded when it is called."""

from __future__ import annotations

import atexit
import gc
import importlib.metadata
import os
import sys
import threading
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import click

from imharness.cli.options import Group
from imharness.errors import HarnessError, UsageError
from imharness.reading.text import stripped
from imharness.results.version import __version__

COMMANDS = {
    "run": "imharness.cli.run:run",
    "status": "imharness.cli.status:status",
    "plugins": "imharness.cli.plugins:plugins",
    "results": "imharness.cli.results:results",
    "papers": "imharness.cli.papers:papers",
    "assets": "imharness.cli.assets:assets",
    "doctor": "imharness.cli.doctor:doctor",
    "completion": "imharness.cli.completion:completion",
    "docs": "imharness.cli.docs:docs",
}
GROUP = "imharness.commands"
SELDOM = 100_000
"""After so many new objects garbage is looked for: what is imported and planned stays, and looking takes its time."""


class LazyGroup(Group):
    """A group whose commands are imported when they are asked for.

    Packages add commands by entry points in the group ``imharness.commands``; ``plugins.check`` is the command `check`
    of the group `plugins`. A module with commands imports nothing heavy at its top.

    Args:
        lazy: command name -> ``module:function``, in the order of the help text.
        prefix: of the entry points that belong to this group, such as ``plugins.``; "" are those of the first level.
    """

    def __init__(self, *args: Any, prefix: str, lazy: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._lazy, self._prefix = lazy or {}, prefix

    def _points(self) -> dict[str, EntryPoint]:
        own = {name: EntryPoint(name, value, GROUP) for name, value in self._lazy.items()}
        found = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name)
        names = {p.name.removeprefix(self._prefix): p for p in found if p.name.startswith(self._prefix)}
        return {**own, **{name: point for name, point in names.items() if "." not in name and name not in own}}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._points()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        point = self._points().get(cmd_name)
        command: click.Command | None = super().get_command(ctx, cmd_name) or (point.load() if point else None)
        if command is not None and ctx.resilient_parsing:  # a shell asks what could stand here
            from imharness.cli.completion import with_names

            return with_names(command)
        return command


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
    """Run the command line; exit 0 fine, 1 some cells failed, 2 wrong usage, 130 interrupted."""
    gc.set_threshold(SELDOM)
    atexit.register(gc.disable)  # the end of a process looks for garbage three times; this way twice
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
    except BrokenPipeError:  # whoever read what this prints has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {stripped(where + (error.strerror or str(error)))}", err=True)
        code = 1
    except MemoryError:
        click.echo("error: memory is used up; use --limit, or fewer --workers, or a machine with more", err=True)
        code = 1
    sys.exit(code or 0)


def _leave_at_once() -> None:
    """End the process where a thread still makes tables: that of an interrupted run is not waited for."""
    from imharness.running.publishing import THREAD

    if any(thread.name == THREAD for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
