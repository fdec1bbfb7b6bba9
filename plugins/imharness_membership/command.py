"""`harness membership`: audit a model of your own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.commands import Group, Share

if TYPE_CHECKING:
    from imharness.membership import MembershipEvaluator
    from imharness.questions import Estimate, ModelAudit


@click.group(cls=Group)
def membership() -> None:
    """Find out how much a model reveals about its training set."""


@membership.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--logits", is_flag=True, help="The outputs are logits, not probabilities.")
@click.option(
    "--evaluator",
    "names",
    multiple=True,
    metavar="NAME",
    help="Use this evaluator; may be given several times. Default: all that need only outputs and labels.",
)
@click.option("--per-class", is_flag=True, help="Also print the attack accuracy within each class.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the results here as JSON, with full precision.",
)
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a self-contained report here."
)
@click.option(
    "--fail-above",
    type=Share(),
    metavar="SHARE",
    help="Exit with status 1 when the accuracy of the strongest attack, 0 to 1, is above this. Default: never.",
)
@click.pass_context
def audit(
    ctx: click.Context,
    file: Path,
    logits: bool,
    names: tuple[str, ...],
    per_class: bool,
    json_file: Path | None,
    html_file: Path | None,
    fail_above: float | None,
) -> None:
    """Audit a model from its outputs on members and non-members, and from those of a shadow model.

    FILE is an npz with the arrays {shadow,target}_{member,nonmember}_{outputs,labels}, or a csv or parquet table with
    the columns model (shadow or target), member (0 or 1), label, p0, p1, ...
    """
    from imharness.commands import console
    from imharness_membership.audit import audit as audited
    from imharness_membership.audit_inputs import read_audit

    parts = read_audit(file, logits)
    evaluators = _evaluators(names, len(parts["target"].labels))
    with console.progress("evaluators") as advance:
        found = audited(parts["shadow"], parts["target"], evaluators, advance)
    _print(found, per_class)
    if json_file:
        json_file.write_text(json.dumps({"file": file.name, **found.facts()}, indent=1) + "\n", encoding="utf-8")
    if html_file:
        from imharness_membership.audit_html import report

        html_file.write_text(report(found, file.name), encoding="utf-8")
        console.say(f"report: {html_file}")
    worst = found.worst()
    if fail_above is not None and worst.accuracy.value > fail_above:
        console.say(f"{worst.evaluator} reaches {worst.accuracy.value:.3f}, above {fail_above:g}")
        ctx.exit(1)


def _evaluators(names: tuple[str, ...], rows: int) -> list[MembershipEvaluator]:
    """Return the requested evaluators, or all that need only outputs and labels."""
    from imharness.commands import console, find
    from imharness.commands import every as installed
    from imharness_membership.audit import MANY, SLOW, standard, usable

    if names:
        return usable([find("evaluator", name) for name in names])
    if rows > MANY:
        console.say(f"{SLOW} is left out because there are more than {MANY} rows; ask for it with --evaluator")
    return standard(installed("evaluator"), rows)


def _print(found: ModelAudit, per_class: bool) -> None:
    from imharness.commands import console

    console.say(
        f"{found.members} members, {found.nonmembers} non-members, {found.classes} classes; accuracy "
        f"{found.train_accuracy:.3f} on members, {found.test_accuracy:.3f} on non-members"
    )
    rows = [
        (f.evaluator, *map(_shown, (f.accuracy, f.auc, f.tpr_at_01, f.tpr_at_1)))
        for f in sorted(found.findings, key=lambda f: -f.accuracy.value)
    ]
    columns = ["evaluator", "balanced accuracy", "AUC", "TPR at 0.1% FPR", "TPR at 1% FPR"]
    console.table("What an adversary finds out (95% intervals)", columns, rows)
    risk = found.risk
    console.table(
        "Privacy risk scores: accusing all rows that reach a threshold",
        ["threshold", "precision", "recall"],
        [
            (f"{t:g}", "-" if p is None else f"{p:.3f}", f"{r:.3f}")
            for t, p, r in zip(risk.thresholds, risk.precision, risk.recall, strict=True)
        ],
    )
    console.say(f"calibration of the risk score: RMSE {risk.rmse:.3f}")
    if per_class:
        evaluators = [f.evaluator for f in found.findings]
        rows = [
            (c, *("-" if f.by_class[c] is None else f"{f.by_class[c]:.3f}" for f in found.findings))
            for c in range(found.classes)
        ]
        console.table("Balanced accuracy by class", ["class", *evaluators], rows)


def _shown(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not defined: too few non-members"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
