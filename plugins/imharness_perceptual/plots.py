"""Pictures of the track: one test against the other, where two metrics disagree, and the learnt weights by layer."""

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy

from imharness.errors import UsageError
from imharness.files import NO_MARKUP
from imharness.images import Images

BLUE = "#0072b2"
ZERO = 1e-3
"""A weight below this counts as zero, as in figure 10 of the paper: with it, the weights of release 0.0 give the five
shares of zeros that the figure states."""


@contextmanager
def _pyplot():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(NO_MARKUP):
        yield pyplot


def both_tests_scatter(scores: Mapping[str, tuple[float, float]], file: Path) -> None:
    """Draw metric -> (2AFC agreement, JND mAP) as points: figure 5 of the paper."""
    with _pyplot() as pyplot:
        figure, axis = pyplot.subplots(figsize=(6, 5), layout="constrained")
        for name, (forced, noticeable) in scores.items():
            axis.scatter(forced, noticeable, color=BLUE, s=20)
            axis.annotate(
                name.partition("/")[2], (forced, noticeable), fontsize=8, xytext=(4, 2), textcoords="offset points"
            )
        axis.set_xlabel("2AFC agreement")
        axis.set_ylabel("JND mAP")
        figure.savefig(file)
        pyplot.close(figure)


def disagreements(first: np.ndarray, second: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of the images that the first metric ranks nearer than the second, and the reverse.

    `first` and `second` are distances of the same images. At most `count` positions of each kind are returned, those
    whose ranks differ most first. Raises `UsageError` for fewer than two images.
    """
    if len(first) < 2:
        raise UsageError("a disagreement needs at least two images.")
    gap = scipy.stats.rankdata(second) - scipy.stats.rankdata(first)
    order = np.argsort(-gap, kind="stable")
    largest, smallest = order[:count], order[::-1][:count]
    return largest[gap[largest] > 0], smallest[gap[smallest] < 0]


def agreements(first: np.ndarray, second: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of the images that both metrics rank among the nearest, and among the farthest.

    The first are those whose higher rank is lowest, the second those whose lower rank is highest.
    """
    ranks = np.stack([scipy.stats.rankdata(first), scipy.stats.rankdata(second)])
    near, far = np.argsort(ranks.max(axis=0), kind="stable"), np.argsort(-ranks.min(axis=0), kind="stable")
    return near[:count], far[:count]


def gallery(rows: Sequence[tuple[str, Images, Images, Sequence[str]]], file: Path) -> None:
    """Draw rows of (title, references, images, captions), references above images."""
    with _pyplot() as pyplot:
        width = max(len(images) for _, _, images, _ in rows)
        figure, axes = pyplot.subplots(
            2 * len(rows), width, figsize=(1.8 * width, 4.2 * len(rows)), squeeze=False, layout="constrained"
        )
        for axis in axes.flat:
            axis.axis("off")
        for number, (title, references, images, captions) in enumerate(rows):
            for column, (reference, image, caption) in enumerate(zip(references, images, captions, strict=True)):
                for offset, picture in enumerate((reference, image)):
                    axes[2 * number + offset][column].imshow(picture.permute(1, 2, 0).numpy())
                axes[2 * number + 1][column].set_title(caption, fontsize=7)
            axes[2 * number][0].set_title(title, fontsize=9, loc="left")
        figure.savefig(file, dpi=110)
        pyplot.close(figure)


def learnt_weights(weights: Mapping[str, np.ndarray], file: Path) -> dict[str, float]:
    """Draw the weights of every layer, largest first; return the share below `ZERO` by layer."""
    layers = sorted((name for name in weights if name.startswith("weights.")), key=lambda n: int(n.partition(".")[2]))
    if not layers:
        raise UsageError("the file contains no weights of channels; `harness train lpips` writes a file with them.")
    with _pyplot() as pyplot:
        figure, axes = pyplot.subplots(
            1, len(layers), figsize=(2.4 * len(layers), 2.6), squeeze=False, layout="constrained"
        )
        zeros = {}
        for axis, name in zip(axes[0], layers, strict=True):
            values = np.sort(np.asarray(weights[name], dtype=np.float64))[::-1]
            zeros[name] = float((values < ZERO).mean())
            axis.plot(values, color=BLUE)
            axis.set_title(f"layer {name.partition('.')[2]}: {zeros[name]:.0%} zero", fontsize=9)
            axis.set_xlabel("channel")
        figure.savefig(file)
        pyplot.close(figure)
    return zeros
