"""Reference models of an audit: their answers on the target's rows, and how evaluators use them."""

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from imharness.errors import UsageError
from imharness.files import numbered, read_arrays, read_columns
from imharness.leaderboard import balanced_accuracy, chosen_half
from imharness.membership import InferMembership, MembershipQuery, References
from imharness_membership.audit_inputs import Array, Outputs, checked
from imharness_membership.likelihood import log_odds
from imharness_membership.thresholds import class_thresholds

FEWEST = 4
"""The fewest reference models: one stands in for the target, and those that are left need a mean and a variance."""
COPIED, LEAST, CERTAIN = 0.99, 20, 10.0
"""A reference is the target if so large a share of its log odds are the target's, of those up to `CERTAIN` in size, of
which there must be so many different ones: trees, and models that are certain, answer alike by chance."""
SAME = 1e-4
"""Log odds of one model that were computed twice differ by no more than this, and by no more than this share."""
CHECKED = 2
"""So many reference models are attacked by the others, to see how accurate an evaluator is where members are known."""


@dataclass(frozen=True)
class GivenReferences:
    """What a person gave as the answers of reference models on the target's rows, not checked yet.

    Args:
        answers: should be the log odds of the true class, log p_y - log(1 - p_y), ``(K, n)``, or probabilities
            ``(K, n, classes)``.
        member: should be ``(K, n)``, true where a reference model was trained on a row of the target.
        called: the names of these two in messages.
        views, target_views: should be log odds of v altered copies of each row, such as its mirror image: those of the
            references, ``(K, v, n)``, and those of the target, ``(v, n)``; both or neither.
    """

    answers: Array
    member: Array
    called: tuple[str, str] = ("references: answers", "references: member")
    views: Array | None = None
    target_views: Array | None = None


@dataclass(frozen=True)
class KnownReferences:
    """Answers of K reference models on rows of the target.

    Attributes:
        log_odds: of the true class, float32 ``(K, n)``.
        member: bool ``(K, n)``, which rows each was trained on.
        outputs: probabilities float32 ``(K, n, classes)``, where they were given.
        notes: what was done to outputs, so that they became probabilities.
        views, target_views: log odds of altered copies of the rows, float32 ``(K, v, n)`` and ``(v, n)``, where they
            were given.
    """

    log_odds: Array
    member: Array
    outputs: Array | None = None
    notes: tuple[str, ...] = ()
    views: Array | None = None
    target_views: Array | None = None

    @property
    def outside(self) -> bool:
        """Whether none of the models was trained on any of the rows."""
        return not self.member.any()

    def at(self, chosen: Array) -> "KnownReferences":
        """Return the answers on the chosen rows, by number or by a mask."""
        outputs = None if self.outputs is None else self.outputs[:, chosen]
        views, theirs = (None if each is None else each[..., chosen] for each in (self.views, self.target_views))
        return KnownReferences(self.log_odds[:, chosen], self.member[:, chosen], outputs, self.notes, views, theirs)

    def without(self, number: int) -> "KnownReferences":
        """Return all models but one, which takes the target's place."""
        mask = np.arange(len(self.member)) != number
        outputs = None if self.outputs is None else self.outputs[mask]
        views, theirs = (None, None) if self.views is None else (self.views[mask], self.views[number])
        return KnownReferences(self.log_odds[mask], self.member[mask], outputs, (), views, theirs)

    def shadow(self, labels: Array) -> Outputs | None:
        """Return the first model as a shadow model, whose members are known; None if only log odds were given."""
        return None if self.outputs is None or self.outside else Outputs(self.outputs[0], labels, self.member[0])


def checked_references(references: GivenReferences, target: Outputs) -> KnownReferences:
    """Return the checked answers on the target's rows; raises `UsageError` that names the argument."""
    rows = _checked_answers(references, target)
    if references.views is None and references.target_views is None:
        return rows
    if references.views is None or references.target_views is None:
        raise UsageError("references: give views of the references and target_views of the target, or neither.")
    pair, (count, n) = (references.views, references.target_views), rows.log_odds.shape
    for name, each, shape in zip(("views", "target_views"), pair, ((count, -1, n), (-1, n)), strict=True):
        fits = each.ndim == len(shape) and (*each.shape[:-2], -1, each.shape[-1]) == shape
        if not fits or each.dtype.kind not in "iuf" or not np.isfinite(each).all():
            wanted = ", ".join("views" if size < 0 else str(size) for size in shape)
            raise UsageError(f"references: {name} must be finite log odds with shape ({wanted}).")
    views, theirs = (np.asarray(each, dtype=np.float32) for each in pair)
    if views.shape[1] != len(theirs) or len(theirs) == 0:
        raise UsageError(f"references: views holds {views.shape[1]} views of each row and target_views {len(theirs)}.")
    note = f"Reference models and the target were also asked about views of each row: {len(theirs)}"
    return replace(rows, notes=(*rows.notes, note), views=views, target_views=theirs)


