"""Hostile packages and inputs that were written without a look at the others: what each tries, and what becomes of it.

A package is run as a cell runs it: an attack that searches asks for gradients, then a result that is kept is computed,
and the task ends. What it tried is named in what the report shows, or it reached nothing: then its result is that of an
honest defense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from imharness.errors import HarnessError
from imharness.randomness import ImageRng, derive_seed
from imharness_conformance.samples import images as sample_images
from imharness_submissions.opening import data_packages
from imharness_submissions.sandbox.again import STATE
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec, Limits
from imharness_submissions.sandbox.processes import ControlGroup
from imharness_submissions.sandbox.proxies import Sandboxed, offer_of
from tests.sandbox.conftest import laid_out

HERE = Path(__file__).parent / "blind"
CPU = torch.device("cpu")
LIMITS = Limits(answer_s=60, memory_mib=1500, folder_mib=32, threads=64)
SEARCHED, ROWS, SIDE = 4, 8, 48
HARMLESS = ""
LAST = 382
"""A seed with which the fourth call of a search is asked again, for three rows: 5, 0 and 2."""


@dataclass(frozen=True)
class Case:
    """A package; what it tries; and by which words the report names it, none where it reaches nothing."""

    package: str
    tries: str
    named: str


DEFENSES = (
    Case("counts_calls", "behaves by the number of calls in its process", STATE),
    Case("counts_gradients", "gives a true gradient in its first calls only", STATE),
    Case("gradient_by_batch", "gives a true gradient in the batch sizes of tests only", STATE),
    Case("gradient_by_position", "gives a true gradient to half of a batch", STATE),
    Case("differs_by_batch", "behaves by the number of images in a call", STATE),
    Case("differs_by_position", "behaves by the place of an image in a call", STATE),
    Case("differs_by_gradient", "shows another function to whoever takes its gradient", STATE),
    Case("differs_by_age", "behaves by the age of its process", STATE),
    Case("differs_by_second", "behaves by the clock", STATE),
    Case("knows_streams", "knows kept results by their random streams", HARMLESS),
    Case("remembers_in_streams", "counts queries in the random streams", HARMLESS),
    Case("remembers_on_the_gpu", "remembers in the memory of a GPU", HARMLESS),
    Case("signals_sessions", "talks to other sessions by signals", HARMLESS),
    Case("maps_zeros", "holds shared memory that nobody counts", HARMLESS),
    Case("starts_threads", "starts threads without end", "more than 64 threads"),
)


@pytest.fixture(scope="module")
def guest(sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """All packages as one, without a control group: what is counted from outside must do."""
    folder = laid_out(sorted(HERE.glob("*.py")), tmp_path_factory.mktemp("blind"))
    found = Guest(GuestSpec("strangers", folder, masked=tuple(data_packages()), limits=LIMITS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ControlGroup, "create", lambda *limits: None)
        yield found
        found.kill()


@pytest.fixture(scope="module")
def offered(guest: Guest) -> dict[str, Sandboxed]:
    """Return the component of each package."""
    found = [entry.component for entry in offer_of(guest).entries(guest)]
    return {c.info.id.partition("/")[2].replace("-", "_"): c for c in found if isinstance(c, Sandboxed)}


def cell(guest: Guest, defense: Sandboxed) -> tuple[str, torch.Tensor, torch.Tensor]:
    """Search and evaluate as a cell does; return what the report says, the kept result, and what was given."""
    names = [f"astronaut-{i}" for i in range(ROWS)]
    images, guest.attempts = 0.1 + 0.5 * sample_images(ROWS, SIDE, SIDE, 3), []
    built, kept = defense.build(CPU), images
    built.remote._draw.manual_seed(LAST)
    evaluate = defense.call.checked(defense, built)
    searching = ImageRng([derive_seed("a key", name) for name in names])
    streams = ImageRng([derive_seed(0, "defense", defense.label, name) for name in names])
    try:
        for _ in range(SEARCHED):
            leaf = images.clone().requires_grad_(True)
            built(leaf, searching).square().sum().backward()
        evaluate(images, streams)
        built(images, searching)
        kept = evaluate(images, streams)
        guest.end_task(False)
    except HarnessError as error:
        return "; ".join([str(error), *guest.attempts]), kept, images
    return "; ".join(guest.attempts), kept, images


@pytest.mark.parametrize("case", DEFENSES, ids=lambda case: case.package)
def test_defenses(case: Case, guest: Guest, offered: dict[str, Sandboxed]) -> None:
    report, kept, images = cell(guest, offered[case.package])
    if case.named:
        assert case.named in report, case.tries
    else:
        assert torch.allclose(kept, images, atol=1e-6), case.tries
