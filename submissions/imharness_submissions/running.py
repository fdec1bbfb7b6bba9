"""Runs a submission: plans and computes its tasks, judges its entries, makes the tables, and records it all."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from imharness.contracts.track import Progress
from imharness.documents.leaderboards import Leaderboard
from imharness.errors import HarnessError
from imharness.ranking.entries import known_entries
from imharness.running.views import Nothing, View
from imharness_submissions.evaluator_audit import chance_level
from imharness_submissions.judging import audit_gradients, conformance
from imharness_submissions.recording import Findings, report_of, store_submission, write_ledger
from imharness_submissions.report import SubmissionReport
from imharness_submissions.run import Run
from imharness_submissions.standings import refresh_standing


def run_submission(
    run: Run,
    watch: Callable[[str], Progress],
    view: Callable[[], View] = Nothing,
    say: Callable[[str], None] = lambda line: None,
) -> SubmissionReport:
    """Run a submission, write the ledger, and return the report; the sandbox is ended whatever happens.

    A stage that breaks off stands in the report and is flagged. `watch` takes the title of a stage and returns the
    function that shows its progress; `view` opens what shows that of the tasks; `say` gets a line, before anything is
    computed, on how much there is to do and how long that may take. Raises `HarnessError` when no track of the profile
    takes any of the entries.
    """
    try:
        return _record(run, _judge(run, watch, view, say))
    finally:
        run.opened.guest.kill()


def _judge(
    run: Run, watch: Callable[[str], Progress], view: Callable[[], View], say: Callable[[str], None]
) -> Findings:
    clock, findings = time.perf_counter(), Findings(datetime.now(UTC))
    with run.noting("the plan"):
        findings.graphs = run.plan()
    if not findings.graphs and not run.broken:
        raise HarnessError(f"no track of profile {run.profile.name} takes {', '.join(run.opened.ids)}")
    say(run.bound(findings.graphs))
    with run.noting("the conformance suite"):
        findings.suite_seed, findings.conformance = conformance(run, watch("conformance"))
    with run.noting("the computation of tasks"):
        findings.outcome = run.compute(findings.graphs, view)
    with run.noting("the test of guesses"):
        findings.chance_level = list(chance_level(run.evaluators, findings.graphs, findings.outcome, run.store))
    with run.noting("the attacks on defenses"):
        findings.gradient_audits = audit_gradients(run, watch("attacks on defenses"))
    findings.seconds = time.perf_counter() - clock
    return findings


def _record(run: Run, findings: Findings) -> SubmissionReport:
    store_submission(run, report_of(run, findings))  # the tables show facts from the package description
    leaderboards = list[Leaderboard]()
    with run.store.alone():
        with run.noting("the tables"):
            leaderboards += [
                run.session.rank(graph, findings.outcome, joins=True).leaderboard for graph in findings.graphs
            ]
        report = report_of(run, findings, leaderboards)
        store_submission(run, report)
        write_ledger(run, report)
        store_entries = known_entries(run.store)
        for leaderboard in leaderboards:
            refresh_standing(run.store, leaderboard, store_entries)
    return report
