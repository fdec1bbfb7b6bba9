"""Runs a submission: checks it, computes its cells, attacks its defenses, compares its claims, and writes a report."""

from __future__ import annotations

import importlib.metadata
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from imharness.contracts.component import Component
from imharness.contracts.membership_evaluator import MembershipEvaluator
from imharness.contracts.purification import Purification
from imharness.contracts.track import Progress
from imharness.errors import HarnessError, StoreError, Unavailable
from imharness.planning.plan import Graph
from imharness.planning.profile import Profile
from imharness.planning.secret import digest_of
from imharness.ranking.entries import known_entries
from imharness.reading.text import plain
from imharness.results.boards import Board
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.running.device import device_name
from imharness.running.session import Session
from imharness.running.sweep import RunResult
from imharness.running.views import Nothing, View
from imharness.testing import CheckResult, check_component
from imharness_submissions.deadline import Deadline
from imharness_submissions.evaluator_audit import untold
from imharness_submissions.gradient_audit import TrialAttacks, examine
from imharness_submissions.ledger import Decision, Ledger
from imharness_submissions.manifest import Claim, read_lock, read_manifest
from imharness_submissions.metric_audit import claims_a_gradient, examine_metric
from imharness_submissions.opening import RunningSubmission, open_submission
from imharness_submissions.owners import look_alikes
from imharness_submissions.planned import by_kind, ids_of, only_with, split_of, with_tasks
from imharness_submissions.report import Checked, ClaimResult, GradientAudit, ReportedCell, SubmissionReport, Untold
from imharness_submissions.sandbox.stored import SUBMISSIONS, StoredSubmission
from imharness_submissions.sandbox.worker import guest_beside
from imharness_submissions.standings import refresh_standing
from imharness_submissions.store_secret import secret_of

SLOW_IMPORT_S = 10.0
"""A package that takes longer to import is flagged, s."""


