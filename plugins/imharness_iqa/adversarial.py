"""Writes the attacked images of a run as a data set: PNG files, an index and Croissant metadata.

Guardians of Image Quality publishes such a data set for adversarial training and for tests of defenses (sections 1 and
5). Croissant: https://docs.mlcommons.org/croissant/docs/croissant-spec.html, version 1.0.
"""

import csv
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from imharness.data import Images, ImageSet
from imharness_iqa.disjoint import photographs_of

INDEX, METADATA = "index.csv", "croissant.json"
COLUMNS = {
    "file": "The attacked image.",
    "sha256": "The sha256 of the file.",
    "original": "The image before the attack.",
    "dataset": "Data set of the original.",
    "name": "Name of the original in the data set.",
    "metric": "Metric whose score the attack moves, most attacks towards better quality.",
    "attack": "Attack.",
    "strength": "Strength of the attack.",
    "knows": "Defense that the attack knows and goes through; empty: none.",
    "score": "Score of the attacked image by the metric, without a defense.",
    "mos": "Opinion score of the original; empty: none.",
    "photograph": "The photograph that the original was made from.",
    "proxy": "What stands in for people's opinion; empty: nothing.",
}
NUMBERS = {"score", "mos"}


class Attacked(NamedTuple):
    """The attacked images of one task.

    `facts`: what all of them have in common, by column of `COLUMNS`. `images`: the originals. `load` returns attacked
    images by position; `scores`: their scores.
    """

    facts: Mapping[str, str]
    images: ImageSet
    load: Callable[[list[int]], Images]
    scores: Sequence[float]


def write(out: Path, tasks: Iterable[Attacked], licence: str) -> int:
    """Write originals, attacked images, index and metadata into an empty or new folder; return how many are attacked.

    `licence`: address of the licence of the images, which their data sets allow.
    """
    out.mkdir(parents=True, exist_ok=True)
    written, count = set[str](), 0
    with (out / INDEX).open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, list(COLUMNS), lineterminator="\n")
        lines.writeheader()
        for number, task in enumerate(tasks):
            for position, score in enumerate(task.scores):
                name = task.images.names[position]
                stem = f"{_slug(task.facts['dataset'])}-{_slug(name)}"
                original, attacked = f"originals/{stem}.png", f"attacked/{number:05d}/{stem}.png"
                if original not in written:
                    _save(out / original, task.images.load([position])[0])
                    written.add(original)
                digest = _save(out / attacked, task.load([position])[0])
                facts = {**task.facts, "name": name, "score": repr(float(score)), **_facts_of(task.images, position)}
                lines.writerow({"file": attacked, "sha256": digest, "original": original, **facts})
                count += 1
    index = (out / INDEX).read_bytes()
    (out / METADATA).write_text(json.dumps(croissant(index, licence), indent=2) + "\n", encoding="utf-8")
    return count


def _facts_of(images: ImageSet, position: int) -> dict[str, str]:
    """Return the facts about an original: opinion score, photograph and proxy."""
    score = float(images.columns["mos"][position])
    photograph = photographs_of(images)[position]
    return {"mos": "" if math.isnan(score) else repr(score), "photograph": photograph, "proxy": images.proxy}


def croissant(index: bytes, licence: str) -> dict[str, Any]:
    """Return the metadata as JSON-LD in the format Croissant 1.0; `index`: the content of the index."""
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "adversarial-images",
        "description": "Images that attacks changed to move the score of an image-quality metric, and the originals.",
        "license": licence,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": INDEX,
                "name": INDEX,
                "contentUrl": INDEX,
                "contentSize": f"{len(index)} B",
                "encodingFormat": "text/csv",
                "sha256": hashlib.sha256(index).hexdigest(),
            },
            *(
                {
                    "@type": "cr:FileSet",
                    "@id": folder,
                    "name": folder,
                    "encodingFormat": "image/png",
                    "includes": f"{folder}/{pattern}",
                }
                for folder, pattern in (("attacked", "*/*.png"), ("originals", "*.png"))
            ),
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "index",
                "name": "index",
                "description": "Each row is an attacked image.",
                "field": [
                    {
                        "@type": "cr:Field",
                        "@id": f"index/{name}",
                        "name": name,
                        "description": about,
                        "dataType": "sc:Float" if name in NUMBERS else "sc:Text",
                        "source": {"fileObject": {"@id": INDEX}, "extract": {"column": name}},
                    }
                    for name, about in COLUMNS.items()
                ],
            }
        ],
    }


def _save(path: Path, image: torch.Tensor) -> str:
    """Write an image ``(3, H, W)`` in [0, 1] as PNG; return the sha256 of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.mul(255).round().byte().permute(1, 2, 0).cpu().numpy()).save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _slug(text: str) -> str:
    """Return a text as a part of a file name; if signs are replaced, a digest keeps different texts apart."""
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")
    return plain if plain == text else f"{plain[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{
        name: f"cr:{name}"
        for name in ("column", "extract", "field", "fileObject", "fileSet", "includes", "recordSet", "source")
    },
}
