"""Each kind of own object becomes a component of a track that takes it, and its results are checked."""

from typing import Any

import pytest
import torch

import imharness as ih
from imharness.contracts.call import checked
from imharness.errors import ContractError
from imharness.images import ImageRng
from imharness.membership import DefenderOutputs, MembershipQuery
from imharness.notebook.components import component_of, images_of
from imharness.notebook.objects import UserObject

CPU = torch.device("cpu")
IMAGES = torch.rand((2, 3, 8, 8), generator=torch.Generator().manual_seed(0))
PROBABILITIES = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
HELD = DefenderOutputs(PROBABILITIES, PROBABILITIES)  # outputs for members and for others that the defender has
QUERY = MembershipQuery(
    PROBABILITIES, torch.tensor([0, 1]), torch.tensor([True, False]), PROBABILITIES, torch.tensor([0, 1])
)
GRADIENTS = {"weight": torch.ones(2, 4)}


def rng() -> ImageRng:
    return ImageRng([1, 2])


def used(user_object: UserObject, track: str, *arguments: Any) -> Any:
    """Return what an own object gives as a component of a track of the harness."""
    component = component_of(user_object, f"harness/{track}", "").component
    return checked(component, component.build(CPU))(*arguments)


def test_a_defense_of_images_gets_streams_when_it_is_random() -> None:
    plain = ih.defense(lambda x: x / 2, differentiable=True)
    torch.testing.assert_close(used(plain, "iqa", IMAGES, rng()), IMAGES / 2)
    noisy = ih.defense(lambda x, streams: (x + streams.uniform(3, 8, 8)) / 2, differentiable=True, random=True)
    torch.testing.assert_close(used(noisy, "iqa", IMAGES, rng()), (IMAGES + rng().uniform(3, 8, 8)) / 2)


def test_a_defense_of_gradients_gets_them_by_name() -> None:
    defense = ih.defense(lambda g, streams: {k: v + streams.normal(4) for k, v in g.items()}, differentiable=False)
    torch.testing.assert_close(used(defense, "reconstruction", GRADIENTS, rng())["weight"], 1 + rng().normal(4))


def test_a_defense_of_outputs_may_ask_for_what_the_defender_holds() -> None:
    defense = ih.defense(lambda p: p.round(), differentiable=False)
    assert used(defense, "membership", PROBABILITIES, HELD, torch.Generator()).tolist() == [[1, 0], [0, 0]]
    mixed = ih.defense(lambda p, defender: (p + defender.reference) / 2, differentiable=False)
    torch.testing.assert_close(used(mixed, "membership", PROBABILITIES, HELD, torch.Generator()), PROBABILITIES)


def test_metrics_score_images_alone_or_against_references() -> None:
    mean = ih.metric(lambda x: x.mean((1, 2, 3), keepdim=True), bounds=(0, 1), higher_means="better_quality")
    torch.testing.assert_close(used(mean, "iqa", IMAGES), IMAGES.mean((1, 2, 3)))
    far = ih.metric(lambda x, y: (x - y).abs().mean((1, 2, 3)), higher_means="worse_quality", reference=True)
    for track in ("perceptual", "reconstruction"):
        torch.testing.assert_close(used(far, track, IMAGES, IMAGES / 2), IMAGES.mean((1, 2, 3)) / 2)
    short = ih.metric(lambda x: x.mean(), bounds=(0, 1), higher_means="better_quality")
    with pytest.raises(ContractError, match=r"expected 2 scores, one per row, got shape \(\)"):
        used(short, "iqa", IMAGES)


def test_attacks_rebuild_or_change_images() -> None:
    grey = ih.attack(lambda g, model, shape: torch.full((2, *shape), 0.5), access="white_box", norm="unrestricted")
    arguments = (GRADIENTS, torch.nn.Identity(), (3, 8, 8), rng(), lambda done, total: None)
    assert used(grey, "reconstruction", *arguments).shape == (2, 3, 8, 8)
    far = ih.attack(lambda x, target: 1 - x, access="black_box", norm="l2", radius=0.1, queries=3, name="far")
    with pytest.raises(ContractError, match=r"local/far: expected l2 distance at most 0\.1"):
        used(far, "iqa", IMAGES, lambda x: x.mean((1, 2, 3)), rng())


def test_an_evaluator_guesses_from_outputs() -> None:
    evaluator = ih.evaluator(lambda query: query.target_outputs.max(1).values - 0.6)
    torch.testing.assert_close(used(evaluator, "membership", QUERY), torch.tensor([0.15, -0.1]))


def test_images_of_ones_own_are_a_data_set_of_8_bits() -> None:
    pixels = (IMAGES * 255).round().byte().numpy()
    component = images_of(pixels).component
    images = checked(component, component.build(CPU))
    assert images.names == ("image-0000", "image-0001")
    torch.testing.assert_close(images.load([1, 0]), torch.from_numpy(pixels[::-1].copy()).float() / 255)
    assert component.content() != images_of(pixels[::-1].copy()).component.content()