def _checked_answers(references: GivenReferences, target: Outputs) -> KnownReferences:
    answers, mask, labels = references.answers, references.member, target.labels
    where, whose = references.called
    n = len(labels)
    if answers.ndim not in (2, 3) or answers.shape[1] != n or answers.dtype.kind not in "iuf":
        raise UsageError(
            f"{where} must be log odds (references, rows) or probabilities (references, rows, classes) for the {n} "
            f"rows of the target, got {answers.dtype} {answers.shape}."
        )
    if len(answers) < FEWEST:
        raise UsageError(f"{where}: at least {FEWEST} reference models are needed, got {len(answers)}.")
    if mask.shape != answers.shape[:2] or not np.isin(mask, (0, 1)).all():
        raise UsageError(f"{whose} must hold true and false with shape {answers.shape[:2]}, got {mask.shape}.")
    member = mask.astype(bool)
    mixed = member.any(axis=1) & ~member.all(axis=1)
    if member.any() and not mixed.all():
        raise UsageError(
            f"{whose}: reference {int(np.flatnonzero(~mixed)[0])} was trained on all or on none of the rows; each must "
            "be trained on some of them, or all references on none."
        )
    if answers.ndim == 3:
        flat, _, note = checked(
            answers.reshape(-1, answers.shape[2]), np.tile(labels, len(answers)), where, "labels", False
        )
        odds = log_odds(torch.from_numpy(flat), torch.from_numpy(np.tile(labels, len(answers)))).numpy()
        notes = (note,) if note else ()
        _refuse_target(odds.reshape(member.shape), target, where)
        _refuse_copies(odds.reshape(member.shape), where)
        return KnownReferences(odds.reshape(member.shape), member, flat.reshape(answers.shape), notes)
    if not target.labelled:
        raise UsageError(f"{where}: without labels, give probabilities of all classes instead of log odds.")
    if not np.isfinite(answers).all():
        raise UsageError(f"{where} holds NaN or infinity; log odds of outputs that are certain can be clipped at 60.")
    if ((answers >= 0) & (answers <= 1)).all():
        raise UsageError(f"{where} lie in [0, 1]; log odds are needed, log p - log(1 - p) of the true class.")
    _refuse_target(answers, target, where)
    _refuse_copies(answers, where)
    return KnownReferences(answers.astype(np.float32), member)


def _refuse_target(odds: Array, target: Outputs, where: str) -> None:
    """Raise `UsageError` if a reference gives the target's answers, log odds ``(K, n)``: it tells attacks nothing."""
    answers = log_odds(torch.from_numpy(target.outputs), torch.from_numpy(target.labels)).numpy()
    unsure = np.abs(answers) < CERTAIN
    if len(np.unique(answers[unsure])) < LEAST:
        return
    shares = np.isclose(odds[:, unsure], answers[unsure], rtol=0.01, atol=0.01).mean(axis=1)
    if shares.max() >= COPIED:
        raise UsageError(
            f"{where}: reference {int(shares.argmax())} gives the target's answers on {shares.max():.0%} of the rows; "
            "leave the target out, as references are to be trained on members drawn independently of its own."
        )


def _refuse_copies(odds: Array, where: str) -> None:
    """Raise `UsageError` if two references give the same answers, log odds ``(K, n)``: they are one model."""
    order = np.argsort(np.clip(odds, -CERTAIN, CERTAIN).mean(axis=1), kind="stable")  # copies stand side by side
    for pair in itertools.pairwise(order):
        first, second = odds[np.sort(pair)]
        unsure = (np.abs(first) < CERTAIN) & (np.abs(second) < CERTAIN)
        if len(np.unique(first[unsure])) < LEAST:
            continue
        if np.isclose(first[unsure], second[unsure], rtol=SAME, atol=SAME).mean() >= COPIED:
            raise UsageError(
                f"{where}: references {min(pair)} and {max(pair)} give the same answers, as one model does; references "
                "are to be trained one by one, each on members drawn anew."
            )


def guessed(infer: InferMembership, query: MembershipQuery, references: KnownReferences) -> Array:
    """Return the scores of an evaluator that reads references, for the target's rows."""
    return infer(replace(query, references=_as_evidence(query, references))).numpy()


def accuracy_on_references(infer: InferMembership, query: MembershipQuery, references: KnownReferences) -> float:
    """Return the balanced accuracy of guesses about members of reference models, each attacked by the others."""
    accuracies = []
    for number in range(len(references.member))[-CHECKED:]:
        one = _as_target(query, references, number)
        accuracies.append(balanced_accuracy(guessed(infer, one, references.without(number)), references.member[number]))
    return float(np.mean(accuracies))


