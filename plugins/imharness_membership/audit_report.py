"""The report of an audit for readers who are no statisticians: one page of HTML that prints on one sheet."""

import platform
from dataclasses import dataclass

import jinja2
import numpy as np
import torch

from imharness import __version__
from imharness.questions import AuditSubject, Estimate, ModelAudit
from imharness_membership.audit import brief
from imharness_membership.reference_models import ReferenceModels

LEFT, RIGHT, WIDTH = 20.0, 680.0, 700.0
"""Where the scale begins and ends, and the width of its picture, in units of the picture."""
LOWEST = 0.45
CHANCE = 0.5
NARROW = 55.0
"""A label so near to the end of the picture is aligned with it."""


@dataclass(frozen=True)
class Mark:
    """A labelled place on the scale; `anchor` is SVG's text-anchor, `row` counts labels that stand below another."""

    x: float
    label: str
    anchor: str
    row: int = 0


@dataclass(frozen=True)
class Scale:
    """The scale on which the result stands: from the least balanced accuracy that is shown up to 1."""

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


def page(found: ModelAudit, subject: AuditSubject, references: ReferenceModels) -> str:
    """Return the report as HTML; it runs no script, makes no request, and everything in it is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("imharness_membership"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"brief": brief, "interval": _interval}
    worst = found.worst()
    result = worst.accuracy
    scale = Scale(min(LOWEST, result.low, *(own.accuracy for own in references.models)))
    marks = [scale.mark(CHANCE, "coin 0.500")]
    for own in sorted(references.models, key=lambda own: own.accuracy):
        marks.append(scale.mark(own.accuracy, f"{own.label} {own.accuracy:.3f}", len(marks) % 2))
    return environment.get_template("audit.html").render(
        audit=found,
        subject=subject,
        references=references,
        worst=worst,
        result=result,
        scale=scale,
        marks=marks,
        width=WIDTH,
        verdict="" if subject.fail_above is None else result.against(subject.fail_above),
        enough=None if subject.fail_above is None else _enough(result, subject.fail_above, found),
        versions=f"image-privacy-harness {__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}",
    )


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _enough(result: Estimate, limit: float, found: ModelAudit) -> int | None:
    """Return about how many tested records would tell, if the number stays as it is; None if no number would."""
    if round(result.value, 3) == round(limit, 3):
        return None
    reach = (result.high - result.low) / 2
    rows = (found.members + found.nonmembers) * (reach / abs(limit - result.value)) ** 2
    return int(np.ceil(rows / 100)) * 100
