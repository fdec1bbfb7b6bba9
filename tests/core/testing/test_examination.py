"""Quick checks before a ranking flag objects of notebooks that break their contract, and no honest object."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import imharness as ih
from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.contracts.image_dataset import ImageDataset
from imharness.notebook.components import local_component
from imharness.notebook.objects import UserObject
from imharness.notebook.randomness import say_who_drew
from imharness.testing.examination import failed_checks

SIDE = 72


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    """Six photographs of 72 x 72 px."""
    data = installed().one("dataset", "harness/pictures")
    assert isinstance(data, ImageDataset)
    image_set = data.build(torch.device("cpu"))
    sizes = [image_set.load([index]) for index in range(0, len(image_set), max(1, len(image_set) // 6))][:6]
    return torch.cat([(255 * F.adaptive_avg_pool2d(image, SIDE)).round() / 255 for image in sizes])


@pytest.fixture(autouse=True)
def fresh_warnings() -> Iterator[None]:
    """Forget after each test which objects drew from global randomness: each test is warned of its own alone."""
    yield
    with warnings.catch_warnings(action="ignore"):
        say_who_drew()


def local(user_object: UserObject) -> Component:
    return local_component(user_object, None, user_object.name).component


class Straight(torch.autograd.Function):
    """Rounds, and returns a gradient that points the other way."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return (x * 7).round() / 7

    @staticmethod
    def backward(ctx: Any, back: torch.Tensor) -> torch.Tensor:
        return -back


calls = {"n": 0}


def counting(x: torch.Tensor) -> torch.Tensor:
    calls["n"] += 1
    return x if calls["n"] % 2 else x.flip(-1)


def changing(x: torch.Tensor) -> torch.Tensor:
    x.mul_(0.9)
    return x


def dark(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.mean(dim=(1, 2, 3), keepdim=True) < 0.5, torch.nan, x)


def sized(x: torch.Tensor) -> torch.Tensor:
    return x.flip(-1).round() if x.shape[-1] == SIDE else x


def on_levels(x: torch.Tensor) -> torch.Tensor:
    whole = ((x * 255 - (x * 255).round()).abs().amax(dim=(1, 2, 3)) < 1e-3).view(-1, 1, 1, 1)
    return torch.where(whole, x.flip(-1), x)


def blurred(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(F.pad(x, [1] * 4, mode="replicate"), 3, 1)


def contrast(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).std(dim=1)


def sharpness(x: torch.Tensor) -> torch.Tensor:
    """A quality in (0, 1) that blur and noise lower: how near the mean step between neighbours is to 0.05."""
    step = (x[..., 1:] - x[..., :-1]).abs().flatten(1).mean(dim=1)
    return torch.exp(-(((step.clamp(min=1e-6) / 0.05).log()) ** 2))


def quality(function: Callable[..., Any], **facts: Any) -> UserObject:
    return ih.metric(function, **({"bounds": (0.0, 1.0), "higher_means": "better_quality", "name": "it"} | facts))


class Holding:
    """A function that holds a network, which nobody moves."""

    def __init__(self) -> None:
        self.network = torch.nn.Conv2d(3, 3, 3, padding=1).requires_grad_(False)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.network(x))


class Weighted(torch.nn.Module):
    """A module with weights that are neither a parameter nor a buffer, so that they are not moved."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.rand(3, 1, 1, generator=torch.Generator().manual_seed(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weights


def remembering() -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that makes what it needs on the device of its first call, as runs on one device allow."""
    cached: list[torch.Tensor] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        if not cached:
            cached.append(torch.linspace(0.5, 1, x.shape[-1], device=x.device))
        return x * cached[0].amax()

    return function


def back_and_forth(x: torch.Tensor) -> torch.Tensor:
    """Copy in a loop, which is slow and no fault."""
    for _ in range(30):
        x = x.cpu().to(x.device)
    return x


def counted(x: torch.Tensor) -> Any:
    """Score in numpy, as metrics of other libraries do."""
    return x.detach().cpu().numpy().std(axis=(1, 2, 3))


def defense(function: Callable[..., Any], differentiable: bool = True, **facts: Any) -> UserObject:
    return ih.defense(function, differentiable=differentiable, name="it", **facts)


def forgetful(x: torch.Tensor, target: Any, rng: Any) -> torch.Tensor:
    return (x + 0.5).clamp(0, 1)


