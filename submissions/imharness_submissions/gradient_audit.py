"""Tests whether the gradients of a submitted defense mislead attacks.

A defense with misleading gradients looks strong against an attack that follows them (Athalye et al., "Obfuscated
gradients give a false sense of security", 2018). So each defense is attacked in four ways: through its own gradient,
with the identity in the backward pass (BPDA, section 4.1 of the paper), by queries alone, and with images made against
the metric without the defense. A defense is flagged when another way moves the score significantly further than its own
gradient, or than what attacks read in its place: the gradient of the stand-in that it names, or the identity.

A defense that moves pixels hides from all four when its gradient does not move them, too. So small changes of the
images are followed through it, and must be what the gradient says (`imharness.running.projections`): on clean images,
on those that an attack has led along that gradient, and on the way there. What an attack sends back through it must
come back as what these trials send.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeGuard, cast

import numpy as np
import numpy.typing as npt
import torch

from imharness.components.registry import Registry
from imharness.contracts.attack import Attack
from imharness.contracts.call import checked
from imharness.contracts.component import Component
from imharness.contracts.image_dataset import ImageDataset, ImageSet
from imharness.contracts.no_reference_metric import NoReferenceMetric
from imharness.contracts.purification import Inverse, Purification
from imharness.contracts.randomness import ImageRng, derive_seed
from imharness.errors import ContractError, HarnessError
from imharness.planning.profile import Profile, TrackProfile
from imharness.running.look_ups import REMEMBERED, remembered
from imharness.running.projections import UNEQUAL, Followed, follow, follow_scores, unequal_sums
from imharness.running.secret_split import hidden
from imharness.running.target import MetricTarget, Purify, storable, straight_through
from imharness.statistics.wilcoxon import wilcoxon_greater
from imharness_submissions.report import Gain, GradientAudit
from imharness_submissions.sandbox.proxies import Sandboxed

IMAGES = 12
"""On how many images a defense is tried, at most."""
MARGIN = 0.05
"""A smaller difference of gains does not count; a share of the metric's range."""
LEVEL = 0.05
"""Level of significance."""
FORETOLD = 0.5
"""The least cosine of an own gradient with scores behind the defense, where it leads attacks no further than others:
honest defenses of which that is so, such as `random-noise` and `crop`, reach 0.8."""
OWN, BPDA, QUERIES, TRANSFER = "its own gradient", "identity backward (BPDA)", "queries alone", "transferred images"
STAND_IN = "the gradient of its stand-in"


class TrialAttacks:
    """The metric, attacks and photographs on which a defense is tried.

    Metric, data set and photographs are drawn anew from those that the profile selects, so that no defense can know
    them and be honest there alone; the attacks are the first two in the L-inf norm that read gradients, and that ask.
    `score` checks what the metric returns, `raw` does not. Raises `HarnessError` where no track has all of these.
    """

    def __init__(self, registry: Registry, profile: Profile, device: torch.device) -> None:
        chosen = next(
            (
                components
                for track_profile in profile.tracks.values()
                if _complete(components := chosen_by(registry, track_profile))
            ),
            None,
        )
        if chosen is None:
            raise HarnessError(f"profile {profile.name} has no track with attacks on a differentiable metric")
        self.device, self.registry = device, registry
        self.metric = secrets.choice([c for c in chosen if _attackable(c)])
        attacks = [
            c for c in chosen if isinstance(c, Attack) and c.info.norm == "linf" and "medium" in c.info.strengths
        ]
        self.white = [a.at("medium") for a in attacks if a.info.access == "white_box"][:2]
        self.black = [a.at("medium") for a in attacks if a.info.access == "black_box"][:2]
        sets = [c for c in chosen if isinstance(c, ImageDataset)]
        data = hidden(secrets.choice(sets).build(device), profile.secret)
        positions = _drawn(data)
        self.images = data.load(positions).to(device)
        self.names = [data.names[p] for p in positions]
        self.score = checked(self.metric, self.metric.build(device))
        self.raw = self.metric.build(device)
        self.batch = secrets.randbelow(len(positions)) + 1
        """How many images a call holds: a defense cannot know it, and behave in such calls alone."""


def _drawn(data: ImageSet) -> list[int]:
    """Return positions of images of one shape, drawn at random: `IMAGES` of them if any shape has as many."""
    counts = Counter(data.shapes)
    most = min(IMAGES, max(counts.values()))
    first = secrets.choice([p for p, shape in enumerate(data.shapes) if counts[shape] >= most])
    alike = [p for p, shape in enumerate(data.shapes) if shape == data.shapes[first]]
    return secrets.SystemRandom().sample(alike, most)


