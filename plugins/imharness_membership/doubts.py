"""Why rows cannot show that a model gives little away: flags or columns in a wrong order, rows that stand twice.

Attacks find nothing where members and others are mixed up, so that such an audit looks good and says nothing.
"""

from collections.abc import Iterator

import numpy as np
import scipy

from imharness_membership.audit_inputs import Array, Outputs
from imharness_membership.intervals import accuracy_of

RARE = 1e-3
"""A doubt arises with at most this probability where there is no reason for it."""
CHANCE = 1e-6
"""Rows that are equal on both sides are copies if chance explains as many with less than this probability."""
COPIES = 0.01
"""The share of the smaller side above which rows that stand on both sides matter."""
FEW = 4
"""Equal rows of larger number are of outputs with few values, and stand on both sides anyway."""
KAPPA, SURE = 0.1, 0.01
"""A model whose agreement with the labels beyond chance is below this, with this probability of an error, has not
learned them."""
CLASSES = 0.55
"""The balanced accuracy that classes alone may reach, which is 1/2 where members and others are of one source."""
AS_SURE = 0.75
"""A model is about as sure of non-members as of members where its largest probabilities separate them with at most
this area under the ROC curve."""
CLOSE, FAR, SMALL = 1e-3, 0.1, 1e-4
"""Distances of copies, and of rows that are none, and what is added to probabilities before their logarithm."""
MOST = 0.95
"""The share of repeated values that stand equally often, where a file was given several times."""
CERTAIN = 0.999
"""Probabilities of two classes above this are compared with none: so near to 1 numbers lie on a grid of their own."""
EVEN, LEAST_GAPS, DIGITS = 4.0, 25, 6
"""The smallest distances of values that lie on a grid differ by less than this factor, from the tenth of them to the
last but a tenth; so many are needed to say so. Values are compared up to so many digits, as further ones are those of
arithmetic."""
DISTINCT = 0.1
"""The share of distinct rows below which a model has few answers, as trees do."""


SOFT, PILED = 0.01, 0.05
"""A softmax was taken twice where undoing one leaves probabilities, up to `SOFT`, and this share of rows is certain, up
to `SOFT` for each other class, of at most five."""


def doubts_of(model: Outputs, name: str, has_labels: bool) -> Iterator[str]:
    """Yield in sentences why the rows of a model, called `name`, can show no small number."""
    inside, outside = model.member, ~model.member
    if (model.outputs == model.outputs[0]).all():
        yield (
            f"The {name} answers all {len(model.outputs)} rows with the same probabilities, which tell nothing of any "
            "row. Are these its outputs?"
        )
    if _softened(model.outputs):
        yield (
            f"All outputs of the {name} are what a softmax makes of probabilities, which hides how sure it is of a "
            "row. Was it taken twice?"
        )
    if has_labels:
        hits = model.outputs.argmax(axis=1) == model.labels
        right = int(hits[inside].sum())
        shares = f"{hits[inside].mean():.1%} of the members and {hits[outside].mean():.1%} of the non-members"
        if scipy.stats.hypergeom.cdf(right, len(hits), int(hits.sum()), int(inside.sum())) < RARE:
            yield (
                f"The {name} is right on {shares}: it looks worse on the rows that it is said to be trained on. "
                "Are the flags of members the other way round?"
            )
    if copies := shared(model.at(inside), model.at(outside)):
        yield (
            f"{copies} rows of the {name} stand among its members and among its non-members. Remove copies, and check "
            "that both files are not the same."
        )


def _softened(outputs: Array) -> bool:
    """Return whether a softmax of probabilities gives these ones, and some rows of the former are almost certain.

    Of probabilities it makes numbers of which none is more than e times another. A model that is unsure of all rows has
    such ones, too, but they do not pile up at that ratio.
    """
    logs = np.log(outputs.astype(np.float64).clip(SMALL))
    before = logs - logs.mean(axis=1, keepdims=True) + 1 / outputs.shape[1]
    certain = before.max(axis=1) >= 1 - SOFT * min(outputs.shape[1] - 1, 5)
    return bool(before.min() >= -SOFT and certain.mean() >= PILED)


