"""Computes one task: builds its components, runs its step, checks and stores the result."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import numpy.typing as npt
import torch

from imharness.components.registry import Registry
from imharness.contracts.attack import BaseAttack
from imharness.contracts.call import call_of, checked
from imharness.contracts.component import Component
from imharness.contracts.image_dataset import ImageSet
from imharness.contracts.metric import Metric
from imharness.contracts.purification import Purification
from imharness.contracts.randomness import ImageRng, derive_seed, generator
from imharness.contracts.table_dataset import TableSet
from imharness.contracts.track import Option, Output, Progress
from imharness.errors import HarnessError, StoreError
from imharness.results.store import Store
from imharness.results.tasks import Failure, TaskRecord, TaskSpec
from imharness.results.version import __version__
from imharness.running.device import recorded_name, synchronise
from imharness.running.memory import OUT_OF_MEMORY, in_batches, is_out_of_memory
from imharness.running.secret_split import hidden, seeds_of_task
from imharness.running.shards import ShardDone, Shards
from imharness.running.target import MetricTarget, Purify, straight_through
from imharness.running.traces import deepest_module

P = TypeVar("P")
TIMED_IMAGES = 8
OUTPUT_BYTES = 1 << 30
"""The most bytes of finished tasks that a process keeps in memory."""


class BuildCache:
    """What a process keeps between tasks: the registry, built components and data sets, outputs of tasks.

    Args:
        registry: the components that names refer to.
        store: where outputs of tasks are read and records are written.
        device: where components are built.
        batch_size: how many images are processed at once, at most.
        end_task: called when a task has ended, with whether it failed; returns notes for its record.
        secret: the seed of the secret split, or "".
    """

    def __init__(
        self,
        registry: Registry,
        store: Store,
        device: torch.device,
        batch_size: int,
        end_task: Callable[[bool], Sequence[str]] = lambda failed: (),
        secret: str = "",
    ) -> None:
        self.registry, self.store, self.device, self.batch_size = registry, store, device, batch_size
        self.end_task, self.secret = end_task, secret
        self._built: dict[Component, Any] = {}
        self._components: dict[str, Component] = {}
        self._outputs: dict[str, tuple[str, Output]] = {}
        self._output_bytes = 0

    def component(self, spec: TaskSpec, role: str) -> Component:
        """Return the component that plays a role in a task."""
        ref = spec.components[role]
        key = f"{ref.kind} {ref.label} {dict(ref.parameters)}"
        if key not in self._components:
            self._components[key] = self.registry.revive(ref)
        return self._components[key]

    def output(self, key: str, name: str) -> tuple[str, Output]:
        """Return the `outcome` of a finished task, its rows and arrays; those used recently are not read again."""
        outcome, output = self._outputs.pop(key, ("", None))
        if output is None:
            record = self.store.record(key)
            if record is None:
                raise StoreError(f"task {key[:12]} ({name}) is not in the store")
            outcome, output = record.outcome, Output(self.store.rows(record), self.store.arrays(record))
            self._output_bytes += _size(output)
        self._outputs[key] = outcome, output  # the last key is the one used most recently
        while self._output_bytes > OUTPUT_BYTES:
            least_recent = next(iter(self._outputs))
            _, forgotten = self._outputs.pop(least_recent)
            self._output_bytes -= _size(forgotten)
        return outcome, Output(_copied(output.rows), _copied(output.arrays))

    def built(self, component: Component) -> Any:
        """Return ``component.build(device)``, built once."""
        if component not in self._built:
            if len(self._built) > 64:
                self._built.pop(next(iter(self._built)))
            self._built[component] = component.build(self.device)  # type: ignore[attr-defined]
        return self._built[component]


def _size(output: Output) -> int:
    return sum(array.nbytes for array in (*output.rows.values(), *output.arrays.values()))


def _copied(columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return copies of arrays, so that a step that writes into them does not change the cache."""
    return {name: array.copy() for name, array in columns.items()}


