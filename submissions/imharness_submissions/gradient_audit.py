"""Tests whether the gradients of a submitted defense mislead attacks.

A defense with misleading gradients looks strong against an attack that follows them (Athalye et al., "Obfuscated
gradients give a false sense of security", 2018). The *gradient that attacks read* is the defense's own; where it has
none, it is that of the stand-in that the defense names, or else the identity. There are four tests:

1. *Four ways of attacking* (`examine`): with the gradient that attacks read, with the identity in the backward pass
   (BPDA, section 4.1 of the paper), by queries alone, and with images that were attacked without the defense. A defense
   is flagged if another way changes the score by significantly more than the gradient that attacks read does.
2. *Scores behind the defense* (`_does_not_foretell`): the defense's own gradient is flagged if it neither predicts how
   scores change nor leads attacks farther than attacks that do not use it.
3. *The defense itself* (`unfollowed`): a defense that moves pixels, but whose gradient does not, withstands all four
   ways. So the gradient is compared with what the defense does to small changes of images, see
   `imharness.running.projections`: on clean images, on images that an attack has changed along that gradient, and
   on images between the two. Look-ups are found by the same trials, see `imharness.running.look_ups`.
4. *Randomness* (`_randomness`): the defense has to be random if and only if it says so.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeGuard, cast

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
"""The most images on which a defense is tried."""
MARGIN = 0.05
"""A difference of gains counts only if it is at least this share of the metric's range."""
LEVEL = 0.05
"""The level of significance of comparisons of gains."""
FORETOLD = 0.5
"""The least cosine of slopes that an honest gradient promises with those of the scores behind the defense. It is asked
only of defenses whose gradient leads attacks no farther than attacks without it; honest ones among these, such as
`random-noise` and `crop`, reach 0.8."""
OWN, BPDA, QUERIES, TRANSFER = "its own gradient", "identity backward (BPDA)", "queries alone", "transferred images"
"""Ways of attacking a defense, as they are named in reports; `STAND_IN` takes the place of `OWN`."""
STAND_IN = "the gradient of its stand-in"


