"""Attacks on a real network and real photographs: stronger than noise, within budget, reproducible."""

import heapq
import itertools

import pytest
import torch

from imharness.components.registry import installed
from imharness.contracts.attack import check_budget
from imharness.contracts.randomness import ImageRng, generator
from imharness.errors import Unavailable
from imharness.images import BaseAttack, FittedAttack
from imharness.running.target import MetricTarget, storable
from imharness_iqa.attacks.apgd import Apgd
from imharness_iqa.attacks.korhonen import Korhonen, activity
from imharness_iqa.attacks.madc import Madc
from imharness_iqa.attacks.nes import Nes
from imharness_iqa.attacks.one_pixel import OnePixel
from imharness_iqa.attacks.parsimonious import Parsimonious, all_blocks
from imharness_iqa.attacks.patch_rs import PatchRs
from imharness_iqa.attacks.square import Square
from imharness_iqa.attacks.ssah import low_frequencies
from imharness_iqa.attacks.stadv import StAdv, roughness, warped
from imharness_iqa.tiles import laid
from imharness_iqa.unet import UNet

CPU = torch.device("cpu")
ATTACKS = [e.component for e in installed().entries.values() if isinstance(e.component, BaseAttack)]
# Parameters with which attacks are quick, where they have them.
SMALL = {"queries": 120, "steps": 10, "pairs": 10, "population": 20, "generations": 9}
SMALL |= {"tile": 64, "epochs": 40, "width": 4, "depth": 3, "pixels": 20}
pytestmark = pytest.mark.usefixtures("assets_at_hand")


@pytest.fixture(scope="module")
def photographs() -> torch.Tensor:
    data = installed().one("dataset", "severity-ladder[severities=[2],size=64]").build(CPU)
    return data.load([0, 1, 5, 6])


def target(images: torch.Tensor, attack: BaseAttack, counted: bool = True) -> MetricTarget:
    metric = installed().one("metric", "embedded-cnn")
    white = attack.info.access == "white_box"
    budget = attack.budget().queries if counted else None
    return MetricTarget(metric.build(CPU), metric.bounds, images=len(images), differentiable=white, budget=budget)


def attacked(attack: BaseAttack, photographs: torch.Tensor) -> tuple[torch.Tensor, MetricTarget]:
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
    photographs = photographs[::3]  # two of different scenes; all that is asserted is of each image
    attacked_images, window = attacked(attack, photographs)
    check_budget(attack, photographs, attacked_images)
    assert torch.equal(attacked_images, attacked(attack, photographs)[0])
    declared = attack.budget().queries
    assert declared is None or window.queries.tolist() == [declared] * len(photographs)
    score = installed().one("metric", "embedded-cnn").build(CPU)
    size = (attacked_images - photographs).abs().amax(dim=(1, 2, 3), keepdim=True)
    signs = 2 * torch.randint(0, 2, photographs.shape, generator=generator(1)) - 1
    noise = (photographs + size * signs).clamp(0, 1)
    with torch.no_grad():
        gain, chance = (score(x) - score(photographs) for x in (attacked_images, noise))
    if not attack.info.raises:
        assert (gain != 0).all()
        return
    assert (gain > chance).all(), (gain, chance)
    assert gain.mean() > 0 or attack.info.norm == "unrestricted"