def doubts_of_softmax(model: Outputs, name: str) -> Iterator[str]:
    """Yield in a sentence that one side of a model, called `name`, has a second softmax, which attacks find."""
    inside, outside = (_softened(model.outputs[model.member == side]) for side in (True, False))
    if inside != outside and not _softened(model.outputs):
        yield (
            f"Outputs of the {name} on {'members' if inside else 'non-members'} alone are what a softmax makes of "
            "probabilities. Was it taken twice there?"
        )


def doubts_of_copies(model: Outputs, name: str) -> Iterator[str]:
    """Yield in a sentence that rows of a model, called `name`, stand more than once, so that no interval holds."""
    if copies := repeated(model):
        yield (
            f"{copies} rows of the {name} stand again among its members or among its non-members, and intervals count "
            "each row as independent. Remove copies, and ask about each row once."
        )


def doubts_of_labels(model: Outputs, name: str) -> Iterator[str]:
    """Yield in a sentence why labels of a model, called `name`, do not seem to be those of its rows.

    Where they are wrong on one side alone, attacks find the wrong labels and not the members, so that neither verdict
    is shown.
    """
    classes = model.outputs.shape[1]
    for inside in (True, False):
        subset, of = model.at(model.member == inside), name if inside else f"{name} on non-members"
        hits = subset.outputs.argmax(axis=1) == subset.labels
        if renamed := _fits_better(subset.labels, subset.outputs):
            yield (
                f"The labels of the {of} fit its outputs better where they are renamed ({renamed}). Are the columns in "
                "another order than the labels?"
            )
            return
        worse = scipy.stats.binom.cdf(hits.sum(), len(hits), 1 / classes) < RARE
        # Of non-members a model may know nothing, but then it is less sure of them.
        if worse or (_guesses(subset, int(hits.sum())) and (inside or _as_sure(model))):
            what = f"worse than guesses among {classes} classes" if worse else "no better than guesses"
            what += "" if worse or inside else ", though it is about as sure of them as of members"
            yield (
                f"The {name} is right on {hits.mean():.1%} of the {'' if inside else 'non-'}members, "
                f"which is {what}. Do labels and outputs belong to the same rows?"
            )
            return


def doubts_of_classes(learned: Outputs, target: Outputs) -> Iterator[str]:
    """Yield in a sentence that members and others of the target are of other classes, so that neither verdict is shown.

    Attacks find the classes then and not the members. `learned`: the rows from which they learn.
    """
    classes = target.outputs.shape[1]
    members, rows = (
        np.bincount(labels, minlength=classes) for labels in (learned.labels[learned.member], learned.labels)
    )
    alone = accuracy_of((members > learned.member.mean() * rows)[target.labels], target.member)
    if alone.low > CLASSES:
        yield (
            f"The class of a row alone tells members of the target from others with a balanced accuracy of "
            f"{alone.value:.3f}, whatever the model answers: they are not from one source. Take others of the same "
            "classes, as often as members have them."
        )


def _guesses(subset: Outputs, right: int) -> bool:
    """Return whether predictions are shown to fit labels hardly better than if they were shuffled (Cohen's kappa)."""
    classes, n = subset.outputs.shape[1], len(subset.labels)
    labels, predicted = (
        np.bincount(indices, minlength=classes) / n for indices in (subset.labels, subset.outputs.argmax(axis=1))
    )
    by_chance = float(labels @ predicted)
    high = 1.0 if right == n else float(scipy.special.betaincinv(right + 1, n - right, 1 - SURE))
    return bool(labels.max() < 1 and high < by_chance + KAPPA * (1 - by_chance))


def _as_sure(model: Outputs) -> bool:
    """Return whether the largest probabilities of non-members are about as large as those of members."""
    sure = model.outputs.max(axis=1)
    inside, outside = sure[model.member], sure[~model.member]
    return bool(scipy.stats.mannwhitneyu(inside, outside).statistic <= AS_SURE * len(inside) * len(outside))