class TrialAttacks:
    """The metric, attacks and photographs on which a defense is tried.

    They come from the first track of the profile that selects all of these; `HarnessError` is raised without one. The
    metric, the data set and the photographs are drawn anew for each run, so that no defense can recognise the trial and
    be honest there alone.

    Attributes:
        metric: a differentiable no-reference metric.
        score, raw: the built metric; `score` checks what it returns, `raw` does not.
        white, black: the first two attacks in the L-inf norm that read gradients, and the first two that use queries.
        images: the photographs, float32 ``(N, 3, H, W)`` in [0, 1]; `names`: their names.
        batch: how many images a call has; drawn, so that a defense cannot recognise calls of the trial by it.
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


def _drawn(data: ImageSet) -> list[int]:
    """Return the positions of random images of one shape: `IMAGES` of them, or fewer if no shape has as many."""
    counts = Counter(data.shapes)
    most = min(IMAGES, max(counts.values()))
    first = secrets.choice([p for p, shape in enumerate(data.shapes) if counts[shape] >= most])
    alike = [p for p, shape in enumerate(data.shapes) if shape == data.shapes[first]]
    return secrets.SystemRandom().sample(alike, most)


def chosen_by(registry: Registry, track_profile: TrackProfile) -> list[Component]:
    """Return the components, except submitted ones, that a profile selects for a track and that can run here."""
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
    """Return whether a component is a metric that attacks can follow: no-reference, differentiable, with bounds."""
    return (
        isinstance(component, NoReferenceMetric) and component.info.differentiable and component.info.bounds is not None
    )


def _complete(chosen: Sequence[Component]) -> bool:
    """Return whether a purification can be tried with these components."""
    needed = (Attack, ImageDataset, Purification)
    return any(map(_attackable, chosen)) and all(any(isinstance(c, n) for c in chosen) for n in needed)


def examine(defense: Purification, trial: TrialAttacks, seed: int) -> GradientAudit:
    """Attack a defense in every way, and return the gains of all attacks and the reasons to flag the defense.

    Raises `ContractError` where a score after an attack is not finite.
    """
    purify: Purify = checked(defense, defense.build(trial.device))
    bare: Purify = defense.build(trial.device)
    read = _read(defense)
    results: list[_Attacked] = []
    attacked_with_read = list[torch.Tensor]()
    for way, attack, through in _ways(defense, trial, bare):
        target = _target(trial, attack, through, seed)
        perturb = checked(attack, attack.build(trial.device))
        attacked = storable(perturb(trial.images, target, _streams(trial, seed, "attack")))
        if way == read:
            attacked_with_read.append(attacked)
        results.append(_Attacked(way, attack.label, _gain(trial, purify, attacked, seed)))
    for result in results:
        if not np.isfinite(result.gain).all():
            raise ContractError(f"the score after {result.attack} with {result.way} is not a finite number")
    best = _largest([result.gain for result in results if result.way == read])
    gains = tuple(
        Gain(
            way=result.way,
            attack=result.attack,
            gain=float(result.gain.mean()),
            higher=result.way != read and _more(result.gain, best),
        )
        for result in results
    )
    return GradientAudit(
        component=defense.label,
        metric=trial.metric.label,
        images=len(trial.names),
        gains=gains,
        flags=(
            *_masked(gains, read),
            *_does_not_foretell(defense, trial, seed, results),
            *unfollowed(defense, trial, seed, attacked_with_read[:1]),
            *_randomness(defense, trial, purify, seed),
        ),
    )


class _Attacked(NamedTuple):
    """An attack on the defense: its way, such as `BPDA`, its label, and the gain of each image ``(images,)``."""

    way: str
    attack: str
    gain: npt.NDArray[np.float64]


def _read(defense: Purification) -> str:
    """Return the gradient that attacks on a defense read: `OWN`, `STAND_IN` or `BPDA`."""
    return OWN if defense.info.differentiable else STAND_IN if defense.info.stand_in else BPDA


def _as_read(defense: Purification, trial: TrialAttacks, bare: Purify) -> Purify:
    """Return the defense with the gradient that attacks read. `bare`: the built defense."""
    return bare if defense.info.differentiable else straight_through(bare, _stand_in(defense, trial))


def _ways(defense: Purification, trial: TrialAttacks, bare: Purify) -> Iterator[tuple[str, Attack, Purify | None]]:
    """Yield each way, an attack, and the defense as the attack sees it; None where the attack sees the metric alone."""
    for attack in trial.white:
        if _read(defense) != BPDA:
            yield _read(defense), attack, _as_read(defense, trial, bare)
        yield BPDA, attack, straight_through(bare)
        yield TRANSFER, attack, None
    for attack in trial.black:
        yield QUERIES, attack, bare


def _stand_in(defense: Purification, trial: TrialAttacks) -> Purify | None:
    """Return the built stand-in of a defense that names one, or None; fields that both have are set alike."""
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
    """Return the random streams of the images for one purpose; equal arguments give equal streams."""
    return ImageRng([derive_seed(seed, "honesty", purpose, name) for name in trial.names], trial.device)


def _gain(trial: TrialAttacks, purify: Purify, attacked: torch.Tensor, seed: int) -> npt.NDArray[np.float64]:
    """Return c (f(D(x')) - f(D(x))) / (upper - lower) of each image ``(images,)``; c: `closeness`, 1 or -1."""
    lower, upper = trial.metric.bounds
    scores = [trial.score(purify(batch, _streams(trial, seed, "shown"))) for batch in (attacked, trial.images)]
    change = trial.metric.closeness * (scores[0] - scores[1]) / (upper - lower)
    return change.double().cpu().numpy()  # type: ignore[no-any-return]


def _largest(gains: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64] | None:
    """Return the gains ``(images,)`` with the largest mean; None without any."""
    return max(gains, key=lambda gain: float(gain.mean()), default=None)


def _more(gain: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64] | None) -> bool:
    """Return whether gains ``(images,)`` are larger than others by `MARGIN` in the mean, and significantly."""
    if baseline is None or float(gain.mean() - baseline.mean()) < MARGIN:
        return False
    return bool(wilcoxon_greater(gain - baseline)[0] < LEVEL)


def _masked(gains: Sequence[Gain], read: str) -> Iterator[str]:
    """Flag a defense where another way changes the score by more than the gradient that attacks read does."""
    higher = [gain for gain in gains if gain.higher]
    if higher:
        highest = max(higher, key=lambda gain: gain.gain)
        best_read = max((gain for gain in gains if gain.way == read), key=lambda gain: gain.gain)
        yield (
            f"misleading gradients: {highest.attack} with {highest.way} moves the score by {highest.gain:.3f} of its "
            f"range, {best_read.way} only by {best_read.gain:.3f}"
        )


def _does_not_foretell(
    defense: Purification, trial: TrialAttacks, seed: int, results: Sequence[_Attacked]
) -> Iterator[str]:
    """Flag a gradient of the defense's own that neither predicts scores nor leads attacks farther than others.

    Such a defense may compute a score of the image itself, and write it where the metric reads it, without a gradient
    of that score. The other attacks are those that do not use the gradient: transferred images and queries. Both
    conditions are needed: soft rounding predicts scores no better, but attacks along its gradient do get farther.
    """
    own_gain = _largest([result.gain for result in results if result.way == OWN])
    if own_gain is None:
        return
    as_far = [
        result.way
        for result in results
        if result.way in (QUERIES, TRANSFER) and not wilcoxon_greater(own_gain - result.gain)[0] < LEVEL
    ]
    if not as_far:
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
            f"misleading gradients: it leads attacks no further than {as_far[0]}, and along random changes of one "
            f"level of 8 bits its slopes and those of the scores behind it have a cosine of {cosine:.2f}: "
            "something that the metric reads has no gradient"
        )


def unfollowed(
    defense: Purification, trial: TrialAttacks, seed: int, attacked: Sequence[torch.Tensor] = ()
) -> Iterator[str]:
    """Flag a defense whose gradient is not that of the defense, or which looks images up.

    `imharness.running.projections` says how gradients are compared. A defense counts as a look-up if the outputs of
    half of the images hardly change with the images, or show detail that did not come from the images.

    Args:
        defense, trial, seed: as for `examine`.
        attacked: what attacks along the gradient have made of the images, in the shape of the trial's images each. A
            defense may recognise such images, or those between them and the clean ones, and mislead attacks there
            alone. The changes that the attacks made are tried, too.
    """
    for images, where in ((trial.images, ""), *_along_attacks(trial, attacked)):
        followed = _followed(defense, trial, seed, images)
        misled = torch.cat([batch.misled for batch in followed])
        lookup_mask = torch.cat([batch.looked_up for batch in followed])
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


def _along_attacks(trial: TrialAttacks, attacked: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, str]]:
    """Yield attacked images, and images between the clean and the attacked ones, with words that say where they are.

    How far each image between them is from the clean one is drawn.
    """
    for end in attacked:
        yield end, ", where an attack along it has led"
        share = torch.tensor([secrets.SystemRandom().random() for _ in end]).to(end).view(-1, 1, 1, 1)
        yield storable(torch.lerp(trial.images, end, share)), ", on the way of an attack along it"


