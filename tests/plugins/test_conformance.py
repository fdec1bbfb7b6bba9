"""Every installed component keeps its contract, whatever it computes."""

import pytest
import torch

from harness.contracts.attack import AttackRecipe, FittedAttack
from harness.contracts.component import Component
from harness.contracts.defense import Purification
from harness.contracts.metric import FullReferenceMetric, NoReferenceMetric
from harness.errors import Unavailable
from harness.randomness import ImageRng, generator
from harness.registry import installed
from harness.running.checks import check_budget, check_images, check_scores
from harness.running.target import MetricTarget

pytestmark = pytest.mark.usefixtures("assets_at_hand")

CPU = torch.device("cpu")
FEW = {"queries": 60, "steps": 5, "population": 12, "tile": 64, "epochs": 20, "width": 4, "depth": 3}
"""Enough to see an attack at work."""
SIDE = 176
"""Large enough for MS-SSIM's five scales."""


def of(contract: type[Component]) -> list:
    found = [e.component for e in installed().entries.values() if isinstance(e.component, contract)]
    assert found
    return [pytest.param(c, id=c.label) for c in found]


def images(n: int, side: int = SIDE) -> torch.Tensor:
    smooth = torch.rand(n, 3, 8, 8, generator=generator(n))
    noise = 0.05 * torch.rand(n, 3, side, side, generator=generator(n + 100))
    return (torch.nn.functional.interpolate(smooth, (side, side), mode="bicubic") + noise).clamp(0, 1)


def here(component: Component) -> None:
    try:
        component.require()
    except Unavailable as error:
        pytest.skip(str(error))


def built(component: Component):
    here(component)
    return component.build(CPU)


def test_all_plugins_load() -> None:
    assert installed().failures == []


@pytest.mark.parametrize(
    "component", [pytest.param(e.component, id=e.component.label) for e in installed().entries.values()]
)
def test_a_component_is_data_and_says_what_it_is(component: Component) -> None:
    assert type(component).model_validate(component.ref().parameters) == component
    assert component.summary.endswith(".")
    for name, field in type(component).model_fields.items():
        assert field.description, f"{component.label}: field {name} has no description"


@pytest.mark.parametrize("metric", of(FullReferenceMetric))
def test_a_full_reference_metric_scores_each_image_alone_and_prefers_the_identical(metric) -> None:
    score = built(metric)
    clean = images(3)
    noisy = (clean + 0.2 * torch.randn(clean.shape, generator=generator(1))).clamp(0, 1)
    with torch.no_grad():
        together = check_scores(score(noisy, clean), 3, metric.label)
        alone = torch.cat([score(noisy[i : i + 1], clean[i : i + 1]) for i in range(3)])
        same = check_scores(score(clean, clean), 3, metric.label)
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    assert (metric.closeness * same > metric.closeness * together).all()


@pytest.mark.parametrize("metric", of(NoReferenceMetric))
def test_a_no_reference_metric_scores_each_image_alone_with_a_gradient(metric) -> None:
    score = built(metric)
    batch = images(3, 96).requires_grad_(metric.info.differentiable)
    together = score(batch)
    check_scores(together, 3, metric.label)
    alone = torch.cat([score(batch[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)
    lower, upper = metric.bounds
    assert lower < upper
    if metric.info.differentiable:
        (gradient,) = torch.autograd.grad(together.sum(), batch)
        assert (gradient.flatten(1).norm(dim=1) > 0).all()


@pytest.mark.parametrize("defense", of(Purification))
@pytest.mark.parametrize("side", [96, 75, 12])
def test_a_purification_treats_each_image_alone(defense, side: int) -> None:
    if "size" in type(defense).model_fields:
        defense = defense.with_parameters(size=max(8, side // 2))
    purify = built(defense)
    batch, seeds = images(3, side), [5, 6, 7]
    together = check_images(purify(batch, ImageRng(seeds)), 3, defense.label)
    alone = torch.cat([purify(batch[i : i + 1], ImageRng(seeds[i : i + 1])) for i in range(3)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(purify(batch, ImageRng(seeds)), together)
    other = check_images(purify(batch, ImageRng([8, 9, 10])), 3, defense.label)
    assert torch.equal(other, together) != defense.info.random
    if defense.info.differentiable:
        leaf = batch.clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(purify(leaf, ImageRng(seeds)).sum(), leaf)
        assert (gradient != 0).any()


@pytest.mark.parametrize("attack", of(AttackRecipe))
@pytest.mark.parametrize("strength", ["weak", "strong"])
def test_an_attack_raises_the_score_within_its_budget_whatever_the_batch(attack, strength: str) -> None:
    here(attack)
    fields = type(attack).model_fields
    attack = attack.with_parameters(**{k: v for k, v in FEW.items() if k in fields}).at(strength)
    metric = installed().one("metric", "embedded-cnn")
    score, batch, seeds = metric.build(CPU), images(2, 64), [1, 2]

    def target(n: int, counted: bool = True) -> MetricTarget:
        white = attack.info.access == "white_box"
        budget = attack.budget().queries if counted else None
        return MetricTarget(score, metric.bounds, images=n, differentiable=white, budget=budget)

    if isinstance(attack, FittedAttack):
        fitted = attack.fit(images(16, 64), target(1, counted=False), generator(0), lambda done, total: None)
        perturb = attack.build(CPU, fitted)
    else:
        perturb = attack.build(CPU)
    attacked = check_images(perturb(batch, target(2), ImageRng(seeds)), 2, attack.label, tuple(batch.shape[1:]))
    check_budget(attack, batch, attacked)
    parts = [perturb(batch[i : i + 1], target(1), ImageRng(seeds[i : i + 1])) for i in range(2)]
    with torch.no_grad():
        gain = score(attacked) - score(batch)
        assert gain.mean() > 0 or attack.info.norm == "unrestricted"
        torch.testing.assert_close(score(torch.cat(parts)) - score(batch), gain, rtol=0.05, atol=0.05)
