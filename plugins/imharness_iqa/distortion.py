"""The distortion by an attack, measured by the same step that a run uses."""

from collections.abc import Callable

from imharness.data import ImageDataset
from imharness.images import BaseAttack, FittedAttack, NoReferenceMetric
from imharness.tracks import Output
from imharness_cli.commands import context, find
from imharness_iqa import steps
from imharness_iqa.calibration import mean_distortion

METERS = {"linf": "harness/linf", "ssim": "harness/ssim-uniform7", "psnr": "harness/psnr"}


def meter(
    attack: BaseAttack,
    metric: NoReferenceMetric,
    dataset: ImageDataset,
    *,
    images: int,
    fit: ImageDataset | None = None,
    fit_images: int = 0,
    seed: int = 0,
    device: str = "auto",
) -> Callable[[BaseAttack], float]:
    """Return a function: attack with other parameters -> mean distortion over the first images of a data set.

    The distortion is of the kind that the attack declares; of PSNR, unchanged images are left out. An attack
    that has to be trained is trained once, on the first `fit_images` of `fit`, or else on the images that it attacks.
    """
    roles = {"dataset": dataset, "metric": metric, "attack": attack}
    options = {"adaptive": False, "samples": 1, "fit_images": fit_images or images}
    needs = {}
    if isinstance(attack, FittedAttack):
        training = {**roles, "attack": attack.unscaled(), "dataset": fit or dataset}
        trained = steps.fit(context(training, options=options, seed=seed, device=device))
        needs["fitted"] = Output({}, trained.arrays)

    def distortion(at: BaseAttack) -> float:
        kind = at.info.distortion
        measures = {f"distance.{name}": find("metric", METERS[name]) for name in dict.fromkeys(("linf", kind))}
        own = {**roles, "attack": at, **measures}
        found = steps.attack(context(own, options=options, needs=needs, limit=images, seed=seed, device=device))
        return mean_distortion(found.rows, kind)

    return distortion
