"""Hostile packages of the folder `blind`, whose authors did not know the sandbox's other tests.

A package runs as in a task: an attack's search asks for gradients, then a result that is kept is computed, and the task
ends. Either the report names what the package tried, or the attempt had no effect and the result is that of an honest
defense.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.sandbox.conftest import laid_out
from tests.submissions.conftest import PROFILE

from imharness.components.registry import installed
from imharness.contracts.call import checked
from imharness.contracts.randomness import ImageRng, derive_seed
from imharness.errors import ContractError, HarnessError, PluginError, SandboxViolation, Unavailable
from imharness.planning.profiles import load_profile
from imharness.running.target import MetricTarget
from imharness.testing import trials
from imharness.testing.membership import EvaluatorProbe
from imharness.testing.samples import Quality
from imharness.testing.samples import images as sample_images
from imharness_submissions.gradient_audit import IMAGES, TrialAttacks, examine
from imharness_submissions.judging import reported
from imharness_submissions.opening import data_packages
from imharness_submissions.sandbox import jail
from imharness_submissions.sandbox.describing import described
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec, Jail, Limits
from imharness_submissions.sandbox.processes import ControlGroup
from imharness_submissions.sandbox.proxies import Sandboxed, offer_of, proxy
from imharness_submissions.sandbox.recheck import STATE

HERE = Path(__file__).parent / "blind"
CPU = torch.device("cpu")
LIMITS = Limits(answer_s=60, folder_mib=32, threads=64)
SEARCHED, ROWS, SIDE = 4, 8, 48
"""Calls of a search, images in a call, and height and width of an image in px."""
HARMLESS = ""
"""The words of a report on a package whose attempt has no effect: none."""
LAST = 382
"""A seed with which the fourth call of a search is asked again, for three rows: 5, 0 and 2."""


@dataclass(frozen=True)
class Case:
    """A package, what it tries, and the words (`named`) that a report must contain; empty if it has no effect."""

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
    Case("differs_by_gradient", "shows another function to whoever takes its gradient", HARMLESS),
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
    """A guest with all packages of `blind` and `noise`, without a control group: counting from outside must suffice."""
    modules = [*sorted(HERE.glob("*.py")), HERE.parent / "honest" / "noise.py"]
    folder = laid_out(modules, tmp_path_factory.mktemp("blind"))
    guest_process = Guest(GuestSpec("strangers", folder, masked=tuple(data_packages()), limits=LIMITS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ControlGroup, "create", lambda *limits: None)
        patch.setattr(jail, "unlimited", lambda: False)
        yield guest_process
        guest_process.kill()


@pytest.fixture(scope="module")
def offered(guest: Guest) -> dict[str, Sandboxed]:
    """Return the component of each package, by the name of its module."""
    components = [entry.component for entry in offer_of(guest).entries(guest)]
    return {c.info.id.partition("/")[2].replace("-", "_"): c for c in components if isinstance(c, Sandboxed)}


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> TrialAttacks:
    """The attacks with which the audit of gradients tries a defense, for a small profile."""
    path = tmp_path_factory.mktemp("profile") / "tiny.toml"
    path.write_text(PROFILE)
    return TrialAttacks(installed(), load_profile(str(path)), CPU)


def task(guest: Guest, defense: Sandboxed) -> tuple[str, torch.Tensor, torch.Tensor]:
    """Search and evaluate as a task does; return the text of the report, the kept result, and the images."""
    names = [f"astronaut-{i}" for i in range(ROWS)]
    images, guest.attempts = 0.1 + 0.5 * sample_images(ROWS, SIDE, SIDE, 3), []
    built, result = defense.build(CPU), images
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
        result = evaluate(images, streams)
        guest.end_task(False)
    except HarnessError as error:
        return "; ".join([str(error), *guest.attempts]), result, images
    return "; ".join(guest.attempts), result, images


@pytest.mark.parametrize("case", DEFENSES, ids=lambda case: case.package)
def test_defenses(case: Case, guest: Guest, offered: dict[str, Sandboxed]) -> None:
    report, result, images = task(guest, offered[case.package])
    if case.named:
        assert case.named in report, case.tries
    else:
        assert torch.allclose(result, images, atol=1e-6), case.tries


def test_a_call_is_asked_again_in_a_process_that_is_young(guest: Guest, offered: dict[str, Sandboxed]) -> None:
    """A process started ahead would be as old as that of the search, and give the same answer."""
    images, guest.attempts = 0.1 + 0.5 * sample_images(ROWS, SIDE, SIDE, 3), []
    built = offered["differs_by_birth"].build(CPU)
    built.remote._draw.manual_seed(LAST)
    for _ in range(SEARCHED):
        result = built(images, ImageRng(range(ROWS)))
    assert torch.equal(result, images), "in an old process it is honest"
    with pytest.raises(ContractError, match="asked again"):
        guest.end_task(False)


def test_the_streams_of_kept_results_are_known_to_nobody(
    guest: Guest, offered: dict[str, Sandboxed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams also depend on the guest's secret: the same secret gives the same results, another gives others."""
    names = [f"astronaut-{i}" for i in range(4)]
    images = 0.1 + 0.5 * sample_images(4, SIDE, SIDE, 3)

    def result_of(package: str, secret: str) -> torch.Tensor:
        defense: Any = offered[package]
        monkeypatch.setattr(guest, "stream_secret", secret)
        seeds = [derive_seed(0, "defense", defense.label, name) for name in names]
        result: torch.Tensor = checked(defense, defense.build(CPU))(images, ImageRng(seeds))
        guest.end_task(False)
        return result

    assert float((result_of("knows_random_streams", "") - images).abs().mean()) > 0.1, "it knows public streams"
    assert torch.equal(result_of("knows_random_streams", "5" * 64), images)
    first, again, other = (result_of("noise", secret) for secret in ("5" * 64, "5" * 64, "6" * 64))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("package", ["knows_rounding", "walks_back", "knows_positions"])
