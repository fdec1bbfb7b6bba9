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
def srocc(network: FeatureDistance, dataset: str) -> float:
    ladder = built(dataset)
    place = {name: i for i, name in enumerate(ladder.names)}
    reference = [place[str(name)] for name in ladder.columns["reference"]]
    severity = np.asarray(ladder.columns["severity"])
    distorted = np.flatnonzero(severity > 0)
    parts = np.array_split(distorted, 8)
    distance = torch.cat([network(ladder.load(list(p)), ladder.load([reference[i] for i in p])) for p in parts]).numpy()
    return correlate(distance, severity[distorted], "spearman").value


def test_on_held_out_photographs_training_beats_an_untrained_backbone() -> None:
    ladder = "severity-ladder[size=64,per_photograph=3]"
    assert srocc(shipped(), ladder) > srocc(untrained("embedded"), ladder) + 0.05


def test_on_kodak_the_backbone_gains_and_weights_of_one_do_as_well(shared_data: Path) -> None:
    trained, uniform = shipped(), shipped()
    for weight in uniform.weights:
        weight.data.fill_(1)
    ladder = f"folder-ladder[folder={shared_data / 'kodak'},size=64]"
    found = srocc(trained, ladder), srocc(uniform, ladder)
    assert found == pytest.approx((CARD["srocc"], CARD["srocc_all_weights_one"]), abs=2e-3)
    assert min(found) > srocc(untrained("embedded"), ladder) + 0.1
    assert (shipped().weights[0] >= 0).all()
