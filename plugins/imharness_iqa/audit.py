"""Audits the gradients of defenses: attacks of which one must not do better than another are compared by image.

After Athalye, Carlini & Wagner, "Obfuscated Gradients Give a False Sense of Security" (ICML 2018), section 3.1, and
Carlini et al., "On Evaluating Adversarial Robustness" (2019), section 5. A white-box attack through the defense is
compared with attacks that must not do better: one with half its steps, one by queries alone, one made without the
defense, and one with the gradient of the identity instead of the defense's own. An attack that goes on from there
without a bound must gain at least as much as pasting another image of the set. If the defense is random, twice the
draws must not do better. Scores beyond the metric's bounds count as the bound. A query is one draw of a random defense.

A purification's gradient is also compared with the purification itself, at random projections
(`imharness.tracks.follow` says what that costs and finds): its cosine is the gain, and the least cosine of an honest
gradient the floor. What keeps its output although the image changes has looked it up: the gain is 1 for an image of
which changes are answered, and the floor is 1.
"""

import numpy as np
import torch

from imharness.contests import controls_of
from imharness.data import ImageSet
from imharness.images import BaseAttack
from imharness.stats import ALPHA, FEWEST, clusters_greater
from imharness.tracks import Query, StepContext, StepResult, follow, step
from imharness_iqa.apart import photographs_of
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


@step(version="2", shared=True)
def unaware(context: StepContext) -> StepResult:
    """Keep the images of an attack on the metric alone, which the audits of all defenses use."""
    images, attack = _audited(context), _longer(context)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names = names_of(images, positions)
        target = context.target("metric", names, attack="attack", counted=False)
        found = context.build(attack)(batch, target, context.rng(names, "attack", attack.label))
        return {stack_name(batch.shape[2:]): found.mul(255).round().byte()}

    return StepResult(arrays=context.map(images, measure))


@step(version="7", shared=True)
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
        own = {"stand_in": STAND_IN if STAND_IN in context.roles else None, "samples": samples, **defended}

        def attacked(start: torch.Tensor, attack: BaseAttack, metric: str, role: str = "attack", **through):
            target = context.target(metric, names, attack=role, counted=False, **through)
            found = context.build(attack)(start, target, context.rng(names, "attack", attack.label))
            return found.mul(255).round() / 255

        def gain(*attack, **through) -> torch.Tensor:
            return scored(positions, attacked(batch, *attack, **through)) - clean

        role = scorer(context)
        near = attacked(batch, many, role, **own)
        far = attacked(near, many.with_parameters(radius=1.0), role, **own)
        weak, strong = gain(few, role, **own), scored(positions, near) - clean
        found = {
            "more steps": (weak, strong),
            "black box": (gain(search, role, SEARCH, **{**own, "samples": 1}), strong),
            "transferred images": (scored(positions, transferred(positions).to(batch.device)) - clean, strong),
            UNBOUNDED: (clean, scored(positions, far) - clean),
        }
        if purifies:
            found |= _projected(context, names, batch, near)
        if purifies and whose != "identity":
            found["identity gradient"] = (gain(few, role, **{**own, "stand_in": IDENTITY}), strong)
        if purifies and context.component("defense").info.random:
            found["more samples"] = (gain(few, role, **{**own, "samples": 2 * samples}), weak)
        return {f"{check}/{part}": n for check, pair in found.items() for part, n in zip(PARTS, pair, strict=True)}

    found = context.map(images, measure)
    floor = found[f"{UNBOUNDED}/{PARTS[0]}"]
    floor[:] = floor.max() - floor  # an attack without a radius must reach at least the highest clean score
    checks = list(dict.fromkeys(name.partition("/")[0] for name in found))
    facts = {
        "name": list(images.names) * len(checks),
        "photograph": photographs_of(images) * len(checks),
        "check": [check for check in checks for _ in images.names],
        "gradient": [whose] * (len(checks) * len(images)),
    }
    return StepResult(
        rows={**facts, **{part: np.concatenate([found[f"{check}/{part}"] for check in checks]) for part in PARTS}}
    )


def _projected(
    context: StepContext, names: list[str], batch: torch.Tensor, attacked: torch.Tensor
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Follow changes of images through the defense: the floors and gains of two checks."""
    through = context.as_attacked("defense", stand_in=STAND_IN if STAND_IN in context.roles else None)

    def shown(images: torch.Tensor) -> torch.Tensor:
        return through(images, context.rng(names, "target"))

    own = context.component("defense").info.differentiable
    found = follow(shown, shown, batch, context.rng(names, "changes"), own=own)
    with torch.no_grad():
        moved, kept = ((b != a).flatten(1).any(dim=1) for a, b in ((batch, attacked), (shown(batch), shown(attacked))))
    answered = ~found.looked_up & (kept | ~moved).to(found.answer.device)
    return {
        PROJECTIONS: (found.least, found.least - found.misled),
        LOOK_UP: (torch.ones_like(found.answer), answered.double()),
    }


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
    found: dict[str, tuple[str, ...]] = {}
    controls = controls_of(query, "defense")
    for label, check in dict.fromkeys(zip(rows["defense"], rows["check"], strict=True)):
        if check == LOOK_UP and label in controls:
            continue
        lost = rows["lost"][(rows["defense"] == label) & (rows["check"] == check)]
        if len(lost) >= FEWEST and lost.mean() > MARGIN and clusters_greater(lost)[0] < ALPHA:
            found[label] = (*found.get(label, ()), check)
    return found