def chosen_by(registry: Registry, track_profile: TrackProfile) -> list[Component]:
    """Return the components that a track's profile selects and that run on this machine, without submitted ones."""
    components: dict[str, Component] = {}
    for kind, names in track_profile.select.items():
        for name in names:
            if name.startswith("!"):
                continue
            for component in registry.of_kind(kind) if name.startswith("*") else registry.find(kind, name):
                changes = track_profile.parameters.get(component.info.id, {})
                fitted = component.with_parameters(**changes) if changes else component
                if not isinstance(component, Sandboxed) and fitted.is_here():
                    components[fitted.label] = fitted
    return list(components.values())


def _attackable(component: Component) -> TypeGuard[NoReferenceMetric]:
    return (
        isinstance(component, NoReferenceMetric) and component.info.differentiable and component.info.bounds is not None
    )


def _complete(chosen: Sequence[Component]) -> bool:
    """Say whether a defense of a metric's input can be tried with these."""
    needed = (Attack, ImageDataset, Purification)
    return any(map(_attackable, chosen)) and all(any(isinstance(c, n) for c in chosen) for n in needed)


def examine(defense: Purification, trial: TrialAttacks, seed: int) -> GradientAudit:
    """Attack a defense in every way; compare and flag."""
    purify: Purify = checked(defense, defense.build(trial.device))
    bare: Purify = defense.build(trial.device)
    gains: list[tuple[str, str, npt.NDArray[np.float64]]] = []
    along = list[torch.Tensor]()
    for way, attack, through in _ways(defense, trial, bare):
        target = _target(trial, attack, through, seed)
        perturb = checked(attack, attack.build(trial.device))
        attacked = storable(perturb(trial.images, target, _streams(trial, seed, "attack")))
        along += [attacked] if way == _read(defense) else []
        gains.append((way, attack.label, _gain(trial, purify, attacked, seed)))
    wild = [f"{attack} with {way}" for way, attack, gain in gains if not np.isfinite(gain).all()]
    if wild:
        raise ContractError(f"the score after {wild[0]} is not a finite number")
    read = _read(defense)
    best = max((gain for way, _, gain in gains if way == read), key=lambda gain: float(gain.mean()), default=None)
    measured_gains = tuple(
        Gain(way=way, attack=label, gain=float(gain.mean()), higher=way != read and _more(gain, best))
        for way, label, gain in gains
    )
    return GradientAudit(
        component=defense.label,
        metric=trial.metric.label,
        images=len(trial.names),
        gains=measured_gains,
        flags=(
            *_masked(measured_gains, read),
            *_graded(defense, trial, seed, gains),
            *unfollowed(defense, trial, seed, along[:1]),
            *_randomness(defense, trial, purify, seed),
        ),
    )


def _read(defense: Purification) -> str:
    """Return whose gradient attacks on a defense read."""
    return OWN if defense.info.differentiable else STAND_IN if defense.info.stand_in else BPDA


def _as_read(defense: Purification, trial: TrialAttacks, bare: Purify) -> Purify:
    """Return the defense with the gradient that attacks read."""
    return bare if defense.info.differentiable else straight_through(bare, _stand_in(defense, trial))


def _ways(defense: Purification, trial: TrialAttacks, bare: Purify) -> Iterator[tuple[str, Attack, Purify | None]]:
    for attack in trial.white:
        if _read(defense) != BPDA:
            yield _read(defense), attack, _as_read(defense, trial, bare)
        yield BPDA, attack, straight_through(bare)
        yield TRANSFER, attack, None
    for attack in trial.black:
        yield QUERIES, attack, bare


def _stand_in(defense: Purification, trial: TrialAttacks) -> Purify | None:
    """Return what lends its gradient to a defense that has none; None for the identity."""
    if defense.info.differentiable or not defense.info.stand_in:
        return None
    stand_in = trial.registry.one("defense", defense.info.stand_in)
    shared = {name: value for name, value in defense.model_dump().items() if name in type(stand_in).model_fields}
    return cast(Purification, stand_in.with_parameters(**shared)).build(trial.device)


def _target(trial: TrialAttacks, attack: Attack, through: Purify | None, seed: int) -> MetricTarget:
    return MetricTarget(
        trial.raw,
        trial.metric.bounds,
        images=len(trial.names),
        differentiable=attack.info.access == "white_box",
        sign=trial.metric.closeness,
        purify=through,
        rng=_streams(trial, seed, "target") if through is not None else None,
        budget=attack.budget().queries,
        micro_batch=trial.batch,
    )


def _streams(trial: TrialAttacks, seed: int, purpose: str) -> ImageRng:
    return ImageRng([derive_seed(seed, "honesty", purpose, name) for name in trial.names], trial.device)


