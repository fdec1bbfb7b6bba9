"""Federated inversion whose answer is known: closed forms, counts, and updates that are gradients."""

import pytest
import torch
import torch.nn.functional as F

from imharness.data import generator
from imharness.gradients import LABELS, MALICIOUS, ImageRng, Round
from imharness_reconstruction.attacks.federated import FederatedInversion
from imharness_reconstruction.attacks.imprint import Imprint
from imharness_reconstruction.federated_step import as_sent
from imharness_reconstruction.label_counts import label_counts, listed
from imharness_reconstruction.pairing import paired
from imharness_reconstruction.per_image import image_gradients
from imharness_reconstruction.rounds import shared_in

CPU = torch.device("cpu")
SHAPE, CLASSES = (3, 8, 8), 5


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=generator(seed))


def network(norm: bool = False, width: int = 6) -> torch.nn.Module:
    """Return a convolution and a linear layer, with weights of a fixed stream, in evaluation mode."""
    layers = [torch.nn.Conv2d(3, width, 3, padding=1), *([torch.nn.BatchNorm2d(width)] if norm else [])]
    model = torch.nn.Sequential(*layers, torch.nn.Sigmoid(), torch.nn.Flatten(), torch.nn.Linear(width * 64, CLASSES))
    stream = generator(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=stream))
    return model.eval().requires_grad_(False)


def one_hot(labels: list[list[int]]) -> torch.Tensor:
    return F.one_hot(torch.tensor(labels), CLASSES).float()


def descended(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor, steps, rate: float) -> list:
    """Return the weights before less those after SGD of torch; each of `steps` is (first, last + 1) of its images."""
    before = [p.detach().clone() for p in model.parameters()]
    model.requires_grad_(True)
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    for start, stop in steps:
        optimiser.zero_grad()
        F.cross_entropy(model(images[start:stop]), labels[start:stop]).backward()
        optimiser.step()
    moved = [a - p.detach() for a, p in zip(before, model.parameters(), strict=True)]
    with torch.no_grad():
        for a, p in zip(before, model.parameters(), strict=True):
            p.copy_(a)
    model.requires_grad_(False)
    return moved


def test_an_update_of_one_step_is_the_gradient_times_the_rate() -> None:
    model, images, labels = network(), drawn(4, *SHAPE), [[0, 1, 1, 3]]
    moved = descended(model, images, torch.tensor(labels[0]), [(0, 4)], 0.05)
    alone = image_gradients(model, images, torch.tensor(labels[0]))
    shared_update, _ = shared_in(Round(images=4), model, images[None], one_hot(labels))
    for values, gradient, update in zip(shared_update.values(), alone.values(), moved, strict=True):
        assert torch.allclose(values[0], gradient.mean(dim=0), atol=1e-6)
        assert torch.allclose(0.05 * values[0], update, atol=1e-6)


@pytest.mark.parametrize("training_mode", [False, True])
@pytest.mark.parametrize("several", [1, 2])
def test_an_update_of_several_steps_is_that_of_gradient_descent(training_mode: bool, several: int) -> None:
    setting = Round(images=4, batch=2, epochs=3, learning_rate=0.2, training_mode=training_mode, rate_known=False)
    model = network(norm=True)
    images, labels = drawn(several, 4, *SHAPE), [[0, 1, 1, 3], [4, 4, 2, 0]][:several]
    shared_update, statistics = shared_in(setting, model, images, one_hot(labels))
    sent = as_sent(setting, shared_update, statistics, one_hot(labels), 4)
    assert set(sent) == {name for name, _ in model.named_parameters()}
    for b in range(several):
        model[1].train(training_mode)
        buffers = {name: values.clone() for name, values in model.named_buffers()}
        moved = descended(model, images[b], torch.tensor(labels[b]), setting.steps(), 0.2)
        model[1].train(False)
        for name, values in model.named_buffers():
            values.copy_(buffers[name])
        for values, update in zip(sent.values(), moved, strict=True):
            assert torch.allclose(values[b], update, atol=1e-5)


def test_slopes_of_several_participants_are_those_of_each_alone() -> None:
    setting = Round(images=4, batch=2, training_mode=True)
    model, targets = network(norm=True).double(), one_hot([[0, 1, 1, 3], [4, 4, 2, 0]]).double()
    images = drawn(2, 4, *SHAPE).double().requires_grad_(True)

    def slope(rows: slice) -> torch.Tensor:
        gradients, _ = shared_in(setting, model, images[rows], targets[rows])
        return torch.autograd.grad(sum(values.square().sum() for values in gradients.values()), images)[0]

    torch.testing.assert_close(slope(slice(2)), slope(slice(1)) + slope(slice(1, 2)))


