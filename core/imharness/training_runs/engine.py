"""The functions behind `harness train`: choose a training, run it, write weights and a model card."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors.torch import save

from imharness.components.registry import Registry, explain
from imharness.contracts.call import checked
from imharness.contracts.randomness import derive_seed, generator
from imharness.contracts.track import Progress
from imharness.contracts.trainable_metric import TrainableMetric
from imharness.contracts.training_defense import TrainingDefense
from imharness.contracts.weight_training import Trained, TrainingContext, WeightTraining
from imharness.errors import UsageError, unknown_name
from imharness.results.disk import remove_remains, write_whole
from imharness.results.identity import digest
from imharness.results.labels import method_of
from imharness.running.numerics import fresh_numerics
from imharness.training_runs.checkpoints import CheckpointedLoop


@dataclass(frozen=True)
class Training:
    """A training: its data, the other components that it needs, and the name of the file that it writes."""

    title: str
    stem: str
    datasets: Mapping[str, str]
    requires: Mapping[str, tuple[str, str]]
    run: Callable[[torch.device, TrainingContext], Trained]
    identity: Mapping[str, Any]


def training_defenses(registry: Registry) -> list[TrainingDefense]:
    """Return the defenses that train a metric further."""
    return [d for d in registry.of_kind("defense") if isinstance(d, TrainingDefense)]


def by_name(registry: Registry, name: str, changes: Mapping[str, str]) -> Training:
    """Return a registered training of weights; `changes` is field -> value, as text."""
    if _trains_a_metric(registry, name):
        raise UsageError(f"{name} trains a metric further: add --metric NAME.")
    component = registry.one("weight-training", name)
    if not isinstance(component, WeightTraining):
        raise UsageError(f"{name} does not train weights; `harness train` lists the trainings.")
    training: WeightTraining = _adjusted(component, changes)

    def run(device: torch.device, context: TrainingContext) -> Trained:
        trained: Trained = checked(training, training.build(device))(context)
        return trained

    stem, facts = method_of(training.info.id), {"training": registry.ref(training).model_dump(mode="json")}
    return Training(training.label, stem, training.datasets(), training.requires(), run, facts)


def _trains_a_metric(registry: Registry, name: str) -> bool:
    try:
        return any(isinstance(component, TrainingDefense) for component in registry.find("defense", name))
    except UsageError:
        return False


def by_defense(registry: Registry, name: str, metric_name: str, changes: Mapping[str, str]) -> Training:
    """Return the training of a metric with a training defense; `changes` are fields of the metric's plan, as text."""
    defense, metric = registry.one("defense", name), registry.one("metric", metric_name)
    if not isinstance(defense, TrainingDefense):
        labels = [one.label for one in training_defenses(registry)]
        raise UsageError(unknown_name(f"{name} is not a training defense", name, labels, "Training defenses"))
    if not isinstance(metric, TrainableMetric):
        labels = [one.label for one in registry.of_kind("metric") if isinstance(one, TrainableMetric)]
        raise UsageError(
            unknown_name(f"{metric_name} cannot be trained further", metric_name, labels, "Metrics that can")
        )
    metric.require()
    plan = _adjusted(metric.tuning, changes)

    def run(device: torch.device, context: TrainingContext) -> Trained:
        trained: Trained = checked(defense, defense.build(device))(metric, plan, context)
        return trained

    facts = {
        "metric": registry.ref(metric).model_dump(mode="json"),
        "defense": registry.ref(defense).model_dump(mode="json"),
        "plan": plan.model_dump(),
    }
    stem = metric.trained_by(defense.label).weights_name
    datasets = {"train": plan.train, "test": plan.test}
    return Training(f"{defense.label} on {metric.label}", stem, datasets, defense.requires(), run, facts)


def train(
    training: Training, registry: Registry, *, device: torch.device, seed: int, out: Path, progress: Progress
) -> dict[str, Any]:
    """Train, write ``<stem>.safetensors`` and its model card into `out`, and return the path and the figures.

    An interrupted training continues from its last checkpoint, which stays in `out` until the weights are written. One
    thread computes, so that on a CPU the weights depend neither on its cores nor on what this process did before.
    """
    components = {role: registry.one(kind, name) for role, (kind, name) in training.requires.items()}
    for component in components.values():
        component.require()
    datasets: dict[str, Any] = {role: registry.one("dataset", label) for role, label in training.datasets.items()}
    rng = generator(derive_seed(seed, training.title))
    identity = digest([dict(training.identity), seed, torch.__version__])
    loop = CheckpointedLoop(out / f"{training.stem}.checkpoint", identity, rng, progress)
    with fresh_numerics():
        data = {role: checked(dataset, dataset.build(device)) for role, dataset in datasets.items()}
        trained = training.run(device, TrainingContext(data, components, rng, loop))
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in trained.tensors.items()}
    weights = out / f"{training.stem}.safetensors"
    card = {**training.identity, "seed": seed, "torch": torch.__version__, **trained.card}
    write_whole(out, weights.name, save(tensors))
    write_whole(out, f"{training.stem}.json", (json.dumps(card, indent=1, sort_keys=True) + "\n").encode())
    loop.discard()
    remove_remains(out)
    return {"weights": str(weights), "card": dict(trained.card)}


def _adjusted(model: Any, changes: Mapping[str, str]) -> Any:
    try:
        return type(model).model_validate({**model.model_dump(), **changes})
    except ValidationError as error:
        raise UsageError(explain(error, type(model))) from None
