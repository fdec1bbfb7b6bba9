"""Pictures of the perceptual track: what they are drawn from."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from imharness.cli import cli
from imharness.errors import UsageError
from imharness_perceptual.plots import both_tests_scatter, disagreements, learnt_weights


def test_disagreements_are_the_largest_gaps_of_ranks() -> None:
    first, second = np.array([1.0, 2, 3, 4, 5]), np.array([50.0, 20, 30, 40, 10])
    near, far = disagreements(first, second, 2)
    assert near.tolist() == [0]
    assert far.tolist() == [4]
    assert [len(part) for part in disagreements(first, 2 * first, 3)] == [0, 0]
    with pytest.raises(UsageError, match="two images"):
        disagreements(first[:1], second[:1], 1)


def test_weights_are_drawn_by_layer_with_their_zeros(tmp_path: Path) -> None:
    weights = {"weights.0": np.array([0.0, 1, 0, 2]), "weights.10": np.ones(3), "backbone.x": np.ones(2)}
    assert learnt_weights(weights, tmp_path / "w.svg") == {"weights.0": 0.5, "weights.10": 0.0}
    assert (tmp_path / "w.svg").stat().st_size > 1000
    with pytest.raises(UsageError, match="no weights of channels"):
        learnt_weights({"backbone.x": np.ones(2)}, tmp_path / "w.svg")


def test_commands_draw_from_a_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    one = ["--dataset", "severity-ladder[size=64]", "--metric", "mse", "--metric", "linf", "--attack", "square"]
    run = ["run", "--track", "perceptual", *one, "--limit", "21", "--workers", "0", "--store", str(store)]
    assert CliRunner().invoke(cli, [*run, "--site", str(tmp_path / "site")]).exit_code == 0
    picture = tmp_path / "d.png"
    words = ["perceptual", "disagreements", "mse", "linf", "--store", str(store), "--out", str(picture)]
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 0, found.output
    assert picture.stat().st_size > 10_000
    missing = CliRunner().invoke(cli, ["perceptual", "disagreements", "mse", "mae", *words[4:]])
    assert "no distances of harness/mae" in str(missing.exception)
    untested = CliRunner().invoke(cli, ["perceptual", "tests", "--store", str(store), "--out", str(picture)])
    assert "with both tests" in str(untested.exception)
    save_file({"weights.0": torch.tensor([0.0, 1.0])}, tmp_path / "w.safetensors")
    words = ["perceptual", "weights", str(tmp_path / "w.safetensors"), "--out", str(tmp_path / "w.svg")]
    assert "50.0% zero" in CliRunner().invoke(cli, words).output


def test_both_tests_are_drawn_as_points(tmp_path: Path) -> None:
    both_tests_scatter({"harness/a": (0.7, 0.5), "harness/b": (0.6, 0.4)}, tmp_path / "t.svg")
    assert (tmp_path / "t.svg").stat().st_size > 1000
