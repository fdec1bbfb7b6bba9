"""What a component in the sandbox asks in the middle of a call: its target, its scorer and progress stay outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from imharness.contracts.attack import TARGET
from imharness.contracts.call import Call
from imharness.contracts.certification import SCORER
from imharness.contracts.values import PROGRESS, ValueKind
from imharness.errors import SandboxViolation
from imharness_submissions.sandbox.host import Answer
from imharness_submissions.sandbox.wire import Message

REPORT_S = 0.1
"""Progress that is reported sooner after other progress is not shown."""


@dataclass(frozen=True)
class Outside:
    """An argument that the component calls and that stays here: facts about it, and answers by kind of question."""

    facts: Mapping[str, Any]
    answers: Mapping[str, Answer]


def outside_arguments(call: Call) -> dict[str, Callable[[Any, torch.device, int], Outside]]:
    """Return the arguments of a call that stay here: name -> the function that builds its `Outside`.

    The function takes the argument, the device of the images that it is asked about, and the largest number of pixels
    that such an image may have, which `pixels` returns.
    """
    return {name: _OUTSIDE[kind] for name, kind in call.arguments.items() if kind in _OUTSIDE}


def carried(call: Call) -> dict[str, ValueKind]:
    """Return the arguments of a call that go into the sandbox as tensors."""
    return {name: kind for name, kind in call.arguments.items() if kind not in _OUTSIDE}


def able(call: Call | None) -> bool:
    """Say whether a call can go into the sandbox."""
    return call is not None and call.returns.crosses and all(kind.crosses for kind in carried(call).values())


def answering(answers: Mapping[str, Answer]) -> Answer | None:
    """Return what answers every question of a call by its kind; None where nothing can be asked."""
    if not answers:
        return None

    def answer(message: Message) -> Message:
        if message.kind not in answers:
            raise SandboxViolation(f"asked for {message.kind!r:.40}, which this call has not")
        return answers[message.kind](message)

    return answer


def _target(target: Any, device: torch.device, pixels: int) -> Outside:
    """Answer what an attack asks: scores, with the gradient of each with respect to its own image."""

    def answer(message: Message) -> Message:
        images = _images(message, device, pixels)
        rows = () if "rows" not in message.tensors else (message.tensors["rows"],)
        if not message.facts.get("gradient"):
            scores = target(images, *rows)
            return Message("scores", {}, {"scores": scores, "queries": target.queries})
        if not target.differentiable:
            raise SandboxViolation("asked for the gradient of a black-box target")
        leaf = images.requires_grad_(True)
        with torch.enable_grad():
            scores = target(leaf, *rows)
            (gradient,) = torch.autograd.grad(scores.sum(), leaf)
        return Message("scores", {}, {"scores": scores, "gradient": gradient, "queries": target.queries})

    facts = {"differentiable": target.differentiable, "lower": target.lower, "upper": target.upper}
    return Outside(facts, {"score": answer})


def _scorer(score: Callable[[torch.Tensor], torch.Tensor], device: torch.device, pixels: int) -> Outside:
    def answer(message: Message) -> Message:
        with torch.no_grad():
            return Message("scores", {}, {"scores": score(_images(message, device, pixels))})

    return Outside({}, {"score": answer})


def _progress(progress: Callable[[int, int], None], device: torch.device, pixels: int) -> Outside:
    last_report = 0.0

    def answer(message: Message) -> Message:
        nonlocal last_report
        now = time.monotonic()
        if now > last_report + REPORT_S:
            last_report = now
            progress(message.whole("done"), message.whole("total", 1))
        return Message("seen")

    return Outside({}, {"progress": answer})


_OUTSIDE: dict[ValueKind, Callable[[Any, torch.device, int], Outside]] = {
    TARGET: _target,
    SCORER: _scorer,
    PROGRESS: _progress,
}


def pixels(inputs: Mapping[str, Any]) -> int:
    """Return how many pixels an image of a call has."""
    images = inputs.get("images")
    return images.shape[2] * images.shape[3] if isinstance(images, torch.Tensor) else 0


def _images(message: Message, device: torch.device, pixels: int) -> torch.Tensor:
    images = message.tensors.get("images")
    if images is None or images.ndim != 4 or images.shape[1] != 3 or images.dtype != torch.float32:
        raise SandboxViolation("asked for scores of something that is not a batch of images")
    if images.shape[2] * images.shape[3] > pixels:
        raise SandboxViolation("asked for scores of images that are larger than those it was given")
    return images.to(device)
