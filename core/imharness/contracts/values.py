"""Kinds of values that a component's function takes or returns: how each is checked, carried and drawn for a trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import torch
import torch.nn.functional as F

from imharness.contracts.types import Images, Scores
from imharness.errors import ContractError
from imharness.randomness import ImageRng, generator

TOLERANCE = 1e-5
"""Slack for float32 arithmetic: 4/255 comes back as 4.0000002/255."""
CLASSES = 4
Tensors = dict[str, torch.Tensor]
Given = Mapping[str, Any]


class ValueKind:
    """One kind of value; the base itself is a tensor about which nothing else is known.

    `annotation`: its type, as it stands in a signature. `rows`: it has one row per image or row of data. `crosses`:
    tensors can stand for it in another process. `drawable`: the conformance suite can draw one.
    """

    annotation = "torch.Tensor"
    rows, crosses, drawable = False, True, False

    def count(self, value: Any) -> int:
        """Return how many rows a value has."""
        return len(value)

    def check(self, value: Any, given: Given, n: int, who: str) -> Any:
        """Return a result as others may use it; raises `ContractError`. `n`: rows of the `given` arguments."""
        return value

    def tensors(self, value: Any) -> Tensors:
        """Return a value as tensors by name; one that is a tensor has the empty name."""
        return {"": value}

    def restored(self, tensors: Tensors, device: torch.device) -> Any:
        """Return the value that `tensors` took apart."""
        return tensors[""].to(device)

    def drawn(self, n: int, height: int, width: int, seed: int) -> Any:
        """Return a value for a trial, with n rows; raises `ContractError` where `drawable` is false."""
        raise ContractError(f"{type(self).__name__}: no {self.annotation} can be drawn; give the kind a `draw`")


class ImageBatch(ValueKind):
    """Images; as a result, of the shape that the argument `like` has or states."""

    annotation, rows, drawable = "Images", True, True

    def __init__(self, like: str = "") -> None:
        self.like = like

    def check(self, value: Any, given: Given, n: int, who: str) -> Images:
        model = given.get(self.like)
        shape = model.shape[1:] if isinstance(model, torch.Tensor) else model
        return check_images(value, n, who, None if shape is None else tuple(shape))

    def drawn(self, n: int, height: int, width: int, seed: int) -> Images:
        """Return smooth images with a little noise."""
        rng = generator(seed)
        smooth = torch.rand(n, 3, 6, 6, generator=rng)
        noise = 0.05 * torch.rand(n, 3, height, width, generator=rng)
        return (F.interpolate(smooth, (height, width), mode="bicubic", align_corners=False) + noise).clamp(0, 1)


class ScoreVector(ValueKind):
    """One finite number per row."""

    annotation = "Scores"
    rows = True

    def check(self, value: Any, given: Given, n: int, who: str) -> Scores:
        return check_scores(value, n, who)


class Rows(ValueKind):
    """A tensor ``(n, ...)`` of finite numbers: shaped like the argument `like`, or of some number of dimensions.

    `unit`: all in [0, 1]. `gaps`: NaN or infinity stands for "none". `draw`: (rows, seed) -> one for a trial.
    """

    rows = True

    def __init__(
        self, *, like: str = "", dimensions: int = 1, unit: bool = False, gaps: bool = False,
        draw: Callable[[int, int], torch.Tensor] | None = None, annotation: str = "torch.Tensor",
    ) -> None:  # fmt: skip
        self.annotation = annotation
        self.like, self.dimensions, self.unit, self.gaps, self._draw = like, dimensions, unit, gaps, draw
        self.drawable = draw is not None

    def check(self, value: Any, given: Given, n: int, who: str) -> torch.Tensor:
        wanted = tuple(given[self.like].shape) if self.like else None
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        if shape != wanted if wanted else (len(shape), *shape[:1]) != (self.dimensions, n):
            text = wanted or f"({', '.join([str(n), *['any'] * (self.dimensions - 1)])})"
            raise ContractError(f"{who}: expected numbers of shape {text}, got {shown(value)}")
        if not self.gaps:
            finite(value, who)
        low, high = (float(value.min()), float(value.max())) if value.numel() and self.unit else (0.0, 1.0)
        if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):
            raise ContractError(f"{who}: expected values in [0, 1], got [{low:.4g}, {high:.4g}]; clamp the result")
        found: torch.Tensor = value.detach()
        return found

    def drawn(self, n: int, height: int, width: int, seed: int) -> torch.Tensor:
        return self._draw(n, seed) if self._draw else super().drawn(n, height, width, seed)


class NamedTensors(ValueKind):
    """Finite tensors by name; as a result, with the names and shapes of the argument `like`."""

    def __init__(self, annotation: str, like: str = "") -> None:
        self.annotation, self.like, self.rows, self.drawable = annotation, like, bool(like), bool(like)

    def count(self, value: Any) -> int:
        return len(next(iter(value.values())))

    def check(self, value: Any, given: Given, n: int, who: str) -> Tensors:
        if not isinstance(value, Mapping) or not all(isinstance(t, torch.Tensor) for t in value.values()):
            raise ContractError(f"{who}: expected tensors by name, got {shown(value)}")
        model = given.get(self.like, value)
        if {name: t.shape for name, t in value.items()} != {name: t.shape for name, t in model.items()}:
            raise ContractError(f"{who}: expected {self.like} of the same names and shapes")
        for name, tensor in value.items():
            if not self.like or torch.isfinite(model[name]).all():  # what came in broken is not the component's fault
                finite(tensor, f"{who}: {name}")
        return {name: tensor.detach() for name, tensor in value.items()}

    def tensors(self, value: Any) -> Tensors:
        return dict(value)

    def restored(self, tensors: Tensors, device: torch.device) -> Tensors:
        return {name: tensor.to(device) for name, tensor in tensors.items()}

    def drawn(self, n: int, height: int, width: int, seed: int) -> Tensors:
        rng, shapes = generator(seed), {"0.weight": (16, 192), "0.bias": (16,), "2.weight": (CLASSES, 16)}
        return {name: 0.1 * torch.randn(n, *shape, generator=rng) for name, shape in shapes.items()}


class Randomness(ValueKind):
    """Streams, one per row, or a generator; they travel as their states, and go on where they were left."""

    drawable = True

    def __init__(self, annotation: str, rows: bool) -> None:
        self.annotation, self.rows = annotation, rows

    def tensors(self, value: Any) -> Tensors:
        return {"": value.states() if self.rows else value.get_state()}

    def restored(self, tensors: Tensors, device: torch.device) -> ImageRng | torch.Generator:
        states = tensors[""]
        rng = ImageRng([0] * len(states), device) if self.rows else torch.Generator(device=device)
        self.set(rng, states)
        return rng

    def set(self, value: Any, states: torch.Tensor) -> None:
        """Let randomness go on from `states`; raises `RuntimeError`, `ValueError` or `TypeError` when it cannot."""
        value.restore(states) if self.rows else value.set_state(states.clone())  # torch reads a view at a wrong place

    def seeded(self, seeds: list[int], device: torch.device) -> ImageRng | torch.Generator:
        """Return randomness for a trial."""
        return ImageRng(seeds, device) if self.rows else generator(seeds[0], device)


class Record(ValueKind):
    """A dataclass of tensors, or of such dataclasses; `rows_of` is the field that counts its rows."""

    def __init__(self, cls: type, rows_of: str = "", **kinds: ValueKind) -> None:
        self.annotation, self.rows, self._cls, self._rows_of = cls.__name__, bool(rows_of), cls, rows_of
        hints = get_type_hints(cls)
        self.parts = {part.name: kinds.get(part.name) or _kind_of(hints[part.name]) for part in fields(cls)}
        self.drawable = all(kind.drawable for kind in self.parts.values())

    def count(self, value: Any) -> int:
        return len(getattr(value, self._rows_of))

    def check(self, value: Any, given: Given, n: int, who: str) -> Any:
        if not isinstance(value, self._cls):
            raise ContractError(f"{who}: expected a {self._cls.__name__}, got {shown(value)}")
        held = {name: kind.check(getattr(value, name), given, n, f"{who}: {name}") for name, kind in self.parts.items()}
        return self._cls(**held)

    def tensors(self, value: Any) -> Tensors:
        held = {name: getattr(value, name) for name in self.parts}
        return joined({name: self.parts[name].tensors(part) for name, part in held.items() if part is not None})

    def restored(self, tensors: Tensors, device: torch.device) -> Any:
        held = {name: within(tensors, name) for name in self.parts}
        return self._cls(**{name: self.parts[name].restored(own, device) for name, own in held.items() if own})

    def drawn(self, n: int, height: int, width: int, seed: int) -> Any:
        """Return rows of its own: as many as eight, whatever the other arguments have."""
        return self._cls(**{name: kind.drawn(8, height, width, seed) for name, kind in self.parts.items()})


def _kind_of(hint: Any) -> ValueKind:
    held = next((part for part in get_args(hint) if is_dataclass(part)), hint)
    return Record(held) if is_dataclass(held) and isinstance(held, type) else TENSOR


class Several(ValueKind):
    """A tuple of values."""

    def __init__(self, **kinds: ValueKind) -> None:
        self.kinds, self.annotation = kinds, f"tuple[{', '.join(kind.annotation for kind in kinds.values())}]"
        self.crosses = all(kind.crosses for kind in kinds.values())

    def check(self, value: Any, given: Given, n: int, who: str) -> tuple[Any, ...]:
        if not isinstance(value, tuple) or len(value) != len(self.kinds):
            raise ContractError(f"{who}: expected a tuple of {', '.join(self.kinds)}, got {shown(value)}")
        parts = zip(self.kinds.items(), value, strict=True)
        return tuple(kind.check(part, given, n, f"{who}: {name}") for (name, kind), part in parts)

    def tensors(self, value: Any) -> Tensors:
        parts = zip(self.kinds.items(), value, strict=True)
        return joined({name: kind.tensors(part) for (name, kind), part in parts})

    def restored(self, tensors: Tensors, device: torch.device) -> tuple[Any, ...]:
        return tuple(kind.restored(within(tensors, name), device) for name, kind in self.kinds.items())


class Numbers(ValueKind):
    """One finite number, or with `many` a tuple of them; they travel as a float64 or int64 tensor."""

    def __init__(self, annotation: str, *, whole: bool = False, many: bool = False) -> None:
        self.annotation, self._type, self._many = annotation, torch.int64 if whole else torch.float64, many

    def check(self, value: Any, given: Given, n: int, who: str) -> Any:
        try:
            found = torch.as_tensor(value, dtype=self._type)
        except (TypeError, ValueError, RuntimeError):
            found = torch.empty(0)
        if not found.numel() or (found.numel() > 1 and not self._many):
            raise ContractError(f"{who}: expected {self.annotation}, got {shown(value)}")
        finite(found, who)
        return value

    def tensors(self, value: Any) -> Tensors:
        return {"": torch.tensor(tuple(value) if self._many else float(value), dtype=self._type)}

    def restored(self, tensors: Tensors, device: torch.device) -> Any:
        found = tensors[""].tolist()
        return tuple(found) if self._many else found


class Only(ValueKind):
    """Something that is known by its class alone, and that no tensors stand for."""

    crosses = False

    def __init__(self, annotation: str, cls: type = object) -> None:
        self.annotation, self._cls = annotation, cls

    def check(self, value: Any, given: Given, n: int, who: str) -> Any:
        if not isinstance(value, self._cls):
            raise ContractError(f"{who}: expected a {self._cls.__name__}, got {shown(value)}")
        return value


class TrainedNetwork(Only):
    """A network in evaluation mode."""

    def check(self, value: Any, given: Given, n: int, who: str) -> Any:
        if super().check(value, given, n, who).training:
            raise ContractError(f"{who}: the network came back in training mode; call eval()")
        return value


def joined(parts: Mapping[str, Tensors]) -> Tensors:
    """Return the tensors of several values under one name each: ``part`` or ``part.inner``."""
    return {f"{name}.{inner}" if inner else name: t for name, own in parts.items() for inner, t in own.items()}


def within(tensors: Mapping[str, torch.Tensor], name: str) -> Tensors:
    """Return the tensors that `joined` put under one name."""
    return {key[len(name) + 1 :]: t for key, t in tensors.items() if key == name or key.startswith(f"{name}.")}


def shown(value: object) -> str:
    """Return what a message says of a wrong value."""
    return f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def finite(numbers: torch.Tensor, who: str, what: str = "numbers") -> None:
    """Raise `ContractError` when a number is NaN or infinite."""
    bad = int((~torch.isfinite(numbers)).sum())
    if bad:
        raise ContractError(f"{who}: {bad} of {numbers.numel()} {what} are NaN or infinite; all must be finite")


def check_scores(scores: object, n: int, who: str) -> Scores:
    """Return float32 scores ``(n,)``, finite; raise `ContractError` otherwise."""
    if not isinstance(scores, torch.Tensor) or scores.shape != (n,):
        raise ContractError(f"{who}: expected scores of shape ({n},), got {shown(scores)}; return one number per row")
    finite(scores, who, "scores")
    return scores.detach().to(torch.float32)


def check_images(images: object, n: int, who: str, shape: tuple[int, ...] | None = None) -> Images:
    """Return float32 images ``(n, 3, H, W)`` in [0, 1]; raise `ContractError` otherwise."""
    if not isinstance(images, torch.Tensor) or images.ndim != 4 or len(images) != n or images.shape[1] != 3:
        raise ContractError(f"{who}: expected {n} images ({n}, 3, H, W), got {shown(images)}")
    if shape is not None and tuple(images.shape[1:]) != shape:
        raise ContractError(f"{who}: expected images of shape {shape}, got {tuple(images.shape[1:])}")
    if images.dtype != torch.float32:
        raise ContractError(f"{who}: expected float32, got {images.dtype}")
    low, high = float(images.min()), float(images.max())
    if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):
        raise ContractError(f"{who}: expected values in [0, 1], got [{low:.4g}, {high:.4g}]; clamp the result")
    return images.detach().clamp(0, 1)


def draw_probabilities(n: int, classes: int, sharpness: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs ``(n, classes)`` and labels ``(n,)``; the sharper, the more the outputs believe the labels."""
    rng = generator(seed)
    labels = torch.randint(classes, (n,), generator=rng)
    logits = torch.randn(n, classes, generator=rng) + sharpness * F.one_hot(labels, classes)
    return logits.softmax(dim=1), labels