class Run:
    """One run of one submission into a store."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        profile: Profile,
        *,
        device: str = "cpu",
        workers: int = 0,
        seed: int = 0,
        limit: int | None = None,
        trusted: bool = False,
        command: str = "",
        executor: str = "local",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self.store, self.profile, self.seed, self.limit = folder, store, profile, seed, limit
        self.name = folder.resolve().name
        self.submission = read_manifest(folder)
        self.device = device if self.submission.hardware.gpu else "cpu"
        self.lock = tuple(read_lock(folder))
        self.hides = profile.secret or secret_of(store)
        """From what the streams of the package follow, and the split of its evaluators."""
        self._controls: dict[tuple[str, str], bool] = {}
        self.broken = False
        """Whether a stage of the run broke off."""
        ledger = Ledger(store.address)
        try:
            self.alike = list(look_alikes(self.submission, ledger, self.name))
            self.opened: RunningSubmission = open_submission(
                folder, self.submission, trusted=trusted, secret=profile.secret, hides=self.hides
            )
        except Unavailable:
            raise
        except Exception as error:  # whatever a package makes of its opening, the ledger says why it was refused
            reason = f"the package cannot be used: {_line(error)}"
            ledger.append(self.name, (), "refused", reason)
            if isinstance(error, HarnessError):
                raise
            raise HarnessError(reason) from error
        self.guessing = [c for c in self.opened.components if isinstance(c, MembershipEvaluator)]
        """The entries that are measured on the split of the store's secret."""
        self.session = Session(
            store,
            profile,
            self.opened.registry,
            seed,
            limit,
            command,
            executor,
            [self.device],
            workers,
            settings,
        )
        self.apart = self.session
        if self.guessing and not profile.secret:
            self.apart = replace(self.session, profile=profile.model_copy(update={"secret": self.hides}))

    @contextmanager
    def noting(self, stage: str) -> Iterator[None]:
        """Note an error of the package's making, so that the report names it; the store's own errors go through."""
        try:
            yield
        except (StoreError, Unavailable):
            raise
        except Exception as error:  # a stranger's outputs may break whatever is computed from them
            self.broken = True
            self.opened.guest.note([f"{stage} broke off: {_line(error)}"])

    def conformance(self, advance: Progress) -> tuple[int, list[Checked]]:
        """Run the conformance suite on each entry with fresh inputs; return the seed of the inputs and the results.

        The suite runs in this process and calls the entries in the sandbox.
        """
        drawn, found = secrets.randbelow(2**31), list[Checked]()
        for number, component in enumerate(self.opened.components):
            with self._time_of_a_cell():
                found += map(reported, check_component(component, drawn))
            advance(number + 1, len(self.opened.components))
        self._ended()
        return drawn, [*found, *self._imports()]

    def _imports(self) -> Iterator[Checked]:
        took = self.opened.description.import_s
        slow = took > SLOW_IMPORT_S
        yield Checked(
            component=self.opened.description.distribution,
            check="is imported quickly",
            status="failed" if slow else "passed",
            message=f"{took:.2f} s" + (f"; at most {SLOW_IMPORT_S:g}: load weights in build" if slow else ""),
        )

    def _time_of_a_cell(self) -> Deadline:
        """Let an entry take as long as a cell may: each of its calls has a limit, and their number has none."""
        return Deadline(self.opened.guest, self.profile.time_limit_s)

    def _ended(self) -> None:
        try:
            self.opened.guest.end_task(False)
        except HarnessError as error:
            self.opened.guest.note([str(error)])

    def plan(self) -> list[Graph]:
        """Return the graphs of the cells that use the entries, with the tasks that these cells need.

        Cells of evaluators, and what they need, are those of the store's secret (`imharness_submissions.store_secret`).
        """
        others = [c for c in self.opened.components if c not in self.guessing]
        graphs = [
            only_with(graph, ids_of(others), self._is_control) for graph in self.session.plan(further=by_kind(others))
        ]
        if self.guessing:
            hidden = self.apart.plan(further=by_kind(self.guessing))
            own = [only_with(graph, ids_of(self.guessing), None) for graph in hidden]
            graphs = [with_tasks(*pair) for pair in zip(graphs, own, strict=True)]
        return [graph for graph in graphs if graph.tasks or graph.missing]

    def _is_control(self, ref: ComponentRef) -> bool:
        place = (ref.kind, ref.label)
        if place not in self._controls:
            self._controls[place] = bool(self.opened.registry.revive(ref).control)
        return self._controls[place]

    def compute(self, graphs: Sequence[Graph], view: Callable[[], View] = Nothing) -> RunResult:
        """Compute the cells that the store lacks. Each worker starts the package in a sandbox of its own.

        It is like the one that has run until now, which has learnt what the package imports. `view` opens what shows
        how far the computation is; cells on the store's secret split are shown after the others.
        """
        prepare = [guest_beside(self.opened.guest, self.opened.description, self.profile.secret)]
        found = RunResult()
        for session in [self.session] if self.apart is self.session else [self.session, self.apart]:
            session.prepare = prepare
            own = [split_of(graph, digest_of(session.profile.secret)) for graph in graphs]
            result = session.compute(own, view(), noted=True)
            found.done |= result.done
            found.failed |= result.failed
            found.reused += result.reused
            found.warnings += result.warnings
        return found

    def audit_gradients(self, advance: Progress) -> list[GradientAudit]:
        """Compare the gradients of purifications with attacks that do without them, those of metrics with queries."""
        registry, device = self.opened.registry, torch.device(self.device)
        defenses = [c for c in self.opened.components if isinstance(c, Purification)]
        examined: list[tuple[Component, Callable[[], GradientAudit | None]]] = []
        if defenses:
            trial = TrialAttacks(registry, self.profile, device)
            examined += [(c, partial(examine, c, trial, self.seed)) for c in defenses]
        metrics = [c for c in self.opened.components if claims_a_gradient(c)]
        examined += [(c, partial(examine_metric, c, registry, self.profile, device)) for c in metrics]
        if not examined:
            return []
        self.opened.guest.kill()  # one that starts again is no older than those of cells
        found = []
        for number, (component, work) in enumerate(examined):
            try:
                with self._time_of_a_cell():
                    found.append(work())
            except Exception as error:  # an output that no contract allows breaks what is computed from it, too
                self.opened.guest.note([f"{component.label}: could not be attacked: {_line(error)}"])
            advance(number + 1, len(examined))
        self._ended()
        return [audit for audit in found if audit is not None]

    def report(self, found: Findings, boards: Sequence[Board]) -> SubmissionReport:
        """Return the sealed report."""
        package = self.opened.description
        return SubmissionReport(
            name=self.name,
            manifest=digest(self.submission.model_dump(mode="json")),
            environment=package.environment,
            package=f"{package.distribution} {package.version}",
            isolation=self.opened.guest.level,
            started=found.started.isoformat(timespec="seconds"),
            seconds=found.seconds,
            profile=self.profile.name,
            limit=self.limit,
            seed=self.seed,
            suite_seed=found.suite_seed,
            device=device_name(torch.device(self.device)),
            versions=_versions(),
            entries=tuple(c.label for c in self.opened.components),
            import_s=package.import_s,
            conformance=tuple(found.conformance),
            gradient_audits=tuple(found.gradient_audits),
            untold=tuple(found.untold),
            attempts=tuple(dict.fromkeys([*self.alike, *self.opened.guest.attempts, *self._noted(found)])),
            cells=tuple(self._cells(found.graphs, found.outcome)),
            failed=_failed(found),
            unavailable=tuple(sorted({f"{m.what}: {m.reason}" for g in found.graphs for m in g.missing.values()})),
            claims=tuple(measured(claim, boards) for claim in self.submission.claims),
        ).sealed()

    def _noted(self, found: Findings) -> Iterator[str]:
        """Yield the forbidden things that the package tried while cells were computed."""
        for graph in found.graphs:
            for key in sorted(graph.tasks.keys() & (found.outcome.done | found.outcome.failed.keys())):
                record = self.store.record(key)
                yield from record.notes if record is not None else ()

    def _cells(self, graphs: Sequence[Graph], outcome: RunResult) -> Iterator[ReportedCell]:
        ids = set(self.opened.ids)
        for graph in graphs:
            for key, task in graph.tasks.items():
                own = any(ref.id in ids for ref in task.spec.components.values())
                record = self.store.record(key) if own and key in outcome.done else None
                if record is not None:
                    yield ReportedCell(address=f"{graph.track.info.id} {task.address}", key=key, seal=record.seal)

    def keep(self, report: SubmissionReport) -> None:
        """Write manifest, package description and report into the store; the tables need the description."""
        manifest = self.submission.model_dump(mode="json")
        stored = StoredSubmission(
            name=self.name,
            manifest=manifest,
            lock=self.lock,
            folder=str(self.folder.resolve()),
            description=self.opened.description,
            report=report.model_dump(mode="json"),
        )
        self.store.replace(f"{SUBMISSIONS}/{self.name}.json", stored)


