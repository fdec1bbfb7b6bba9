"""How often a leaderboard names an entry that really is better, and how often it says what is not so.

Each study has scores of `entries` entries on n units, no defense among them; the paired difference of two entries has
a standard deviation of 1 on a unit. One entry is ahead of all others by a gap; in some studies two are, or none. The
verdicts are those of `imharness.ranking.standing.Standing`, put together from the same functions as a leaderboard's;
`tests/truth/test_power.py` takes fewer studies through whole contests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks.timing import Line
from imharness.ranking.standing import Standing
from imharness.results.pairwise import Advantage
from imharness.statistics.against_one import AgainstOne, against_one, best_alpha
from imharness.statistics.differences import Differences, differences

Floats = npt.NDArray[np.float64]
STUDIES, RESAMPLES = 200, 500
OFTEN, SELDOM = 400, 100
"""Studies where false sentences are rare events and entries are few, and where entries are many and take long."""
SPREAD = 0.035
"""A standard error of a share of .5 in `STUDIES`: what a measured share may fall short by."""
SPAM = 32
"""How many more entries, which do nothing, studies with spam have."""
FALSE, FALSE_OF_TWO = 0.08, 0.12
"""In how many studies at most anything false is said: where at most one entry is ahead, and where two are equally good.
Each of three families is wrong in at most 5 %, and no correction joins them."""
MATCHED_GAP = 1.0
"""By how much a control that was made for another entry is ahead of the best one."""


@dataclass(frozen=True)
class Setting:
    """A kind of study. `named` and `better`: the least shares of studies in which the better entry wins, and is shown
    to be better than no defense; `crowned`: the largest share in which an entry is crowned that is no better than
    another one. `ahead`: how many entries are ahead by `gap`.
    `scores`: the distribution of what entries have on a unit, a key of `DRAWS`. `beside`: what else there is, "spam",
    "matched" (a control that was made for another entry than the best one, and is ahead of it) or "deaf" (a second
    measure by which all entries are alike)."""

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
    *(Setting(m, n, gap) for m in (8, 20, 40) for n in (12, 24, 36) for gap in (0.5, 1.0, 2.0)),
    *(Setting(8, n, 1.0, scores=scores) for scores in ("skewed", "discrete") for n in (12, 24, 36)),
    *(Setting(20, 24, 1.0, scores=scores) for scores in ("skewed", "discrete")),
    *(Setting(8, n, 1.0, beside=beside) for beside in ("spam", "matched", "deaf") for n in (12, 24, 36)),
    *(Setting(8, n, 1.0, 2, scores) for scores in ("normal", "skewed", "discrete") for n in (12, 24)),
    *(Setting(8, n, 0.0, 0, scores) for scores in ("normal", "skewed", "discrete") for n in (12, 24)),
    Setting(20, 24, 1.0, 2),
    Setting(40, 24, 0.0, 0),
)
"""The rows of the table in docs/concepts/statistics.md."""


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.standard_normal(shape) / np.sqrt(2)


def skewed(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Exponential numbers, with a skewness of 2."""
    return (rng.exponential(size=shape) - 1) / np.sqrt(2)


def discrete(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Halves, as shares of a few answers are: many ties, and differences of 0."""
    return np.rint(2 * normal(rng, shape)) / 2


DRAWS = {"normal": normal, "skewed": skewed, "discrete": discrete}


@dataclass(frozen=True)
class Shares:
    """Shares of studies: an entry that is ahead of all wins; it is shown to be better than no defense; an entry wins
    that is not ahead of all; an entry is falsely said to be better or worse than no defense; of any two the wrong one
    is said to be better; any of these three; the best one, or the first of two, is not among those that may be best,
    where none wins; measures are said to disagree."""

    named: float
    better: float
    crowned: float
    against: float
    pairs: float
    wrong: float
    left_out: float
    disagree: float


def shares(setting: Setting, studies: int = STUDIES) -> Shares:
    """Return what so many studies of a kind say."""
    outcomes = np.array([_outcomes(setting, seed) for seed in range(studies)])
    return Shares(*outcomes.mean(axis=0).tolist())


def _outcomes(setting: Setting, seed: int) -> tuple[bool, ...]:
    """Return what is said in one study, in the order of the fields of `Shares`."""
    standing, level = study(setting, seed)
    against = standing.against
    assert against is not None
    named = setting.ahead == 1 and standing.winner == 1
    crowned = standing.winner is not None and not named
    better = setting.ahead > 0 and standing.better_than_none(1)
    against_none = bool(((against.better & (level <= level[0])) | (against.worse & (level >= level[0]))).any())
    pairs = bool((standing.pairs[0].better & (level[:, None] <= level)).any())
    disagree = standing.disagreement is not None
    wrong = crowned or against_none or pairs
    return (
        named,
        better,
        crowned,
        against_none,
        pairs,
        wrong,
        standing.winner is None and 1 not in standing.may_be_best,
        disagree,
    )


def study(setting: Setting, seed: int) -> tuple[Standing, Floats]:
    """Return what is shown of scores of which no defense has the first row, and the true means ``(entries,)``."""
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
    # Who may be best is asked where nobody wins: only then its level is resampled.
    if standing.winner is not None:
        return standing, level
    return replace(standing, best_alpha=best_alpha(scores[candidates], resamples=RESAMPLES)), level


def _against(scores: Floats, pairs: Differences, candidates: list[int]) -> AgainstOne:
    """Return every candidate against no defense, with what all pairs show, as a leaderboard has it."""
    gains, separated = np.full(scores.shape, np.nan), np.zeros((2, len(scores)), dtype=bool)
    gains[candidates] = scores[candidates] - scores[0]
    separated[:, candidates] = pairs.better[candidates, 0], pairs.better[0, candidates]
    return against_one(gains, pairs.value_range, resamples=RESAMPLES).joined(*separated)


def lines() -> Iterator[Line]:
    """Yield a line for each kind of study that has a goal, for two that are equally good, and where nothing helps."""
    for setting in (*GOALS, Setting(8, 12, 1.0, 2), Setting(8, 12, 0.0, 0)):
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
