"""The report of an audit for readers who are no statisticians: one page of HTML that prints on one sheet."""

import platform
from dataclasses import dataclass

import jinja2
import numpy as np
import torch

from imharness import __version__
from imharness.membership import Estimate, TrainingPlan
from imharness_membership.advice import advice
from imharness_membership.audit import brief
from imharness_membership.findings import AuditSubject, ModelAudit
from imharness_membership.reference_models import EMBEDDED, ReferenceModels, reference_models
from imharness_membership.track import MembershipTrack

LEFT, RIGHT, WIDTH = 20.0, 680.0, 700.0
"""Where the scale begins and ends, and the width of its picture, in units of the picture."""
LOWEST = 0.45
"""Where the scale begins, unless the interval or a model to compare with has a lower balanced accuracy."""
CHANCE = 0.5
NARROW = 55.0
"""A label whose mark is nearer than this to an end of the scale begins or ends at the mark, so that it stays inside."""


@dataclass(frozen=True)
class Mark:
    """A labelled place on the scale; `anchor` is SVG's text-anchor, `row` counts labels that stand below another."""

    x: float
    label: str
    anchor: str
    row: int = 0


@dataclass(frozen=True)
class Scale:
    """The scale on which the picture shows balanced accuracies, from `least` up to 1."""

    least: float

    def x(self, value: float) -> float:
        """Return the place of a balanced accuracy in the picture."""
        return round(LEFT + (RIGHT - LEFT) * (value - self.least) / (1 - self.least), 1)

    def mark(self, value: float, label: str, row: int = 0) -> Mark:
        """Return a mark at a value, whose label stays inside the picture."""
        x = self.x(value)
        anchor = "start" if x < LEFT + NARROW else "end" if x > RIGHT - NARROW else "middle"
        return Mark(x, label, anchor, row)

    def ticks(self) -> list[Mark]:
        """Return the tenths of the scale."""
        return [self.mark(tenth / 10, f"{tenth / 10:.1f}") for tenth in range(10 + 1) if tenth / 10 >= self.least]


@dataclass(frozen=True)
class Clause:
    """A requirement of a standard or opinion: its source, what it asks, and what the audit says about it."""

    source: str
    asks: str
    outcome: str


def clauses(model_audit: ModelAudit) -> list[Clause]:
    """Return what the audit says about requirements of two texts that a data protection officer may ask for.

    The first is Opinion 28/2024 of the EDPB of 17 December 2024, its executive summary and paragraph 55 (as later texts
    quote it). The second is OWASP's AI Security Verification Standard 1.0 (2026), section C11.2.
    """
    result = model_audit.worst().accuracy
    if result.concerns:
        guessing = "Not shown: see what stands under the verdict."
    elif result.low > CHANCE:
        guessing = f"Does not hold: {_interval(result)} lies above 0.5."
    else:
        guessing = f"Not refuted: {_interval(result)} holds 0.5; up to {result.high:.3f} is not excluded."
    opinion, standard = "EDPB 28/2024", "AISVS 1.0"
    return [
        Clause(
            f"{opinion}, summary",
            "Personal data hardly ever leave model or answers.",
            "Answers: tested for membership. Weights: not tested.",
        ),
        Clause(
            f"{opinion}, para. 55",
            "Tests with well-known attacks, which speak of these attacks alone.",
            "Tested: membership inference. Not tested: attribute inference, exfiltration, regurgitation, inversion, "
            "reconstruction.",
        ),
        Clause(
            f"{standard}, 11.2.5",
            "Membership inference no better than a guess.",
            guessing,
        ),
        Clause(
            f"{standard}, 11.2.1 to 11.2.4",
            "Attributes, query rates, calibration, DP training.",
            "Not tested.",
        ),
    ]


def report(model_audit: ModelAudit, subject: AuditSubject) -> str:
    """Return the report as HTML; models of the embedded profile are trained, so that the result can be compared."""
    track = MembershipTrack().with_parameters(**EMBEDDED["options"])
    plan = TrainingPlan(track.epochs, track.batch_size, track.learning_rate, track.optimiser)
    return page(model_audit, subject, reference_models(plan, track.part, track.splits))


def page(model_audit: ModelAudit, subject: AuditSubject, references: ReferenceModels) -> str:
    """Return the report as HTML; it runs no script, makes no request, and everything in it is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("imharness_membership"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"brief": brief, "interval": _interval}
    worst = model_audit.worst()
    result = worst.accuracy
    verdict = "" if subject.fail_above is None else result.against(subject.fail_above)
    scale = Scale(min(LOWEST, result.low, *(reference_model.accuracy for reference_model in references.models)))
    marks = [scale.mark(CHANCE, "coin 0.500")]
    for model in sorted(references.models, key=lambda reference: reference.accuracy):
        marks.append(scale.mark(model.accuracy, f"{model.label} {model.accuracy:.3f}", len(marks) % 2))
    return environment.get_template("audit.html").render(
        audit=model_audit,
        subject=subject,
        references=references,
        worst=worst,
        result=result,
        scale=scale,
        marks=marks,
        width=WIDTH,
        verdict=verdict,
        reasons=result.why_not(subject.fail_above) if verdict == "not shown" else result.concerns,
        advice=list(advice(model_audit, subject.fail_above)),
        clauses=clauses(model_audit),
        versions=f"image-privacy-harness {__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}",
    )


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
