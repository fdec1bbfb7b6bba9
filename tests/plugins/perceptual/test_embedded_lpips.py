"""The weights that ship: on photographs they never saw, they beat weights of 1 and an untrained backbone."""

from pathlib import Path

import numpy as np
import torch

from imharness.components.registry import installed
from imharness.statistics.correlation import correlate
from imharness_perceptual.metrics.lpips import SHIPPED
from imharness_vision.lpips import FeatureDistance, untrained
from imharness_vision.weights import weights_in

CPU = torch.device("cpu")


def shipped() -> FeatureDistance:
    network = untrained("embedded")
    network.load_state_dict({name: t.float() for name, t in weights_in(Path(str(SHIPPED))).items()})
    return network.eval()


@torch.no_grad()
def srocc(network: FeatureDistance, dataset: str) -> float:
    ladder = installed().one("dataset", dataset).build(CPU)
    place = {name: i for i, name in enumerate(ladder.names)}
    reference = [place[str(name)] for name in ladder.columns["reference"]]
    severity = np.asarray(ladder.columns["severity"])
    parts = np.array_split(np.arange(len(ladder)), 8)
    distance = torch.cat([network(ladder.load(list(p)), ladder.load([reference[i] for i in p])) for p in parts]).numpy()
    return correlate(distance[severity > 0], severity[severity > 0], "spearman").value


def test_on_held_out_photographs_training_beats_an_untrained_backbone() -> None:
    ladder = "severity-ladder[size=64,per_photograph=3]"
    assert srocc(shipped(), ladder) > srocc(untrained("embedded"), ladder) + 0.05


def test_on_kodak_trained_weights_beat_weights_of_one(shared_data: Path) -> None:
    trained, uniform = shipped(), shipped()
    for weight in uniform.weights:
        weight.data.fill_(1)
    ladder = f"folder-ladder[folder={shared_data / 'kodak'},size=64]"
    assert srocc(trained, ladder) > srocc(uniform, ladder) > srocc(untrained("embedded"), ladder) + 0.1
    assert (shipped().weights[0] >= 0).all()
