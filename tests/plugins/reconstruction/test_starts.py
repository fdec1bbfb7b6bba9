"""Of several random starts the best is kept, image by image; and what an attack returns is an image."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from imharness.components.registry import installed
from imharness.gradients import ImageRng
from imharness_reconstruction import matching
from imharness_reconstruction.attacks.cafe import Cafe
from imharness_reconstruction.attacks.federated import FederatedInversion
from imharness_reconstruction.attacks.idlg import Idlg
from imharness_reconstruction.attacks.imprint import Imprint
from imharness_reconstruction.attacks.invgrad import InvGrad
from imharness_reconstruction.per_image import averaged, batch_weights, image_gradients

CPU, SHAPE = torch.device("cpu"), (3, 8, 8)
LEFT = torch.tensor([[3.0, 1, 2], [2, 5, 4], [4, 3, 0.5]])
"""What three starts leave of three gradients; the best starts are the second, the first and the third."""
BEST = [1, 0, 2]


def quiet(done: int, total: int) -> None:
    pass


def network() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(384, 5)).eval()
    stream = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=stream))
    return model.requires_grad_(False)


def shared(model: nn.Module, images: torch.Tensor) -> dict[str, torch.Tensor]:
    return image_gradients(model, images, torch.arange(len(images)))


def test_a_round_keeps_the_best_of_its_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: Iterator[int] = iter(range(3))

    def descend(self: FederatedInversion, x: torch.Tensor, *rest: object) -> tuple[torch.Tensor, torch.Tensor]:
        number = next(ends)
        return torch.full_like(x, 0.1 * number), LEFT[:, number].clone()

    monkeypatch.setattr(FederatedInversion, "_descend", descend)
    model = network()
    attack = FederatedInversion(images=1, starts=3).build(CPU)
    rebuilt = attack(shared(model, torch.rand(3, *SHAPE)), model, SHAPE, ImageRng(range(3)), quiet)
    for row, best in enumerate(BEST):
        torch.testing.assert_close(rebuilt[row], torch.full(SHAPE, 0.1 * best))


def test_the_steps_of_all_starts_of_a_round_are_counted() -> None:
    model, seen = network(), list[tuple[int, int]]()
    attack = FederatedInversion(images=1, starts=2, steps=8)
    gradients, streams = shared(model, torch.rand(2, *SHAPE)), ImageRng(range(2))
    attack.build(CPU)(gradients, model, SHAPE, streams, lambda *done: seen.append(done))
    total = 2 * attack.worth()
    assert seen == [(done, total) for done in range(1, total + 1)]


def test_matching_keeps_the_best_of_its_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: Iterator[int] = iter(range(3))

    def minimise(
        distance, first: torch.Tensor, *rest: object, enough: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        number = next(ends)
        return torch.full_like(first, 0.1 * number), LEFT[:, number].clone()

    monkeypatch.setattr(matching, "minimise", minimise)
    model = network()
    attack = Idlg(starts=3, tolerance=0).build(CPU)
    rebuilt = attack(shared(model, torch.rand(3, *SHAPE)), model, SHAPE, ImageRng(range(3)), quiet)
    for row, best in enumerate(BEST):
        torch.testing.assert_close(rebuilt[row], torch.full(SHAPE, 0.1 * best))


def test_an_inversion_keeps_the_best_of_its_starts() -> None:
    model, images = network(), torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(1))
    gradients = shared(model, images)
    settings = {"steps": 8, "learning_rate": 0.01, "total_variation": 0.0}

    def rebuilt(starts: int, skipped: int) -> torch.Tensor:
        streams = ImageRng(range(4))
        for _ in range(skipped):
            streams.normal(*SHAPE)
        return InvGrad(starts=starts, **settings).build(CPU)(gradients, model, SHAPE, streams, quiet)

    def residual(candidate: torch.Tensor) -> torch.Tensor:
        flat = [torch.cat([v.flatten(1) for v in g.values()], dim=1) for g in (shared(model, candidate), gradients)]
        return 1 - torch.cosine_similarity(*flat, dim=1)

    alone = torch.stack([rebuilt(1, skipped) for skipped in range(3)])
    best = torch.stack([residual(candidate) for candidate in alone]).argmin(dim=0)
    assert len(set(best.tolist())) > 1
    torch.testing.assert_close(rebuilt(3, 0), alone[best, torch.arange(4)], atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    "attack",
    [
        "invgrad[steps=30]",
        "invgrad[steps=30,tolerance=0.99]",
        "gradattack[steps=30]",
        "dlg[iterations=20,starts=1]",
        "idlg[iterations=20,starts=1]",
        "federated[images=1,steps=30]",
        "federated[images=1,steps=30,tolerance=0.99]",
    ],
)
def test_what_an_attack_returns_lies_between_black_and_white(attack: str) -> None:
    """The attack is called without the check of its contract, on black and white pixels, which lead beyond the range.

    Normal starts lead beyond it, too.
    """
    model, images = network(), torch.randint(0, 2, (5, *SHAPE), generator=torch.Generator().manual_seed(2)).float()
    built = installed().one("attack", attack).build(CPU)
    rebuilt = built(shared(model, images), model, SHAPE, ImageRng(range(5)), quiet)
    assert rebuilt.min() == 0
    assert rebuilt.max() <= 1


@pytest.mark.parametrize("first", [True, False])
def test_what_cafe_returns_lies_between_black_and_white(first: bool) -> None:
    """If `first`, the linear layer takes the image, so that a formula gives it; else images are searched for."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 5)).eval().requires_grad_(False) if first else network()
    images = torch.randint(0, 2, (4, *SHAPE), generator=torch.Generator().manual_seed(3)).float()
    attack = Cafe(batch=2, steps=5, learning_rate=0.5)
    noisy = noised(averaged(shared(model, images), batch_weights(attack.batches(4), 4)))
    rebuilt = attack.build(CPU)(noisy, model, SHAPE, ImageRng(range(4)), quiet)
    assert rebuilt.min() == 0
    assert rebuilt.max() == 1


def test_what_imprint_returns_lies_between_black_and_white() -> None:
    attack = Imprint(images=2, centre=0.5, spread=0.2)
    images = torch.randint(0, 2, (2, *SHAPE), generator=torch.Generator().manual_seed(4)).float()
    model = attack.sent(network(), SHAPE).requires_grad_(False)
    noisy = noised({name: values.mean(dim=0, keepdim=True) for name, values in shared(model, images).items()})
    rebuilt = attack.build(CPU)(noisy, model, SHAPE, ImageRng(range(2)), quiet)
    assert rebuilt.min() == 0
    assert rebuilt.max() == 1


def noised(gradients: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    stream = torch.Generator().manual_seed(5)
    return {
        name: values + 0.1 * values.square().mean().sqrt() * torch.randn(values.shape, generator=stream)
        for name, values in gradients.items()
    }
