"""Certified defenses: the statistics, the closed form on a linear metric, and the promise itself under attack."""

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator
from imharness.errors import UsageError
from imharness_iqa.certifications.ms import Ms
from imharness_iqa.certifications.rs import Rs
from imharness_iqa.smoothing import classes_of, lower_confidence, order_statistics

CPU = torch.device("cpu")
SIDE = 16


@pytest.fixture(scope="module")
def photographs() -> torch.Tensor:
    data = installed().one("dataset", f"severity-ladder[severities=[1,3],size={SIDE}]").build(CPU)
    return data.load(list(range(20)))


@pytest.fixture(scope="module")
def metric():
    component = installed().one("metric", "embedded-cnn")
    network = component.build(CPU)
    return network, component.bounds


def test_the_confidence_bound_is_clopper_pearsons_and_holds() -> None:
    assert lower_confidence(np.array([0]), 1000)[0] == 0
    for hits in (1, 500, 999, 1000):
        bound = lower_confidence(np.array([hits]), 1000)[0]
        assert binom.sf(hits - 1, 1000, bound) == pytest.approx(0.001, rel=1e-9)
    bounds = lower_confidence(np.arange(1001), 1000)
    for share in (0.55, 0.7, 0.95):
        hits = np.random.default_rng(0).binomial(1000, share, 100_000)
        assert np.mean(bounds[hits] > share) <= 0.0012
    # The largest radius that 1000 samples certify with sigma 0.12.
    assert 0.12 * norm.ppf(lower_confidence(np.array([1000]), 1000)[0]) == pytest.approx(0.29559, abs=1e-5)


def test_the_order_statistics_enclose_the_quantiles_with_their_confidence() -> None:
    low, high = order_statistics(1000, 0.12, 0.05, 0.999)
    assert (low, high) == (293, 708)
    draws = np.random.default_rng(0).uniform(size=(20_000, 1000))
    draws.partition([low - 1, high - 2, high - 1], axis=1)  # puts these ranks where a sort would
    p = norm.cdf(0.05 / 0.12)
    assert np.mean(draws[:, high - 1] >= p) >= 0.9985
    assert np.mean(draws[:, high - 2] >= p) < 0.999
    assert np.mean(draws[:, low - 1] <= 1 - p) >= 0.9985
    with pytest.raises(UsageError, match="too few for radius 1"):
        order_statistics(50, 0.12, 1.0, 0.999)


def test_classes_are_ordered_with_one_more_at_each_end() -> None:
    scores = torch.tensor([-1.0, 0.0, 0.99, 1.0, 9.99, 10.0, 20.0])
    assert classes_of(scores, (0.0, 10.0), 10).tolist() == [0, 1, 1, 2, 10, 11, 11]


def test_on_a_linear_metric_the_radius_is_its_distance_to_the_boundary() -> None:
    weights = torch.randn(3, 8, 8, generator=generator(0))
    length = float(weights.norm())
    images = torch.full((4, 3, 8, 8), 0.5)
    distance = torch.tensor([0.05, 0.1, 0.15, 0.2])
    images = images - (distance / length)[:, None, None, None] * weights  # the score is 0 on the boundary

    def score(x: torch.Tensor) -> torch.Tensor:
        return ((x - 0.5) * weights).sum(dim=(1, 2, 3))

    smoothing = Rs(samples=20_000, sigma=0.1)
    raw = smoothing.smooth(CPU)(score, images, ImageRng(range(4)))
    certificate = smoothing.build(CPU)(raw, (0.0, 100.0 * length))
    assert not certificate.abstained.any()
    assert (certificate.radius <= distance).all()
    torch.testing.assert_close(certificate.radius, distance, rtol=0.08, atol=0.004)
    median = Ms(samples=20_000, sigma=0.1, epsilon=0.05)
    promise = median.build(CPU)(median.smooth(CPU)(score, images, ImageRng(range(4))), (0.0, 1.0))
    torch.testing.assert_close(promise.value, -distance * length, rtol=0.05, atol=0.02 * length)
    torch.testing.assert_close(promise.delta, torch.full((4,), 2 * 0.05 * length), rtol=0.1, atol=0.0)


def pushed(images: torch.Tensor, radius: torch.Tensor, score, sign: float, sigma: float) -> torch.Tensor:
    """Raise or lower the mean noisy score by normalised gradient steps inside a Euclidean ball around each image."""
    change = torch.zeros_like(images)
    noise = sigma * torch.randn(8, *images.shape, generator=generator(5))
    size = radius.view(-1, 1, 1, 1)
    for _ in range(8):
        leaf = change.clone().requires_grad_(True)
        value = score((images + leaf + noise).flatten(0, 1).clamp(0, 1)).sum()
        (gradient,) = torch.autograd.grad(sign * value, leaf)
        step = gradient / gradient.flatten(1).norm(dim=1).clamp(min=1e-12).view(-1, 1, 1, 1)
        change = change + 0.5 * size * step
        length = change.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        change = change * (size / length.clamp(min=1e-12)).clamp(max=1)
    return images + change


def test_no_attack_inside_the_radius_changes_the_class(photographs, metric) -> None:
    score, bounds = metric
    smoothing = Rs(classes=4, samples=200, selection=50)
    with torch.no_grad():
        certificate = smoothing.build(CPU)(smoothing.smooth(CPU)(score, photographs, ImageRng(range(20))), bounds)
    certain = ~certificate.abstained
    assert certain.sum() >= 10
    images, radii = photographs[certain], certificate.radius[certain]
    assert (radii > 0).all()
    pairs = violations = 0
    for share in (0.5, 1.0):  # shares of the radius
        for sign in (1.0, -1.0):
            attacked = pushed(images, share * radii, score, sign, smoothing.sigma)
            assert ((attacked - images).flatten(1).norm(dim=1) <= share * radii + 1e-5).all()
            with torch.no_grad():
                raw = smoothing.smooth(CPU)(score, attacked, ImageRng(range(100, 100 + len(images))))
            again = classes_of(raw, bounds, 4)[:, smoothing.selection :, 0].mode(dim=1).values
            before = classes_of(certificate.value[certain], bounds, 4)
            violations += int((again != before).sum())
            pairs += len(images)
    assert pairs >= 40
    assert violations == 0


