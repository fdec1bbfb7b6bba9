"""Audits the gradients of defenses: attacks of which one must not do better than another are compared by image.

After Athalye, Carlini & Wagner, "Obfuscated Gradients Give a False Sense of Security" (ICML 2018), section 3.1, and
Carlini et al., "On Evaluating Adversarial Robustness" (2019), section 5. A white-box attack through the defense is
compared with attacks that must not do better: one with half its steps, one by queries alone, one made without the
defense, and one with the gradient of the identity instead of the defense's own. An attack that goes on from there
without a bound must gain at least as much as pasting another image of the set. If the defense is random, twice the
draws must not do better. Scores beyond the metric's bounds count as the bound. A query is one draw of a random defense.

A purification's gradient is also compared with the purification itself, at random projections
(`imharness.tracks.follow` says what that costs and finds), on clean images and where an attack along it has led: the
lesser cosine is the gain, and the least cosine of an honest gradient the floor. What keeps its output although the
image changes has looked it up, unless it does so where it cannot know the image, too, as a codec does; and so has what
shows detail that did not come with the image. The gain is 1 for an image of which neither holds, and the floor is 1.
"""

from collections.abc import Callable

import numpy as np
import torch

from imharness.data import ImageSet
from imharness.images import BaseAttack
from imharness.leaderboard import ALPHA, FEWEST, clusters_greater, controls_of
from imharness.tracks import REMEMBERED, TAKEN_BACK, Query, StepContext, StepResult, elsewhere, follow, remembered, step
from imharness_iqa.disjoint import photographs_of
from imharness_iqa.sampling import spread_over
from imharness_iqa.steps import (
    STAND_IN,
    TUNED,
    gradient,
    names_of,
    purified,
    scorer,
    stack_name,
    stored_images,
)

SEARCH, IDENTITY = "search", "identity"
"""The roles of the black-box attack and of the purification that does nothing."""
MARGIN = 0.02
"""The smallest difference of gains that counts, as a share of the metric's range."""
PARTS = ("floor", "gain")
UNBOUNDED, PROJECTIONS, LOOK_UP = "unbounded radius", "random projections", "look-up"


@step(version="2", shared=True, doing="attacking {metric} for the audits of defenses")
def unaware(context: StepContext) -> StepResult:
    """Keep the images of an attack on the metric alone, which the audits of all defenses use."""
    images, attack = _audited(context), _longer(context)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names = names_of(images, positions)
        target = context.target("metric", names, attack="attack", counted=False)
        perturbed = context.build(attack)(batch, target, context.rng(names, "attack", attack.label))
        return {stack_name(batch.shape[2:]): perturbed.mul(255).round().byte()}

    return StepResult(arrays=context.map(images, measure))


@step(version="10", shared=True, doing="auditing the gradient of {defense}")
def audit(context: StepContext) -> StepResult:
    """Return for each check and image an attack's gain and the floor for it, as shares of the metric's range."""
    images, many, samples = _audited(context), _longer(context), int(context.options["samples"])
    few, search, metric = (context.component(role) for role in ("attack", SEARCH, "metric"))
    transferred = stored_images(images, context.need("unaware"))
    purifies, whose = TUNED not in context.roles, gradient(context)
    lower, upper = metric.bounds

    def scored(positions: list[int], batch: torch.Tensor) -> torch.Tensor:
        score = context.build(scorer(context))(purified(context, images, positions, batch))
        return metric.closeness * score.clamp(lower, upper) / (upper - lower)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names, clean = names_of(images, positions), scored(positions, batch)
        defended = {"defense": "defense"} if purifies else {}
        options = {"stand_in": STAND_IN if STAND_IN in context.roles else None, "samples": samples, **defended}

        def attacked(start: torch.Tensor, attack: BaseAttack, metric: str, role: str = "attack", **through):
            target = context.target(metric, names, attack=role, counted=False, **through)
            perturbed = context.build(attack)(start, target, context.rng(names, "attack", attack.label))
            return perturbed.mul(255).round() / 255

        def gain(*attack, **through) -> torch.Tensor:
            return scored(positions, attacked(batch, *attack, **through)) - clean

        role = scorer(context)
        near = attacked(batch, many, role, **options)
        far = attacked(near, many.with_parameters(radius=1.0), role, **options)
        weak, strong = gain(few, role, **options), scored(positions, near) - clean
        check_pairs = {
            "more steps": (weak, strong),
            "black box": (gain(search, role, SEARCH, **{**options, "samples": 1}), strong),
            "transferred images": (scored(positions, transferred(positions).to(batch.device)) - clean, strong),
            UNBOUNDED: (clean, scored(positions, far) - clean),
        }
        if purifies:
            check_pairs |= _projected(context, names, batch, near)
        if purifies and whose != "identity":
            check_pairs["identity gradient"] = (gain(few, role, **{**options, "stand_in": IDENTITY}), strong)
        if purifies and context.component("defense").info.random:
            check_pairs["more samples"] = (gain(few, role, **{**options, "samples": 2 * samples}), weak)
        return {
            f"{check}/{column}": n for check, pair in check_pairs.items() for column, n in zip(PARTS, pair, strict=True)
        }

    results = context.map(images, measure)
    floor = results[f"{UNBOUNDED}/{PARTS[0]}"]
    floor[:] = floor.max() - floor  # an attack without a radius must reach at least the highest clean score
    checks = list(dict.fromkeys(name.partition("/")[0] for name in results))
    facts = {
        "name": list(images.names) * len(checks),
        "photograph": photographs_of(images) * len(checks),
        "check": [check for check in checks for _ in images.names],
        "gradient": [whose] * (len(checks) * len(images)),
    }
    return StepResult(
        rows={
            **facts,
            **{column: np.concatenate([results[f"{check}/{column}"] for check in checks]) for column in PARTS},
        }
    )


