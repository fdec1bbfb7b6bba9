"""Questions for annotators about the reconstructions or the defended images of a run."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from PIL import Image

from imharness.data import ImageSet, derive_seed
from imharness.errors import UsageError
from imharness_annotation.book import Question

NONE = "none of them"
SAME, DIFFERENT = "same", "different"
LEFT, RIGHT = "left", "right"
ORIGINAL = "original"
"""The fact ``defense`` of a question that shows the original itself."""
CHOICES = 20
"""The largest number of classes that a question offers."""
DECOYS = 10
"""There is one decoy for this many reconstructions."""
FEWEST = 2
"""The smallest number of decoys with each right answer."""

Rebuilt = tuple[Mapping[str, str], np.ndarray, ImageSet]
"""Labels of data set, attack, model and defense; reconstructions uint8 ``(N, 3, H, W)``; the data set, whose first N
images are the private ones."""


def png(image: np.ndarray) -> bytes:
    """Return uint8 ``(3, H, W)`` as PNG."""
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).save(out, "PNG")
    return out.getvalue()


def as_bytes(image: torch.Tensor) -> np.ndarray:
    """Return an image ``(3, H, W)`` in [0, 1] as uint8 of the same shape."""
    return image.mul(255).round().byte().cpu().numpy()


Likely = Mapping[str, Mapping[str, Sequence[str]]]
"""Data set -> name of an image -> classes, the most likely one first."""


def class_questions(groups: Sequence[Rebuilt], seed: int = 0, likely: Likely | None = None) -> Iterator[Question]:
    """Yield one question per reconstruction: which of up to twenty classes, or none? (SemSim, figure 8 A).

    By default the classes are the true one and others at random, and the true one is the right answer (appendix A).
    With `likely` people are asked as in section 4.1: about each original, too, with the twenty most likely classes, the
    true one among them. An answer is then right if it is what people say of the original; see `outcome.majorities`.
    """
    originals: set[tuple[str, str]] = set()
    for facts, images, private in groups:
        names = class_names(private)
        everything = sorted(set(names))
        if len(everything) < 2:
            raise UsageError(f"{facts['dataset']} has fewer than two classes; use --kind pair.")
        for name, truth, image in zip(private.names, names, images, strict=False):
            others = [c for c in everything if c != truth]
            if likely is None:
                rng = np.random.default_rng(derive_seed(seed, "choices", name))
                drawn = rng.choice(len(others), min(CHOICES - 1, len(others)), replace=False)
                offered = [others[i] for i in drawn]
            else:
                offered = [c for c in likely[facts["dataset"]][name] if c != truth][: CHOICES - 1]
            choices = (*sorted([truth, *offered]), NONE)
            question_facts = {**facts, "name": name}
            yield Question(_key(facts, name), question_facts, choices, truth, decoy=False, left=None, right=png(image))
            if likely is not None and (facts["dataset"], name) not in originals:
                originals.add((facts["dataset"], name))
                question_facts = {"dataset": facts["dataset"], "name": name, "defense": ORIGINAL}
                pixels = as_bytes(private.load([private.names.index(name)])[0])
                key = _key(question_facts, name)
                yield Question(key, question_facts, choices, truth="", decoy=False, left=None, right=png(pixels))


def pair_questions(groups: Sequence[Rebuilt], seed: int = 0) -> Iterator[Question]:
    """Yield one question per reconstruction: does it show what the original shows? (SemSim, figure 8 B).

    For ten reconstructions there is one decoy, and there are at least four. Half of them show the reconstruction of
    another class, where "same" is wrong, and half show the original itself, where "different" is wrong, so that nobody
    passes them all with one answer. Data of one class have no decoys.
    """
    drawn = {truth: _drawn(groups, truth, seed) for truth in (SAME, DIFFERENT)}
    for facts, images, private in groups:
        originals = private.load(list(range(len(images)))).mul(255).round().byte().numpy()
        classes = class_names(private)[: len(images)]
        for i, name in enumerate(private.names[: len(images)]):
            question_facts = {**facts, "name": name}
            original = png(originals[i])
            yield Question(
                _key(facts, name),
                question_facts,
                (SAME, DIFFERENT),
                SAME,
                decoy=False,
                left=original,
                right=png(images[i]),
            )
            same, different = (_key(facts, f"{name} decoy {truth}") for truth in (SAME, DIFFERENT))
            if same in drawn[SAME]:
                yield Question(same, question_facts, (SAME, DIFFERENT), SAME, decoy=True, left=original, right=original)
            if different in drawn[DIFFERENT]:
                strangers = [j for j, c in enumerate(classes) if c != classes[i]]
                other = strangers[derive_seed(seed, "stranger", different) % len(strangers)]
                question_facts = {**question_facts, "shown": private.names[other]}
                stranger = png(images[other])
                yield Question(
                    different, question_facts, (SAME, DIFFERENT), DIFFERENT, decoy=True, left=original, right=stranger
                )


def _drawn(groups: Sequence[Rebuilt], truth: str, seed: int) -> frozenset[str]:
    """Return the keys of the decoys with the right answer `truth`, drawn at random from all reconstructions.

    Only groups with images of at least two classes have decoys.
    """
    keys = []
    for facts, images, private in groups:
        if len(set(class_names(private)[: len(images)])) > 1:
            keys += [_key(facts, f"{name} decoy {truth}") for name in private.names[: len(images)]]
    keys.sort(key=lambda key: derive_seed(seed, "decoy", key))
    return frozenset(keys[: max(FEWEST, round(len(keys) / DECOYS / 2))])


def better_questions(
    facts: Mapping[str, str],
    defended: Mapping[str, Sequence[torch.Tensor] | torch.Tensor],
    clean: Sequence[torch.Tensor] | torch.Tensor,
    names: Sequence[str],
    seed: int = 0,
) -> Iterator[Question]:
    """Yield one question per image and pair of defenses: which defended image is better, beside the original?

    Gushchin et al. (2025), appendix A.2: people see the original and two images, and choose the one "of higher quality,
    more realistic, and closer to the original". Images are ``(3, H, W)`` in [0, 1], and may differ in size.
    Verification questions set a clean image against the same image in a few grey levels, left and right in turn.
    """
    pixels = {label: [as_bytes(image) for image in images] for label, images in defended.items()}
    untouched = [as_bytes(image) for image in clean]
    turn = derive_seed(seed, "verification") % 2
    for i, name in enumerate(names):
        for one, other in itertools.combinations(sorted(pixels), 2):
            rng = np.random.default_rng(derive_seed(seed, "side", name, one, other))
            left_label, right = (one, other) if rng.random() < 0.5 else (other, one)
            question_facts = {**facts, "name": name, "left": left_label, "right": right}
            key = _key(facts, f"{name} {one} {other}")
            sides = png(pixels[left_label][i]), png(pixels[right][i])
            yield Question(key, question_facts, (LEFT, RIGHT), "", False, *sides, png(untouched[i]))
        spoilt = (untouched[i] // 64) * 64
        first = i % 2 == turn
        pair = (untouched[i], spoilt) if first else (spoilt, untouched[i])
        question_facts = {**facts, "name": name, "left": "verification", "right": "verification"}
        key, truth = _key(facts, f"{name} verification"), LEFT if first else RIGHT
        yield Question(key, question_facts, (LEFT, RIGHT), truth, True, png(pair[0]), png(pair[1]), png(untouched[i]))


def class_names(images: ImageSet) -> list[str]:
    """Return the name of each image's class: its column ``class``, else its number."""
    if "class" in images.columns:
        return [str(c) for c in images.columns["class"]]
    if "label" not in images.columns:
        raise UsageError("the data set does not name its classes; use --kind pair.")
    return [f"class {int(c)}" for c in images.columns["label"]]


def _key(facts: Mapping[str, str], name: str) -> str:
    """Return the key of a question: its facts in alphabetical order, and the name of the image."""
    return "\x1f".join([*(f"{k}={facts[k]}" for k in sorted(facts)), name])
