"""Training of LPIPS: what is learnt in each variant, non-negative weights, and the metric that takes them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.contracts.randomness import generator
from imharness.errors import UsageError
from imharness_perceptual.stacked_kmeans import centres, stacked_kmeans
from imharness_perceptual.trainings.lpips import Choices, LpipsTraining, RankingNet, ranking_loss
from imharness_vision.lpips import dropped, untrained

CPU = torch.device("cpu")
PAIRS = "harness/distorted-pairs[per_photograph=1,size=32,split=train]"


def train(out: Path, *words: str) -> dict:
    """Train LPIPS for two epochs on few pairs by the command, and return the card of the weights."""
    sets = ["--train", PAIRS, "--test", "harness/distorted-pairs[per_photograph=2,size=32]"]
    run = [
        "train",
        "lpips",
        "--net",
        "embedded",
        *sets,
        "--epochs",
        "2",
        "--decay-epochs",
        "1",
        "--learning-rate",
        "0.01",
    ]
    result = CliRunner().invoke(cli, [*run, "--out", str(out), "--json", *words])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)["card"]


def test_scratch_learns_backbone_and_weights_and_the_metric_takes_them(tmp_path: Path) -> None:
    card = train(tmp_path, "--variant", "scratch")
    weights = load_file(tmp_path / "lpips.safetensors")
    start = untrained("embedded").state_dict()
    assert all(float(weights[f"weights.{i}"].min()) >= 0 for i in range(3))
    assert not torch.equal(weights["backbone.stages.0.0.weight"], start["backbone.stages.0.0.weight"])
    assert {"2afc_before", "2afc_train", "2afc_test", "zero_weights_0"} <= set(card)
    assert "2afc_people" not in card  # nobody was asked
    assert card["choices"] == 12
    metric = installed().one("metric", f"lpips[net=embedded,variant=scratch,weights={tmp_path / 'lpips.safetensors'}]")
    images = torch.rand(2, 3, 32, 32)
    assert metric.build(CPU)(images, images).tolist() == [0, 0]


def test_the_ranking_loss_asks_for_a_margin_in_the_direction_of_the_majority() -> None:
    """Of four choices, with a margin of .1: all people find image 1 nearer, and it is, by .3; none does, and image 0 is
    nearer by .05 only; people are split; 4 of 5 people find image 1 nearer, but image 0 is, by .2.
    """
    first, second = torch.tensor([0.5, 0.20, 0.5, 0.1]), torch.tensor([0.2, 0.25, 0.1, 0.3])
    loss = ranking_loss(first, second, torch.tensor([1.0, 0.0, 0.5, 0.8]), 0.1)
    assert float(loss) == pytest.approx((0 + 0.05 + 0 + 0.6 * 0.3) / 4)


def test_the_ranking_loss_trains_the_weights_of_the_channels_alone(tmp_path: Path) -> None:
    train(tmp_path, "--variant", "lin", "--loss", "ranking")
    weights, start = load_file(tmp_path / "lpips.safetensors"), untrained("embedded").state_dict()
    assert {name for name, t in start.items() if not torch.equal(weights[name], t)} == {
        f"weights.{i}" for i in range(3)
    }


def test_kmeans_fills_filters_with_what_a_layer_sees_and_every_channel_has_unit_variance(tmp_path: Path) -> None:
    card = train(tmp_path, "--variant", "kmeans")
    file = tmp_path / "lpips.safetensors"
    weights = load_file(file)
    assert all(bool((weights[f"weights.{i}"] == 1).all()) for i in range(3))
    assert {"2afc_before", "2afc_test", "images"} <= set(card)
    metric = installed().one("metric", f"lpips[net=embedded,variant=kmeans,weights={file}]")
    images = torch.rand(2, 3, 32, 32)
    assert metric.build(CPU)(images, images).tolist() == [0, 0]


def test_each_channel_has_unit_variance_and_a_small_mean_over_the_images_it_was_filled_from() -> None:
    network, images = untrained("embedded").requires_grad_(False), torch.rand(40, 3, 24, 24, generator=generator(3))
    stacked_kmeans(network.backbone, images, generator(1))
    seen = network.backbone.stages[0][0](images)
    for layer in (seen, network.backbone.stages[0][2](seen.relu())):
        torch.testing.assert_close(layer.std(dim=(0, 2, 3)), torch.ones(16), rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(layer.mean(dim=(0, 2, 3)), torch.full((16,), 0.1), rtol=1e-2, atol=1e-3)


def test_centres_of_patches_of_two_kinds_are_these_two_kinds() -> None:
    """Patches are +a, -a, +b or -b with a little noise, a and b orthogonal: two whitened directions, two centres."""
    rng = np.random.default_rng(0)
    a, b = np.array([3.0, 0, 0, 3, 0]), np.array([0, 2.0, -2, 0, 0])
    kinds = np.stack([a, -a, b, -b])[rng.integers(4, size=4000)]
    patches = kinds + rng.normal(0, 1e-4, (4000, 5))
    directions = centres(patches, 2, 0)
    inside = directions @ np.stack([a / np.linalg.norm(a), b / np.linalg.norm(b)]).T
    np.testing.assert_allclose(np.linalg.norm(inside, axis=1), np.linalg.norm(directions, axis=1), rtol=1e-3)


def test_kmeans_needs_more_patches_than_filters() -> None:
    with pytest.raises(UsageError, match="cannot fill 16 filters from 4 patches"):
        stacked_kmeans(untrained("embedded").requires_grad_(False).backbone, torch.rand(1, 3, 2, 2), generator(0))


def test_lin_leaves_the_backbone_as_it_was(tmp_path: Path) -> None:
    train(tmp_path, "--variant", "lin")
    weights, start = load_file(tmp_path / "lpips.safetensors"), untrained("embedded").state_dict()
    for name, tensor in start.items():
        same = torch.equal(weights[name], tensor)
        assert same == name.startswith("backbone."), name


def test_dropped_differences_keep_their_mean_and_come_from_the_stream() -> None:
    ones = torch.ones(1, 4, 100, 100)
    differences = dropped(ones, (0.5, generator(0)))
    assert set(differences.unique().tolist()) == {0.0, 2.0}
    assert float(differences.mean()) == pytest.approx(1, abs=0.02)
    assert torch.equal(differences, dropped(ones, (0.5, generator(0))))
    assert dropped(ones, None) is ones


def test_dropout_is_the_published_half_and_changes_what_is_learnt(tmp_path: Path) -> None:
    assert LpipsTraining().dropout == 0.5
    train(tmp_path / "half", "--variant", "lin")
    train(tmp_path / "none", "--variant", "lin", "--dropout", "0")
    half, none = (load_file(tmp_path / name / "lpips.safetensors")["weights.0"] for name in ("half", "none"))
    assert not torch.equal(half, none)


def test_choices_are_triplets_and_the_ranking_sees_which_is_nearer() -> None:
    choices = Choices(installed().one("dataset", PAIRS).build(CPU))
    assert len(choices) == 12
    reference, first, second = choices.load([0, 5], CPU)
    nearer = (first - reference).square().flatten(1).mean(dim=1) < (second - reference).square().flatten(1).mean(dim=1)
    assert nearer.all()
    assert choices.judge.tolist() == [0.0] * 12
    logits = RankingNet()(torch.tensor([0.1, 0.9]), torch.tensor([0.9, 0.1]))
    assert logits.shape == (2,)


def test_training_and_test_share_no_photograph(tmp_path: Path) -> None:
    same = "harness/distorted-pairs[per_photograph=1,size=32]"
    words = ["train", "lpips", "--net", "embedded", "--variant", "lin", "--out", str(tmp_path)]
    result = CliRunner().invoke(cli, [*words, "--train", same, "--test", "harness/distorted-pairs[size=32]"])
    assert "share 9 photographs" in f"{result.output}{result.exception}"