def _gain(trial: TrialAttacks, purify: Purify, attacked: torch.Tensor, seed: int) -> npt.NDArray[np.float64]:
    """Return c (f(D(x')) - f(D(x))) / (upper - lower) of each image ``(images,)``; c: `closeness`, 1 or -1."""
    lower, upper = trial.metric.bounds
    scores = [trial.score(purify(batch, _streams(trial, seed, "shown"))) for batch in (attacked, trial.images)]
    change = trial.metric.closeness * (scores[0] - scores[1]) / (upper - lower)
    return change.double().cpu().numpy()  # type: ignore[no-any-return]


def _more(gain: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64] | None) -> bool:
    if baseline is None or float(gain.mean() - baseline.mean()) < MARGIN:
        return False
    return bool(wilcoxon_greater(gain - baseline)[0] < LEVEL)


def _masked(gains: Sequence[Gain], read: str) -> Iterator[str]:
    worse = [g for g in gains if g.higher]
    if worse:
        most = max(worse, key=lambda g: g.gain)
        best_gain = max((g for g in gains if g.way == read), key=lambda g: g.gain)
        yield (
            f"misleading gradients: {most.attack} with {most.way} moves the score by {most.gain:.3f} of its "
            f"range, {best_gain.way} only by {best_gain.gain:.3f}"
        )


def _graded(
    defense: Purification, trial: TrialAttacks, seed: int, gains: Sequence[tuple[str, str, npt.NDArray[np.float64]]]
) -> Iterator[str]:
    """Flag an own gradient that neither foretells scores nor leads attacks further than who does not know it.

    A defense may grade images itself and write that where the metric reads it, without a gradient of the grade. Soft
    rounding foretells scores no better, but attacks along its gradient go further than transferred images and queries.
    """
    followed = max((gain for way, _, gain in gains if way == OWN), key=lambda gain: float(gain.mean()), default=None)
    if followed is None:
        return
    equal = [
        way for way, _, gain in gains if way in (QUERIES, TRANSFER) and not wilcoxon_greater(followed - gain)[0] < LEVEL
    ]
    if not equal:
        return
    bare, batches = defense.build(trial.device), list[Followed]()
    for some in _batches(trial, trial.images):
        through = _with_streams(bare, trial, seed, some)

        def score(images: torch.Tensor, through: Callable[[torch.Tensor], torch.Tensor] = through) -> torch.Tensor:
            return trial.raw(through(images))

        drawn = ImageRng([secrets.randbelow(2**31) for _ in trial.names[some]], trial.device)
        batches.append(follow_scores(score, trial.images[some], drawn))
    cosine = float(torch.cat([batch.cosine for batch in batches]).nanmean())
    if cosine < FORETOLD:
        yield (
            f"misleading gradients: it leads attacks no further than {equal[0]}, and along random changes of one level "
            f"of 8 bits its slopes and those of the scores behind it have a cosine of {cosine:.2f}: "
            "something that the metric reads has no gradient"
        )


def unfollowed(
    defense: Purification, trial: TrialAttacks, seed: int, attacked: Sequence[torch.Tensor] = ()
) -> Iterator[str]:
    """Flag a defense whose gradient does not lead back to changes of the images, or whose outputs are looked up.

    `imharness.running.projections` says which gradients are found. A look-up answers changes of half of the images
    by less than fits what it shows, or shows detail for half of them that did not come with them. `attacked`: where
    an attack has led along the gradient, images of the trial's shape each: a defense may recognise what moved along its
    gradient, and lie there alone, or on the way there alone. The change that the attack made is one of the trials, too.
    """
    for images, where in ((trial.images, ""), *_led(trial, attacked)):
        followed = _followed(defense, trial, seed, images)
        misled, lookup_mask = (
            torch.cat([getattr(batch, name) for batch in followed]) for name in ("misled", "looked_up")
        )
        if float(misled.mean()) > 0:
            cosine = float(torch.cat([batch.cosine for batch in followed]).nanmean())
            yield (
                f"misleading gradients: {_read(defense)} does not lead back to a small change of the images{where} "
                f"(cosine {cosine:.3f}); a defense that moves pixels needs its own gradient, or a stand-in that moves "
                "them, too"
            )
        unequal = float(_unequal(defense, trial, seed, images).nanmean())
        if unequal > UNEQUAL:
            yield (
                f"misleading gradients: {_read(defense)} is another one for the gradient of a metric than for random "
                f"directions{where}: their sum comes back with an error of {100 * unequal:.0f} %"
            )
        looked_up = int(lookup_mask.sum())
        if 2 * looked_up >= len(lookup_mask):
            yield (
                f"a look-up: the outputs of {looked_up} of {len(lookup_mask)} images{where} stay as they are, or "
                "nearly so, when the images change"
            )
        stored = int((_remembered(defense, trial, seed, images) > REMEMBERED).sum())
        if 2 * stored >= len(images):
            yield (
                f"a look-up: the outputs of {stored} of {len(images)} images{where} show detail that did not come with "
                "the image"
            )
    for images in attacked:
        stored = int((_remembered(defense, trial, seed, trial.images, images) > REMEMBERED).sum())
        if 2 * stored >= len(images):
            yield (
                f"a look-up: the outputs of {stored} of {len(images)} images take an attack's change back, and not "
                "where they cannot be known"
            )


