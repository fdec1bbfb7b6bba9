"""Audits the gradients of defenses: a stronger attack must gain at least as much as a weaker one, image by image.

Each check has two numbers for each image: the `gain` of the stronger attack, and the `floor`, which is the gain of the
weaker one. A check fails where the gain stays below the floor: the gradient then misleads attacks.

After Athalye, Carlini & Wagner, "Obfuscated Gradients Give a False Sense of Security" (ICML 2018), section 3.1, and
Carlini et al., "On Evaluating Adversarial Robustness" (2019), section 5. The stronger attack is a white-box attack
through the defense. The weaker ones are the same attack with half its steps, an attack by queries alone, an attack made
without the defense, and an attack with the gradient of the identity instead of the defense's own. Two checks are
different: an attack that goes on without a bound from the images of the stronger attack must reach the highest clean
score of the set, as pasting that image would; and for a random defense, twice the draws must not gain more. Scores
beyond the metric's bounds count as the bound. A query is one draw of a random defense.

Two more checks ask a purification itself:

- Random projections: does its gradient say what the purification does? The gain is the cosine of the two
  (`imharness.tracks.follow` says what that costs and finds), the smaller one of that at the clean image and that at the
  attacked image. The floor is the least cosine of an honest gradient.
- Look-up: does it answer with stored pictures? It does if its output stays although the image changes, or if it shows
  detail that did not come with the image. A codec keeps its output, too, but also for an image that it cannot know;
  that does not count. The gain is 0 for an image that was looked up and 1 for another one, and the floor is 1.
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
"""The roles of the black-box attack, and of the purification that does nothing."""
MARGIN = 0.02
"""The smallest difference of gains that counts, as a share of the metric's range."""
PARTS = ("floor", "gain")
"""The two numbers of a check."""
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
    images, many_steps, samples = _audited(context), _longer(context), int(context.options["samples"])
    few_steps, search, metric = (context.component(role) for role in ("attack", SEARCH, "metric"))
    transferred = stored_images(images, context.need("unaware"))
    purifies, whose = TUNED not in context.roles, gradient(context)
    lower, upper = metric.bounds

    def scored(positions: list[int], batch: torch.Tensor) -> torch.Tensor:
        """Return the defended scores ``(N,)``, higher is better, in units of the metric's range."""
        score = context.build(scorer(context))(purified(context, images, positions, batch))
        return metric.closeness * score.clamp(lower, upper) / (upper - lower)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names, clean = names_of(images, positions), scored(positions, batch)
        defended = {"defense": "defense"} if purifies else {}
        options = {"stand_in": STAND_IN if STAND_IN in context.roles else None, "samples": samples, **defended}

        def attacked(start: torch.Tensor, attack: BaseAttack, metric: str, role: str = "attack", **through):
            """Return attacked images; `metric`, `role`: the roles of metric and attack, `through`: see `target`."""
            target = context.target(metric, names, attack=role, counted=False, **through)
            perturbed = context.build(attack)(start, target, context.rng(names, "attack", attack.label))
            return perturbed.mul(255).round() / 255

        def gain(*attack, **through) -> torch.Tensor:
            """Return how much an attack on the clean images raises the defended scores ``(N,)``."""
            return scored(positions, attacked(batch, *attack, **through)) - clean

        role = scorer(context)
        near = attacked(batch, many_steps, role, **options)
        far = attacked(near, many_steps.with_parameters(radius=1.0), role, **options)
        weak, strong = gain(few_steps, role, **options), scored(positions, near) - clean
        by_queries = gain(search, role, SEARCH, **{**options, "samples": 1})
        check_pairs = {  # check -> floor and gain
            "more steps": (weak, strong),
            "black box": (by_queries, strong),
            "transferred images": (scored(positions, transferred(positions).to(batch.device)) - clean, strong),
            UNBOUNDED: (clean, scored(positions, far) - clean),
        }
        if purifies:
            check_pairs |= _projected(context, names, batch, near)
        if purifies and whose != "identity":
            check_pairs["identity gradient"] = (gain(few_steps, role, **{**options, "stand_in": IDENTITY}), strong)
        if purifies and context.component("defense").info.random:
            check_pairs["more samples"] = (gain(few_steps, role, **{**options, "samples": 2 * samples}), weak)
        return {
            f"{check}/{column}": numbers
            for check, pair in check_pairs.items()
            for column, numbers in zip(PARTS, pair, strict=True)
        }

    results = context.map(images, measure)
    clean_scores = results[f"{UNBOUNDED}/{PARTS[0]}"]  # until here; now what reaching the highest of them would gain
    clean_scores[:] = clean_scores.max() - clean_scores
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
    """Return floor and gain of the checks that ask the purification itself, each ``(N,)``, by check.

    Both the defense and a second build of it draw the same random numbers at each call; the second build has not seen
    the images that the first one was asked about.
    """
    defense = context.component("defense")
    as_attacked = context.as_attacked("defense", stand_in=STAND_IN if STAND_IN in context.roles else None)
    second_build, differentiable = defense.build(context.device), defense.info.differentiable

    def shown(images: torch.Tensor) -> torch.Tensor:
        return as_attacked(images, context.rng(names, "target"))

    def fresh(images: torch.Tensor) -> torch.Tensor:
        return second_build(images, context.rng(names, "target"))

    at_clean, at_attacked = (
        follow(shown, shown, images, context.rng(names, purpose), own_gradient=differentiable, fresh=fresh)
        for images, purpose in ((batch, "changes"), (attacked, "changes of attacked images"))
    )
    misled = torch.maximum(at_clean.misled, at_attacked.misled)  # floor minus cosine, the worse of both
    with torch.no_grad():
        clean_output, attacked_output = shown(batch), shown(attacked)
        input_changed = (attacked != batch).flatten(1).any(dim=1)
        output_changed = (attacked_output != clean_output).flatten(1).any(dim=1)
    unanswered = input_changed & ~output_changed
    if unanswered.any():
        let_through = elsewhere(shown, fresh, batch, attacked, context.rng(names, "elsewhere")) > TAKEN_BACK
        unanswered &= let_through.to(unanswered.device)  # takes the change back only where it knows the image
    builds = (_moved_back(context, build, names) for build in (shown, fresh))
    stored_detail = remembered(*builds, batch, context.rng(names, "detail"))
    answered = ~at_clean.looked_up & ~at_attacked.looked_up & ~unanswered.to(at_clean.answer.device)
    answered &= (stored_detail <= REMEMBERED).to(answered.device)
    return {
        PROJECTIONS: (at_clean.least, at_clean.least - misled),
        LOOK_UP: (torch.ones_like(at_clean.answer), answered.double()),
    }


def _moved_back(
    context: StepContext, defense: Callable[[torch.Tensor], torch.Tensor], names: list[str]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a defense followed by its inverse, such as the rotation back; as it is if it declares no inverse."""
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
    """Return the checks that each defense fails, by the label of the defense; its robustness is then an upper bound.

    A check fails when the gain is below the floor: by more than `MARGIN` on average over photographs, and significantly
    so by the signed-rank test over photographs at `ALPHA`, which needs at least `FEWEST` of them. Controls, such as a
    flat image, never fail the check for look-ups.
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
