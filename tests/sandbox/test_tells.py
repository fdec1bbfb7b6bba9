"""Nothing that a stranger's defense observes tells a search, or the conformance suite, from a result that is kept.

A defense that records facts about its calls runs in a search, for kept results, and in the suite. A decision stump (a
limit on one fact) then tells one kind of call from another. On calls that it was not fitted to, it is right no more
often than a coin. Three things are left out: the content of images, which changes in a search; the sizes of images and
batches in the suite, which has its own; the number and time of calls, which the repetition of calls covers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from tests.sandbox.conftest import laid_out

from imharness.contracts.call import checked
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng, derive_seed
from imharness.running.target import MetricTarget, straight_through
from imharness.testing import check_component
from imharness.testing.samples import Quality
from imharness.testing.samples import images as sample_images
from imharness_submissions.opening import data_packages
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec, Limits
from imharness_submissions.sandbox.proxies import offer_of

CPU = torch.device("cpu")
ROWS, SIDE, CALLS = 6, 48, 12
SEARCH, KEPT, SUITE = "search", "kept", "suite"
Call = dict[str, float]


class Heard:
    """The text that recording defenses printed, by the kind of call: `SEARCH`, `KEPT` or `SUITE`."""

    def __init__(self) -> None:
        self.now, self.text = "", dict[str, str]()

    def add(self, text: str) -> None:
        self.text[self.now] = self.text.get(self.now, "") + text

    def calls(self, who: str) -> list[Call]:
        return [json.loads(line) for line in self.text[who].splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def guest(sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """A guest with the three recording defenses; each call gets its own session."""
    folder = laid_out([Path(__file__).parent / "honest" / "records.py"], tmp_path_factory.mktemp("records"))
    guest_process = Guest(
        GuestSpec("strangers", folder, masked=tuple(data_packages()), limits=Limits(printed_kib=4096))
    )
    yield guest_process
    guest_process.kill()


@pytest.fixture(scope="module")
def defenses(guest: Guest) -> dict[str, Component]:
    return {entry.component.info.id: entry.component for entry in offer_of(guest).entries(guest)}


def recorded(guest: Guest, heard: Heard, defense: Any) -> None:
    """Call a defense as searches with and without gradients, as kept results, and as the conformance suite do."""
    quality, names = Quality(2), [f"photograph-{i}" for i in range(ROWS)]
    built: Any = defense.build(CPU)
    keep = checked(defense, built)
    through = built if defense.info.differentiable else straight_through(built)
    for number in range(CALLS):
        images = sample_images(ROWS, SIDE, SIDE, number)
        streams = ImageRng([derive_seed(number, "target", name) for name in names])
        white = bool(number % 2)
        window = MetricTarget(
            quality, (0, 1), images=ROWS, differentiable=white, purify=through, rng=streams, precision="tf32"
        )
        heard.now = SEARCH
        for step in range(2):
            leaf = (images + 0.3 * (step + 1) / 255).requires_grad_(white)
            if white:
                window(leaf).sum().backward()
            else:
                window(torch.stack([leaf, leaf.flip(3)], dim=1).flatten(0, 1))
        heard.now = KEPT
        keep(images, ImageRng([derive_seed(number, "defense", name) for name in names]))
    guest.end_task(False)
    heard.now = SUITE
    check_component(defense, 7)
    guest.end_task(True)


def told_apart(first: list[Call], second: list[Call], left_out: frozenset[str]) -> tuple[int, int]:
    """Return how many calls the best stump of all other calls classifies correctly, and how many calls there are.

    Both kinds have the same number of calls; one call of each kind at a time is classified by a stump of the others.
    """
    draw = np.random.default_rng(0)
    few = min(len(first), len(second))
    names = sorted(first[0].keys() - left_out)
    tables = [np.array([[one[name] for name in names] for one in calls]) for calls in (first, second)]
    samples = [table[draw.permutation(len(table))[:few]] for table in tables]
    correct = 0
    for fold in range(few):
        training = [np.delete(sample, fold, axis=0) for sample in samples]
        best = (-1, 0, 0.0, 1)  # surplus of `first` on its side of the limit, column, limit, side (1: at most)
        for column in range(len(names)):
            for limit in np.unique(np.concatenate([k[:, column] for k in training])):
                below = [int((k[:, column] <= limit).sum()) for k in training]
                for sign in (1, -1):
                    best = max(best, (sign * (below[0] - below[1]), column, float(limit), sign))
        _, column, limit, sign = best
        guesses = [(sample[fold, column] <= limit) == (sign > 0) for sample in samples]
        correct += int(guesses[0]) + int(not guesses[1])
    return correct, 2 * few


@pytest.mark.parametrize("stem", ["moving", "random", "fixed"])
def test_no_call_tells_whether_its_result_is_kept(
    guest: Guest, defenses: dict[str, Component], stem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    monkeypatch.setattr("imharness_submissions.sandbox.jail.log_output", heard.add)
    recorded(guest, heard, defenses[f"good/records-{stem}"])
    for other, left_out in (
        (SEARCH, frozenset[str]()),
        (SUITE, frozenset({"rows", "height", "width", "bytes", "strides"})),
    ):
        assert not any(call["older than its process"] for call in heard.calls(other))
        correct, of = told_apart(heard.calls(other), heard.calls(KEPT), left_out)
        assert of >= CALLS
        assert correct <= binom.ppf(0.999, of, 0.5), f"{correct} of {of} calls of {other} are told from kept ones"
