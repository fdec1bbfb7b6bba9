"""`harness submissions`: takes packages of strangers from manifest to leaderboard, without trusting their code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from imharness.cli import console
from imharness.cli.executors import executor_options, executor_settings
from imharness.cli.options import (
    Choice,
    Group,
    device_option,
    json_option,
    limit_option,
    seed_option,
    site_option,
    store_option,
)
from imharness.cli.secret import profile_of, secret_option
from imharness.errors import HarnessError, UsageError, unknown_name

if TYPE_CHECKING:
    from imharness.contracts.track import Progress
    from imharness.running.views import View
    from imharness_submissions.ledger import Decision, Ledger, Line
    from imharness_submissions.report import SubmissionReport

_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
_store = store_option("address")
_site = site_option()
_json = json_option()
_trust = click.option("--trust", is_flag=True, help="Run the package without a sandbox: it can do all that you can.")


@click.group(cls=Group)
def submissions() -> None:
    """Write, check, run and judge submissions; their code runs in a sandbox."""


@submissions.command()
@click.argument("name")
@click.option(
    "--wheel",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    metavar="FILE",
    help="The wheel of the package.",
)
@click.option(
    "--dir",
    "parent",
    type=click.Path(path_type=Path, file_okay=False),
    default="submissions",
    show_default=True,
    metavar="FOLDER",
    help="The manifest is written to FOLDER/NAME/submission.toml.",
)
@_trust
def new(name: str, wheel: Path, parent: Path, trust: bool) -> None:
    """Write submissions/NAME/submission.toml for the package in a wheel.

    Facts that the package contains are filled in; you write contact, training data and claims, and authors where the
    package names none.
    """
    from imharness_submissions.starting import start_submission, to_fill_in

    folder = start_submission(name, wheel, parent, trusted=trust)
    console.say(f"{folder}/submission.toml: {to_fill_in(folder)}, then:")
    console.say(f"harness submissions validate {folder}")


@submissions.command()
@_folder
@_trust
@_json
@click.option("--static", is_flag=True, help="Read the manifest only; fetch and start nothing.")
def validate(folder: Path, trust: bool, as_json: bool, static: bool) -> None:
    """Check the manifest in FOLDER, fetch the package that it pins, start it in the sandbox, and find its entries."""
    from imharness_submissions.manifest import read_lock, read_manifest

    submission, lock = read_manifest(folder), read_lock(folder)
    facts: dict[str, object] = {"name": folder.resolve().name, "requirements": len(lock)}
    facts["entries"] = [entry.label for entry in submission.entries]
    if not static:
        from imharness_submissions.opening import open_submission

        opened = open_submission(folder, submission, trusted=trust)
        try:
            package = opened.description
            facts |= {"isolation": opened.guest.level, "package": f"{package.distribution} {package.version}"}
            facts["left_out"] = [" ".join(pair) for pair in package.left_out]
        finally:
            opened.guest.kill()
    if submission.package.file:
        console.warn(
            "the package is a local file; a pull request needs an index, an address or a repository with a commit"
        )
    if as_json:
        console.emit(facts)
        return
    console.table(
        "Valid", ["", ""], [(k, ", ".join(map(str, v)) if isinstance(v, list) else v) for k, v in facts.items()]
    )


@executor_options
@submissions.command()
@_folder
@_store
@_site
@click.option(
    "--profile", default="embedded", show_default=True, metavar="NAME|FILE.toml", help="Profile: what to run."
)
@device_option()
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes; 0 computes in this one.",
)
@click.option(
    "--executor", default="local", show_default=True, metavar="NAME", help="Executor: what computes the tasks."
)
@seed_option()
@limit_option()
@secret_option
@click.option(
    "--summary",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a summary in Markdown here.",
)
@_trust
@_json
def run(
    folder: Path,
    address: str,
    site_dir: Path,
    profile: str,
    device: str,
    workers: int,
    executor: str,
    seed: int,
    limit: int | None,
    secret: Path | None,
    summary: Path | None,
    trust: bool,
    as_json: bool,
    **_others: Any,
) -> None:
    """Run the submission in FOLDER in the sandbox, judge and rank it; exit 1 when it is flagged or not judged yet."""
    from imharness.cli.commands import build_site
    from imharness.results.store import Store
    from imharness.running.device import resolve_devices
    from imharness.running.executor import find_executor
    from imharness_submissions.report import markdown
    from imharness_submissions.run import Run
    from imharness_submissions.running import run_submission

    find_executor(executor)
    settings = executor_settings(click.get_current_context())
    store = Store(address)
    store.prepare()
    if trust:
        console.warn("--trust: the package runs without a sandbox and can do all that you can")
    submission_run = Run(
        folder,
        store,
        profile_of(profile, secret, address),
        device=resolve_devices([device])[0],
        workers=workers,
        seed=seed,
        limit=limit,
        trusted=trust,
        command=shlex.join(["harness", *sys.argv[1:]]),
        executor=executor,
        settings=settings,
    )
    with _stages(visible=not as_json) as (watch, view):
        report = run_submission(submission_run, watch, view, lambda line: None if as_json else console.say(line))
    if summary is not None:
        summary.write_text(markdown(report), encoding="utf-8")
    build_site(address, site_dir)
    _show(report, as_json)
    if not as_json:
        console.say(f"{site_dir / 'index.html'}")
    sys.exit(1 if report.flags() or report.unjudged else 0)


@contextmanager
def _stages(*, visible: bool) -> Iterator[tuple[Callable[[str], Progress], Callable[[], View]]]:
    """Yield what opens the bar of a stage by its title, and what opens a view of tasks; each ends the bar before it."""
    from imharness.cli.progress import view_of

    with ExitStack() as stack:

        def start(title: str) -> Progress:
            stack.close()
            return stack.enter_context(console.progress(title, visible=visible))

        def tasks() -> View:
            stack.close()
            return view_of(console.progress_form("auto", quiet=not visible))

        yield start, tasks


def _show(report: SubmissionReport, as_json: bool) -> None:
    flags = report.flags()
    if as_json:
        console.emit({"report": report.model_dump(mode="json"), "flags": list(flags)})
        return
    facts = [
        ("package", report.package),
        ("entries", ", ".join(report.entries)),
        ("isolation", report.isolation),
        ("tasks", f"{len(report.tasks)} done, {len(report.failed)} failed, {len(report.unavailable)} unavailable"),
        ("conformance", report.suite()),
        ("report", report.seal),
    ]
    console.table(report.name, ["", ""], facts)
    for audit in (gradient_audit for gradient_audit in report.gradient_audits if gradient_audit.gains):
        rows = [(g.way, g.attack, f"{g.gain:.4f}", f"more than {audit.read}" if g.higher else "") for g in audit.gains]
        title = f"{audit.component}: gain of attacks on {audit.metric}"
        console.table(title, ["way", "attack", "gain", ""], rows)
    if report.claims:
        claim_rows = [
            (c.what, f"{c.claimed:g}", c.measured, "holds" if c.holds else "does not hold") for c in report.claims
        ]
        console.table("Claims", ["what", "claimed", "measured", ""], claim_rows)
    if flags:
        console.table("Flagged", ["why"], [(flag,) for flag in flags])
    if report.unjudged:
        console.table(
            "Not judged yet: run it again, with a higher time_limit_s", ["why"], [(x,) for x in report.unjudged]
        )


@submissions.command()
@click.argument("name")
@_store
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the summary for a pull request.")
@_json
def report(name: str, address: str, as_markdown: bool, as_json: bool) -> None:
    """Show the report of the last run of NAME, a submission; a report that was changed is refused."""
    from imharness.results.store import Store
    from imharness_submissions.report import SubmissionReport, markdown
    from imharness_submissions.sandbox.stored import SUBMISSIONS, read_submission

    store = Store(address)
    names = store.names(SUBMISSIONS)
    if name not in names:
        raise UsageError(unknown_name(f"store {address} has no submission {name!r}", name, names, "It has"))
    submission_report = SubmissionReport.model_validate(read_submission(store, name).report)
    if submission_report.seal != submission_report.expected_seal():
        raise HarnessError(f"report of {name} in {address} was changed after it was written: its seal does not match")
    if not any(line.report == submission_report.seal for line in _lines(address)):
        raise HarnessError(f"report of {name} in {address}: the ledger does not know it")
    if as_markdown:
        click.echo(markdown(submission_report))
    else:
        _show(submission_report, as_json)


def _lines(address: str) -> list[Line]:
    from imharness_submissions.ledger import Ledger

    return Ledger(address).lines()


@submissions.command()
@click.argument("name")
@click.argument("decision", type=Choice(["accepted", "flagged", "withdrawn", "added"]))
@click.option("--reason", required=True, metavar="TEXT", help="Why; shown on the site.")
@_store
@_site
def decide(name: str, decision: Decision, reason: str, address: str, site_dir: Path) -> None:
    """Write a maintainer's decision on NAME into the ledger, and make the tables and the site again.

    "accepted" lets its metrics, attacks and evaluators decide ranks of other owners' entries, until it is scored
    again, flagged or withdrawn. Read its code before.
    """
    from imharness.cli.commands import build_site
    from imharness.ranking.entries import rank
    from imharness.results.store import Store
    from imharness_submissions.ledger import Ledger

    ledger, store = Ledger(address), Store(address)
    _append(ledger, name, decision, reason)
    list(rank(store))
    build_site(address, site_dir)
    console.say(f"{name}: {decision}")


def _append(ledger: Ledger, name: str, decision: Decision, reason: str) -> None:
    """Write a decision about a submission, or the acceptance of an installed component, which is named by its id."""
    from imharness.components.registry import installed
    from imharness_submissions.manifest import Submission
    from imharness_submissions.owners import look_alikes

    lines = [line for line in ledger.lines() if line.manifest is not None]
    before = [line for line in lines if line.name == name]
    if not before and decision == "accepted" and name in installed().ids():
        ledger.append(name, (name,), decision, reason)
        return
    if not before:
        names = sorted({line.name for line in lines})
        raise UsageError(unknown_name(f"the ledger has no submission {name!r}", name, names, "It has"))
    last, again = before[-1], decision == "added"
    if again:  # the name may belong to another contact by now, which `look_alikes` refuses
        list(look_alikes(Submission.model_validate(last.manifest), ledger, name))
    ledger.append(
        name,
        last.ids,
        decision,
        reason,
        report=last.report,
        manifest=last.manifest if again else None,
        lock=last.lock if again else (),
    )


@submissions.command()
@_store
@_json
@click.option(
    "--against",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Check against data/results.json of a published site, too, which counts decisions. Default: do not.",
)
def ledger(address: str, as_json: bool, against: Path | None) -> None:
    """List every decision about entries, and check that none was changed or removed.

    The tables of the store, and of a published site, say how many decisions they know and how the last was sealed.
    With HARNESS_LEDGER_KEY, the name of a file with the maintainer's key, every decision must be marked with it.
    """
    from imharness.cli.stores import existing
    from imharness.documents.stored import read_leaderboard
    from imharness.results.store import Store
    from imharness_submissions.ledger import Ledger, published

    store_ledger = Ledger(address)
    lines = store_ledger.lines()
    store = Store(address) if lines else existing(address)
    leaderboards = [
        leaderboard for track in store.ranked() if (leaderboard := read_leaderboard(store, track)) is not None
    ]
    store_ledger.check_begins_with(
        [leaderboard.decided for leaderboard in leaderboards if leaderboard.decided is not None], "the store's tables"
    )
    if against is not None:
        store_ledger.check_begins_with(published(against), str(against))
    if as_json:
        console.emit({"decisions": [line.model_dump(mode="json") for line in lines]})
        return
    rows = [(line.number, line.date, line.name, line.decision, line.reason[:200]) for line in lines]
    console.table(
        f"{len(rows)} decision{'' if len(rows) == 1 else 's'}", ["", "date", "submission", "decision", "why"], rows
    )


@submissions.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@_store
@_site
@click.option(
    "--profile", default="embedded", show_default=True, metavar="NAME|FILE.toml", help="Profile: what to run."
)
@limit_option()
@secret_option
def rebuild(file: Path, address: str, site_dir: Path, profile: str, limit: int | None, secret: Path | None) -> None:
    """Build the leaderboard again from a ledger, FILE, alone: run each of its submissions into another store.

    Submissions that cannot be run are reported and skipped; the exit code is then 1.
    """
    from imharness.cli.commands import build_site
    from imharness.results.storage import absolute
    from imharness.results.store import Store
    from imharness_submissions.ledger import FILE, Ledger
    from imharness_submissions.run import Run
    from imharness_submissions.running import run_submission
    from imharness_submissions.starting import write_manifest

    if str(file.resolve()) == f"{absolute(address)}/{FILE}":
        raise UsageError("FILE is the ledger of this store; choose another --store.")
    lost, lines = 0, Ledger(file.parent, file.name).active()
    if not lines:
        raise UsageError(f"{file} has no submission to run; give the file {FILE} of a store.")
    store = Store(address)
    store.prepare()
    for line in lines:
        try:
            with TemporaryDirectory() as workspace, _stages(visible=True) as (watch, view):
                folder = write_manifest(line, Path(workspace))
                run = Run(folder, store, profile_of(profile, secret, address), workers=1, limit=limit)
                rebuilt = run_submission(run, watch, view)
        except HarnessError as error:
            console.warn(f"{line.name}: {error}")
            lost += 1
            continue
        console.say(f"{line.name}: {len(rebuilt.tasks)} tasks, {len(rebuilt.flags())} flags")
    build_site(address, site_dir)
    sys.exit(1 if lost else 0)
