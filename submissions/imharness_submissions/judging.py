"""Judges the entries of a submission: the conformance suite, and attacks that do without their gradients."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from imharness.contracts.component import Component
from imharness.contracts.gradient_defense import GradientDefense
from imharness.contracts.purification import Purification
from imharness.contracts.track import Progress
from imharness.testing import CheckResult, trials
from imharness_submissions.gradient_audit import TrialAttacks, examine
from imharness_submissions.metric_audit import claims_a_gradient, examine_metric
from imharness_submissions.report import LATE, Checked, GradientAudit, is_late
from imharness_submissions.run import PATIENCE, Run
from imharness_submissions.sandbox.host import OutOfTime
from imharness_submissions.sharing_audit import examine_sharing

SLOW_IMPORT_S = 10.0
"""A package that takes longer to import is flagged, s."""


def conformance(run: Run, advance: Progress) -> tuple[int, list[Checked]]:
    """Run the conformance suite on each entry with fresh inputs; return the seed of the inputs and the results.

    The suite runs in this process and calls the entries in the sandbox. Checks that took too long are tried once more.
    """
    seed, checks = secrets.randbelow(2**31), list[Checked]()
    for number, component in enumerate(run.opened.components):
        every = trials(component, seed)
        with run.time_of_a_task():
            outcomes = [reported(trial.run()) for trial in every]
        with run.time_of_a_task(PATIENCE):
            checks += [
                reported(replace(trial, limit=PATIENCE * trial.limit).run()) if outcome.status == LATE else outcome
                for trial, outcome in zip(every, outcomes, strict=True)
            ]
        advance(number + 1, len(run.opened.components))
    run.end_task()
    return seed, [*checks, _imports(run)]


def reported(outcome: CheckResult) -> Checked:
    """Return what a check found; one that was given up, because it took too long, says nothing of the entry."""
    status = LATE if outcome.late or (outcome.status == "failed" and is_late(outcome.message)) else outcome.status
    return Checked(component=outcome.component, check=outcome.check, status=status, message=outcome.message)


def _imports(run: Run) -> Checked:
    package = run.opened.description
    slow = package.import_s > SLOW_IMPORT_S
    return Checked(
        component=package.distribution,
        check="is imported quickly",
        status="failed" if slow else "passed",
        message=f"{package.import_s:.2f} s" + (f"; at most {SLOW_IMPORT_S:g}: load weights in build" if slow else ""),
    )


def audit_gradients(run: Run, advance: Progress) -> list[GradientAudit]:
    """Return the audits of the defenses, metrics and gradient defenses among the entries.

    Attacks with a defense's gradient are compared with attacks without it, a metric's gradient with queries, and the
    gradients with which a protected model trains with those that it shares.
    """
    examinations = list(_examinations(run))
    if examinations:
        run.opened.guest.kill()  # one that starts again is no older than those of tasks
    audits = list[GradientAudit]()
    for number, (component, examination) in enumerate(examinations):
        try:
            audit = _patiently(run, component, examination)
            audits += [audit] if audit is not None else []
        except Exception as error:  # an output that no contract allows breaks what is computed from it, too
            run.note(f"{component.label}: could not be attacked", error)
        advance(number + 1, len(examinations))
    if examinations:
        run.end_task()
    return audits


def _patiently(run: Run, component: Component, examination: Callable[[], GradientAudit | None]) -> GradientAudit | None:
    """Return what an examination finds; one that takes too long is tried once more, and then not judged yet."""
    for patience in (1, PATIENCE):
        try:
            with run.time_of_a_task(patience):
                return examination()
        except OutOfTime:
            limit = patience * run.profile.time_limit_s
    run.unjudged.append(f"{component.label}: attacks on it took longer than {limit:g} s, in the second try")
    return None


def _examinations(run: Run) -> Iterator[tuple[Component, Callable[[], GradientAudit | None]]]:
    registry, device = run.opened.registry, torch.device(run.device)
    defenses = [c for c in run.opened.components if isinstance(c, Purification)]
    if defenses:
        trial = TrialAttacks(registry, run.profile, device)
        yield from ((c, partial(examine, c, trial, run.seed)) for c in defenses)
    for component in run.opened.components:
        if claims_a_gradient(component):
            yield component, partial(examine_metric, component, registry, run.profile, device)
        elif isinstance(component, GradientDefense):
            yield component, partial(examine_sharing, component, registry, run.profile, device)
