"""The studies of the SemSim paper: how training data and settings change SemSim's agreement with people on models.

Sun et al., NeurIPS 2023: leave one data set out (table 1), unseen attacks (table 2), number of annotations, backbone
and loss (figure 7), margin (figure 9). Each setting trains one network, measures reconstructions that it has not seen,
and correlates the mean closeness of each model's reconstructions with the share of them that were recognised. No
original is both trained on and tested on, nor are two that were cut from one photograph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from imharness.data import ImageSet, fresh_numerics, generator
from imharness.errors import UsageError
from imharness.files import NO_MARKUP
from imharness.images import FullReferenceMetric, FullReferenceScore
from imharness.leaderboard import NotTestable, chosen_half, correlate
from imharness_reconstruction.datasets.annotated import FACTS
from imharness_reconstruction.resolution import PSNR, RESOLVED
from imharness_reconstruction.semsim import Annotations, SemSimPlan, SemSimTraining
from imharness_reconstruction.trainings.semsim import read_annotations

MARGINS = (0.1, 0.5, 1.0, 2.0, 5.0)
SIZES = (50, 100, 200, 400, 800, 1600)
"""The numbers of originals in the study of the number of annotations."""
BATCH = 256
"""The number of reconstructions that are measured at a time."""
SEMSIM = "semsim"


@dataclass(frozen=True)
class Corpus:
    """Annotated reconstructions with the data set, the attack, the protected model and the source of each.

    `source`: what the original was taken from, a photograph or the original itself.
    """

    data: Annotations
    dataset: np.ndarray
    attack: np.ndarray
    model: np.ndarray
    source: np.ndarray

    @classmethod
    def of(cls, images: ImageSet) -> Corpus:
        """Return the corpus of an annotated data set with an index; raises `UsageError` without one."""
        if "model" not in images.columns:
            raise UsageError("the annotations have no index.csv, which names the source of each reconstruction.")
        rebuilt = np.asarray(images.columns["recognised"]) >= 0
        dataset, attack, model, defense, source = (
            np.asarray(images.columns[name])[rebuilt] for name in (*FACTS, "source")
        )
        protected = np.array([f"{m} + {d}" for m, d in zip(model, defense, strict=True)])
        return cls(read_annotations(images), dataset, attack, protected, source)

    def subset(self, mask: np.ndarray) -> Corpus:
        """Return some of the reconstructions; raises `UsageError` for none."""
        if not mask.any():
            raise UsageError("a part of the study has no annotated reconstructions.")
        rows, every = torch.from_numpy(np.flatnonzero(mask)), self.data
        selected, reference_index = torch.unique(every.reference[rows], return_inverse=True)
        data = Annotations(
            every.originals[selected], every.reconstructions[rows], reference_index, every.recognised[rows]
        )
        return Corpus(data, self.dataset[mask], self.attack[mask], self.model[mask], self.source[mask])

    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which reconstructions to train on and which to test on, with half of the sources each."""
        half = chosen_half(self.source)
        return half, ~half


@dataclass(frozen=True)
class Setting:
    """One training and its test data."""

    name: str
    train: Corpus
    test: Corpus
    plan: SemSimPlan


@dataclass(frozen=True)
class Outcome:
    """Rho and tau of one metric's ranking with that of the judges; None where a ranking is constant.

    The metric is signed so that more means closer: 1 for the judges' order, -1 for the reverse.
    """

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
        raise UsageError("leaving one data set out needs annotations of two data sets.")
    for name in names:
        yield Setting(str(name), corpus.subset(corpus.dataset != name), corpus.subset(corpus.dataset == name), plan)


def unseen_attack(corpus: Corpus, plan: SemSimPlan, test: str) -> Iterator[Setting]:
    """Train on the attack with the most annotations, and test on each other one, with originals of its own."""
    names, counts = np.unique(corpus.attack, return_counts=True)
    if len(names) < 2:
        raise UsageError("a study of unseen attacks needs annotations of two attacks.")
    seen = names[counts.argmax()]
    learnt, held_out = corpus.halves()
    training = corpus.subset((corpus.attack == seen) & learnt)
    for name in names[names != seen]:
        yield Setting(str(name), training, corpus.subset((corpus.attack == name) & held_out), plan)


