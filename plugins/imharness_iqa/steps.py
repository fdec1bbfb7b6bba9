"""The steps of the track: what its tasks compute for each image."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from imharness.data import ImageSet
from imharness.images import (
    BaseAttack,
    FittedAttack,
    ImageRng,
    Perturb,
    Purification,
    Target,
)
from imharness.tracks import TAKEN_BACK, Output, StepContext, StepResult, answered, as_large, elsewhere, step
from imharness_iqa.disjoint import apart, photographs_of
from imharness_iqa.opinions import said_of_opinions
from imharness_iqa.references import Scored, attacked_with, check_alike, references, scored, threat
from imharness_iqa.rescaling import RescaledTarget, Rescaling
from imharness_iqa.sampling import colourfulness, spatial_information

CALIBRATED = "calibrated"
"""The name of the need, and of the option, of attacks whose strength the step `calibrate` finds."""
TUNED = "tuned"
"""The role of the metric with the weights of a training defense."""
STACK = "images-"
"""The prefix of the names of image stacks; the size of the data set's images follows."""
STAND_IN = "stand_in"
"""The role of the purification whose gradient an attack uses instead of the defense's."""


@step(version="5", doing="scoring {count}photographs with {metric}")
def clean(context: StepContext) -> StepResult:
    """Score every image, f(x), and measure the features by which subsets are drawn."""
    images, metric = context.images(), context.build("metric")

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"score": metric(batch), "si": spatial_information(batch), "cf": colourfulness(batch)}

    measured = context.map(images, measure)
    component = context.component("metric")
    better, mos = component.closeness * measured["score"], images.columns["mos"]
    if sentence := said_of_opinions(component.label, context.component("dataset").label, better, mos):
        warnings.warn(sentence, stacklevel=1)
    lower, upper = component.bounds
    facts = {
        "photograph": photographs_of(images),
        "sign": np.full(len(images), component.closeness),
        "lower": np.full(len(images), lower),
        "upper": np.full(len(images), upper),
        "labelled": [component.info.labelled] * len(images),
        "proxy": [images.proxy] * len(images),
    }
    return StepResult(rows={"name": list(images.names), "mos": images.columns["mos"], **facts, **measured})


@step(version="3", shared=True, doing="scoring {count}photographs behind {defense}[ with {metric}]")
def defended(context: StepContext) -> StepResult:
    """Score every defended image: f(D(x))."""
    images = context.images()
    score, clean = scoring(context, images), _clean(context, images)
    measured = context.map(images, lambda positions, batch: {"score": score(positions, clean(positions, batch))})
    trained = [TUNED in context.roles] * len(images)
    return StepResult(rows={"name": list(images.names), "trained": trained, **measured})


@step(version="5", doing="passing {count}photographs through {defense}")
def purify(context: StepContext) -> StepResult:
    """Store the defended clean images, D(x); measure their distances from x (`_compared`), and how long D takes."""
    images, defense = context.images(), context.build("defense")

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        cleaned = purified(context, images, positions, batch)
        return {stack_name(batch.shape[2:]): cleaned, **_compared(context, images, positions, cleaned, batch)}

    def timed(batch: torch.Tensor) -> torch.Tensor:
        return defense(batch, context.rng(images.names[: len(batch)], "timing"))

    component: Purification = context.component("defense")
    kind = {"group": [component.info.group] * len(images), "entry": [component.without_grid().label] * len(images)}
    measured, stacks = _apart_from_stacks(context.map(images, measure))
    rows = {"name": list(images.names), **kind, **measured}
    return StepResult(rows=rows, arrays=stacks, facts={"ms": context.time_per_image(timed, images)})


@step(version="4", doing="training {attack}")
def fit(context: StepContext) -> StepResult:
    """Train the part of an attack that serves all images, on images on which it will not be tested.

    A run that is limited to some images of each data set trains on that many.
    """
    tested = [context.images(role, limited=False) for role in context.measures("tested").values()]
    most = min(int(context.options["fit_images"]), len(context.images()))
    images = apart(context.images(limited=False), tested, "fit_dataset").first(most)
    pixels = images.load(list(range(len(images)))).to(context.device)
    train, compared = context.build("attack", method="fit"), attacked_with(context, images, range(len(images)))
    target = target_of(context, ["training"], counted=False, training=True, **compared)
    tensors = train(pixels, target, context.generator("fit"), context.progress)
    rows = {"threat": [threat(images)]} if compared else {}
    return StepResult(rows=rows, arrays={name: tensor.cpu().numpy() for name, tensor in tensors.items()})


