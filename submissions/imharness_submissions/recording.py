"""Records a run of a submission: the sealed report, what the store keeps of the package, and the ledger."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import torch

from imharness.documents.entries import FLAGGED, NOT_JUDGED, NOT_REPRODUCED
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_numbers
from imharness.documents.tables import several
from imharness.planning.plan import Graph
from imharness.results.identity import digest
from imharness.results.labels import id_of
from imharness.running.device import recorded_name
from imharness.running.sweep import RunResult
from imharness_submissions.copies import near_copies
from imharness_submissions.ledger import Decision, Ledger
from imharness_submissions.manifest import Claim
from imharness_submissions.report import (
    LATE,
    ChanceLevel,
    Checked,
    ClaimResult,
    GradientAudit,
    ReportedTask,
    SubmissionReport,
    is_late,
)
from imharness_submissions.run import Run
from imharness_submissions.sandbox.stored import SUBMISSIONS, StoredSubmission


@dataclass
class Findings:
    """The results of a run before its tables are made; what broke off is empty."""

    started: datetime
    seconds: float = 0.0
    suite_seed: int = 0
    conformance: Sequence[Checked] = ()
    gradient_audits: Sequence[GradientAudit] = ()
    chance_level: Sequence[ChanceLevel] = ()
    graphs: Sequence[Graph] = ()
    outcome: RunResult = field(default_factory=RunResult)


def report_of(run: Run, findings: Findings, leaderboards: Sequence[Leaderboard] = ()) -> SubmissionReport:
    """Return the sealed report."""
    package, outcome = run.opened.description, findings.outcome
    addresses = {key: task.address for graph in findings.graphs for key, task in graph.tasks.items()}
    gaps = {f"{gap.what}: {gap.reason}" for graph in findings.graphs for gap in graph.missing.values()}
    return SubmissionReport(
        name=run.name,
        manifest=digest(run.submission.model_dump(mode="json")),
        environment=package.environment,
        package=f"{package.distribution} {package.version}",
        isolation=run.opened.guest.level,
        started=findings.started.isoformat(timespec="seconds"),
        seconds=findings.seconds,
        profile=run.profile.name,
        limit=run.limit,
        seed=run.seed,
        suite_seed=findings.suite_seed,
        device=recorded_name(torch.device(run.device)),
        versions=_versions(),
        entries=tuple(component.label for component in run.opened.components),
        import_s=package.import_s,
        conformance=tuple(findings.conformance),
        gradient_audits=tuple(findings.gradient_audits),
        chance_level=tuple(findings.chance_level),
        attempts=tuple(dict.fromkeys([*run.look_alikes, *run.opened.guest.attempts, *_noted(run, findings)])),
        tasks=tuple(_tasks(run, findings)),
        failed={address: outcome.failed[key] for key, address in addresses.items() if key in outcome.failed},
        unavailable=tuple(sorted(gaps)),
        unjudged=tuple(_unjudged(run, findings)),
        copies=tuple(
            dict.fromkeys(
                line
                for leaderboard in leaderboards
                for line in near_copies(leaderboard, read_numbers(run.store, leaderboard), run.opened.ids)
            )
        ),
        ranking=tuple(dict.fromkeys(flagged_in(leaderboards, run.opened.ids))),
        claims=tuple(measured(claim, leaderboards) for claim in run.submission.claims),
    ).sealed()


def flagged_in(leaderboards: Sequence[Leaderboard], ids: Collection[str]) -> Iterator[str]:
    """Yield a line for each flag of the rankings on an entry with a component of `ids`, without earlier decisions.

    Where no entry can be judged, flags say nothing of these.
    """
    decided = tuple(f"{decision}: " for decision in (FLAGGED, NOT_REPRODUCED, NOT_JUDGED))
    for ranking in (each for leaderboard in leaderboards for each in leaderboard.rankings if not each.void):
        for label, position in ranking.places.items():
            if any(id_of(component) in ids for component in label.split(" + ")):
                yield from (f"{label}: {flag}" for flag in position.flags if not flag.startswith(decided))


def _unjudged(run: Run, findings: Findings) -> Iterator[str]:
    """Yield what took too long twice."""
    yield from run.unjudged
    yield from (f"{c.component}: {c.check}: {c.message}" for c in findings.conformance if c.status == LATE)
    late = [line for line in findings.outcome.failed.values() if is_late(line)]
    if late:
        yield f"{several(len(late), 'task')}: {late[0]}"


def _noted(run: Run, findings: Findings) -> Iterator[str]:
    """Yield the forbidden things that the package tried while tasks were computed."""
    ended = findings.outcome.done | findings.outcome.failed.keys()
    for graph in findings.graphs:
        for key in sorted(graph.tasks.keys() & ended):
            record = run.store.record(key)
            yield from record.notes if record is not None else ()


def _tasks(run: Run, findings: Findings) -> Iterator[ReportedTask]:
    """Yield the finished tasks that use an entry."""
    ids = set(run.opened.ids)
    for graph in findings.graphs:
        for key, task in graph.tasks.items():
            submitted = any(ref.id in ids for ref in task.spec.components.values())
            record = run.store.record(key) if submitted and key in findings.outcome.done else None
            if record is not None:
                yield ReportedTask(address=f"{graph.track.info.id} {task.address}", key=key, seal=record.seal)


def measured(claim: Claim, leaderboards: Sequence[Leaderboard]) -> ClaimResult:
    """Return a claim with the number that the tables hold; the claim does not hold where there is none."""
    tables = [table for each in leaderboards if each.track == claim.track for table in each.tables]
    rows = [row for table in tables if table.id == claim.table for row in table.rows if row.label == claim.row]
    value = next((row.values[claim.column].value for row in rows if claim.column in row.values), None)
    return ClaimResult(
        what=f"{claim.row}: {claim.column} of {claim.table} ({claim.track})",
        claimed=claim.value,
        measured=value,
        tolerance=claim.tolerance,
        holds=value is not None and abs(value - claim.value) <= claim.tolerance,
    )


def _versions() -> dict[str, str]:
    names = ("image-privacy-harness", "torch", "numpy", "scipy", "pydantic", "safetensors")
    return {name: importlib.metadata.version(name) for name in names}


def store_submission(run: Run, report: SubmissionReport) -> None:
    """Write manifest, package description and report into the store; the tables need the description."""
    stored = StoredSubmission(
        name=run.name,
        manifest=run.submission.model_dump(mode="json"),
        lock=run.lock,
        folder=str(run.folder.resolve()),
        description=run.opened.description,
        report=report.model_dump(mode="json"),
    )
    run.store.replace(f"{SUBMISSIONS}/{run.name}.json", stored)


def write_ledger(run: Run, report: SubmissionReport) -> None:
    """Write the outcome into the ledger: added or re-scored, or refused where a run that broke off has no task.

    Further lines say why it is not judged yet, and why it is flagged. Flags of the rankings are no decisions: they hold
    as long as the rankings have them.
    """
    ledger = Ledger(run.store.address)
    earlier = any(line.name == run.name and line.decision == "added" for line in ledger.lines())
    decision: Decision = "re-scored" if earlier else "added"
    if run.broken and not report.tasks:
        decision = "refused"
    manifest = run.submission.model_dump(mode="json")
    if run.submission.package.file:
        manifest["package"]["file"] = str((run.folder / run.submission.package.file).resolve())
    text = f"{len(report.tasks)} tasks, isolation {report.isolation}"
    strongest = [audit.worst for audit in report.gradient_audits if audit.worst is not None]
    if strongest:
        worst = max(strongest, key=lambda gain: gain.gain)
        text += f"; strongest trial attack: {worst.attack} with {worst.way}, {worst.gain:.3f} of the score's range"
    ledger.append(run.name, run.opened.ids, decision, text, report=report.seal, manifest=manifest, lock=run.lock)
    flags = report.model_copy(update={"ranking": ()}).flags()
    if report.unjudged:
        ledger.append(run.name, run.opened.ids, NOT_JUDGED, "; ".join(report.unjudged)[:1500], report=report.seal)
    if flags:
        ledger.append(run.name, run.opened.ids, "flagged", "; ".join(flags)[:1500], report=report.seal)
