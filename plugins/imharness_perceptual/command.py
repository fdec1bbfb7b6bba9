"""`harness score`: score images, alone or against references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.commands import assets_option, device_option, json_option

if TYPE_CHECKING:
    import torch

    from imharness.tracks import Component

Pair = tuple[Path, Path | None]
"""An image and its reference."""
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
BATCH = 16


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="METRIC... IMAGE...")
@click.option(
    "--reference",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE|FOLDER",
    help="References of the images: an image, or a folder matched by name. Default: none.",
)
@assets_option("weights")
@device_option()
@json_option(", full precision")
def score(words: tuple[str, ...], reference: Path | None, assets: Path | None, device: str, as_json: bool) -> None:
    """Score images, or folders of them, with one or more metrics.

    A word that names a file or a folder is an IMAGE; any other is a METRIC. Full-reference metrics need --reference:
    one image for all, or a folder whose files have the same names.
    """
    from imharness.commands import add_assets, console
    from imharness.files import said_of_colours

    if assets is not None:
        add_assets(assets)
    metrics = _metrics([word for word in words if not Path(word).exists()], reference)
    pairs = _pairs([Path(word) for word in words if Path(word).exists()], reference)
    images = dict.fromkeys(path for pair in pairs for path in pair if path is not None)
    if told := said_of_colours(list(images)):
        console.warn(told)
    labels = [metric.label for metric in metrics]
    total = len(metrics) * len(pairs)
    with console.progress("scoring", shown=not as_json) as advance:
        rows = [
            _scores(metric, pairs, device, lambda done, i=i: advance(i * len(pairs) + done, total))
            for i, metric in enumerate(metrics)
        ]
    found = [dict(zip(labels, values, strict=True)) for values in zip(*rows, strict=True)]
    if as_json:
        console.emit([{"image": str(image), "scores": values} for (image, _), values in zip(pairs, found, strict=True)])
        return
    shown = [(image, *(f"{v:.5f}" for v in values.values())) for (image, _), values in zip(pairs, found, strict=True)]
    heads = [label.removeprefix("harness/") for label in labels]  # as in all tables for people
    console.table("Scores", ["image", *heads], shown)


def _metrics(names: Sequence[str], reference: Path | None) -> list[Component]:
    from imharness.commands import find
    from imharness.errors import UsageError
    from imharness.images import FullReferenceMetric, NoReferenceMetric

    if not names:
        raise UsageError("name at least one metric; `harness plugins list --kind metric` lists them.")
    lost = [name for name in names if name.lower().endswith(ENDINGS)]
    if lost:
        raise UsageError(f"image {lost[0]} does not exist.")
    found = [find("metric", name) for name in names]
    for metric in found:
        if isinstance(metric, FullReferenceMetric) and reference is None:
            raise UsageError(f"{metric.label} needs a reference; add --reference IMAGE.")
        if not isinstance(metric, FullReferenceMetric | NoReferenceMetric):
            raise UsageError(f"{metric.label} scores sets of images, not single images.")
    return found


def _pairs(paths: Sequence[Path], reference: Path | None) -> list[Pair]:
    """Return every image with its reference."""
    from imharness.errors import UsageError

    images = [image for path in paths for image in (_inside(path) if path.is_dir() else [path])]
    if not images:
        raise UsageError("name at least one image, or a folder of images.")
    if reference is None or reference.is_file():
        return [(image, reference) for image in images]
    pairs = [(image, reference / image.name) for image in images]
    missing = [image.name for image, other in pairs if not other.is_file()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UsageError(f"{reference} has no {', '.join(missing[:3])}{more}.")
    return pairs


def _inside(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)


def _scores(metric: Component, pairs: Sequence[Pair], device: str, advance: Callable[[int], None]) -> list[float]:
    """Return a score per image; images of one size are scored together."""
    import torch

    from imharness.commands import place
    from imharness.errors import ContractError
    from imharness.images import FullReferenceMetric

    where = place(device)
    built = metric.build(where)
    compares = isinstance(metric, FullReferenceMetric)
    found: list[float] = []
    for chosen, images in _batches(pairs):
        with torch.no_grad():
            further = (_references(chosen, images.shape[1:]).to(where),) if compares else ()
            scores = built(images.to(where), *further)
        if scores.shape != (len(chosen),):
            raise ContractError(f"{metric.label} returned {tuple(scores.shape)} for {len(chosen)} images")
        found += scores.cpu().tolist()
        advance(len(found))
    return found


def _batches(pairs: Sequence[Pair]) -> Iterator[tuple[list[Pair], torch.Tensor]]:
    """Yield neighbouring images of one size, with their pixels."""
    import torch

    chosen: list[Pair] = []
    opened: list[torch.Tensor] = []
    for pair in pairs:
        image = _opened(pair[0])
        if opened and (len(opened) == BATCH or image.shape != opened[0].shape):
            yield chosen, torch.stack(opened)
            chosen, opened = [], []
        chosen.append(pair)
        opened.append(image)
    yield chosen, torch.stack(opened)


def _references(pairs: Sequence[Pair], shape: Sequence[int]) -> torch.Tensor:
    import torch

    from imharness.errors import UsageError

    opened = {}
    for image, reference in pairs:
        assert reference is not None
        if reference not in opened:
            opened[reference] = _opened(reference)
        if opened[reference].shape != shape:
            sizes = [f"{s[2]}x{s[1]}" for s in (shape, opened[reference].shape)]
            raise UsageError(
                f"{image} has {sizes[0]} px and its reference {reference} {sizes[1]}; make them the same size."
            )
    if len(opened) == 1:
        return next(iter(opened.values())).expand(len(pairs), -1, -1, -1)
    return torch.stack([opened[reference] for _, reference in pairs])


def _opened(path: Path) -> torch.Tensor:
    """Return float32 ``(3, H, W)`` in [0, 1]."""
    import numpy as np
    import torch

    from imharness.files import read_image

    return torch.from_numpy(np.array(read_image(path))).permute(2, 0, 1).float() / 255
