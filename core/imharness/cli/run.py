"""`harness run`: plan, compute, rank, publish."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
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
from imharness.errors import Unavailable, UsageError
from imharness.running.views import short

SHOWN_CAUSES = 30
"""How many reasons of failed tasks are printed."""
COMMAND = 37
"""The width of the column of commands on the last screen, in characters; a longer command moves its purpose right."""
if TYPE_CHECKING:
    from imharness.documents.leaderboards import Leaderboard
    from imharness.planning.plan import Graph
    from imharness.running.sweep import RunResult
    from imharness.running.views import View


def _selectors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``--attack``, ``--defense`` and so on, which narrow the profile's selection."""
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
    help="Number of processes; 0 computes in this one. Default: as many per GPU as the profile says, and one per core "
    "(at most 8) where the CPU computes.",
)
@click.option(
    "--executor", default="local", show_default=True, metavar="NAME", help="Executor: what computes the tasks."
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
    help="Run only what fits into this time of one worker, such as 90m or 40h; every entry gets a few tasks first. "
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
    **selectors_and_settings: Any,
) -> None:
    """Compute the tasks of one or more tracks, rank the entries and build the site."""
    if not everything and not tracks:
        raise UsageError("say what to run: --all or --track NAME.")
    if everything and tracks:
        raise UsageError("--all runs every track of the profile, --track only the named ones; give one of the two.")
    from imharness.cli.planning import dry_run_report
    from imharness.cli.progress import view_of
    from imharness.components.registry import installed
    from imharness.contracts.assets import add_folder
    from imharness.documents.findings import cannot_win
    from imharness.planning.selection import refuse_missing, refuse_unused, with_precision
    from imharness.ranking.entries import other_code
    from imharness.ranking.listeners import open_listeners
    from imharness.results.store import Store
    from imharness.running.device import resolve_devices
    from imharness.running.executor import find_executor
    from imharness.running.session import Session
    from imharness.running.views import Watcher
    from imharness.testing.examination import examine

    if assets:
        add_folder(assets.resolve())
    begun = time.monotonic()
    find_executor(executor)  # this and the next lines refuse wrong options before anything is planned
    listeners = open_listeners(log_to)
    settings = executor_settings(click.get_current_context())
    resolve_devices(devices)
    only = {kind: selectors_and_settings[kind] for kind in SELECTABLE}
    setup, registry = profile_of(profile, secret, address), installed()
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
        devices=devices,
        workers=workers,
        settings=settings,
    )
    names = None if everything else tracks
    graphs = session.plan(names, only=only)
    refuse_unused(graphs, registry, only)
    if sentence := session.said_of_limit(graphs):
        console.warn(sentence)
    if not dry_run:
        refuse_missing(graphs, registry, only)
    session.keep_to(budget, graphs, fresh=fresh)
    if dry_run:
        plan_whole = partial(session.plan, names, only=only, whole=True)
        processes = session.processes(graphs)
        dry_run_report(
            graphs, session.store, session.times, processes, as_json, plan_whole, fresh=fresh, profile=profile
        )
        return
    for label, failed_checks in examine(session.store, registry, graphs, seed).items():
        console.warn(f"{label} {cannot_win(failed_checks)}")
    style = console.progress_form(form, quiet=as_json)
    watcher = Watcher(
        view_of(style),
        [_served(metrics)] if metrics else [],
        note=console.note if style in ("bar", "plain") else lambda line: None,
        warn=console.warn,
        listeners=listeners,
    )
    ran = session.run(graphs, site=site_dir, fresh=fresh, watcher=watcher)
    for line in (line for leaderboard in ran.leaderboards for line in other_code(leaderboard, registry)):
        console.warn(line)
    _report(graphs, ran.leaderboards, ran.result, site_dir, address, time.monotonic() - begun, as_json)
    if ran.result.failed:
        sys.exit(1)


