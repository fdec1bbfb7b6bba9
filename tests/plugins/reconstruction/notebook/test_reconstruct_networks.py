"""`ih.reconstruct` takes networks of many forms where it is clear which output is the logits; else it refuses them."""

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from imharness.errors import ContractError, UsageError
from imharness.notebook.objects import metric
from imharness.notebook.outputs import output_of
from imharness.notebook.score import score
from imharness_reconstruction.notebook.reconstruct import Reconstruction, reconstruct

SHAPE, LABEL = (3, 8, 8), 3
ATTACKS = [
    "invgrad[steps=8]",
    "dlg[iterations=5]",
    "idlg[iterations=5]",
    "gradattack[steps=8]",
    "federated[images=1,steps=8]",
]
Record = namedtuple("Record", "logits aux")


@dataclass
class Answer:
    hidden: torch.Tensor
    logits: torch.Tensor


class Fields(OrderedDict):
    """A mapping with attributes, as transformers returns it."""


class Odd(nn.Module):
    """A network that declares its head before its body, and an unused head, `aux`, last.

    It returns `form(logits, hidden)`.
    """

    def __init__(self, form: Callable[..., Any] = lambda logits, hidden: logits, colours: int = 3, width: int = 10):
        super().__init__()
        self.head, self.form = nn.Linear(width * 64, 10), form
        self.body, self.aux = nn.Conv2d(colours, width, 3, padding=1), nn.Linear(7, 12)
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                stream = torch.Generator().manual_seed(number)
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=stream))

    def forward(self, x: torch.Tensor) -> Any:
        hidden = torch.sigmoid(self.body(x))
        return self.form(self.head(hidden.flatten(1)), hidden)

    def gradients(self, x: torch.Tensor) -> dict[str, torch.Tensor | None]:
        loss = nn.functional.cross_entropy(self.head(torch.sigmoid(self.body(x)).flatten(1)), torch.tensor([LABEL]))
        tensors = torch.autograd.grad(loss, list(self.parameters()), allow_unused=True)
        return dict(zip(dict(self.named_parameters()), tensors, strict=True))


def image(colours: int = 3) -> torch.Tensor:
    return torch.rand(1, colours, 8, 8, generator=torch.Generator().manual_seed(0))


def right(result: Reconstruction) -> None:
    """Check that the label was read, and that the original explains the gradient without doubts."""
    rows = result.rows("reconstruct")
    assert rows["label"].tolist() == [LABEL]
    assert rows["explained"].tolist() == [True], rows
    assert not [line for line in result.doubts if "explain" in line or "several classes" in line]


@pytest.mark.parametrize(
    "form",
    [
        lambda logits, hidden: (logits, None),
        lambda logits, hidden: (hidden, logits),
        lambda logits, hidden: [logits],
        lambda logits, hidden: {"logits": logits, "features": hidden.flatten(1)},
        lambda logits, hidden: {"out": logits},
        lambda logits, hidden: Record(logits, 2 * logits),
        lambda logits, hidden: Answer(hidden, logits),
        lambda logits, hidden: Fields(loss=None, logits=logits),
    ],
)
def test_logits_are_found_in_what_a_network_returns(form: Callable[..., Any]) -> None:
    model = Odd(form).eval()
    gradients = model.gradients(image())
    right(reconstruct(gradients, model, SHAPE, attack=ATTACKS[0], originals=image()))
    assert not model._forward_hooks


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (lambda logits, hidden: (hidden.flatten(1), logits), "tuple with 2 tensors that may be the output"),
        (lambda logits, hidden: {"a": logits, "b": logits}, "dict with 2 tensors"),
        (lambda logits, hidden: None, r"expected logits of shape \(1, classes\) for one image, got a NoneType"),
        (lambda logits, hidden: hidden, r"expected logits .* got \(1, 10, 8, 8\)"),
        (lambda logits, hidden: logits[0], r"expected logits .* got \(10,\)"),
    ],
)
def test_an_output_that_may_mean_several_things_is_refused(form: Callable[..., Any], message: str) -> None:
    model = Odd(form).eval()
    with pytest.raises(UsageError, match=f"^model: .*{message}"):
        reconstruct(model.gradients(image()), model, SHAPE)


