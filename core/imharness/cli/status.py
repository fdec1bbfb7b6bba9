"""`harness status`: the runs of a store, as they report themselves; needs neither torch nor plugins."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import json_option, store_option

if TYPE_CHECKING:
    from imharness.running.schedule.state import RunState

SHOWN = 20
"""At most this many running tasks are listed, those that have run longest."""


@click.command()
@store_option("address")
@json_option()
def status(address: str, as_json: bool) -> None:
    """Show the runs of a store that are going on, on any machine, and the last one that ended, unless one began later.

    `harness results show KEY` says more about one task and prints its log.
    """
    from imharness.cli.progress import duration, line_of
    from imharness.cli.stores import existing
    from imharness.running.schedule.state import SILENT_S, run_states
    from imharness.running.views import short

    now, states = datetime.now(UTC), run_states(existing(address), console.warn)  # the newest first
    going = [s for s in states if s.state == "running" and s.silent_s(now) < SILENT_S and not _is_gone(s)]
    others = [state for state in states if state not in going]
    if as_json:
        facts = [state.model_dump(mode="json") | {"alive": state in going} for state in [*going, *others]]
        console.emit({"runs": facts})
        return
    if not states:
        console.say(f"no run has written into {address}")
    last_ended = [] if going and states[0] in going else others[:1]
    for state in [*going, *last_ended]:
        silent = state.silent_s(now)
        lost = f", no word for {duration(silent)}" if state.state == "running" and state not in going else ""
        console.say(f"{state.host}, process {state.pid}, since {state.started}{lost}: {state.command}")
        console.say(f"  {line_of(state)}")
        if state.rate is not None and state in going:
            console.say(f"  {state.rate:.0f} tasks per minute; {state.reused:,} were there before")
        if state.page:
            console.say(f"  tables so far: {state.page}")
        if state.running and state in going:
            longest = sorted(state.running, key=lambda running: -running.seconds)[:SHOWN]
            rows = [
                (running.key[:12], f"{short(running.track)} {running.task}", f"{running.seconds:.0f}")
                for running in longest
            ]
            console.table(f"{_tasks(len(state.running))} running", ["key", "task", "s"], rows)
        if state.failing:
            failed = [(state.failing_keys.get(task, "")[:12], task, why) for task, why in state.failing.items()]
            console.table(f"{_tasks(state.failed)} failed", ["key", "task", "why"], failed)
            if state.failed > len(failed):
                console.say(f"{state.failed - len(failed):,} more: harness results list --failed shows each")


def _tasks(count: int) -> str:
    return f"{count:,} task" + "s" * (count != 1)


def _is_gone(state: RunState) -> bool:
    """Return whether the process of a run on this machine has ended; False where this cannot be asked.

    That is on another machine, and on Windows, where the signal 0 is Ctrl-C.
    """
    if state.host != platform.node() or os.name == "nt":
        return False
    try:
        os.kill(state.pid, 0)
    except (ProcessLookupError, OverflowError):  # no process has such a number
        return True
    except PermissionError:
        pass
    return False
