"""The output layer is the one whose bias is added to the logits, wherever it is declared."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from imharness.errors import UsageError
from imharness.gradients import ImageRng, Round
from imharness_reconstruction.attacks.cafe import Cafe
from imharness_reconstruction.label_counts import label_counts, listed
from imharness_reconstruction.output_layer import output_layer
from imharness_reconstruction.per_image import averaged, batch_weights, image_gradients, labels_from_gradients
from imharness_reconstruction.rounds import shared_in

SHAPE, CLASSES = (3, 8, 8), 6
CPU = torch.device("cpu")


class Net(nn.Module):
    """A network whose head, of the given kind, is declared before its body; `norm`, declared last, is no output."""

    def __init__(self, kind: str, classes: int = CLASSES) -> None:
        super().__init__()
        self.kind = kind
        self.weight, self.bias = nn.Parameter(torch.empty(classes, 384)), nn.Parameter(torch.empty(classes))
        self.mixing = nn.Conv2d(6, classes, 1)
        self.body, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        stream = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=stream))
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.sigmoid(self.norm(self.body(x)))
        if self.kind == "convolution":
            return self.mixing(hidden).mean(dim=(2, 3))
        if self.kind == "no bias":
            return hidden.flatten(1) @ self.weight.T
        if self.kind == "negative":
            return hidden.flatten(1) @ self.weight.T - self.bias
        logits = F.linear(hidden.flatten(1), self.weight, self.bias)
        return {"plain": logits, "log": logits.log_softmax(dim=1), "cool": logits / 3}[self.kind]


@pytest.mark.parametrize("kind", ["plain", "log", "cool", "convolution"])
@pytest.mark.parametrize("classes", [2, 6])
def test_the_output_layer_is_found_and_tells_the_label(kind: str, classes: int) -> None:
    model = Net(kind, classes)
    layer = output_layer(model, SHAPE)
    names = ("mixing.bias", "mixing.weight") if kind == "convolution" else ("bias", "weight")
    assert (layer.bias, layer.weight, layer.classes) == (*names, classes)
    labels = torch.arange(classes)
    shared = image_gradients(model, torch.rand(classes, *SHAPE, generator=torch.Generator().manual_seed(1)), labels)
    assert labels_from_gradients(shared, model, SHAPE).tolist() == labels.tolist()


@pytest.mark.parametrize("kind", ["no bias", "negative"])
def test_a_head_without_a_bias_that_is_added_is_refused(kind: str) -> None:
    model = Net(kind)
    shared = image_gradients(model, torch.rand(1, *SHAPE), torch.tensor([0]))
    with pytest.raises(UsageError, match=r"^model: no parameter is a bias of its logits"):
        labels_from_gradients(shared, model, SHAPE)


@pytest.mark.parametrize("kind", ["plain", "convolution"])
def test_counts_are_read_from_the_output_layer(kind: str) -> None:
    model, labels = Net(kind), [[0, 2, 3, 5]]
    with torch.no_grad():  # outputs that hardly depend on the image, so that the signs tell the classes
        for parameter in (model.weight, model.bias, model.mixing.weight, model.mixing.bias):
            parameter.mul_(0.05)
    images = torch.rand(1, 4, *SHAPE, generator=torch.Generator().manual_seed(2))
    shared, _ = shared_in(Round(images=4), model, images, F.one_hot(torch.tensor(labels), CLASSES).float())
    assert listed(label_counts(shared, model, SHAPE, 4)).tolist() == labels


class Twofold(nn.Module):
    """A hidden and an output layer, both linear and declared in the wrong order, and others that no image passes."""

    def __init__(self) -> None:
        super().__init__()
        self.unused, self.output, self.hidden = nn.Linear(5, CLASSES), nn.Linear(192, CLASSES), nn.Linear(192, 192)
        self.body, self.last = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(4, CLASSES)
        stream = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=stream))
        self.eval().requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(torch.sigmoid(self.hidden(torch.sigmoid(self.body(x)).flatten(1))))


def test_cafe_takes_layers_in_the_order_of_the_pass_and_labels_from_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of both linear layers are as large as an image, so only the order of the pass tells them apart."""
    model, images = Twofold(), torch.rand(6, *SHAPE, generator=torch.Generator().manual_seed(4))
    labels = torch.tensor([3, 0, 5, 1, 4, 2])
    attack, calls = Cafe(batch=2, steps=1), []
    shared = averaged(image_gradients(model, images, labels), batch_weights(attack.batches(6), 6))

    def descend(
        self: Cafe, first: torch.Tensor, labels: torch.Tensor, shared, known_inputs, mean, model, layer, progress
    ):
        calls.append((labels, known_inputs, layer))
        return first

    monkeypatch.setattr(Cafe, "_descend", descend)
    attack.build(CPU)(shared, model, SHAPE, ImageRng(range(6)), lambda done, total: None)
    ((read, inputs, layer),) = calls
    assert read.tolist() == labels.tolist()
    assert layer is model.hidden
    torch.testing.assert_close(inputs, torch.sigmoid(model.body(images)).flatten(1), atol=1e-2, rtol=1e-2)


def test_cafe_without_a_linear_layer_says_so() -> None:
    model = nn.Sequential(nn.Conv2d(3, CLASSES, 8), nn.Flatten()).eval().requires_grad_(False)
    shared = image_gradients(model, torch.rand(4, *SHAPE), torch.arange(4))
    with pytest.raises(UsageError, match="no linear layer with a bias"):
        Cafe(batch=2, steps=1).build(CPU)(shared, model, SHAPE, ImageRng(range(4)), lambda done, total: None)
