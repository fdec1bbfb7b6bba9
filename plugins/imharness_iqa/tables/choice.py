"""Which variant of a defense with several parameter values the tables show, and on which photographs it was chosen."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from imharness.leaderboard import chosen_half

if TYPE_CHECKING:
    from imharness_iqa.tables.part import Part

NAMED = 4
"""The number of photographs that a caption names."""
BOTH_HALVES = 10
"""The number of photographs needed to choose on one half and report on the other: five on each side can be tested."""


def choose(
    fixed: "Part",
    entries: Mapping[str, str],
    trained: Collection[str],
    aware: Collection[str] = (),
    fewest: int = BOTH_HALVES,
) -> tuple[list[str], set[str]]:
    """Return one variant of each purification, sorted by label, and the photographs on which variants were chosen.

    `fixed`: images under fixed attacks. `entries`: label -> the defense that it is a variant of; a label that is not
    there stands for itself. `aware`: labels of defenses that attackers who know the defense attacked; if these are some
    of several variants, the others are left out, so that both attackers meet the same one. Of several variants, the one
    with the lowest D is taken, over the conditions that all of them have, on half of each data set's photographs; what
    is reported must be measured on the others. If there are fewer than `fewest` photographs, or no such condition, the
    variant with default values is taken, and nothing is chosen.
    """
    present = {fixed.blocks.entries[row] for _, row in fixed.lines("d")} - set(trained)
    variants: dict[str, list[str]] = {}
    for label in sorted(present):
        variants.setdefault(entries.get(label, label), []).append(label)
    variants = {entry: [label for label in labels if label in aware] or labels for entry, labels in variants.items()}
    several = [label for labels in variants.values() if len(labels) > 1 for label in labels]
    seen = sorted({p for c, _ in fixed.of(*several).lines("d") for p in fixed.photographs[fixed.places[c]]})
    reserved = _chosen_from(seen) if len(seen) >= fewest else set()
    half = fixed.on(reserved)
    selected, picked = [], False
    for entry, labels in variants.items():
        if len(labels) == 1:
            selected += labels
            continue
        shared = set.intersection(*({c for c, _ in half.of(label).lines("d")} for label in labels))
        if shared:
            subset, picked = replace(half, conditions=sorted(shared)), True
            selected.append(min(labels, key=lambda label: float(subset.of(label).by_image("d")[0].mean())))
        else:
            selected.append(entry if entry in labels else labels[0])
    return sorted(selected), reserved if picked else set()


def _chosen_from(photographs: Sequence[str]) -> set[str]:
    """Return half of each data set's photographs."""
    selected: set[str] = set()
    for family in {photograph.partition(" · ")[0] for photograph in photographs}:
        members = [photograph for photograph in photographs if photograph.partition(" · ")[0] == family]
        selected |= set(np.array(members)[chosen_half(members)])
    return selected


def said_of(reserved: Collection[str]) -> str:
    """Say on which photographs variants were chosen."""
    if not reserved:
        return ""
    names = sorted(photograph.partition(" · ")[2] for photograph in reserved)
    listed = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return (
        f" Of a defense with several parameter values, the table shows the one with the lowest D against fixed attacks "
        f"on {len(names)} photographs ({listed}); its numbers are of the other photographs."
    )