def learned_on_known(scores: Array, known_scores: Array, member: Array) -> tuple[float, Array]:
    """Return the accuracy on known rows of a threshold from their other half, and scores minus a threshold from all.

    For references that were trained on none of the rows, on which no threshold can be learnt.
    """
    half, guess = chosen_half(np.arange(len(known_scores))), np.empty(len(known_scores), dtype=bool)
    for fit in (half, ~half):
        guess[~fit] = known_scores[~fit] >= _threshold(known_scores[fit], member[fit])
    right = [(guess == member)[member == side].mean() for side in (True, False)]
    return float(np.mean(right)), scores - _threshold(known_scores, member)


def _threshold(scores: Array, member: Array) -> float:
    return float(class_thresholds(scores, member, np.zeros(len(scores), dtype=np.int64), 1)[0])


def _as_evidence(query: MembershipQuery, references: KnownReferences) -> References:
    """Return the evidence; the rows themselves, whose membership is unknown, stand for the population."""
    odds = torch.from_numpy(references.log_odds)
    views, theirs = (
        None if each is None else torch.from_numpy(np.ascontiguousarray(each))
        for each in (references.views, references.target_views)
    )
    return References(
        log_odds=odds,
        member=torch.from_numpy(references.member),
        population_log_odds=odds,
        target_population_log_odds=log_odds(query.target_outputs, query.target_labels),
        view_log_odds=views,
        target_view_log_odds=theirs,
    )


def _as_target(query: MembershipQuery, references: KnownReferences, number: int) -> MembershipQuery:
    """Return the query with a reference model in the place of the target.

    Where only its log odds are known, its outputs are those of two classes: the true one, and all others together.
    """
    if references.outputs is not None:
        return replace(query, target_outputs=torch.from_numpy(references.outputs[number]))
    odds = torch.from_numpy(references.log_odds[number]).double()
    pair = torch.stack([odds.sigmoid(), (-odds).sigmoid()], dim=1).float()
    return replace(query, target_outputs=pair, target_labels=torch.zeros(len(pair), dtype=torch.long))


def read_references(path: Path) -> GivenReferences:
    """Return the references of an npz file, or of a csv or parquet table; raises `UsageError` that names the file.

    An npz has ``member`` ``(K, n)`` and either ``log_odds`` ``(K, n)`` or ``probabilities`` ``(K, n, classes)``; with
    v altered copies of each row also their log odds, ``views`` ``(K, v, n)`` and ``target_views`` ``(v, n)``.

    A table has a row for each reference model and each row of the target, with the columns ``reference`` and ``row``,
    numbers from 0, ``member`` (0 or 1), and ``log_odds`` or ``p0``, ``p1``, ... Rows of the target count members
    first, then non-members, each in the order of its file.
    """
    if not path.is_file():
        raise UsageError(f"{path} does not exist.")
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        kinds = [name for name in ("log_odds", "probabilities") if name in arrays]
        if "member" not in arrays or len(kinds) != 1:
            have = ", ".join(arrays) or "nothing"
            raise UsageError(
                f"{path} must have the arrays member and log_odds, or member and probabilities; has: {have}."
            )
        called = (f"{path}: {kinds[0]}", f"{path}: member")
        return GivenReferences(
            arrays[kinds[0]], arrays["member"], called, arrays.get("views"), arrays.get("target_views")
        )
    if path.suffix in (".csv", ".parquet", ".pq"):
        return _from_table(path)
    raise UsageError(f"{path}: the ending must be .npz, .csv or .parquet.")


def _from_table(path: Path) -> GivenReferences:
    table = read_columns(path)
    wanted = ["log_odds"] if "log_odds" in table.columns else numbered(table.columns, "p", str(path))
    for name in ("reference", "row", "member", *(wanted or ["log_odds"])):
        if name not in table.columns:
            raise UsageError(f"{path} has no column {name}; it has: {', '.join(map(repr, table.columns[:20]))}.")
    model, row = table.numbers("reference"), table.numbers("row")
    size = [int(x.max()) + 1 if len(x) else 0 for x in (model, row)]
    positions = model * size[1] + row
    if len(positions) != size[0] * size[1] or (np.sort(positions) != np.arange(len(positions))).any():
        raise UsageError(
            f"{path} must have one row for each of the references 0, 1, ... and each of the rows 0, 1, ..."
        )
    order = np.argsort(positions)
    answers = np.stack([table.numbers(name)[order] for name in wanted], axis=1)
    shaped = answers.reshape(*size) if wanted == ["log_odds"] else answers.reshape(*size, -1)
    called = (f"{path}: {wanted[0]}", f"{path}: member")
    return GivenReferences(shaped, table.numbers("member")[order].reshape(*size), called)
