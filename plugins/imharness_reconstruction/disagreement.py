"""Draws where two metrics disagree: the reconstructions of one original in the order of each (SemSim, figure 6)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imharness.files import NO_MARKUP
from imharness.leaderboard import kendall_rows
from imharness.tracks import Query
from imharness_reconstruction.export import Rebuilt, recognised
from imharness_reconstruction.recognition import CONDITION, verdicts
from imharness_reconstruction.scores import quoted

FEWEST = 3
SHOWN = 12
"""The largest number of reconstructions in a row; of more, some are drawn, evenly spaced in the order of one metric."""
KNOWN, UNKNOWN, UNJUDGED = "#009e73", "#d55e00", "0.7"
"""The colours of frames: recognised, not recognised, not judged."""


@dataclass(frozen=True)
class Disagreement:
    """The reconstructions of one original, ordered by two metrics.

    Attributes:
        conditions: of each of the n reconstructions, data set, attack, model and defense.
        first, second: the closeness of each reconstruction by the two metrics, ``(n,)``.
        tau: Kendall's correlation of the two orders.
    """

    dataset: str
    name: str
    conditions: tuple[tuple[str, str, str, str], ...]
    first: np.ndarray
    second: np.ndarray
    tau: float


def disagreements(query: Query, first: str, second: str) -> list[Disagreement]:
    """Return the originals with at least `FEWEST` reconstructions, those on which two metrics agree least first.

    An original is left out if tau is undefined, because a metric gives all its reconstructions the same score.
    """
    rows = query(
        f"SELECT {CONDITION}, name, a.score * a.closeness AS first, b.score * b.closeness AS second "
        f"FROM (SELECT * FROM leakage WHERE metric = {quoted(first)}) a "
        f"JOIN (SELECT * FROM leakage WHERE metric = {quoted(second)}) b USING ({CONDITION}, name) ORDER BY ALL"
    )
    by_image: dict[tuple[str, str], list[tuple[tuple[str, str, str, str], float, float]]] = {}
    for dataset, attack, model, defense, name, one, other in zip(*rows.values(), strict=True):
        if np.isfinite([one, other]).all():
            by_image.setdefault((dataset, name), []).append(((dataset, attack, model, defense), one, other))
    results = []
    for (dataset, name), lines in by_image.items():
        conditions, ones, others = zip(*lines, strict=True)
        tau = float(kendall_rows(np.array([ones]), np.array(others))[0]) if len(lines) >= FEWEST else np.nan
        if np.isfinite(tau):
            results.append(Disagreement(dataset, name, conditions, np.array(ones), np.array(others), tau))
    return sorted(results, key=lambda case: (case.tau, case.dataset, case.name))


def draw(
    cases: Sequence[Disagreement], rebuilt: Iterable[Rebuilt], query: Query, metrics: tuple[str, str], out: Path
) -> list[Path]:
    """Write one PNG for each case; a frame says whether the reconstruction was recognised. Return the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    votes = verdicts(query)
    judged = recognised(query(votes)) if votes else {}
    wanted = {(condition, case.name) for case in cases for condition in case.conditions}
    pictures, originals = {}, {}
    for group in rebuilt:
        for position, name in enumerate(group.private.names):
            if (group.key, name) in wanted:
                pictures[group.key, name] = group.reconstructions[position].transpose(1, 2, 0)
                if (group.key[0], name) not in originals:
                    originals[group.key[0], name] = group.private.load([position])[0].permute(1, 2, 0).numpy()
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for number, case in enumerate(cases):
        order = np.argsort(-case.first, kind="stable")
        some = order[np.unique(np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int))]
        with pyplot.rc_context(NO_MARKUP):
            figure, axes = pyplot.subplots(
                2, len(some) + 1, figsize=(1.2 * (len(some) + 1), 3), squeeze=False, layout="constrained"
            )
            for line, metric, closeness in zip(axes, metrics, (case.first, case.second), strict=True):
                line[0].imshow(originals[case.dataset, case.name])
                line[0].set_title("original", fontsize=8)
                line[0].set_ylabel(metric, fontsize=8)
                for axis, index in zip(line[1:], some[np.argsort(-closeness[some], kind="stable")], strict=True):
                    judgement = judged.get((case.conditions[index], case.name))
                    colour = {None: UNJUDGED, True: KNOWN, False: UNKNOWN}[judgement]
                    axis.imshow(pictures[case.conditions[index], case.name])
                    axis.spines[:].set(color=colour, linewidth=3)
                    axis.set_title(f"{closeness[index]:.3g}", fontsize=7)
                for axis in line:
                    axis.set(xticks=[], yticks=[])
            figure.suptitle(
                f"{case.name}: closest first; tau {case.tau:.2f}; green frame: recognised, orange: not", fontsize=8
            )
            files.append(out / f"{number:02d}.png")
            figure.savefig(files[-1], dpi=110)
            pyplot.close(figure)
    return files
