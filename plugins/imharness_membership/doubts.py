"""Finds mistakes in the rows of an audit: flags or columns in a wrong order, wrong labels, copies of rows.

If members and non-members are mixed up, attacks find nothing: the audit looks good and says nothing. In this file, the
two sides of a model are its members and its non-members.
"""

from collections.abc import Iterator

import numpy as np
import scipy

from imharness_membership.audit_inputs import Array, Outputs
from imharness_membership.intervals import accuracy_of

RARE = 1e-3
"""The significance level of tests for wrong flags and labels: a correct input raises a doubt at most this often."""
CHANCE = 1e-6
"""Equal rows count as copies if chance produces as many equal rows with less than this probability."""
COPIES = 0.01
"""The share of the rows (of the smaller side, where both are compared) above which copies matter."""
FEW = 4
"""More equal rows than this are no copies: the outputs have few different values."""
KAPPA, SURE = 0.1, 0.01
"""A model has not learned its labels if Cohen's kappa of predictions and labels is below `KAPPA`, shown with an error
probability of `SURE`."""
CLASSES = 0.55
"""The largest balanced accuracy with which the class of a row may predict its membership; it is 1/2 where members and
non-members come from one source."""
AS_SURE = 0.75
"""A model is about as sure of non-members as of members if its largest probabilities separate them with at most this
area under the ROC curve."""
CLOSE, FAR, SMALL = 1e-3, 0.1, 1e-4
"""Two rows whose log probabilities differ by at most `CLOSE` are copies; by more than `FAR`, they have nothing to do
with each other. `SMALL` is added to probabilities before the logarithm."""
MOST = 0.95
"""If at least this share of repeated values is repeated equally often, the whole file was passed several times."""
CERTAIN = 0.999
"""Probabilities above this are not compared where there are two classes: float32 numbers so near to 1 lie on a grid."""
EVEN, LEAST_GAPS, DIGITS = 4.0, 25, 6
"""Values lie on a grid if the gaps between neighbours are even: among the smallest gaps, the 90th percentile is at most
`EVEN` times the 10th. At least `LEAST_GAPS` gaps are needed. Values are rounded to `DIGITS` digits first, because
further ones are arithmetic noise."""
DISTINCT = 0.1
"""The share of distinct rows below which a model has few different answers, as trees do."""
SOFT, PILED = 0.01, 0.05
"""A softmax was taken twice if undoing one gives probabilities again, up to an error of `SOFT`, and if at least the
share `PILED` of them is certain: 1 up to an error of `SOFT` for each other class, of at most five."""


def doubts_of(model: Outputs, name: str, has_labels: bool) -> Iterator[str]:
    """Yield sentences on why the rows of a model, called `name`, could not show a small number for any model."""
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
    """Return whether outputs ``(n, classes)`` are the softmax of probabilities, of which some are almost certain.

    A softmax of probabilities gives numbers of which none is more than e times another. Outputs of a model that is
    unsure of all rows are so, too, but then hardly any row reaches the ratio e.
    """
    logs = np.log(outputs.astype(np.float64).clip(SMALL))
    undone = logs - logs.mean(axis=1, keepdims=True) + 1 / outputs.shape[1]  # rows have the sum 1
    certain = undone.max(axis=1) >= 1 - SOFT * min(outputs.shape[1] - 1, 5)
    return bool(undone.min() >= -SOFT and certain.mean() >= PILED)


def doubts_of_softmax(model: Outputs, name: str) -> Iterator[str]:
    """Yield a sentence if a softmax was taken twice on one side of a model alone, so that attacks find the softmax."""
    inside, outside = (_softened(model.outputs[model.member == side]) for side in (True, False))
    if inside != outside and not _softened(model.outputs):
        yield (
            f"Outputs of the {name} on {'members' if inside else 'non-members'} alone are what a softmax makes of "
            "probabilities. Was it taken twice there?"
        )


