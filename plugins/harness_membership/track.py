"""Track 4: membership inference against trained models.

For each split of the data set a target and a shadow model are trained on disjoint rows. An evaluator learns on the
shadow model, whose membership is known, and guesses membership in the target's training set. Adaptive adversaries
defend their shadow model as the target is defended; the others train it plainly.
"""

from collections.abc import Mapping

import numpy as np
import torch
from pydantic import Field

from harness.api import (
    ColumnSpec,
    HarnessError,
    Info,
    MembershipEvaluator,
    MembershipQuery,
    MembershipRelease,
    MembershipTraining,
    Model,
    NotTestable,
    Planned,
    Planner,
    Query,
    Row,
    Selection,
    Step,
    StepContext,
    StepResult,
    Table,
    TableDataset,
    Track,
    TrainingData,
    TrainingPlan,
    Value,
    auc,
    balanced_accuracy,
    cube,
    derive_seed,
    generator,
    hookimpl,
    mean_value,
    missing,
    tpr_at_fpr,
    win_rates,
    win_table,
)
from harness_membership.study import STUDY

ROLES = ("target", "shadow")
FPR = 0.01


class MembershipTrack(Track):
    """Membership inference: how much a model gives away about its training set."""

    info = Info(
        id="harness/membership",
        version="1",
        paper=STUDY,
    )
    title = "Membership inference"
    measures = "How well an adversary can tell which rows a model was trained on, with and without a defense."

    splits: int = Field(default=3, ge=1, description="Repetitions with other rows and another initialisation.")
    epochs: int = Field(default=100, ge=1, description="Of undefended training.")
    batch_size: int = Field(default=64, ge=1, description="Rows per training step.")
    learning_rate: float = Field(default=1e-3, gt=0, description="Of Adam.")

    def plan(self, planner: Planner, selection: Selection) -> None:
        """Train target and shadow per split and defense, then let every evaluator guess."""
        defenses = [*selection.of(MembershipTraining), *selection.of(MembershipRelease)]
        baseline = planner.component("defense", "harness/plain-training")
        training = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}

        def trained(dataset: TableDataset, model: Model, defense: object, role: str, split: int) -> Planned:
            roles = {"dataset": dataset, "model": model, "defense": defense}
            if isinstance(defense, MembershipRelease):
                roles["training"] = baseline
            return planner.task("train", roles, options={"role": role, "split": split, **training})

        for dataset in selection.of(TableDataset):
            for model in selection.of(Model):
                for defense in defenses:
                    for split in range(self.splits):
                        target = trained(dataset, model, defense, "target", split)
                        for adaptive in (False, True):
                            guard = defense if adaptive else baseline
                            shadow = trained(dataset, model, guard, "shadow", split)
                            for evaluator in selection.of(MembershipEvaluator):
                                planner.task(
                                    "evaluate",
                                    {"dataset": dataset, "model": model, "defense": defense, "evaluator": evaluator},
                                    options={"adaptive": adaptive, "split": split},
                                    needs={"target": target, "shadow": shadow},
                                )

    def steps(self) -> Mapping[str, Step]:
        """Return ``train`` and ``evaluate``."""
        return {"train": Step(train, "1"), "evaluate": Step(evaluate, "1")}

    def tables(self, query: Query) -> list[Table]:
        """Return defenses, evaluators, and who beats whom."""
        if "evaluate" not in query.steps:
            return []
        rows = query("SELECT defense, evaluator, adaptive, split, dataset, model, row, member, score FROM evaluate")
        trained = query("SELECT defense, train_accuracy, test_accuracy FROM train_tasks WHERE role = 'target'")
        figures = _figures(rows)
        return [_defenses(figures, trained), _evaluators(figures), _wins(rows)]


def split_rows(n: int, seed: int) -> dict[str, torch.Tensor]:
    """Return disjoint row numbers: member, non_member and reference rows of target and shadow, six equal parts."""
    order = torch.randperm(n, generator=generator(seed))
    part = n // 6
    names = [f"{role}_{kind}" for role in ROLES for kind in ("member", "non_member", "reference")]
    return {name: order[i * part : (i + 1) * part] for i, name in enumerate(names)}