def number(corpus: Corpus, plan: SemSimPlan, test: str) -> Iterator[Setting]:
    """Train on more and more originals with their reconstructions."""
    train, held_out = _divided(corpus, test)
    total = len(train.data.originals)
    order = torch.randperm(total, generator=generator(0))
    for size in sorted({min(size, total) for size in SIZES}):
        chosen = torch.isin(train.data.reference, order[:size]).numpy()
        yield Setting(f"{size} originals", train.subset(chosen), held_out, plan)


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
    """Return what to train on and what to test on: a data set, or half of the sources where there is only one."""
    names = np.unique(corpus.dataset)
    if len(names) == 1:
        learnt, held_out = corpus.halves()
        return corpus.subset(learnt), corpus.subset(held_out)
    chosen = test or str(names[0])
    if chosen not in names:
        raise UsageError(f"no annotations of {chosen!r}; there are {', '.join(names)}.")
    return corpus.subset(corpus.dataset != chosen), corpus.subset(corpus.dataset == chosen)


def rival(metric: FullReferenceMetric, device: torch.device) -> tuple[FullReferenceScore, int]:
    """Return a metric's score and its `closeness`, as `outcomes` takes them; PSNR counts as at most `RESOLVED`."""
    score = metric.build(device)
    if metric.info.id != PSNR:
        return score, metric.closeness
    return lambda images, reference: score(images, reference).clamp(max=RESOLVED), metric.closeness


@fresh_numerics()
def outcomes(
    setting: Setting,
    others: Mapping[str, tuple[FullReferenceScore, int]],
    device: torch.device,
    seed: int,
    progress: Callable[[int, int], None],
) -> list[Outcome]:
    """Train SemSim in a setting; return how it and the other metrics rank the models of the test part.

    `others`: metrics with their `closeness`, 1 where more means closer and -1 where less does.
    """
    training = SemSimTraining(setting.train.data, setting.plan, generator(seed), device)
    for step in range(training.steps):
        training.step(step)
        progress(step + 1, training.steps)
    network = training.network.eval().requires_grad_(False)
    people, models = _means(setting.test, setting.test.data.recognised.numpy())
    size = len(setting.train.data.originals)
    results = []
    for name, (score, closeness) in {SEMSIM: (network.distance, -1), **others}.items():
        leakage, _ = _means(setting.test, closeness * _scored(setting.test.data, score, device))
        results.append(Outcome(setting.name, name, *_agreement(leakage, people), len(models), size))
    return results


@torch.no_grad()
def _scored(data: Annotations, score: FullReferenceScore, device: torch.device) -> np.ndarray:
    """Return the score of every reconstruction against its original ``(R,)``."""
    scores = []
    for rows in torch.arange(len(data.reconstructions)).split(BATCH):
        images, originals = data.reconstructions[rows], data.originals[data.reference[rows]]
        scores.append(score(images.to(device), originals.to(device)))
    return torch.cat(scores).cpu().numpy()


def _means(corpus: Corpus, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of finite values of each protected model, NaN where it has none, and the models."""
    models, model_index = np.unique(corpus.model, return_inverse=True)
    finite = np.isfinite(values)
    sums = np.bincount(model_index[finite], weights=values[finite].astype(np.float64), minlength=len(models))
    count = np.bincount(model_index[finite], minlength=len(models))
    return np.divide(sums, count, out=np.full(len(models), np.nan), where=count > 0), models


def _agreement(leakage: np.ndarray, people: np.ndarray) -> tuple[float | None, float | None]:
    """Return Spearman's rho and Kendall's tau over the models; None for both if a ranking is constant."""
    finite = np.isfinite(leakage)
    try:
        rho, tau = (correlate(leakage[finite], people[finite], method).value for method in ("spearman", "kendall"))
    except NotTestable:
        return None, None
    return rho, tau


def plot(results: Sequence[Outcome], title: str, file: Path) -> None:
    """Draw rho and tau of every metric over the settings, as SVG, PDF or PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    settings = list(dict.fromkeys(o.setting for o in results))
    with pyplot.rc_context(NO_MARKUP):
        figure, axes = pyplot.subplots(
            1, 2, figsize=(max(8.0, 1.6 * len(settings)), 4), sharey=True, layout="constrained"
        )
        for axis, name in zip(axes, ("rho", "tau"), strict=True):
            for metric in dict.fromkeys(o.metric for o in results):
                values = {o.setting: getattr(o, name) for o in results if o.metric == metric}
                heights = [np.nan if values.get(s) is None else values[s] for s in settings]
                axis.plot(settings, heights, marker="o", label=metric, linewidth=2 if metric == SEMSIM else 1)
            axis.set_title(name)
            axis.set_ylim(-1, 1)
            axis.axhline(0, color="0.7", linewidth=0.8)
            axis.tick_params(axis="x", labelrotation=20)
        axes[0].legend()
        figure.suptitle(title)
        figure.savefig(file)
        pyplot.close(figure)