def doubts_of_copies(model: Outputs, name: str) -> Iterator[str]:
    """Yield a sentence if a side of a model, called `name`, has copies of rows, so that no interval holds."""
    if copies := repeated(model):
        yield (
            f"{copies} rows of the {name} stand again among its members or among its non-members, and intervals count "
            "each row as independent. Remove copies, and ask about each row once."
        )


def doubts_of_labels(model: Outputs, name: str) -> Iterator[str]:
    """Yield a sentence if labels of a model, called `name`, seem to belong to other rows or to have other names.

    If they are wrong on one side alone, attacks find the wrong labels and not the members, so that there is no verdict.
    """
    classes = model.outputs.shape[1]
    for inside in (True, False):
        subset = model.at(model.member == inside)
        of = name if inside else f"{name} on non-members"
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
    """Yield a sentence if the class of a row alone predicts membership, so that there is no verdict.

    Attacks then find the classes and not the members. A class counts as one of members if more of its rows in
    `learned`, from which attacks learn, are members than of all rows.
    """
    classes = target.outputs.shape[1]
    members = np.bincount(learned.labels[learned.member], minlength=classes)
    rows = np.bincount(learned.labels, minlength=classes)
    is_member_class = members > learned.member.mean() * rows
    alone = accuracy_of(is_member_class[target.labels], target.member)
    if alone.low > CLASSES:
        yield (
            f"The class of a row alone tells members of the target from others with a balanced accuracy of "
            f"{alone.value:.3f}, whatever the model answers: they are not from one source. Take others of the same "
            "classes, as often as members have them."
        )


def _guesses(subset: Outputs, right: int) -> bool:
    """Return whether predictions fit labels hardly better than shuffled ones: Cohen's kappa is shown to be small.

    `right`: the number of right predictions.
    """
    classes, n = subset.outputs.shape[1], len(subset.labels)
    label_shares = np.bincount(subset.labels, minlength=classes) / n
    predicted_shares = np.bincount(subset.outputs.argmax(axis=1), minlength=classes) / n
    by_chance = float(label_shares @ predicted_shares)
    high = 1.0 if right == n else float(scipy.special.betaincinv(right + 1, n - right, 1 - SURE))
    return bool(label_shares.max() < 1 and high < by_chance + KAPPA * (1 - by_chance))


def _as_sure(model: Outputs) -> bool:
    """Return whether the largest probabilities of non-members are about as large as those of members."""
    sure = model.outputs.max(axis=1)
    inside, outside = sure[model.member], sure[~model.member]
    return bool(scipy.stats.mannwhitneyu(inside, outside).statistic <= AS_SURE * len(inside) * len(outside))


def shared(one: Outputs, other: Outputs) -> int:
    """Return how many rows (outputs and label) of one set are in the other, too; 0 if chance explains it.

    It is also 0 if they are at most the share `COPIES`. Rows that are equal up to the last digits count, too; rounded
    ones, which are equal by chance, do not.
    """
    first, second = _rows(one), _rows(other)
    if len(first) == len(second) and (first == second).all() and len(np.unique(first)) > 1:
        return len(first)
    fewest = COPIES * min(len(first), len(second))
    equal = _equal(first, second)
    if equal > fewest:
        return equal
    near = _near(one, other, first, second)
    return near if near > fewest else 0


def repeated(model: Outputs) -> int:
    """Return how many rows are copies of another row on their side; 0 if chance explains it, or if they are few.

    Answers of trees and rounded answers are equal by chance. So a row counts only if it has at least three values that
    no different row has; with two classes, whose two values say the same, only if the values lie on no grid. Rows that
    are equal because of their source are on both sides as often as chance puts them there; copies are on one side.
    """
    _, rows, which = np.unique(_rows(model), return_index=True, return_inverse=True)
    # of each different row: how often it is among members, and among non-members
    inside = np.bincount(which[model.member], minlength=len(rows))
    outside = np.bincount(which[~model.member], minlength=len(rows))
    counts, outputs = inside + outside, model.outputs[rows]
    distinctive = _has_unique_values(outputs, 3) if outputs.shape[1] > 2 else _off_grid(outputs, counts)
    repeats = (counts >= 2) & distinctive
    copies = int((np.maximum(inside - 1, 0) + np.maximum(outside - 1, 0))[repeats].sum())
    if copies <= COPIES * len(which):
        return 0
    share = model.member.mean()
    chance = float((share ** counts[repeats] + (1 - share) ** counts[repeats]).mean())  # that all are on one side
    on_one_side = int(((inside == 0) | (outside == 0))[repeats].sum())
    return 0 if scipy.stats.binom.sf(on_one_side - 1, int(repeats.sum()), chance) >= CHANCE else copies


