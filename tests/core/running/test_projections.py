"""False gradients are distinguished from honest ones at random projections, and look-ups from what cleans images."""

import hashlib
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.blind.perceptual_cheats import Ripple

from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng
from imharness.running.projections import (
    ANSWERED,
    LEAST_OWN,
    LEAST_SCORE,
    UNEQUAL,
    Followed,
    follow,
    follow_scores,
    follow_steps,
    unequal_sums,
)
from imharness.running.target import storable, straight_through
from imharness.testing.samples import images as sample_images

CPU = torch.device("cpu")
ROWS, SIDE = 8, 48
Function = Callable[[torch.Tensor], torch.Tensor]


def with_gradient(forward: Function, back: Function) -> Function:
    """Return `forward` with `back` as its gradient."""

    class Claimed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, images: torch.Tensor) -> torch.Tensor:
            return forward(images)

        @staticmethod
        def backward(ctx: object, upstream: torch.Tensor) -> torch.Tensor:
            return back(upstream)

    return Claimed.apply


def followed(
    purify: Function, substitute: Function | None = None, *, own_gradient: bool, contrast: float = 0.9
) -> Followed:
    images = (0.95 - contrast * sample_images(ROWS, SIDE, SIDE, 3)).mul(255).round() / 255
    return follow(purify, substitute or purify, images, ImageRng(range(ROWS)), own_gradient=own_gradient)


@pytest.mark.parametrize("ghost", [0.005, 0.013, 0.03, 0.1])
@pytest.mark.parametrize("scale", [1.0, 1 / 0.013])
def test_a_mirror_whose_gradient_is_a_ghost_of_its_own_is_found(ghost: float, scale: float) -> None:
    mirror = with_gradient(lambda x: x.flip(3), lambda g: scale * (g + ghost * g.flip(3)))
    result = followed(mirror, own_gradient=True)
    assert (result.cosine < 0.3).all()
    assert float(result.misled.mean()) > 0.4


@pytest.mark.parametrize("ghost", [0.005, 0.013, 0.03, 0.1])
def test_a_mirror_with_a_ghost_that_has_no_gradient_is_found(ghost: float) -> None:
    def mirror(images: torch.Tensor) -> torch.Tensor:
        return ((1 - ghost) * images.flip(3) + ghost * images).detach()

    result = followed(
        mirror, lambda x: straight_through(lambda y, rng: mirror(y))(x, ImageRng(range(ROWS))), own_gradient=False
    )
    assert float(result.misled.mean()) > 0, "the audit flags what is above 0; a ghost of 0.1 is the largest found"


def test_pixels_that_change_places_within_small_squares_are_found_where_the_gradient_is_said_to_be_their_own() -> None:
    def swapped(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (-1, 4)).unflatten(4, (-1, 4)).flip(3, 5).flatten(4, 5).flatten(2, 3)

    assert float(followed(with_gradient(swapped, lambda g: g), own_gradient=True).misled.min()) > 0.4


@pytest.mark.parametrize(
    "defense",
    [
        "harness/none",
        "harness/flip",
        "harness/rotate",
        "harness/gaussian-blur",
        "harness/median-blur",
        "harness/resize",
        "harness/upscale",
        "harness/unsharp",
        "harness/random-noise",
        "harness/color-quantization",
        "harness/diffjpeg",
        "harness/jpeg[quality=10]",
        "harness/jpeg[quality=1]",
    ],
)
def test_honest_gradients_are_not(defense: str) -> None:
    component = installed().one("defense", defense)
    built, own_gradient = component.build(CPU), component.info.differentiable
    substitute = built if own_gradient else straight_through(built)

    def fixed(purify: Callable[[torch.Tensor, ImageRng], torch.Tensor]) -> Function:
        return lambda images: purify(images, ImageRng(range(ROWS)))

    result = followed(fixed(built), fixed(substitute), own_gradient=own_gradient)
    assert float(result.misled.mean()) < 0
    assert (result.answer >= ANSWERED).all()