def train(context: StepContext) -> StepResult:
    """Train one model on its members; keep its outputs on members and non-members."""
    table, options = context.table(), context.options
    role = str(options["role"])
    parts = split_rows(len(table.labels), derive_seed("split", options["split"]))
    member, outside, reference = (parts[f"{role}_{kind}"] for kind in ("member", "non_member", "reference"))
    plan = TrainingPlan(int(options["epochs"]), int(options["batch_size"]), float(options["learning_rate"]))
    shape = tuple(table.features.shape[1:])
    network = context.build("model")(shape, table.classes, context.generator("initialisation"))
    data = TrainingData(
        table.features[member], table.labels[member], table.features[reference], table.labels[reference]
    )
    release = isinstance(context.component("defense"), MembershipRelease)
    trainer = context.build("training" if release else "defense")
    network = trainer(network, data, plan, context.generator("training"), context.progress)
    rows = torch.cat([member, outside])
    with torch.no_grad():
        outputs = network(table.features[rows]).softmax(dim=1)
    if release:
        outputs = context.build("defense")(outputs, context.generator("release"))
    if outputs.shape != (len(rows), table.classes) or not torch.isfinite(outputs).all():
        raise HarnessError(
            f"{context.component('defense').label}: expected finite outputs {(len(rows), table.classes)}"
        )
    right = (outputs.argmax(dim=1) == table.labels[rows]).float()
    return StepResult(
        rows={
            "row": rows.numpy(),
            "label": table.labels[rows].cpu().numpy(),
            "member": np.arange(len(rows)) < len(member),
        },
        arrays={"outputs": outputs.cpu().numpy()},
        facts={
            "train_accuracy": float(right[: len(member)].mean()),
            "test_accuracy": float(right[len(member) :].mean()),
        },
    )


def evaluate(context: StepContext) -> StepResult:
    """Show an evaluator the target's rows in a secret order and keep its score per row."""
    shadow, target = context.need("shadow"), context.need("target")
    order = torch.randperm(len(target.rows["row"]), generator=context.generator("order")).numpy()

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(context.device)

    query = MembershipQuery(
        shadow_outputs=tensor(shadow.arrays["outputs"]),
        shadow_labels=tensor(shadow.rows["label"]),
        shadow_member=tensor(shadow.rows["member"]),
        target_outputs=tensor(target.arrays["outputs"][order]),
        target_labels=tensor(target.rows["label"][order]),
    )
    scores = context.build("evaluator")(query).cpu().numpy()
    return StepResult(rows={"row": target.rows["row"][order], "member": target.rows["member"][order], "score": scores})


