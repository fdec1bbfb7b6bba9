"""Components of each kind that `harness plugins new` writes give the same results in the sandbox as outside."""

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.sandbox.conftest import QUICK

from imharness.contracts.call import checked
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng, generator
from imharness.running.target import MetricTarget
from imharness.testing.conformance import components_of
from imharness.testing.probes import probe_of
from imharness.testing.samples import Quality
from imharness.testing.samples import images as sample_images
from imharness.testing.scaffold import write_package
from imharness_submissions.sandbox.calls import SEARCH
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec
from imharness_submissions.sandbox.proxies import offer_of

CPU = torch.device("cpu")
KINDS = (
    "attack",
    "fitted-attack",
    "defense",
    "certification",
    "metric",
    "full-reference-metric",
    "distribution-metric",
    "gradient-defense",
    "image-protection",
    "evaluator",
    "membership-release",
)
Pair = tuple[Component, Component]
"""A component in this process, and the same component in the sandbox."""
MOVING = """
from imharness.images import DefenseInfo, Purification, hookimpl

class Turned(Purification):
    \"\"\"Adds noise to mirrored images.\"\"\"

    info = DefenseInfo(id="many/turned", version="1", differentiable=True, random=True)

    def build(self, device):
        return lambda images, rng: (0.5 * images + 0.1 * rng.uniform(*images.shape[1:])).flip(3)

    def inverse(self, device):
        return lambda images, shape, rng: (2 * images.flip(3) - 0.2 * rng.uniform(*shape)).clamp(0, 1)

@hookimpl
def components():
    return [Turned()]
"""


@pytest.fixture(scope="module")
def guest_and_pairs(sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guest, dict[str, Pair]]]:
    """A guest, and kind -> the component here and in the sandbox; "turned" is a defense that moves pixels."""
    folder, sources = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("sources")
    real: dict[str, Component] = {}
    points = []
    (sources / "moving").mkdir()
    (sources / "moving" / "many_turned.py").write_text(MOVING)
    packages = {kind: write_package(kind, f"many/{kind}", sources, "A stranger") for kind in KINDS}
    for kind, package_folder in {**packages, "turned": sources / "moving"}.items():
        (module,) = (path for path in package_folder.glob("*.py"))
        (folder / module.name).write_text(module.read_text())
        points.append(f"{kind} = {module.stem}")
        spec = importlib.util.spec_from_file_location(module.stem, module)
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[module.stem] = loaded
        spec.loader.exec_module(loaded)
        real[kind] = components_of(loaded)[0]
    facts = folder / "many-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.4\nName: many\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[imharness]\n" + "\n".join(points) + "\n")
    guest = Guest(GuestSpec("many", folder, threads=torch.get_num_threads(), limits=replace(QUICK, answer_s=60)))
    offered = {entry.component.label: entry.component for entry in offer_of(guest).entries(guest)}
    yield guest, {kind: (component, offered[component.label]) for kind, component in real.items()}
    guest.kill()


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_back_is_the_same(guest_and_pairs: tuple[Guest, dict[str, Pair]], kind: str) -> None:
    guest, pairs = guest_and_pairs
    here, there = pairs[kind]
    results = []
    for component in (here, there):
        probe = probe_of(component, 3)
        assert probe is not None
        size = probe.sizes[0]
        inputs, seeds = probe.inputs(*size), probe.seeds(size[0])
        result = probe.call(probe.build(component), inputs, seeds)
        probe.check(result, inputs, seeds)
        results.append(probe.flat(result, inputs))
    assert results[0].shape == results[1].shape
    assert results[0].numel() > 0
    assert torch.allclose(results[0], results[1], rtol=0, atol=1e-6)
    assert (here.label, here.ref()) == (there.label, there.ref()), "other tasks"
    guest.end_task(failed=False)
    assert guest.attempts == []