def _unequal(defense: Purification, trial: TrialAttacks, seed: int, images: torch.Tensor) -> torch.Tensor:
    """Return `unequal_sums` of the gradient that attacks read, for the gradient of the metric, float64 ``(N,)``."""
    through, batches = _as_read(defense, trial, defense.build(trial.device)), list[torch.Tensor]()

    def behind(result: torch.Tensor) -> torch.Tensor:
        """Return the gradient of the metric at outputs of the defense."""
        leaf = result.clone().requires_grad_(True)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(trial.raw(leaf).sum(), leaf)
        return gradient

    for some in _batches(trial, images):
        drawn = ImageRng([secrets.randbelow(2**31) for _ in trial.names[some]], trial.device)
        batches.append(unequal_sums(_with_streams(through, trial, seed, some), images[some], behind, drawn))
    return torch.cat(batches)


def _batches(trial: TrialAttacks, images: torch.Tensor) -> Iterator[slice]:
    """Yield the positions of the images of each call."""
    for start in range(0, len(images), trial.batch):
        yield slice(start, min(start + trial.batch, len(images)))


def _followed(defense: Purification, trial: TrialAttacks, seed: int, images: torch.Tensor) -> list[Followed]:
    """Return the results of `follow`, batch by batch."""
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
    """Return `remembered` for a defense: the share of detail in its outputs that is not the image's, ``(N,)``."""
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
    """Return a defense followed by its inverse, so that pixels are where they were; `undo` is None without one."""
    if undo is None:
        return defense
    return lambda images: undo(
        defense(images), tuple(images.shape[1:]), _streams(trial, seed, "followed").slice(some.start, some.stop)
    )


def _with_streams(
    purify: Purify, trial: TrialAttacks, seed: int, some: slice
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the defense of some of the images as a function of images; it draws the same random numbers each time."""
    return lambda images: purify(images, _streams(trial, seed, "followed").slice(some.start, some.stop))


def _randomness(defense: Purification, trial: TrialAttacks, purify: Purify, seed: int) -> Iterator[str]:
    """Flag a defense that is random and does not say so, or that says so and is not."""
    first, second = (purify(trial.images, _streams(trial, s, "draws")) for s in (seed, seed + 1))
    varies = first.shape != second.shape or not torch.equal(first, second)
    if defense.info.random and not varies:
        yield "declares itself random, but gives the same result for different random numbers"
    if varies and not defense.info.random:
        yield "declares itself not random, but gives different results for different random numbers"
