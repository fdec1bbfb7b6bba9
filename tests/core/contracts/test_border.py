"""Scores, images and changes of images that plugins return are checked before they are used."""

import pytest
import torch

from imharness.contracts.attack import AttackInfo, BaseAttack, Budget, check_budget
from imharness.contracts.values import IMAGES, SCORES
from imharness.errors import ContractError


def attack(norm: str, radius: float | None) -> BaseAttack:
    """Return an attack with a budget, which is never run."""

    class Some(BaseAttack):
        """Some attack."""

        info = AttackInfo(id="acme/some", version="1", access="black_box", norm=norm, strengths={})

        def budget(self) -> Budget:
            return Budget(radius=radius)

    return Some()


@pytest.mark.parametrize(
    ("scores", "fragment"),
    [
        (torch.zeros(3), r"expected scores of shape \(2,\), got shape \(3,\)"),
        (torch.zeros(2, 1), "got shape"),
        (torch.tensor([1.0, float("nan")]), "1 of 2 scores are NaN or infinite"),
        ([1.0, 2.0], "got list"),
    ],
)
def test_scores(scores: object, fragment: str) -> None:
    with pytest.raises(ContractError, match=fragment):
        SCORES.check(scores, {}, 2, "acme/metric")


@pytest.mark.parametrize(
    ("images", "fragment"),
    [
        (torch.zeros(1, 3, 4, 4), "expected 2 images"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.float64), "expected float32"),
        (torch.full((2, 3, 4, 4), 1.01), r"expected values in \[0, 1\]"),
        (torch.full((2, 3, 4, 4), float("nan")), "96 of 96 values are NaN"),
    ],
)
def test_images(images: torch.Tensor, fragment: str) -> None:
    with pytest.raises(ContractError, match=fragment):
        IMAGES.check(images, {}, 2, "acme/defense")


@pytest.mark.parametrize(
    ("norm", "change", "allowed", "refused"),
    [("linf", 4.0000002 / 255, 4 / 255, 3.9 / 255), ("l2", 0.1, 0.1 * 48**0.5, 0.5), ("l0", 0.1, 16, 15)],
)
def test_a_budget_is_an_error_and_never_a_clip(norm: str, change: float, allowed: float, refused: float) -> None:
    """An image beyond the budget is an error and is not clipped; rounding may exceed it a little.

    `change` is added to each of the 48 values of an image; `allowed` and `refused` are radii.
    """
    images = torch.full((1, 3, 4, 4), 0.5)
    check_budget(attack(norm, allowed), images, images + change)
    with pytest.raises(ContractError, match=f"expected {norm} distance at most"):
        check_budget(attack(norm, refused), images, images + change)


def test_an_unrestricted_attack_has_no_radius() -> None:
    check_budget(attack("unrestricted", 0.1), torch.zeros(1, 3, 4, 4), torch.ones(1, 3, 4, 4))
