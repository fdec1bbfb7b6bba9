"""How often a leaderboard says each of its sentences, in studies where it is true and where it is false.

Every study goes from scores of images to the findings of a leaderboard. A false sentence is said in at most 5 % of
studies. A true one is said in at least 80 %, of effects that are large enough for twelve images.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

from imharness.documents.rankings import Ranking
from imharness.documents.tables import Value

from .studies import STUDIES, most
from .test_policy import ranked

IMAGES, POWER = 12, 0.8
Levels = Mapping[str, tuple[float, float, float]]
"""Entry -> its mean D under two attacks that do not know it, and under the second one if it knows the entry."""
Says = Callable[[Ranking, Mapping[str, Mapping[str, Value]]], bool]
"""Whether a ranking, or its table (entry -> column -> value), says a sentence."""


def studies(
    levels: Levels, seeds: int = STUDIES, images: int = IMAGES, **facts: object
) -> Iterator[tuple[Ranking, Mapping]]:
    """Yield rankings, and the numbers of their tables, of studies with normal noise that entries partly share."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        shared, deviations = rng.normal(0, 1, images), rng.normal(0, 1, (len(levels), 3, images))
        scores = {e: np.array(mean)[:, None] + shared + deviations[i] for i, (e, mean) in enumerate(levels.items())}
        accuracy = {e: 0.5 if e == "costly" else 0.9 for e in levels}
        result = ranked(scores, images, utility=accuracy, **facts)
        yield result.rankings[0], {row.label: row.values for row in result.tables[0].rows}


def said(kind: str, entry: str = "", other: str = "") -> Says:
    return lambda ranking, rows: any(
        finding.kind == kind and entry in ("", finding.entry) and (not other or other in finding.against)
        for finding in ranking.findings
    )


def won(entry: str) -> Says:
    return lambda ranking, rows: ranking.winner == entry


def lacks(*entries: str) -> Says:
    """Say whether one of the entries is not listed as possibly the best."""
    return lambda ranking, rows: not set(entries) <= set(ranking.may_be_best)


def place_misses(entry: str, *places: int) -> Says:
    """Say whether the interval of a rank lacks one of the ranks that the entry may have in truth."""
    return lambda ranking, rows: not all(rows[entry]["rank"].low <= p <= rows[entry]["rank"].high for p in places)


def behind_misses(entry: str, truth: float) -> Says:
    """Say whether the interval of the distance to the best entry lacks its true value."""

    def misses(ranking: Ranking, rows: Mapping[str, Mapping[str, Value]]) -> bool:
        value = rows[entry]["behind"]
        return value.low is not None and not value.low <= truth <= value.high

    return misses


# name, levels, sentences that are true, sentences that are false
CASES: list[tuple[str, Levels, dict[str, Says], dict[str, Says]]] = [
    (
        "one is best, one is broken, one costs too much",
        {"none": (20, 20, 20), "good": (15, 15, 15), "late": (9, 9, 19), "costly": (5, 5, 5)},
        {
            "better": said("better", "good", "none"),
            "moves": said("moves", "late"),
            "broken": said("broken", "late"),
            "costs": said("costs", "costly"),
            "lone winner": won("good"),
        },
        {
            "worse": said("worse"),
            "moves of one that does not": said("moves", "good"),
            "broken of one that holds": said("broken", "good"),
            "costs of one that keeps its utility": said("costs", "good"),
            "undecided": said("undecided", "good"),
            "another winner": won("late"),
            "rank": place_misses("good", 1),
        },
    ),
    (
        "two are equally good, and equal to nothing else",
        {"none": (20, 20, 20), "good": (12, 12, 12), "late": (12, 12, 12)},
        {"may be best": said("may be best"), "better": said("better", "late", "none")},
        {
            "one of equals wins, or is left out": lacks("good", "late"),
            "one of equals wins": lambda ranking, rows: bool(ranking.winner),
            "rank": place_misses("good", 1, 2),
        },
    ),
    (
        "one is worse than no defense, one is equal to it, and an attack leaves exactly half of one",
        {"none": (20, 20, 20), "good": (23, 23, 23), "late": (20, 20, 20), "half": (10, 10, 15)},
        {
            "worse": said("worse", "good", "none"),
            "undecided": said("undecided", "late", "none"),
            "lone winner": won("half"),
        },
        {
            "better": said("better", "late", "none"),
            "better of one that is worse": said("better", "good"),
            "worse of one that is equal": said("worse", "late"),
            "undecided of one that is better": said("undecided", "half"),
            "moves of one that does not": said("moves", "late"),
            "may be best": said("may be best"),
            "rank": place_misses("late", 2),
        },
    ),
]


