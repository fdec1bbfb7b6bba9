"""The weights that ship: each network does its work on photographs that its training did not see."""

import json
import tomllib
from importlib.resources import files

import pytest
import torch

from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator
from imharness.contracts.weight_training import TrainingContext
from imharness.data import Images
from imharness.errors import ContractError
from imharness_iqa.networks import ConvQuality, trained
from imharness_iqa.restoration_training import CropTraining
from imharness_iqa.trainings.embedded_denoiser import EmbeddedDenoiserTraining

CPU = torch.device("cpu")
TRAININGS = [r for r in installed().of_kind("weight-training") if isinstance(r, CropTraining)]
WEIGHTS = files("imharness_iqa.weights")
MEGABYTE = 1_000_000


def held_out(label: str = "severity-ladder[severities=[],size=96]"):
    return installed().one("dataset", label).build(CPU)


def psnr(images: Images, reference: Images) -> float:
    return float(-10 * (images - reference).square().mean((1, 2, 3)).log10().mean())


@pytest.mark.parametrize("training", TRAININGS, ids=lambda r: r.label)
def test_a_network_gains_on_its_target_and_its_card_says_how_much(training: CropTraining) -> None:
    stem = training.info.id.partition("/")[2]
    before, after = training.gain(trained(training.fresh(), stem, CPU), held_out(training.datasets()["test"]))
    assert after - before >= training.margin
    card = json.loads((WEIGHTS / f"{stem}.json").read_text())
    assert card["training"]["version"] == training.info.version
    assert (card["test_psnr_before"], card["test_psnr_after"]) == pytest.approx((before, after), abs=0.02)


def test_every_restorer_that_ships_has_such_a_training() -> None:
    assert {r.label for r in TRAININGS} == {
        f"harness/embedded-{name}" for name in ("colorizer", "ddpm", "denoiser", "disco", "upscaler")
    }


def test_no_photograph_is_trained_on_and_tested_with() -> None:
    for training in TRAININGS:
        seen, new = (
            {name.rsplit("-", 1)[0] for name in held_out(training.datasets()[role]).columns["reference"]}
            for role in ("train", "test")
        )
        assert seen
        assert new
        assert not seen & new


@pytest.fixture(scope="module")
def attack() -> tuple[Images, Images, torch.nn.Module]:
    """Clean images of held-out photographs, sign-gradient attacks on them of up to 8/255, and the attacked metric."""
    clean, metric = held_out().load([0, 1, 2, 3]), trained(ConvQuality(), "embedded-cnn", CPU)
    attacked, reach = clean, 8 / 255
    for _ in range(5):
        leaf = attacked.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(metric(leaf).sum(), leaf)
        attacked = clean + (leaf.detach() + reach / 3 * gradient.sign() - clean).clamp(-reach, reach)
        attacked = attacked.clamp(0, 1)
    return clean, attacked, metric


def after_diffpure(attack: tuple[Images, Images, torch.nn.Module], fields: dict[str, object]) -> tuple[float, float]:
    """Return how much nearer DiffPure brings attacked images, in dB, and the share of the gain that it leaves."""
    purify = installed().one("defense", f"diffpure[{','.join(f'{k}={v}' for k, v in fields.items())}]").build(CPU)
    clean, attacked, metric = attack
    with torch.no_grad():
        defended, defended_clean = (purify(images, ImageRng([1, 2, 3, 4])) for images in (attacked, clean))
        gain = metric(defended).mean() - metric(defended_clean).mean()
        gained = metric(attacked).mean() - metric(clean).mean()
    return psnr(defended, clean) - psnr(attacked, clean), float(gain / gained)


def test_diffpure_brings_attacked_images_nearer_as_the_embedded_profile_sets_it(attack) -> None:
    profile = tomllib.loads((files("imharness_iqa.profiles") / "embedded.toml").read_text())["tracks"]["harness/iqa"]
    nearer, remaining = after_diffpure(
        attack, {"backbone": "embedded"} | profile["parameters"].get("harness/diffpure", {})
    )
    assert nearer >= 0.5
    assert remaining <= 0.95


def test_diffpure_with_more_noise_takes_back_a_quarter_of_what_the_score_gained(attack) -> None:
    _, remaining = after_diffpure(attack, {"backbone": "embedded", "steps": 8})
    assert remaining <= 0.75


class Untrained(EmbeddedDenoiserTraining):
    steps = 2


def test_a_network_that_gains_too_little_is_refused() -> None:
    images = held_out()
    context = TrainingContext(
        {"train": images, "test": images}, {}, generator(0), lambda datasets, steps, step, *, every: step(0)
    )
    with pytest.raises(ContractError, match=r"must gain 2.5 dB; no weights were written"):
        Untrained().build(CPU)(context)


def test_all_weights_together_are_small() -> None:
    sizes = {file.name: len(file.read_bytes()) for file in WEIGHTS.iterdir()}
    assert max(sizes.values()) < MEGABYTE
    assert sum(sizes.values()) < 9 * MEGABYTE