@step(version="5", shared=True, doing="attacking {count}photographs with {attack}[ on {metric}][ behind {defense}]")
def attack(context: StepContext) -> StepResult:
    """Attack every image; the result is rounded to 8 bits before anything reads it."""
    images, component = context.images(), at_strength(context)
    perturb, score = built(context, component, images), scored(context, images)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names = names_of(images, positions)
        target = target_of(context, names, **attacked_with(context, images, positions))
        attacked = perturb(batch, target, context.rng(names, "attack", component.label)).mul(255).round().byte()
        rounded = attacked.float() / 255
        return {
            stack_name(batch.shape[2:]): attacked,
            "score": score(positions, rounded),
            "queries": target.queries,
            **distances_of(context, "", rounded, batch),
        }

    measured, stacks = _apart_from_stacks(context.map(images, measure))
    kind = {key: [getattr(component.info, key)] * len(images) for key in ("access", "norm", "distortion")}
    kind["gradient"] = [gradient(context)] * len(images)
    return StepResult(rows={"name": list(images.names), **kind, **measured}, arrays=stacks)


def at_strength(context: StepContext) -> BaseAttack:
    """Return the attack of a task: as it was planned, or at the strength that the step `calibrate` found."""
    component: BaseAttack = context.component("attack")
    if CALIBRATED not in context.options:
        return component
    calibration = context.need(CALIBRATED).rows
    (index,) = np.flatnonzero(calibration["strength"] == context.options["strength"])
    value = float(calibration["value"][index])
    return component.with_parameters(**{str(calibration["field"][index]): int(value) if value.is_integer() else value})


def built(context: StepContext, component: BaseAttack, images: ImageSet) -> Perturb:
    """Return an attack on images; one that has to be trained gets the weights from the step `fit`."""
    if not isinstance(component, FittedAttack):
        return context.build(component)
    fitted = context.need("fitted")
    check_alike(context, images, fitted.rows.get("threat", ()))
    learnt = {name: torch.from_numpy(array) for name, array in fitted.arrays.items()}
    return context.build(component, learnt)


@step(version="4", shared=True, doing="scoring attacked photographs[ behind {defense}][ with {metric}]")
def evaluate(context: StepContext) -> StepResult:
    """Score the defended attacked images, f(D(x')), and compare them with x, x' and D(x).

    `elsewhere`: for images on which D takes the attack back, so that D(x') is nearly D(x), how much of the same change
    it lets through in an image that it cannot know (`imharness.tracks.elsewhere`); NaN for other images.
    """
    images = context.images()
    score, attacked_output = scoring(context, images), context.need("attacked")
    attacked_images, clean = stored_images(images, attacked_output), _clean(context, images)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        attacked = attacked_images(positions).to(batch.device)
        cleaned = purified(context, images, positions, attacked)
        purified_images, shown_clean = as_large(cleaned, batch), as_large(clean(positions, batch), batch)
        compared = _compared(context, images, positions, cleaned, batch)
        if shown_clean is batch:  # a training defense leaves images as they are
            defended = {f"defended_{name}": compared[name] for name in context.measures("distance")}
        else:
            defended = distances_of(context, "defended_", purified_images, shown_clean)
        return {
            "score": score(positions, cleaned),
            **compared,
            **distances_of(context, "attacked_", purified_images, attacked),
            **defended,
            "elsewhere": _elsewhere(context, images, positions, (batch, attacked), (shown_clean, purified_images)),
        }

    measured = context.map(images, measure)
    return StepResult(rows={"name": list(images.names), "gradient": attacked_output.rows["gradient"], **measured})


