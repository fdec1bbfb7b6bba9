"""DP-SGD: gradients of single rows against a loop, noise of known size, and epsilon against published numbers."""

import numpy as np
import pytest
import scipy
import torch
import torch.nn.functional as F
from torch import nn

from imharness.components.registry import installed
from imharness.contracts.randomness import generator
from imharness.errors import HarnessError
from imharness.membership import TrainingData, TrainingPlan
from imharness_membership import accounting
from imharness_membership.accounting import divergence, epsilon_after_choosing, epsilon_of
from imharness_membership.defenses import dp_sgd
from imharness_membership.defenses.dp_sgd import DpSgd, clipped_sum

CPU = torch.device("cpu")
SHAPE, CLASSES = (1, 8, 8), 3
NETWORKS = ["mlp[hidden=[8]]", "cnn[width=2]"]


def network(name: str) -> torch.nn.Module:
    return installed().one("model", name).build(CPU)(SHAPE, CLASSES, generator(1))


def rows(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(count, *SHAPE, generator=generator(2)), torch.randint(CLASSES, (count,), generator=generator(3))


def gradient_of(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(F.cross_entropy(model(x[None]), y[None]), list(model.parameters())))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("at_once", [1, 2**25])
def test_gradients_are_clipped_row_by_row(name: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over rows is the reference; the clipping norm is the median of the norms, so half of the rows are clipped.

    `at_once` bounds how much is computed at once: one row, or all rows.
    """
    monkeypatch.setattr(dp_sgd, "AT_ONCE", at_once)
    model, (x, y) = network(name), rows(9)
    single = [gradient_of(model, *row) for row in zip(x, y, strict=True)]
    norms = [torch.cat([g.flatten() for g in one]).norm() for one in single]
    clip = float(torch.stack(norms).median())
    wanted = [
        sum(g[k] * min(1.0, clip / float(n)) for g, n in zip(single, norms, strict=True)) for k in range(len(single[0]))
    ]
    gradients = clipped_sum(model, x, y, clip)
    assert list(gradients) == [key for key, _ in model.named_parameters()]
    for ours, theirs in zip(gradients.values(), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_no_row_moves_the_sum_by_more_than_the_clipping_norm(name: str) -> None:
    model, (x, y) = network(name), rows(6)
    whole, less = clipped_sum(model, x, y, 0.01), clipped_sum(model, x[1:], y[1:], 0.01)
    moved = torch.cat([(a - b).flatten() for a, b in zip(whole.values(), less.values(), strict=True)])
    assert float(moved.norm()) == pytest.approx(0.01, rel=1e-3)


def test_frozen_weights_have_no_gradient_and_stay() -> None:
    model, (x, y) = network(NETWORKS[0]), rows(4)
    frozen = next(model.parameters()).requires_grad_(False)
    before = frozen.clone()
    assert len(clipped_sum(model, x, y, 1.0)) == len(list(model.parameters())) - 1
    DpSgd().build(CPU)(
        model, TrainingData(x, y, x, y), TrainingPlan(2, 4, 1e-2), generator(4), lambda done, total: None
    )
    assert torch.equal(frozen, before)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_empty_batch_adds_noise(name: str) -> None:
    """Of 400 steps on batches of one expected row, many are empty; each step adds noise of a known size.

    A step moves each parameter by noise 10, times clipping norm 1, times learning rate 1e-3: a variance of 1e-4.
    """
    features, labels = torch.rand(400, *SHAPE, generator=generator(0)), torch.zeros(400, dtype=torch.int64)
    data = TrainingData(features, labels, features[:1], labels[:1])
    model = network(name)
    before = [p.detach().clone() for p in model.parameters()]
    plan = TrainingPlan(1, 1, 1e-3, "sgd")
    model = DpSgd(noise=10.0).build(CPU)(model, data, plan, generator(3), lambda done, total: None)
    assert all(torch.isfinite(p).all() for p in model.parameters())
    moved = float(sum((p.detach() - q).square().sum() for p, q in zip(model.parameters(), before, strict=True)))
    assert moved == pytest.approx(400 * sum(p.numel() for p in model.parameters()) * 1e-4, rel=0.15)


def test_without_noise_and_clipping_whole_batches_give_plain_descent() -> None:
    """Every gradient is longer than the clipping norm of 1e-6, and the noise is a hundredth of that norm.

    A step is thus the mean of unit gradients, times 1e-6, times the learning rate 1e3.
    """
    model, (x, y) = network(NETWORKS[0]), rows(50)
    single = [torch.cat([g.flatten() for g in gradient_of(model, *row)]) for row in zip(x, y, strict=True)]
    wanted = torch.stack([g / g.norm() for g in single]).mean(dim=0)
    before = torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    guard = DpSgd(noise=0.01, clip=1e-6, batch_size=50, epochs=1, learning_rate=1e3)
    guard.build(CPU)(model, TrainingData(x, y, x, y), TrainingPlan(9, 5, 1.0, "sgd"), generator(4), lambda d, t: None)
    moved = (before - torch.nn.utils.parameters_to_vector(model.parameters()).detach()) / 1e-3
    assert float((moved - wanted).norm() / wanted.norm()) < 0.05


def test_its_own_settings_count_before_the_plans() -> None:
    plan, seen = TrainingPlan(3, 5, 1e-3), list[tuple[int, int]]()
    x, y = rows(20)
    defense = DpSgd(epochs=2, batch_size=20)
    defense.build(CPU)(
        network(NETWORKS[0]), TrainingData(x, y, x, y), plan, generator(0), lambda *step: seen.append(step)
    )
    assert seen == [(1, 2), (2, 2)]
    assert defense.promises(plan, 20) == DpSgd().promises(TrainingPlan(2, 20, 1e-3), 20)


def test_networks_that_mix_rows_are_refused() -> None:
    mixing = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3), torch.nn.BatchNorm1d(3))
    x, y = rows(4)
    with pytest.raises(HarnessError, match="BatchNorm1d mixes the rows of a batch"):
        DpSgd().build(CPU)(mixing, TrainingData(x, y, x, y), TrainingPlan(1, 4, 1e-3), generator(0), lambda d, t: None)


def by_the_older_step(noise: float, rate: float, steps: int, delta: float = 1e-5) -> float:
    """Epsilon by Mironov, "Renyi Differential Privacy" (2017), proposition 3, which the publications below used."""
    orders = accounting.ORDERS[accounting.ORDERS < 256]
    return float(min(steps * divergence(noise, rate, a) + np.log(1 / delta) / (a - 1) for a in orders))


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "epsilon"),
    [
        (4.0, 0.01, 10_000, 1.26),
        (1.3, 256 / 60_000, 3_515, 1.19),
        (1.1, 256 / 60_000, 14_062, 3.01),
        (0.7, 256 / 60_000, 10_546, 7.10),
    ],
    ids=["Abadi et al., section 3.2", *(f"TensorFlow Privacy, MNIST, noise {noise}" for noise in (1.3, 1.1, 0.7))],
)
def test_epsilon_is_the_published_one(noise: float, rate: float, steps: int, epsilon: float) -> None:
    older_epsilon = by_the_older_step(noise, rate, steps)
    assert older_epsilon == pytest.approx(epsilon, abs=0.011)
    assert 0.7 * older_epsilon < epsilon_of(noise, rate, steps, 1e-5) < older_epsilon


@pytest.mark.parametrize("noise", [0.05, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("rate", [0.01, 0.4, 0.95])
@pytest.mark.parametrize("order", [2, 3, 20])
def test_divergences_of_whole_orders_have_a_closed_form(noise: float, rate: float, order: int) -> None:
    """Mironov, Talwar & Zhang, section 3.3: a sum over binomial coefficients."""
    k = np.arange(order + 1)
    terms = np.log(scipy.special.comb(order, k)) + k * np.log(rate) + (order - k) * np.log1p(-rate)
    wanted = scipy.special.logsumexp(terms + k * (k - 1) / (2 * noise**2)) / (order - 1)
    assert divergence(noise, rate, order) == pytest.approx(wanted, rel=1e-8)


def test_divergences_grow_with_the_order_and_end_in_those_of_whole_batches() -> None:
    orders = accounting.ORDERS[accounting.ORDERS < 50]
    assert (np.diff([divergence(1.0, 0.3, a) for a in orders]) > 0).all()
    for order in (1.01, 1.5, 30.0):
        assert divergence(0.8, 1 - 1e-12, order) == pytest.approx(divergence(0.8, 1, order), rel=1e-6)


@pytest.mark.parametrize(("noise", "steps"), [(0.3, 60), (1.0, 40), (5.0, 3)])
def test_epsilon_of_whole_batches_is_close_to_the_exact_one(noise: float, steps: int) -> None:
    """Steps on all rows are one Gaussian mechanism; Balle & Wang (2018), theorem 8, has its exact delta."""
    mu = np.sqrt(steps) / noise

    def delta(epsilon: float) -> float:
        high, low = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return float(scipy.stats.norm.cdf(high) - np.exp(epsilon + scipy.stats.norm.logcdf(low)))

    exact = scipy.optimize.brentq(lambda epsilon: delta(epsilon) - 1e-5, 0, 1e4)
    computed = epsilon_of(noise, 1, steps, 1e-5)
    assert exact <= computed < 1.12 * exact


def test_more_noise_is_more_private_and_more_epochs_are_less() -> None:
    plan = TrainingPlan(20, 64, 1e-3)
    epsilon, delta = DpSgd(noise=1.3).promises(plan, 299)
    assert delta == 1e-5
    assert DpSgd(noise=2.6).promises(plan, 299)[0] < epsilon
    assert DpSgd(noise=1.3, epochs=40).promises(plan, 299)[0] > epsilon


@pytest.mark.extra
@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.3, 64 / 299, 100), (0.7, 0.02, 500), (0.3, 1.0, 60)])
def test_epsilon_is_that_of_opacus(noise: float, rate: float, steps: int) -> None:
    """Opacus has orders from 1.1 up, among which fewer are close to the best one."""
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(noise, rate, steps)]
    orders = [1 + 0.02 * k for k in range(1, 500)]
    theirs = float(accountant.get_epsilon(1e-5, alphas=orders))
    assert epsilon_of(noise, rate, steps, 1e-5) == pytest.approx(theirs, rel=0.01)


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NETWORKS)
def test_clipped_gradients_are_those_of_opacus(name: str) -> None:
    from opacus import GradSampleModule

    model, (x, y) = network(name), rows(12)
    ours = clipped_sum(model, x, y, 0.1)
    private = GradSampleModule(model, loss_reduction="sum")
    F.cross_entropy(private(x), y, reduction="sum").backward()
    single = [p.grad_sample for p in model.parameters()]
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in single]).norm(dim=0)
    for gradient, g in zip(ours.values(), single, strict=True):
        torch.testing.assert_close(
            gradient, torch.einsum("n,n...->...", (0.1 / norms).clamp(max=1), g), rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize(("noise", "trials"), [(1.0, 28.0), (3.0, 28.0), (2.0, 4.0)])
def test_the_best_of_several_trainings_has_at_most_the_epsilon_after_choosing(noise: float, trials: float) -> None:
    """Each training answers with a Gaussian number, and the largest of geometrically many is published.

    Its density is that of one training times the derivative of the generating function of their number.
    """
    delta, x = 1e-5, np.linspace(-40, 40, 400_001)

    def density(shift: float) -> np.ndarray:
        share = 1 / trials
        one, below = scipy.stats.norm.pdf(x, shift, noise), scipy.stats.norm.cdf(x, shift, noise)
        return one * share / (1 - (1 - share) * below) ** 2

    with_row, without = density(1), density(0)
    promised = epsilon_after_choosing(noise, 1.0, 1, delta, trials)
    worst = max(
        np.trapezoid(np.maximum(p - np.exp(promised) * q, 0), x) for p, q in ((with_row, without), (without, with_row))
    )
    assert worst <= delta
    alone, published = (epsilon_of(noise, 1.0, steps, delta) for steps in (1, round(trials)))
    assert alone < promised < published
    lost = np.trapezoid(np.maximum(with_row - np.exp(alone / 2) * without, 0), x)
    assert lost > delta  # with half of one training's epsilon the integral is too large: it notices a wrong one


def test_one_training_costs_nothing_to_choose() -> None:
    assert epsilon_after_choosing(1.5, 0.1, 60, 1e-5, 1) == pytest.approx(epsilon_of(1.5, 0.1, 60, 1e-5), rel=1e-3)


def layers(kind: str) -> list[nn.Module]:
    """Return the layers of a network of this kind, for rows of shape (3, 4, 4)."""
    shared, tied = nn.Linear(4, 4), nn.Linear(4, 4)
    tied.weight = shared.weight
    return {
        "vectors": [nn.Flatten(), nn.Linear(3 * 16, 4), nn.Tanh(), nn.Linear(4, CLASSES)],
        "a layer twice": [nn.Flatten(), nn.Linear(3 * 16, 4), shared, nn.Tanh(), shared, nn.Linear(4, CLASSES)],
        "tied weights": [nn.Flatten(), nn.Linear(3 * 16, 4), shared, nn.Tanh(), tied, nn.Linear(4, CLASSES)],
        "no bias": [nn.Flatten(), nn.Linear(3 * 16, 4, bias=False), nn.ReLU(), nn.Linear(4, CLASSES)],
        "overwritten": [nn.Flatten(), nn.Linear(3 * 16, 4), nn.ReLU(inplace=True), nn.Linear(4, CLASSES)],
        "several vectors": [nn.Linear(4, 4), nn.Sigmoid(), nn.Flatten(), nn.Linear(3 * 16, CLASSES)],
        "flat later": [nn.Flatten(2), nn.Linear(16, 4), nn.Sigmoid(), nn.Flatten(), nn.Linear(3 * 4, CLASSES)],
    }[kind]


@pytest.mark.parametrize(
    "kind", ["vectors", "a layer twice", "tied weights", "no bias", "overwritten", "several vectors", "flat later"]
)
def test_networks_of_any_layers_have_each_row_clipped(kind: str) -> None:
    model = nn.Sequential(*layers(kind))
    x, y = torch.rand(5, 3, 4, 4, generator=generator(2)), torch.arange(5) % CLASSES
    single = [gradient_of(model, *row) for row in zip(x, y, strict=True)]
    norms = torch.stack([torch.cat([g.flatten() for g in one]).norm() for one in single])
    clip = float(norms.median())
    assert float(norms.max()) > clip > float(norms.min())
    for k, ours in enumerate(clipped_sum(model, x, y, clip).values()):
        wanted = sum(one[k] * min(1.0, clip / float(n)) for one, n in zip(single, norms, strict=True))
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-6)