class TaskContext:
    """The `StepContext` of one task; see the protocol for what each method returns."""

    def __init__(self, cache: BuildCache, shards: Shards, spec: TaskSpec, progress: Progress) -> None:
        self._cache, self._shards, self._key, self._spec = cache, shards, shards.task, spec
        self.device, self.progress = cache.device, progress
        self.options: Mapping[str, Option] = spec.options
        self._secret, self._seed = seeds_of_task(cache.secret, spec.seed, spec.options)
        self.roles: Sequence[str] = tuple(spec.components)
        self.read: dict[str, str] = {}

    def measures(self, group: str, /) -> Mapping[str, str]:
        return {role.removeprefix(f"{group}."): role for role in self.roles if role.startswith(f"{group}.")}

    def component(self, role: str) -> Any:
        return self._cache.component(self._spec, role)

    def build(self, role: str | Component, *arguments: Any, method: str = "build") -> Any:
        component = self.component(role) if isinstance(role, str) else role
        if method == "build" and not arguments:
            return checked(component, self._cache.built(component))
        function = getattr(component, method)
        if not call_of(type(component), method).direct:
            function = function(self.device, *arguments)
        return checked(component, function, method)

    def images(self, role: str = "dataset", *, limited: bool = True) -> ImageSet:
        return hidden(self.build(role), self._secret).first(self._spec.limit if limited else None)

    def table(self, role: str = "dataset") -> TableSet:
        return cast("TableSet", self.build(role))

    def need(self, name: str) -> Output:
        self.read[name], output = self._cache.output(self._spec.needs[name], name)
        return output

    def rng(self, names: Sequence[str], *purpose: str) -> ImageRng:
        return ImageRng([derive_seed(self._seed, *purpose, name) for name in names], self.device)

    def generator(self, *purpose: str, shared: bool = False) -> torch.Generator:
        seeds: tuple[int | str, ...]
        if shared:
            seeds = (self._seed,)
        elif self._secret:
            seeds = (self._secret, self._key)
        else:
            seeds = (self._key,)
        return generator(derive_seed(*seeds, *purpose))

    def target(
        self,
        metric: str,
        names: Sequence[str],
        *,
        attack: str,
        defense: str | None = None,
        samples: int = 1,
        counted: bool = True,
        reference: torch.Tensor | None = None,
        towards: bool = False,
        stand_in: str | None = None,
        training: bool = False,
    ) -> MetricTarget:
        scored: Metric = self.component(metric)
        attacker: BaseAttack = self.component(attack)
        purify, rng, copies = None, None, 1
        if defense is not None:
            purify = self.as_attacked(defense, stand_in=stand_in)
            rng = self.rng(names, "target", self._key)
            copies = samples if self.component(defense).info.random else 1
        return MetricTarget(
            self._cache.built(scored),
            scored.bounds if reference is None else scored.info.bounds or (0.0, 1.0),  # few distances declare bounds
            images=len(names),
            reference=reference,
            purify=purify,
            rng=rng,
            samples=copies,
            differentiable=attacker.info.access == "white_box",
            sign=scored.closeness if reference is None or towards else -scored.closeness,
            budget=attacker.budget().queries if counted else None,
            micro_batch=self._cache.batch_size,
            precision=str(self.options.get("precision", "strict")),
            training=training,
        )

    def as_attacked(self, defense: str, *, stand_in: str | None = None) -> Purify:
        guard: Purification = self.component(defense)
        purify: Purify = self._cache.built(guard)
        if stand_in is None and guard.info.differentiable:
            return purify
        return straight_through(purify, None if stand_in is None else self._cache.built(self.component(stand_in)))

    def map(
        self, images: ImageSet, function: Callable[[list[int], torch.Tensor], Mapping[str, torch.Tensor]]
    ) -> dict[str, npt.NDArray[Any]]:
        def of_batch(positions: list[int]) -> dict[str, npt.NDArray[Any]]:
            tensors = function(positions, images.load(positions).to(self.device))
            self.progress(positions[-1] + 1, len(images))
            return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}

        size = self._cache.batch_size
        return self._shards.joined(list(images.batches(size)), lambda batches: in_batches(batches, size, of_batch))

    def chunks(self, total: int, size: int, function: Callable[[int, int], Mapping[str, Any]]) -> dict[str, Any]:
        ranges = [(start, min(start + size, total)) for start in range(0, total, size)]
        return self._shards.joined(
            ranges, lambda some: [self._chunk(function, some, index) for index in range(len(some))]
        )

    def _chunk(self, function: Callable[[int, int], P], ranges: Sequence[tuple[int, int]], index: int) -> P:
        """Return what a function gives for one of the ranges; the progress that it reports is that of this range."""
        progress_of_all, count = self.progress, len(ranges)
        self.progress = lambda done, total, /: progress_of_all(index * total + done, count * total)
        try:
            result = function(*ranges[index])
        finally:
            self.progress = progress_of_all
        self.progress(index + 1, count)
        return result

    def time_per_image(self, function: Callable[[torch.Tensor], object], images: ImageSet) -> float:
        batch = images.load(next(images.batches(TIMED_IMAGES))).to(self.device)
        best_s = float("inf")
        for attempt in range(4):
            synchronise(self.device)
            start = time.perf_counter()
            function(batch)
            synchronise(self.device)
            if attempt > 0:  # the first one only warms up
                best_s = min(best_s, time.perf_counter() - start)
        return 1000 * best_s / len(batch)


