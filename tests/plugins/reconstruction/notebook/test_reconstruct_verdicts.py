"""`ih.reconstruct` gives verdicts and doubts about gradients and reconstructions where they are true, only there."""

import numpy as np
import pytest
import torch
from torch import nn

from imharness.errors import UsageError
from imharness_reconstruction.notebook.reconstruct import FLAT, Reconstruction, reconstruct

SHAPE = (3, 8, 8)
QUICK = "invgrad[steps=10]"


def drawn(seed: int) -> torch.Generator:
    """Return the stream of a seed."""
    return torch.Generator().manual_seed(seed)


def network(activation: type[nn.Module] = nn.Sigmoid) -> nn.Module:
    model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), activation(), nn.Flatten(), nn.Linear(768, 10)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=drawn(parameter.numel())))
    return model


def picture(seed: int) -> torch.Tensor:
    """Return a picture of few large pixels, which has much in common with pictures of other seeds."""
    coarse = torch.rand(1, 3, 4, 4, generator=drawn(99)) + 0.5 * torch.rand(1, 3, 4, 4, generator=drawn(seed))
    return nn.functional.interpolate(coarse / 1.5, (8, 8), mode="nearest")


def gradient(model: nn.Module, images: torch.Tensor, label: int = 3) -> list[torch.Tensor]:
    loss = nn.functional.cross_entropy(model(images), torch.full((len(images),), label))
    return list(torch.autograd.grad(loss, list(model.parameters())))


