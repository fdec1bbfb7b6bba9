"""The content of the methods page, taken from the docstrings and constants of the code."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

from imharness.ranking import comparisons
from imharness.results.boards import Board
from imharness.results.entries import Entry
from imharness.statistics import (
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


@dataclass(frozen=True)
class Method:
    """A statistical method: the paragraphs of its docstring, its parameters, and its functions with docstrings."""

    title: str
    text: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    functions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Methods:
    """What the page shows; `entries` are sorted by kind and label."""

    statistics: tuple[Method, ...]
    entries: tuple[Entry, ...]


_STATISTICS = (
    ("Paired test", wilcoxon, ("EXACT_UP_TO", "PERMUTED_UP_TO"), ("wilcoxon_greater", "adjust")),
    ("Units from one source", clusters, ("FEWEST",), ("clusters_greater", "cluster_means", "chosen_half")),
    ("Who beats whom", win_rates, ("ALPHA",), ("win_rates",)),
    ("Head to head", head_to_head, (), ("head_to_head", "rank_biserial", "resampled", "tie_groups")),
    ("Who is shown to be better than whom", differences, (), ("differences", "units_needed", "unseen")),
    ("Front", ranks, (), ("front",)),
    ("The best, and those not shown to be worse", comparisons, (), ("not_worse", "unit_means")),
    ("Confidence intervals", bootstrap, ("RESAMPLES", "LEVEL"), ("mean_interval", "interval", "t_interval", "tail")),
    ("Units nested in groups", nested, ("FEWEST_FREE",), ("nested_interval",)),
    ("Correlation", correlation, (), ("correlate", "spearman_rows", "kendall_rows", "williams")),
    ("Membership", roc, (), ("auc", "tpr_at_fpr", "balanced_accuracy")),
)
_MEANING = {
    "EXACT_UP_TO": "largest number of differences without ties for which the exact distribution is used",
    "PERMUTED_UP_TO": "largest number of differences with ties for which all permutations of signs are counted",
    "ALPHA": "level of significance after correction",
    "RESAMPLES": "number of bootstrap resamples",
    "FEWEST": "fewest clusters that give an interval and a test",
    "FEWEST_FREE": "fewest degrees of freedom between groups that give an interval",
    "LEVEL": "coverage of intervals",
}


def methods(boards: Sequence[Board]) -> Methods:
    """Return what the page shows of the installed statistics and of the boards' entries."""
    found = []
    for title, module, constants, names in _STATISTICS:
        functions = tuple((name, inspect.getdoc(getattr(module, name)) or "") for name in names)
        parameters = tuple((_MEANING[name], str(getattr(module, name))) for name in constants)
        text = tuple((inspect.getdoc(module) or "").split("\n\n"))
        found.append(Method(title, text, parameters, functions))
    entries = {(entry.kind, entry.label): entry for board in boards for entry in board.entries}
    return Methods(tuple(found), tuple(entries[place] for place in sorted(entries)))
