"""The steps of certified scores, and the plan of their tasks."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from imharness.data import ImageSet
from imharness.images import Certificate, Certification
from imharness.tracks import Planned, Planner, Step, StepContext, StepResult, step
from imharness_iqa.disjoint import photographs_of
from imharness_iqa.references import compares, scored, threat
from imharness_iqa.sampling import spread_over
from imharness_iqa.smoothing import ClassSmoothing, MedianSmoothing
from imharness_iqa.steps import names_of, stored_images


def plan_certificates(
    condition: Planner,
    certifications: Sequence[Certification],
    count: int,
    attacked: Planned | None = None,
    names: Mapping[str, str] | None = None,
    steps: tuple[Step, Step] | None = None,
) -> list[tuple[Certification, Planned]]:
    """Plan certificates of `count` clean or attacked images; certifications with the same noise share a noisy pass.

    `attacked`: the task of the attacked images, None for clean ones; `names`: options that name the attack. `steps`:
    the steps of the noisy pass and of the certificates, by default `smooth` and `certify`.
    """
    smooth_step, certify_step = steps or (smooth, certify)
    options = {"attacked": attacked is not None, "images": count, **(names or {})}
    needs = {"attacked": attacked} if attacked is not None else {}
    plans = []
    for certification in certifications:
        noisy = condition.task(smooth_step, {"defense": certification.noisy()}, options=options, needs=needs)
        planned = condition.task(certify_step, {"defense": certification}, options=options, needs={"noisy": noisy})
        plans.append((certification, planned))
    return plans


def plan_inside(
    condition: Planner,
    promised: Sequence[tuple[Certification, Planned]],
    count: int,
    attacked: Planned,
    names: Mapping[str, str],
) -> None:
    """Plan scores of `count` attacked images that are pulled back into the certified radius of their originals.

    `promised`: certifications with the tasks of their certificates. Of each defense only the variant with default
    values is taken. `names`: options that name the attack.
    """
    options = {"images": count, **names}
    for certification, planned in promised:
        if certification.label == certification.without_grid().label:
            needs = {"attacked": attacked, "certified": planned}
            condition.task(inside, {"defense": certification}, options=options, needs=needs)


@step(version="3", shared=True, doing="scoring noisy copies of images[ with {metric}]")
def smooth(context: StepContext) -> StepResult:
    """Score noisy copies of some images, clean or attacked; several certifications read one pass."""
    every = context.images()
    images, places = _certified(context)
    noisy = noisy_scores(context, images)
    attacked = stored_images(every, context.need("attacked")) if context.options["attacked"] else None

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        pictures = batch if attacked is None else attacked([places[p] for p in positions]).to(batch.device)
        started = time.perf_counter()
        scores = noisy(positions, pictures, "smoothing").cpu()  # waits for a GPU
        took = scores.new_full((len(scores),), (time.perf_counter() - started) / len(scores), dtype=torch.float64)
        return {"scores": scores, "seconds": took}

    results = context.map(images, measure)
    seconds = results.pop("seconds").mean()
    return StepResult(arrays=results, facts={"seconds": seconds})


def noisy_scores(context: StepContext, images: ImageSet) -> Callable[[Sequence[int], torch.Tensor, str], torch.Tensor]:
    """Return the noisy pass over images of a set: positions, images and the purpose of the noise -> scores.

    Scores are ``(N, S, V)``: S noisy copies, V versions of each (`imharness.contracts.certification`).
    A metric that compares scores the copies of one image at a time, so that all have one reference.
    """
    smooth, score = context.build("defense", method="smooth"), scored(context, images)

    def several(positions: Sequence[int], batch: torch.Tensor, purpose: str) -> torch.Tensor:
        rng = context.rng(names_of(images, positions), purpose)
        return smooth(lambda copies: score([positions[0]] * len(copies), copies), batch, rng)

    def one_by_one(positions: Sequence[int], batch: torch.Tensor, purpose: str) -> torch.Tensor:
        return torch.cat([several([p], batch[i : i + 1], purpose) for i, p in enumerate(positions)])

    return one_by_one if compares(context) else several


@step(version="4", doing="certifying scores[ of {metric}][ with {defense}]")
def certify(context: StepContext) -> StepResult:
    """Certify the scores of noisy copies: within distance `reach`, the score lies between `low` and `high`."""
    images, _ = _certified(context)
    scores = torch.from_numpy(np.asarray(context.need("noisy").arrays["scores"]))
    component: Certification = context.component("defense")
    certificate = context.build("defense")(scores, context.component("metric").bounds)
    ends = component.ends(scores) if isinstance(component, MedianSmoothing) else (certificate.value, certificate.value)
    rows = {
        "score": certificate.value,
        "radius": certificate.radius,
        "delta": certificate.delta,
        "abstained": certificate.abstained,
        "low": ends[0],
        "high": ends[1],
        "reach": reach(component, certificate),
    }
    kind = {
        "entry": [component.without_grid().label] * len(images),
        "classes": [component.classes if isinstance(component, ClassSmoothing) else 0] * len(images),
    }
    numbers = {name: column.numpy() for name, column in rows.items()}
    return StepResult(rows={"name": list(images.names), **kind, **numbers})


@step(version="1", shared=True, doing="scoring noisy copies of images[ with {metric}]")
def smooth_compared(context: StepContext) -> StepResult:
    """Score noisy copies of some images against their references, as the step `smooth` does."""
    return smooth(context)


@step(version="1", doing="certifying scores[ of {metric}][ with {defense}]")
def certify_compared(context: StepContext) -> StepResult:
    """Certify scores against references as the step `certify` does: for all x' near x, and the same reference."""
    certificate, (images, _) = certify(context), _certified(context)
    metric = context.component("metric")
    columns = {
        "photograph": photographs_of(images),
        "threat": [threat(images)] * len(images),
        "range": np.full(len(images), metric.bounds[1] - metric.bounds[0]),
    }
    return StepResult(rows={**certificate.rows, **columns})