def run_task(cache: BuildCache, key: str, spec: TaskSpec, progress: Progress) -> TaskRecord | None:
    """Compute a task and store its record, done or failed; return it, or None for a shard. Raises only `StoreError`."""
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    shards = Shards(cache.store, key, lambda: {"device": device, **versions(cache.registry, spec)})
    failure, result, device = None, None, recorded_name(cache.device)
    notes: Sequence[str] = ()
    context = None
    try:
        _require_same_code(cache, spec)
        context = TaskContext(cache, shards, spec, progress)
        result = cache.registry.track(spec.track).step(spec.step)(context)
        notes = cache.end_task(False)
    except StoreError:
        raise
    except ShardDone:
        pass
    except Exception as error:
        failure = _failure(cache, spec, error)
        result = None
        with suppress(HarnessError):
            notes = cache.end_task(True)
    if shards.partial:  # a failed shard needs no record: the whole task computes its images again, and may then fail
        return None
    record = TaskRecord(
        key=shards.task,
        spec=spec,
        status="failed" if failure else "done",
        failure=failure,
        read=context.read if context else {},
        facts={name: float(value) for name, value in result.facts.items()} if result else {},
        started=started,
        seconds=time.perf_counter() - clock + shards.seconds,
        device=device,
        versions=versions(cache.registry, spec),
        isolation=_isolation(cache, spec),
        notes=tuple(notes),
    )
    record = cache.store.commit(record, result.rows if result else {}, result.arrays if result else {})
    shards.forget()
    return record


def _require_same_code(cache: BuildCache, spec: TaskSpec) -> None:
    """Raise `HarnessError` if a task was planned with other code of a package than this process has imported."""
    versions_of_plan: list[tuple[Component, str]] = [(cache.registry.track(spec.track), spec.version)]
    versions_of_plan += [(cache.component(spec, role), ref.version) for role, ref in spec.components.items()]
    for component, version in versions_of_plan:
        code = cache.registry.provenance(component).provenance.code
        _, plus, planned_digest = version.rpartition("+")  # such as "3+1f0c", if the plan knew the code's digest
        if code is not None and plus and planned_digest != code.digest:
            raise HarnessError(
                f"{component.info.id} was planned with other code of {code.distribution} than is imported here; "
                "it has changed meanwhile, or machines differ: run it again"
            )


def _isolation(cache: BuildCache, spec: TaskSpec) -> str:
    """Return what isolated the task's components, without those that ran in this process."""
    levels = {cache.component(spec, role).isolation for role in spec.components}
    return ", ".join(sorted(levels - {""})) or "none"


def _failure(cache: BuildCache, spec: TaskSpec, error: Exception) -> Failure:
    modules = {type(cache.component(spec, role)).__module__: ref.label for role, ref in spec.components.items()}
    who = getattr(error, "who", "") or modules.get(deepest_module(error, modules), "harness")
    return Failure(
        who=who,
        error=type(error).__name__,
        traceback="".join(traceback.format_exception(error))[-8000:],
        message=OUT_OF_MEMORY if is_out_of_memory(error) else " ".join(str(error).split())[:500],
    )


NUMERIC = ("torchvision", "numpy", "scipy", "opencv-python-headless", "pillow", "kornia", "scikit-image")
"""The distributions whose version can change a number, in addition to torch."""


@functools.cache
def libraries() -> dict[str, str]:
    """Return the versions of Python, torch, the harness and the numeric libraries, which are read once per process."""
    installed = {"python": platform.python_version(), "torch": torch.__version__, "harness": __version__}
    for name in NUMERIC:
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def versions(registry: Registry, spec: TaskSpec) -> dict[str, str]:
    """Return the versions that a result was made with: those of `libraries`, and the packages of its components."""
    installed = dict(libraries())
    for ref in spec.components.values():
        origin = registry.provenance(registry.revive(ref)).provenance
        installed[origin.distribution] = origin.version
    return installed