def test_what_a_search_is_shown_is_what_is_kept(package: str, guest: Guest, offered: dict[str, Sandboxed]) -> None:
    """Neither rounding nor unused streams tell a defense that a result is kept: a search gets the same function."""
    defense = offered[package]
    built, images = defense.build(CPU), sample_images(ROWS, SIDE, SIDE, 3)
    queries: list[torch.Tensor] = []

    def score(cleaned: torch.Tensor) -> torch.Tensor:
        queries.append(cleaned.detach())
        return cleaned.mean(dim=(1, 2, 3))

    target = MetricTarget(
        score, (0, 1), images=ROWS, differentiable=True, purify=built, rng=ImageRng(range(ROWS)), samples=2
    )
    result = defense.call.checked(defense, built)(images, ImageRng(range(ROWS)))
    assert float((result - images).abs().mean()) > 0.01, "it cheats where results are kept"
    for _ in range(2):
        target((images + 0.3 / 255).requires_grad_(True)).sum().backward()
    guest.end_task(False)
    assert len(queries) == 4
    for cleaned in queries:
        torch.testing.assert_close(cleaned, result, rtol=0, atol=1.01 / 255)


@pytest.mark.parametrize(
    "case",
    [
        Case("gradient_by_size", "gives a true gradient at the suite's sizes only", "its own gradient only"),
        Case("borrows_a_gradient", "names a stand-in that misleads", "the gradient of its stand-in only"),
        Case("mirrors", "moves pixels, and says that it has no gradient", "identity backward (BPDA) does not lead"),
        Case("mirrors_alone", "moves pixels, but not its gradient", "its own gradient does not lead"),
        Case("mirrors_with_a_ghost", "moves pixels, and a ghost of its gradient", "its own gradient does not lead"),
    ],
    ids=lambda case: case.package,
)
def test_gradients_that_mislead(case: Case, offered: dict[str, Sandboxed], trial: TrialAttacks) -> None:
    flags = " ".join(examine(offered[case.package], trial, 0).flags)
    assert "misleading gradients" in flags
    assert case.named in flags, case.tries