def _equal(first: Array, second: Array) -> int:
    """Return how many values are in both arrays, of those that 2 to `FEW` rows have; 0 if chance explains it.

    Rounded outputs are equal by chance. If all rows come from one source, k equal rows are all in one array with the
    probability that k rows drawn without replacement are.
    """
    values, rows = np.unique(np.concatenate([first, second]), return_inverse=True)
    in_first = np.bincount(rows[: len(first)], minlength=len(values))
    in_second = np.bincount(rows[len(first) :], minlength=len(values))
    both = in_first + in_second
    in_both = int(((in_first > 0) & (in_second > 0) & (both <= FEW)).sum())
    if not in_both:
        return 0
    counts = both[(both >= 2) & (both <= FEW)]
    in_one = scipy.special.binom(len(first), counts) + scipy.special.binom(len(second), counts)
    chance = float((1 - in_one / scipy.special.binom(len(first) + len(second), counts)).mean())
    return 0 if scipy.stats.binom.sf(in_both - 1, len(counts), chance) >= CHANCE else in_both


def _near(one: Outputs, other: Outputs, first: Array, second: Array) -> int:
    """Return how many rows of the larger set are almost equal to a row of the smaller one; 0 if chance explains it.

    Only lonely rows count: rows without another row of their own set within `FAR`, and with values that no other row
    has. Equal rows of a set count once. The distance of two rows is the largest difference of log(p + 1e-4). If both
    sets come from one source and have the same size, a lonely row has a row of the other set within `CLOSE` with a
    probability of at most `CLOSE / FAR`, which is the probability in one dimension.

    `first` and `second` are `_rows` of `one` and `other`.
    """
    if _has_few_answers(one, other):
        return 0
    distinct = [model.at(np.unique(rows, return_index=True)[1]) for model, rows in ((one, first), (other, second))]
    small, large = sorted(distinct, key=lambda outputs: len(outputs.labels))
    small_points, large_points = (
        np.column_stack([np.log(outputs.outputs + SMALL), 100.0 * outputs.labels]) for outputs in (small, large)
    )
    small_tree = scipy.spatial.cKDTree(small_points, balanced_tree=False)
    large_tree = scipy.spatial.cKDTree(large_points, balanced_tree=False)
    # the nearest point is the point itself, so the second one is the nearest other row
    nearest_other = large_tree.query(large_points, k=2, p=np.inf, distance_upper_bound=FAR)[0][:, 1]
    lonely = large_points[(nearest_other > FAR) & _has_unique_values(large.outputs)]
    if not len(lonely):
        return 0
    matched = int((small_tree.query(lonely, p=np.inf, distance_upper_bound=CLOSE)[0] <= CLOSE).sum())
    chance = CLOSE / FAR * len(small.labels) / len(large.labels)
    return 0 if scipy.stats.binom.sf(matched - 1, len(lonely), chance) >= CHANCE else matched


def _has_few_answers(one: Outputs, other: Outputs) -> bool:
    """Return whether most rows have the same few outputs, or rows of several classes do, so that they are no copies."""
    outputs, labels = np.concatenate([one.outputs, other.outputs]), np.concatenate([one.labels, other.labels])
    answers = len(np.unique(_rows(Outputs(outputs, np.zeros_like(labels), labels))))
    rows = len(np.unique(_rows(Outputs(outputs, labels, labels))))
    return answers < DISTINCT * len(labels) or answers < (1 - COPIES) * rows


