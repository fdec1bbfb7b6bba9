"""Examines components that are not the harness's own, before they are ranked; the store remembers what was found.

The checks are those of the conformance suite that take a few calls, and those of `imharness.testing.on_data` on images
of the run. A failed check is a flag: the component's numbers are shown, but it neither wins nor decides who wins. A
check that takes too long, or that ends with an error of the component's own, is no flag, because the run itself will
show whether the component works.

Where there is no GPU, one is simulated in a copy of this process (see `imharness.testing.placement`), so that what a
component keeps from the trial is gone afterwards.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch

from imharness.components.registry import Registry, installed
from imharness.contracts.component import Component
from imharness.contracts.full_reference_metric import FullReferenceMetric
from imharness.contracts.image_dataset import ImageDataset
from imharness.contracts.no_reference_metric import NoReferenceMetric
from imharness.contracts.purification import Purification
from imharness.contracts.values import Images
from imharness.documents.entries import Examined
from imharness.errors import DamagedError, HarnessError
from imharness.planning.plan import Graph
from imharness.ranking.entries import EXAMINED
from imharness.results.identity import DISTRIBUTION, LOCAL, ComponentRef, digest, owner_of, version_of
from imharness.results.store import Store
from imharness.running.subprocesses import can_copy, each_aside, in_copy
from imharness.testing.conformance import IN_PLACE, CheckResult, Trial, quick_checks
from imharness.testing.devices import stays
from imharness.testing.on_data import checks_on_data
from imharness.testing.placement import prepare
from imharness.testing.probes import probe_of

CHECKS = 4
"""The version of the checks. Raise it when a check changes, or its words: all components are then examined again."""
LIMIT_S = 5.0
"""A check that takes longer than this is left out, s."""
LIMIT_OF_ALL_S = 120.0
"""A component whose checks together take longer than this is left out, s."""
NUMBERS = re.compile(r"\d+")
IMAGES = 6
"""How many images of the run are used."""
_unchecked = set[str]()
"""Labels of objects for which a warning said that they were not tried on a GPU."""


def examine(store: Store, registry: Registry, graphs: Sequence[Graph], seed: int = 0) -> dict[str, tuple[str, ...]]:
    """Examine the components of graphs, store the results, and return label -> the lines of checks that failed.

    Components of the harness's own packages, and submitted ones that run in a sandbox, are left out: their tests and
    the audit of submissions check more. Components of installed packages are examined in a process of their own, so
    that one that ends its process ends nothing else; objects of a notebook exist in this process alone.
    """
    refs = {digest(ref.identity()): ref for graph in graphs for ref in _refs(graph)}
    data = [ref for ref in refs.values() if ref.kind == ImageDataset.kind]
    examined_refs = {key: ref for key, ref in refs.items() if _is_examined(registry, ref)}
    # A result is valid for this version of the checks and these data; its key stands for the component's own code.
    code = digest([version_of(DISTRIBUTION), CHECKS, sorted(digest(ref.identity()) for ref in data)])
    results = {key: _stored(store, key) for key in examined_refs}
    waiting = {key: examined_refs[key] for key, result in results.items() if result is None or result.code != code}
    if waiting:
        store.prepare()
    for key, failed in _failures(registry, waiting, data, seed):
        ref = examined_refs[key]
        record = Examined(kind=ref.kind, label=ref.label, code=code, failed=failed)
        results[key] = record
        store.replace(f"{EXAMINED}/{key}.json", record)
    return {
        examined_refs[key].label: result.failed
        for key, result in results.items()
        if result is not None and result.failed
    }


def _stored(store: Store, key: str) -> Examined | None:
    """Return what was found before; None where it is damaged, so that the component is examined again."""
    with suppress(DamagedError):
        return store.current(f"{EXAMINED}/{key}.json", Examined)
    return None


def _failures(
    registry: Registry, refs: Mapping[str, ComponentRef], data: Sequence[ComponentRef], seed: int
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the key of each reference and the lines of the checks that its component failed."""
    here = {key: ref for key, ref in refs.items() if owner_of(ref.id) == LOCAL}
    if here:
        images = list(_images(registry, data))
        yield from ((key, tuple(failed_checks(registry.revive(ref), images, seed))) for key, ref in here.items())
    others = {key: ref.model_dump(mode="json") for key, ref in refs.items() if key not in here}
    facts = {
        "refs": others,
        "data": [ref.model_dump(mode="json") for ref in data if owner_of(ref.id) != LOCAL],
        "seed": seed,
    }
    for key, failures, ended in each_aside(f"{__name__}:examiner", facts, list(others), LIMIT_OF_ALL_S):
        if not ended:  # a component whose process ended is not flagged, as a full or busy machine may have ended it
            yield key, tuple(failures)