def test_an_exact_gradient_is_found_to_be_exact_whatever_the_defense_does() -> None:
    blur = torch.ones(3, 1, 5, 5) / 25
    result = followed(lambda x: F.conv2d(x, blur, padding=2, groups=3), own_gradient=True)
    assert (result.cosine > 0.8).all()
    assert (result.least == LEAST_OWN).all()


def test_a_look_up_that_is_honest_about_changes_of_eight_levels_is_found() -> None:
    """Trials draw the size of each change, so that no size tells a trial from another query."""
    images = (0.95 - 0.9 * sample_images(ROWS, SIDE, SIDE, 3)).mul(255).round() / 255

    def looked_up(x: torch.Tensor) -> torch.Tensor:
        levels = ((x.detach() - images).abs() * 255).round()
        usual = ((levels == 0) | (levels == 8)).flatten(1).all(dim=1)
        return torch.where(usual[:, None, None, None], x, images + 0 * x)

    assert followed(looked_up, own_gradient=True).looked_up.all()


def _mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean(dim=(2, 3), keepdim=True).expand_as(x)


def _grey_mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean(dim=(1, 2, 3), keepdim=True).expand_as(x)


def _columns(x: torch.Tensor) -> torch.Tensor:
    return x.mean(dim=2, keepdim=True).expand_as(x)


