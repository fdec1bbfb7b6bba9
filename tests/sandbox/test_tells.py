"""Nothing that a stranger's defense sees tells a search from a result that is kept, the suite and the audit included.

A defense that records is called by all four; a decision stump over all it saw, on calls that it was not fitted to, is
right no more often than a coin. Left out: what images show (it changes along a search), the size of an image and of a
batch in the suite (it has its own), and the number and time of calls (state, which is found by asking again).
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
    """What the recording defenses of a guest printed, by what called them."""

    def __init__(self) -> None:
        self.now, self.text = "", dict[str, str]()

    def said(self, text: str) -> None:
        self.text[self.now] = self.text.get(self.now, "") + text

    def calls(self, who: str) -> list[Call]:
        return [json.loads(line) for line in self.text[who].splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def guest(sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """Every call is a session of its own anyway."""
    folder = laid_out([Path(__file__).parent / "honest" / "records.py"], tmp_path_factory.mktemp("records"))
    found = Guest(GuestSpec("strangers", folder, masked=tuple(data_packages()), limits=Limits(printed_kib=4096)))
    yield found
    found.kill()


@pytest.fixture(scope="module")
def defenses(guest: Guest) -> dict[str, Component]:
    return {entry.component.info.id: entry.component for entry in offer_of(guest).entries(guest)}


def recorded(guest: Guest, heard: Heard, defense: Any) -> None:
    """Search, keep and test as cells, audits and the suite do."""
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
    """Return how many calls the best stump of the other calls tells, and how many there are, as many of each sort."""
    draw = np.random.default_rng(0)
    few = min(len(first), len(second))
    names = sorted(first[0].keys() - left_out)
    tables = [np.array([[one[name] for name in names] for one in calls]) for calls in (first, second)]
    parts = [table[draw.permutation(len(table))[:few]] for table in tables]
    told = 0
    for fold in range(few):
        known = [np.delete(part, fold, axis=0) for part in parts]
        best = (-1, 0, 0.0, 1)
        for place in range(len(names)):
            for limit in np.unique(np.concatenate([k[:, place] for k in known])):
                below = [int((k[:, place] <= limit).sum()) for k in known]
                for sign in (1, -1):
                    best = max(best, (sign * (below[0] - below[1]), place, float(limit), sign))
        _, place, limit, sign = best
        said = [(part[fold, place] <= limit) == (sign > 0) for part in parts]
        told += int(said[0]) + int(not said[1])
    return told, 2 * few


@pytest.mark.parametrize("stem", ["moving", "random", "fixed"])
def test_no_call_tells_whether_its_result_is_kept(
    guest: Guest, defenses: dict[str, Component], stem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    monkeypatch.setattr("imharness_submissions.sandbox.jail.said", heard.said)
    recorded(guest, heard, defenses[f"good/records-{stem}"])
    for other, left_out in (
        (SEARCH, frozenset[str]()),
        (SUITE, frozenset({"rows", "height", "width", "bytes", "strides"})),
    ):
        assert not any(call["older than its process"] for call in heard.calls(other))
        told, of = told_apart(heard.calls(other), heard.calls(KEPT), left_out)
        assert of >= CALLS
        assert told <= binom.ppf(0.999, of, 0.5), f"{told} of {of} calls of {other} are told from kept ones"
