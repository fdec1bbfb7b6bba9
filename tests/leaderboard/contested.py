"""A leaderboard whose entries are ranked by the policy of all tracks, from scores whose truth is known.

`jpeg` holds against every attack. `flip` is the best against attacks that do not know it, and the worst against those
that do. `median` is as good as `jpeg` and costs too much. `noise` looks best and is flagged, `purifier` lacks a
setting, and `none` is the undefended control. All numbers are D in % of the range; each data set has 12 images, made
of the same 12 photographs.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from imharness.documents.entries import Entry, Parameter
from imharness.documents.gallery import Example, Panel
from imharness.documents.leaderboards import Leaderboard
from imharness.leaderboard import Blocks, Column, Contest, Value, Wins, Words, contest, share_of
from imharness.ranking.tables import win_table
from imharness.results.store import Store
from imharness.tracks import TrackReport
from imharness_leaderboard import pages

NONE, JPEG, FLIP = "harness/none", "harness/jpeg[quality=50,subsampling=4:2:0]", "harness/flip[axis=horizontal]"
MEDIAN, NOISE, PURIFIER = "acme/median[size=5]", "acme/noise[sigma=0.1]", "acme/a-purifier-with-a-long-name[steps=50]"
LEVELS = {NONE: (19, 19), JPEG: (6, 9), FLIP: (2, 18), MEDIAN: (6, 9), NOISE: (1, 1), PURIFIER: (7, 10)}
"""Entry -> its mean D against attacks that do not know it, and against those that do."""
UTILITY = {NONE: 0.91, JPEG: 0.89, FLIP: 0.88, MEDIAN: 0.62, NOISE: 0.87, PURIFIER: 0.9}
"""Entry -> its utility, Spearman's rho with the labels on clean images."""
ATTACKS, ATTACKERS = ("harness/ifgsm[steps=10]", "harness/square"), ("fixed", "adaptive")
STRENGTHS = ("harness/ifgsm[steps=20]", "harness/square")
"""The attacks as components; the first has another strength than `ATTACKS`, by which the tables name it."""
METRICS, DATASETS = ("harness/embedded", "harness/sharpness"), ("koniq", "tid")
CAPTION = "Under the attack that moves it most."
PROXIES = ("labels by a formula",)
WORDS = Words(
    "holds best", lambda d: f"{d:.2f} %", "of the range", "takes more than {bound} off the {plain} {of} {without}"
)


def blocks(seed: int = 5) -> Blocks:
    """Return D by attack, attacker, metric and data set, as float32."""
    rng, entries = np.random.default_rng(seed), tuple(sorted(LEVELS))
    settings = list(itertools.product(ATTACKS, ATTACKERS, METRICS, DATASETS))
    of_photograph = rng.normal(0, 0.8, 12)
    values = []
    for attack, attacker, metric, dataset in settings:
        levels = np.array([LEVELS[label][ATTACKERS.index(attacker)] for label in entries])[:, None]
        stronger = 0.5 * (attack == ATTACKS[0]) + 0.7 * (metric == METRICS[1])
        block = np.abs(levels + stronger + of_photograph + rng.normal(0, 0.7, (len(entries), 12)))
        if (attack, attacker, dataset) == (ATTACKS[1], "adaptive", "tid"):
            block[entries.index(PURIFIER)] = np.nan
        values.append(block.astype(np.float32))
    return Blocks(
        entries,
        tuple(dict(zip(("attack", "attacker", "metric", "dataset"), setting, strict=True)) for setting in settings),
        tuple(np.array([f"{setting[3]}-{i:02d}" for i in range(12)], dtype=object) for setting in settings),
        {"d": tuple(values)},
        {"photograph": (np.array([f"photograph {i:02d}" for i in range(12)], dtype=object),) * len(settings)},
    )


def near(mean: float) -> np.ndarray:
    """Return what each of 12 photographs adds to a mean: almost the mean itself."""
    return mean + 0.005 * np.where(np.arange(12) % 2, 1, -1)


def rules(scores: Blocks, **changes: object) -> Contest:
    """Return the contest of these scores."""
    wins = Wins("contest-d", "Who beats whom by D", "lower D", measure="D, % of the range")
    facts: dict[str, object] = {
        "protection": Column(
            "d",
            "D, % of the range",
            "Change of the score, % of the metric's range.",
            "lower",
            2,
            wins=wins,
            cluster="photograph",
            unit="image",
        ),
        "utility": Column(
            "srocc",
            "SROCC clean",
            "Spearman's rho with the labels where nobody attacks.",
            "higher",
            value=lambda label: Value(
                value=UTILITY[label], low=UTILITY[label] - 0.03, high=UTILITY[label] + 0.02, n=24
            ),
        ),
        "undefended": NONE,
        "gates": [share_of("SROCC clean", NONE, 0.05, lambda label: (near(UTILITY[label]), near(UTILITY[NONE])))],
        "words": WORDS,
        "controls": {NONE: "undefended"},
        "flags": {NOISE: ("more steps lowered the attack's success",)},
        "proxies": PROXIES,
    }
    return Contest(scores=scores, **(facts | changes))


