"""Writes a folder of evidence to start from: the originals as PNG, their digests, and what they are held against.

For an entry that compares images, their references lie beside them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from imharness.cli.commands import context
from imharness.contracts.full_reference_metric import FullReferenceMetric
from imharness.contracts.image_dataset import ImageSet
from imharness.errors import UsageError
from imharness.results.store import Store
from imharness_submissions.evidence.checking import SUBMIT, listed
from imharness_submissions.evidence.folder import FILE
from imharness_submissions.manifest import PLACEHOLDERS
from imharness_submissions.starting import toml_lines

SUMMARY = "say in a sentence how these images were found"


def start_evidence(folder: Path, store: Store, track: str, entry: str, task: Mapping[str, str]) -> int:
    """Write the folder, and return how many images it has; raises `UsageError` for what the store does not list."""
    listing = listed(store, track, entry, task)
    spec = listing.task.spec
    if spec.split:
        raise UsageError(f"the images of a secret split are not handed out: hand in the attack. {SUBMIT}")
    if folder.exists():
        raise UsageError(f"{folder} exists already.")
    dataset = listing.store_entries.registry.revive(spec.components["dataset"])
    images = context({"dataset": dataset}, limit=spec.limit).images()
    names = set(store.rows(listing.task)["name"])
    compares = isinstance(listing.store_entries.registry.revive(listing.entry), FullReferenceMetric)
    (folder / "images").mkdir(parents=True)
    blocks = []
    for position in (index for index, name in enumerate(images.names) if name in names):
        pixels, file = _written(images, position, folder, "images")
        clean = hashlib.sha256(pixels.tobytes()).hexdigest()
        lines = toml_lines({"name": images.names[position], "clean": clean, "file": file})
        if compares:
            reference = images.names.index(str(images.columns["reference"][position]))
            lines += f"# its reference: {_written(images, reference, folder, 'references')[1]}\n"
        blocks.append("[[images]]\n" + lines)
    head = {
        "format": 1,
        "summary": SUMMARY,
        "authors": [PLACEHOLDERS["author"]],
        "contact": PLACEHOLDERS["contact"],
        "track": track,
        "entry": listing.entry.label,
    }
    (folder / FILE).write_text("\n".join([toml_lines(head), "[task]\n" + toml_lines(task), *blocks]), encoding="utf-8")
    return len(blocks)


def _written(images: ImageSet, position: int, folder: Path, kind: str) -> tuple[npt.NDArray[np.uint8], str]:
    """Write an image as PNG, unless it is there; return its pixels ``(H, W, 3)``, and its place in the folder."""
    (folder / kind).mkdir(exist_ok=True)
    pixels = (images.load([position])[0].mul(255).round().byte().permute(1, 2, 0).contiguous()).numpy()
    file = f"{kind}/{position:04d}.png"
    if not (folder / file).exists():
        Image.fromarray(np.asarray(pixels)).save(folder / file)
    return pixels, file
