"""Makes the questions in which people choose the better of two defended images.

Gushchin et al. (2025), appendix A.2: attacks are adaptive, so each defense is shown the images that an attack with
knowledge of it made, and "W/o defense" those of the attack on the metric alone. An evaluation is one source image,
attack and metric; 20 source images are drawn at random, and all pairs of defenses are compared on each. The defense
draws the random numbers with which a run of seed 0 scored the image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from imharness.commands import Finished, component, context, find, finished
from imharness.data import ImageSet, derive_seed
from imharness.errors import UsageError
from imharness_annotation import Wanted
from imharness_annotation.book import Question
from imharness_annotation.sources import better_questions

IQA = "harness/iqa"
BASELINE = "harness/none"
STRENGTHS = ("weak", "medium", "strong")
Place = tuple[str, str, str, str]
"""Data set, attack, metric, strength."""


def questions(store: str, wanted: Wanted) -> Iterator[Question]:
    """Yield the questions about a run; raises `UsageError` where the run has not made the images."""
    if not wanted.attacks or len(wanted.defenses) < 2:
        raise UsageError(
            "--kind better compares defenses under attacks: add --attack NAME, and --defense NAME twice or more often."
        )
    guards = {defense.label: defense for defense in (find("defense", name) for name in wanted.defenses)}
    attack_runs = _finished_attacks(store, wanted)
    if not attack_runs:
        what = f" at the strength {wanted.strength}" if wanted.strength else ""
        raise UsageError(
            f"store {store} has no images of {', '.join(wanted.attacks)}{what}; run `harness run --track iqa` first."
        )
    for setting, by_defense in sorted(attack_runs.items()):
        dataset, attack, metric, strength = setting
        step = context({"dataset": find("dataset", dataset)})
        images = step.images().first(min(len(task.output.rows["name"]) for task in by_defense.values()))
        order = sorted(range(len(images)), key=lambda i, s=images: derive_seed(0, "source image", s.names[i]))
        chosen = sorted(order[: wanted.limit])
        names = [images.names[i] for i in chosen]
        pictures = {}
        for label, guard in guards.items():
            source = "" if label == BASELINE or wanted.attacker == "fixed" else label
            if source not in by_defense:
                raise UsageError(_absent(setting, label, source))
            build = context({"defense": guard}).build("defense")
            pictures[label] = []
            for i, name in zip(chosen, names, strict=True):
                attacked = _loaded(images, by_defense[source], i)
                with torch.no_grad():
                    pictures[label].append(build(attacked[None], step.rng([name], "defense", label))[0].cpu())
        facts = {"dataset": dataset, "attack": attack, "metric": metric, "strength": strength}
        clean = [images.load([i])[0] for i in chosen]
        yield from better_questions({**facts, "attacker": wanted.attacker}, pictures, clean, names)


def _finished_attacks(store: str, wanted: Wanted) -> dict[Place, dict[str, Finished]]:
    """Return for each place the finished attacks, by the label of the defense that the attack knew; "": none.

    Only the attacks, metrics and strength that are wanted are returned; if no strength is, the strongest in the run.
    """
    attacks = {component("attack", name).label for name in wanted.attacks}
    attacks |= {component("attack", name).info.id for name in wanted.attacks if "[" not in name}
    metrics = {component("metric", name).label for name in wanted.metrics}
    tasks: dict[Place, dict[str, Finished]] = {}
    for task in finished(store, IQA, "attack"):
        method, metric = str(task.options["method"]), task.labels["metric"]
        if not {method, method.partition("[")[0]} & attacks or (metrics and metric not in metrics):
            continue
        setting = task.labels["dataset"], method, metric, str(task.options["strength"])
        tasks.setdefault(setting, {})[task.labels.get("defense", "")] = task
    had = {run_setting[3] for run_setting in tasks}
    strength = wanted.strength or max(had, key=lambda s: (s in STRENGTHS and STRENGTHS.index(s), s), default="")
    return {run_setting: by_defense for run_setting, by_defense in tasks.items() if run_setting[3] == strength}


def _absent(setting: Place, defense: str, needed: str) -> str:
    dataset, attack, metric, strength = setting
    if needed:
        return (
            f"the run has no images that {attack} ({strength}) made of {dataset} on {metric} with knowledge of "
            f"{defense}; let it attack {defense} adaptively, leave {defense} out, or add --attacker fixed."
        )
    return f"the run has no images that {attack} ({strength}) made of {dataset} on {metric} alone."


def _loaded(images: ImageSet, task: Finished, position: int) -> torch.Tensor:
    """Return an attacked image ``(3, H, W)`` in [0, 1]; the run keeps those of each size as one stack."""
    size = images.shapes[position]
    before = sum(shape == size for shape in images.shapes[:position])
    stack: Mapping[str, np.ndarray] = task.output.arrays
    return torch.from_numpy(np.array(stack[f"images-{size[0]}x{size[1]}"][before])).float() / 255
