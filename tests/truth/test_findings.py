"""Sentences of a leaderboard: recomputed from its numbers by other code, and true as often as stated."""

import json
import re
from functools import partial
from typing import get_args

import numpy as np
import pytest
import scipy
from tests.recomputed import of_report

from imharness.documents.findings import Kind
from imharness.leaderboard import jackknife, share_of
from imharness.ranking.gates import kept
from imharness.statistics.means import means

from .studies import STUDIES, most
from .test_policy import levels, ranked


def _beside(scores: dict[str, np.ndarray], plain: np.ndarray, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of an entry and those without a defense, as a gate compares them."""
    return scores[label], plain


def test_the_sentences_of_a_leaderboard_follow_from_its_numbers() -> None:
    """The test computes each image's worst score, means by photograph, and t intervals from the scores alone."""
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 1, 1, 18)}
    utility = {"none": 0.9, "good": 0.88, "late": 0.5}
    result = ranked(scores, utility=utility)
    data = json.loads(result.rankings[0].model_dump_json())
    photographs = {
        entry: np.stack([np.max(values, axis=0)[k::10].mean() for k in range(10)]) for entry, values in scores.items()
    }
    findings = {(finding["kind"], finding["entry"]): finding for finding in data["findings"]}
    quantile = scipy.stats.t.isf(data["against_alphas"][0], 9)
    gap = photographs["none"] - photographs["good"]
    numbers = findings["better", "good"]["against"]["none"]
    assert (numbers["value"], numbers["low"], numbers["units"]) == pytest.approx(
        (gap.mean(), gap.mean() - quantile * gap.std(ddof=1) / np.sqrt(10), 10), rel=1e-5
    )
    good, none = photographs["good"].mean(), photographs["none"].mean()
    assert findings["better", "good"]["text"].startswith(
        f"good is better than none: D {good:.2f}, {none:.2f} without; gain +{gap.mean():.2f} ["
    )
    assert findings["better", "good"]["text"].endswith(", 10 photographs, Wilcoxon p 0.002 (Holm).")
    before, after = scores["late"][1].mean(), scores["late"][2].mean()
    text = findings["moves", "late"]["text"]
    assert text.startswith(f"With late, D rises from {before:.2f} to {after:.2f} once attackers know it")
    assert re.search(rf"by {after - before:.2f} \[", text)
    assert findings["broken", "late"]["text"].startswith("pgd breaks late: against attackers who do not know it, ")
    costs = findings["costs", "late"]
    assert costs["facts"]["above"]["value"] == pytest.approx(0.5 - 0.95 * 0.9, abs=1e-9)
    assert "late costs too much: SROCC clean is 0.355 [" in costs["text"]
    assert ("moves", "good") not in findings
    assert ("broken", "good") not in findings


def test_of_equal_entries_a_sentence_says_something_in_5_percent_of_studies_for_each_family() -> None:
    """No entry differs from another, from no defense, or with knowledge of it."""
    wrong = dict.fromkeys(("better", "worse", "moves", "broken"), 0)
    for seed in range(STUDIES):
        noise = np.random.default_rng(seed).normal(20, 1, (4, 3, 12))
        scores = dict(zip(("none", "good", "late", "costly"), noise, strict=True))
        kinds = {finding.kind for finding in ranked(scores, 12).rankings[0].findings}
        for kind in wrong:
            wrong[kind] += kind in kinds
    assert {kind: n for kind, n in wrong.items() if n > most()} == {}


def test_of_equal_candidates_one_is_crowned_in_5_percent_of_studies_and_each_may_be_best() -> None:
    """Three that are equally good, and far better than no defense."""
    crowned, lacking, studies = 0, 0, STUDIES // 2
    for seed in range(studies):
        noise = np.random.default_rng(seed).normal(0, 1, (4, 3, 12))
        scores = dict(
            zip(("none", "good", "late", "third"), noise + np.array([20, 5, 5, 5])[:, None, None], strict=True)
        )
        ranking = ranked(scores, 12, utility={**dict.fromkeys(scores, 0.9)}).rankings[0]
        crowned += bool(ranking.winner)
        lacking += set(ranking.may_be_best) != {"good", "late", "third"}
    assert crowned <= most(studies)
    assert lacking <= most(studies, 0.1)


