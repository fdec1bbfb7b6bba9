"""The gallery: pictures drawn from the photographs that ship, by the code that a run uses."""

from collections.abc import Mapping
from pathlib import Path

import torch
from PIL import Image

from imharness.cli.commands import context, device_of, every, find
from imharness.data import ImageSet
from imharness.images import ImageRng, Images, Purification
from imharness_iqa.steps import attack as attack_step
from imharness_iqa.steps import purified
from imharness_vision.distortions import DISTORTIONS

CLEAN = "severity-ladder[severities=[],size=96]"
LADDER = "severity-ladder[severities=[1,3,5],size=96]"
METRIC = "embedded-cnn"
ATTACKS = ("ifgsm", "apgd", "korhonen", "madc", "ssah")
"""Attacks that take a fraction of a second for one image."""
DRAWN = (
    "Drawn from photographs that ship inside scikit-image, scikit-learn and matplotlib, when this site was built. "
    "`harness site serve` shows the gallery of your own run."
)
ACROSS = 5
SCALE = 2
MAGNIFIED = 10
SEVERITY = 0.6


def page(folder: Path) -> str:
    """Write the pictures into a folder, and return the page that shows them."""
    photographs = _built(CLEAN)
    first = photographs.load([0])
    attacked = _attacked()
    added = {label: 0.5 + MAGNIFIED * (image - first) for label, image in attacked.items()}
    sections = [
        f"# Gallery\n\n{DRAWN}\n",
        "## Test photographs\n\nNo shipped network has seen them.\n",
        _table(folder, "photograph", _of(photographs)),
        "## The ladder of severities\n\nOne photograph; severity is a proxy for the opinion of people.\n",
        _table(folder, "ladder", _ladder()),
        f"## Attacks\n\nThe first photograph after attacks of medium strength; `{METRIC}` rates it higher.\n",
        _table(folder, "attack", attacked),
        f"What they add, {MAGNIFIED} times as strong, around grey:\n",
        _table(folder, "added", added),
        "## Defenses\n\nThe first photograph, unattacked, after purifications.\n",
        _table(folder, "defense", _purified()),
        f"## Distortions\n\nThe distortions of the perceptual track at severity {SEVERITY}.\n",
        _table(folder, "distortion", _distorted(first)),
    ]
    return "\n".join(sections)


def _built(name: str) -> ImageSet:
    image_set: ImageSet = find("dataset", name).build(device_of("cpu"))  # type: ignore[attr-defined]
    return image_set


def _of(images: ImageSet) -> dict[str, Images]:
    return {name: images.load([i]) for i, name in enumerate(images.names)}


def _ladder() -> dict[str, Images]:
    """Return the images made of the first crop, each by its distortion and severity."""
    images = _built(LADDER)
    crop, family, severity = (images.columns[name] for name in ("reference", "family", "severity"))
    return {f"{family[i]} {severity[i]}": images.load([i]) for i in range(len(images)) if crop[i] == crop[0]}


def _attacked() -> dict[str, Images]:
    attacked = {}
    for name in ATTACKS:
        roles = {"dataset": find("dataset", CLEAN), "metric": find("metric", METRIC)}
        component = find("attack", name).at("medium")  # type: ignore[attr-defined]
        result = attack_step(
            context(roles | {"attack": component}, options={"adaptive": False, "samples": 1}, limit=1, device="cpu")
        )
        (stack,) = result.arrays.values()
        attacked[name] = torch.from_numpy(stack).float() / 255
    return attacked


def _purified() -> dict[str, Images]:
    results = {}
    for defense in every("defense"):
        if isinstance(defense, Purification):
            task = context({"dataset": find("dataset", CLEAN), "defense": defense}, limit=1, device="cpu")
            images = task.images()
            results[defense.label.removeprefix("harness/")] = purified(task, images, [0], images.load([0]))
    return results


def _distorted(image: Images) -> dict[str, Images]:
    severity = torch.full((len(image),), SEVERITY)
    return {name: distort(image, severity, ImageRng([0])) for name, distort in DISTORTIONS.items()}


def _table(folder: Path, begin: str, images: Mapping[str, Images]) -> str:
    """Write each image ``(1, 3, h, w)`` in [0, 1] as a PNG, and return a table that shows them with their labels."""
    names = {label: f"{begin}-{''.join(c if c.isalnum() else '-' for c in label)}.png" for label in images}
    for label, name in names.items():
        _picture(images[label]).save(folder / name)
    lines = ["|" + " |" * ACROSS, "|" + "---|" * ACROSS]
    labels = list(names)
    for row in (labels[i : i + ACROSS] for i in range(0, len(labels), ACROSS)):
        lines.append("| " + " | ".join(f"![{label}]({names[label]})" for label in row) + " |")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _picture(image: Images) -> Image.Image:
    pixels = image[0].clamp(0, 1).mul(255).round().byte().permute(1, 2, 0).numpy()
    return Image.fromarray(pixels).resize((pixels.shape[1] * SCALE, pixels.shape[0] * SCALE), Image.Resampling.NEAREST)
