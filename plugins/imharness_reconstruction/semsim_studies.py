"""SemSim's own studies: what it learns from, and how well it then ranks protected models as people do.

Sun et al., NeurIPS 2023: leave one data set out (table 1), unseen attacks (table 2), number of annotations, backbone
and loss (figure 7), margin (figure 9). Each setting trains one network, measures reconstructions that it has not seen,
and correlates the mean distance of each model with the share of its reconstructions that were recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from imharness.data import ImageSet, generator
from imharness.images import FullReferenceScore, UsageError
from imharness.stats import NotTestable, correlate
from imharness_reconstruction.semsim import Annotations, SemSimPlan, SemSimTraining
from imharness_reconstruction.trainings.semsim import read_annotations

MARGINS = (0.1, 0.5, 1.0, 2.0, 5.0)
SIZES = (50, 100, 200, 400, 800, 1600)
BATCH = 256
SEMSIM = "semsim"


@dataclass(frozen=True)
class Corpus:
    """Annotated reconstructions with the data set, the attack and the protected model of each."""

    data: Annotations
    dataset: np.ndarray
    attack: np.ndarray
    model: np.ndarray

    @classmethod
    def of(cls, images: ImageSet) -> Corpus:
        """Return the corpus of an annotated data set with an index; raises `UsageError` without one."""
        if "model" not in images.columns:
            raise UsageError("the annotations have no index.csv, which says what each reconstruction comes from.")
        rebuilt = np.asarray(images.columns["recognised"]) >= 0
        dataset, attack, model, defense = (
            np.asarray(images.columns[name])[rebuilt] for name in ("dataset", "attack", "model", "defense")
        )
        protected = np.array([f"{m} + {d}" for m, d in zip(model, defense, strict=True)])
        return cls(read_annotations(images), dataset, attack, protected)

    def part(self, mask: np.ndarray) -> Corpus:
        """Return some of the reconstructions; raises `UsageError` for none."""
        if not mask.any():
            raise UsageError("a part of the study has no annotated reconstructions.")
        rows, d = torch.from_numpy(np.flatnonzero(mask)), self.data
        kept, place = torch.unique(d.reference[rows], return_inverse=True)
        data = Annotations(d.originals[kept], d.reconstructions[rows], place, d.recognised[rows])
        return Corpus(data, self.dataset[mask], self.attack[mask], self.model[mask])


@dataclass(frozen=True)
class Setting:
    """One training and what it is tested on."""

    name: str
    train: Corpus
    test: Corpus
    plan: SemSimPlan


@dataclass(frozen=True)
class Outcome:
    """|rho| and |tau| of one metric's ranking with that of the judges; None where a ranking is constant."""

    setting: str
    metric: str
    rho: float | None
    tau: float | None
    models: int
    originals: int


def leave_one_out(corpus: Corpus, plan: SemSimPlan, test: str) -> Iterator[Setting]:
    """Train on all data sets but one, and test on that one."""
    names = np.unique(corpus.dataset)
    if len(names) < 2:
        raise UsageError("leaving one data set out needs annotations of two.")
    for name in names:
        yield Setting(str(name), corpus.part(corpus.dataset != name), corpus.part(corpus.dataset == name), plan)


def unseen_attack(corpus: Corpus, plan: SemSimPlan, test: str) -> Iterator[Setting]:
    """Train on the attack with the most annotations, and test on each other one."""
    names, counts = np.unique(corpus.attack, return_counts=True)
    if len(names) < 2:
        raise UsageError("an unseen attack needs annotations of two.")
    seen = names[counts.argmax()]
    known = corpus.part(corpus.attack == seen)
    for name in names[names != seen]:
        yield Setting(str(name), known, corpus.part(corpus.attack == name), plan)


def number(corpus: Corpus, plan: SemSimPlan, test: str) -> Iterator[Setting]:
    """Train on more and more originals with their reconstructions."""
    train, held_out = _divided(corpus, test)
    total = len(train.data.originals)
    order = torch.randperm(total, generator=generator(0))
    for size in sorted({min(size, total) for size in SIZES}):
        chosen = torch.isin(train.data.reference, order[:size]).numpy()
        yield Setting(f"{size} originals", train.part(chosen), held_out, plan)


def backbone(corpus: Corpus, plan: SemSimPlan, test: str) -> Iterator[Setting]:
    """Train each backbone."""
    train, held_out = _divided(corpus, test)
    for name in ("lenet", "resnet18", "resnet50"):
        yield Setting(name, train, held_out, replace(plan, backbone=name))


