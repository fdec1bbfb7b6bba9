"""`ih.audit`: what an adversary finds out about the training rows of your own model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.commands import page_file, writable, write_page
from imharness.errors import UsageError
from imharness.extending import (
    Result,
    UserObject,
    address_of,
    component_from,
    flag,
    installed,
    listed,
    printed,
    real,
    say_who_drew,
    seed_of,
    short,
    text,
    wrong,
)
from imharness.leaderboard import ColumnSpec, Row, Table, Value
from imharness.membership import Component, Estimate, MembershipEvaluator
from imharness_membership.answering import audited
from imharness_membership.findings import AuditSubject, Finding, ModelAudit
from imharness_membership.notebook.outputs import doubts_of_data, models_of, outputs_of
from imharness_membership.notebook.references import references_of, trained_for
from imharness_membership.notebook.trained import folder_of, trainer_of, workers_of

MEASURES = {
    "accuracy": (
        "balanced accuracy",
        "row",
        "Mean of the shares of members and of non-members that are guessed right; 0.5 is chance.",
    ),
    "auc": ("AUC", "row", "Area under the ROC curve; 0.5 is chance."),
    "tpr_at_01": ("TPR at 0.1% FPR", "member", "Share of members found while 0.1% of the non-members are accused."),
    "tpr_at_1": ("TPR at 1% FPR", "member", "Share of members found while 1% of the non-members are accused."),
}
"""Attribute of a finding -> (label, unit, description); lower is better for the people whose data these are."""


@dataclass(frozen=True, repr=False)
class Audit(Result):
    """What every evaluator found out, with 95% intervals, as a table and as the rows of the step ``audit``.

    Args:
        details: all numbers in full precision, including privacy risk scores.
        measured: what was measured on which rows, in words.
        call: the line of Python that repeats the audit.
    """

    details: ModelAudit = field(kw_only=True)
    measured: str = ""
    call: str = ""

    @property
    def worst(self) -> Finding:
        """The result of the audit, which is the first row of the table.

        It is the finding of the evaluator that was best on rows whose membership it could check. Another evaluator may
        have a larger accuracy on the tested rows, but the largest of many is too large by chance.
        """
        return self.details.worst()

    def ppv(self, prior: float) -> Estimate | None:
        """Return the share of right accusations (positive predictive value) of `worst`, with a 95% interval.

        Args:
            prior: the share of members among the records that an adversary asks about, above 0 and below 1.

        The adversary accuses 1% of the non-members, or less where they are few, and members above the same threshold.
        None where there are too few non-members to define that rate. Raises `UsageError` for another prior.
        """
        share = real("prior", prior)
        if not 0 < share < 1:
            raise wrong("prior", "a share above 0 and below 1", share)
        return self.worst.ppv(share)

    def report(self, path: str | Path, *, model: str = "model", fail_above: float | None = None) -> None:
        """Write one printable page for readers who are no statisticians.

        It says what was tested, against which adversary, with which result, what was not tested, what to do, and how to
        repeat the audit. For comparison, the result is on a scale with small models, which are trained for the report
        in a few seconds.

        Args:
            path: a file whose name ends in ``.html``, or in ``.pdf``, which takes Chromium, Chrome or Edge.
            model: the model's name.
            fail_above: a balanced accuracy, 0 to 1, that must not be exceeded. The model passes if the whole interval
                is at most this, and fails if the whole interval is above; otherwise neither is shown.

        Raises:
            UsageError: the file cannot be written, or an argument does not fit.
            Unavailable: a PDF is wanted and there is no browser.
        """
        from imharness_membership.audit_report import report

        file = page_file(address_of("path", path, "a path"))
        words = [repr(str(file)), f"model={text('model', model)!r}"]
        if fail_above is not None:
            fail_above = real("fail_above", fail_above)
            if not 0 <= fail_above <= 1:
                raise wrong("fail_above", "a number from 0 to 1", fail_above)
            words.append(f"fail_above={fail_above:g}")
        subject = AuditSubject(model, f"{self.call}.report({', '.join(words)})", fail_above)
        write_page(file, report(self.details, subject))

    def to_html(self, path: str | Path, name: str = "model") -> None:
        """Write all numbers with pictures as one HTML file, which makes no request."""
        from imharness_membership.audit_html import report

        file = writable(address_of("path", path, "a path"))
        file.write_text(report(self.details, text("name", name)), encoding="utf-8")

    def _notes(self) -> list[str]:
        untested = (f"Not tested: {printed(line)}." for line in self.details.not_tested())
        calibrated = [] if self.details.per_record is None else [str(self.details.per_record)]
        return [*self.details.doubts(), self.measured, *calibrated, *self.details.notes, *untested]


def audit(
    target: Any = None,
    shadow: Any = None,
    *,
    references: Any = None,
    train: Callable[[npt.NDArray[np.int64], int], Any] | None = None,
    data: Any = None,
    views: Sequence[Any] = (),
    evaluators: Sequence[str | Component | UserObject] | None = None,
    seed: int = 0,
    workers: int = 1,
    device: str | Sequence[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Audit:
    """Find out how much a model gives away about its training rows, as `harness membership audit` does.

    The strongest attacks (LiRA, BaVarIA, RMIA, Attack-R) compare the target with reference models, trained on random
    halves of the rows that are known. Give their answers, or let them be trained:

        ih.audit(target, references=(log_odds, member))
        ih.audit(train=train, data=(inputs, labels), references=16)

    Args:
        target: the outputs of the model on rows whose membership is known, in one of these forms.

            - A mapping, or an object, with ``probabilities`` ``(n, classes)`` in [0, 1] that sum to 1, ``labels``
              ``(n,)``, whole numbers from 0, and ``member`` ``(n,)``, true for rows of the training set. Without
              ``labels`` the class that each model predicts stands for the true one.
            - A data frame with the columns ``member`` (0 or 1), ``label``, ``p0``, ``p1``, ... If it also has a column
              ``model`` ("shadow" or "target"), it holds the rows of both models.
            - ``(model, members, nonmembers)``: a torch module and two loaders, each of which yields pairs of inputs and
              labels. The module is called in evaluation mode, on the device of its parameters. Its outputs count as
              probabilities if all lie in [0, 1], and otherwise as logits.

            Probabilities may be rounded, or 0 for all but the top classes. What is missing in a row is then spread
            evenly over the classes with 0, other rows are divided by their sum, and the answer says so.
        shadow: the outputs, in one of the same forms, of a model that the adversary trained like the target, but on
            their own rows; evaluators learn from it. Without a shadow they learn from half of the target's rows, whose
            membership they then know, and are tested on the other half.
        references: answers of K reference models, at least 4, on the rows of the target, as a pair or as a mapping with
            ``member`` and ``log_odds`` or ``probabilities``. Answers are log odds of the true class, log p_y - log(1 -
            p_y), ``(K, n)``, or probabilities ``(K, n, classes)``; the first model of probabilities is also the shadow,
            if none is given. ``member``, ``(K, n)``, is true where a model was trained on a row; all false for models
            that saw none of the rows, which takes half of the rows to learn thresholds from. With ``train``: how many
            reference models are trained, 16 by default.
        train: ``train(indices, seed) -> model`` trains on these rows of the data and returns a torch module, a model
            with ``predict_proba``, or a function of inputs. Reference models are trained in pairs on complementary
            random halves; without a target, it is trained on a random half, too. With
            `cache`, the answers of each model are kept when it is trained, so that an audit that was interrupted goes
            on, and one that is repeated trains nothing.
        data: ``(inputs, labels)``, the rows of the target in its order.
        views: with ``train``: altered copies of the inputs of `data`, such as their mirror images, in the same order.
            LiRA and RMIA ask every model about them, too, and find more where training altered its rows likewise. With
            given `references` the mapping has their log odds, ``views`` ``(K, v, n)`` and ``target_views`` ``(v, n)``.
        evaluators: names such as ``"confidence"``, or what `ih.evaluator` returns; by default all that need only what
            was given and take part unnamed, without the slow NN attack if there are more than 50,000 rows.
        seed: the seed of halves and trainings.
        workers: how many processes train reference models at once, with one thread each; what models answer does not
            depend on it. They are copies of this process, so `train` may be any function; on Linux.
        device: a GPU, such as ``"cuda:1"``, or several, over which the trainings are spread; each finds its own as
            ``"cuda"``. By default the function decides alone.
        cache: the folder where answers of trained models are kept; by default they are not. Give another one when
            `train` changes, or data that are no array or tensor: nothing else can tell.
        progress: whether to show a bar while models are trained.

    Returns:
        Balanced accuracy, AUC and true-positive rates of every evaluator with 95% intervals, and privacy risk scores.
        `Audit.details` also says how shadow and reference models differ from the target, and the text below the table
        warns where they differ too much.

    Raises:
        UsageError: an argument does not fit; the message names it, and the row if there is one.

    Song & Mittal, "Systematic Evaluation of Privacy Risks of Machine Learning Models" (USENIX Security 2021), sections
    3 and 4.
    """
    seed, folder, progress = seed_of(seed), folder_of(cache), flag("progress", progress)
    processes = workers_of(workers, device)
    arguments = {  # the text of each argument -> whether it is in the call that repeats the audit
        "target": target is not None,
        "shadow": shadow is not None,
        "train=train, data=data": train is not None,
        "references=references": references is not None and train is None,
        f"references={references}": references is not None and train is not None,
    }
    if train is not None:
        trainer = trainer_of(train, data, folder, views)
        target, references = trained_for(target, trainer, references, seed, processes, progress)
    elif len(listed("views", views, "a list of altered copies of the inputs")):
        raise UsageError("views: are inputs for a training function; with references, give their log odds there.")
    elif data is not None:
        raise UsageError("data: is for a training function; give train, too, or leave data out.")
    elif target is None:
        raise UsageError("target: give the outputs of a model, or a training function and its data.")
    tested, of_shadow = outputs_of("target", target), models_of(target)
    if train is not None and arguments["target"]:
        tested = replace(tested, wrong=(*tested.wrong, *doubts_of_data(trainer.inputs, tested.member)))
    if of_shadow is not None and shadow is not None:
        raise UsageError("shadow: the column model of target says which rows are the shadow's; leave shadow out.")
    shadow_outputs = None if shadow is None else outputs_of("shadow", shadow)
    if of_shadow is not None:
        tested, shadow_outputs = tested.at(~of_shadow), tested.at(of_shadow)
    answers = None if references is None else references_of(references)
    chosen = _chosen(evaluators)
    result, measured = audited(tested, shadow_outputs, answers, chosen, named=evaluators is not None)
    say_who_drew()
    findings = result.ordered()
    return Audit(
        "Membership audit",
        [_table(result, measured)],
        {"audit": lambda: _columns_of(findings)},
        details=result,
        measured=measured,
        call=_call(arguments, None if evaluators is None else chosen),
    )


def _call(arguments: Mapping[str, bool], evaluators: Sequence[Component] | None) -> str:
    """Return the line of Python that repeats the audit; `evaluators`: those that the user named."""
    words = [argument for argument, has_it in arguments.items() if has_it]
    if evaluators is not None:
        words.append(f"evaluators={[each.label for each in evaluators]}")
    return f"ih.audit({', '.join(words)})"


def _chosen(evaluators: Sequence[str | Component | UserObject] | None) -> list[MembershipEvaluator]:
    """Return the named evaluators, or all that are on this machine."""
    if evaluators is None:
        here = (each for each in installed().of_kind(MembershipEvaluator.kind) if each.is_here())
        return [each for each in here if isinstance(each, MembershipEvaluator)]
    wanted: Any = [evaluators] if isinstance(evaluators, str | Component | UserObject) else evaluators
    named = listed("evaluators", wanted, "a list of evaluators or of their names")
    if not named:
        raise UsageError("evaluators: name at least one, or leave it out for all.")
    components = []
    for each in named:
        component = component_from(MembershipEvaluator.kind, each, "evaluators")
        if not isinstance(component, MembershipEvaluator):
            raise UsageError(f"evaluators: {short(each)} is not an evaluator; name one, or make one with ih.evaluator.")
        components.append(component)
    return components


def _columns_of(findings: Sequence[Finding]) -> dict[str, npt.NDArray[Any]]:
    """Return columns with a row for each evaluator: each measure and the ends of its interval, NaN if not defined."""
    columns: dict[str, Any] = {"evaluator": [finding.evaluator for finding in findings]}
    for name in MEASURES:
        estimates: list[Estimate | None] = [getattr(finding, name) for finding in findings]
        for attribute, ending in (("value", ""), ("low", "_low"), ("high", "_high")):
            columns[name + ending] = [np.nan if each is None else getattr(each, attribute) for each in estimates]
    columns["accuracy_where_learned"] = [finding.on_shadow for finding in findings]
    return {name: np.array(values) for name, values in columns.items()}


def _table(result: ModelAudit, measured: str) -> Table:
    """Return the table of an audit: a row for each evaluator, a column for each measure."""
    counts = {
        name: result.members if unit == "member" else result.members + result.nonmembers
        for name, (_, unit, _) in MEASURES.items()
    }

    shadow_column = ColumnSpec(
        key="accuracy_where_learned",
        label="when chosen",
        description="Balanced accuracy on rows whose membership evaluators can check; the first row is the best here.",
        better="lower",
        unit="row",
    )

    def value(name: str, estimate: Estimate | None) -> Value:
        if estimate is None:
            return Value(missing="too few non-members to define it")
        return Value(value=estimate.value, low=estimate.low, high=estimate.high, n=counts[name])

    rows = []
    for finding in result.ordered():
        values = {name: value(name, getattr(finding, name)) for name in MEASURES}
        values[shadow_column.key] = Value(value=finding.on_shadow)
        rows.append(Row(label=finding.evaluator, values=values))
    columns = [
        ColumnSpec(key=name, label=label, description=description, better="lower", unit=unit)
        for name, (label, unit, description) in MEASURES.items()
    ]
    return Table(
        id="audit",
        title="What an adversary finds out",
        caption=measured,
        entry="evaluator",
        columns=(*columns, shadow_column),
        rows=tuple(rows),
        ranked_by="accuracy",
    )
