"""`imharness.score`: the scores that `harness score` prints, for arrays; errors and suspicious images are named."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

import imharness as ih
from imharness.cli import cli
from imharness.errors import ContractError, Unavailable, UsageError
from imharness.notebook.score import score


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(40, 200, (18, 3, 40, 40), dtype=np.uint8)


@pytest.mark.parametrize("metric", ["embedded-cnn", "lpips[net=embedded,variant=scratch]", "ssim-uniform7"])
def test_it_gives_what_the_command_prints(metric: str, pixels: np.ndarray, tmp_path: Path) -> None:
    names = [f"{i:02}.png" for i in range(len(pixels))]
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / name)
    alone = metric == "embedded-cnn"
    against = [] if alone else ["--reference", str(tmp_path / names[0])]
    result = CliRunner().invoke(cli, ["score", metric, *against, str(tmp_path), "--json"], catch_exceptions=False)
    printed = [next(iter(row["scores"].values())) for row in json.loads(result.output)["images"]]
    reference = {} if alone else {"reference": pixels[0]}
    scores = score(metric, pixels, **reference)
    assert scores.dtype == np.float32
    assert scores.tolist() == printed
    as_floats = torch.from_numpy(pixels.astype(np.float32) / 255)
    assert score(metric, as_floats, **reference).tolist() == printed


def test_a_metric_of_sets_gives_one_number(monkeypatch: pytest.MonkeyPatch, pixels: np.ndarray) -> None:
    from imharness.contracts.distribution_metric import DistributionMetric
    from imharness.contracts.metric import MetricInfo

    class Means(DistributionMetric):
        """Distance of mean images."""

        info = MetricInfo(id="acme/means", version="1", higher_means="worse_quality")

        def build(self, device):
            return lambda images, reference: float((images.mean(dim=0) - reference.mean(dim=0)).abs().mean())

    scores = score(Means(), pixels, reference=pixels[:5])
    assert scores.shape == (1,)
    assert scores[0] == pytest.approx(np.abs(pixels.mean(0) - pixels[:5].mean(0)).mean() / 255, rel=1e-4)


@pytest.mark.parametrize(
    ("images", "further", "message"),
    [
        (np.zeros((2, 8, 8, 3)), {}, r"images must have shape \(n, 3, height, width\).*transpose"),
        (np.full((1, 3, 8, 8), 255.0), {}, "images must lie in .* Divide by 255"),
        (
            np.full((1, 3, 8, 8), -0.5),
            {},
            r"images must lie in .* which is \(x \+ 1\) / 2 for \[-1, 1\]",
        ),
        (np.full((1, 3, 8, 8), -0.1), {}, r"images must lie in .* \.clip\(0, 1\)"),
        (np.full((1, 3, 8, 8), 1 + 1e-7), {}, r"got 1\.0000001 to 1\.0000001\..* \.clip\(0, 1\)\.$"),
        (np.linspace(-1e-7, 0.9, 192).reshape(1, 3, 8, 8), {}, r"images must lie in .* \.clip\(0, 1\)\.$"),
        (np.linspace(-2.118, 2.64, 192).reshape(1, 3, 8, 8), {}, r"They look normalised: .* x \* std \+ mean"),
        (
            np.linspace(0, 2.2, 192).reshape(1, 3, 8, 8),
            {},
            r"look normalised: .* numbers of your transform\.$",
        ),
        (np.linspace(0, 65535, 192).reshape(1, 3, 8, 8), {}, r"Divide by the number that is white, which is 65535"),
        (np.full((1, 3, 8, 8), 65535, np.uint16), {}, r"got uint16 up to 65535; divide by .* 65535 for 16 bits"),
        (np.full((1, 3, 8, 8), -5, np.int16), {}, r"got int16 from -5 to -5; turn them into floats"),
        (np.ones((1, 3, 8, 8), bool), {}, r"got bool up to 1; if 1 is white, .* \.astype\(numpy\.float32\)"),
        (np.full((1, 3, 8, 8), 255, np.int64), {}, r"got int64 up to 255; .* bytes with \.astype\(numpy\.uint8\)"),
        (np.full((1, 3, 8, 8), np.nan), {}, "images holds NaN"),
        (np.zeros((1, 3, 8, 8), dtype=int), {}, "images must be floats in"),
        (np.ones((1, 3, 8, 8)), {}, "reference: harness/psnr compares with a reference"),
        (np.ones((1, 3, 8, 8)), {"reference": np.ones((3, 9, 8))}, "reference has 8x9 px and images 8x8 px"),
        (np.ones((3, 3, 8, 8)), {"reference": np.ones((2, 3, 8, 8))}, "reference must hold 1 or 3 images, got 2"),
    ],
)
def test_what_does_not_fit_is_named(images: np.ndarray, further: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        score("psnr", images, **further)


def test_other_faults_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pixels: np.ndarray) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    monkeypatch.setattr("imharness.contracts.assets.cache_folder", lambda: tmp_path)
    with pytest.raises(Unavailable, match=r"not on this machine; get it with: harness assets get \S+$"):
        score("lpips", pixels, reference=pixels)
    with pytest.raises(UsageError, match="scores an image alone"):
        score("embedded-cnn", pixels, reference=pixels)
    with pytest.raises(UsageError, match=r"no metric is called 'embedded-cn'.*Did you mean"):
        score("embedded-cn", pixels)


def test_a_metric_of_ones_own_scores_too(pixels: np.ndarray) -> None:
    bright = ih.metric(lambda images: images.mean(dim=(1, 2, 3)), bounds=(0, 1), higher_means="better_quality")
    assert ih.score(bright, pixels) == pytest.approx(pixels.mean(axis=(1, 2, 3)) / 255, rel=1e-5)
    far = ih.metric(
        lambda images, reference: (images - reference).abs().amax(dim=(1, 2, 3)),
        reference=True,
        higher_means="worse_quality",
    )
    assert ih.score(far, pixels, reference=pixels[0]).tolist() == ih.score("linf", pixels, reference=pixels[0]).tolist()
    with pytest.raises(UsageError, match="metric: 3 is not a metric"):
        ih.score(3, pixels)


def test_an_image_that_is_not_there_is_no_metric() -> None:
    result = CliRunner().invoke(cli, ["score", "psnr", "absent.png"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "image absent.png does not exist."


def test_what_is_no_batch_of_colours_is_named_with_what_to_do(tmp_path: Path) -> None:
    for images, message in (
        ("image.png", "expected an array of numbers, got the path 'image.png'; read the file first"),
        (tmp_path / "image.png", "got the path"),
        (np.zeros((2, 1, 8, 8)), r"These are grey; repeat them in three colours with \.repeat\(3, axis=1\)"),
        (np.zeros((2, 4, 8, 8)), r"leave it out with \[:, :3\]"),
    ):
        with pytest.raises(UsageError, match=message):
            ih.score("ssim-uniform7", images, reference=np.ones((2, 3, 8, 8)))


def test_one_mean_for_a_batch_says_how_to_get_a_score_for_each_row() -> None:
    mean = ih.metric(
        lambda images, references: (images - references).abs().mean(), reference=True, higher_means="worse_quality"
    )
    with pytest.raises(ContractError, match=r"expected 2 scores, .* reduction='none'"):  # and no warning of 3
        ih.score(mean, np.ones((2, 3, 8, 8)), np.ones((2, 3, 8, 8)))


def test_each_metric_of_ones_own_is_examined_whatever_the_others_declare(pixels: np.ndarray) -> None:
    facts = {"bounds": (0, 1), "higher_means": "better_quality"}
    honest = ih.metric(lambda images: images.mean(dim=(1, 2, 3)), **facts)
    mixing = ih.metric(lambda images: images.mean(dim=(1, 2, 3)) * 0.5 + images.mean() * 0.5, **facts)
    with warnings.catch_warnings(action="error"):
        ih.score(honest, pixels)
    for _ in range(2):  # the check runs once, and its warning comes with each call
        with pytest.warns(UserWarning, match="fails the check"):
            ih.score(mixing, pixels)


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (lambda pixels: (pixels / 255).round().astype(np.uint8), "nothing is above 1, .* floats in .* became bytes"),
        (lambda pixels: (pixels / 256).astype(np.uint8), "nothing is above 0, so that all is black; perhaps floats"),
        (lambda pixels: pixels / 255 / 255, "nothing is above 0.0031, .* divided by 255 twice"),
        (lambda pixels: torch.from_numpy(pixels / 255**2).half(), "nothing is above 0.0031, .* divided by 255 twice"),
    ],
)
def test_black_images_are_said(spoilt: Callable, why: str, pixels: np.ndarray) -> None:
    """Images that became bytes too early, or were divided twice, are nearly black, and their scores mean nothing."""
    with pytest.warns(UserWarning, match=f"^images: {why}"):
        ih.score("psnr", spoilt(pixels), pixels)
    with pytest.warns(UserWarning, match=f"^reference: {why}"):
        ih.score("psnr", pixels, spoilt(pixels))


def test_some_black_images_among_others_are_said(pixels: np.ndarray) -> None:
    """One image of a batch that was divided twice is named; one that is all black is not: it may be a black frame."""
    floats, whole = pixels / 255, pixels.copy()
    floats[1] /= 255
    whole[-1] = whole[-1] / 255
    for mixed, number in ((floats, 1), (whole, len(pixels) - 1)):
        with pytest.warns(UserWarning, match=f"in 1 of {len(pixels)} images, the first at position {number}, so"):
            ih.score("psnr", mixed, pixels)
    floats[1] = 0
    with warnings.catch_warnings(action="error"):  # a black frame
        ih.score("psnr", floats, pixels)


def test_masked_numbers_are_refused(pixels: np.ndarray) -> None:
    masked = np.ma.masked_array(pixels, mask=pixels > 100)  # type: ignore[no-untyped-call]
    with pytest.raises(UsageError, match="images has masked numbers, which would count as the others"):
        ih.score("psnr", masked, pixels)


def test_images_in_another_order_or_with_red_and_blue_exchanged_are_named() -> None:
    rng = np.random.default_rng(0)
    small = rng.integers(30, 220, (4, 3, 5, 5), dtype=np.uint8).astype(np.float32) / 255
    references = torch.nn.functional.interpolate(torch.from_numpy(small), (40, 40), mode="bilinear").numpy()
    images = (references + 0.02 * rng.standard_normal(references.shape)).clip(0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (score("psnr", images, references) > 30).all()
        score("psnr", images, references[0])
    with pytest.warns(UserWarning, match="4 of 4 images are much nearer to their references with red and blue exch"):
        score("psnr", images[:, ::-1].copy(), references)
    with pytest.warns(UserWarning, match="4 of 4 images look like another reference .* image 0 like reference 3, and"):
        score("psnr", np.roll(images, 1, axis=0), references)


def test_scores_far_outside_the_declared_range_are_named(pixels: np.ndarray, recwarn: pytest.WarningsRecorder) -> None:
    """The measure D is a share of the declared range, so a metric in percent must not declare [0, 1]."""
    for scale, named in ((1.0, False), (100.0, True)):
        metric = ih.metric(
            lambda images, scale=scale: scale * images.mean((1, 2, 3)),
            name="brightness",
            bounds=(0.0, 1.0),
            higher_means="better_quality",
        )
        ih.score(metric, pixels)
        sentences = [str(each.message) for each in recwarn.list if "far outside its range, 0 to 1" in str(each.message)]
        assert bool(sentences) is named