@pytest.mark.parametrize("momentum", [0.1, None])
def test_statistics_are_those_that_the_buffers_of_a_participant_reveal(momentum: float | None) -> None:
    setting = Round(images=4, batch=2, epochs=2, learning_rate=0.2, training_mode=True, statistics_known=True)
    model, images, labels = network(norm=True), drawn(4, *SHAPE), [[0, 1, 1, 3]]
    model[1].momentum = momentum
    _, statistics = shared_in(setting, model, images[None], one_hot(labels))
    started, steps = {n: v.clone() for n, v in model.named_buffers()}, len(setting.steps())
    model[1].train()
    descended(model, images, torch.tensor(labels[0]), setting.steps(), 0.2)
    remaining = 0.0 if momentum is None else (1 - momentum) ** steps
    for name in ("1.running_mean", "1.running_var"):
        after = dict(model.named_buffers())[name]
        revealed = (after - remaining * started[name]) / (1 - remaining)
        assert torch.allclose(statistics[name][0], revealed, atol=1e-5)


def test_a_linear_layer_gives_its_input() -> None:
    """The gradient of a row of the weights is the layer's input times the gradient of the row's bias."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, CLASSES)).eval().requires_grad_(False)
    image = drawn(1, 1, *SHAPE)
    update, _ = shared_in(Round(), model, image, one_hot([[2]]))
    weight, bias = update["1.weight"][0], update["1.bias"][0]
    assert torch.allclose(weight[2] / bias[2], image.flatten(), atol=1e-5)


def spread_out(count: int) -> torch.Tensor:
    """Return images whose mean brightness rises in equal steps from 0.2 to 0.75."""
    images = drawn(count, *SHAPE) * 0.2
    return images - images.mean(dim=(1, 2, 3), keepdim=True) + torch.linspace(0.2, 0.75, count)[:, None, None, None]


@pytest.mark.parametrize("norm", [False, True])
def test_an_imprint_layer_gives_every_image_that_is_alone_in_its_bin(norm: bool) -> None:
    attack = Imprint(images=6, bins=64, centre=0.45, spread=0.2)
    model = attack.sent(network(norm), SHAPE).requires_grad_(False)
    images = torch.stack([spread_out(6), spread_out(6).flip(0)])
    shared, _ = shared_in(attack.round(), model, images, one_hot([[0, 1, 2, 3, 4, 0], [1, 1, 1, 2, 2, 0]]))
    rebuilt = attack.build(CPU)(shared, model, SHAPE, ImageRng(range(12)), lambda done, total: None)
    order = paired(rebuilt, images.flatten(0, 1), 6)
    assert (rebuilt[order] - images.flatten(0, 1)).abs().max() < 2e-3
    assert attack.threat == MALICIOUS


@pytest.mark.parametrize("gain", [1.0, 50.0])
def test_an_imprint_layer_adds_at_most_its_gain_for_each_unit_and_brightness_above_its_cutoff(gain: float) -> None:
    model, white = Imprint(bins=8, gain=gain).sent(network(), SHAPE), torch.ones(1, *SHAPE)
    model.network = torch.nn.Flatten()
    above = model.imprint["measure"](white.flatten(1)).relu().sum()
    assert (model(white) - 1).abs().max().item() == pytest.approx(gain * above.item(), rel=1e-4)


def test_images_in_one_bin_are_seen_as_a_mixture_of_them() -> None:
    attack = Imprint(images=2, bins=4, centre=0.45, spread=0.2)
    model = attack.sent(network(), SHAPE).requires_grad_(False)
    images = spread_out(2) * 0 + 0.3 + 0.1 * (drawn(2, *SHAPE) - 0.5)
    images = images - images.mean(dim=(1, 2, 3), keepdim=True) + 0.3
    shared, _ = shared_in(attack.round(), model, images[None], one_hot([[0, 3]]))
    rebuilt = attack.build(CPU)(shared, model, SHAPE, ImageRng(range(2)), lambda done, total: None)
    mixed = next(image for image in rebuilt if (image - 0.5).abs().max() > 1e-6)
    apart = (images[0] - images[1]).flatten()
    share = (mixed - images[1]).flatten() @ apart / apart.square().sum()
    assert torch.allclose(mixed, share * images[0] + (1 - share) * images[1], atol=2e-3)
    assert sum(bool((image == 0.5).all()) for image in rebuilt) == 1


def test_labels_are_counted_exactly_where_outputs_do_not_depend_on_images() -> None:
    model = network()
    with torch.no_grad():
        model[-1].weight.zero_()
    labels = [[0, 0, 0, 2, 4, 4], [1, 1, 1, 1, 1, 1], [0, 1, 2, 3, 4, 4]]
    shared, _ = shared_in(Round(images=6), model, drawn(3, 6, *SHAPE), one_hot(labels))
    assert listed(label_counts(shared, model, SHAPE, 6)).tolist() == labels


def test_labels_are_counted_where_images_of_a_class_are_alike() -> None:
    """All images of a class are copies of one image, so that their softmax outputs are equal."""
    model, kinds, labels = network(), drawn(3, *SHAPE), [0, 0, 0, 2, 4, 4]
    with torch.no_grad():
        model[-1].weight.mul_(0.02)
    images = torch.stack([kinds[[0, 2, 4].index(label)] for label in labels])
    shared, _ = shared_in(Round(images=6), model, images[None], one_hot([labels]))
    assert listed(label_counts(shared, model, SHAPE, 6)).tolist() == [labels]


def test_counts_need_no_scale_where_a_class_is_missing() -> None:
    model = network()
    with torch.no_grad():
        model[-1].weight.zero_()
        model[-1].bias.zero_()
    labels = [[0, 0, 0, 2, 4, 4]]
    shared, _ = shared_in(Round(images=6), model, drawn(1, 6, *SHAPE), one_hot(labels))
    faint = {name: 0.03 * values for name, values in shared.items()}
    assert listed(label_counts(faint, model, SHAPE, 6, scaled=False)).tolist() == labels


@pytest.mark.parametrize(
    "setting",
    [
        {"steps": 400},
        {"steps": 400, "labels_known": True},
        {"steps": 150, "batch": 1, "epochs": 2, "local_rate": 0.1},
        {"steps": 150, "batch": 1, "epochs": 2, "local_rate": 0.1, "rate_known": False, "labels_known": True},
        {"steps": 100, "training_mode": True},
        {"steps": 100, "training_mode": True, "statistics_known": True},
    ],
    ids=str,
)
def test_an_inversion_of_a_round_finds_the_images(setting: dict) -> None:
    """From smooth images and a network of sigmoids, each setting has less than a fifth of the error of grey.

    One gradient of two images says less than several local steps or batch norm do, and so takes more steps.
    """
    attack = FederatedInversion(images=2, learning_rate=0.05, total_variation=1e-5, **setting)
    setup, model = attack.round(), network(norm=setting.get("training_mode", False))
    images = F.interpolate(drawn(4, 3, 4, 4, seed=3), (8, 8), mode="nearest").unflatten(0, (2, 2))
    targets = one_hot([[0, 3], [1, 2]])
    shared, statistics = shared_in(setup, model, images, targets)
    sent = as_sent(setup, shared, statistics, targets, 2)
    assert (LABELS in sent) == setup.labels_known
    assert ("1.running_mean" in sent) == setup.statistics_known
    rebuilt = attack.build(CPU)(sent, model, SHAPE, ImageRng(range(4)), lambda done, total: None)
    flat = images.flatten(0, 1)
    error = (rebuilt[paired(rebuilt, flat, 2)] - flat).square().mean(dim=(1, 2, 3))
    assert error.mean() < 0.2 * (flat - 0.5).square().mean(), error


def test_an_unknown_rate_is_found() -> None:
    """With the true images, the rate that follows from the lengths of the updates is the one of the participant."""
    setting = Round(images=2, batch=1, epochs=2, learning_rate=0.3, rate_known=False)
    model, images, targets = network(), drawn(1, 2, *SHAPE), one_hot([[0, 3]])
    shared, _ = shared_in(setting, model, images, targets)
    sent = as_sent(setting, shared, {}, targets, 2)
    rate = torch.tensor([0.02])
    for _ in range(30):
        simulated, _ = shared_in(setting, model, images, targets, rate)
        length, ours = (sum(v.square().sum() for v in g.values()).sqrt() for g in (sent, simulated))
        rate = (length / (ours * len(setting.steps()))).reshape(1)
    assert abs(float(rate) - 0.3) < 1e-3


def test_reconstructions_are_paired_within_each_participant() -> None:
    private = drawn(6, *SHAPE)
    mixed = private[[2, 0, 1, 5, 3, 4]] + 0.01
    assert torch.allclose(mixed[paired(mixed, private, 3)], private + 0.01)
    across = private[[3, 4, 5, 0, 1, 2]]
    assert not torch.allclose(across[paired(across, private, 3)], private)
