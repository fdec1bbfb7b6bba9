"""A process of a package learns nothing that another of its processes saw, in this task or in an earlier one."""

import os
from typing import Any

import pytest
import torch
from tests.sandbox.conftest import Opened

from imharness.contracts.call import checked
from imharness.contracts.randomness import ImageRng
from imharness.testing.samples import images as sample_images
from imharness_submissions.sandbox.host import Session

CPU = torch.device("cpu")
SEEDS = [1, 2, 3, 4]


def a_pair() -> tuple[torch.Tensor, torch.Tensor]:
    """Return four clean images, and the same images with noise."""
    clean = sample_images(4, 32, 32, 1) * 0.8 + 0.1
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))
    return clean, clean + 0.03 * torch.sign(noise)


@pytest.mark.parametrize("name", ["keeps_files", "keeps_shared_memory", "marks_devices"])
def test_nothing_is_remembered_in_another_task(opened: Opened, name: str) -> None:
    guest, component = opened(f"hostile/{name}")
    purify: Any = checked(component, component.build(CPU))
    clean, attacked = a_pair()
    times = os.stat("/dev/null").st_mtime
    assert torch.equal(purify(clean, ImageRng(SEEDS)), clean)
    guest.end_task(failed=False)
    assert torch.equal(purify(attacked, ImageRng(SEEDS)), attacked), "it answered with what it kept"
    guest.end_task(failed=False)
    assert os.stat("/dev/null").st_mtime == times


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("name", ["matches_pairs", "matches_calls", "remembers"])
def test_a_clean_image_never_meets_its_attacked_copy(opened: Opened, name: str, together: bool) -> None:
    """In one call or in two: a process that sees one image of a pair cannot return the smoother of both."""
    guest, component = opened(f"hostile/{name}")
    purify: Any = checked(component, component.build(CPU))
    clean, attacked = a_pair()
    if together:
        result, _ = purify(torch.cat([attacked, clean]), ImageRng(SEEDS * 2)).split(4)
    else:
        purify(clean, ImageRng(SEEDS))
        result = purify(attacked, ImageRng(SEEDS))
    assert torch.equal(result, attacked), "it found the clean image beside the attacked one"
    guest.end_task(failed=False)


@pytest.mark.parametrize("name", ["reads_prints", "locks_files"])
def test_processes_that_run_together_cannot_talk(opened: Opened, name: str) -> None:
    guest, component = opened(f"hostile/{name}")
    one, other = component.build(CPU), component.build(CPU)
    clean, _ = a_pair()
    for purify in (one, other):
        assert torch.equal(purify(clean, ImageRng(SEEDS)), clean), "it heard the other process"
    guest.end_task(failed=True)


def test_a_function_that_nobody_holds_keeps_no_process(opened: Opened) -> None:
    """Otherwise a package with many entries or parameters would exceed its limit of processes."""
    guest, component = opened("honest/median")
    clean, _ = a_pair()
    for _ in range(3):
        component.build(CPU)(clean, ImageRng(SEEDS))
    assert [session for session in guest._sessions if not session.closed] == []


def test_the_session_that_was_started_ahead_waits_while_calls_are_asked_again(opened: Opened) -> None:
    """A repeated call needs a newer process; the session started ahead is kept for the next task."""
    guest, component = opened("honest/median")
    purify: Any = checked(component, component.build(CPU))
    clean, _ = a_pair()
    purify(clean, ImageRng(SEEDS))
    guest.end_task(failed=False)
    assert guest._ahead is not None
    waiting = guest._ahead[1]
    purify(clean, ImageRng(SEEDS))
    assert isinstance(waiting, Session)
    assert waiting in guest._sessions
    assert not waiting.closed
    guest.end_task(failed=False)


@pytest.mark.parametrize("gradient", [False, True])
def test_the_order_of_rows_tells_nothing(opened: Opened, gradient: bool) -> None:
    """Neither queries of a search nor queries with gradients come in the order of the images."""
    guest, component = opened("hostile/knows_order")
    images = (sample_images(8, 16, 16, 1) * 0.5).requires_grad_(gradient)
    purify = component.build(CPU)
    result = purify(images, ImageRng(range(8)))
    places = (result - images).detach().flatten(1).mean(dim=1).mul(64).round().long().tolist()
    if gradient:
        (image_gradient,) = torch.autograd.grad((result * images.detach()).sum(), images)
        assert torch.equal(image_gradient, images.detach()), "each gradient belongs to its own image"
    guest.end_task(failed=True)
    assert sorted(places) == list(range(8))
    assert places != list(range(8)), "it knows which image is which"
