"""How often a leaderboard names an entry that really is better, and how often it says something false: a simulation.

A *study* is the simulated scores of some entries on some units. Entry 0 is no defense. The paired difference of two
entries has a standard deviation of 1 on a unit. The true mean of one entry is above all others by a gap; in some
studies two entries are ahead, or none. The verdicts on a study are those of `imharness.ranking.standing.Standing`, made
by the same functions as a leaderboard's; `tests/truth/test_power.py` takes fewer studies through whole contests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from benchmarks.timing import Line
from imharness.documents.pairwise import Advantage
from imharness.ranking.standing import Standing
from imharness.statistics.against_one import AgainstOne, against_one, best_alpha
from imharness.statistics.differences import Differences, differences

Floats = npt.NDArray[np.float64]
STUDIES, RESAMPLES = 200, 500
OFTEN, SELDOM = 400, 100
"""The number of studies of a kind with few entries in which only rare false statements count, and of a kind with so
many entries that a study takes long. All other kinds have `STUDIES`."""
SPREAD = 0.035
"""The standard error of a share of .5 in `STUDIES`: a measured share may miss its goal by so much."""
SPAM = 32
"""How many further entries that do nothing are in studies with spam."""
FALSE, FALSE_OF_TWO = 0.08, 0.12
"""The largest share of studies in which anything false is said, if at most one entry is ahead, and if two are.
A study makes three families of statements; each is wrong in at most 5 %, and no correction joins the families."""
MATCHED_GAP = 1.0
"""How far a control that was made for another entry is ahead of the best entry."""


@dataclass(frozen=True)
class Setting:
    """A kind of study, and its goals.

    Attributes:
        entries: the number of entries, no defense among them.
        units: the number of units on which each entry is scored.
        gap: how far the true mean of the best entries is above all others, in standard deviations.
        ahead: how many entries are ahead by `gap`: 0, 1 or 2.
        scores: the distribution of scores on a unit, a key of `DRAWS`.
        beside: a complication: "spam" (`SPAM` further entries that do nothing), "matched" (a control that was made for
            another entry than the best one, and is ahead of the best one), "deaf" (a second measure by which all
            entries are equal), or "" for none.
        named: goal: the least share of studies in which the better entry wins.
        better: goal: the least share in which the better entry is shown to be better than no defense.
        crowned: goal: the largest share in which an entry wins that is not ahead of all others.
    """

    entries: int
    units: int
    gap: float
    ahead: int = 1
    scores: str = "normal"
    beside: str = ""
    named: float = 0.0
    better: float = 0.0
    crowned: float = 0.06

    @property
    def false(self) -> float:
        """The largest share of studies of this kind in which anything false is said."""
        return FALSE_OF_TWO if self.ahead > 1 else FALSE

    @property
    def studies(self) -> int:
        """How many studies of this kind the table has."""
        if self.entries > 20 or self.beside == "spam":
            return SELDOM
        return OFTEN if self.ahead != 1 and self.entries <= 8 else STUDIES


GOALS = (
    Setting(8, 12, 1.0, named=0.55, better=0.75),
    Setting(20, 12, 2.0, named=0.95, better=0.95),
    Setting(20, 24, 1.0, named=0.95, better=0.95),
    Setting(40, 24, 1.0, named=0.9, better=0.92),
)
"""Kinds of studies with a least share in which the better entry is named."""
SETTINGS = (
    *(Setting(entries, units, gap) for entries in (8, 20, 40) for units in (12, 24, 36) for gap in (0.5, 1.0, 2.0)),
    *(Setting(8, units, 1.0, scores=scores) for scores in ("skewed", "discrete") for units in (12, 24, 36)),
    *(Setting(20, 24, 1.0, scores=scores) for scores in ("skewed", "discrete")),
    *(Setting(8, units, 1.0, beside=beside) for beside in ("spam", "matched", "deaf") for units in (12, 24, 36)),
    *(
        Setting(8, units, gap, ahead=ahead, scores=scores)
        for gap, ahead in ((1.0, 2), (0.0, 0))
        for scores in ("normal", "skewed", "discrete")
        for units in (12, 24)
    ),
    Setting(20, 24, 1.0, ahead=2),
    Setting(40, 24, 0.0, ahead=0),
)
"""The rows of the table in docs/concepts/statistics.md."""


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Normal numbers with a variance of 1/2, so that the difference of two has a standard deviation of 1."""
    return rng.standard_normal(shape) / np.sqrt(2)


