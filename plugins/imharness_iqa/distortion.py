"""The distortion that an attack causes, measured as in the step `calibrate` of a run."""

from collections.abc import Callable, Sequence

from imharness.commands import context, find
from imharness.data import ImageDataset
from imharness.errors import UsageError
from imharness.images import BaseAttack, FittedAttack, NoReferenceMetric
from imharness.tracks import Output
from imharness_iqa import steps
from imharness_iqa.calibrating import chosen_on, distortion_on

METERS = {"linf": "harness/linf", "ssim": "harness/ssim-uniform7", "psnr": "harness/psnr"}


def meter(
    attack: BaseAttack,
    metric: NoReferenceMetric,
    dataset: ImageDataset,
    *,
    images: int,
    tested: Sequence[ImageDataset] = (),
    fit: ImageDataset | None = None,
    fit_images: int = 0,
    seed: int = 0,
    device: str = "auto",
) -> Callable[[BaseAttack], float]:
    """Return a function: attack with other parameters -> mean distortion over some images of a data set.

    The images are equally many of each photograph, and no photograph of the data sets `tested` is among them. The
    distortion is of the kind that the attack declares; for PSNR, unchanged images are left out. An attack that has to
    be trained is trained once, on the first `fit_images` images of `fit`, or else of the data set; tested photographs
    are left out there, too. Raises `UsageError` if the data set has fewer than `images` images.
    """
    roles = {"dataset": dataset, "metric": metric, "attack": attack}
    roles |= {f"tested.{number}": other for number, other in enumerate(tested)}
    options = {"adaptive": False, "samples": 1, "fit_images": fit_images or images}
    needs = {}
    if isinstance(attack, FittedAttack):
        training = {**roles, "attack": attack.unscaled(), "dataset": fit or dataset}
        trained = steps.fit(context(training, options=options, seed=seed, device=device))
        needs["fitted"] = Output({}, trained.arrays)
    kinds = dict.fromkeys(("linf", attack.info.distortion))
    roles |= {f"distance.{kind}": find("metric", METERS[kind]) for kind in kinds}
    run = context(roles, options=options, needs=needs, seed=seed, device=device)
    chosen = chosen_on(run, images)
    if len(chosen) < images:
        raise UsageError(
            f"{dataset.label} has {len(chosen)} images besides the tested ones; ask for at most as many with --images"
        )
    return distortion_on(run, chosen)