def loss(corpus: Corpus, plan: SemSimPlan, test: str) -> Iterator[Setting]:
    """Train with each loss."""
    train, held_out = _divided(corpus, test)
    for name in ("triplet", "contrastive"):
        yield Setting(name, train, held_out, replace(plan, loss=name))


def margin(corpus: Corpus, plan: SemSimPlan, test: str) -> Iterator[Setting]:
    """Train with margins around the paper's."""
    train, held_out = _divided(corpus, test)
    for value in MARGINS:
        yield Setting(f"margin {value:g}", train, held_out, replace(plan, margin=value))


STUDIES: Mapping[str, Callable[[Corpus, SemSimPlan, str], Iterator[Setting]]] = {
    "leave-one-out": leave_one_out,
    "unseen-attack": unseen_attack,
    "annotations": number,
    "backbone": backbone,
    "loss": loss,
    "margin": margin,
}


def _divided(corpus: Corpus, test: str) -> tuple[Corpus, Corpus]:
    """Return what to train on and what to test on: a data set, or half of the originals where there is only one."""
    names = np.unique(corpus.dataset)
    if len(names) == 1:
        half = (corpus.data.reference % 2 == 0).numpy()
        return corpus.part(half), corpus.part(~half)
    chosen = test or str(names[0])
    if chosen not in names:
        raise UsageError(f"no annotations of {chosen!r}; there are {', '.join(names)}.")
    return corpus.part(corpus.dataset != chosen), corpus.part(corpus.dataset == chosen)


def outcomes(
    setting: Setting,
    others: Mapping[str, FullReferenceScore],
    device: torch.device,
    seed: int,
    progress: Callable[[int, int], None],
) -> list[Outcome]:
    """Train SemSim as the setting says; return how it and the other metrics rank the models of the test part."""
    training = SemSimTraining(setting.train.data, setting.plan, generator(seed), device)
    for step in range(training.steps):
        training.step(step)
        progress(step + 1, training.steps)
    network = training.network.eval().requires_grad_(False)
    people, models = _means(setting.test, setting.test.data.recognised.numpy())
    size = len(setting.train.data.originals)
    found = []
    for name, score in {SEMSIM: network.distance, **others}.items():
        leakage, _ = _means(setting.test, _scored(setting.test.data, score, device))
        found.append(Outcome(setting.name, name, *_agreement(leakage, people), len(models), size))
    return found


@torch.no_grad()
def _scored(data: Annotations, score: FullReferenceScore, device: torch.device) -> np.ndarray:
    rows = torch.arange(len(data.reconstructions)).split(BATCH)
    parts = [score(data.reconstructions[r].to(device), data.originals[data.reference[r]].to(device)) for r in rows]
    return torch.cat(parts).cpu().numpy()


def _means(corpus: Corpus, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of finite values of each protected model, and the models."""
    models, place = np.unique(corpus.model, return_inverse=True)
    finite = np.isfinite(values)
    sums = np.bincount(place[finite], weights=values[finite].astype(np.float64), minlength=len(models))
    return sums / np.bincount(place[finite], minlength=len(models)).clip(min=1), models


def _agreement(leakage: np.ndarray, people: np.ndarray) -> tuple[float | None, float | None]:
    try:
        rho, tau = (abs(correlate(leakage, people, method).value) for method in ("spearman", "kendall"))
    except NotTestable:
        return None, None
    return rho, tau


def plot(found: Sequence[Outcome], title: str, file: Path) -> None:
    """Draw |rho| and |tau| of every metric over the settings, as SVG, PDF or PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    settings = list(dict.fromkeys(o.setting for o in found))
    figure, axes = pyplot.subplots(1, 2, figsize=(max(8.0, 1.6 * len(settings)), 4), sharey=True, layout="constrained")
    for axis, name in zip(axes, ("rho", "tau"), strict=True):
        for metric in dict.fromkeys(o.metric for o in found):
            values = {o.setting: getattr(o, name) for o in found if o.metric == metric}
            heights = [np.nan if values.get(s) is None else values[s] for s in settings]
            axis.plot(settings, heights, marker="o", label=metric, linewidth=2 if metric == SEMSIM else 1)
        axis.set_title(f"|{name}|")
        axis.set_ylim(0, 1)
        axis.tick_params(axis="x", labelrotation=20)
    axes[0].legend()
    figure.suptitle(title)
    figure.savefig(file)
    pyplot.close(figure)