def test_what_a_metric_returns_is_read_in_the_same_way() -> None:
    class Rated(nn.Module):
        def __init__(self, form: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
            super().__init__()
            self.form = form

        def forward(self, x: torch.Tensor) -> Any:
            return self.form(x.mean(dim=(1, 2, 3)), x.flatten(1))

    images = torch.rand(4, 3, 8, 8)
    facts = {"bounds": (0, 1), "higher_means": "better_quality"}
    for form in (lambda s, f: (s, f), lambda s, f: {"score": s}, lambda s, f: (f, s, None)):
        scores = score(metric(Rated(form), **facts), images)
        assert torch.allclose(torch.as_tensor(scores), images.mean(dim=(1, 2, 3)))
    with pytest.raises(UsageError, match="tuple with 2 tensors"):
        score(metric(Rated(lambda s, f: (s, s)), **facts), images)
    with pytest.raises(ContractError, match="expected 4 scores"):
        score(metric(Rated(lambda s, f: {"a": None}), **facts), images)
    assert output_of(["a"], "model") == ["a"]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("colours", [3, 1])
@pytest.mark.parametrize("width", [10, 12])
def test_every_attack_finds_the_output_layer_and_takes_grey_images(attack: str, colours: int, width: int) -> None:
    model, original = Odd(colours=colours, width=width).eval(), image(colours)
    size = (colours, 8, 8)
    result = reconstruct(model.gradients(original), model, size, attack=attack, originals=original, metrics=["psnr"])
    right(result)
    assert result.images.shape == (1, *size)
    assert result.rows("leakage")["score"].shape == (1,)


def test_grey_originals_may_be_bytes_and_are_not_of_three_colours() -> None:
    model, original = Odd(colours=1).eval(), image(1)
    coded = original[0].mul(255).byte().numpy()
    gradients = model.gradients(torch.as_tensor(coded)[None] / 255)
    right(reconstruct(gradients, model, (1, 8, 8), attack=ATTACKS[0], originals=coded))
    with pytest.raises(UsageError, match=r"originals must have shape \(1, 1, 8, 8\), got \(1, 3, 8, 8\)"):
        reconstruct(gradients, model, (1, 8, 8), originals=image())
    with pytest.raises(UsageError, match=r"shape: expected .*grey images, got \(2, 8, 8\)"):
        reconstruct(gradients, model, (2, 8, 8))


@pytest.mark.parametrize("attack", ATTACKS)
def test_parameters_that_were_not_shared_are_left_out(attack: str) -> None:
    model, original = Odd().eval(), image()
    every = model.gradients(original)
    assert every["aux.weight"] is None
    zeros = [torch.zeros_like(p) if every[n] is None else every[n] for n, p in model.named_parameters()]
    head = {name: every[name] for name in ("head.bias", "head.weight")}
    for gradients in (every, list(every.values()), zeros, head):
        right(reconstruct(gradients, model, SHAPE, attack=attack, originals=original))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in head)
    right(reconstruct([head["head.weight"], head["head.bias"]], model, SHAPE, attack=attack, originals=original))


def test_frozen_layers_do_not_move_in_local_steps() -> None:
    model, original, rate = Odd().eval(), image(), 0.5
    trained = [model.head.weight, model.head.bias]
    before = [parameter.detach().clone() for parameter in trained]
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(original), torch.tensor([LABEL]))
        for parameter, slope in zip(trained, torch.autograd.grad(loss, trained), strict=True):
            parameter.data -= rate * slope
    moved = [(a - b.detach()) / (3 * rate) for a, b in zip(before, trained, strict=True)]
    for parameter, start in zip(trained, before, strict=True):
        parameter.data.copy_(start)
    attack = f"federated[images=1,epochs=3,local_rate={rate},steps=8]"
    gradients = dict(zip(("head.weight", "head.bias"), moved, strict=True))
    right(reconstruct(gradients, model, SHAPE, attack=attack, originals=original))


def test_labels_that_are_known_need_no_gradient_of_the_head() -> None:
    model = Odd().eval()
    body = {name: values for name, values in model.gradients(image()).items() if name.startswith("body")}
    with pytest.raises(UsageError, match=r"^gradients: head\.bias, the bias of the output layer, is missing"):
        reconstruct(body, model, SHAPE, attack=ATTACKS[0])
    attack = "federated[images=1,steps=8,labels_known=true]"
    right(reconstruct(body, model, SHAPE, attack=attack, originals=image(), labels=[LABEL]))


def test_a_list_that_fits_no_set_of_parameters_names_the_way_out() -> None:
    model = Odd().eval()
    tensors = [model.gradients(image())[name] for name in ("head.weight", "head.bias")]
    with pytest.raises(UsageError, match=r"2 tensors; the model has 6 parameters, of which 6 are not frozen.*mapping"):
        reconstruct(tensors, model, SHAPE)


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_networks_of_other_precisions_are_taken(kind: torch.dtype) -> None:
    model = Odd().eval().to(kind)
    gradients = model.gradients(image().to(kind))
    right(reconstruct(gradients, model, SHAPE, attack=ATTACKS[0], originals=image()))
    assert next(model.parameters()).dtype == kind


def test_a_lazy_network_that_saw_no_image_is_refused() -> None:
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(10))
    with pytest.raises(UsageError, match=r"^model: 1\.weight has no shape yet"):
        reconstruct([torch.ones(10, 192), torch.ones(10)], model, SHAPE)
    model(image())
    loss = nn.functional.cross_entropy(model(image()), torch.tensor([LABEL]))
    right(
        reconstruct(
            torch.autograd.grad(loss, list(model.parameters())), model, SHAPE, originals=image(), attack=ATTACKS[0]
        )
    )
