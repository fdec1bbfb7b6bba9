"""`harness run`: plan, compute, rank, publish."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from imharness.cli import console
from imharness.cli.executors import executor_options, executor_settings
from imharness.cli.options import (
    Choice,
    assets_option,
    device_option,
    json_option,
    limit_option,
    log_option,
    seed_option,
    site_option,
    store_option,
)
from imharness.cli.secret import profile_of, secret_option
from imharness.contracts.component import SELECTABLE
from imharness.errors import UsageError

SHOWN_CAUSES = 30
if TYPE_CHECKING:
    from imharness.planning.plan import Graph
    from imharness.results.boards import Board
    from imharness.running.sweep import RunResult


def _selectors(command: Callable[..., Any]) -> Callable[..., Any]:
    for kind in reversed(SELECTABLE):
        text = f"Only this {kind}, or all but this with a '!' before it; may be given several times."
        command = click.option(f"--{kind}", kind, multiple=True, metavar="NAME", help=text)(command)
    return command


@executor_options
@click.command()
@click.option("--all", "everything", is_flag=True, help="Run every track of the profile.")
@click.option("--track", "tracks", multiple=True, metavar="NAME", help="Run this track; may be given several times.")
@_selectors
@click.option(
    "--profile", default="embedded", show_default=True, metavar="NAME|FILE.toml", help="Profile: what to run."
)
@device_option("devices", multiple=True)
@click.option(
    "--workers",
    type=click.IntRange(0),
    metavar="N",
    help="Number of processes; 0 computes in this one. Default: one per GPU, or one per core (at most 8) on the CPU.",
)
@click.option(
    "--executor", default="local", show_default=True, metavar="NAME", help="Executor: what computes the cells."
)
@seed_option()
@store_option("address")
@site_option()
@assets_option()
@click.option(
    "--precision",
    type=Choice(["strict", "tf32", "fast", "search"]),
    help="How attacks compute: in float32, with factors that a GPU rounds to 10 bits, with bfloat16 gradients, or with "
    "bfloat16 black-box scores, too. Reported scores are float32. Default: as the profile says.",
)
@limit_option()
@secret_option
@click.option("--fresh", is_flag=True, help="Compute again what the store already holds.")
@click.option(
    "--budget",
    metavar="TIME",
    help="Run only what fits into this time of one worker, such as 90m or 40h; every entry gets a few cells first. "
    "Default: everything.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would run, and how long it would take.")
@click.option(
    "--progress",
    "form",
    type=Choice(console.PROGRESS),
    default="auto",
    show_default=True,
    help="Show a bar, a line every 30 s, the same as JSON, or nothing; auto shows a bar on a terminal, lines in a log.",
)
@click.option(
    "--metrics-port",
    "metrics",
    metavar="[HOST:]PORT",
    help="Serve the progress of the run to Prometheus. Default: do not.",
)
@log_option()
@json_option()
def run(
    everything: bool,
    tracks: Sequence[str],
    profile: str,
    devices: Sequence[str],
    executor: str,
    workers: int | None,
    seed: int,
    address: str,
    site_dir: Path,
    assets: Path | None,
    precision: str | None,
    limit: int | None,
    secret: Path | None,
    fresh: bool,
    budget: str | None,
    dry_run: bool,
    form: str,
    metrics: str | None,
    log_to: Sequence[str],
    as_json: bool,
    **others: Any,
) -> None:
    """Compute the cells of one or more tracks, rank the entries and build the site."""
    if not everything and not tracks:
        raise UsageError("say what to run: --all or --track NAME.")
    if everything and tracks:
        raise UsageError("--all runs every track of the profile, --track only the named ones; give one of the two.")
    from imharness.cli.planning import dry_run_report
    from imharness.cli.progress import view_of
    from imharness.components.registry import installed
    from imharness.contracts.assets import add_folder
    from imharness.planning.selection import refuse_missing, refuse_unused, with_precision
    from imharness.ranking.listeners import open_listeners
    from imharness.results.findings import cannot_win
    from imharness.results.store import Store
    from imharness.running.device import resolve_devices
    from imharness.running.executor import find_executor
    from imharness.running.metrics import Metrics
    from imharness.running.session import Session
    from imharness.running.views import Watcher
    from imharness.testing.examination import examine

    if assets:
        add_folder(assets.resolve())
    find_executor(executor)
    listeners = open_listeners(log_to)
    settings, only = executor_settings(click.get_current_context()), {kind: others[kind] for kind in SELECTABLE}
    places, setup, registry = resolve_devices(devices), profile_of(profile, secret), installed()
    if precision:
        setup = with_precision(setup, registry, precision)
    for failure in registry.failures:
        console.warn(f"left out {failure.name}: {failure.reason}")
    session = Session(
        Store(address),
        setup,
        registry,
        seed=seed,
        limit=limit,
        command=shlex.join(["harness", *sys.argv[1:]]),
        executor=executor,
        devices=places,
        workers=workers,
        settings=settings,
    )
    names = None if everything else tracks
    graphs = session.plan(names, only=only)
    refuse_unused(graphs, registry, only)
    if not dry_run:
        refuse_missing(graphs, registry, only)
    session.keep_to(budget, graphs, fresh=fresh)
    if dry_run:
        whole = partial(session.plan, names, only=only, whole=True)
        count = _processes(places, workers, settings)
        dry_run_report(graphs, session.store, session.times, count, as_json, whole, fresh=fresh, profile=profile)
        return
    for label, failed in examine(session.store, registry, graphs, seed).items():
        console.warn(f"{label} {cannot_win(failed)}")
    shown = console.progress_form(form, quiet=as_json)
    watcher = Watcher(
        view_of(shown),
        [Metrics(metrics)] if metrics else [],
        note=console.note if shown in ("bar", "plain") else lambda line: None,
        warn=console.warn,
        listeners=listeners,
    )
    ran = session.run(graphs, site=site_dir, fresh=fresh, watcher=watcher)
    _report(graphs, ran.boards, ran.result, site_dir, as_json)
    if ran.result.failed:
        sys.exit(1)


def _processes(places: Sequence[str], workers: int | None, settings: Mapping[str, Any]) -> int:
    """Return how many processes will compute."""
    from imharness.running.executor import MAX_CPU_WORKERS

    if workers is not None:
        return max(workers, 1)
    if places == ["cpu"]:
        return min(os.cpu_count() or 1, MAX_CPU_WORKERS)
    return len(places) * int(settings.get("workers_per_gpu", 1))


def _report(graphs: Sequence[Graph], boards: Sequence[Board], result: RunResult, site: Path, as_json: bool) -> None:
    from imharness.exports.sheets import printed
    from imharness.results.sweeps import LEFT_OUT, causes_of
    from imharness.results.tables import several

    total = sum(len(graph.tasks) for graph in graphs)
    addresses = {key: task.address for graph in graphs for key, task in graph.tasks.items()}
    index = site / "index.html"
    if as_json:
        facts: dict[str, Any] = {"cells": total, "done": len(result.done), "reused": result.reused}
        facts |= {"failed": {addresses[key]: line for key, line in result.failed.items()}}
        facts |= {"winners": {board.track: _winner(board) for board in boards}}
        facts |= {"claims": {board.track: _claim(board) for board in boards}}
        facts |= {"findings": {board.track: _findings(board) for board in boards}}
        console.emit(facts | {"site": str(index)})
        return
    if result.failed:
        causes = causes_of(result.failed)
        rows = [(len(own.cells), own.cells[0][:12], addresses[own.cells[0]], own.why) for own in causes]
        title = f"{several(len(result.failed), 'cell')} failed; harness results list --failed shows each"
        console.table(title, ["cells", "first key", "first cell", "why"], rows[:SHOWN_CAUSES])
        if len(rows) > SHOWN_CAUSES:
            console.say(f"... and {len(rows) - SHOWN_CAUSES} more reasons")
    gaps = {m.what: m for board in boards for m in board.missing}
    if gaps:
        shown = [(m.what, m.reason, m.remedy) for m in gaps.values()]
        console.table("Unavailable", ["what", "why", "get it with"], shown)
    told = [(board.track, _winner(board) or "-", _claim(board)) for board in boards]
    console.table("Winners", ["track", "winner", "what the board says"], [list(map(printed, row)) for row in told])
    console.say(
        f"{len(result.done)} of {total} cells done ({result.reused} were already there), {len(result.failed)} failed"
    )
    left_out = sum(gap.reason.startswith(LEFT_OUT) for graph in graphs for gap in graph.missing.values())
    if left_out:
        console.say(f"{left_out:,} cells were left out by the budget; a larger one continues where this one ended")
    console.say(f"site: {index}")


def _winner(board: Board) -> str:
    """Return the winner of the first ranking, or "" without one: in a table, a control may come first."""
    return board.rankings[0].winner if board.rankings else ""


def _findings(board: Board) -> list[dict[str, Any]]:
    return [own.model_dump(mode="json") for ranking in board.rankings[:1] for own in ranking.findings]


def _claim(board: Board) -> str:
    if board.rankings:
        return board.rankings[0].claim
    main = board.tables[0] if board.tables and board.tables[0].rows else None
    if main is None:
        return ""
    column = next((c for c in main.columns if c.key == main.ranked_by), None)
    value = main.rows[0].values.get(main.ranked_by)
    if column is None or value is None or value.value is None:
        return ""
    said = f"first in the table: {main.rows[0].label}, {column.label} {value.value:.{column.decimals}f}"
    return said + (f", {column.count(value)}" if value.n else "")
