"""Describes objects of a notebook or script, so that they can be evaluated: `metric`, `defense`, `attack`, `evaluator`.

Any callable will do: a function, a lambda, a closure, an object, a `torch.nn.Module`. A module is copied, in evaluation
mode and with frozen weights, to the device of the evaluation. The contracts in `imharness.contracts` say what the
callable gets and what it must return; trailing arguments that it does not take are left out, and most of those for
which it has a default are left out, too.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from imharness.errors import UsageError
from imharness.notebook.arguments import flag, one_of, real, short, text, whole, wrong

Function = Callable[..., Any]
MANY = 100
"""Stands for any number of arguments."""


@dataclass(frozen=True)
class UserObject:
    """An object that can take part in an evaluation.

    `kind` is "metric", "defense", "attack" or "evaluator". `facts` are the declared facts, for the `info` of its
    component. `cache_key` stands for the object's code and state; without one its results are not used again.
    """

    kind: Literal["metric", "defense", "attack", "evaluator"]
    function: Function
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    cache_key: str | None = None

    def __repr__(self) -> str:
        return f"imharness.{self.kind}({self.name})"


def metric(
    obj: Function,
    *,
    bounds: tuple[float, float] | None = None,
    higher_means: Literal["better_quality", "worse_quality", "more_leakage", "less_leakage"],
    reference: bool = False,
    differentiable: bool = True,
    name: str | None = None,
    cache_key: str | None = None,
) -> UserObject:
    """Return a metric of images that can be evaluated.

    Args:
        obj: images, float32 ``(n, 3, H, W)`` in [0, 1], or images and references of one shape -> scores ``(n,)`` or
            ``(n, 1)``. The score of image i must depend only on image i.
        bounds: (lower, upper) of the scores on natural images; the iqa track needs them, because it reports gains
            relative to this range.
        higher_means: what a higher score says about an image.
        reference: whether it compares images with references.
        differentiable: whether attacks may read its gradient.
        name: its name in tables; by default the object's own name.
        cache_key: any text that stands for its code, its state and the files that it reads: results are used again as
            long as it is the same, so change it with them. Without one they are computed at each call.

    Raises a `UsageError` that names the argument.
    """
    one_of("higher_means", higher_means, ("better_quality", "worse_quality", "more_leakage", "less_leakage"))
    reference, differentiable = flag("reference", reference), flag("differentiable", differentiable)
    if bounds is None and not reference:
        raise UsageError("bounds: a metric without a reference needs (lower, upper) of its scores on natural images.")
    limits = None if bounds is None else _limits(bounds)
    _takes("obj", obj, 2 if reference else 1, 2 if reference else 1)
    facts = {"bounds": limits, "higher_means": higher_means, "differentiable": differentiable}
    return _user_object("metric", obj, name, cache_key, {**facts, "reference": reference})


def defense(
    fn: Function, *, differentiable: bool, random: bool = False, name: str | None = None, cache_key: str | None = None
) -> UserObject:
    """Return a defense that can be evaluated.

    Args:
        fn: the function, whose arguments depend on the track. iqa: images, float32 ``(n, 3, H, W)`` in [0, 1] -> images
            in [0, 1]. reconstruction: gradients, name -> ``(n, *parameter shape)`` -> gradients with the same names and
            shapes; of both a random one also gets an `imharness.images.ImageRng` with one stream for each row.
            membership: probabilities ``(n, classes)``, outputs that the defender holds, and a generator ->
            probabilities.
        differentiable: whether adaptive attacks may read its gradient; otherwise they pass the gradient straight
            through it (Athalye et al., ICML 2018).
        random: whether it draws from the streams or the generator; adaptive attacks then average several defended
            copies.
        name, cache_key: see `metric`.
    """
    _takes("fn", fn, 1, 3)
    facts = {"differentiable": flag("differentiable", differentiable), "random": flag("random", random)}
    return _user_object("defense", fn, name, cache_key, facts)


def attack(
    fn: Function,
    *,
    access: Literal["white_box", "black_box"],
    norm: Literal["linf", "l2", "l0", "unrestricted"],
    radius: float | None = None,
    queries: int | None = None,
    name: str | None = None,
    cache_key: str | None = None,
) -> UserObject:
    """Return an attack that can be evaluated.

    Args:
        fn: the function. iqa: (images, target, streams) -> images of the same shape in [0, 1]; ``target(images)`` gives
            one score per image, and a higher score means a better attack (see `imharness.images.Target`).
            reconstruction: (gradients, model, shape, streams, progress) -> images ``(n, 3, H, W)``, one per stream.
        access: "white_box" if it reads gradients of the target, else "black_box".
        norm, radius: how far it may go from each image, on images in [0, 1], or for l0 how many pixels it may change; a
            result beyond that is refused. Each norm but "unrestricted" needs a radius.
        queries: how many scores of each image it may ask for; None means no limit.
        name, cache_key: see `metric`.

    Raises a `UsageError` that names the argument.
    """
    one_of("access", access, ("white_box", "black_box"))
    one_of("norm", norm, ("linf", "l2", "l0", "unrestricted"))
    if radius is not None or norm != "unrestricted":
        radius = real("radius", radius, f"a finite number above 0 for the norm {norm}")
        if not 0 < radius < float("inf"):
            raise wrong("radius", f"a finite number above 0 for the norm {norm}", radius)
    queries = None if queries is None else whole("queries", queries)
    if queries is not None and queries < 1:
        raise wrong("queries", "at least 1", queries)
    _takes("fn", fn, 2, 5)
    facts = {"access": access, "norm": norm, "radius": radius, "queries": queries}
    return _user_object("attack", fn, name, cache_key, facts)


def evaluator(fn: Function, *, name: str | None = None, cache_key: str | None = None) -> UserObject:
    """Return a membership-inference evaluator.

    Args:
        fn: `imharness.membership.MembershipQuery` -> float32 ``(m,)``, one score for each target row. A higher score
            means more likely a member; a score of at least 0 says that the row is one.
        name, cache_key: see `metric`.
    """
    _takes("fn", fn, 1, 1)
    return _user_object("evaluator", fn, name, cache_key, {})


def called(function: Function, arguments: Sequence[Any], least: int) -> Any:
    """Call a function with as many of the arguments as it requires, but with at least `least`."""
    required, most = _counts(function)
    return function(*arguments[: min(max(required, least), most)])


def built(function: Function, device: torch.device) -> Function:
    """Return a frozen copy of a module on the device, or any other function as it is."""
    if not isinstance(function, torch.nn.Module):
        return function
    import copy

    try:
        duplicate = copy.deepcopy(function)
    except Exception as error:
        name = type(function).__name__
        raise UsageError(f"module {name} cannot be copied ({error}); wrap it in a function that calls it.") from error
    return duplicate.eval().requires_grad_(False).to(device)


def _limits(bounds: Any) -> tuple[float, float]:
    try:
        lower, upper = (real("bounds", bound) for bound in bounds)
    except (TypeError, ValueError, UsageError):
        lower = upper = 0.0
    if not float("-inf") < lower < upper < float("inf"):
        raise wrong("bounds", "finite (lower, upper) with lower < upper", bounds)
    return lower, upper


def _user_object(
    kind: Any, function: Function, name: str | None, cache_key: str | None, facts: Mapping[str, Any]
) -> UserObject:
    for argument, value in (("name", name), ("cache_key", cache_key)):
        if value is not None:
            text(argument, value)
    wanted = name if name is not None else _name_of(function) or kind
    slug = re.sub(r"[^a-z0-9._-]+", "-", wanted.lower()).strip("-._")
    if not slug:
        raise UsageError(f"name: {short(wanted)} has no ASCII letter or digit; choose another.")
    return UserObject(kind, function, slug, facts, cache_key)


def _name_of(value: Any) -> str:
    """Return the name of a callable or of its class, or "" for a lambda."""
    inner = value.func if isinstance(value, functools.partial) else value
    name = str(getattr(inner, "__name__", "") or type(inner).__name__)
    return "" if name == "<lambda>" else re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", "-", name)


def _takes(argument: str, function: Any, least: int, most: int) -> None:
    """Raise `UsageError` unless a function can be called with some number of arguments from `least` to `most`."""
    if not callable(function):
        raise wrong(argument, "a function or another callable", function)
    if isinstance(function, type) and issubclass(function, torch.nn.Module):
        raise UsageError(
            f"{argument}: {function.__name__} is a class of modules; give a module, such as {function.__name__}(...)."
        )
    required, possible = _counts(function)
    if required > most or possible < least:
        name = getattr(function, "__name__", type(function).__name__)
        wanted = str(least) if least == most else f"{least} to {most}"
        raise UsageError(f"{argument}: {name} takes {required} arguments; it would be called with {wanted}.")


def _counts(function: Any) -> tuple[int, int]:
    """Return how many positional arguments a callable requires, and how many it can take."""
    try:
        signature = inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    except (TypeError, ValueError):  # compiled code
        return 0, MANY
    positional_kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature.parameters.values()
    positional = [parameter for parameter in parameters if parameter.kind in positional_kinds]
    required = sum(parameter.default is inspect.Parameter.empty for parameter in positional)
    takes_any_number = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    return required, MANY if takes_any_number else len(positional)