COMPARED = (smooth_compared, certify_compared)
"""The steps of certificates of full-reference metrics."""


@step(version="1", shared=True, doing="certifying attacked images[ with {defense}]")
def inside(context: StepContext) -> StepResult:
    """Certify attacked images, pulled back towards the original until they are within its certified radius.

    `distance`: the Euclidean distance that is left; NaN where the certificate has no radius.
    """
    every = context.images()
    images, places = _certified(context)
    noisy, attacked = noisy_scores(context, images), stored_images(every, context.need("attacked"))
    radius = torch.from_numpy(np.nan_to_num(context.need("certified").rows["reach"]))

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        change = attacked([places[p] for p in positions]).to(batch.device) - batch
        length = torch.linalg.vector_norm(change.flatten(1), dim=1)
        distance = length.minimum(radius[positions].to(length))
        shifted = batch + (distance / length.clamp(min=1e-9)).view(-1, 1, 1, 1) * change
        return {"scores": noisy(positions, shifted, "inside"), "distance": distance}

    measured = context.map(images, measure)
    certificate = context.build("defense")(
        torch.from_numpy(np.asarray(measured["scores"])), context.component("metric").bounds
    )
    distance = np.where(radius.numpy() > 0, measured["distance"], np.nan)
    rows = {"score": certificate.value.numpy(), "abstained": certificate.abstained.numpy(), "distance": distance}
    return StepResult(rows={"name": list(images.names), **rows})


def reach(component: Certification, certificate: Certificate) -> torch.Tensor:
    """Return the Euclidean distance within which a certificate holds, ``(N,)``, 0 where there is none.

    For median smoothing it is a parameter of the defense.
    """
    if isinstance(component, MedianSmoothing):
        return torch.full_like(certificate.value, component.epsilon)
    return torch.where(certificate.abstained, torch.zeros_like(certificate.radius), certificate.radius)


def _certified(context: StepContext) -> tuple[ImageSet, list[int]]:
    """Return the images that certified defenses see, equally many of each photograph, and their positions among all."""
    images = context.images()
    places = spread_over(photographs_of(images), images.names, int(context.options["images"]))
    return images.at(places), places
