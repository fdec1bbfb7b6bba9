"""How the conformance suite calls a component: the contract's call says what goes in and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch.linalg import vector_norm

from imharness.contracts.call import Call, call_of
from imharness.contracts.randomness import ImageRng, derive_seed, generator
from imharness.contracts.values import ImageBatch, Randomness
from imharness.errors import ContractError
from imharness.testing import samples
from imharness.testing.crossing import joined, restored, tensors, within

CPU = torch.device("cpu")
Inputs = Mapping[str, torch.Tensor]
OwnCheck = tuple[str, Callable[[], str | None]]
Size = tuple[int, int, int]
AGREEMENT, RATIO = 0.5, 10.0
"""A gradient passes if its slopes and those of finite differences have at least this cosine, and a smaller ratio."""
CHANGE, LEAST_STEP, LARGEST_STEP = 0.02, 1e-4, 0.02
"""A finite difference changes the result by this share of it, by its own slope, with a step within these bounds."""


class Probe:
    """Calls built components of one contract on fresh inputs; a subclass adds what is special about a contract."""

    tolerance: ClassVar[float] = 1e-4
    on_device: ClassVar[bool] = True
    """Whether results are on the device that the component was built on; data sets load on the CPU."""
    attacked: ClassVar[bool] = False
    """Whether attacks read the gradient of a component that says it is differentiable."""
    _keeper: ClassVar[Probe | None] = None
    """The probe that keeps what `once` found; only one does, so that few networks are in memory at a time."""
    sizes: Sequence[Size] = ()
    """The shapes to try, (rows, height, width); the first is the usual one."""

    def __init__(self, component: Any, seed: int) -> None:
        self.component, self.seed = component, seed
        self._cache: dict[str, Any] = {}
        self.contract: Call = call_of(type(component))
        self.by_row = self.contract.by_row
        if not self.sizes:
            self.sizes = ((3, 96, 96), (1, 75, 61), (16, 96, 96)) if self.by_row else ((12, 64, 64), (1, 64, 64))

    def build(self, component: Any, device: torch.device = CPU) -> Any:
        """Return the built component."""
        return component.build(device)

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """Return what `find` returns; it is called once and its result kept until another probe keeps something.

        An exception is not kept, so that each check that needs the result raises it again.
        """
        if Probe._keeper is not self:
            if Probe._keeper is not None:
                Probe._keeper._cache.clear()
            Probe._keeper = self
        if name not in self._cache:
            self._cache[name] = find()
        return self._cache[name]

    @property
    def built(self) -> Any:
        """The component, built on the CPU."""
        return self.once("built", lambda: self.build(self.component))

    def seeds(self, n: int) -> list[int]:
        """Return one seed per row."""
        return [self.seed * 1000 + i for i in range(n)]

    def inputs(self, n: int, height: int = 96, width: int = 96) -> Inputs:
        """Return fresh inputs: the tensors of all arguments that do not give randomness."""
        kinds = [(name, kind) for name, kind in self.contract.arguments.items() if not isinstance(kind, Randomness)]
        drawn = enumerate(kinds, start=self.seed + n)
        return joined({name: tensors(kind, samples.drawn(kind, n, height, width, i)) for i, (name, kind) in drawn})

    def picked(self, inputs: Inputs, rows: Sequence[int]) -> Inputs:
        """Return some rows of the inputs."""
        kinds = self.contract.arguments
        return {name: x[list(rows)] if kinds[name.partition(".")[0]].rows else x for name, x in inputs.items()}

    def with_copies(self, inputs: Inputs) -> Inputs:
        """Return the inputs followed by a near copy of each row, with noise such as an attack adds to its images."""
        kinds = self.contract.arguments

        def doubled(name: str, x: torch.Tensor) -> torch.Tensor:
            kind = kinds[name.partition(".")[0]]
            if isinstance(kind, ImageBatch) and kind.rows:
                return samples.beside_near_copies(x, self.seed)
            return torch.cat([x, x]) if kind.rows else x

        return {name: doubled(name, x) for name, x in inputs.items()}

    def further(self, inputs: Inputs, device: torch.device) -> dict[str, Any]:
        """Return the arguments that are not tensors."""
        return {}

    def named_arguments(self, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> dict[str, Any]:
        """Return all arguments by name, in their order."""
        further = self.further(inputs, device)

        def argument(name: str, kind: Any) -> Any:
            if isinstance(kind, Randomness):
                return (
                    ImageRng([derive_seed("row", seed) for seed in seeds], device) if kind.rows else generator(seeds[0])
                )  # on the devices that a run uses
            return further[name] if name in further else restored(kind, within(inputs, name), device)

        return {name: argument(name, kind) for name, kind in self.contract.arguments.items()}

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> Any:
        """Return what the built component returns."""
        wanted = any(x.requires_grad for x in inputs.values())
        with torch.set_grad_enabled(self.contract.own_gradients or wanted):
            return built(*self.named_arguments(inputs, seeds, device).values())

    def check(self, result: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> None:
        """Raise `ContractError` unless the result fits the contract."""
        self.contract.check(self.component, result, self.named_arguments(inputs, seeds, device))

    def flat(self, result: Any, inputs: Inputs) -> torch.Tensor:
        """Return a result as one tensor, for comparisons."""
        pieces = list(tensors(self.contract.returns, result).values())
        return pieces[0] if len(pieces) == 1 else torch.cat([piece.flatten(1) for piece in pieces], dim=1)

    def tensor(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        """Return what the built component returns, as one tensor."""
        return self.flat(self.call(built, inputs, seeds, device), inputs)

    def bare(self) -> Mapping[str, Inputs]:
        """Return inputs of which the images or outputs show little, by what they show; empty where none go in."""
        usual = self.inputs(1, *self.sizes[0][1:])
        images = [name for name, x in usual.items() if self._shows_images(name, x)]
        if not images:
            return {}
        bare_images = samples.bare(*usual[images[0]].shape[2:])
        return {what: {**usual, **dict.fromkeys(images, image)} for what, image in bare_images.items()}

    def _shows_images(self, name: str, values: torch.Tensor) -> bool:
        return values.ndim == 4 and (
            name == "images" or isinstance(self.contract.arguments.get(name.partition(".")[0]), ImageBatch)
        )

    def own_checks(self) -> Iterator[OwnCheck]:
        """Yield the checks that only this contract has."""
        yield from ()


def check_bare(probe: Probe) -> str:
    """Call with inputs that show little: results must keep the contract there, and gradients must be finite."""
    cases = probe.bare()
    for name, inputs in cases.items():
        seeds = probe.seeds(len(next(iter(inputs.values()))))
        try:
            probe.check(probe.call(probe.built, inputs, seeds), inputs, seeds)
            _check_bare_gradient(probe, inputs, seeds)
        except ContractError as error:
            raise ContractError(f"for {name}: {error}") from None
    return ", ".join(cases)


def _check_bare_gradient(probe: Probe, inputs: Inputs, seeds: Sequence[int]) -> None:
    if not probe.attacked or not probe.component.info.differentiable:
        return
    leaf = inputs["images"].clone().requires_grad_(True)
    value = probe.tensor(probe.built, {**inputs, "images": leaf}, seeds).sum()
    (slopes,) = torch.autograd.grad(value, leaf, allow_unused=True) if value.requires_grad else (None,)
    bad = 0 if slopes is None else int((~slopes.isfinite()).sum())
    if bad:
        raise ContractError(f"{bad} of {leaf.numel()} values of the gradient are NaN or infinite")


def check_gradient(function: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor, declared: bool) -> str:
    """Compare the gradient with finite differences along three directions; raises `ContractError` if they disagree.

    Args:
        function: images -> one number.
        batch: images ``(n, 3, H, W)`` in [0, 1]; the gradient is taken between 0.1 and 0.9, where no step is clipped.
        declared: whether `info` says that the component is differentiable.
    """
    point = (0.1 + 0.8 * batch).requires_grad_(True)
    value = function(point)
    gradient = torch.autograd.grad(value, point, allow_unused=True)[0] if value.requires_grad else None
    moving = gradient is not None and bool((gradient != 0).any())
    if not declared:
        if moving:
            return "a gradient flows although info says it is not differentiable: adaptive attacks do not use it"
        return "no gradient, as declared"
    if gradient is None or not moving:
        raise ContractError("info says differentiable, but no gradient reaches the images")
    if not bool(torch.isfinite(gradient).all()):
        raise ContractError("the gradient is NaN or infinite")
    smooth = samples.images(len(batch), batch.shape[2], batch.shape[3], seed=7) - 0.5
    directions = [torch.ones_like(batch), smooth, gradient / gradient.abs().max()]
    promised = [float((gradient * direction).sum()) for direction in directions]
    measured = [
        _difference(function, point, direction, _step(float(value.detach()), slope))
        for direction, slope in zip(directions, promised, strict=True)
    ]
    first, second = torch.tensor(measured), torch.tensor(promised)
    agreement = float(F.cosine_similarity(first, second, dim=0))
    ratio = float(vector_norm(second) / vector_norm(first).clamp(min=1e-12))
    if agreement < AGREEMENT or not 1 / RATIO < ratio < RATIO:
        raise ContractError(
            f"the gradient gives slopes {_few(promised)} along three directions, finite differences {_few(measured)}; "
            "a gradient that is not the function's own misleads attacks: declare differentiable=False"
        )
    return f"slopes along three directions: {_few(promised)}, by finite differences {_few(measured)}"


def _step(value: float, slope: float) -> float:
    """Return the step that changes a result by about `CHANGE` of it; 0.1 is added to it, because it may be 0."""
    return min(max(CHANGE * (abs(value) + 0.1) / max(abs(slope), 1e-6), LEAST_STEP), LARGEST_STEP)


@torch.no_grad()
def _difference(
    function: Callable[[torch.Tensor], torch.Tensor], point: torch.Tensor, direction: torch.Tensor, step: float
) -> float:
    """Return the slope of a function along a direction, by central differences."""
    return float(function(point + step * direction) - function(point - step * direction)) / (2 * step)


def _few(numbers: Sequence[float]) -> str:
    return ", ".join(f"{x:.3g}" for x in numbers)


def silent(done: int, total: int) -> None:
    """Show no progress."""
