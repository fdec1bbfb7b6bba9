"""The weights that ship: on photographs they never saw, they beat an untrained backbone."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from imharness.components.registry import installed
from imharness.data import ImageSet
from imharness.statistics.correlation import correlate
from imharness_perceptual.metrics.lpips import SHIPPED
from imharness_vision.lpips import FeatureDistance, untrained
from imharness_vision.weights import weights_in

CPU = torch.device("cpu")
CARD = json.loads(Path(str(SHIPPED)).with_suffix(".json").read_text())


def shipped() -> FeatureDistance:
    network = untrained("embedded")
    network.load_state_dict({name: t.float() for name, t in weights_in(Path(str(SHIPPED))).items()})
    return network.eval()


@functools.cache
def built(dataset: str) -> ImageSet:
    return installed().one("dataset", dataset).build(CPU)


@torch.no_grad()
def sroccs(dataset: str, *networks: FeatureDistance) -> list[float]:
    """Return for each network the SROCC of its distances with severity.

    All networks have the backbone of the first, so the features of each image are computed once.
    """
    ladder = built(dataset)
    positions = {name: i for i, name in enumerate(ladder.names)}
    reference = np.array([positions[str(name)] for name in ladder.columns["reference"]])
    severity = np.asarray(ladder.columns["severity"])
    distorted = np.flatnonzero(severity > 0)
    features: list[list[torch.Tensor]] = []
    for chunk in np.array_split(np.arange(len(ladder)), 8):
        features.append(networks[0].features(ladder.load(list(chunk))))
    layers = [torch.cat(maps) for maps in zip(*features, strict=True)]
    distances: list[list[torch.Tensor]] = [[] for _ in networks]
    for chunk in np.array_split(distorted, 8):
        distorted_layers, other = ([layer[rows] for layer in layers] for rows in (chunk, reference[chunk]))
        for batch_distances, network in zip(distances, networks, strict=True):
            batch_distances.append(network.compare(distorted_layers, other))
    return [correlate(torch.cat(distance).numpy(), severity[distorted], "spearman").value for distance in distances]


def test_on_held_out_photographs_training_beats_an_untrained_backbone() -> None:
    ladder = "severity-ladder[size=64]"
    (trained,), (plain,) = sroccs(ladder, shipped()), sroccs(ladder, untrained("embedded"))
    assert trained > plain + 0.05


def test_on_kodak_the_backbone_gains_and_weights_of_one_do_as_well(shared_data: Path) -> None:
    trained, uniform = shipped(), shipped()
    for weight in uniform.weights:
        weight.data.fill_(1)
    ladder = f"folder-ladder[folder={shared_data / 'kodak'},size=64]"
    correlations, (plain,) = sroccs(ladder, trained, uniform), sroccs(ladder, untrained("embedded"))
    assert correlations == pytest.approx([CARD["srocc"], CARD["srocc_all_weights_one"]], abs=2e-3)
    assert min(correlations) > plain + 0.1
    assert (shipped().weights[0] >= 0).all()
