"""Judgements that every distance contradicts: votes for the wrong alternative, or shares and opinions turned round.

What people found nearer is nearer by most distances, too. If no distance of a run follows the judgements of a data set,
and one contradicts them more than chance does, then the files are probably read another way than people were asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from imharness.leaderboard import Blocks, spearman_rows

SIDES_WITH, SIDES_AGAINST = 2.0, -3.5
"""How many standard errors of chance above 0 a distance follows judgements, and below 0 contradicts them. A distance
that has nothing to do with them is below -3.5 in 2 of 10,000 data sets."""
REVERSED = -0.3
"""The agreement, from -1 to 1, below which judgements are taken for reversed; 0 is chance."""
VOTES = "the two alternatives must not be exchanged, and a vote is the share of people who found the second one nearer"
SHARES = "they must be the shares of people who saw no difference"
SCORES = "a higher mos must mean a better image; where people rated how much worse an image is (DMOS), change the sign"
"""What judgements must mean."""


@dataclass(frozen=True)
class Agreement:
    """How far a distance follows judgements: from -1, always against them, over 0, chance, to 1."""

    value: float
    standard_error: float


def said_of_choices(choices: Blocks) -> list[str]:
    """Return a sentence for each data set of which all distances choose against people.

    `choices`: the credit of metrics for forced choices (measure "all"), as `forced_choices` returns it. Choices that
    nobody was asked about do not count.
    """
    datasets = sorted({condition["dataset"] for condition in choices.conditions})
    sentences = []
    for dataset in datasets:
        conditions = choices.where(dataset=dataset)
        judge, judges = (np.concatenate([choices.about[name][c] for c in conditions]) for name in ("judge", "judges"))
        credit = np.concatenate([choices.values["all"][c] for c in conditions], axis=1)
        agreements = {
            metric: followed_votes(of_metric[judges != 0], judge[judges != 0])
            for metric, of_metric in zip(choices.entries, credit, strict=True)
        }
        sentences.append(said_of_agreements(f"The votes of {dataset}", agreements, VOTES))
    return [sentence for sentence in sentences if sentence]


def said_of_ranks(judgements: str, distances: Mapping[str, tuple[np.ndarray, np.ndarray]], meaning: str) -> str:
    """Return a sentence if all distances are the larger, the better people found images; else "".

    `judgements`: their name; `distances`: metric -> its distances ``(n,)`` and what people said ``(n,)``, which is the
    higher, the nearer they found an image to its reference; `meaning`: what their numbers must mean.
    """
    return said_of_agreements(
        judgements, {metric: followed_ranks(*values) for metric, values in distances.items()}, meaning
    )


def followed_votes(credit: np.ndarray, judge: np.ndarray) -> Agreement:
    """Return how far a distance follows votes; a choice weighs as much as its votes are apart from a tie.

    `credit`: the share of people with whom the distance agrees ``(n,)``, NaN without a distance; `judge`: the share
    that found alternative 1 nearer ``(n,)``.
    """
    defined = ~np.isnan(credit)
    weight = np.abs(2 * judge[defined] - 1)
    total = float(weight.sum())
    if not total:
        return Agreement(0.0, 1.0)
    return Agreement(float((2 * credit[defined] - 1).sum()) / total, float(np.sqrt((weight**2).sum())) / total)


def followed_ranks(distance: np.ndarray, better: np.ndarray) -> Agreement:
    """Return the rank correlation of nearness with what people found `better`, and its standard error by chance."""
    count = len(distance)
    rho = float(spearman_rows(-distance[None], better)[0]) if count > 1 else np.nan
    return Agreement(0.0, 1.0) if np.isnan(rho) else Agreement(rho, 1 / float(np.sqrt(count - 1)))


def said_of_agreements(judgements: str, agreements: Mapping[str, Agreement], meaning: str) -> str:
    """Return a sentence if no distance follows the judgements and one is against them; else ""."""
    errors = {metric: agreement.value / agreement.standard_error for metric, agreement in agreements.items()}
    most = min(errors, key=lambda metric: (errors[metric], metric), default="")
    if not most or max(errors.values()) > SIDES_WITH:
        return ""
    if errors[most] > SIDES_AGAINST or agreements[most].value > REVERSED:
        return ""
    return (
        f"{judgements} contradict every distance; most of all {most}, whose agreement with them is "
        f"{agreements[most].value:.2f} from -1, always against them, to 1 (0 is chance): {meaning}."
    )
