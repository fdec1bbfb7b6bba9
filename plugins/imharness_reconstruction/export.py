"""Writes the reconstructions of a run as a folder in SemSim's published layout, sorted by the judgement."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from imharness.data import ImageSet
from imharness_reconstruction.datasets.annotated import FACTS, INDEX, ORIGINAL

Key = tuple[str, str, str, str]
"""Data set, attack, model, defense."""


@dataclass(frozen=True)
class Rebuilt:
    """Reconstructions uint8 ``(N, 3, H, W)`` of one (data set, attack, model, defense), and the private images."""

    labels: Mapping[str, str]
    reconstructions: np.ndarray
    private: ImageSet

    @property
    def key(self) -> Key:
        """Data set, attack, model, defense."""
        dataset, attack, model, defense = (self.labels[fact] for fact in FACTS)
        return dataset, attack, model, defense

    def slug(self, name: str) -> str:
        """Return a file name for the original of that name."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.labels['dataset']}-{name}").strip("-")


def recognised(rows: Mapping[str, np.ndarray]) -> dict[tuple[Key, str], bool]:
    """Return (key, name of the image) -> whether at least half of its judges recognised it.

    `rows`: columns `FACTS`, ``name`` and ``score``, the share of judges who recognised the reconstruction.
    """
    judged: dict[tuple[Key, str], bool] = {}
    facts = zip(*(rows[fact] for fact in FACTS), rows["name"], rows["score"], strict=True)
    for dataset, attack, model, defense, name, score in facts:
        judged[(str(dataset), str(attack), str(model), str(defense)), str(name)] = bool(score >= 0.5)
    return judged


def write(out: Path, rebuilt: Iterable[Rebuilt], judged: Mapping[tuple[Key, str], bool]) -> int:
    """Write originals, reconstructions and the index; return how many reconstructions were written."""
    out.mkdir(parents=True, exist_ok=True)
    count = 0
    with (out / INDEX).open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["file", *FACTS, "source"])
        for number, group in enumerate(rebuilt):
            for path, image, facts in _placed(group, number, judged):
                (out / path).parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(out / path)
                if facts:
                    lines.writerow([path, *facts])
                    count += 1
    return count


def _placed(
    group: Rebuilt, number: int, judged: Mapping[tuple[Key, str], bool]
) -> Iterator[tuple[str, np.ndarray, tuple[str, ...]]]:
    """Yield the files of all judged reconstructions, and of their originals.

    A file is its path, its image uint8 ``(H, W, 3)`` and the rest of its line in the index, which is () for originals.
    """
    private = group.private.load(list(range(len(group.private)))).mul(255).round().byte().numpy()
    names = group.private.names
    sources = group.private.columns.get("source", names)
    for name, source, original, image in zip(names, sources, private, group.reconstructions, strict=True):
        verdict = judged.get((group.key, name))
        if verdict is None:
            continue
        slug = group.slug(name)
        yield f"{slug}/{slug}{ORIGINAL}.png", original.transpose(1, 2, 0), ()
        yield (
            f"{'' if verdict else '-'}{slug}/{number:04d}_rec.png",
            image.transpose(1, 2, 0),
            (*group.key, group.slug(str(source))),
        )
