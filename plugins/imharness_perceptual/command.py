"""`harness score`: score images, alone or against references."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.commands import assets_option, device_option, json_option

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from imharness.errors import UsageError
    from imharness.tracks import Component

    Pixels = npt.NDArray[np.uint8]

Pair = tuple[Path, Path | None]
"""An image and its reference."""
BATCH = 16
THREADS, AHEAD = 4, 8
"""The most threads that decode, and the number of images that are decoded while others are scored."""


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
    from imharness.files import said_of_images

    if assets is not None:
        add_assets(assets)
    _refuse_ambiguous([word for word in words if Path(word).exists()])
    metrics = _metrics([word for word in words if not Path(word).exists()], reference)
    pairs = _pairs([Path(word) for word in words if Path(word).exists()], reference)
    images = dict.fromkeys(path for pair in pairs for path in pair if path is not None)
    for warning in said_of_images(list(images)):
        console.warn(warning)
    labels = [metric.label for metric in metrics]
    total = len(metrics) * len(pairs)
    looks: list[tuple[npt.NDArray[np.float32], ...]] = []
    with console.progress("scoring", visible=not as_json) as advance:
        scores_by_metric = []
        for i, metric in enumerate(metrics):
            scored_before = i * len(pairs)

            def report(scored: int, before: int = scored_before) -> None:
                advance(before + scored, total)

            scores_by_metric.append(_scores(metric, pairs, device, report, looks))
    _warn_of_pairs(pairs, looks)
    results = [dict(zip(labels, values, strict=True)) for values in zip(*scores_by_metric, strict=True)]
    if as_json:
        scored = [{"image": str(image), "scores": values} for (image, _), values in zip(pairs, results, strict=True)]
        console.emit({"images": scored})
        return
    table_rows = [
        (image, *(f"{value:.5f}" for value in values.values()))
        for (image, _), values in zip(pairs, results, strict=True)
    ]
    heads = [f"{metric.label.removeprefix('harness/')} {_direction(metric)}" for metric in metrics]
    console.table("Scores", ["image", *heads], table_rows)


def _direction(metric: Component) -> str:
    """Say what a higher score means, as in "(higher is better)"."""
    words = {"better_quality": "higher is better", "worse_quality": "lower is better"}
    return f"({words.get(metric.info.higher_means, 'higher: ' + metric.info.higher_means.replace('_', ' '))})"


def _refuse_ambiguous(words: Sequence[str]) -> None:
    """Raise `UsageError` for a word that names a file or a folder here, and a metric."""
    from imharness.commands import component
    from imharness.errors import HarnessError, UsageError

    for word in words:
        try:
            same = component("metric", word)
        except HarnessError:
            continue
        raise UsageError(f"{word} names a file or folder here and a metric; write ./{word} or {same.label}.")


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


def _warn_of_pairs(pairs: Sequence[Pair], looks: Sequence[tuple[npt.NDArray[np.float32], ...]]) -> None:
    """Warn of images that look like the reference of another one."""
    import numpy as np

    from imharness.commands import console
    from imharness.data import said_of_pairs

    if looks:
        names = [(str(image), str(reference)) for image, reference in pairs]
        if sentence := said_of_pairs(names, *(np.concatenate(each) for each in zip(*looks, strict=True))):
            console.warn(sentence)


def _scores(
    metric: Component,
    pairs: Sequence[Pair],
    device: str,
    advance: Callable[[int], None],
    looks: list[tuple[npt.NDArray[np.float32], ...]],
) -> list[float]:
    """Return a score per image; neighbouring images of one size are scored together.

    Calls `advance` with the number of scored images after each batch. If there are several references, the first metric
    that compares with them appends thumbnails of images and references to `looks`, batch by batch.
    """
    import torch

    from imharness.commands import device_of
    from imharness.data import thumbnails
    from imharness.errors import ContractError
    from imharness.images import FullReferenceMetric

    where = device_of(device)
    built = metric.build(where)
    compares = isinstance(metric, FullReferenceMetric)
    values: list[float] = []
    looking = compares and not looks and len({reference for _, reference in pairs}) > 1
    for batch in _batches(pairs, compares):
        if looking:
            looks.append(tuple(thumbnails(images.split(1)) for images in batch))
        with torch.no_grad():
            scores = built(*(images.to(where) for images in batch))
        if scores.shape != (len(batch[0]),):
            raise ContractError(f"{metric.label} returned {tuple(scores.shape)} for {len(batch[0])} images")
        values += scores.cpu().tolist()
        advance(len(values))
    return values


def _batches(pairs: Sequence[Pair], compares: bool) -> Iterator[list[torch.Tensor]]:
    """Yield neighbouring images of one size and, if a metric compares, their references: float32 ``(n, 3, H, W)``."""
    references = {reference for _, reference in pairs} if compares else set()
    shared = _opened(next(iter(references))) if len(references) == 1 else None
    chosen: list[list[Pixels]] = []
    for pair, opened in _read(pairs, with_reference=len(references) > 1):
        for other in opened[1:] if shared is None else [shared]:
            if other.shape != opened[0].shape:
                raise _differ(pair, opened[0], other)
        if chosen and (len(chosen) == BATCH or opened[0].shape != chosen[0][0].shape):
            yield _tensors(chosen, shared)
            chosen = []
        chosen.append(opened)
    yield _tensors(chosen, shared)


def _read(pairs: Sequence[Pair], with_reference: bool) -> Iterator[tuple[Pair, list[Pixels]]]:
    """Yield each pair with its pixels, in their order: of the image, and of the reference if it is asked for.

    Threads decode the next `AHEAD` pairs meanwhile.
    """

    def read(pair: Pair) -> list[Pixels]:
        return [_opened(path) for path in (pair if with_reference else pair[:1])]

    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        ahead = deque(pool.submit(read, pair) for pair in pairs[:AHEAD])
        for number, pair in enumerate(pairs):
            opened = ahead.popleft().result()
            if number + AHEAD < len(pairs):
                ahead.append(pool.submit(read, pairs[number + AHEAD]))
            yield pair, opened


def _tensors(chosen: Sequence[Sequence[Pixels]], shared: Pixels | None) -> list[torch.Tensor]:
    """Return the images and, if there are any, their references: float32 ``(n, 3, H, W)`` each.

    `chosen` has the pixels of each image, with those of its reference unless `shared` is the reference of all.
    """
    import numpy as np
    import torch

    stacks = [np.stack(images) for images in zip(*chosen, strict=True)] + ([] if shared is None else [shared[None]])
    tensors = [torch.from_numpy(stack).permute(0, 3, 1, 2).float() / 255 for stack in stacks]
    return [tensor.expand(len(chosen), -1, -1, -1) for tensor in tensors]


def _differ(pair: Pair, image: Pixels, reference: Pixels) -> UsageError:
    from imharness.errors import UsageError

    sizes = [f"{one.shape[1]}x{one.shape[0]}" for one in (image, reference)]
    return UsageError(f"{pair[0]} has {sizes[0]} px and its reference {pair[1]} {sizes[1]}; make them the same size.")


def _opened(path: Path) -> Pixels:
    """Return the pixels of a file ``(H, W, 3)``."""
    from imharness.files import read_pixels

    return read_pixels(path)