@pytest.mark.parametrize(("levels", "true", "false"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_sentences_are_said_where_they_are_true_and_seldom_where_they_are_not(
    levels: Levels, true: dict[str, Says], false: dict[str, Says]
) -> None:
    count = dict.fromkeys([*true, *false], 0)
    for ranking, rows in studies(levels):
        for name, says in {**true, **false}.items():
            count[name] += says(ranking, rows)
    assert {name: n for name, n in count.items() if name in true and n < POWER * STUDIES} == {}
    assert {name: n for name, n in count.items() if name in false and n > most()} == {}


def test_with_as_many_units_as_a_place_says_four_of_five_studies_tell() -> None:
    """Studies with estimates near the truth state how many units are needed; studies of that size then show it."""
    levels = {"none": (20.0, 20.0, 20.0), "good": (19.4, 19.4, 19.4)}
    pilots = [
        (abs(finding.against["none"].value - 0.6), finding.against["none"].needed)
        for ranking, _ in studies(levels, 2 * STUDIES)
        for finding in ranking.findings
        if finding.kind == "undecided" and finding.against["none"].needed is not None
    ]
    nearest = [needed for _, needed in sorted(pilots)[:15]]
    many = int(np.median(nearest))
    detected = [said("better", "good", "none")(ranking, rows) for ranking, rows in studies(levels, 100, many)]
    assert many > IMAGES
    # about two standard errors of a hundred studies around 0.7 to 0.9
    assert 0.7 - 0.1 <= np.mean(detected) <= 0.9 + 0.075


# name -> levels, controls, a text of the true headline, texts of false headlines
HEADLINES: dict[str, tuple[Levels, tuple[str, ...], str, tuple[str, ...]]] = {
    "one is best": (
        {"none": (20, 20, 20), "good": (12, 12, 12), "late": (16, 16, 16)},
        ("none",),
        "good holds best: ",
        ("leads", "No defense", "late holds"),
    ),
    "two are equal": (
        {"none": (20, 20, 20), "good": (12, 12, 12), "late": (12, 12, 12)},
        ("none",),
        " leads with ",
        ("holds best", "No defense"),
    ),
    "one is equal to no defense": (
        {"none": (20, 20, 20), "late": (20, 20, 20)},
        ("none",),
        "No defense that may win takes more than ",
        ("holds best", "leads"),
    ),
    "a control is better than all": (
        {"none": (20, 20, 20), "half": (5, 5, 5), "good": (12, 12, 12)},
        ("none", "half"),
        "half (control) beats every defense that may win: ",
        ("holds best", "leads", "No defense"),
    ),
    "all cost too much": (
        {"none": (20, 20, 20), "costly": (5, 5, 5)},
        ("none",),
        "No defense may win: 1 costs too much.",
        ("holds best", "leads"),
    ),
}


@pytest.mark.parametrize("name", HEADLINES)
def test_headlines_are_stated_where_they_are_true_and_seldom_where_they_are_not(name: str) -> None:
    levels, controls, true, false = HEADLINES[name]
    facts = {"controls": dict.fromkeys(controls, "control")}
    claims = [ranking.claim for ranking, _ in studies(levels, **facts)]
    assert sum(true in claim for claim in claims) >= POWER * STUDIES
    assert {text: n for text in false if (n := sum(text in claim for claim in claims)) > most()} == {}