LIES = {
    "masked gradient": lambda: defense(lambda x: (x * 15).round() / 15 + 0 * x),
    "gradient of another function": lambda: defense(Straight.apply),
    "detached": lambda: defense(lambda x: blurred(x.detach())),
    "rows mixed": lambda: defense(lambda x: (x + x.mean(0, keepdim=True)) / 2),
    "rows by place": lambda: defense(lambda x: x * torch.linspace(0.5, 1, len(x)).view(-1, 1, 1, 1)),
    "state": lambda: defense(counting),
    "random undeclared": lambda: defense(lambda x: (x + 0.1 * torch.rand_like(x)).clamp(0, 1)),
    "random from elsewhere": lambda: defense(lambda x, rng: (x + 0.1 * torch.rand_like(x)).clamp(0, 1), random=True),
    "declared random, is not": lambda: defense(lambda x, rng: blurred(x), random=True),
    "input changed in place": lambda: defense(changing),
    "out of range": lambda: defense(lambda x: 1.5 * x),
    "NaN on some": lambda: defense(dark),
    "by size": lambda: defense(sized, differentiable=False),
    "by rounding": lambda: defense(on_levels),
    "bounds that hold no score": lambda: quality(lambda x: 100 * contrast(x)),
    "bounds far too wide": lambda: quality(contrast, bounds=(0.0, 100.0)),
    "clamped": lambda: quality(lambda x: contrast(x).clamp(0.0, 0.001)),
    "wrong direction": lambda: quality(sharpness, higher_means="worse_quality"),
    "detached metric": lambda: quality(lambda x: contrast(x.detach())),
    "metric of a batch": lambda: quality(lambda x: contrast(x) / contrast(x).max()),
    "random metric": lambda: quality(lambda x: contrast(x) + 0.05 * torch.rand(len(x))),
    "metric by size": lambda: quality(
        lambda x: contrast(x) * (1.0 if x.shape[-1] == SIDE else 0.1), differentiable=False
    ),
    "gradient of a metric masked": lambda: quality(lambda x: (contrast(x) * 20).round() / 20 + 0 * x.sum()),
    "attack beyond its radius": lambda: ih.attack(
        forgetful, access="white_box", norm="linf", radius=4 / 255, name="it"
    ),
    "evaluator by order": lambda: ih.evaluator(lambda q: torch.arange(len(q.target_labels)).float(), name="it"),
}
"""Name -> an object that breaks its contract: a check fails."""
FORGOTTEN = {
    "constant": lambda: defense(lambda x: (x * torch.full((3, 1, 1), 0.5)).clamp(0, 1)),
    "network held": lambda: defense(Holding()),
    "weights of a module": lambda: defense(Weighted()),
    "result on the CPU": lambda: defense(lambda x: x.cpu() ** 2),
    "numpy of a GPU": lambda: quality(lambda x: x.detach().numpy().std(axis=(1, 2, 3)), differentiable=False),
    "array of a GPU": lambda: quality(lambda x: np.asarray(x.detach()).std(axis=(1, 2, 3)), differentiable=False),
    "metric": lambda: quality(lambda x: contrast(x * torch.ones(3, 1, 1))),
    "distance": lambda: ih.metric(
        lambda x, y: ((x - y) * torch.ones(3, 1, 1)).square().flatten(1).mean(1),
        reference=True,
        higher_means="worse_quality",
        name="it",
    ),
    "attack": lambda: ih.attack(
        lambda x, target, rng: (x + 0.01 * torch.ones(3, 1, 1)).clamp(0, 1),
        access="white_box",
        norm="linf",
        radius=4 / 255,
        name="it",
    ),
    "evaluator": lambda: ih.evaluator(lambda q: q.target_outputs.amax(1) * torch.ones(len(q.target_labels)), name="it"),
}
"""Name -> an object that forgets to move a tensor to its device: only the check of devices fails."""
HONEST = {
    "identity": lambda: defense(lambda x: x),
    "flip": lambda: defense(lambda x: x.flip(-1)),
    "blur": lambda: defense(blurred),
    "levels": lambda: defense(lambda x: (x * 15).round() / 15, differentiable=False),
    "back and forth": lambda: defense(back_and_forth),
    "noise": lambda: defense(lambda x, rng: (x + 0.05 * rng.normal(*x.shape[1:])).clamp(0, 1), random=True),
    "gamma": lambda: defense(lambda x: (x + 1e-3).clamp(max=1) ** 0.8),
    "smaller": lambda: defense(
        lambda x: F.interpolate(F.avg_pool2d(x, 2, ceil_mode=True), x.shape[2:], mode="bilinear")
    ),
    "mean": lambda: defense(lambda x: x.mean(dim=(2, 3), keepdim=True).expand_as(x)),
    "grey": lambda: defense(lambda x: x.mean(dim=(1, 2, 3), keepdim=True).expand_as(x)),
    "tiles": lambda: defense(lambda x: F.interpolate(F.adaptive_avg_pool2d(x, 2), x.shape[2:])),
    "array": lambda: defense(lambda x: torch.from_numpy(x.numpy(force=True) ** 2).to(x.device), differentiable=False),
    "network": lambda: defense(torch.nn.AvgPool2d(3, 1, 1)),
    "remembered": lambda: defense(remembering()),
    "scores in numpy": lambda: quality(counted, differentiable=False),
    "contrast": lambda: quality(contrast),
    "sharpness": lambda: quality(sharpness),
    "distance": lambda: ih.metric(
        lambda x, y: (x - y).square().flatten(1).mean(1), reference=True, higher_means="worse_quality", name="it"
    ),
    "confidence": lambda: ih.evaluator(lambda q: q.target_outputs.amax(dim=1) - math.sqrt(0.5), name="it"),
}
"""Name -> an object that keeps its contract: no check fails."""


