"""The kinds of values that a component's function takes or returns, and how each is checked."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, get_args, get_type_hints

import torch

from imharness.errors import ContractError

Images: TypeAlias = torch.Tensor
"""float32 ``(N, 3, H, W)``, gamma-encoded RGB in [0, 1]."""
Scores: TypeAlias = torch.Tensor
"""float32 ``(N,)``, one number per image or row."""
Gradients: TypeAlias = dict[str, torch.Tensor]
"""Parameter name -> ``(N, *parameter.shape)``: one gradient per image."""
Tensors: TypeAlias = dict[str, torch.Tensor]
Given: TypeAlias = Mapping[str, Any]
LARGER = 4
"""A defended image has at most this many times the pixels of the original, because later steps take as much longer."""
TOLERANCE = 1e-5
"""Slack for float32 arithmetic: 4/255 comes back as 4.0000002/255."""


def double(values: torch.Tensor) -> torch.Tensor:
    """Return values as float64 on their device, or on the CPU if the device has none, as ``mps``; gradients pass."""
    return (values.cpu() if values.device.type == "mps" else values).double()


class ValueKind:
    """One kind of value; the base itself is a tensor about which nothing else is known.

    `annotation` is its type in a signature. `rows` says that it has one row per image or row of data, `crosses` that it
    can be sent to another process as tensors. `draw`, (rows, seed) -> value, gives a value for a trial of a kind that
    the conformance suite cannot draw itself.
    """

    annotation = "torch.Tensor"
    rows, crosses = False, True
    draw: Callable[[int, int], Any] | None = None

    def count(self, value: Any) -> int:
        """Return how many rows a value has."""
        return len(value)

    def check(self, value: Any, arguments: Given, n: int, who: str) -> Any:
        """Return a checked result; raises `ContractError`.

        Args:
            value: what the component returned.
            arguments: what it was called with, by name; some kinds compare the result with an argument.
            n: the number of rows of the arguments.
            who: the label of the component, which begins every message.
        """
        return value

    def check_size(self, value: Any, arguments: Given, who: str) -> None:
        """Raise `ContractError` for a result that is larger than the contract allows, before anything else uses it."""


class ImageBatch(ValueKind):
    """Images, float32 ``(n, C, H, W)`` in [0, 1].

    Args:
        like: the name of an argument. If that is a tensor, a result must have its C, H and W; if it is a shape, a tuple
            (C, H, W), the result must have this one. "" accepts any size with three colours.
        bound: the name of an argument, images too: a result has at most `LARGER` times its pixels. "" sets no limit.
    """

    annotation, rows = "Images", True

    def __init__(self, like: str = "", bound: str = "") -> None:
        self.like, self.bound = like, bound

    def check_size(self, value: Any, arguments: Given, who: str) -> None:
        if not self.bound or not isinstance(value, torch.Tensor) or value.ndim != 4:
            return
        most = LARGER * arguments[self.bound].shape[-1] * arguments[self.bound].shape[-2]
        if value.shape[-1] * value.shape[-2] > most:
            raise ContractError(
                f"{who}: images of {value.shape[-2]} x {value.shape[-1]} px; at most {LARGER} times the pixels of the "
                f"{self.bound} are allowed, which is {most} here"
            )

    def check(self, value: Any, arguments: Given, n: int, who: str) -> Images:
        like = arguments.get(self.like)
        shape = None if like is None else tuple(like.shape[1:] if isinstance(like, torch.Tensor) else like)
        colours = 3 if shape is None else shape[0]
        if not isinstance(value, torch.Tensor) or value.ndim != 4 or len(value) != n or value.shape[1] != colours:
            raise ContractError(f"{who}: expected {n} images ({n}, {colours}, H, W), got {description(value)}")
        if shape is not None and tuple(value.shape[1:]) != shape:
            raise ContractError(f"{who}: expected images of shape {shape}, got {tuple(value.shape[1:])}")
        self.check_size(value, arguments, who)
        if value.dtype != torch.float32:
            raise ContractError(f"{who}: expected float32, got {value.dtype}")
        in_unit_range(value, who)
        return value.detach().clamp(0, 1)


class ScoreVector(ValueKind):
    """One finite number per row, float32."""

    annotation, rows = "Scores", True

    def check(self, value: Any, arguments: Given, n: int, who: str) -> Scores:
        if not isinstance(value, torch.Tensor) or value.shape != (n,):
            raise ContractError(
                f"{who}: expected scores of shape ({n},), got {description(value)}; return one number per row"
            )
        finite(value, who, "scores")
        return value.detach().to(torch.float32)


class Rows(ValueKind):
    """A tensor ``(n, ...)`` of finite numbers, with the shape of the argument `like` or with `dimensions` dimensions.

    `unit` says that all numbers are in [0, 1], `gaps` that NaN or infinity may stand for "none".
    """

    rows = True

    def __init__(
        self,
        *,
        like: str = "",
        dimensions: int = 1,
        unit: bool = False,
        gaps: bool = False,
        draw: Callable[[int, int], torch.Tensor] | None = None,
        annotation: str = "torch.Tensor",
    ) -> None:
        self.annotation, self.draw = annotation, draw
        self.like, self.dimensions, self.unit, self.gaps = like, dimensions, unit, gaps

    def check(self, value: Any, arguments: Given, n: int, who: str) -> torch.Tensor:
        wanted = tuple(arguments[self.like].shape) if self.like else None
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        fits = shape == wanted if wanted else len(shape) == self.dimensions and shape[:1] == (n,)
        if not fits:
            text = wanted or f"({', '.join([str(n), *['any'] * (self.dimensions - 1)])})"
            raise ContractError(f"{who}: expected numbers of shape {text}, got {description(value)}")
        if not self.gaps:
            finite(value, who)
        if self.unit and value.numel():
            in_unit_range(value, who)
        tensor: torch.Tensor = value.detach()
        return tensor


class NamedTensors(ValueKind):
    """Finite tensors by name; a result has the names and shapes of the argument `like`."""

    def __init__(self, annotation: str, like: str = "") -> None:
        self.annotation, self.like, self.rows = annotation, like, bool(like)

    def count(self, value: Any) -> int:
        return len(next(iter(value.values())))

    def check(self, value: Any, arguments: Given, n: int, who: str) -> Tensors:
        if not isinstance(value, Mapping) or not all(isinstance(t, torch.Tensor) for t in value.values()):
            raise ContractError(f"{who}: expected tensors by name, got {description(value)}")
        like = arguments.get(self.like, value)
        if {name: t.shape for name, t in value.items()} != {name: t.shape for name, t in like.items()}:
            raise ContractError(f"{who}: expected {self.like} of the same names and shapes")
        for name, tensor in value.items():
            if not self.like or torch.isfinite(like[name]).all():  # a component is not to blame for what it was given
                finite(tensor, f"{who}: {name}")
        return {name: tensor.detach() for name, tensor in value.items()}


class Randomness(ValueKind):
    """Streams, one per row, or a generator."""

    def __init__(self, annotation: str, rows: bool) -> None:
        self.annotation, self.rows = annotation, rows


class Record(ValueKind):
    """A dataclass of tensors, or of such dataclasses; `rows_of` is the field that counts its rows."""

    def __init__(self, cls: type, rows_of: str = "", **kinds: ValueKind) -> None:
        self.annotation, self.rows, self.cls, self._rows_of = cls.__name__, bool(rows_of), cls, rows_of
        hints = get_type_hints(cls)
        self.members = {field.name: kinds.get(field.name) or _kind_of(hints[field.name]) for field in fields(cls)}

    def count(self, value: Any) -> int:
        return len(getattr(value, self._rows_of))

    def check(self, value: Any, arguments: Given, n: int, who: str) -> Any:
        _check_class(value, self.cls, who)
        checked = {
            name: kind.check(getattr(value, name), arguments, n, f"{who}: {name}")
            for name, kind in self.members.items()
        }
        return self.cls(**checked)


def _kind_of(hint: Any) -> ValueKind:
    record_class = next((argument for argument in get_args(hint) if is_dataclass(argument)), hint)
    return Record(record_class) if is_dataclass(record_class) and isinstance(record_class, type) else ValueKind()


class Several(ValueKind):
    """A tuple of values."""

    def __init__(self, **kinds: ValueKind) -> None:
        self.members, self.annotation = kinds, f"tuple[{', '.join(kind.annotation for kind in kinds.values())}]"
        self.crosses = all(kind.crosses for kind in kinds.values())

    def check(self, value: Any, arguments: Given, n: int, who: str) -> tuple[Any, ...]:
        if not isinstance(value, tuple) or len(value) != len(self.members):
            raise ContractError(f"{who}: expected a tuple of {', '.join(self.members)}, got {description(value)}")
        pairs = zip(self.members.items(), value, strict=True)
        return tuple(kind.check(element, arguments, n, f"{who}: {name}") for (name, kind), element in pairs)


class Numbers(ValueKind):
    """One finite number, or with `many` a tuple of them."""

    def __init__(self, annotation: str, *, whole: bool = False, many: bool = False) -> None:
        self.annotation, self.dtype, self.many = annotation, torch.int64 if whole else torch.float64, many

    def check(self, value: Any, arguments: Given, n: int, who: str) -> Any:
        try:
            numbers = torch.as_tensor(value.cpu() if isinstance(value, torch.Tensor) else value, dtype=self.dtype)
        except (TypeError, ValueError, RuntimeError):
            numbers = torch.empty(0)
        if not numbers.numel() or (numbers.numel() > 1 and not self.many):
            raise ContractError(f"{who}: expected {self.annotation}, got {description(value)}")
        finite(numbers, who)
        return value


class Only(ValueKind):
    """Something that cannot be sent as tensors; its class is checked, and `check` of (value, who) may refuse it."""

    crosses = False

    def __init__(
        self, annotation: str, cls: type = object, check: Callable[[Any, str], None] = lambda value, who: None
    ) -> None:
        self.annotation, self._cls, self._check = annotation, cls, check

    def check(self, value: Any, arguments: Given, n: int, who: str) -> Any:
        _check_class(value, self._cls, who)
        self._check(value, who)
        return value


def description(value: object) -> str:
    """Return how a message describes a wrong value: its shape or its type."""
    return f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def _check_class(value: object, cls: type, who: str) -> None:
    if not isinstance(value, cls):
        raise ContractError(f"{who}: expected a {cls.__name__}, got {description(value)}")


def finite(numbers: torch.Tensor, who: str, what: str = "numbers") -> None:
    """Raise `ContractError` if a number is NaN or infinite."""
    bad = int((~torch.isfinite(numbers)).sum())
    if bad:
        raise ContractError(f"{who}: {bad} of {numbers.numel()} {what} are NaN or infinite; all must be finite")


def in_unit_range(numbers: torch.Tensor, who: str) -> None:
    """Raise `ContractError` if a number is not in [0, 1], or is NaN."""
    if bool(numbers.isnan().any()):
        raise ContractError(f"{who}: {int(numbers.isnan().sum())} of {numbers.numel()} values are NaN")
    low, high = float(numbers.min()), float(numbers.max())
    if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):
        raise ContractError(f"{who}: expected values in [0, 1], got [{low:.4g}, {high:.4g}]; clamp the result")


def in_evaluation_mode(network: torch.nn.Module, who: str) -> None:
    """Raise `ContractError` if a network is in training mode."""
    if network.training:
        raise ContractError(f"{who}: the network came back in training mode; call eval()")


IMAGES, SAME_IMAGES, SCORES = ImageBatch(), ImageBatch(like="images"), ScoreVector()
PROBABILITIES = Rows(like="outputs", unit=True)
TARGETS = Rows(like="targets")
GRADIENTS = NamedTensors("Gradients", "gradients")
TENSORS = NamedTensors("dict[str, torch.Tensor]")
STREAMS, GENERATOR = Randomness("ImageRng", rows=True), Randomness("torch.Generator", rows=False)
NUMBER, COUNT = Numbers("float"), Numbers("int", whole=True)
BOUNDS = Numbers("tuple[float, float]", many=True)
SHAPE = Numbers("tuple[int, ...]", whole=True, many=True)
NETWORK = Only("torch.nn.Module", torch.nn.Module)
TRAINED_NETWORK = Only("torch.nn.Module", torch.nn.Module, in_evaluation_mode)
PROGRESS = Only("Progress")