def _report(
    graphs: Sequence[Graph],
    leaderboards: Sequence[Leaderboard],
    result: RunResult,
    site: Path,
    address: str,
    seconds: float,
    as_json: bool,
) -> None:
    """Print what a run computed: failures, the rankings of each track, totals, and what to do next; or all as JSON."""
    from imharness.cli.standings import heading, legend, rule, screen_width, track_lines
    from imharness.documents.tables import several
    from imharness.results.sweeps import causes_of

    total = sum(len(graph.tasks) for graph in graphs)
    addresses = {key: task.address for graph in graphs for key, task in graph.tasks.items()}
    index = site / "index.html"
    if as_json:
        facts: dict[str, Any] = {"tasks": total, "done": len(result.done), "reused": result.reused}
        facts |= {"failed": {addresses[key]: line for key, line in result.failed.items()}}
        facts |= {"headlines": {leaderboard.track: _headlines(leaderboard) for leaderboard in leaderboards}}
        facts |= {"findings": {leaderboard.track: _findings(leaderboard) for leaderboard in leaderboards}}
        console.emit(facts | {"site": str(index)})
        return
    if result.failed:
        causes = causes_of(result.failed)
        rows = [(len(cause.tasks), cause.tasks[0][:12], addresses[cause.tasks[0]], cause.why) for cause in causes]
        title = f"{several(len(result.failed), 'task')} failed; harness results list --failed shows each"
        console.table(title, ["tasks", "first key", "first task", "why"], rows[:SHOWN_CAUSES])
        if len(rows) > SHOWN_CAUSES:
            console.say(f"... and {len(rows) - SHOWN_CAUSES} more reasons")
    width = screen_width(console.out.width)
    console.say("")
    console.screen(heading(leaderboards, width))
    for leaderboard in leaderboards:
        console.screen(track_lines(leaderboard, width))
    console.screen([rule(width)])
    console.screen(legend(leaderboards, width))
    for line in _totals(graphs, leaderboards, result, total, seconds):
        console.say(f" {line}")
    console.screen(_next(graphs, leaderboards, site, address))


def _totals(
    graphs: Sequence[Graph], leaderboards: Sequence[Leaderboard], result: RunResult, total: int, seconds: float
) -> Iterator[str]:
    """Yield how much was computed, and what is missing."""
    from imharness.documents.tables import several
    from imharness.ranking.current import BEHIND, CHANGED
    from imharness.results.sweeps import LEFT_OUT

    failed = f"{len(result.failed):,} failed" if result.failed else "none failed"
    reused = f", {result.reused:,} were there before" if result.reused else ""
    minutes, rest = divmod(round(seconds), 60)
    missing = (gap for leaderboard in leaderboards for gap in leaderboard.missing)
    gaps = {gap.what for gap in missing if gap.reason not in (CHANGED, BEHIND)}
    lacking = f" {several(len(gaps), 'component')} not available here: harness doctor" if gaps else ""
    yield f"{several(total, 'task')} in {minutes}:{rest:02}, {failed}{reused}.{lacking}"
    left_out = sum(gap.reason.startswith(LEFT_OUT) for graph in graphs for gap in graph.missing.values())
    if left_out:
        yield f"{left_out:,} tasks were left out by the budget; a larger one continues where this one ended"


def _next(
    graphs: Sequence[Graph], leaderboards: Sequence[Leaderboard], site: Path, address: str
) -> Iterator[tuple[str, str]]:
    """Yield what a reader may want to do next, as lines with a style: commands that can be copied as they are."""
    store_words = "" if address == "store" else f" --store {shlex.quote(address)}"
    site_words = "" if site == Path("site") else f" --site {shlex.quote(str(site))}"
    commands = [(f"harness site serve{site_words}", "look at all of it")]
    if leaderboards:
        track = short(leaderboards[0].track)
        commands.append((f"harness results rank --track {track}{store_words}", "the whole table and findings"))
    commands += dict.fromkeys(graph.track.next_command for graph in graphs if graph.track.next_command)
    commands.append(("harness plugins new defense acme/mine", "your method on this leaderboard"))
    for number, (command, purpose) in enumerate(commands):
        yield f" {'NEXT' if not number else '':<4}  {command:<{COMMAND}}  {purpose}", ""


def _headlines(leaderboard: Leaderboard) -> list[dict[str, str]]:
    return [
        {"table": ranking.table, "outcome": ranking.outcome, "winner": ranking.winner, "claim": ranking.claim}
        for ranking in leaderboard.rankings
    ]


def _findings(leaderboard: Leaderboard) -> list[dict[str, Any]]:
    return [finding.model_dump(mode="json") for ranking in leaderboard.rankings for finding in ranking.findings]


def _served(address: str) -> View:
    """Return the view that serves the progress of a run to Prometheus at ``[HOST:]PORT``."""
    try:
        from imharness.running.metrics import Metrics
    except ModuleNotFoundError as error:
        remedy = "pip install 'image-privacy-harness[prometheus]'"
        raise Unavailable(f"--metrics-port: the package {error.name} is not installed", remedy) from None
    return Metrics(address)
