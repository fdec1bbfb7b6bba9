"""Gradients per image, the batched L-BFGS, and attacks that bring real images back."""

import pytest
import torch

from harness.randomness import ImageRng, generator
from harness.registry import installed
from harness_reconstruction.per_image import image_gradients, labels_from_gradients
from harness_vision.lbfgs import minimise

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def setting():
    registry = installed()
    data = registry.one("dataset", "thumbnails[size=16,per_photograph=1]").build(CPU)
    images = data.load([0, 1, 2])
    labels = torch.from_numpy(data.columns["label"])[:3].long()
    network = registry.one("model", "harness/lenet").build(CPU)((3, 16, 16), 9, generator(3)).requires_grad_(False)
    return network, images, labels


def test_gradients_are_those_of_a_loop(setting) -> None:
    network, images, labels = setting
    found = image_gradients(network, images, labels)
    network.requires_grad_(True)
    for i in range(3):
        network.zero_grad()
        torch.nn.functional.cross_entropy(network(images[i : i + 1]), labels[i : i + 1]).backward()
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(found[name][i], parameter.grad, rtol=1e-4, atol=1e-6)
    network.requires_grad_(False)
    assert labels_from_gradients(found).tolist() == labels.tolist()


def test_batched_lbfgs_is_torchs_row_by_row() -> None:
    scale = torch.tensor([[1.0, 10, 3, 7], [2.0, 5, 1, 30]], dtype=torch.float64)
    start = torch.tensor([[1.0, -2, 0.5, 1], [0.3, 2, -1, 4]], dtype=torch.float64)

    def bowl(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return (scale * x.square() + 0.1 * x**4).sum(dim=1)

    ours, value = minimise(lambda x: bowl(x, scale), start, 12, 100, lambda done, total: None)
    for i in range(2):
        x = start[i : i + 1].clone().requires_grad_(True)
        optimiser = torch.optim.LBFGS([x], lr=1, max_iter=12, history_size=100, tolerance_grad=0, tolerance_change=0)

        def closure(x: torch.Tensor = x, i: int = i, optimiser=optimiser) -> torch.Tensor:
            optimiser.zero_grad()
            loss = bowl(x, scale[i : i + 1]).sum()
            loss.backward()
            return loss

        optimiser.step(closure)
        torch.testing.assert_close(ours[i], x.detach()[0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(value, bowl(ours, scale))


@pytest.mark.parametrize("name", ["dlg", "idlg"])
def test_an_attack_brings_images_back_and_no_image_depends_on_the_batch(name: str, setting) -> None:
    network, images, labels = setting
    attack = installed().one("attack", name).with_parameters(iterations=300, starts=2).build(CPU)
    shared = image_gradients(network, images, labels)
    rebuilt = attack(shared, network, (3, 16, 16), ImageRng([1, 2, 3]), lambda done, total: None)
    error = (rebuilt - images).square().flatten(1).mean(dim=1)
    assert error.median() < 0.01, error
    one = {name: values[1:2] for name, values in shared.items()}
    alone = attack(one, network, (3, 16, 16), ImageRng([2]), lambda done, total: None)
    assert (alone - images[1:2]).square().mean() < max(2 * float(error[1]), 0.02)


def test_invgrad_comes_nearer_than_chance(setting) -> None:
    network, images, labels = setting
    attack = installed().one("attack", "harness/invgrad").with_parameters(steps=150).build(CPU)
    shared = image_gradients(network, images, labels)
    rebuilt = attack(shared, network, (3, 16, 16), ImageRng([1, 2, 3]), lambda done, total: None)
    grey = (images - images.mean(dim=(2, 3), keepdim=True)).square().flatten(1).mean(dim=1)
    noise = (torch.rand(images.shape, generator=generator(0)) - images).square().flatten(1).mean(dim=1)
    error = (rebuilt - images).square().flatten(1).mean(dim=1)
    assert (error < noise).all(), (error, noise, grey)
