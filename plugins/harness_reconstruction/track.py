"""Track 2: how much of a private image can be rebuilt from the gradient it gives.

A protected model is a classifier with a gradient defense. Its leakage under a metric is the mean, over images, of how
close the reconstruction comes to the private image; protected models are ranked by it (SemSim, section 3).
"""

from collections.abc import Mapping

import numpy as np
import torch

from harness.api import (
    ColumnSpec,
    DistributionMetric,
    FullReferenceMetric,
    GradientDefense,
    ImageDataset,
    Info,
    Model,
    Paper,
    Planner,
    Query,
    ReconstructionAttack,
    Row,
    Selection,
    Step,
    StepContext,
    StepResult,
    Table,
    Track,
    cube,
    hookimpl,
    mean_value,
    win_rates,
    win_table,
)
from harness_reconstruction.per_image import image_gradients


class ReconstructionTrack(Track):
    """Gradient leakage: how much of a private image comes back from the gradient that was shared."""

    info = Info(
        id="harness/reconstruction",
        version="1",
        paper=Paper(
            title="Privacy Assessment on Reconstructed Images: Are Existing Evaluation Metrics Faithful to Human "
            "Perception?",
            authors="Sun, Gazagnadou, Sharma, Lyu, Li & Zheng",
            year=2023,
            url="https://arxiv.org/abs/2309.13038",
        ),
    )
    title = "Reconstruction privacy"
    measures = "How close reconstruction attacks come to private images through the gradients a model shares."

    def plan(self, planner: Planner, selection: Selection) -> None:
        """One reconstruction per (data set, model, defense, attack), scored by every metric."""
        for dataset in selection.of(ImageDataset):
            for model in selection.of(Model):
                for defense in selection.of(GradientDefense):
                    for attack in selection.of(ReconstructionAttack):
                        roles = {"dataset": dataset, "model": model, "defense": defense, "attack": attack}
                        rebuilt = planner.task("reconstruct", roles)
                        for metric in selection.of(FullReferenceMetric):
                            planner.task("leakage", {**roles, "metric": metric}, needs={"rebuilt": rebuilt})
                        for metric in selection.of(DistributionMetric):
                            planner.task("distribution", {**roles, "metric": metric}, needs={"rebuilt": rebuilt})

    def steps(self) -> Mapping[str, Step]:
        """Return the kinds of task."""
        return {
            "reconstruct": Step(reconstruct, "1"),
            "leakage": Step(leakage, "1"),
            "distribution": Step(distribution, "1"),
        }

    def tables(self, query: Query) -> list[Table]:
        """Return the ranking of protected models, and who leaks less."""
        if "leakage" not in query.steps:
            return []
        rows = query("SELECT model, defense, attack, dataset, metric, name, score, closeness FROM leakage")
        rows["entry"] = np.array([f"{m} + {d}" for m, d in zip(rows["model"], rows["defense"], strict=True)])
        return [_ranking(_with_sets(query, rows)), _wins(rows)]


def reconstruct(context: StepContext) -> StepResult:
    """Share one gradient per private image through the defense, and let the attack rebuild the images from it."""
    images = context.images()
    positions = list(range(len(images)))
    private = images.load(positions).to(context.device)
    labels = torch.from_numpy(np.asarray(images.columns["label"])).long().to(context.device)
    shape = (private.shape[1], private.shape[2], private.shape[3])
    network = context.build("model")(shape, int(labels.max()) + 1, context.generator("initialisation"))
    network.requires_grad_(False)
    shared = context.build("defense")(image_gradients(network, private, labels), context.rng(images.names, "defense"))
    attack = context.build("attack")
    rebuilt = attack(shared, network, shape, context.rng(images.names, "attack"), context.progress)
    return StepResult(arrays={"images": rebuilt.mul(255).round().byte().cpu().numpy()})


def leakage(context: StepContext) -> StepResult:
    """Compare every reconstruction with its private image."""
    images, metric = context.images(), context.build("metric")
    rebuilt = torch.from_numpy(context.need("rebuilt").arrays["images"])

    def score(positions: list[int], private: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"score": metric(rebuilt[positions].to(private.device).float() / 255, private)}

    found = context.map(images, score)
    closeness = np.full(len(images), context.component("metric").closeness)
    return StepResult(rows={"name": list(images.names), **found, "closeness": closeness})


def distribution(context: StepContext) -> StepResult:
    """Compare all reconstructions with all private images by one number."""
    images = context.images()
    private = images.load(list(range(len(images)))).to(context.device)
    rebuilt = torch.from_numpy(context.need("rebuilt").arrays["images"]).to(context.device).float() / 255
    with torch.no_grad():
        score = context.build("metric")(rebuilt, private)
    return StepResult(rows={"score": [float(score)], "closeness": [context.component("metric").closeness]})


def _with_sets(query: Query, rows: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Add the numbers that belong to a whole set of reconstructions."""
    if "distribution" not in query.steps:
        return rows
    sets = query("SELECT model, defense, attack, metric, score, closeness FROM distribution")
    sets["entry"] = np.array([f"{m} + {d}" for m, d in zip(sets["model"], sets["defense"], strict=True)])
    names = ("entry", "attack", "metric", "score", "closeness")
    return {name: np.concatenate([rows[name], sets[name]]) for name in names}


def _ranking(rows: Mapping[str, np.ndarray]) -> Table:
    metrics, attacks = np.unique(rows["metric"]), np.unique(rows["attack"])
    columns, table_rows = [], []
    for metric in metrics:
        sign = int(rows["closeness"][rows["metric"] == metric][0])
        for attack in attacks:
            columns.append(
                ColumnSpec(
                    key=f"{metric} {attack}",
                    label=f"{metric.partition('/')[2]}, {attack.partition('/')[2]}",
                    description=f"Mean {metric} between reconstruction by {attack} and private image.",
                    better="lower" if sign > 0 else "higher",
                )
            )
    for entry in np.unique(rows["entry"]):
        values = {
            f"{metric} {attack}": mean_value(
                rows["score"][(rows["entry"] == entry) & (rows["metric"] == metric) & (rows["attack"] == attack)]
            )
            for metric in metrics
            for attack in attacks
        }
        table_rows.append(Row(label=str(entry), values=values))
    first = next((c for c in columns if c.key.startswith("harness/psnr ")), columns[0])
    direction = 1 if first.better == "lower" else -1
    table_rows.sort(key=lambda row: direction * (row.values[first.key].value or 0))
    return Table(
        id="models",
        title="Protected models by leakage",
        caption="A row is a classifier with a gradient defense; the less close a reconstruction comes, the better. n "
        "is the number of private images.",
        entry="protected model",
        columns=tuple(columns),
        rows=tuple(table_rows),
        ranked_by=first.key,
    )


def _wins(rows: Mapping[str, np.ndarray]) -> Table:
    """A condition is (data set, attack, metric); a pair is a private image."""
    parts = zip(rows["dataset"], rows["attack"], rows["metric"], strict=True)
    condition = np.array([" ".join(part) for part in parts])
    labels, _, numbers = cube(rows["entry"], condition, rows["name"], rows["score"] * rows["closeness"])
    wins = win_rates(numbers, higher_wins=False)
    return win_table(
        "model-wins",
        "Which protected model leaks less",
        "protected model",
        labels,
        wins,
        "reconstructions less close to the private images",
    )


@hookimpl
def register_tracks() -> list[Track]:
    return [ReconstructionTrack()]