@dataclass
class Findings:
    """The results of a run before its tables are made; what broke off is empty."""

    started: datetime
    seconds: float = 0.0
    suite_seed: int = 0
    conformance: Sequence[Checked] = ()
    gradient_audits: Sequence[GradientAudit] = ()
    untold: Sequence[Untold] = ()
    graphs: Sequence[Graph] = ()
    outcome: RunResult = field(default_factory=RunResult)


def run_submission(run: Run, watch: Callable[[str], Progress], view: Callable[[], View] = Nothing) -> SubmissionReport:
    """Run a submission, write the ledger, and return the report; the sandbox is ended whatever happens.

    A stage that breaks off stands in the report and is flagged. `watch` takes the title of a stage and returns the
    function that shows its progress; `view` opens what shows that of the cells. Raises `HarnessError` when no track of
    the profile takes any of the entries.
    """
    clock, found = time.perf_counter(), Findings(datetime.now(UTC))
    boards: list[Board] = []
    try:
        with run.noting("the conformance suite"):
            found.suite_seed, found.conformance = run.conformance(watch("conformance"))
        with run.noting("the plan"):
            found.graphs = run.plan()
        if not found.graphs and not run.broken:
            raise HarnessError(f"no track of profile {run.profile.name} takes {', '.join(run.opened.ids)}")
        with run.noting("the computation of cells"):
            found.outcome = run.compute(found.graphs, view)
        with run.noting("the test of guesses"):
            found.untold = list(untold(run.guessing, found.graphs, found.outcome, run.store))
        with run.noting("the attacks on defenses"):
            found.gradient_audits = run.audit_gradients(watch("attacks on defenses"))
        found.seconds = time.perf_counter() - clock
        run.keep(run.report(found, []))  # the tables show facts from the package description
        with run.store.alone():
            with run.noting("the tables"):
                boards += [run.session.rank(graph, found.outcome, joins=True).board for graph in found.graphs]
            report = run.report(found, boards)
            run.keep(report)
            _decide(run, report)
            known = known_entries(run.store)
            for board in boards:
                refresh_standing(run.store, board, known)
    finally:
        run.opened.guest.kill()
    return report


def _decide(run: Run, report: SubmissionReport) -> None:
    """Write the outcome into the ledger: added or re-scored, and flagged where there are reasons."""
    ledger = Ledger(run.store.address)
    again = any(line.name == run.name and line.decision == "added" for line in ledger.lines())
    manifest = run.submission.model_dump(mode="json")
    if run.submission.package.file:
        manifest["package"]["file"] = str((run.folder / run.submission.package.file).resolve())
    text = f"{len(report.cells)} cells, isolation {report.isolation}"
    strongest = [audit.worst for audit in report.gradient_audits if audit.worst is not None]
    if strongest:
        worst = max(strongest, key=lambda gain: gain.gain)
        text += f"; strongest trial attack: {worst.attack} with {worst.way}, {worst.gain:.3f} of the score's range"
    done: Decision = "re-scored" if again else "added"
    if run.broken and not report.cells:
        done = "refused"
    ledger.append(
        run.name,
        run.opened.ids,
        done,
        text,
        report=report.seal,
        manifest=manifest,
        lock=run.lock,
    )
    flags = report.flags()
    if flags:
        ledger.append(run.name, run.opened.ids, "flagged", "; ".join(flags)[:1500], report=report.seal)


def reported(outcome: CheckResult) -> Checked:
    """Return what a check found; one that was given up, because the package took its time, did not pass."""
    status = "failed" if outcome.late else outcome.status
    return Checked(component=outcome.component, check=outcome.check, status=status, message=outcome.message)


def _line(error: Exception) -> str:
    return f"{plain(str(error)) or type(error).__name__:.300}"


def _failed(found: Findings) -> dict[str, str]:
    tasks = [(key, task) for graph in found.graphs for key, task in graph.tasks.items()]
    return {task.address: found.outcome.failed[key] for key, task in tasks if key in found.outcome.failed}


def measured(claim: Claim, boards: Sequence[Board]) -> ClaimResult:
    """Return a claim with the number that the tables hold; the claim does not hold where there is none."""
    value = next(
        (
            row.values[claim.column].value
            for board in boards
            if board.track == claim.track
            for table in board.tables
            if table.id == claim.table
            for row in table.rows
            if row.label == claim.row and claim.column in row.values
        ),
        None,
    )
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
