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
    from imharness.files import said_of_bits, said_of_colours

    if assets is not None:
        add_assets(assets)
    metrics = _metrics([word for word in words if not Path(word).exists()], reference)
    pairs = _pairs([Path(word) for word in words if Path(word).exists()], reference)
    images = dict.fromkeys(path for pair in pairs for path in pair if path is not None)
    for warning in filter(None, (said_of_colours(list(images)), said_of_bits(list(images)))):
        console.warn(warning)
    labels = [metric.label for metric in metrics]
    total = len(metrics) * len(pairs)
    with console.progress("scoring", visible=not as_json) as advance:
        rows = [
            _scores(metric, pairs, device, lambda done, i=i: advance(i * len(pairs) + done, total))
            for i, metric in enumerate(metrics)
        ]
    results = [dict(zip(labels, values, strict=True)) for values in zip(*rows, strict=True)]
    if as_json:
        scored = [{"image": str(image), "scores": values} for (image, _), values in zip(pairs, results, strict=True)]
        console.emit({"images": scored})
        return
    table_rows = [
        (image, *(f"{v:.5f}" for v in values.values())) for (image, _), values in zip(pairs, results, strict=True)
    ]
    heads = [f"{metric.label.removeprefix('harness/')} {_direction(metric)}" for metric in metrics]
    console.table("Scores", ["image", *heads], table_rows)


def _direction(metric: Component) -> str:
    """Say what a higher score means, as in "(higher is better)"."""
    words = {"better_quality": "higher is better", "worse_quality": "lower is better"}
    return f"({words.get(metric.info.higher_means, 'higher: ' + metric.info.higher_means.replace('_', ' '))})"


def _metrics(names: Sequence[str], reference: Path | None) -> list[Component]:
    from imharness.commands import find
    from imharness.errors import UsageError
    from imharness.files import is_image_name
    from imharness.images import FullReferenceMetric, NoReferenceMetric

    if not names:
        raise UsageError("name at least one metric; `harness plugins list --kind metric` lists them.")
    lost = [name for name in names if is_image_name(name)]
    if lost:
        raise UsageError(f"image {lost[0]} does not exist.")
    chosen = {metric.label: metric for metric in (find("metric", name) for name in names)}
    for metric in chosen.values():
        if isinstance(metric, FullReferenceMetric) and reference is None:
            raise UsageError(f"{metric.label} needs a reference; add --reference IMAGE.")
        if not isinstance(metric, FullReferenceMetric | NoReferenceMetric):
            raise UsageError(f"{metric.label} scores sets of images, not single images.")
    return list(chosen.values())


def _pairs(paths: Sequence[Path], reference: Path | None) -> list[Pair]:
    """Return every image with its reference, and warn of files in folders that are left out."""
    from imharness.commands import console
    from imharness.errors import UsageError
    from imharness.files import images_below

    images: list[tuple[Path, str]] = []
    for path in paths:
        if not path.is_dir():
            images.append((path, path.name))
            continue
        census = images_below(path)
        images += zip(census.paths, census.names, strict=True)
        if sentence := census.sentence():
            console.warn(sentence)
    if not images:
        raise UsageError("name at least one image, or a folder of images.")
    if reference is None or reference.is_file():
        return [(image, reference) for image, _ in images]
    pairs = [(image, reference / name) for image, name in images]
    missing = [name for _, name in images if not (reference / name).is_file()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UsageError(f"{reference} has no {', '.join(missing[:3])}{more}.")
    return pairs


def _scores(metric: Component, pairs: Sequence[Pair], device: str, advance: Callable[[int], None]) -> list[float]:
    """Return a score per image; images of one size are scored together."""
    import torch

    from imharness.commands import device_of
    from imharness.errors import ContractError
    from imharness.images import FullReferenceMetric

    where = device_of(device)
    built = metric.build(where)
    compares = isinstance(metric, FullReferenceMetric)
    values: list[float] = []
    for chosen, images in _batches(pairs):
        with torch.no_grad():
            further = (_references(chosen, images.shape[1:]).to(where),) if compares else ()
            scores = built(images.to(where), *further)
        if scores.shape != (len(chosen),):
            raise ContractError(f"{metric.label} returned {tuple(scores.shape)} for {len(chosen)} images")
        values += scores.cpu().tolist()
        advance(len(values))
    return values


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
    import torch

    from imharness.files import read_pixels

    return torch.from_numpy(read_pixels(path)).permute(2, 0, 1).float() / 255
