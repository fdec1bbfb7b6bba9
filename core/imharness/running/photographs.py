"""Checks, before a season opens, that its data sets can read its photographs."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import torch

from imharness.components.registry import Registry
from imharness.contracts.image_dataset import ImageDataset
from imharness.documents.seasons import Photographs
from imharness.planning.profile import Profile


def check_readable(folder: Path, profile: Profile, photographs: Photographs, registry: Registry) -> None:
    """Build the data set of each track of a season from a folder of photographs.

    Raises whatever a data set raises that cannot read the folder; the message names the file.
    """
    for name, track in profile.tracks.items():
        reader = registry.track(name).season_datasets.get(photographs.labels, "")
        if reader:
            (dataset, *_) = registry.find("dataset", reader)
            changes = {**track.parameters.get(reader, {}), dataset.address: str(folder)}
            cast("ImageDataset", dataset.with_parameters(**changes)).build(torch.device("cpu"))
