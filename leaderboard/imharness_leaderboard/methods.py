"""The methods page, generated from the code: statistics with their parameters, measures, and all entries."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

from imharness.ranking import comparisons as pairing
from imharness.ranking.statistics import bootstrap, correlation, head_to_head, roc
from imharness.ranking.statistics import wilcoxon as paired
from imharness.ranking.statistics import win_rates as pairwise
from imharness.results.records import Board, Entry


@dataclass(frozen=True)
class Method:
    """A statistical method: what it does, in the words of its code, and its parameters."""

    title: str
    text: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    functions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Methods:
    """All that the page shows."""

    statistics: tuple[Method, ...]
    entries: tuple[Entry, ...]


_STATISTICS = (
    ("Paired test", paired, ("EXACT_UP_TO", "PERMUTED_UP_TO"), ("wilcoxon_greater", "adjust")),
    ("Who beats whom", pairwise, ("ALPHA",), ("win_rates",)),
    ("Head to head", head_to_head, (), ("head_to_head", "rank_biserial", "resampled", "tie_groups")),
    ("Best, and not significantly worse", pairing, (), ("not_worse", "pairwise")),
    ("Confidence intervals", bootstrap, ("RESAMPLES", "LEVEL"), ("mean_interval", "interval")),
    ("Correlation", correlation, (), ("correlate", "spearman_rows", "kendall_rows", "williams")),
    ("Membership", roc, (), ("auc", "tpr_at_fpr", "balanced_accuracy")),
)
_MEANING = {
    "EXACT_UP_TO": "exact distribution up to this many pairs, without zeros and ties",
    "PERMUTED_UP_TO": "all sign permutations up to this many pairs, with zeros or ties",
    "ALPHA": "level of significance, after correction",
    "RESAMPLES": "bootstrap resamples",
    "LEVEL": "coverage of intervals",
}


def methods(boards: Sequence[Board]) -> Methods:
    """Return what the methods page shows of the installed code and of the boards."""
    found = []
    for title, module, constants, names in _STATISTICS:
        functions = tuple((name, _paragraphs(getattr(module, name))) for name in names)
        parameters = tuple((_MEANING[name], str(getattr(module, name))) for name in constants)
        text = tuple((inspect.getdoc(module) or "").split("\n\n"))
        found.append(Method(title, text, parameters, functions))
    entries = {(entry.kind, entry.label): entry for board in boards for entry in board.entries}
    return Methods(tuple(found), tuple(entries[place] for place in sorted(entries)))


def _paragraphs(function: object) -> str:
    return inspect.getdoc(function) or ""