def _targets(n: int, seed: int) -> torch.Tensor:
    return F.one_hot((torch.arange(n) + seed) % CLASSES, CLASSES).float()


TENSOR = ValueKind()
IMAGES, SAME_IMAGES, SCORES = ImageBatch(), ImageBatch("images"), ScoreVector()
PROBABILITIES = Rows(like="outputs", unit=True, draw=lambda n, seed: draw_probabilities(n, CLASSES, 2.0, seed)[0])
TARGETS = Rows(like="targets", draw=_targets)
GRADIENTS = NamedTensors("Gradients", "gradients")
TENSORS = NamedTensors("dict[str, torch.Tensor]")
STREAMS, GENERATOR = Randomness("ImageRng", rows=True), Randomness("torch.Generator", rows=False)
NUMBER, COUNT = Numbers("float"), Numbers("int", whole=True)
BOUNDS = Numbers("tuple[float, float]", many=True)
SHAPE = Numbers("tuple[int, ...]", whole=True, many=True)
IMAGE_SHAPE = Numbers("tuple[int, int, int]", whole=True, many=True)
NETWORK = Only("torch.nn.Module", torch.nn.Module)
TRAINED_NETWORK = TrainedNetwork("torch.nn.Module", torch.nn.Module)
PROGRESS = Only("Progress")