def report(scores: Blocks | None = None, **changes: object) -> TrackReport:
    """Return the ranking with its table and comparison."""
    return _ranked(rules(scores or blocks(), **changes)) if scores or changes else _usual()


@cache
def _usual() -> TrackReport:
    return _ranked(rules(blocks()))


def _ranked(of: Contest) -> TrackReport:
    return contest(
        of,
        id="contest",
        title="Defenses by the worst attack",
        caption="Of each image the worst attack counts.",
        entry="defense",
    )


def crowd(copies: int) -> Blocks:
    """Return the scores with many further entries, each a little worse than the one before."""
    scores = blocks()
    jpeg = scores.entries.index(JPEG)
    labels = tuple(f"acme/copy-{i:03d}" for i in range(copies))
    order = np.argsort([*scores.entries, *labels])
    noise = np.random.default_rng(0).normal(0, 0.5, (copies, 12))
    grown = tuple(
        np.concatenate([block, block[jpeg] + 0.02 * (np.arange(copies)[:, None] + 1) + noise])[order].astype(np.float32)
        for block in scores.values["d"]
    )
    return replace(scores, entries=tuple(sorted((*scores.entries, *labels))), values={"d": grown})


@contextmanager
def without_pictures() -> Iterator[None]:
    """Leave out the pictures of a site, which take most of the time of its build, where nobody looks at them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages._Build, "_pictures", lambda build, leaderboard: [])
        yield


def crowd_report(scores: Blocks) -> TrackReport:
    """Return the ranking of scores of `crowd`; a copy is as useful as the entry that it copies."""
    utility = {label: UTILITY.get(label, UTILITY[JPEG]) for label in scores.entries}
    column = replace(rules(blocks()).utility, value=lambda label: Value(value=utility[label], low=0.5, high=0.99, n=24))
    gate = share_of("SROCC clean", NONE, 0.05, lambda label: (near(utility[label]), near(UTILITY[NONE])))
    return report(scores, utility=column, gates=[gate])


def contested(
    sample_leaderboard: Callable[..., Leaderboard], store: Store, task: str
) -> tuple[Leaderboard, Mapping[str, np.ndarray]]:
    """Return a leaderboard of the contest, and the scores behind it; `task` has the two images of the gallery."""
    original = report()
    stored = [comparison.stored() for comparison in original.comparisons]
    study = (
        sample_leaderboard().tables[0].model_copy(update={"id": "study", "title": "Mean over attacks, as in the paper"})
    )
    entries = tuple(
        Entry(
            kind="defense",
            id=label.partition("[")[0],
            label=label,
            version="3",
            summary="A defense of the tests.",
            package="acme",
            package_version="1.4",
            author="A. Author",
            licence="MIT",
            parameters=tuple(
                Parameter(name=name, value=value, default="1", bounds="", description="A parameter.")
                for name, _, value in (piece.partition("=") for piece in label.partition("[")[2].rstrip("]").split(","))
                if name
            ),
        )
        for label in LEVELS
    )
    entries += tuple(Entry(kind="attack", id=label.partition("[")[0], label=label, version="1") for label in STRENGTHS)
    wins = [win_table(comparison) for comparison in original.comparisons]
    panels = tuple(
        Panel(label=name, task=task, array="images", position=i % 2, score=f"{40 + 7 * i}")
        for i, name in enumerate(("original", "attacked", "defended"))
    )
    examples = tuple(
        Example(entry=label, title=f"photograph {i:02d}", facets={"attack": ATTACKS[0]}, panels=panels, caption=CAPTION)
        for label in LEVELS
        for i in range(2)
    )
    leaderboard = sample_leaderboard(
        track="harness/contest",
        title="Contest track",
        measures="Defenses against attacks on metrics.",
        command="harness run --track harness/contest --profile p",
        tables=(*original.tables, study, *wins),
        comparisons=tuple(comparison for comparison, _ in stored),
        rankings=tuple(original.rankings),
        entries=entries,
        examples=examples,
        charts=(),
        missing=(),
        failed={},
        versions={"numpy": "2.0"},
    )
    return leaderboard, {comparison.id: numbers for comparison, numbers in stored}
