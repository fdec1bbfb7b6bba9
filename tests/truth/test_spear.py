"""SPEAR recovers batches exactly, and returns grey images where it cannot invert the gradient."""

import pytest
import torch
import torch.nn.functional as F

from imharness.components.registry import installed
from imharness.data import generator
from imharness.errors import UsageError
from imharness.gradients import Gradients, ImageRng
from imharness_reconstruction.attacks.spear import Spear, _Search
from imharness_reconstruction.models.pixel_mlp import PixelMLP
from imharness_reconstruction.notebook.reconstruct import reconstruct
from imharness_reconstruction.pairing import paired
from imharness_reconstruction.rounds import shared_in

CPU = torch.device("cpu")
DIGITS, PHOTOGRAPHS = "digit-images[size=18]", "thumbnails[size=16,per_photograph=1]"
CLASSES = 10


def pictures(name: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images ``(count, 3, H, W)`` of a data set, and their labels."""
    data = installed().one("dataset", name).build(CPU)
    return data.load(list(range(count))), torch.from_numpy(data.columns["label"][:count].copy()).long()


def network(images: torch.Tensor, width: int = 256, seed: int = 0) -> torch.nn.Module:
    shape = tuple(images.shape[1:])
    return PixelMLP(width=width).build(CPU)(shape, CLASSES, generator(seed)).eval().requires_grad_(False)


def gradient(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor, count: int) -> Gradients:
    """Return the mean gradients of successive groups of `count` images."""
    groups, targets = images.unflatten(0, (-1, count)), F.one_hot(labels, CLASSES).float().unflatten(0, (-1, count))
    return shared_in(Spear(images=count).round(), model, groups, targets)[0]


def rebuilt(model: torch.nn.Module, shared: Gradients, images: torch.Tensor, count: int) -> torch.Tensor:
    """Return the reconstructions, in the order of the images."""
    attack = Spear(images=count, starts=256).build(CPU)
    result = attack(shared, model, tuple(images.shape[1:]), ImageRng(range(len(images))), lambda *done: None)
    return result[paired(result, images, count)]


def is_grey(images: torch.Tensor) -> torch.Tensor:
    return (images == 0.5).flatten(1).all(dim=1)


@pytest.mark.parametrize("name", [DIGITS, PHOTOGRAPHS])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_batch_is_recovered_exactly(name: str, count: int) -> None:
    images, labels = pictures(name, count)
    model = network(images, width=512)
    result = rebuilt(model, gradient(model, images, labels, count), images, count)
    assert (result - images).abs().max() < 1e-5


def test_each_participant_is_recovered_by_itself_and_always_alike() -> None:
    images, labels = pictures(DIGITS, 6)
    model = network(images)
    shared = gradient(model, images, labels, 3)
    result = rebuilt(model, shared, images, 3)
    assert (result - images).abs().max() < 1e-5
    assert torch.equal(result, rebuilt(model, shared, images, 3))
    second = {name: values[1:] for name, values in shared.items()}
    assert (rebuilt(model, second, images[3:], 3) - images[3:]).abs().max() < 1e-5


def test_images_stand_in_the_order_of_their_labels() -> None:
    images, _ = pictures(DIGITS, 4)
    model, labels = network(images), torch.tensor([7, 2, 9, 2])
    shared = gradient(model, images, labels, 4)
    result = Spear(images=4).build(CPU)(shared, model, (3, 18, 18), ImageRng(range(4)), lambda *done: None)
    order = paired(result, images, 4)
    assert sorted(order[[1, 3]].tolist()) == [0, 1]
    assert order[[0, 2]].tolist() == [2, 3]


def test_the_recovered_batch_reproduces_what_was_shared() -> None:
    """The verdicts agree with and without originals, as labels follow from the gradient; another batch fails."""
    images, labels = pictures(PHOTOGRAPHS, 4)
    model, shape = network(images), tuple(images.shape[1:])
    shared = {name: values[0] for name, values in gradient(model, images, labels, 4).items()}
    alone = reconstruct(shared, model, shape, attack="spear[images=4]").rows("reconstruct")
    assert max(alone["loss"]) < 1e-9 < 1e-3 < min(alone["grey"])
    compared = reconstruct(shared, model, shape, attack="spear[images=4]", originals=images).rows("reconstruct")
    for verdict in ("explained", "converged", "closer"):
        assert compared[verdict].all()
    others = reconstruct(shared, model, shape, attack="spear[images=4]", originals=1 - images).rows("reconstruct")
    assert not others["explained"].any()


def test_of_a_narrow_layer_nothing_is_returned() -> None:
    images, labels = pictures(DIGITS, 8)
    model, shape = network(images, width=16), tuple(images.shape[1:])
    shared = gradient(model, images, labels, 8)
    assert is_grey(rebuilt(model, shared, images, 8)).all()
    one = {name: values[0] for name, values in shared.items()}
    result = reconstruct(one, model, shape, attack="spear[images=8,starts=64]", originals=images)
    assert not result.rows("reconstruct")["converged"].any()


def test_without_zeros_nothing_is_returned() -> None:
    images, labels = pictures(DIGITS, 4)
    model = network(images)
    model[2] = torch.nn.Sigmoid()
    assert is_grey(rebuilt(model, gradient(model, images, labels, 4), images, 4)).all()


@pytest.mark.parametrize("noise", [1e-5, 1e-4, 1e-3, 1e-2])
def test_of_a_noisy_gradient_nothing_false_is_returned(noise: float) -> None:
    images, labels = pictures(DIGITS, 4)
    model, stream = network(images), generator(1)
    shared = gradient(model, images, labels, 4)
    noisy = {name: g + noise * torch.randn(g.shape, generator=stream) for name, g in shared.items()}
    result = rebuilt(model, noisy, images, 4)
    grey = is_grey(result)
    assert grey.all() == (noise >= 1e-3)
    assert ((result - images).abs().amax(dim=(1, 2, 3))[~grey] < 500 * noise).all()


def test_two_labels_of_one_image_have_no_certificate() -> None:
    images, _ = pictures(DIGITS, 2)
    both = torch.cat([images[:1], images[:1]])
    model = network(both)
    assert is_grey(rebuilt(model, gradient(model, both, torch.tensor([1, 5]), 2), both, 2)).all()
    assert not is_grey(rebuilt(model, gradient(model, images, torch.tensor([1, 5]), 2), images, 2)).any()


def test_networks_and_gradients_that_do_not_fit_are_refused_in_a_line() -> None:
    images, labels = pictures(DIGITS, 2)
    lenet = installed().one("model", "lenet").build(CPU)((3, 18, 18), CLASSES, generator(0)).requires_grad_(False)
    with pytest.raises(
        UsageError, match=r"model: SPEAR needs a linear layer that takes the pixels, and 1 takes others"
    ):
        rebuilt(lenet, gradient(lenet, images, labels, 2), images, 2)
    alone = torch.nn.Sequential(torch.nn.Conv2d(3, CLASSES, 18), torch.nn.Flatten()).requires_grad_(False)
    with pytest.raises(UsageError, match="model: it has no linear layer with a bias, through which SPEAR"):
        rebuilt(alone, gradient(alone, images, labels, 2), images, 2)
    model = network(images)
    shared = gradient(model, images, labels, 2)
    del shared["1.bias"]
    with pytest.raises(UsageError, match=r"gradients: 1\.bias is missing"):
        rebuilt(model, shared, images, 2)


def test_spear_exchanges_a_sparse_direction_that_is_no_row_of_the_gradient_for_one_that_is() -> None:
    """With more directions than images, the first directions need not be those of the images."""
    random = generator(0)
    layer = torch.nn.Linear(12, 60).double()
    with torch.no_grad():
        layer.weight.copy_(torch.randn(60, 12, generator=random, dtype=torch.float64))
        layer.bias.zero_()
    images = torch.randn(3, 12, generator=random, dtype=torch.float64)
    rows = torch.randn(3, 60, generator=random, dtype=torch.float64) * (layer(images) > 0)
    search = _Search(rows.T @ images, rows.sum(dim=0), layer, layer, (1, 3, 4), 3, 1e-6)
    real = F.normalize(torch.linalg.lstsq(search.span, rows.T).solution.T, dim=1)
    other = F.normalize(torch.randn(1, 3, generator=random, dtype=torch.float64), dim=1)
    search.directions = torch.cat([other, real])
    directions, agreement = search._choose()
    assert agreement == 1
    assert (directions @ real.T).abs().amax(dim=1).min() > 1 - 1e-9
    search.directions = torch.cat([other, real[:2]])
    assert search._choose()[1] < 1
