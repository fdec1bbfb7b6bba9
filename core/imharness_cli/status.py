"""`harness status`: the runs of a store, as they tell it themselves; needs neither torch nor plugins."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from imharness_cli import console


@click.command()
@click.option("--store", "store_dir", type=click.Path(path_type=Path), default="store", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")
def status(store_dir: Path, as_json: bool) -> None:
    """Show the runs of a store that are going on, on whatever machine, and the last one that ended."""
    from imharness.results.store import Store
    from imharness_cli.progress import duration, line_of
    from imharness_schedule.state import SILENT_S, run_states

    now, states = datetime.now(UTC), run_states(Store(store_dir))
    going = [state for state in states if state.state == "running" and state.silent_s(now) < SILENT_S]
    others = [state for state in states if state not in going]
    if as_json:
        facts = [state.model_dump(mode="json") | {"alive": state in going} for state in [*going, *others]]
        console.emit({"runs": facts})
        return
    if not states:
        console.say(f"no run has written into {store_dir}")
    for state in going or others[:1]:
        silent = state.silent_s(now)
        lost = f", no word for {duration(silent)}" if state.state == "running" and state not in going else ""
        console.say(f"{state.host}, process {state.pid}, since {state.started}{lost}: {state.command}")
        console.say(f"  {line_of(state)}")
        if state.rate is not None and state in going:
            console.say(f"  {state.rate:.0f} cells a minute, {state.reused:,} were there before")
        if state.page:
            console.say(f"  tables so far: {state.page}")
        if state.failing:
            console.table(f"{state.failed} cells failed", ["cell", "why"], list(state.failing.items()))
