"""The CNN-based distortions: designs that cover the published choices, the networks that ship, and their pairs."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng
from imharness.errors import Unavailable, UsageError
from imharness_embedded.cnn_pairs import SHIPPED, SHIPPED_NETWORKS
from imharness_embedded.pairs import MILD, STRONG
from imharness_perceptual.trainings.cnn_distortions import LEAST
from imharness_vision.distortions.networks import (
    CORRUPTIONS,
    NOISE,
    PUBLISHED,
    Autoencoder,
    corrupted,
    design,
    networks_in,
    redrawn,
)

CPU = torch.device("cpu")
CARD = json.loads(SHIPPED.with_suffix(".json").read_text())


def photographs(count: int = 8) -> torch.Tensor:
    data = installed().one("dataset", "severity-ladder[per_photograph=1,severities=[],size=64]").build(CPU)
    return data.load(list(range(count)))


def test_the_96_designs_cover_every_choice_of_table_2() -> None:
    designs = [design(number) for number in range(PUBLISHED)]
    assert {each.corruption for each in designs} == set(CORRUPTIONS)
    assert {each.upsampling for each in designs} == {"nearest", "bilinear", "transposed"}
    assert {each.normalisation for each in designs} == {"none", "batch", "instance"}
    for name in ("layers", "skips", "dropped", "highest_skip", "first_stride", "first_channels", "judge_layers"):
        assert len({getattr(each, name) for each in designs}) > 1, name
    assert len(set(designs)) == PUBLISHED
    assert designs[7] == design(7)


@pytest.mark.parametrize("number", [0, 3, 6, 41])
def test_a_network_keeps_the_size_and_is_the_same_for_one_image_and_many(number: int) -> None:
    network = Autoencoder(design(number)).eval().requires_grad_(False)
    images = torch.rand(3, 3, 37, 50, generator=torch.Generator().manual_seed(1))
    output = network(images)
    assert output.shape == images.shape
    assert 0 <= float(output.min()) <= float(output.max()) <= 1
    torch.testing.assert_close(output[1:2], network(images[1:2]), rtol=1e-4, atol=1e-5)


@functools.cache
def untrained(number: int) -> Autoencoder:
    return Autoencoder(design(number)).eval().requires_grad_(False)


@pytest.mark.parametrize("side", [1, 16, 17])
def test_every_design_takes_images_that_its_layers_make_as_small_as_they_can(side: int) -> None:
    for number in range(PUBLISHED):
        assert untrained(number)(torch.rand(1, 3, side, side)).shape == (1, 3, side, side)


def test_corruptions_are_what_their_names_say() -> None:
    images, normal = photographs(), torch.randn(8, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    assert corrupted(images, "null", normal) is images
    grey = corrupted(images, "color-removal", normal)
    torch.testing.assert_close(grey[:, 0], grey[:, 2])
    torch.testing.assert_close(grey[:, 0], images.mean(dim=1))
    flat = torch.full((8, 3, 64, 64), 0.5)
    for kind in ("white-noise", "pink-noise"):
        assert float((corrupted(flat, kind, normal) - flat).std()) == pytest.approx(NOISE, rel=0.05)
    small = corrupted(images, "downsampling", normal)
    assert float((small - images).square().mean()) > 1e-4
    torch.testing.assert_close(corrupted(flat, "downsampling", normal), flat)


def test_severity_is_the_share_of_the_way_to_the_output() -> None:
    network, images = networks_in(SHIPPED, 2, CPU)[1], photographs(3)
    severity = torch.tensor([0.0, 0.5, 1.0])
    with torch.no_grad():
        result = redrawn(images, network, severity, ImageRng([5, 6, 7]))
        corrupted_images = corrupted(images, network.design.corruption, ImageRng([5, 6, 7]).normal(3, 64, 64))
        output = network(corrupted_images)
    torch.testing.assert_close(result[0], images[0])
    torch.testing.assert_close(result[1], (images[1] + output[1]) / 2)
    torch.testing.assert_close(result[2], output[2])


def test_the_networks_that_ship_are_small_and_undo_some_of_their_corruption() -> None:
    """The card's figures are measured again; each network shows the image, and none gives it back as it was."""
    assert SHIPPED.stat().st_size < 2 * 2**20
    clean = (
        installed().one("dataset", "severity-ladder[per_photograph=4,severities=[]]").build(CPU).load(list(range(32)))
    )
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    for number, network in enumerate(networks_in(SHIPPED, SHIPPED_NETWORKS, CPU)):
        with torch.no_grad():
            restored = network(corrupted(clean, network.design.corruption, noise))
        psnr = float(-10 * (restored - clean).square().mean((1, 2, 3)).log10().mean())
        assert psnr == pytest.approx(CARD[f"psnr_{number}"], abs=0.05)
        assert LEAST < psnr < 40


def test_pairs_have_two_networks_and_the_milder_one_is_mostly_nearer() -> None:
    component = installed().one("dataset", "cnn-pairs[size=32,per_photograph=4]")
    data = component.build(CPU)
    assert set(data.columns["family"].tolist()) == {"cnn-based"}
    assert "not human" in data.proxy
    groups = [group for group in data.columns["group"].tolist() if group][::2]
    first, second = (component._networks(groups, strength) for strength in (MILD, STRONG))
    assert (first != second).all()
    assert set(np.unique(first)) == set(range(SHIPPED_NETWORKS))
    images = data.load(list(range(len(data)))).view(-1, 3, 3, 32, 32)
    mild, strong = ((images[:, i] - images[:, 0]).square().flatten(1).mean(dim=1) for i in (1, 2))
    assert float((mild < strong).float().mean()) > 0.8


def test_training_writes_networks_that_pairs_take_and_a_file_without_them_names_the_command(tmp_path: Path) -> None:
    ladder = "harness/severity-ladder[per_photograph=2,severities=[],size=32{}]"
    sets = ["--train", ladder.format(",split=train"), "--test", ladder.format("")]
    words = ["train", "cnn-distortions", "--networks", "2", "--steps", "15", "--batch-size", "4", "--side", "32", *sets]
    result = CliRunner().invoke(cli, [*words, "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    card, file = json.loads(result.output)["card"], tmp_path / "cnn-distortions.safetensors"
    assert card["psnr_1"] > LEAST
    start = Autoencoder(design(0)).state_dict()
    assert not torch.equal(networks_in(file, 2, CPU)[0].state_dict()["last.weight"], start["last.weight"])
    pairs = installed().one("dataset", f"cnn-pairs[size=32,per_photograph=1,networks=2,weights={file}]")
    pairs.require()
    assert len(pairs.build(CPU)) == 27
    assert pairs.content() != installed().one("dataset", "cnn-pairs").content()
    command = "harness train cnn-distortions --networks"
    for address in (f"cnn-pairs[networks=3,weights={file}]", "cnn-pairs[weights=nowhere.safetensors]"):
        with pytest.raises(Unavailable, match=command):
            installed().one("dataset", address).require()
    with pytest.raises(UsageError, match=f"8 networks ship.*{command} 96"):
        installed().one("dataset", "cnn-pairs[networks=96]")
