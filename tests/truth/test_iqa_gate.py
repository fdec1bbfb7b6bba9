"""Which entries pass the gate on the order of clean images.

Each photograph has images of one severity or of all four severities of its distortion.
"""

from dataclasses import replace

import numpy as np
import pytest

from imharness.leaderboard import Blocks, Gate, share_of
from imharness.ranking.gates import kept
from imharness_iqa.tables.part import Part
from imharness_iqa.tables.suspected import may_know_labels

from .studies import most

PHOTOGRAPHS, SEVERITIES, STUDIES = 36, (0, 1, 3, 5), 40


def clean_scores(seed: int, severities: int, damage: float) -> Part:
    """Return scores without a defense ("none"), of an entry that changes them little ("like"), and of "damaged".

    `severities`: how many each photograph has. With one of them, severities change from photograph to photograph, as
    in `harness/pictures`.
    """
    rng = np.random.default_rng(seed)
    places = [(p, (p + turn) % 4) for p in range(PHOTOGRAPHS) for turn in range(severities)]
    severity = np.array([SEVERITIES[s] for _, s in places], dtype=float)
    content = rng.normal(0, 0.7, PHOTOGRAPHS)[[p for p, _ in places]]
    none = content - severity + rng.normal(0, 0.5, len(places))
    like = none + rng.normal(0, 0.3, len(places))
    damaged = none + rng.normal(0, damage, len(places))
    names = np.array([f"p{p:02d}-{s}" for p, s in places], dtype=object)
    order = np.argsort(names.astype(str))
    blocks = Blocks(
        ("damaged", "like", "none"),
        ({"dataset": "d", "metric": "m"},),
        (names[order],),
        {"score": (np.stack([damaged, like, none])[:, order],)},
        {"mos": (-severity[order],), "sign": (np.ones(len(places)),)},
    )
    return Part.whole(blocks, {name: (name[:3], "d") for name in names})


def states(severities: int, damage: float = 3.0) -> dict[str, list[str]]:
    """Return the answers of the gate in each study, by entry, each as if it were the only entry."""
    answers: dict[str, list[str]] = {"like": [], "damaged": []}
    for seed in range(STUDIES):
        gate = gate_on(clean_scores(seed, severities, damage))
        for entry, outcomes in answers.items():
            outcomes.append(kept([gate], [entry, "none"], "none")[entry][0].state)
    return answers


def gate_on(scores: Part) -> Gate:
    return share_of("SROCC", "none", 0.05, lambda label: scores.correlations_beside(label, "none"), jackknifed=True)


def test_every_severity_of_each_photograph_lets_the_gate_hear_what_one_of_them_does_not() -> None:
    one, all_of_them = states(1), states(4)
    passes = [answers["like"].count("passes") for answers in (one, all_of_them)]
    fails = [answers["damaged"].count("fails") for answers in (one, all_of_them)]
    assert passes[1] >= 0.6 * STUDIES > passes[0]
    assert fails[1] >= 0.95 * STUDIES >= fails[0]
    assert all_of_them["like"].count("fails") == 0
    assert all_of_them["damaged"].count("passes") == 0


@pytest.mark.parametrize("severities", [1, 4])
def test_an_entry_at_the_threshold_passes_or_fails_in_5_percent_of_studies(severities: int) -> None:
    """Bisection on other studies finds the damage that takes 5 % of the correlation on average."""
    low, high = 0.0, 3.0
    for _ in range(6):
        middle = (low + high) / 2
        lost = np.mean([_lost(1000 + seed, severities, middle) for seed in range(40)])
        low, high = (middle, high) if lost < 0.05 else (low, middle)
    outcomes = states(severities, low)["damaged"]
    assert outcomes.count("passes") + outcomes.count("fails") <= most(STUDIES)


def test_an_order_that_hangs_on_one_photograph_is_not_measured_and_has_no_short_interval() -> None:
    """Scores of "like" are 0 but on one photograph: without it they have no correlation with the labels."""
    scores = clean_scores(0, 4, 1.0)
    block = scores.blocks.values["score"][0].copy()
    block[1, 4:] = 0.0
    flat = replace(scores, blocks=replace(scores.blocks, values={"score": (block,)}))
    answers = kept([gate_on(flat)], ["damaged", "like", "none"], "none")
    assert (answers["like"][0].state, answers["like"][0].value) == ("not measured", None)
    assert answers["damaged"][0].state != "not measured"
    srocc = flat.of("like").correlation(resampled=True)
    assert (srocc.low, srocc.high) == (-1, 1)


def _lost(seed: int, severities: int, damage: float) -> float:
    """Return the share of the correlation with labels that "damaged" loses in a study."""
    scores = clean_scores(seed, severities, damage)
    damaged, none = (scores.of(label).correlation().value for label in ("damaged", "none"))
    return 1 - damaged / none


def test_who_writes_the_labels_is_suspected_and_who_is_as_good_as_the_metric_or_a_little_better_is_not() -> None:
    suspects = {"as good": 0, "a little better": 0, "knows": 0}
    for seed in range(STUDIES):
        study = scored_alike(seed)
        lines = dict(may_know_labels(suspects, lambda label, study=study: study.correlations_beside(label, "none")))
        for label in lines:
            suspects[label] += 1
        assert all("it may know the labels" in line for line in lines.values())
    assert suspects["as good"] == suspects["a little better"] == 0
    assert suspects["knows"] >= 0.9 * STUDIES


def scored_alike(seed: int) -> Part:
    """Return scores without a defense, and of three: equally noisy, or with a little or much of the label added.

    Their correlations with the labels are .73, .72, .76 and .90 on average.
    """
    rng = np.random.default_rng(seed)
    severity = np.tile(np.array(SEVERITIES, dtype=float), PHOTOGRAPHS)
    true = rng.normal(0, 1.6, PHOTOGRAPHS).repeat(len(SEVERITIES)) - severity
    none, equal = true + rng.normal(0, 1.0, (2, len(severity)))
    names = np.array([f"p{p:02d}-{s}" for p in range(PHOTOGRAPHS) for s in SEVERITIES], dtype=object)
    blocks = Blocks(
        ("a little better", "as good", "knows", "none"),
        ({"dataset": "d", "metric": "m"},),
        (names,),
        {"score": (np.stack([none - 0.1 * severity, equal, none - severity, none]),)},
        {"mos": (-severity,), "sign": (np.ones(len(severity)),)},
    )
    return Part.whole(blocks, {name: (name[:3], "d") for name in names})
