"""Scatter plots: the leakage of every protected model by a metric against the share that was recognised (figure 3)."""

from collections.abc import Sequence
from pathlib import Path

from imharness.files import NO_MARKUP
from imharness_reconstruction.agreement import Study, agreement
from imharness_reconstruction.resolution import limit_of


def scatter(studies: Sequence[Study], out: Path) -> list[Path]:
    """Write one SVG per study, a panel per metric; return the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    out.mkdir(parents=True, exist_ok=True)
    files = []
    with pyplot.rc_context(NO_MARKUP):
        for study in studies:
            metrics = sorted(study.scores)
            figure, axes = pyplot.subplots(
                1, len(metrics), figsize=(3 * len(metrics), 3.2), sharey=True, squeeze=False, layout="constrained"
            )
            people = study.leakage("")
            for axis, metric in zip(axes[0], metrics, strict=True):
                axis.scatter(study.leakage(metric), people, s=18, color="#0072b2")
                rho, tau = (agreement(study, metric, ranking).value for ranking in ("rho", "tau"))
                caption = "not defined" if rho is None or tau is None else f"rho {rho:.2f}, tau {tau:.2f}"
                axis.set_title(f"{metric.partition('/')[2]}\n{caption}", fontsize=9)
                axis.set_xlabel("leakage")
                axis.locator_params(axis="x", nbins=4)
                axis.ticklabel_format(axis="x", scilimits=(-3, 4))
            axes[0][0].set_ylabel("share recognised")
            axes[0][0].set_ylim(-0.03, 1.03)
            title = f"{study.setting} ({len(study.models)} models; {study.who})"
            figure.suptitle(f"{title}\n{limit_of(metrics).strip()}".strip(), fontsize=9)
            file = out / f"{study.slug}.svg"
            figure.savefig(file)
            pyplot.close(figure)
            files.append(file)
    return files
