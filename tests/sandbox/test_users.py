"""Honest defenses of users (`users/users.py`) are flagged neither by repeated calls nor by the audit of gradients."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.sandbox.conftest import laid_out
from tests.submissions.conftest import PROFILE

from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng, derive_seed
from imharness.planning.profiles import load_profile
from imharness.testing.conformance import components_of
from imharness_submissions.gradient_audit import TrialAttacks, unfollowed
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec, Limits
from imharness_submissions.sandbox.proxies import Sandboxed, offer_of

USERS = Path(__file__).parent / "users" / "users.py"
CPU = torch.device("cpu")
NAMES = (
    "straight-through",
    "random-size",
    "stochastic-depth",
    "diffusion",
    "wavelets",
    "lazy",
    "rounds",
    "ties",
    "halves",
    "codebook",
)


@pytest.fixture(scope="module")
def guest(sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    guest_process = Guest(GuestSpec("strangers", laid_out([USERS], tmp_path_factory.mktemp("users")), limits=Limits()))
    yield guest_process
    guest_process.kill()


@pytest.fixture(scope="module")
def offered(guest: Guest) -> dict[str, Sandboxed]:
    components = [entry.component for entry in offer_of(guest).entries(guest)]
    return {c.info.id.partition("/")[2]: c for c in components if isinstance(c, Sandboxed)}


@pytest.fixture(scope="module")
def here() -> dict[str, Component]:
    spec = importlib.util.spec_from_file_location("users", USERS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {c.info.id.partition("/")[2]: c for c in components_of(module)}


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> TrialAttacks:
    path = tmp_path_factory.mktemp("profile") / "tiny.toml"
    path.write_text(PROFILE)
    return TrialAttacks(installed(), load_profile(str(path)), CPU)


@pytest.mark.parametrize("name", NAMES)
def test_the_call_that_is_asked_again_agrees(
    name: str, guest: Guest, offered: dict[str, Sandboxed], trial: TrialAttacks
) -> None:
    """An attack follows the gradient; the kept result is computed from its images, rounded to 8 bits."""
    defense: Any = offered[name]
    built, attacked = defense.build(CPU), trial.images
    streams = [derive_seed("streams", i) for i in range(len(attacked))]
    for _ in range(2):
        leaf = attacked.clone().requires_grad_(True)
        clean = built(leaf, ImageRng(streams))
        if clean.requires_grad:
            (gradient,) = torch.autograd.grad((clean * clean.roll(1, 3)).sum(), leaf)
            attacked = (attacked + 4 / 255 * gradient.sign()).clamp(0, 1)
    batch = torch.cat([attacked.mul(255).round() / 255, trial.images])
    kept_call = defense.call.checked(defense, built)
    kept_call(batch, ImageRng([*streams, *streams]))
    guest.end_task(failed=False)  # asks a call again
    assert guest.pop_attempts() == []


@pytest.mark.parametrize("name", NAMES)
def test_its_gradient_leads_back(name: str, here: dict[str, Component], trial: TrialAttacks) -> None:
    assert list(unfollowed(here[name], trial, 0)) == []  # type: ignore[arg-type]
