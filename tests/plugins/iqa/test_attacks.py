"""Attacks on a real network and real photographs: stronger than noise, within budget, reproducible."""

import pytest
import torch

from harness.api import AttackRecipe, FittedAttack, Unavailable
from harness.randomness import ImageRng, generator
from harness.registry import installed
from harness.running.checks import check_budget
from harness.running.target import MetricTarget
from harness_iqa.attacks.korhonen import activity
from harness_iqa.attacks.madc import Madc
from harness_iqa.attacks.nes import Nes
from harness_iqa.attacks.one_pixel import OnePixel
from harness_iqa.attacks.patch_rs import PatchRs
from harness_iqa.attacks.ssah import low_frequencies
from harness_iqa.tiles import laid

CPU = torch.device("cpu")
ATTACKS = [e.component for e in installed().entries.values() if isinstance(e.component, AttackRecipe)]
SMALL = {"queries": 400, "steps": 10, "pairs": 10, "population": 30, "generations": 9}
SMALL |= {"tile": 64, "epochs": 60, "width": 4, "depth": 3}
pytestmark = pytest.mark.usefixtures("assets_at_hand")


@pytest.fixture(scope="module")
def photographs() -> torch.Tensor:
    data = installed().one("dataset", "severity-ladder[severities=[2],size=64]").build(CPU)
    return data.load([0, 1, 5, 6])


def target(images: torch.Tensor, attack: AttackRecipe, counted: bool = True) -> MetricTarget:
    metric = installed().one("metric", "embedded-residual")
    white = attack.info.access == "white_box"
    budget = attack.budget().queries if counted else None
    return MetricTarget(metric.build(CPU), metric.bounds, images=len(images), differentiable=white, budget=budget)


def attacked(attack: AttackRecipe, photographs: torch.Tensor) -> tuple[torch.Tensor, MetricTarget]:
    if isinstance(attack, FittedAttack):
        training = target(photographs[:1], attack, counted=False)
        fitted = attack.fit(photographs, training, generator(0), lambda done, total: None)
        perturb = attack.build(CPU, fitted)
    else:
        perturb = attack.build(CPU)
    window = target(photographs, attack)
    return perturb(photographs, window, ImageRng(range(len(photographs)))), window


@pytest.mark.parametrize("attack", [pytest.param(a, id=a.label) for a in ATTACKS])
def test_an_attack_beats_noise_of_its_size_keeps_its_budget_and_is_reproducible(attack, photographs) -> None:
    try:
        attack.require()
    except Unavailable as error:
        pytest.skip(str(error))
    fields = type(attack).model_fields
    attack = attack.at("medium").with_parameters(**{k: v for k, v in SMALL.items() if k in fields})
    found, window = attacked(attack, photographs)
    check_budget(attack, photographs, found)
    assert torch.equal(found, attacked(attack, photographs)[0])
    declared = attack.budget().queries
    assert declared is None or window.queries.tolist() == [declared] * len(photographs)
    score = installed().one("metric", "embedded-residual").build(CPU)
    size = (found - photographs).abs().amax(dim=(1, 2, 3), keepdim=True)
    signs = 2 * torch.randint(0, 2, photographs.shape, generator=generator(1)) - 1
    noise = (photographs + size * signs).clamp(0, 1)
    with torch.no_grad():
        gain, chance = (score(x) - score(photographs) for x in (found, noise))
    assert (gain > chance).all(), (gain, chance)
    assert gain.mean() > 0 or attack.info.norm == "unrestricted"


def test_the_activity_map_is_that_of_each_image_and_flat_ones_are_active_everywhere(photographs) -> None:
    together = activity(photographs)
    torch.testing.assert_close(together, torch.cat([activity(photo[None]) for photo in photographs]))
    assert together.amax(dim=(1, 2, 3)).tolist() == [1.0] * len(photographs)
    assert (activity(torch.full((1, 3, 8, 8), 0.3)) == 1).all()
    edge = torch.zeros(1, 3, 17, 17)
    edge[..., 9:] = 1
    assert torch.nonzero(activity(edge)[0, 0, 8]).flatten().tolist() == list(range(6, 12))


def test_the_low_band_is_the_mean_of_blocks() -> None:
    images = torch.rand(2, 3, 5, 6, generator=generator(0))
    low = low_frequencies(images)
    assert low.shape == (2, 3, 6, 6)
    torch.testing.assert_close(low[:, :, 0, 0], images[:, :, :2, :2].mean(dim=(2, 3)))
    torch.testing.assert_close(low_frequencies(low), low)


def test_madc_stays_within_its_error_and_never_past_it(photographs) -> None:
    attack = Madc(learning_rate=0.02, rmse=5 / 255)
    found, _ = attacked(attack, photographs)
    errors = (found - photographs).square().mean(dim=(1, 2, 3)).sqrt()
    assert (errors <= 5 / 255 + 1e-6).all()
    assert (errors > 4.5 / 255).all()


def test_nes_estimates_the_gradient_of_a_linear_score() -> None:
    weights = torch.randn(3, 8, 8, generator=generator(3))
    images = torch.full((2, 3, 16, 16), 0.5)
    window = MetricTarget(
        lambda x: (x * weights.repeat(1, 2, 2)).sum(dim=(1, 2, 3)), (0, 1), images=2, differentiable=False
    )
    attack = Nes(eps=0.5, steps=1, pairs=1000, tile=8, rate=0.1, sigma=0.001)
    step = attack.build(CPU)(images, window, ImageRng([1, 2])) - images
    expected = laid(0.1 * weights / weights.norm(), images)
    cosine = torch.nn.functional.cosine_similarity(step.flatten(1), expected.flatten()[None])
    assert (cosine > 0.9).all()
    assert step[:, :, :8, :8].flatten(1).norm(dim=1) == pytest.approx([0.1, 0.1], rel=1e-3)


def test_patch_rs_changes_one_square_of_pure_colours(photographs) -> None:
    attack = PatchRs(area=50, queries=300)
    assert [attack.changed(q) for q in (1, 2, 7, 31)] == [5, 3, 2, 1]
    found, _ = attacked(attack, photographs)
    for before, after in zip(photographs, found, strict=True):
        rows, columns = torch.nonzero((before != after).any(dim=0), as_tuple=True)
        assert int(rows.max() - rows.min()) < attack.side == 8
        assert int(columns.max() - columns.min()) < attack.side
        assert set(after[:, rows, columns].flatten().tolist()) <= {0.0, 1.0}


def test_one_pixel_finds_the_best_place_and_colour_of_a_score_that_is_known() -> None:
    place = torch.linspace(0, 1, 12)[:, None] * torch.linspace(0, 1, 10)[None]
    images = torch.zeros(2, 3, 12, 10)
    window = MetricTarget(lambda x: (x * place).sum(dim=(1, 2, 3)), (0, 3), images=2, differentiable=False)
    attack = OnePixel(pixels=1, population=60, generations=40)
    found = attack.build(CPU)(images, window, ImageRng([1, 2]))
    assert ((found > 0).any(dim=1).flatten(1).sum(dim=1) <= 1).all()
    assert (window(found) > 0.9 * 3).all()
    assert window.queries.tolist() == [60 * 41 + 1] * 2