def rounded(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return gradients of 8 bits, scaled by the largest value of each tensor."""
    return [(tensor / (step := tensor.abs().max() / 127)).round() * step for tensor in tensors]


def verdict(result: Reconstruction) -> tuple[bool, bool]:
    """Return whether the original explains the gradient, and whether a doubt says that it does not."""
    rows = result.rows("reconstruct")
    return bool(rows["explained"][0]), "does not explain" in " ".join(result.doubts)


@pytest.mark.parametrize("activation", [nn.Sigmoid, nn.ReLU])
@pytest.mark.parametrize("seed", range(3))
def test_a_gradient_is_explained_by_its_own_image_and_by_no_other(activation: type[nn.Module], seed: int) -> None:
    model, image = network(activation), picture(seed)
    own_gradient, several = gradient(model, image), torch.cat([picture(k) for k in range(20, 28)])
    for tensors in (
        own_gradient,
        rounded(own_gradient),
        [tensor.bfloat16() for tensor in own_gradient],
        [7 * tensor for tensor in own_gradient],
    ):
        result = reconstruct(tensors, model, SHAPE, attack=QUICK, originals=image)
        assert verdict(result) == (True, False), result.doubts
    for other in (picture(seed + 10), several, 0.7 * image, image.flip(3)):
        result = reconstruct(gradient(model, other), model, SHAPE, attack=QUICK, originals=image)
        assert not verdict(result)[0], result.rows("reconstruct")
        assert "explain" in result.doubts[0]
        assert not result.rows("reconstruct")["converged"].any()


@pytest.mark.parametrize("seed", range(3))
def test_noise_of_a_known_size_is_allowed_for_and_no_other(seed: int) -> None:
    model, image = network(), picture(seed)
    own_gradient, sigma = gradient(model, image), 0.003
    noisy = [
        tensor + sigma * torch.randn(tensor.shape, generator=drawn(seed + i)) for i, tensor in enumerate(own_gradient)
    ]
    elsewhere = [
        tensor + sigma * torch.randn(tensor.shape, generator=drawn(seed + i))
        for i, tensor in enumerate(gradient(model, 1 - image))
    ]

    def verdict_with(tensors: list[torch.Tensor], noise: float) -> tuple[bool, bool]:
        return verdict(reconstruct(tensors, model, SHAPE, attack=QUICK, originals=image, noise=noise))

    assert verdict_with(noisy, sigma) == (True, False)
    assert verdict_with(noisy, sigma / 2) == verdict_with(noisy, 2 * sigma) == (False, True)
    assert verdict_with(noisy, 0.0) == (False, False)
    unsaid = reconstruct(noisy, model, SHAPE, attack=QUICK, originals=image)
    assert any(line.startswith("The original nearly explains") and "noise" in line for line in unsaid.doubts)
    assert verdict_with(elsewhere, sigma) == (False, True)
    drowned = [tensor + torch.randn(tensor.shape, generator=drawn(seed + i)) for i, tensor in enumerate(own_gradient)]
    result = reconstruct(drowned, model, SHAPE, attack=QUICK, originals=image, noise=1.0)
    assert verdict(result) == (False, False)
    assert any("With noise of 1, a flat image explains" in line for line in result.doubts)
    assert not any("negative at several classes" in line for line in result.doubts)


def test_noise_hides_the_signs_of_the_output_bias_and_a_batch_does_not_pass_for_noise() -> None:
    model, images = network(), torch.cat([picture(0), picture(1)])
    loss = nn.functional.cross_entropy(model(images), torch.tensor([1, 5]))
    mixed = list(torch.autograd.grad(loss, list(model.parameters())))
    result = reconstruct(mixed, model, SHAPE, attack=QUICK, originals=images[:1], noise=0.001)
    assert any("negative at several classes" in line for line in result.doubts)


@pytest.mark.parametrize("noise", [-1, float("nan"), float("inf"), "much"])
def test_noise_is_a_standard_deviation(noise: object) -> None:
    model = network()
    with pytest.raises(UsageError, match=r"^noise: expected .*standard deviation"):
        reconstruct(gradient(model, picture(0)), model, SHAPE, noise=noise)  # type: ignore[arg-type]


def test_dead_units_leave_open_whose_gradient_it_is() -> None:
    model = network(nn.ReLU)
    with torch.no_grad():
        model[0].bias.fill_(-100)
    result = reconstruct(gradient(model, picture(0)), model, SHAPE, attack=QUICK, originals=picture(1))
    assert verdict(result) == (False, False)
    assert any("A flat image explains the gradient as well as the original" in line for line in result.doubts)
    assert not result.rows("reconstruct")["converged"].any()


def test_what_was_never_shared_is_refused() -> None:
    model = network()
    own_gradient, zeros = gradient(model, picture(0)), [torch.zeros_like(p) for p in model.parameters()]
    for shared, message in (
        (zeros, "they are zero throughout"),
        ([tensor.numpy() for tensor in zeros], "they are zero throughout"),
        (dict(zip(dict(model.named_parameters()), zeros, strict=True)), "they are zero throughout"),
        ([torch.stack([tensor, tensor, 0 * tensor]) for tensor in own_gradient], "those in row 2 are zero throughout"),
        ([None] * 4, "there is none for any parameter"),
        ({}, "there is none for any parameter"),
        ([tensor * float("nan") for tensor in zeros], "holds NaN"),
    ):
        with pytest.raises(UsageError, match=f"^gradients: .*{message}"):
            reconstruct(shared, model, SHAPE, attack=QUICK, originals=None)


def test_a_result_stands_beside_a_flat_image_of_the_mean_colour() -> None:
    model, image = network(), picture(0)
    poor, good = (
        reconstruct(gradient(model, image), model, SHAPE, attack=a, originals=image, metrics=["psnr", "mse"])
        for a in ("idlg[iterations=1,starts=1]", "idlg[iterations=150,starts=1]")
    )
    error = float((image - image.mean(dim=(2, 3), keepdim=True)).square().mean())
    for result in (poor, good):
        leaked = result.rows("leakage")
        assert leaked["flat"].tolist() == pytest.approx([-10 * np.log10(error), error], rel=1e-2)
        beside = next(row for row in result.tables["reconstruction"].spec.rows if row.label == FLAT)
        assert beside.values["harness/psnr"].value == pytest.approx(leaked["flat"][0])
        assert beside.values["loss"].value is None
    assert poor.rows("reconstruct")["closer"].tolist() == [False]
    assert good.rows("reconstruct")["closer"].tolist() == [True]
    assert any("no closer to its original than a flat image" in line for line in poor.doubts)
    assert good.doubts == ()


@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_of_a_flat_original_grey_is_the_reference(level: float) -> None:
    model, image = network(), torch.full((1, *SHAPE), level)
    result = reconstruct(
        gradient(model, image), model, SHAPE, attack="idlg[iterations=200]", originals=image, metrics=["mse"]
    )
    rows = result.rows("reconstruct")
    assert rows["explained"].tolist() == rows["closer"].tolist() == [True]
    assert result.rows("leakage")["flat"] == pytest.approx((round(0.5 * 255) / 255 - level) ** 2)
    assert [line[:30] for line in result.doubts] == ["The original is of one colour,"]
    assert verdict(reconstruct(gradient(model, picture(0)), model, SHAPE, attack=QUICK, originals=image))[0] is False


@pytest.mark.parametrize("attack", [QUICK, "federated[images=2,steps=8]"])
def test_labels_that_the_attack_reads_otherwise_are_named(attack: str) -> None:
    model, pair = network(), "images=2" in attack
    images, labels = torch.cat([picture(0), picture(1)])[: 1 + pair], torch.tensor([1, 5])[: 1 + pair]
    loss = nn.functional.cross_entropy(model(images), labels)
    gradients = list(torch.autograd.grad(loss, list(model.parameters())))

    def names_other_labels(known_labels: torch.Tensor) -> bool:
        result = reconstruct(gradients, model, SHAPE, attack=attack, originals=images, labels=known_labels)
        return any("reads other labels than those given" in line for line in result.doubts)

    assert not names_other_labels(labels)
    assert not names_other_labels(labels.flip(0))
    assert names_other_labels((labels + 1) % 10)


def test_labels_of_a_batch_that_nobody_gave_are_named_where_originals_explain_nothing() -> None:
    """The gradient tells which labels occur, and not whose they are, so true originals may explain nothing."""
    model, images, labels = network(), torch.cat([picture(seed) for seed in range(4)]), torch.tensor([1, 5, 7, 2])
    gradients = list(torch.autograd.grad(nn.functional.cross_entropy(model(images), labels), list(model.parameters())))

    named = []
    for seed in range(3):
        for known_labels in (None, labels):
            attack = "federated[images=4,steps=8]"
            result = reconstruct(
                gradients, model, SHAPE, attack=attack, originals=images, labels=known_labels, seed=seed
            )
            unclear = any("does not tell whose they are" in line for line in result.doubts)
            assert unclear != bool(result.rows("reconstruct")["explained"].all())
            named.append((known_labels is None, unclear))
    assert (True, True) in named
    assert (False, True) not in named


@pytest.mark.parametrize("factor", [1e-10, 1e-25, 1e10])
def test_the_scale_of_a_gradient_changes_no_verdict(factor: float) -> None:
    model, image = network(), picture(0)
    tensors = gradient(model, image)
    one, other = (
        reconstruct(shared, model, SHAPE, attack="invgrad[steps=60]", originals=image)
        for shared in (tensors, [factor * tensor for tensor in tensors])
    )
    for column in ("explained", "converged", "closer", "label"):
        assert one.rows("reconstruct")[column].tolist() == other.rows("reconstruct")[column].tolist()
    for column in ("loss", "attainable", "grey", "flat"):
        assert one.rows("reconstruct")[column] == pytest.approx(other.rows("reconstruct")[column], abs=1e-3)
    assert one.doubts == other.doubts


def test_a_gradient_that_was_scaled_is_named_where_an_attack_matches_lengths() -> None:
    model, image, attack = network(), picture(0), "idlg[iterations=150,starts=1]"
    result = reconstruct([1e-10 * t for t in gradient(model, image)], model, SHAPE, attack=attack, originals=image)
    assert result.rows("reconstruct")["explained"].tolist() == [True]
    assert any(line.startswith("The gradient is 1e-10 times as long as that of the original") for line in result.doubts)
    plain = reconstruct(gradient(model, image), model, SHAPE, attack=attack, originals=image)
    assert not any("times as long" in line for line in plain.doubts)


def test_explained_is_about_the_label_that_is_given() -> None:
    model, image = network(), picture(0)
    tensors = gradient(model, image, label=3)
    for label, explained in ((3, True), (5, False)):
        result = reconstruct(tensors, model, SHAPE, attack=QUICK, originals=image, labels=torch.tensor([label]))
        assert result.rows("reconstruct")["explained"].tolist() == [explained]
        assert result.rows("reconstruct")["label"].tolist() == [3]
        named = "with the label that is read from it, 3, and not with the one given, 5" in " ".join(result.doubts)
        assert named != explained


def test_originals_may_be_bfloat16() -> None:
    model, image = network(), picture(0)
    exact = image.bfloat16()
    result = reconstruct(gradient(model, exact.float()), model, SHAPE, attack=QUICK, originals=exact)
    assert result.rows("reconstruct")["explained"].tolist() == [True]