def _projected(
    context: StepContext, names: list[str], batch: torch.Tensor, attacked: torch.Tensor
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Follow changes of images through the defense: the floors and gains of two checks."""
    through = context.as_attacked("defense", stand_in=STAND_IN if STAND_IN in context.roles else None)

    def shown(images: torch.Tensor) -> torch.Tensor:
        return through(images, context.rng(names, "target"))

    def fresh(images: torch.Tensor) -> torch.Tensor:
        return anew(images, context.rng(names, "target"))

    defense = context.component("defense")
    anew, differentiable = defense.build(context.device), defense.info.differentiable
    clean, moved_on = (
        follow(shown, shown, images, context.rng(names, purpose), own_gradient=differentiable, fresh=fresh)
        for images, purpose in ((batch, "changes"), (attacked, "changes of attacked images"))
    )
    misled = torch.maximum(clean.misled, moved_on.misled)
    with torch.no_grad():
        moved, other = ((b != a).flatten(1).any(dim=1) for a, b in ((batch, attacked), (shown(batch), shown(attacked))))
    unanswered = moved & ~other
    if unanswered.any():
        taken_back = elsewhere(shown, fresh, batch, attacked, context.rng(names, "elsewhere")) > TAKEN_BACK
        unanswered &= taken_back.to(unanswered.device)
    stored = remembered(*(_moved_back(context, f, names) for f in (shown, fresh)), batch, context.rng(names, "detail"))
    answered = ~clean.looked_up & ~moved_on.looked_up & ~unanswered.to(clean.answer.device)
    answered &= (stored <= REMEMBERED).to(answered.device)
    return {
        PROJECTIONS: (clean.least, clean.least - misled),
        LOOK_UP: (torch.ones_like(clean.answer), answered.double()),
    }


def _moved_back(
    context: StepContext, defense: Callable[[torch.Tensor], torch.Tensor], names: list[str]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a defense that shows pixels where they were."""
    undo = context.build("defense", method="inverse")
    if undo is None:
        return defense
    return lambda images: undo(defense(images), tuple(images.shape[1:]), context.rng(names, "target"))


def _audited(context: StepContext) -> ImageSet:
    """Return the images of an audit, equally many of each photograph."""
    images = context.images()
    return images.at(spread_over(photographs_of(images), images.names, int(context.options["images"])))


def _longer(context: StepContext) -> BaseAttack:
    """Return the attack with twice its steps."""
    attack = context.component("attack")
    return attack.with_parameters(steps=2 * attack.steps)


def flags(query: Query) -> dict[str, tuple[str, ...]]:
    """Return the checks that each defense fails, by its label; its numbers are upper bounds of its robustness.

    A control is not a look-up, whatever it answers.

    A check fails when its attack gains less than the floor: by more than `MARGIN` on average over photographs, and
    significantly so by the signed-rank test over photographs at `ALPHA`, which needs at least `FEWEST` of them.
    """
    if "audit" not in query.steps:
        return {}
    rows = query(
        'SELECT defense, "check", dataset || photograph AS photograph, avg(floor - gain) AS lost FROM audit '
        "GROUP BY ALL ORDER BY ALL"
    )
    checks_by_label: dict[str, tuple[str, ...]] = {}
    controls = controls_of(query, "defense")
    for label, check in dict.fromkeys(zip(rows["defense"], rows["check"], strict=True)):
        if check == LOOK_UP and label in controls:
            continue
        lost = rows["lost"][(rows["defense"] == label) & (rows["check"] == check)]
        if len(lost) >= FEWEST and lost.mean() > MARGIN and clusters_greater(lost)[0] < ALPHA:
            checks_by_label[label] = (*checks_by_label.get(label, ()), check)
    return checks_by_label