def _led(trial: TrialAttacks, attacked: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, str]]:
    """Yield where an attack has led, and for each image a place on the way, drawn anew; and say so."""
    for moved in attacked:
        yield moved, ", where an attack along it has led"
        way = torch.tensor([secrets.SystemRandom().random() for _ in moved]).to(moved).view(-1, 1, 1, 1)
        yield storable(torch.lerp(trial.images, moved, way)), ", on the way of an attack along it"


def _unequal(defense: Purification, trial: TrialAttacks, seed: int, images: torch.Tensor) -> torch.Tensor:
    """Return by how much the gradient depends on what comes in from behind, float64 ``(N,)``."""
    through, batches = _as_read(defense, trial, defense.build(trial.device)), list[torch.Tensor]()

    def behind(result: torch.Tensor) -> torch.Tensor:
        leaf = result.clone().requires_grad_(True)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(trial.raw(leaf).sum(), leaf)
        return gradient

    for some in _batches(trial, images):
        drawn = ImageRng([secrets.randbelow(2**31) for _ in trial.names[some]], trial.device)
        batches.append(unequal_sums(_with_streams(through, trial, seed, some), images[some], behind, drawn))
    return torch.cat(batches)


def _batches(trial: TrialAttacks, images: torch.Tensor) -> Iterator[slice]:
    for start in range(0, len(images), trial.batch):
        yield slice(start, min(start + trial.batch, len(images)))


def _followed(defense: Purification, trial: TrialAttacks, seed: int, images: torch.Tensor) -> list[Followed]:
    """Follow changes of images through a defense, batch by batch."""
    bare: Purify = defense.build(trial.device)
    fresh: Purify = defense.build(trial.device)
    gradient_version, batches = _as_read(defense, trial, bare), list[Followed]()
    for some in _batches(trial, images):
        followed_batch = follow(
            _with_streams(bare, trial, seed, some),
            _with_streams(gradient_version, trial, seed, some),
            images[some],
            ImageRng([secrets.randbelow(2**31) for _ in trial.names[some]], trial.device),
            own_gradient=defense.info.differentiable,
            fresh=_with_streams(fresh, trial, seed, some),
        )
        batches.append(followed_batch)
    return batches


def _remembered(
    defense: Purification, trial: TrialAttacks, seed: int, images: torch.Tensor, changed: torch.Tensor | None = None
) -> torch.Tensor:
    """Return how much of the detail that a defense shows did not come with each image, float64 ``(N,)``."""
    first, second = (defense.build(trial.device) for _ in range(2))
    undo, batches = defense.inverse(trial.device), list[torch.Tensor]()
    for some in _batches(trial, images):
        drawn = ImageRng([secrets.randbelow(2**31) for _ in trial.names[some]], trial.device)
        purify, fresh = (
            _moved_back(_with_streams(build, trial, seed, some), undo, trial, seed, some) for build in (first, second)
        )
        batches.append(remembered(purify, fresh, images[some], drawn, None if changed is None else changed[some]))
    return torch.cat(batches)


def _moved_back(
    defense: Callable[[torch.Tensor], torch.Tensor], undo: Inverse | None, trial: TrialAttacks, seed: int, some: slice
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a defense that shows pixels where they were."""
    if undo is None:
        return defense
    return lambda images: undo(
        defense(images), tuple(images.shape[1:]), _streams(trial, seed, "followed").slice(some.start, some.stop)
    )


def _with_streams(
    purify: Purify, trial: TrialAttacks, seed: int, some: slice
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a defense of some of the images, which draws the same random numbers at each call."""
    return lambda images: purify(images, _streams(trial, seed, "followed").slice(some.start, some.stop))


def _randomness(defense: Purification, trial: TrialAttacks, purify: Purify, seed: int) -> Iterator[str]:
    first, second = (purify(trial.images, _streams(trial, s, "draws")) for s in (seed, seed + 1))
    varies = first.shape != second.shape or not torch.equal(first, second)
    if defense.info.random and not varies:
        yield "declares itself random, but gives the same result for different random numbers"
    if varies and not defense.info.random:
        yield "declares itself not random, but gives different results for different random numbers"
