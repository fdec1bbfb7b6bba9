"""The denoiser that ships as a prior: it does what its card says, on images that its training did not see."""

import json
from importlib.resources import files

import pytest
import torch

from imharness.components.registry import installed
from imharness.data import ImageSet, generator
from imharness.errors import ContractError
from imharness.training import TrainingContext
from imharness_reconstruction.denoiser import shipped
from imharness_reconstruction.trainings import embedded_prior

CPU = torch.device("cpu")
TRAINING = embedded_prior.EmbeddedPriorTraining()


@pytest.fixture(scope="module")
def data() -> dict[str, ImageSet]:
    return {role: installed().one("dataset", label).build(CPU) for role, label in TRAINING.datasets().items()}


@pytest.mark.parametrize("role", ["digits", "photographs"])
def test_its_card_says_what_it_gains_on_images_that_it_has_not_seen(data: dict[str, ImageSet], role: str) -> None:
    assert not {*data[role].columns["source"]} & {*data[f"test {role}"].columns["source"]}
    before, after = embedded_prior._gain(shipped(CPU), embedded_prior._all(data[f"test {role}"]))
    card = json.loads((files("imharness_reconstruction") / "weights" / "embedded-prior.json").read_text())
    assert card["training"]["version"] == TRAINING.info.version
    assert (card[f"{role}_psnr_before"], card[f"{role}_psnr_after"]) == pytest.approx((before, after), abs=0.02)
    assert after - before >= embedded_prior.MARGIN


def test_a_network_that_gains_too_little_is_refused(data: dict[str, ImageSet], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_prior, "STEPS", 2)

    def loop(components: object, steps: int, step, *, every: int) -> None:
        for number in range(steps):
            step(number)

    with pytest.raises(ContractError, match=r"held-out digits from 15\.\d+ to .* and must gain 4 dB"):
        TRAINING.build(CPU)(TrainingContext(data, {}, generator(0), loop))