def _elsewhere(
    context: StepContext,
    images: ImageSet,
    positions: list[int],
    inputs: tuple[torch.Tensor, torch.Tensor],
    outputs: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Return the column `elsewhere` of `evaluate`, float64 ``(N,)``. `inputs`: x and x'; `outputs`: D(x) and D(x')."""
    results = torch.full((len(positions),), torch.nan, dtype=torch.float64)
    changed = (inputs[0] != inputs[1]).flatten(1).any(dim=1).cpu()
    indices = torch.nonzero((answered(*outputs, *inputs) <= TAKEN_BACK) & changed)[:, 0].tolist()
    defense = context.component("defense")
    if not indices or not isinstance(defense, Purification):
        return results
    chosen_positions = [positions[i] for i in indices]
    fresh = defense.build(context.device)
    results[indices] = elsewhere(
        lambda batch: purified(context, images, chosen_positions, batch),
        lambda batch: fresh(batch, _draws(context, images, chosen_positions, "defense")),
        *(x[indices] for x in inputs),
        context.rng(names_of(images, chosen_positions), "elsewhere"),
    )
    return results


@step(version="1", shared=True, doing="attacking {count}photographs with {attack}[ on {metric}][ behind {defense}]")
def attack_compared(context: StepContext) -> StepResult:
    """Attack every image as the step `attack` does, on a full-reference metric; `references` says which way.

    Raises `ContractError` if the metric declares no bounds: what an attack gains is a share of their difference.
    """
    _ = context.component("metric").bounds
    return attack(context)


@step(version="2", shared=True, doing="scoring attacked photographs[ behind {defense}][ with {metric}]")
def evaluate_compared(context: StepContext) -> StepResult:
    """Compare x, D(x), x' and D(x') with the reference, as the step `evaluate` does, and say what x' passes for.

    With f(r, x) for the score of x against its reference r, `source` is f(r, x), `defended` f(r, D(x)) and `score`
    f(r, D(x')). `is_reference`: whether x is its own reference. If x' is to pass for closer to its
    reference, such an x cannot be attacked.
    """
    images, metric = context.images(), context.component("metric")
    plain, score, clean = scored(context, images), scoring(context, images), _clean(context, images)
    evaluation = evaluate(context)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        same = (references(images, positions, batch.device) == batch).flatten(1).all(dim=1)
        defended = score(positions, clean(positions, batch))
        return {"source": plain(positions, batch), "defended": defended, "is_reference": same}

    columns = {
        "photograph": photographs_of(images),
        "mos": images.columns["mos"],
        "threat": [threat(images)] * len(images),
        "sign": np.full(len(images), metric.closeness),
        "lower": np.full(len(images), metric.bounds[0]),
        "upper": np.full(len(images), metric.bounds[1]),
        "proxy": [images.proxy] * len(images),
    }
    return StepResult(rows={**evaluation.rows, **columns, **context.map(images, measure)})


@step(version="1", shared=True, doing="scoring images attacked through {source} behind other defenses")
def transfer(context: StepContext) -> StepResult:
    """Score images that were attacked through one defense behind each other defense."""
    images, metric = context.images(), context.build("metric")
    attacked_images = stored_images(images, context.need("attacked"))
    roles = list(context.measures("shown").values())

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        attacked = attacked_images(positions).to(batch.device)
        return {role: metric(purified(context, images, positions, attacked, role)) for role in roles}

    measured = context.map(images, measure)
    labels = [context.component(role).label for role in roles]
    return StepResult(
        rows={
            "name": list(images.names) * len(roles),
            "defense": [label for label in labels for _ in images.names],
            "score": np.concatenate([measured[role] for role in roles]),
        }
    )


@step(version="1", doing="scoring photographs attacked on {metric} with other metrics")
def transfer_metrics(context: StepContext) -> StepResult:
    """Score images that were attacked on one metric, without a defense, with each other metric; `judge` names it."""
    images = context.images()
    attacked_images = stored_images(images, context.need("attacked"))
    roles = list(context.measures("judges").values())

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        attacked = attacked_images(positions).to(batch.device)
        return {role: context.build(role)(attacked) for role in roles}

    measured = context.map(images, measure)
    labels = [context.component(role).label for role in roles]
    return StepResult(
        rows={
            "name": list(images.names) * len(roles),
            "judge": [label for label in labels for _ in images.names],
            "score": np.concatenate([measured[role] for role in roles]),
        }
    )


@step(version="1", doing="keeping images for the gallery")
def gallery(context: StepContext) -> StepResult:
    """Keep the first images for the gallery, as they are, attacked and defended, each with its score."""
    images, score = context.images(), context.build("metric")
    stored = stored_images(images, context.need("attacked"))
    first = list(range(min(int(context.options["images"]), len(images))))
    rows: dict[str, list] = {"position": first, "name": [images.names[p] for p in first]}
    rows |= {"source": [], "attacked": [], "score": []}
    arrays = {}
    for p in first:
        pictures = {"original": images.load([p]).to(context.device), "attacked": stored([p]).to(context.device)}
        pictures["defended"] = purified(context, images, [p], pictures["attacked"])
        for column, batch in zip(("source", "attacked", "score"), pictures.values(), strict=True):
            rows[column].append(float(score(batch)))
        arrays |= {f"{name}-{p}": batch.mul(255).round().byte().cpu().numpy() for name, batch in pictures.items()}
    return StepResult(rows=rows, arrays=arrays)


def target_of(context: StepContext, names: Sequence[str], **further: Any) -> Target:
    """Return the target of an attack: the metric, or the metric behind a defense that the attack knows.

    `further`: other arguments of `StepContext.target`, such as those of `attacked_with`.
    """
    through = context.component("defense") if context.options["adaptive"] else None
    defense = "defense" if isinstance(through, Purification) else None
    target = context.target(
        scorer(context),
        names,
        attack="attack",
        defense=defense,
        samples=int(context.options["samples"]),
        stand_in=STAND_IN if STAND_IN in context.roles else None,
        **further,
    )
    if not isinstance(through, Rescaling):
        return target
    metric = context.component("metric")
    sign = metric.closeness if further.get("towards", True) else -metric.closeness
    return RescaledTarget(target, through, metric.bounds, sign)


def scoring(context: StepContext, images: ImageSet) -> Scored:
    """Return the function that scores defended images of a set."""
    score, defense = scored(context, images, scorer(context)), context.component("defense")
    if not isinstance(defense, Rescaling):
        return score
    bounds = context.component("metric").bounds
    return lambda positions, batch: defense.rescaled(score(positions, batch), bounds)


def gradient(context: StepContext, role: str = "attack") -> str:
    """Return whose gradient an attack uses: "none" for a black-box attack, else "own" where there is a gradient.

    Through a defense without a gradient it is "identity", or the label of the stand-in that the defense declares.
    """
    if context.component(role).info.access == "black_box":
        return "none"
    if not context.options["adaptive"] or TUNED in context.roles or context.component("defense").info.differentiable:
        return "own"
    return str(context.component(STAND_IN).label) if STAND_IN in context.roles else "identity"


def scorer(context: StepContext) -> str:
    """Return the role of the metric that scores defended images: with other weights if a training defense is tested."""
    return TUNED if TUNED in context.roles else "metric"


def names_of(images: ImageSet, positions: Sequence[int]) -> list[str]:
    """Return the names of the images at some positions."""
    return [images.names[p] for p in positions]


def purified(
    context: StepContext, images: ImageSet, positions: list[int], batch: torch.Tensor, role: str = "defense"
) -> torch.Tensor:
    """Return D(batch); the random draws belong to the image, so that x and x' get the same ones."""
    if not isinstance(context.component(role), Purification):
        return batch
    return context.build(role)(batch, _draws(context, images, positions, role))


def _draws(context: StepContext, images: ImageSet, positions: list[int], role: str) -> ImageRng:
    """Return the random streams of the images, from which a defense draws."""
    return context.rng(names_of(images, positions), "defense", context.component(role).label)


def _compared(
    context: StepContext, images: ImageSet, positions: list[int], cleaned: torch.Tensor, batch: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return the distances of defended images from the originals, as they are and with the geometry undone.

    The latter are called ``<distance>_undone``: the inverse that the defense declares, such as the rotation back, is
    applied first. They are equal to the former for a defense without an inverse.
    """
    raw = distances_of(context, "", as_large(cleaned, batch), batch)
    defense: Purification = context.component("defense")
    undo = context.build("defense", method="inverse") if isinstance(defense, Purification) else None
    if undo is None:
        return raw | {f"{name}_undone": numbers for name, numbers in raw.items()}
    back = undo(cleaned, tuple(batch.shape[1:]), _draws(context, images, positions, "defense"))
    return raw | {f"{name}_undone": numbers for name, numbers in distances_of(context, "", back, batch).items()}


def distances_of(context: StepContext, prefix: str, images: torch.Tensor, reference: torch.Tensor) -> dict:
    """Return ``<prefix><distance>`` -> distances ``(N,)`` of images from their references, by the task's measures."""
    measures = context.measures("distance").items()
    return {prefix + name: context.build(role)(images, reference) for name, role in measures}


def stack_name(size: Sequence[int]) -> str:
    """Return the name of the array with all images of a size (height, width)."""
    return f"{STACK}{size[0]}x{size[1]}"


def _apart_from_stacks(measured: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return measured arrays in two parts: the columns of numbers, and the stacks of images."""
    stacks = {name: values for name, values in measured.items() if name.startswith(STACK)}
    return {name: values for name, values in measured.items() if name not in stacks}, stacks


def _clean(context: StepContext, images: ImageSet) -> Callable[[list[int], torch.Tensor], torch.Tensor]:
    """Return a function: positions and the images at them -> D(x), which the step `purify` stored."""
    if not isinstance(context.component("defense"), Purification):
        return lambda positions, batch: batch
    purified_images = stored_images(images, context.need("purified"))
    return lambda positions, batch: purified_images(positions).to(batch.device)


def stored_images(images: ImageSet, output: Output) -> Callable[[list[int]], torch.Tensor]:
    """Return a function that loads attacked or defended images by positions in `images`, all of one size.

    The images of each size are one array of the output, in the order of `images`.
    """
    indices, counts = [], {}  # the position of each image in the array of its size; size -> images so far
    for size in images.shapes:
        name = stack_name(size)
        indices.append(counts.get(name, 0))
        counts[name] = indices[-1] + 1

    def load(positions: list[int]) -> torch.Tensor:
        stack = output.arrays[stack_name(images.shapes[positions[0]])]
        chosen = torch.from_numpy(np.asarray(stack[[indices[p] for p in positions]]))
        return chosen if chosen.is_floating_point() else chosen.float() / 255

    return load