@pytest.mark.parametrize("kind", ["defense", "metric", "full-reference-metric"])
def test_gradients_are_the_same(guest_and_pairs: tuple[Guest, dict[str, Pair]], kind: str) -> None:
    guest, pairs = guest_and_pairs
    gradients = []
    for component in pairs[kind]:
        built: Any = component.build(CPU)  # type: ignore[attr-defined]
        leaf = sample_images(3, 40, 40, 5).requires_grad_(True)
        other = {"defense": [ImageRng([1, 2, 3])], "full-reference-metric": [sample_images(3, 40, 40, 6)]}.get(kind, [])
        result = built(leaf, *other)
        weights = torch.rand(result.shape, generator=generator(1))
        gradients.append(torch.autograd.grad((result * weights).sum(), leaf)[0])
    assert gradients[0].abs().sum() > 0
    assert torch.allclose(*gradients, rtol=0, atol=1e-6)
    guest.end_task(failed=False)


def test_the_call_that_is_asked_again_is_compared_with_its_own_gradient(
    guest_and_pairs: tuple[Guest, dict[str, Pair]],
) -> None:
    """A search asks for gradients of different batches; the guest numbers its graphs from 0 in each session."""
    guest, pairs = guest_and_pairs
    purify: Any = pairs["defense"][1].build(CPU)  # type: ignore[attr-defined]
    purify.remote._draw.manual_seed(12)  # with this seed the first call is drawn to be asked again
    for n in (3, 1, 2, 1):
        leaf = sample_images(n, 40, 40, n).requires_grad_(True)
        result = purify(leaf, ImageRng(range(n)))
        torch.autograd.grad((result * torch.rand(result.shape, generator=generator(n))).sum(), leaf)
    assert len(purify.remote._retained[False].request.tensors["images"]) == 3, "the first call is the one that is kept"
    guest.end_task(failed=False)


def test_an_adaptive_attack_goes_through_a_sandboxed_defense(guest_and_pairs: tuple[Guest, dict[str, Pair]]) -> None:
    """The metric runs in this process, attack and defense in all combinations of this process and the sandbox."""
    _, pairs = guest_and_pairs
    score = Quality(2)
    images = sample_images(3, 40, 40, 5)
    results = []
    for attack in pairs["attack"]:
        for defense in pairs["defense"]:
            purify: Any = defense.build(CPU)  # type: ignore[attr-defined]
            target = MetricTarget(
                score, (0.0, 1.0), images=3, differentiable=True, purify=purify, rng=ImageRng([7, 8, 9])
            )
            perturb: Any = attack.build(CPU)  # type: ignore[attr-defined]
            results.append(perturb(images, target, ImageRng([1, 2, 3])))
            assert int(target.queries.max()) > 0
    assert not torch.equal(results[0], images)
    assert all(torch.allclose(results[0], other, rtol=0, atol=1e-6) for other in results[1:])


def test_a_graph_that_nobody_needs_is_dropped_inside(guest_and_pairs: tuple[Guest, dict[str, Pair]]) -> None:
    _, pairs = guest_and_pairs
    purify: Any = pairs["defense"][1].build(CPU)  # type: ignore[attr-defined]
    for _ in range(3):
        leaf = sample_images(1, 40, 40, 5).requires_grad_(True)
        purify(leaf, ImageRng([1]))
    assert purify.remote._sessions[SEARCH][0].dropped == [0], "each call frees the handle of the one before it"


def test_what_moves_pixels_moves_them_back_in_the_sandbox_with_the_same_draws(
    guest_and_pairs: tuple[Guest, dict[str, Pair]],
) -> None:
    guest, pairs = guest_and_pairs
    turned: Any = pairs["turned"][1]
    images = sample_images(3, 20, 24, 0)
    moved = checked(turned, turned.build(CPU))(images, ImageRng([1, 2, 3]))
    back = checked(turned, turned.inverse(CPU), "inverse")(moved, tuple(images.shape[1:]), ImageRng([1, 2, 3]))
    torch.testing.assert_close(back, images)
    guest.end_task(failed=False)