def shared(one: Outputs, other: Outputs) -> int:
    """Return how many rows, outputs and label, stand on both sides; 0 where chance explains it, or where they are few.

    Rows that are equal up to the last digits count, too, but not rounded ones, which are equal by chance.
    """
    first, second = _rows(one), _rows(other)
    if len(first) == len(second) and (first == second).all() and len(np.unique(first)) > 1:
        return len(first)
    least = COPIES * min(len(first), len(second))
    return next((count for count in (_equal(first, second), _near(one, other, first, second)) if count > least), 0)


def repeated(model: Outputs) -> int:
    """Return how many rows stand again on their side; 0 where chance explains it, or where they are few.

    Rows with values of other rows do not count, as answers of trees and rounded ones are equal by chance. Rows of two
    classes, whose two values say the same, count where their values lie on no grid. Equal rows of one source stand on
    both sides about as often as chance puts them there; copies stand on one.
    """
    _, rows, which = np.unique(_rows(model), return_index=True, return_inverse=True)
    ours, theirs = (np.bincount(which[side], minlength=len(rows)) for side in (model.member, ~model.member))
    counts, outputs = ours + theirs, model.outputs[rows]
    again = (counts >= 2) & (_of_its_own(outputs, 3) if outputs.shape[1] > 2 else _off_grid(outputs, counts))
    count, total = (ours + theirs)[again], len(which)
    further = int((np.maximum(ours - 1, 0) + np.maximum(theirs - 1, 0))[again].sum())
    if further <= COPIES * total:
        return 0
    share = model.member.mean()
    chance = float((share**count + (1 - share) ** count).mean())
    alone = int(((ours == 0) | (theirs == 0))[again].sum())
    return 0 if scipy.stats.binom.sf(alone - 1, len(count), chance) >= CHANCE else further


def _equal(first: Array, second: Array) -> int:
    """Return how many values stand on both sides, of those that few rows have; 0 where chance explains it.

    Rounded outputs are equal by chance. All rows being drawn from one source, k equal ones stand on one side with the
    probability of k draws of rows without return.
    """
    values, rows = np.unique(np.concatenate([first, second]), return_inverse=True)
    ours, theirs = (np.bincount(side, minlength=len(values)) for side in (rows[: len(first)], rows[len(first) :]))
    counts = (ours + theirs)[(ours + theirs >= 2) & (ours + theirs <= FEW)]
    parted, n, total = (
        int(((ours > 0) & (theirs > 0) & (ours + theirs <= FEW)).sum()),
        len(first),
        len(first) + len(second),
    )
    if not parted:
        return 0
    alone = scipy.special.binom(n, counts) + scipy.special.binom(total - n, counts)
    chance = float((1 - alone / scipy.special.binom(total, counts)).mean())
    return 0 if scipy.stats.binom.sf(parted - 1, len(counts), chance) >= CHANCE else parted


def _near(one: Outputs, other: Outputs, first: Array, second: Array) -> int:
    """Return how many rows far from all of their side are close to one of the other; 0 where chance explains it.

    Rows that stand more than once on a side count once; those with values of other rows do not count. Distances are the
    largest of log(p + 1e-4). Of one source, a side with no other row within `FAR` of one of its rows has one within
    `CLOSE` on a side as large with a probability of at most `CLOSE / FAR`, which is that for one dimension.
    """
    sides = [model.at(np.unique(rows, return_index=True)[1]) for model, rows in ((one, first), (other, second))]
    small, large = sorted(sides, key=lambda side: len(side.labels))
    if _has_few_answers(one, other):
        return 0
    places = [np.column_stack([np.log(side.outputs + SMALL), 100.0 * side.labels]) for side in (small, large)]
    there, here = (scipy.spatial.cKDTree(points, balanced_tree=False) for points in places)
    others = here.query(places[1], k=2, p=np.inf, distance_upper_bound=FAR)[0][:, 1]
    lonely = places[1][(others > FAR) & _of_its_own(large.outputs)]
    if not len(lonely):
        return 0
    matched = int((there.query(lonely, p=np.inf, distance_upper_bound=CLOSE)[0] <= CLOSE).sum())
    chance = CLOSE / FAR * len(small.labels) / len(large.labels)
    return 0 if scipy.stats.binom.sf(matched - 1, len(lonely), chance) >= CHANCE else matched