@pytest.mark.parametrize(
    "attack",
    [
        Square(queries=40),
        PatchRs(area=16, queries=40),
        OnePixel(population=6, generations=3),
        Parsimonious(queries=40),
        Apgd(),
        StAdv(),
    ],
    ids=lambda attack: attack.label,
)
def test_an_attack_that_keeps_the_best_falls_back_to_the_clean_image(attack, photographs) -> None:
    def score(x: torch.Tensor) -> torch.Tensor:
        return -(x - photographs.repeat_interleave(len(x) // 4, dim=0)).square().sum(dim=(1, 2, 3))

    white, declared = attack.info.access == "white_box", attack.budget().queries
    window = MetricTarget(score, (-1, 0), images=4, differentiable=white, budget=declared)
    images = attack.build(CPU)(photographs, window, ImageRng(range(4)))
    torch.testing.assert_close(images, photographs, rtol=0, atol=1e-5)
    assert window.queries.tolist() == [declared] * 4


def test_the_activity_map_is_that_of_each_image_and_flat_ones_are_active_everywhere(photographs) -> None:
    together = activity(photographs)
    torch.testing.assert_close(together, torch.cat([activity(photo[None]) for photo in photographs]))
    assert together.amax(dim=(1, 2, 3)).tolist() == [1.0] * len(photographs)
    assert (activity(torch.full((1, 3, 8, 8), 0.3)) == 1).all()
    edge = torch.zeros(1, 3, 17, 17)
    edge[..., 9:] = 1
    assert torch.nonzero(activity(edge)[0, 0, 8]).flatten().tolist() == list(range(6, 12))


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_korhonens_steps_are_small_where_the_map_brings_the_gradient_to_adams_epsilon(spread: float) -> None:
    image = torch.full((1, 3, 32, 32), 0.5)
    image[..., :16] += 0.1 * torch.rand(1, 3, 32, 16, generator=generator(0))
    image[..., 16:] += 0.001 * torch.rand(1, 3, 32, 16, generator=generator(1))
    slope = 2e-6  # of the score over its range
    window = MetricTarget(lambda x: spread * slope * x.sum(dim=(1, 2, 3)), (0, spread), images=1, differentiable=True)
    changed = Korhonen(learning_rate=0.01, iterations=1).build(CPU)(image, window, ImageRng([0]))
    masked = slope * activity(image) / 255
    torch.testing.assert_close(
        changed - image, (0.01 * masked / (masked + 1e-8)).expand_as(image), rtol=1e-3, atol=1e-6
    )


def test_the_low_band_is_the_mean_of_blocks() -> None:
    images = torch.rand(2, 3, 5, 6, generator=generator(0))
    low = low_frequencies(images)
    assert low.shape == (2, 3, 6, 6)
    torch.testing.assert_close(low[:, :, 0, 0], images[:, :, :2, :2].mean(dim=(2, 3)))
    torch.testing.assert_close(low_frequencies(low), low)


def test_madc_stays_within_its_error_and_never_past_it(photographs) -> None:
    attack = Madc(learning_rate=0.02, rmse=5 / 255)
    changed, _ = attacked(attack, photographs)
    errors = (changed - photographs).square().mean(dim=(1, 2, 3)).sqrt()
    assert (errors <= 5 / 255 + 1e-6).all()
    assert (errors > 4.5 / 255).all()


def test_nes_estimates_the_gradient_of_a_linear_score() -> None:
    weights = torch.randn(3, 8, 8, generator=generator(3))
    images = torch.full((2, 3, 16, 16), 128 / 255)
    window = MetricTarget(
        lambda x: (x * weights.repeat(1, 2, 2)).sum(dim=(1, 2, 3)), (0, 1), images=2, differentiable=False
    )
    attack = Nes(eps=0.5, steps=1, pairs=1000, tile=8, rate=0.1, sigma=4 / 255)
    step = attack.build(CPU)(images, window, ImageRng([1, 2])) - images
    expected = laid(0.1 * weights / weights.norm(), images)
    cosine = torch.nn.functional.cosine_similarity(step.flatten(1), expected.flatten()[None])
    assert (cosine > 0.9).all()
    assert step[:, :, :8, :8].flatten(1).norm(dim=1) == pytest.approx([0.1, 0.1], rel=1e-3)


def test_patch_rs_changes_one_square_of_pure_colours(photographs) -> None:
    attack = PatchRs(area=50, queries=300)
    # Sides of the squares, px, that change at these queries.
    assert [attack.changed(q) for q in (1, 2, 7, 31)] == [5, 3, 2, 1]
    photographs = photographs[::2]
    changed, _ = attacked(attack.with_parameters(queries=100), photographs)
    for before, after in zip(photographs, changed, strict=True):
        rows, columns = torch.nonzero((before != after).any(dim=0), as_tuple=True)
        assert int(rows.max() - rows.min()) < attack.side == 8
        assert int(columns.max() - columns.min()) < attack.side
        assert set(after[:, rows, columns].flatten().tolist()) <= {0.0, 1.0}


def test_one_pixel_finds_the_best_place_and_colour_of_a_score_that_is_known() -> None:
    weights = torch.linspace(0, 1, 12)[:, None] * torch.linspace(0, 1, 10)[None]
    images = torch.zeros(2, 3, 12, 10)
    window = MetricTarget(lambda x: (x * weights).sum(dim=(1, 2, 3)), (0, 3), images=2, differentiable=False)
    attack = OnePixel(pixels=1, population=60, generations=40)
    changed = attack.build(CPU)(images, window, ImageRng([1, 2]))
    assert ((changed > 0).any(dim=1).flatten(1).sum(dim=1) <= 1).all()
    assert (window(changed) > 0.9 * 3).all()
    # First candidates and 40 generations of 60, the clean image, and the query of this test.
    assert window.queries.tolist() == [60 * 41 + 2] * 2


def slow_parsimonious(image, score, batches, epsilon: float, queries: int) -> torch.Tensor:
    """Lazy greedy insertion and deletion for one image with a heap, as the algorithm is written down."""
    positive, query_count, best = torch.zeros(3, 256, 256, dtype=torch.bool), 1, (float(score(image[None])), image)

    def flipped(signs: torch.Tensor, block: tuple[int, ...]) -> torch.Tensor:
        channel, top, left_edge, side = block
        signs = signs.clone()
        signs[channel, top : top + side, left_edge : left_edge + side] ^= True
        return signs

    def ask(signs: torch.Tensor) -> float:
        nonlocal query_count, best
        if query_count == queries:
            raise StopIteration
        query_count += 1
        grid = torch.nn.functional.interpolate(2 * signs[None].float() - 1, image.shape[1:], mode="nearest")[0]
        candidate = (image + epsilon * grid).clamp(0, 1)
        value = float(score(candidate[None]))
        if value > best[0]:
            best = (value, candidate)
        return value

    def search(blocks: list[tuple[int, ...]], inserting: bool, current: float) -> float:
        nonlocal positive
        heap: list[tuple[float, int]] = []
        for i, block in enumerate(blocks):
            if bool(positive[block[0], block[1], block[2]]) != inserting:
                heapq.heappush(heap, (current - ask(flipped(positive, block)), i))
        if heap:
            loss, i = heapq.heappop(heap)
            current, positive = current - loss, flipped(positive, blocks[i])
        while heap:
            _, i = heapq.heappop(heap)
            value = ask(flipped(positive, blocks[i]))
            if heap and current - value > heap[0][0]:
                heapq.heappush(heap, (current - value, i))
            elif value < current or (not inserting and value == current):
                break
            else:
                current, positive = value, flipped(positive, blocks[i])
        return current

    try:
        for batch in itertools.cycle(batches):
            blocks = [tuple(block) for block in batch.tolist()]
            current = ask(positive)
            search(blocks, False, search(blocks, True, current))
    except StopIteration:
        return best[1]
    raise AssertionError("unreachable")


def test_parsimonious_is_the_lazy_greedy_search_with_a_heap_image_by_image() -> None:
    images, linear, mean = (torch.rand(3, 3, 40, 52, generator=generator(seed)) for seed in (0, 1, 2))

    def score(x: torch.Tensor) -> torch.Tensor:
        x = storable(x)
        wave = ((x * (2 * linear[0] - 1)).sum(dim=(1, 2, 3)) * 10).sin()
        return wave + 3 * (x * (2 * mean[0] - 1)).mean(dim=(1, 2, 3))

    attack = Parsimonious(queries=300)
    window = MetricTarget(score, (0, 1), images=3, differentiable=False, budget=300)
    results = attack.build(CPU)(images, window, ImageRng([1, 2, 3]))
    blocks = all_blocks(ImageRng([1, 2, 3]), 300)
    for image, image_blocks, result in zip(images, blocks, results, strict=True):
        assert torch.equal(slow_parsimonious(image, score, image_blocks, attack.epsilon, 300), result)
    assert window.queries.tolist() == [300] * 3


def test_a_flow_moves_pixels_and_a_smooth_one_is_not_rough() -> None:
    image = torch.arange(20.0).view(1, 1, 4, 5).expand(1, 3, 4, 5) / 20
    right = torch.zeros(1, 2, 4, 5)
    right[:, 1] = 1
    torch.testing.assert_close(warped(image, torch.zeros_like(right)), image)
    torch.testing.assert_close(warped(image, right)[..., :-1], image[..., 1:])
    single = torch.zeros(1, 2, 5, 5)
    single[0, 0, 2, 2] = 3.0
    # Four diagonal neighbours, each counted from both sides, with a squared difference of 3 ** 2.
    assert float(roughness(single)) == pytest.approx(2 * 4 * 9)


def test_facpas_unet_keeps_odd_sizes_and_its_reach() -> None:
    network = UNet(width=4, depth=5)
    output = network(torch.rand(2, 3, 37, 50, generator=generator(0)))
    assert output.shape == (2, 3, 37, 50)
    assert output.abs().max() <= 1