def _figures(rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return one line per cell: what the evaluator achieved there."""
    cell = np.array(
        [
            f"{d}\x1f{e}\x1f{a}\x1f{s}\x1f{data}\x1f{m}"
            for d, e, a, s, data, m in zip(
                rows["defense"],
                rows["evaluator"],
                rows["adaptive"],
                rows["split"],
                rows["dataset"],
                rows["model"],
                strict=True,
            )
        ]
    )
    names, place = np.unique(cell, return_inverse=True)
    parts = [name.split("\x1f") for name in names]
    score, member = rows["score"], rows["member"].astype(bool)
    groups = [place == i for i in range(len(names))]
    return {
        "defense": np.array([p[0] for p in parts]),
        "evaluator": np.array([p[1] for p in parts]),
        "adaptive": np.array([p[2] == "True" for p in parts]),
        "accuracy": np.array([balanced_accuracy(score[g], member[g]) for g in groups]),
        "auc": np.array([auc(score[g], member[g]) for g in groups]),
        "tpr": np.array([tpr_at_fpr(score[g], member[g], FPR) for g in groups]),
    }


FIGURES = {
    "accuracy": ("Attack accuracy", "Balanced accuracy of the guess, 0.5 is chance"),
    "auc": ("AUC", "Area under the ROC curve, 0.5 is chance"),
    "tpr": ("TPR at 1% FPR", "Share of members found while at most 1% of non-members are accused"),
}


def _defenses(figures: Mapping[str, np.ndarray], trained: Mapping[str, np.ndarray]) -> Table:
    columns = [
        ColumnSpec(
            key=f"{key}_{kind}",
            label=f"{label}, {word}",
            description=f"{meaning}; the strongest evaluator, {word} adversary; mean over splits.",
            better="lower",
        )
        for kind, word in (("plain", "non-adaptive"), ("adaptive", "adaptive"))
        for key, (label, meaning) in FIGURES.items()
    ]
    columns += [
        ColumnSpec(key="test", label="Test accuracy", description="Of the defended model.", better="higher"),
        ColumnSpec(key="train", label="Train accuracy", description="Of the defended model."),
    ]
    rows = []
    for defense in np.unique(figures["defense"]):
        values: dict[str, Value] = {}
        for kind in ("plain", "adaptive"):
            here = (figures["defense"] == defense) & (figures["adaptive"] == (kind == "adaptive"))
            for key in FIGURES:
                values[f"{key}_{kind}"] = _strongest(figures["evaluator"][here], figures[key][here])
        own = trained["defense"] == defense
        values["test"] = mean_value(trained["test_accuracy"][own])
        values["train"] = mean_value(trained["train_accuracy"][own])
        rows.append(Row(label=str(defense), values=values))
    rows.sort(key=lambda row: row.values["accuracy_adaptive"].value or 0)
    return Table(
        id="defenses",
        title="Defenses against membership inference",
        caption="Privacy of models trained with each defense. n is the number of splits; intervals are bootstrapped "
        "over splits.",
        entry="defense",
        columns=tuple(columns),
        rows=tuple(rows),
        ranked_by="accuracy_adaptive",
    )


def _strongest(evaluators: np.ndarray, numbers: np.ndarray) -> Value:
    if len(numbers) == 0:
        return missing("no cell")
    by_evaluator = [numbers[evaluators == name] for name in np.unique(evaluators)]
    return mean_value(max(by_evaluator, key=np.mean))


def _evaluators(figures: Mapping[str, np.ndarray]) -> Table:
    columns = tuple(
        ColumnSpec(
            key=key, label=label, description=f"{meaning}; adaptive, mean over defenses and splits.", better="higher"
        )
        for key, (label, meaning) in FIGURES.items()
    )
    rows = []
    for name in np.unique(figures["evaluator"]):
        here = (figures["evaluator"] == name) & figures["adaptive"]
        rows.append(Row(label=str(name), values={key: mean_value(figures[key][here]) for key in FIGURES}))
    rows.sort(key=lambda row: -(row.values["accuracy"].value or 0))
    return Table(
        id="evaluators",
        title="Evaluators",
        caption="How much each evaluator finds out. n counts (defense, split) pairs.",
        entry="evaluator",
        columns=columns,
        rows=tuple(rows),
        ranked_by="accuracy",
    )


def _wins(rows: Mapping[str, np.ndarray]) -> Table:
    """A condition is (data set, model, evaluator, adaptive, split); a pair is a row of the data set."""
    caught = (rows["score"] >= 0) == rows["member"].astype(bool)
    names = ("dataset", "model", "evaluator", "adaptive", "split")
    condition = np.array([" ".join(map(str, parts)) for parts in zip(*(rows[n] for n in names), strict=True)])
    labels, _, numbers = cube(rows["defense"], condition, rows["row"], caught)
    try:
        wins = win_rates(numbers, higher_wins=False)
    except NotTestable as error:
        raise HarnessError(f"win rates of membership defenses: {error}") from error
    return win_table(
        "defense-wins",
        "Which defense protects better",
        "defense",
        labels,
        wins,
        "fewer rows whose membership is guessed right",
    )


@hookimpl
def register_tracks() -> list[Track]:
    return [MembershipTrack()]
