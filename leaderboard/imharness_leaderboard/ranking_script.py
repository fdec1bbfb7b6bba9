"""What the script of a track's page needs of a ranking: its rules, and what it must know of rows."""

from __future__ import annotations

from typing import Any

from imharness.documents.naming import brief
from imharness_leaderboard.addresses import vectors_file
from imharness_leaderboard.ranking_rows import GROUPS, group_titles
from imharness_leaderboard.rankings import RankingView, secondary_comparisons

RULES = (
    "over",
    "attack",
    "attacker",
    "unaware",
    "undefended",
    "winner",
    "alike",
    "baseline",
    "matched",
    "best_alpha",
    "against_alphas",
    "broken_alpha",
    "references",
    "nested",
    "chosen",
)
"""The fields of a `Ranking` by which the script ranks again."""


def script_facts(view: RankingView) -> dict[str, Any]:
    """Return what stands in the page of the track for the script, beside the scores that it fetches."""
    ranking, column = view.ranking, view.column("worst")
    files = [vectors_file(view.leaderboard, id) for id in secondary_comparisons(ranking)]
    return {
        **{key: getattr(ranking, key) for key in RULES},
        **_facts_of_rows(view),
        "groups": list(group_titles(ranking).items()),
        "compared_with": ranking.baseline_name,
        "rows": view.rows_file,
        "count": len(view.rows),
        "secondary_measures": [file for file in files if file],
        "attacks": view.attacks,
        "attackNames": view.attack_names,
        "measure": brief(column.label),
        "better": column.better,
    }


def _facts_of_rows(view: RankingView) -> dict[str, Any]:
    """Return what the script needs of rows; of a long ranking only names, as its index has everything else."""
    if len(view.parts) > 1:
        in_page = {ranked_row.row.label for ranked_row in view.parts[0].rows}
        used_labels = in_page | {view.ranking.winner, view.ranking.undefended, view.ranking.baseline}
        return {"names": {label: name for label, name in view.names.items() if label in used_labels}}
    places = {
        ranked_row.row.label: {
            "control": ranked_row.place.control,
            "able": ranked_row.place.able,
            "flagged": bool(ranked_row.place.flags),
            "complete": ranked_row.place.complete,
            "reason": ranked_row.further_reason,
        }
        for ranked_row in view.rows
    }
    return {"names": view.names, "places": places, "silent": view.ranking.silent}


def rows_index(view: RankingView) -> dict[str, Any]:
    """Return the index of a long ranking: a list for each fact of its rows, in the order of the page."""
    groups, rows = list(GROUPS), view.rows
    return {
        "labels": [ranked_row.row.label for ranked_row in rows],
        "names": [ranked_row.name for ranked_row in rows],
        "groups": [groups.index(ranked_row.group) for ranked_row in rows],
        "worst": [ranked_row.row.number("worst") for ranked_row in rows],
        "utility": [ranked_row.row.number("utility") for ranked_row in rows],
        "words": [" ".join(badge.text for badge in ranked_row.badges) for ranked_row in rows],
        "near": [int(ranked_row.near) for ranked_row in rows],
        "reason": [ranked_row.further_reason for ranked_row in rows],
        "control": [ranked_row.place.control for ranked_row in rows],
        "able": [int(ranked_row.place.able) for ranked_row in rows],
        "flagged": [int(bool(ranked_row.place.flags)) for ranked_row in rows],
        "complete": [int(ranked_row.place.complete) for ranked_row in rows],
        "silent": view.ranking.silent,
        "pages": [chunk.page for chunk in view.parts],
    }