def _has_few_answers(one: Outputs, other: Outputs) -> bool:
    """Return whether outputs are equal for most rows, or for rows of several classes, which are then no copies."""
    outputs, labels = np.concatenate([one.outputs, other.outputs]), np.concatenate([one.labels, other.labels])
    answers = len(np.unique(_rows(Outputs(outputs, np.zeros_like(labels), labels))))
    rows = len(np.unique(_rows(Outputs(outputs, labels, labels))))
    return answers < DISTINCT * len(labels) or answers < (1 - COPIES) * rows


def _of_its_own(outputs: Array, least: int = 2) -> Array:
    """Return whether a row has so many values that no other has, bool ``(n,)``; rounded ones and trees' do not."""
    _, which, counts = np.unique(outputs, return_inverse=True, return_counts=True)
    return np.asarray((counts[which.reshape(outputs.shape)] == 1).sum(axis=1) >= least)


def _off_grid(outputs: Array, counts: Array) -> Array:
    """Return which of different answers of two classes, given so many times, are equal although they lie on no grid.

    Of rounded values that lie so close that as many are equal, at least as many stand on neighbouring points of the
    grid: the smallest distances are those of the grid, which is even in the probability or in its log odds. Where the
    grid is so coarse that most points are taken, values stand often, and not equally often.
    """
    sure = outputs.max(axis=1).astype(np.float64).round(DIGITS)
    fine = (counts >= 2) & (sure < CERTAIN)
    values, again = np.unique(sure[sure < CERTAIN]), counts[fine]
    few = len(again)
    if min(few, len(values) - 1) < LEAST_GAPS:
        return np.zeros_like(fine)
    equally = np.bincount(again).max() >= MOST * few
    if not equally and (few > len(values) / 2 or (again <= FEW).mean() < MOST):
        return np.zeros_like(fine)
    odds = np.log(values / (1 - values))
    gaps = (np.diff(values), np.diff(odds), np.diff(odds) / np.maximum(odds[1:], SMALL))
    low, high = np.quantile([np.sort(each)[:few] for each in gaps], [0.1, 0.9], axis=1)
    return fine & bool((high > EVEN * low).all())


def _rows(side: Outputs) -> Array:
    """Return a number for outputs and label of each row, uint64 ``(n,)``, which two different rows hardly share."""
    words = np.random.default_rng(0).integers(1, 2**64, side.outputs.shape[1] + 1, dtype=np.uint64)
    digests = side.labels.astype(np.uint64) * words[-1]
    for column, word in zip(side.outputs.T, words, strict=False):
        digests += np.ascontiguousarray(column).view(np.uint32) * word
    return digests


def _fits_better(labels: Array, outputs: Array) -> str:
    """Return how classes are to be renamed, such as "0 to 3", so that more predictions are right, or "".

    The names that fit best on one half of the rows must make more predictions right on the other half, by a sign test.
    """
    predicted, half = outputs.argmax(axis=1), np.random.default_rng(0).random(len(labels)) < 0.5
    classes = outputs.shape[1]
    counts = scipy.sparse.coo_array((np.ones(half.sum()), (labels[half], predicted[half])), shape=(classes, classes))
    # of names that fit equally well, those that classes have; and a column of its own for each class that fits none
    same, none = scipy.sparse.eye_array(classes) / 2, scipy.sparse.eye_array(classes) / 4
    choices = scipy.sparse.hstack([counts + same, none]).tocsr()
    _, names = scipy.sparse.csgraph.min_weight_full_bipartite_matching(choices, maximize=True)
    nameless = names >= classes
    names[nameless] = np.where(np.isin(np.flatnonzero(nameless), names), -1, np.flatnonzero(nameless))
    other = ~half
    before, after = predicted[other] == labels[other], predicted[other] == names[labels[other]]
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    if scipy.stats.binom.sf(gained - 1, gained + lost, 0.5) >= RARE:
        return ""
    changed = np.flatnonzero((names != np.arange(classes)) & (names >= 0))
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return ", ".join(f"{label} to {names[label]}" for label in changed[:3]) + more
