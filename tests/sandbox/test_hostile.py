"""Plugins of the folder `hostile`, which cheat or attack, are stopped or flagged; those of `honest` are not."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.sandbox.conftest import HERE, Opened, laid_out

from imharness.contracts.call import checked
from imharness.contracts.randomness import ImageRng
from imharness.errors import ContractError, PluginError, QueryBudgetExceeded, SandboxViolation
from imharness.results.store import Store
from imharness.running.logs import keeping, log_of
from imharness.running.target import MetricTarget
from imharness.testing import check_component
from imharness.testing.samples import images as sample_images
from imharness_submissions.deadline import Deadline
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec
from imharness_submissions.sandbox.proxies import offer_of

CPU = torch.device("cpu")


def task(guest: Guest, purify: object) -> None:
    """Do what a task does: purify clean images, attacked ones, attacked ones with other draws; then end the task."""
    assert callable(purify)
    clean = sample_images(4, 32, 32, 1)
    attacked = (clean + 0.03 * torch.sign(torch.randn(clean.shape, generator=torch.Generator().manual_seed(1)))).clamp(
        0, 1
    )
    for batch, seeds in ((clean, [1, 2, 3, 4]), (attacked, [1, 2, 3, 4]), (attacked, [5, 6, 7, 8])):
        purify(batch, ImageRng(seeds))
    guest.end_task(failed=False)


@pytest.mark.parametrize("name", ["median", "noise", "caches", "stops_gradients", "upscales"])
def test_honest_plugins_are_not_flagged(opened: Opened, name: str) -> None:
    guest, component = opened(f"honest/{name}")
    for _ in range(3):
        task(guest, checked(component, component.build(CPU)))
    assert guest.attempts == []


def test_what_a_guest_prints_is_in_the_log_of_its_task(opened: Opened, tmp_path: Path) -> None:
    guest, component = opened("hostile/reads_prints")
    store = Store(tmp_path)
    with keeping(store, "key"):
        task(guest, checked(component, component.build(CPU)))
    log = log_of(store, "key")
    assert log is not None
    assert set(log.text.splitlines()) == {"a note for the others"}


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("reads_labels", "tried to read"),
        ("finds_store", "tried to read /srv/leaderboard/store"),
        ("writes_outside", "tried to write /usr/evil"),
        ("opens_socket", "tried to open"),
        ("fills_disk", "filled its folder"),
        ("patches_torch", "replaced torch.isfinite"),
    ],
)
def test_what_the_sandbox_refuses_is_named(opened: Opened, name: str, noted: str) -> None:
    """The plugin suppresses its errors, and raises "FOUND" if an attempt succeeds."""
    guest, component = opened(f"hostile/{name}")
    task(guest, checked(component, component.build(CPU)))
    assert any(noted in line for line in guest.attempts), guest.attempts
    assert torch.isfinite(torch.tensor([float("nan")])).tolist() == [False]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("forks", "processes"),
        ("fills_memory", "memory"),
        ("never_returns", "did not answer within"),
        ("prints", "printed more than"),
        ("malformed", "bytes that are not a message"),
        ("gigantic", "a message of 1152921504606846976 bytes"),
        ("exits", "ended in the middle"),
        ("stays_behind", "left processes behind"),
        ("fills_shared_memory", "memory"),
        ("hides_shared_memory", "memory"),
        ("hoards_in_tables", "memory"),
        ("drips", "did not answer within"),
    ],
)
def test_what_breaks_a_rule_is_ended_and_named(opened: Opened, name: str, message: str) -> None:
    guest, component = opened(f"hostile/{name}")
    with pytest.raises(SandboxViolation, match=message):
        task(guest, checked(component, component.build(CPU)))
    assert any(message in line for line in guest.attempts), guest.attempts
    assert guest._jail is None, "the guest was not ended"


@pytest.mark.parametrize("name", ["averages", "own_randomness"])
def test_state_between_calls_is_found(opened: Opened, name: str) -> None:
    """One call of a task, drawn at random, is repeated; within 20 tasks a repeated call must give another answer."""
    guest, component = opened(f"hostile/{name}")
    purify = checked(component, component.build(CPU))

    def tasks() -> None:
        for _ in range(20):
            task(guest, purify)

    with pytest.raises(ContractError, match="keeps state between calls"):
        tasks()


@pytest.mark.parametrize("name", ["hoards_in_sockets", "pins_pages"])
def test_memory_that_no_process_owns_cannot_be_made(opened: Opened, name: str) -> None:
    """Memory in sockets and pipes counts for no process, and not every machine has control groups.

    The plugin raises "FOUND" if it succeeds.
    """
    guest, component = opened(f"hostile/{name}")
    task(guest, checked(component, component.build(CPU)))


@pytest.mark.parametrize("gradient", [False, True])
def test_what_comes_out_has_at_most_four_times_the_pixels(opened: Opened, gradient: bool) -> None:
    """Also for an attack's queries, and before the metric runs, whose time grows with the number of pixels."""
    _, component = opened("hostile/enlarges")
    images = sample_images(2, 32, 32, 1).requires_grad_(gradient)
    with pytest.raises(ContractError, match="images of 160 x 160 px; at most 4 times"):
        component.build(CPU)(images, ImageRng([1, 2]))


