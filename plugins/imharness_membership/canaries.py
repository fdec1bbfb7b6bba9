"""Canaries: mislabelled rows that stand for the records that a model exposes most.

Aerni, Zhang & Tramer, "Evaluations of Machine Learning Privacy Defenses are Misleading" (CCS 2024): a model can only
learn a wrong label by heart, or not at all. So mislabelled rows show how much a model gives away about its most
vulnerable record, which a mean over all rows hides. All splits have the same canaries; each split trains on some of
them, which it draws.
"""

from dataclasses import dataclass, replace

import torch

from imharness_membership.networks import Split

INSIDE = 8
"""One in `INSIDE` canaries is trained on; most of them stay outside, because small false-positive rates are counted on
them."""


@dataclass(frozen=True)
class Canaries:
    """The canaries of a split.

    Attributes:
        rows: their row numbers ``(n,)``.
        inside: which of them are trained on, bool ``(n,)``.
    """

    rows: torch.Tensor
    inside: torch.Tensor


def planted(split: Split, count: int) -> Canaries:
    """Draw `count` canaries and give them wrong labels in the split's table; return them.

    Canaries are removed from the rows of the split's models, so that no row is trained on under two labels.
    """
    rng, labels = split.context.generator("canaries", shared=True), split.table.labels.clone()
    rows = torch.randperm(len(labels), generator=rng)[:count]
    shift = torch.randint(1, split.table.classes, (len(rows),), generator=rng).to(labels.device)
    labels[rows] = (labels[rows] + shift) % split.table.classes
    split.table = replace(split.table, labels=labels)
    split.parts = {name: indices[~torch.isin(indices, rows)] for name, indices in split.parts.items()}
    drawn = torch.randperm(len(rows), generator=split.rng("canaries"))[: len(rows) // INSIDE]
    return Canaries(rows, torch.zeros(len(rows), dtype=torch.bool).scatter(0, drawn, True))
