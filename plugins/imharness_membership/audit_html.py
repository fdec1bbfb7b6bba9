"""The report of an audit: one HTML file that contains its pictures, runs no script and makes no request."""

import io
from collections.abc import Callable

import jinja2
import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from imharness.files import NO_MARKUP
from imharness_membership.audit import brief
from imharness_membership.findings import ModelAudit

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555", "#8c564b", "#17becf")
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "audit",
    "font.size": 10,
    "font.family": "sans-serif",
    **NO_MARKUP,
}


def report(model_audit: ModelAudit, name: str) -> str:
    """Return the report as HTML; `name`: how it calls the model."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("imharness_membership"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["brief"] = brief
    pictures = [
        (
            "ROC, both axes logarithmic",
            "Share of members found against share of non-members accused.",
            _picture(_roc, model_audit),
        ),
        ("Risk scores of members", "Share of members at or below a risk score.", _picture(_distribution, model_audit)),
        (
            "Calibration",
            "True share of members against the risk score; the area shows the number of rows.",
            _picture(_calibration, model_audit),
        ),
        ("Classes", "Mean risk score of members against train minus test accuracy.", _picture(_classes, model_audit)),
    ]
    risk = list(zip(model_audit.risk.thresholds, model_audit.risk.precision, model_audit.risk.recall, strict=True))
    return environment.get_template("report.html").render(
        audit=model_audit,
        name=name,
        pictures=pictures,
        findings=model_audit.ordered(),
        risk=risk,
        worst=model_audit.worst(),
    )


def _picture(draw: Callable[[Axes, ModelAudit], None], model_audit: ModelAudit) -> Markup:
    """Return a figure as SVG; matplotlib escapes the text in it."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(5.2, 3.9), layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, model_audit)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return Markup(text[text.index("<svg") :])


def _roc(axes: Axes, model_audit: ModelAudit) -> None:
    least = 0.5 / model_audit.nonmembers
    for number, finding in enumerate(model_audit.findings):
        fpr, tpr = ([max(x, least) for x in values] for values in finding.roc)
        style = "-" if number < len(COLOURS) else "--"
        axes.plot(fpr, tpr, style, color=COLOURS[number % len(COLOURS)], label=brief(finding.evaluator), lw=1.3)
    axes.plot([least, 1], [least, 1], ":", color="gray", lw=1)
    axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.2))
    axes.set(xlabel="false-positive rate", ylabel="true-positive rate")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.legend(fontsize=7, frameon=False, loc="lower right")


def _distribution(axes: Axes, model_audit: ModelAudit) -> None:
    quantiles = model_audit.risk.member_quantiles
    axes.step(quantiles, [i / 100 for i in range(101)], where="post", color=COLOURS[0])
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="risk score", ylabel="share of members")


def _calibration(axes: Axes, model_audit: ModelAudit) -> None:
    largest = max(model_audit.risk.rows)
    axes.plot([0, 1], [0, 1], ":", color="gray", lw=1)
    axes.scatter(
        model_audit.risk.predicted,
        model_audit.risk.real,
        [10 + 150 * n / largest for n in model_audit.risk.rows],
        COLOURS[1],
    )
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="risk score", ylabel="true share of members")


def _classes(axes: Axes, model_audit: ModelAudit) -> None:
    pairs = [pair for pair in model_audit.risk.by_class.values() if None not in pair]
    axes.scatter([error for _, error in pairs], [risk for risk, _ in pairs], 16, COLOURS[2])
    axes.set(xlabel="train minus test accuracy", ylabel="mean risk score of members")
