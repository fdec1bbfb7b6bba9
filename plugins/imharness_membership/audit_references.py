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
"""The fewest reference models: one takes the target's place in a check, and the mean and variance of the others are
needed."""
COPIED, LEAST, CERTAIN = 0.99, 20, 10.0
"""A reference counts as a copy of the target if the share `COPIED` of its log odds equals the target's. Only rows with
log odds below `CERTAIN` in size are compared, and only if the target has `LEAST` different values there: trees, and
models that are certain of everything, answer alike by chance."""
SAME = 1e-4
"""The absolute and the relative difference up to which the log odds of two references are equal: numerical noise."""
CHECKED = 2
"""The number of reference models that the others attack, to see how accurate an evaluator is on known members."""


@dataclass(frozen=True)
class GivenReferences:
    """Answers of reference models on the target's rows as the user passed them, before `checked_references`.

    Args:
        answers: should be the log odds of the true class, log p_y - log(1 - p_y), ``(K, n)``, or probabilities
            ``(K, n, classes)``.
        member: should be ``(K, n)``, true where a reference model was trained on a row of the target.
        called: how messages name `answers` and `member`.
        views: should be the log odds of the references on v altered copies of each row, such as its mirror image,
            ``(K, v, n)``.
        target_views: should be the target's log odds on the same copies, ``(v, n)``; both or neither.
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
        views = None if self.views is None else self.views[..., chosen]
        target_views = None if self.target_views is None else self.target_views[..., chosen]
        return KnownReferences(
            self.log_odds[:, chosen], self.member[:, chosen], outputs, self.notes, views, target_views
        )

    def without(self, number: int) -> "KnownReferences":
        """Return all models but one, which takes the target's place: its views are those of the target."""
        mask = np.arange(len(self.member)) != number
        outputs = None if self.outputs is None else self.outputs[mask]
        views = None if self.views is None else self.views[mask]
        target_views = None if self.views is None else self.views[number]
        return KnownReferences(self.log_odds[mask], self.member[mask], outputs, (), views, target_views)

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
    count, n = rows.log_odds.shape
    _check_views(references.views, (count, -1, n), "views")
    _check_views(references.target_views, (-1, n), "target_views")
    views = np.asarray(references.views, dtype=np.float32)
    target_views = np.asarray(references.target_views, dtype=np.float32)
    if views.shape[1] != len(target_views) or len(target_views) == 0:
        raise UsageError(
            f"references: views holds {views.shape[1]} views of each row and target_views {len(target_views)}."
        )
    note = f"Reference models and the target were also asked about views of each row: {len(target_views)}"
    return replace(rows, notes=(*rows.notes, note), views=views, target_views=target_views)


def _check_views(views: Array, shape: tuple[int, ...], name: str) -> None:
    """Raise `UsageError` unless views are finite numbers of a shape, in which -1 is any number of views."""
    fits = views.ndim == len(shape) and (*views.shape[:-2], -1, views.shape[-1]) == shape
    if not fits or views.dtype.kind not in "iuf" or not np.isfinite(views).all():
        wanted = ", ".join("views" if size < 0 else str(size) for size in shape)
        raise UsageError(f"references: {name} must be finite log odds with shape ({wanted}).")


def _checked_answers(references: GivenReferences, target: Outputs) -> KnownReferences:
    """Return the references without their views; raises `UsageError` that names the argument."""
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
        labels_of_all = np.tile(labels, len(answers))
        flat, _, note = checked(
            answers.reshape(-1, answers.shape[2]), labels_of_all, where, whose="labels", logits=False
        )
        odds = log_odds(torch.from_numpy(flat), torch.from_numpy(labels_of_all)).numpy().reshape(member.shape)
        _refuse_target(odds, target, where)
        _refuse_copies(odds, where)
        return KnownReferences(odds, member, flat.reshape(answers.shape), (note,) if note else ())
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
    """Raise `UsageError` if a reference gives the target's answers, so that it tells attacks nothing.

    `odds`: the log odds of the references ``(K, n)``.
    """
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
    """Raise `UsageError` if two references give the same answers, log odds ``(K, n)``, so that they are one model."""
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
        scores = guessed(infer, _as_target(query, references, number), references.without(number))
        accuracies.append(balanced_accuracy(scores, references.member[number]))
    return float(np.mean(accuracies))


def learned_on_known(scores: Array, known_scores: Array, member: Array) -> tuple[float, Array]:
    """Learn the threshold of an attack from rows of the target whose membership is known.

    Return the balanced accuracy on the known rows, each half judged by the threshold of the other half, and the
    attack's `scores` of the tested rows minus the threshold of all known rows. This is for references that were trained
    on none of the target's rows, so that their own answers give no threshold.

    Args:
        scores: of the tested rows, ``(n,)``.
        known_scores, member: of the rows with known membership, ``(m,)``.
    """
    half = chosen_half(np.arange(len(known_scores)))
    guess = np.empty(len(known_scores), dtype=bool)
    for fit in (half, ~half):
        guess[~fit] = known_scores[~fit] >= _threshold(known_scores[fit], member[fit])
    right = [(guess == member)[member == side].mean() for side in (True, False)]
    return float(np.mean(right)), scores - _threshold(known_scores, member)


def _threshold(scores: Array, member: Array) -> float:
    """Return the threshold of the highest balanced accuracy."""
    return float(class_thresholds(scores, member, np.zeros(len(scores), dtype=np.int64), 1)[0])


def _as_evidence(query: MembershipQuery, references: KnownReferences) -> References:
    """Return the references as evidence; the tested rows themselves stand for the population."""
    odds = torch.from_numpy(references.log_odds)
    views, target_views = (
        None if values is None else torch.from_numpy(np.ascontiguousarray(values))
        for values in (references.views, references.target_views)
    )
    return References(
        log_odds=odds,
        member=torch.from_numpy(references.member),
        population_log_odds=odds,
        target_population_log_odds=log_odds(query.target_outputs, query.target_labels),
        view_log_odds=views,
        target_view_log_odds=target_views,
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
    """Return the references of a csv or parquet table, see `read_references`."""
    table = read_columns(path)
    wanted = ["log_odds"] if "log_odds" in table.columns else numbered(table.columns, "p", str(path))
    for name in ("reference", "row", "member", *(wanted or ["log_odds"])):
        if name not in table.columns:
            raise UsageError(f"{path} has no column {name}; it has: {', '.join(map(repr, table.columns[:20]))}.")
    model, row = table.numbers("reference"), table.numbers("row")
    models, rows = (int(numbers.max()) + 1 if len(numbers) else 0 for numbers in (model, row))
    positions = model * rows + row
    if len(positions) != models * rows or (np.sort(positions) != np.arange(len(positions))).any():
        raise UsageError(
            f"{path} must have one row for each of the references 0, 1, ... and each of the rows 0, 1, ..."
        )
    order = np.argsort(positions)
    answers = np.stack([table.numbers(name)[order] for name in wanted], axis=1)
    shape = (models, rows) if wanted == ["log_odds"] else (models, rows, -1)
    called = (f"{path}: {wanted[0]}", f"{path}: member")
    return GivenReferences(answers.reshape(shape), table.numbers("member")[order].reshape(models, rows), called)
