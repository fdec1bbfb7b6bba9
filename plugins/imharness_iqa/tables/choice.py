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

    Of several variants, the one with the lowest D is taken. D is measured under the conditions that all variants have,
    on half of each data set's photographs; what is reported must be measured on the other half. If there are fewer than
    `fewest` photographs, or no common condition, nothing is chosen: the variant with default values is taken.

    Args:
        fixed: images under fixed attacks.
        entries: label -> the defense that it is a variant of; a label that is not there is its own defense.
        trained: labels of training defenses, which are left out.
        aware: labels of defenses that were attacked adaptively. If only some variants of a defense were, the choice is
            among these, so that both kinds of attackers meet the same variant.
        fewest: the number of photographs from which on variants are chosen.
    """
    present = {fixed.blocks.entries[row] for _, row in fixed.lines("d")} - set(trained)
    variants: dict[str, list[str]] = {}
    for label in sorted(present):
        variants.setdefault(entries.get(label, label), []).append(label)
    variants = {entry: [label for label in labels if label in aware] or labels for entry, labels in variants.items()}
    several = [label for labels in variants.values() if len(labels) > 1 for label in labels]
    conditions = {c for c, _ in fixed.of(*several).lines("d")}
    photographs = sorted({name for c in conditions for name in fixed.photographs[fixed.places[c]]})
    reserved = _half_of(photographs) if len(photographs) >= fewest else set()
    on_reserved = fixed.on(reserved)
    selected, any_chosen = [], False
    for entry, labels in variants.items():
        if len(labels) == 1:
            selected += labels
            continue
        shared = set.intersection(*({c for c, _ in on_reserved.of(label).lines("d")} for label in labels))
        if shared:
            subset, any_chosen = replace(on_reserved, conditions=sorted(shared)), True
            selected.append(min(labels, key=lambda label: float(subset.of(label).by_image("d")[0].mean())))
        else:
            selected.append(entry if entry in labels else labels[0])
    return sorted(selected), reserved if any_chosen else set()


def _half_of(photographs: Sequence[str]) -> set[str]:
    """Return half of each data set's photographs; names are ``DATA SET · PHOTOGRAPH``."""
    selected: set[str] = set()
    for dataset in {photograph.partition(" · ")[0] for photograph in photographs}:
        members = [photograph for photograph in photographs if photograph.partition(" · ")[0] == dataset]
        selected |= set(np.array(members)[chosen_half(members)])
    return selected


def said_of(reserved: Collection[str]) -> str:
    """Return a sentence for captions on which photographs variants were chosen; "" where none was."""
    if not reserved:
        return ""
    names = sorted(photograph.partition(" · ")[2] for photograph in reserved)
    listed = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return (
        f" Of a defense with several parameter values, the table shows the one with the lowest D against fixed attacks "
        f"on {len(names)} photographs ({listed}); its numbers are of the other photographs."
    )