def _tiles(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(F.adaptive_avg_pool2d(x, 2), x.shape[2:])


LOW_RANK = (_mean, _grey_mean, _columns, _tiles)


@pytest.mark.parametrize("defense", LOW_RANK)
@pytest.mark.parametrize("seed", range(5))
def test_an_exact_gradient_is_found_to_be_exact_whatever_the_rank_of_the_defense(defense: Function, seed: int) -> None:
    """One number for each colour, or one in all: a single random change says little of so few directions."""
    images = sample_images(ROWS, SIDE, SIDE, seed)
    result = follow(defense, defense, images, ImageRng(range(100 * seed, 100 * seed + ROWS)), own_gradient=True)
    assert not (result.misled > 0).any()


@pytest.mark.parametrize("defense", [_columns, _tiles])
@pytest.mark.parametrize("back", [lambda g: g, lambda g: -g, lambda g: g.flip(3), lambda g: -_mean(g)])
def test_a_lent_gradient_is_found_where_few_directions_pass(defense: Function, back: Function) -> None:
    assert float(followed(with_gradient(defense, back), own_gradient=True).misled.mean()) > 0.3


def test_a_gradient_that_mixes_up_the_colours_of_tiles_is_found() -> None:
    assert float(followed(with_gradient(_tiles, lambda g: _tiles(g.roll(1, 1))), own_gradient=True).misled.mean()) > 0.3


def by_what_comes_back(honest: Function) -> Function:
    """Return a mirror whose gradient is right for the directions that `honest` accepts, and negated for all others."""

    def back(upstream: torch.Tensor) -> torch.Tensor:
        right = honest(upstream.abs().flatten(1))[:, None, None, None]
        return torch.where(right, upstream.flip(3), -upstream.flip(3))

    return with_gradient(lambda x: x.flip(3), back)


def unequal(purify: Function) -> torch.Tensor:
    images = sample_images(ROWS, SIDE, SIDE, 3)
    return unequal_sums(purify, images, lambda result: 1e-4 * (1 + result), ImageRng(range(ROWS)))


BY_DIRECTION: dict[str, Function] = {
    "signs": lambda a: a.std(dim=1) < 0.05 * a.mean(dim=1),
    "large ones": lambda a: a.mean(dim=1) > 0.01,
    "all but those of scores": lambda a: (a.mean(dim=1) > 0.01) & (a.mean(dim=1) < 1.01),
    "what is no gradient of a score": lambda a: a.amax(dim=1) > 1e-3,
}
"""Name -> which directions are accepted: from the absolute values of a gradient, one row for each image."""


@pytest.mark.parametrize("directions", BY_DIRECTION)
def test_a_gradient_that_is_right_for_the_directions_of_trials_alone_is_found(directions: str) -> None:
    purify = by_what_comes_back(BY_DIRECTION[directions])
    mirrored = followed(purify, own_gradient=True)
    assert (mirrored.misled < 0).all(), "trials send other directions than attacks"
    assert (unequal(purify) > 5 * UNEQUAL).all()


def test_who_answers_the_sum_with_no_number_is_found_too() -> None:
    def back(upstream: torch.Tensor) -> torch.Tensor:
        one_size = upstream.abs().flatten(1).std(dim=1) < 1e-4
        return torch.where(one_size[:, None, None, None], upstream, torch.nan)

    assert (unequal(with_gradient(lambda x: x, back)) > 5 * UNEQUAL).all()


@pytest.mark.parametrize("name", ["flip", "gaussian-blur", "diffjpeg", "resize", "unsharp", "none"])
def test_sums_come_back_as_the_sums_through_every_honest_gradient(name: str) -> None:
    defense = installed().one("defense", f"harness/{name}").build(CPU)
    assert (unequal(lambda x: defense(x, ImageRng(range(len(x))))) < UNEQUAL / 100).all()
    assert unequal(lambda x: x.detach()).isnan().all(), "where nothing comes back, nothing is said"


def test_what_answers_no_change_is_looked_up_and_its_gradient_tells_nothing() -> None:
    stored = sample_images(ROWS, SIDE, SIDE, 4)
    result = followed(lambda x: stored, own_gradient=False)
    assert not result.answer.any()
    assert result.cosine.isnan().all()
    assert not result.misled.any()


@pytest.mark.parametrize("share", [0.02, 0.12, 0.2])
def test_a_picture_of_a_defense_s_own_with_a_share_of_the_image_is_looked_up(share: float) -> None:
    stored = sample_images(ROWS, SIDE, SIDE, 4)
    assert followed(lambda x: stored + share * (x - stored), own_gradient=False).looked_up.all()


@pytest.mark.parametrize("share", [0.12, 0.5, 0.9])
def test_what_takes_contrast_away_is_no_look_up(share: float) -> None:
    """It answers changes by the same share by which it shows the image."""
    assert not followed(lambda x: 0.5 + share * (x - 0.5), own_gradient=False).looked_up.any()


def test_a_border_of_one_colour_is_no_picture_of_a_defense_s_own() -> None:
    """Flat bright images gain contrast by a black border, which answers nothing."""

    result = followed(lambda x: F.pad(x[:, :, 4:-4, 4:-4], (4, 4, 4, 4)), own_gradient=False, contrast=0.2)
    assert not result.looked_up.any()


@pytest.mark.parametrize("defense", LOW_RANK)
def test_a_mean_is_no_look_up(defense: Function) -> None:
    """It answers changes that cancel out only a little, and shows as little of the image."""
    assert not followed(defense, own_gradient=True).looked_up.any()


def test_one_colour_whatever_the_image_is_looked_up() -> None:
    assert followed(lambda x: torch.full_like(x, 0.5), own_gradient=False).looked_up.all()


def test_a_stored_picture_around_a_part_of_the_image_is_looked_up() -> None:
    stored, mask = sample_images(ROWS, SIDE, SIDE, 4), torch.zeros(1, 1, SIDE, SIDE)
    mask[:, :, : SIDE // 3, : SIDE // 3] = 1
    assert followed(lambda x: torch.where(mask > 0, x, stored), own_gradient=False).looked_up.all()


def test_a_quantiser_that_meets_what_it_has_made_is_no_look_up_and_one_that_knows_the_images_is() -> None:
    """Steps of 17 levels take every change of 8 levels back, here and on images that nobody can know."""
    quantised_images = (sample_images(ROWS, SIDE, SIDE, 1) * 15).round() / 15

    def quantised(x: torch.Tensor) -> torch.Tensor:
        return (x * 15).round() / 15

    def knows(x: torch.Tensor) -> torch.Tensor:
        least, nearest = torch.cdist(x.flatten(1), quantised_images.flatten(1)).min(dim=1)
        return torch.where((least < 4)[:, None, None, None], quantised_images[nearest], x)

    for defense, named in ((quantised, False), (knows, True)):
        result = follow(defense, defense, quantised_images, ImageRng(range(ROWS)), own_gradient=False, fresh=defense)
        assert result.looked_up.tolist() == [named] * ROWS
    assert follow(quantised, quantised, quantised_images, ImageRng(range(ROWS)), own_gradient=False).looked_up.all(), (
        "nobody asked"
    )


DISTANCES = ("l2", "mae", "ssim-uniform7", "fsim", "lpips[net=embedded,variant=scratch]")


def noisy() -> tuple[torch.Tensor, torch.Tensor]:
    """Return images that noise and blur changed, and their references."""
    reference = sample_images(ROWS, 64, 64, 3)
    noise = 0.1 * torch.randn(reference.shape, generator=torch.Generator().manual_seed(1))
    blurred = F.avg_pool2d(F.pad(reference, (2, 2, 2, 2), mode="replicate"), 5, 1)
    return storable(blurred + noise), reference


def claimed(score: Function, lent: Function) -> Function:
    """Return the scores of `score` with the gradient of `lent`."""

    def both(images: torch.Tensor) -> torch.Tensor:
        if not torch.is_grad_enabled():
            return score(images)
        near = lent(images)
        return score(images.detach()).detach() + near - near.detach()

    return both


def remembered(score: Function) -> Function:
    """Return the same scores, computed once for each image where no gradient is wanted.

    So all claims about the gradient of one distance share its queries.
    """
    cached_scores: dict[bytes, torch.Tensor] = {}

    def once(images: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            return score(images)
        key = hashlib.sha256(images.numpy().tobytes()).digest()
        if key not in cached_scores:
            cached_scores[key] = score(images)
        return cached_scores[key].clone()

    return once


@pytest.mark.parametrize("distance_name", DISTANCES)
def test_queries_tell_the_gradient_of_a_distance_from_that_of_another_one(distance_name: str) -> None:
    images, reference = noisy()
    built = {name: installed().one("metric", name).build(CPU) for name in DISTANCES}

    def distance(name: str) -> Function:
        return lambda x: built[name](x, reference)

    score = remembered(distance(distance_name))
    honest = follow_scores(score, images, ImageRng(range(ROWS)))
    assert float(honest.misled.mean()) < 0
    for other in DISTANCES:
        if other != distance_name and {distance_name, other} != {"l2", "mae"}:
            result = follow_scores(claimed(score, distance(other)), images, ImageRng(range(ROWS)))
            assert float(result.misled.mean()) > 0, (other, result.cosine)


@pytest.mark.parametrize("period", [3, 4, 5])
def test_a_ripple_of_levels_is_found_by_larger_steps_alone(period: int) -> None:
    images, reference = noisy()
    built = Ripple(period=period).build(CPU)
    for compare, named in ((follow_scores, False), (follow_steps, True)):
        result = compare(lambda x: built(x, reference), images, ImageRng(range(ROWS)))
        assert bool(result.misled.mean() > 0) == named, (compare, result.cosine)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("distance_name", [*DISTANCES, "linf", "psnr"])
def test_larger_steps_find_no_honest_distance(distance_name: str, seed: int) -> None:
    images, reference = noisy()
    built = installed().one("metric", distance_name).build(CPU)
    streams = ImageRng(range(100 * seed, 100 * seed + ROWS))
    assert float(follow_steps(lambda x: built(x, reference), images, streams).misled.mean()) <= 0


def test_a_score_without_slopes_or_without_a_gradient_is_found_where_the_other_is_there() -> None:
    images, reference = noisy()

    def mean(x: torch.Tensor) -> torch.Tensor:
        return (x - reference).abs().flatten(1).mean(dim=1)

    def followed_scores(score: Function) -> Followed:
        return follow_scores(score, images, ImageRng(range(ROWS)))

    steps = followed_scores(claimed(lambda x: (4 * mean(x)).round(), mean))
    none = followed_scores(lambda x: mean(x).detach())
    for result in (steps, none):
        assert (result.cosine == 0).all()
        assert (result.misled == LEAST_SCORE).all()
    assert not steps.answer.any()
    constant = followed_scores(lambda x: 0 * mean(x))
    assert constant.cosine.isnan().all()
    assert not constant.misled.any()