def test_no_attack_inside_the_radius_moves_the_median_beyond_its_interval(photographs, metric) -> None:
    score, bounds = metric
    smoothing = Ms(samples=200, selection=20)
    with torch.no_grad():
        raw = smoothing.smooth(CPU)(score, photographs, ImageRng(range(20)))
    low, high = order_statistics(200, smoothing.sigma, smoothing.epsilon, smoothing.confidence)
    ordered = raw[:, smoothing.selection :, 0].sort(dim=1).values
    pairs = violations = 0
    for share in (0.5, 1.0):
        for sign in (1.0, -1.0):
            radii = torch.full((20,), share * smoothing.epsilon)
            attacked = pushed(photographs, radii, score, sign, smoothing.sigma)
            with torch.no_grad():
                moved = smoothing.build(CPU)(smoothing.smooth(CPU)(score, attacked, ImageRng(range(50, 70))), bounds)
            violations += int(((moved.value < ordered[:, low - 1]) | (moved.value > ordered[:, high - 1])).sum())
            pairs += 20
    assert pairs == 80
    assert violations == 0


def test_a_larger_sigma_gives_a_larger_radius_where_the_class_is_certain() -> None:
    scores = torch.zeros(1, 1100, 1)
    radii = [float(Rs(sigma=s).build(CPU)(scores, (1.0, 2.0)).radius) for s in (0.06, 0.12, 0.25)]
    assert radii == sorted(radii)
    assert radii[1] == pytest.approx(0.29559, abs=1e-5)


def test_certifications_that_agree_share_one_pass_and_votes_count_by_majority() -> None:
    registry = installed()
    assert Ms().noisy() == Rs(classes=3).noisy() == Rs()
    drs, dms = (registry.one("defense", f"{name}[backbone=embedded]") for name in ("drs", "dms"))
    assert dms.noisy() == drs.noisy()
    votes = torch.tensor([0.05, 0.95, 0.95]).expand(1, 1100, 3)
    assert float(Rs(votes=3).build(CPU)(votes, (0.0, 1.0)).value) == pytest.approx(0.95)


@pytest.mark.parametrize("name", ["drs", "ddrs", "dp"])
def test_a_denoiser_stands_between_noise_and_metric(name, photographs, monkeypatch) -> None:
    certification = installed().one("defense", f"{name}[backbone=embedded]")
    noise = certification.sigma * torch.randn(photographs.shape, generator=generator(1))
    streams = ImageRng(range(20))
    with torch.no_grad():
        cleaned = certification.denoiser(CPU)(photographs + noise, streams)
    assert 0 <= cleaned.min() <= cleaned.max() <= 1
    assert (cleaned - photographs).square().mean() < 0.75 * noise.square().mean()


def test_dncnn_is_the_published_one(shared_data, monkeypatch) -> None:
    from skimage.data import camera

    monkeypatch.setenv("HARNESS_ASSETS", str(shared_data))
    denoise = installed().one("defense", "drs").denoiser(CPU)
    grey = torch.tensor(camera()[100:228, 150:278].copy()).float().div(255).expand(1, 3, 128, 128)
    noisy = grey + 25 / 255 * torch.randn(grey.shape, generator=generator(0))
    with torch.no_grad():
        error = (denoise(noisy, ImageRng([0])) - grey).square().mean()
    assert -10 * torch.log10(error) > 28


@pytest.mark.parametrize("sigma", [0.12, 0.25])
def test_dncnn_denoises_stronger_noise_as_noise_of_its_own(shared_data, monkeypatch, sigma: float) -> None:
    from skimage.data import camera

    monkeypatch.setenv("HARNESS_ASSETS", str(shared_data))
    denoise = installed().one("defense", "drs").with_parameters(sigma=sigma).denoiser(CPU)
    plain = installed().one("defense", "drs").with_parameters(sigma=25 / 255).denoiser(CPU)
    grey = torch.tensor(camera()[100:172, 150:222].copy()).float().div(255).expand(1, 3, 72, 72)
    noisy = grey + sigma * torch.randn(grey.shape, generator=generator(0))
    with torch.no_grad():
        ours, theirs = ((one(noisy, ImageRng([0])) - grey).square().mean() for one in (denoise, plain))
    assert ours < 0.95 * theirs


def test_densepure_costs_two_passes_a_copy() -> None:
    voting, once = installed().one("defense", "dp"), installed().one("defense", "ddrs")
    assert voting.votes * voting.steps == round((82.13 - 11.08) / (39.80 - 11.08) - 0.5) == 2
    assert once.votes == 1


@pytest.mark.parametrize("name", ["rs", "drs[backbone=embedded]", "dp[backbone=embedded]"])
def test_the_batch_changes_no_noisy_score(name, photographs, metric) -> None:
    score, _ = metric
    smooth = installed().one("defense", name).with_parameters(selection=4, samples=33).smooth(CPU)
    with torch.no_grad():
        together = smooth(score, photographs[:5], ImageRng(range(5)))
        alone = torch.cat([smooth(score, photographs[i : i + 1], ImageRng([i])) for i in range(5)])
    assert together.shape[:2] == (5, 37)
    torch.testing.assert_close(together, alone, rtol=1e-3, atol=1e-3)
