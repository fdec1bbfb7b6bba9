"""Pictures of the perceptual track: what they are drawn from."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from matplotlib.figure import Figure
from safetensors.torch import save_file

from imharness.cli import cli
from imharness.contracts.randomness import generator
from imharness.errors import UsageError
from imharness.papers.published import find_table
from imharness_perceptual.plots import agreements, both_tests_scatter, disagreements, gallery, learnt_weights
from imharness_vision.lpips import published_heads


def test_disagreements_are_the_largest_gaps_of_ranks() -> None:
    first, second = np.array([1.0, 2, 3, 4, 5]), np.array([50.0, 20, 30, 40, 10])
    near, far = disagreements(first, second, 2)
    assert near.tolist() == [0]
    assert far.tolist() == [4]
    assert [len(indices) for indices in disagreements(first, 2 * first, 3)] == [0, 0]
    with pytest.raises(UsageError, match="two images"):
        disagreements(first[:1], second[:1], 1)


def test_agreements_are_near_or_far_by_both() -> None:
    first, second = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 1, 5, 3, 4])
    near, far = agreements(first, second, 1)
    assert (near.tolist(), far.tolist()) == ([0], [4])
    assert [indices.tolist() for indices in agreements(first, 2 * first, 2)] == [[0, 1], [4, 3]]


def test_published_weights_have_the_shares_of_zeros_that_the_paper_prints(tmp_path: Path) -> None:
    """Of the 64, 192, 384, 256 and 256 channels of AlexNet: 51, 137, 218, 119 and 71 in release 0.0."""
    heads = published_heads("alex", "0.0")
    shares = learnt_weights({f"weights.{i}": head.numpy() for i, head in enumerate(heads)}, tmp_path / "w.svg")
    printed = [row.values[0].value for row in find_table("perceptual/figure-10").rows]
    assert [round(100 * share, 1) for share in shares.values()] == printed == [79.7, 71.4, 56.8, 46.5, 27.7]
    assert [round(share * len(head)) for share, head in zip(shares.values(), heads, strict=True)] == [
        51,
        137,
        218,
        119,
        71,
    ]
    assert sum(map(len, heads)) == 1152


def test_weights_are_drawn_by_layer_with_their_zeros(tmp_path: Path, figures: list[Figure]) -> None:
    weights = {"weights.0": np.array([0.0, 1, 0, 2]), "weights.10": np.ones(3), "backbone.x": np.ones(2)}
    assert learnt_weights(weights, tmp_path / "w.svg") == {"weights.0": 0.5, "weights.10": 0.0}
    panels = [(axis.get_title(), axis.lines[0].get_ydata().tolist()) for axis in figures[0].axes]
    assert panels == [("layer 0: 50% zero", [2, 1, 0, 0]), ("layer 10: 0% zero", [1, 1, 1])]
    with pytest.raises(UsageError, match="no weights of channels"):
        learnt_weights({"backbone.x": np.ones(2)}, tmp_path / "w.svg")


def test_commands_draw_from_a_store(tmp_path: Path, no_site: None) -> None:
    store = tmp_path / "store"
    one = ["--dataset", "severity-ladder[size=64]", "--metric", "mse", "--metric", "linf", "--attack", "square"]
    run = ["run", "--track", "perceptual", *one, "--limit", "21", "--workers", "0", "--store", str(store)]
    assert CliRunner().invoke(cli, [*run, "--site", str(tmp_path / "site")]).exit_code == 0
    picture = tmp_path / "d.png"
    words = ["perceptual", "disagreements", "mse", "linf", "--store", str(store), "--out", str(picture)]
    result = CliRunner().invoke(cli, [*words, "--images", "2"])
    assert result.exit_code == 0, result.output
    assert picture.stat().st_size > 10_000
    missing = CliRunner().invoke(cli, ["perceptual", "disagreements", "mse", "mae", *words[4:]])
    assert "no distances of harness/mae" in str(missing.exception)
    untested = CliRunner().invoke(cli, ["perceptual", "tests", "--store", str(store), "--out", str(picture)])
    assert "with both tests" in str(untested.exception)
    save_file({"weights.0": torch.tensor([0.0, 1.0])}, tmp_path / "w.safetensors")
    words = ["perceptual", "weights", str(tmp_path / "w.safetensors"), "--out", str(tmp_path / "w.svg")]
    assert "50.0% zero" in CliRunner().invoke(cli, words).output
    published = ["perceptual", "weights", "alex", "--lpips-release", "0.0", "--out", str(tmp_path / "w.svg")]
    assert "weights.0: 79.7% zero" in CliRunner().invoke(cli, published).output
    unknown = CliRunner().invoke(cli, ["perceptual", "weights", "alec", *words[3:]])
    assert "alec is neither a file nor one of alex, vgg, squeeze" in str(unknown.exception)


def test_both_tests_are_drawn_as_points(tmp_path: Path, figures: list[Figure]) -> None:
    both_tests_scatter({"harness/a": (0.7, 0.5), "harness/b": (0.6, 0.4)}, tmp_path / "t.svg")
    (axis,) = figures[0].axes
    assert [points.get_offsets().tolist() for points in axis.collections] == [[[0.7, 0.5]], [[0.6, 0.4]]]
    assert [(name.get_text(), name.xy) for name in axis.texts] == [("a", (0.7, 0.5)), ("b", (0.6, 0.4))]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("2AFC agreement", "JND mAP")


def test_a_gallery_has_each_reference_above_its_image(tmp_path: Path, figures: list[Figure]) -> None:
    references, images = torch.rand(2, 2, 3, 4, 5, generator=generator(0)).unbind()
    gallery([("few", references[:1], images[:1], ["p"]), ("all", references, images, ["q", "r"])], tmp_path / "g.png")
    grid = np.array(figures[0].axes).reshape(4, 2)
    for line, column, image in (
        (0, 0, references[0]),
        (1, 0, images[0]),
        *((2, index, references[index]) for index in (0, 1)),
        *((3, index, images[index]) for index in (0, 1)),
    ):
        (drawn,) = grid[line, column].images
        np.testing.assert_array_equal(drawn.get_array(), image.permute(1, 2, 0))
    assert not any(grid[line, 1].images for line in (0, 1))
    titles = [axis.get_title(loc="left") or axis.get_title() for axis in grid.flat]
    assert titles == ["few", "", "p", "", "all", "", "q", "r"]
