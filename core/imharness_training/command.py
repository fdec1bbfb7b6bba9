"""`harness train`: run a recipe, or a training defense on a metric, and write weights with a model card."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from imharness import console
from imharness.errors import UsageError

if TYPE_CHECKING:
    import torch

    from imharness.components.component import Component
    from imharness.components.registry import Registry
    from imharness.contracts.weight_training import Trained, TrainingContext


@dataclass(frozen=True)
class Training:
    """What is trained: on which data, with which other components, and under which name it is written."""

    title: str
    stem: str
    datasets: Mapping[str, str]
    requires: Mapping[str, tuple[str, str]]
    run: Callable[[torch.device, TrainingContext], Trained]
    identity: Mapping[str, Any]


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("name", required=False)
@click.option("--metric", help="Metric that a training defense is applied to.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder to write. Default: ./trained; with --metric the folder where runs look for such weights.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--assets", type=click.Path(path_type=Path, exists=True), help="Look for weights and data here first.")
@click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")
@click.pass_context
def train(
    ctx: click.Context,
    name: str | None,
    metric: str | None,
    out: Path | None,
    seed: int,
    device: str,
    assets: Path | None,
    as_json: bool,
) -> None:
    """Train weights by a recipe, or a metric by a training defense; without a name, list both.

    Further options are fields of the recipe, or of the metric's training plan: --epochs 3. A training that was killed
    goes on from its last checkpoint when the same command is given again.
    """
    from imharness.components.assets import add_folder, cache_folder
    from imharness.components.registry import installed

    if assets is not None:
        add_folder(assets)
    registry = installed()
    if name is None:
        _list(registry)
        return
    changes = _changes(ctx.args)
    training = _hardening(registry, name, metric, changes) if metric else _recipe(registry, name, changes)
    folder = out or (cache_folder() / "trained" if metric else Path("trained"))
    facts = _run(registry, training, folder, seed, device, as_json)
    if as_json:
        console.emit(facts)
        return
    console.table(training.title, ["figure", "value"], list(facts["card"].items()))
    console.say(f"weights: {facts['weights']}")


def _list(registry: Registry) -> None:
    from imharness.contracts.defense import TrainingDefense

    console.table(
        "Recipes: harness train NAME", ["name", "what it trains"],
        [(r.label, r.summary) for r in registry.of_kind("weight-training")],
    )  # fmt: skip
    console.table(
        "Training defenses: harness train NAME --metric METRIC", ["name", "what it does"],
        [(d.label, d.summary) for d in registry.of_kind("defense") if isinstance(d, TrainingDefense)],
    )  # fmt: skip


def _changes(words: Sequence[str]) -> dict[str, str]:
    """Return ``--some-field value ...`` as field -> value."""
    names, values = words[::2], words[1::2]
    if len(names) != len(values) or not all(name.startswith("--") for name in names):
        raise UsageError(f"cannot read {' '.join(words)!r}; write --field value.")
    return {name[2:].replace("-", "_"): value for name, value in zip(names, values, strict=True)}


def _recipe(registry: Registry, name: str, changes: Mapping[str, str]) -> Training:
    from imharness.contracts.defense import TrainingDefense
    from imharness.contracts.weight_training import WeightTraining

    if any(isinstance(d, TrainingDefense) for d in _found(registry, "defense", name)):
        raise UsageError(f"{name} trains a metric further: add --metric NAME.")
    found = registry.one("weight-training", name)
    if not isinstance(found, WeightTraining):
        raise UsageError(f"{name} is no recipe.")
    recipe: WeightTraining = _adjusted(found, changes)

    def run(device: torch.device, workshop: TrainingContext) -> Trained:
        return recipe.build(device)(workshop)

    stem, facts = recipe.info.id.partition("/")[2], {"recipe": recipe.ref().model_dump(mode="json")}
    return Training(recipe.label, stem, recipe.datasets(), recipe.requires(), run, facts)


def _hardening(registry: Registry, name: str, metric_name: str, changes: Mapping[str, str]) -> Training:
    from imharness.contracts.defense import TrainingDefense
    from imharness.contracts.metric import TrainableMetric

    defense, metric = registry.one("defense", name), registry.one("metric", metric_name)
    if not isinstance(defense, TrainingDefense):
        raise UsageError(f"{name} is no training defense; `harness train` lists them.")
    if not isinstance(metric, TrainableMetric):
        raise UsageError(f"{metric_name} cannot be trained further: it is no TrainableMetric.")
    metric.require()
    plan = _adjusted(metric.tuning, changes)

    def run(device: torch.device, workshop: TrainingContext) -> Trained:
        return defense.build(device)(metric, plan, workshop)

    facts = {
        "metric": metric.ref().model_dump(mode="json"),
        "defense": defense.ref().model_dump(mode="json"),
        "plan": plan.model_dump(),
    }
    stem = metric.trained_by(defense.label).weights_name
    datasets = {"train": plan.train, "test": plan.test}
    return Training(f"{defense.label} on {metric.label}", stem, datasets, defense.requires(), run, facts)


def _found(registry: Registry, kind: str, name: str) -> list[Component]:
    try:
        return registry.find(kind, name)
    except UsageError:
        return []


def _adjusted(model: Any, changes: Mapping[str, str]) -> Any:
    from pydantic import ValidationError

    from imharness.components.registry import explain

    try:
        return type(model).model_validate({**model.model_dump(), **changes})
    except ValidationError as error:
        raise UsageError(explain(error)) from None


def _run(registry: Registry, training: Training, out: Path, seed: int, device: str, quiet: bool) -> dict[str, Any]:
    import torch
    from safetensors.torch import save

    from imharness.contracts.weight_training import TrainingContext
    from imharness.randomness import derive_seed, generator
    from imharness.results.identity import digest
    from imharness.running.device import resolve_devices
    from imharness_training.checkpoints import CheckpointedLoop

    place = torch.device(resolve_devices([device])[0])
    components = {role: registry.one(kind, name) for role, (kind, name) in training.requires.items()}
    for component in components.values():
        component.require()
    data = {
        role: registry.one("dataset", label).build(place)  # type: ignore[attr-defined]
        for role, label in training.datasets.items()
    }
    rng = generator(derive_seed(seed, training.title))
    identity = digest([dict(training.identity), seed, torch.__version__])
    with console.progress(training.title, shown=not quiet) as advance:
        loop = CheckpointedLoop(out / f"{training.stem}.checkpoint", identity, rng, advance)
        trained = training.run(place, TrainingContext(data, components, rng, loop))
    out.mkdir(parents=True, exist_ok=True)
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in trained.tensors.items()}
    weights = out / f"{training.stem}.safetensors"
    part = weights.with_suffix(".part")
    part.write_bytes(save(tensors))
    part.replace(weights)
    card = {**training.identity, "seed": seed, "torch": torch.__version__, **trained.card}
    weights.with_suffix(".json").write_text(json.dumps(card, indent=1, sort_keys=True) + "\n")
    loop.discard()
    return {"weights": str(weights), "card": dict(trained.card)}