@pytest.mark.parametrize("name", LIES)
def test_a_lie_fails_a_quick_check(name: str, images: torch.Tensor) -> None:
    assert list(failed_checks(local(LIES[name]()), [images]))


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_object_fails_none(name: str, images: torch.Tensor) -> None:
    assert list(failed_checks(local(HONEST[name]()), [images])) == []


@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_only_a_gpu_would_show_is_a_flag_without_one(name: str, images: torch.Tensor) -> None:
    """Nothing else is found, because nothing else is wrong."""
    (line,) = failed_checks(local(FORGOTTEN[name]()), [images])
    assert line.startswith('fails the check "keeps every tensor on its device": ')


def test_a_flag_names_the_line_that_mixes_devices(images: torch.Tensor) -> None:
    (line,) = failed_checks(local(FORGOTTEN["constant"]()), [images])
    assert re.search(r"test_examination.py:\d+: aten.mul.Tensor got tensors on cpu and cuda:0$", line)


def test_the_trial_on_a_simulated_gpu_leaves_nothing_behind(images: torch.Tensor) -> None:
    function = remembering()
    assert list(failed_checks(local(defense(function)), [images])) == []
    assert function(images).device.type == "cpu"


def test_where_a_process_cannot_be_copied_one_line_says_what_was_not_checked(
    monkeypatch: pytest.MonkeyPatch, images: torch.Tensor
) -> None:
    monkeypatch.delattr("os.fork")
    component = local(defense(Holding()))
    with pytest.warns(UserWarning, match=r"^whether local/it keeps its tensors on a GPU was not checked") as warned:
        problems = [*failed_checks(component, [images]), *failed_checks(component, [images])]
    assert problems == []
    assert len(warned) == 1


def test_a_liar_is_flagged_everywhere_and_wins_nothing() -> None:
    evaluation = ih.evaluate(
        ih.defense(lambda x: (x * 15).round() / 15 + 0 * x, differentiable=True, name="liar"),
        ih.defense(lambda x: (x * 15).round() / 15, differentiable=False, name="twin"),
        limit=4,
        progress=False,
    )
    assert [label for label in evaluation.flags if label.startswith("local/")] == ["local/liar"]
    assert evaluation.rankings[0].places["local/liar"].flags
    assert not evaluation.rankings[0].places["local/twin"].flags
    assert (
        'liar can neither win nor decide who wins: it fails the check "is differentiable if and only if it says '
        'so": info says differentiable' in repr(evaluation)
    )
    comparison = ih.compare(evaluation["liar"], evaluation["twin"])
    assert comparison.winner == ""
    assert "no claim is made" in repr(comparison)


def test_a_metric_that_lies_decides_nothing() -> None:
    """Strong distortions score better by it, so any defense would win or lose by its scores."""
    wrong = ih.metric(sharpness, bounds=(0.0, 1.0), higher_means="worse_quality", name="wrong")
    evaluation = ih.evaluate(wrong, limit=4, progress=False)
    assert "local/wrong" in evaluation.flags
    assert "local/wrong (metric)" in (evaluation.table("ranking").spec.note or "")


def test_score_warns_of_a_metric_that_mixes_rows(images: torch.Tensor) -> None:
    with pytest.warns(UserWarning, match="treats each row alone"):
        ih.score(quality(lambda x: contrast(x) / contrast(x).max()), images.numpy())