@pytest.mark.parametrize(("loss", "right"), [(0.05, {"undecided"}), (0.0, {"passes", "undecided"}), (0.2, {"fails"})])
@pytest.mark.parametrize("accuracy", [0.9, 0.98])
def test_the_gate_answers_wrongly_in_5_percent_of_studies(loss: float, right: set[str], accuracy: float) -> None:
    """Three entries at the margin, above it, or far below; accuracy on 300 images, paired with no defense.

    At the margin losses are rare, so that differences are skewed, and t intervals would be wrong in 12 % of studies:
    twice as many studies as elsewhere show that with a power of 0.9.
    """
    wrong, doubted, studies = 0, 0, 2 * STUDIES if loss == 0.05 else STUDIES
    for seed in range(studies):
        rng = np.random.default_rng(seed)
        plain = (rng.random(300) < accuracy).astype(float)
        correct = {f"x{i}": plain * (rng.random(300) >= loss) for i in range(3)}
        components = partial(_beside, correct, plain)
        gate = share_of("accuracy", "none", 0.05, components, answers=True)
        states = [kept_.state for (kept_,) in kept([gate], [*correct], "none").values()]
        wrong += any(state not in right | {"doubtful"} for state in states)
        doubted += sum(state == "doubtful" for state in states)
    assert wrong <= most(studies)
    assert loss > 0.05 or doubted / 3 <= most(studies), "who may win is asked of each entry alone"


def test_jackknifed_correlations_cover_as_often_as_stated() -> None:
    """The difference of two rank correlations with labels over 36 photographs, equal in truth."""
    missed, studies = 0, 2 * STUDIES
    for seed in range(studies):
        rng = np.random.default_rng(seed)
        labels = rng.normal(size=36)
        scores = labels + 0.7 * rng.normal(size=(2, 36))

        def rho(indices: np.ndarray, scores: np.ndarray = scores, labels: np.ndarray = labels) -> np.ndarray:
            ranks = scipy.stats.rankdata(np.vstack([scores[:, indices], labels[indices]]), axis=1)
            return np.corrcoef(ranks)[:2, 2]

        first, second = jackknife(rho, np.arange(36))
        intervals = means([first - second], 1)
        missed += bool(intervals.above[0] or intervals.below[0])
    assert missed <= most(studies)


@pytest.mark.parametrize(("photographs", "state"), [(13, "undecided"), (14, "passes")])
def test_fewer_than_14_photographs_show_nothing_of_a_correlation(photographs: int, state: str) -> None:
    plain = 0.8 + 0.01 * np.random.default_rng(0).normal(size=photographs)
    gate = share_of("SROCC", "none", 0.05, partial(_beside, {"same": plain}, plain), jackknifed=True)
    assert kept([gate], ["same"], "none")["same"][0].state == state


def test_every_kind_of_sentence_follows_from_the_numbers_that_a_reader_downloads() -> None:
    """Four leaderboards have every kind together: plain, with ties, with incomplete entries, with four photographs."""
    none = levels(0, 20, 20, 20)
    scores = {"none": none, "good": levels(1, 5, 5, 5), "late": levels(2, 1, 1, 18), "costly": levels(3, 25, 25, 25)}
    utility = {**dict.fromkeys((*scores, "equal", "same", "short", "flagged"), 0.9), "late": 0.5, "costly": 0.88}
    kinds = of_report(ranked(scores, utility=utility))
    equal = {**scores, "equal": levels(9, 5, 5, 5), "same": none.copy()}
    kinds |= of_report(ranked(equal, utility={**utility, "good": 0.855}))
    short = levels(5, 3, 3, 3)
    short[2, ::2] = np.nan
    flags = {"flagged": ("a black box did better",)}
    some = {**equal, "short": short, "flagged": levels(6, 1, 1, 1)}
    kinds |= of_report(ranked(some, utility=utility, flags=flags))
    kinds |= of_report(ranked({**scores, "equal": levels(9, 5, 5, 5)}, clusters=4, utility=utility))
    assert kinds == set(get_args(Kind))