def test_one_deadline_holds_for_answers_and_for_what_follows_from_them(opened: Opened) -> None:
    """A slow metric makes no request to the guest while it runs; the deadline must end it all the same."""
    guest, component = opened("honest/median")
    defense, steps = component.build(CPU), 0
    defense(sample_images(1, 32, 32, 1), ImageRng([1]))  # the first answer takes long on a busy machine

    def measured() -> None:
        nonlocal steps
        output = defense(sample_images(1, 32, 32, 1), ImageRng([1]))
        while steps < 10**7:
            steps += bool(output.mean() >= 0)

    with pytest.raises(SandboxViolation, match="what follows from them"), Deadline(guest, 2):
        measured()
    assert 0 < steps < 10**7
    assert guest.until == float("inf")


def test_nan_is_refused(opened: Opened) -> None:
    guest, component = opened("hostile/returns_nan")
    with pytest.raises(ContractError, match="evil/returns-nan"):
        task(guest, checked(component, component.build(CPU)))


def target(differentiable: bool, budget: int | None) -> MetricTarget:
    return MetricTarget(
        lambda images: images.mean(dim=(1, 2, 3)), (0.0, 1.0), images=4, differentiable=differentiable, budget=budget
    )


def test_a_query_budget_holds_although_the_attack_hides_the_refusal(opened: Opened) -> None:
    _, component = opened("hostile/asks_too_much")
    attack = checked(component, component.build(CPU))
    with pytest.raises(QueryBudgetExceeded, match="budget is 3"):
        attack(sample_images(4, 32, 32, 1), target(False, component.budget().queries), ImageRng([1, 2, 3, 4]))


def test_a_black_box_attack_gets_no_gradient(opened: Opened) -> None:
    _, component = opened("hostile/wants_gradients")
    attack = checked(component, component.build(CPU))
    with pytest.raises(SandboxViolation, match="gradient of a black-box target"):
        attack(sample_images(4, 32, 32, 1), target(False, None), ImageRng([1, 2, 3, 4]))


def test_progress_without_end_is_ended_and_named(opened: Opened) -> None:
    guest, component = opened("hostile/reports_progress")
    seen: list[tuple[int, int]] = []
    with pytest.raises(SandboxViolation, match="reported progress more than"):
        component.fit(
            sample_images(4, 32, 32, 1), target(True, None), torch.Generator(), lambda *progress: seen.append(progress)
        )
    assert len(seen) < 1000
    assert any("reported progress more than" in line for line in guest.attempts)


@pytest.fixture(scope="module")
def described_anew(sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """A guest whose package each test replaces: its first process never reads the package, and each session does."""
    folder = tmp_path_factory.mktemp("anew") / "package"
    folder.mkdir()
    guest = Guest(GuestSpec("strangers", folder))
    yield guest
    guest.kill()


@pytest.mark.parametrize(
    ("name", "message"), [("names_a_field", "environment"), ("lies_about_itself", "description of a component")]
)
def test_a_false_description_makes_no_component(described_anew: Guest, name: str, message: str) -> None:
    """A field cannot replace the digest of the package, which the harness adds to every key.

    A package that states its digest itself would own the tasks of another package.
    """
    for path in described_anew.spec.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    laid_out([HERE / "hostile" / f"{name}.py"], described_anew.spec.folder)
    with pytest.raises(PluginError, match=message):
        offer_of(described_anew)


def test_the_conformance_suite_cannot_be_told_from_a_run(opened: Opened) -> None:
    """The suite runs outside of the plugin's process, so that the plugin finds no test suite and misbehaves."""
    _, component = opened("hostile/behaves_when_watched")
    outcomes = check_component(component, seed=int.from_bytes(os.urandom(3)))
    assert any(o.status == "failed" for o in outcomes)