def _has_unique_values(outputs: Array, least: int = 2) -> Array:
    """Return for each row whether at least `least` of its values are in no other row, bool ``(n,)``.

    Rounded outputs and those of trees have hardly any such values.
    """
    _, which, counts = np.unique(outputs, return_inverse=True, return_counts=True)
    return np.asarray((counts[which.reshape(outputs.shape)] == 1).sum(axis=1) >= least)


def _off_grid(outputs: Array, counts: Array) -> Array:
    """Return which repeated answers to two classes are no rounded values, bool ``(n,)``.

    `outputs` ``(n, 2)`` are different answers, and `counts` ``(n,)`` how often each occurs. If values are rounded so
    that many are equal, at least as many lie on neighbouring points of the rounding grid. So the smallest gaps between
    values are those of the grid, which is even in the probability or in its log odds. If the grid is so coarse that
    most of its points occur, values occur often, and not equally often.
    """
    confidence = outputs.max(axis=1).astype(np.float64).round(DIGITS)
    repeats = (counts >= 2) & (confidence < CERTAIN)
    values, repeat_counts = np.unique(confidence[confidence < CERTAIN]), counts[repeats]
    number = len(repeat_counts)
    if min(number, len(values) - 1) < LEAST_GAPS:
        return np.zeros_like(repeats)
    equally_often = np.bincount(repeat_counts).max() >= MOST * number
    if not equally_often and (number > len(values) / 2 or (repeat_counts <= FEW).mean() < MOST):
        return np.zeros_like(repeats)
    odds = np.log(values / (1 - values))
    gaps = (np.diff(values), np.diff(odds), np.diff(odds) / np.maximum(odds[1:], SMALL))
    low, high = np.quantile([np.sort(each)[:number] for each in gaps], [0.1, 0.9], axis=1)
    return repeats & bool((high > EVEN * low).all())


def _rows(side: Outputs) -> Array:
    """Return a hash of the outputs and the label of each row, uint64 ``(n,)``."""
    words = np.random.default_rng(0).integers(1, 2**64, side.outputs.shape[1] + 1, dtype=np.uint64)
    digests = side.labels.astype(np.uint64) * words[-1]
    for column, word in zip(side.outputs.T, words, strict=False):
        digests += np.ascontiguousarray(column).view(np.uint32) * word
    return digests


def _fits_better(labels: Array, outputs: Array) -> str:
    """Return how labels must be renamed, such as "0 to 3", so that more predictions are right; "" if none must.

    The renaming that fits best on one half of the rows must make more predictions right on the other half, by a sign
    test.
    """
    predicted, half = outputs.argmax(axis=1), np.random.default_rng(0).random(len(labels)) < 0.5
    classes = outputs.shape[1]
    # 1. Match each label with the prediction that it coincides with most often, by rows of one half.
    counts = scipy.sparse.coo_array((np.ones(half.sum()), (labels[half], predicted[half])), shape=(classes, classes))
    unchanged = scipy.sparse.eye_array(classes) / 2  # of renamings that fit equally well, the name that a class has
    without = scipy.sparse.eye_array(classes) / 4  # a further column for each class, for one that fits no prediction
    choices = scipy.sparse.hstack([counts + unchanged, without]).tocsr()
    _, names = scipy.sparse.csgraph.min_weight_full_bipartite_matching(choices, maximize=True)
    # 2. A class without a match retains its name, or has none (-1) if another class has it now.
    nameless = names >= classes
    names[nameless] = np.where(np.isin(np.flatnonzero(nameless), names), -1, np.flatnonzero(nameless))
    # 3. Test the renaming on the other half.
    other = ~half
    before, after = predicted[other] == labels[other], predicted[other] == names[labels[other]]
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    if scipy.stats.binom.sf(gained - 1, gained + lost, 0.5) >= RARE:
        return ""
    changed = np.flatnonzero((names != np.arange(classes)) & (names >= 0))
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return ", ".join(f"{label} to {names[label]}" for label in changed[:3]) + more
