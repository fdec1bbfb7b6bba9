"""The content of the methods page, taken from the docstrings and constants of the code."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from imharness.documents.entries import Entry
from imharness.documents.leaderboards import Leaderboard
from imharness.ranking import comparisons
from imharness.statistics import (
    against_one,
    bootstrap,
    clusters,
    correlation,
    differences,
    head_to_head,
    nested,
    ranks,
    roc,
    wilcoxon,
    win_rates,
)
from imharness_leaderboard.addresses import slug


@dataclass(frozen=True)
class Method:
    """A statistical method: the paragraphs of its docstring, its parameters, and its functions.

    `parameters`: the meaning and the value of each. `functions`: the name and the docstring of each.
    """

    title: str
    text: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    functions: tuple[tuple[str, str], ...]

    @property
    def anchor(self) -> str:
        """The end of its address on the page of methods."""
        return f"method-{slug(self.title)}"


@dataclass(frozen=True)
class Methods:
    """What the page shows; `entries` are sorted by kind and label."""

    statistics: tuple[Method, ...]
    entries: tuple[Entry, ...]


_STATISTICS = (
    ("Paired test", wilcoxon, ("EXACT_UP_TO",), ("wilcoxon_greater", "adjust")),
    ("Units from one source", clusters, ("FEWEST",), ("clusters_greater", "cluster_means", "chosen_half")),
    ("Who beats whom", win_rates, ("ALPHA",), ("win_rates",)),
    ("Head to head", head_to_head, (), ("head_to_head", "rank_biserial", "tie_groups")),
    ("Who is shown to be better than whom", differences, (), ("differences", "units_needed", "unseen")),
    (
        "Better than no defense, and who is first",
        against_one,
        ("BETTER", "WORSE"),
        ("against_one", "best_alpha", "shown_alone"),
    ),
    ("Front", ranks, (), ("front",)),
    ("The best, and those not shown to be worse", comparisons, (), ("not_worse", "unit_means")),
    (
        "Confidence intervals",
        bootstrap,
        ("RESAMPLES", "LEVEL"),
        ("mean_interval", "interval", "t_interval", "one_sided_alpha", "resampled"),
    ),
    ("Units nested in groups", nested, ("FEWEST_FREE",), ("nested_interval",)),
    ("Correlation", correlation, (), ("correlate", "spearman_rows", "kendall_rows", "williams")),
    ("Membership", roc, (), ("auc", "tpr_at_fpr", "balanced_accuracy")),
)
_MEANING = {
    "EXACT_UP_TO": "largest number of differences for which the exact distribution is used, ties included",
    "BETTER": "share of studies in which an entry may be said, falsely, to be better than no defense",
    "WORSE": "share of studies in which an entry may be said, falsely, to be worse than no defense",
    "ALPHA": "level of significance after correction",
    "RESAMPLES": "number of bootstrap resamples",
    "FEWEST": "fewest clusters that give an interval and a test",
    "FEWEST_FREE": "fewest degrees of freedom between groups that give an interval",
    "LEVEL": "coverage of intervals",
}


@cache
def statistics() -> tuple[Method, ...]:
    """Return the statistical methods that are installed."""
    sections = []
    for title, module, constants, names in _STATISTICS:
        functions = tuple((name, inspect.getdoc(getattr(module, name)) or "") for name in names)
        parameters = tuple((_MEANING[name], str(getattr(module, name))) for name in constants)
        text = tuple((inspect.getdoc(module) or "").split("\n\n"))
        sections.append(Method(title, text, parameters, functions))
    return tuple(sections)


def methods(leaderboards: Sequence[Leaderboard]) -> Methods:
    """Return what the page shows of the installed statistics and of the leaderboards' entries."""
    entries = {(entry.kind, entry.label): entry for leaderboard in leaderboards for entry in leaderboard.entries}
    return Methods(statistics(), tuple(entries[position] for position in sorted(entries)))