def examiner(facts: Mapping[str, Any]) -> Callable[[str], list[str]]:
    """Return a function that examines one of the references in `facts`, whose packages are installed."""
    registry = installed()
    images = list(_images(registry, [ComponentRef(**ref) for ref in facts["data"]]))

    def examined(key: str) -> list[str]:
        return list(failed_checks(registry.revive(ComponentRef(**facts["refs"][key])), images, facts["seed"]))

    return examined


def _refs(graph: Graph) -> Iterator[ComponentRef]:
    """Yield each reference of a plan once; many tasks share the same object, which is quicker to compare by its id."""
    by_id = {id(ref): ref for task in graph.tasks.values() for ref in task.spec.components.values()}
    yield from by_id.values()


def _is_examined(registry: Registry, ref: ComponentRef) -> bool:
    """Say whether a component is examined: an object of the user's, or one of an installed package that is not ours."""
    try:
        entry = registry.provenance(registry.revive(ref))
    except HarnessError:
        return False
    return owner_of(ref.id) == LOCAL or entry.provenance.distribution != DISTRIBUTION


def _images(registry: Registry, refs: Iterable[ComponentRef]) -> Iterator[Images]:
    """Yield a few images of one size of each data set of images, float32 ``(n, 3, H, W)`` in [0, 1]."""
    for ref in refs:
        try:
            component = registry.revive(ref)
            if isinstance(component, ImageDataset):
                component.require()
                image_set = component.build(torch.device("cpu"))
                alike = [i for i, shape in enumerate(image_set.shapes) if shape == image_set.shapes[0]]
                yield image_set.load(alike[:: max(1, len(alike) // IMAGES)][:IMAGES])
        except HarnessError:
            continue  # the run says what is wrong with its data


def failed_checks(component: Component, images: Sequence[Images] = (), seed: int = 0) -> Iterator[str]:
    """Yield a line for each quick check that a component fails; `images`: batches ``(n, 3, H, W)`` of a run.

    If several checks fail with the same message, such as scores of a wrong shape, only the first has a line.
    """
    reported = set[str]()
    for result in _results(component, images, seed):
        gist = NUMBERS.sub("0", result.message)
        if result.status == "failed" and not _cannot(result) and gist not in reported:
            reported.add(gist)
            yield f'fails the check "{result.check}": {result.message}'


def _cannot(result: CheckResult) -> bool:
    """Say whether a component ended a check with an error of its own, as it does if it takes no such images."""
    return result.message.startswith("raised ")


def _results(component: Component, images: Sequence[Images], seed: int) -> Iterator[CheckResult]:
    """Yield the result of each check that could be made."""
    probe = probe_of(component, seed)
    if probe is None:
        return
    try:
        component.require()
    except HarnessError:
        return
    if images and isinstance(component, Purification | NoReferenceMetric | FullReferenceMetric):
        height, width = images[0].shape[2:]
        probe.sizes = ((3, height, width), (1, height, width), (4, height, width))
    prepare()
    on_gpu = Trial(component, IN_PLACE, lambda: stays(component, probe, often=None), LIMIT_S)
    # First of all, before a call leaves something in the object, such as a tensor for the next call.
    result_on_gpu = _in_copy(on_gpu)
    for name, check in quick_checks(component, probe):
        yield Trial(component, name, check, LIMIT_S).run()
    for batch in images[:1]:
        for name, check in checks_on_data(component, probe, batch):
            yield Trial(component, name, check, LIMIT_S).run()
    if result_on_gpu is not None:
        yield result_on_gpu
    elif owner_of(component.info.id) != LOCAL:
        yield on_gpu.run()


def _in_copy(trial: Trial) -> CheckResult | None:
    """Return the result of a check in a copy of this process, or None if none came back.

    If this system cannot copy a process, a warning says so for an object of the user's.
    """
    if can_copy():
        answer = in_copy(lambda: asdict(trial.run()), 2 * trial.limit)
        return None if answer.ended else CheckResult(**answer.result)
    label = trial.component.label
    if owner_of(label) == LOCAL and label not in _unchecked:
        _unchecked.add(label)
        warnings.warn(
            f"whether {label} keeps its tensors on a GPU was not checked, because this system cannot copy a process; "
            "`harness plugins check` does it for a plugin.",
            stacklevel=2,
        )
    return None