def test_no_defense_knows_on_which_images_it_is_tried(trial: TrialAttacks, tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(PROFILE)
    other = TrialAttacks(installed(), load_profile(str(path)), CPU)
    assert len(set(trial.names)) == len(set(other.names)) == IMAGES
    assert set(trial.names) != set(other.names)


def test_what_moves_pixels_back_gets_rows_in_an_order_that_tells_nothing(offered: dict[str, Sandboxed]) -> None:
    defense: Any = offered["moves_by_place"]
    images = sample_images(ROWS, SIDE, SIDE, 3)
    back = checked(defense, defense.inverse(CPU), "inverse")(images, tuple(images.shape[1:]), ImageRng(range(ROWS)))
    places = back[:, 0, 0, 0].mul(100).round().tolist()
    assert sorted(places) == list(range(ROWS)) != places


def test_a_submission_is_no_control() -> None:
    """A winner must be better than every control, so a stranger's control could keep all others from winning."""
    facts = described(installed().one("defense", "harness/median-blur"))
    proxy(facts, None)
    with pytest.raises(PluginError, match="a submission cannot be a control"):
        proxy({**facts, "info": {**facts["info"], "control": "nobody beats it"}}, None)


CHECKS = (
    (Case("hides_the_original", "hides the original in what it returns", "more than move pixels"), "moves pixels"),
    (Case("knows_rounding", "shows another function on 8 bits", "images of 8 bits get another"), "answers alike"),
    (Case("walks_back", "moves scores on 8 bits alone", "images of 8 bits get another"), "answers alike"),
    (Case("sleeps_in_tests", "takes so long that checks are given up", "took longer than"), "leaves its inputs"),
)


@pytest.mark.parametrize(("case", "check"), CHECKS, ids=lambda value: getattr(value, "package", ""))
def test_the_conformance_suite(case: Case, check: str, guest: Guest, offered: dict[str, Sandboxed]) -> None:
    (selected,) = (t for t in trials(offered[case.package], 5) if t.check.startswith(check))
    result = reported(replace(selected, limit=0.5 if case.package == "sleeps_in_tests" else 60).run())
    status = "late" if case.package == "sleeps_in_tests" else "failed"
    assert (result.status, case.named in result.message) == (status, True), result.message
    guest.end_all()


def test_calls_that_each_keep_their_limit_may_not_go_on_for_ever(guest: Guest, offered: dict[str, Sandboxed]) -> None:
    guest.until = time.monotonic() + 0.5
    try:
        with pytest.raises(SandboxViolation, match="longer for all its calls"):
            offered["sleeps_in_tests"].build(CPU)(sample_images(1, 96, 96, 1), ImageRng([1]))
    finally:
        guest.until = float("inf")


def test_asking_for_giants(guest: Guest, offered: dict[str, Sandboxed]) -> None:
    quality, guest.attempts = Quality(1), []
    target = MetricTarget(quality, quality.bounds, images=1, differentiable=False)
    with pytest.raises(SandboxViolation, match="larger than those it was given"):
        offered["asks_for_giants"].build(CPU)(sample_images(1, SIDE, SIDE, 1), target, ImageRng([1]))
    assert "larger than those" in guest.attempts[0]


def test_scores_below_the_tolerance(guest: Guest, offered: dict[str, Sandboxed]) -> None:
    evaluator, guest.attempts = offered["hides_small_scores"], []
    probe, built = EvaluatorProbe(evaluator, 1), evaluator.build(CPU)
    built.remote._draw.manual_seed(LAST)
    for _ in range(SEARCHED):
        probe.call(built, probe.inputs(40), [1])
    with pytest.raises(ContractError, match="asked again"):
        guest.end_task(False)
    assert guest.attempts == [STATE]


def test_flooding_the_notes(guest: Guest, offered: dict[str, Sandboxed]) -> None:
    report, _, _ = task(guest, offered["floods_notes"])
    assert 1 <= report.count("says 'checked and found to be harmless") <= 40
    guest.note(["what the outside saw"])
    assert guest.attempts[-1] == "what the outside saw"


def test_hiding_the_time_of_the_import(guest: Guest) -> None:
    assert offer_of(guest).import_s > 0.3


def test_letting_no_session_start(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no session can be started, the report says so; checks are not skipped silently."""
    guest.open().close()
    guest.attempts = []

    def none(jail: Jail) -> int:
        raise Unavailable("the sandbox started no session")

    monkeypatch.setattr(Jail, "born", none)
    with pytest.raises(Unavailable):
        guest.open()
    assert guest.attempts == ["let no further session start: the sandbox started no session"]