def skewed(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Exponential numbers, with a skewness of 2."""
    return (rng.exponential(size=shape) - 1) / np.sqrt(2)


def discrete(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Halves, as shares of a few answers are: many ties, and differences of 0."""
    return np.rint(2 * normal(rng, shape)) / 2


DRAWS = {"normal": normal, "skewed": skewed, "discrete": discrete}
"""Name of a distribution -> function of a generator and a shape that draws from it, with mean 0."""


@dataclass(frozen=True)
class Shares:
    """Shares of studies of one kind in which something is said.

    Attributes:
        named: the entry that is ahead of all others wins.
        better: entry 1, which is ahead, is shown to be better than no defense.
        crowned: an entry wins that is not ahead of all others; this is false.
        against: an entry is falsely said to be better or worse than no defense.
        pairs: of any two entries the wrong one is said to be better.
        wrong: `crowned`, `against` or `pairs`.
        left_out: no entry wins, and entry 1, a best one, is not among those that may be best.
        disagree: the two measures are said to disagree.
    """

    named: float
    better: float
    crowned: float
    against: float
    pairs: float
    wrong: float
    left_out: float
    disagree: float


def shares(setting: Setting, studies: int = STUDIES) -> Shares:
    """Return what is said in so many studies of a kind."""
    outcomes = np.array([_outcomes(setting, seed) for seed in range(studies)])
    return Shares(*outcomes.mean(axis=0).tolist())


def _outcomes(setting: Setting, seed: int) -> tuple[bool, ...]:
    """Return whether each field of `Shares` holds in one study, in the order of the fields."""
    standing, level = study(setting, seed)
    against = standing.against
    assert against is not None
    named = setting.ahead == 1 and standing.winner == 1
    crowned = standing.winner is not None and not named
    falsely_better = against.better & (level <= level[0])
    falsely_worse = against.worse & (level >= level[0])
    false_against_none = bool((falsely_better | falsely_worse).any())
    false_of_two = bool((standing.pairs[0].better & (level[:, None] <= level)).any())
    outcomes = {
        "named": named,
        "better": setting.ahead > 0 and standing.better_than_none(1),
        "crowned": crowned,
        "against": false_against_none,
        "pairs": false_of_two,
        "wrong": crowned or false_against_none or false_of_two,
        "left_out": standing.winner is None and 1 not in standing.may_be_best,
        "disagree": standing.disagreement is not None,
    }
    return tuple(outcomes[field.name] for field in fields(Shares))


def study(setting: Setting, seed: int) -> tuple[Standing, Floats]:
    """Return the verdicts on a simulated study, and the true means of its entries ``(entries,)``; 0 is no defense."""
    rng, draw = np.random.default_rng(seed), DRAWS[setting.scores]
    count = setting.entries + {"spam": SPAM, "matched": 1}.get(setting.beside, 0)
    level = np.zeros(count)
    level[1 : 1 + setting.ahead] = setting.gap
    controls = [0]
    if setting.beside == "matched":
        controls, level[-1] = [0, count - 1], setting.gap + MATCHED_GAP
    scores = draw(rng, (count, setting.units)) + level[:, None]
    pairs = [differences(scores, resamples=RESAMPLES)]
    if setting.beside == "deaf":
        pairs.append(differences(draw(rng, scores.shape), resamples=RESAMPLES))
    candidates = [i for i in range(count) if i not in controls]
    standing = Standing(
        pairs,
        candidates,
        controls,
        undefended=0,
        against=_against(scores, pairs[0], candidates),
        over_each=lambda i: Advantage(scores[i] - scores, None, scores[i] - scores, np.zeros(count)),
        stands_against=lambda control, entry: control == 0 or entry == candidates[-1],
        best_alpha=0.0,
    )
    # Only where nobody wins it matters who may be best; the level of that statement takes long to compute.
    if standing.winner is not None:
        return standing, level
    return replace(standing, best_alpha=best_alpha(scores[candidates], resamples=RESAMPLES)), level


def _against(scores: Floats, pairs: Differences, candidates: list[int]) -> AgainstOne:
    """Return the comparison of each candidate with no defense, as a leaderboard has it.

    Pairs that the intervals of all pairs already separate count as shown.
    """
    gains, separated = np.full(scores.shape, np.nan), np.zeros((2, len(scores)), dtype=bool)
    gains[candidates] = scores[candidates] - scores[0]
    separated[:, candidates] = pairs.better[candidates, 0], pairs.better[0, candidates]
    return against_one(gains, pairs.value_range, resamples=RESAMPLES).joined(*separated)


def lines() -> Iterator[Line]:
    """Yield a line for each kind of study that has a goal, for two equally good entries, and for none that is ahead."""
    for setting in (*GOALS, Setting(8, 12, 1.0, ahead=2), Setting(8, 12, 0.0, ahead=0)):
        got = shares(setting)
        what = f"{setting.entries} entries, {setting.units} units, {setting.ahead} ahead by {setting.gap:g} sd"
        met = (
            got.named >= setting.named - SPREAD
            and got.better >= setting.better - SPREAD
            and got.crowned <= setting.crowned + SPREAD
            and got.wrong <= setting.false + SPREAD
        )
        yield Line(
            f"{what}: named, better than no defense, false crown, anything false",
            f"{got.named:.3f}, {got.better:.3f}, {got.crowned:.3f}, {got.wrong:.3f}",
            f"at least {setting.named:g} and {setting.better:g}, at most {setting.crowned:g} and {setting.false:g}",
            met,
        )
