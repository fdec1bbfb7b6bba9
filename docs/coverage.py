"""Simulates how often a leaderboard is right, and writes the three tables of docs/concepts/statistics.md.

    python -m docs.coverage            # all tables; each takes some minutes on one core
    python -m docs.coverage naming     # only the table with this mark

The tables: ``naming``, how often the better entry is named; ``coverage``, how often the intervals of all pairs of
entries hold the true differences; ``coverage of means``, how often no mean that is 0 is said to differ from 0.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.naming import SETTINGS, shares

from imharness.leaderboard import jackknife, share_of, spearman_rows
from imharness.statistics.differences import RESAMPLES, differences
from imharness.statistics.means import JACKKNIFED, means

Floats = npt.NDArray[np.float64]
PAGE = Path(__file__).parent / "concepts" / "statistics.md"
STUDIES = 500
"""The number of studies behind each number of the last two tables."""
ENTRIES, UNITS = 5, (5, 6, 8, 9, 12, 20, 40)
"""Entries and units of the studies of pairs; each kind also has studies of two entries."""
MEANS_ENTRIES, MEANS_UNITS = (1, 3, 20), (5, 8, 16, 36, 100, 300)
"""Entries and units of the studies of means."""
SHARE = 0.05
"""The share of the undefended utility that an entry may lose: the margin of the gate on utility."""
KINDS = {
    "normal": "normal",
    "correlated": "normal, entries correlated",
    "lognormal": "lognormal, medians 1 to 2",
    "discrete": "shares of 4 choices",
    "skewed": "lognormal, medians 0.1 to 3",
}
"""Kind of study of pairs -> its name in the table."""
BESIDE = {"": "", "spam": "32 more that do nothing", "matched": "another one's control", "deaf": "a deaf measure"}
"""`Setting.beside` -> its name in the table."""
MEANS_KINDS = {
    "normal": "normal",
    "lognormal": "lognormal, skewness 1.8",
    "skewed": "lognormal, skewness 6.2",
    "lost": "right answers of 90 %, 5 % of them lost",
    "swapped": "right answers of 90 %, 10 % lost and some won",
    "correlations": "SROCC of 0.9 and 0.855, by the jackknife",
}
"""Kind of study of means -> its name in the table."""


def study(kind: str, entries: int, units: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return gains ``(entries, units)`` of a simulated study, and the entries' true means ``(entries,)``."""
    shared, independent = rng.normal(size=(1, units)), rng.normal(size=(entries, units))
    if kind == "normal":
        return shared + independent, np.zeros(entries)
    if kind == "correlated":
        slope = np.linspace(0.4, 2, entries)[:, None]
        return shared + slope * rng.normal(size=(1, units)) + 0.3 * independent, np.zeros(entries)
    if kind == "discrete":
        share = np.linspace(0.3, 0.7, entries)
        return rng.binomial(4, share[:, None], (entries, units)) / 4, share
    level = np.linspace(1, 2, entries) if kind == "lognormal" else np.geomspace(0.1, 3, entries)
    return level[:, None] * np.exp(0.5 * shared + 0.5 * independent), level * np.exp(0.25)


def covered(kind: str, entries: int, units: int, *, studies: int, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the share of studies in which the intervals of all pairs hold the true differences at once."""
    rng, is_pair, hits = np.random.default_rng(seed), ~np.eye(entries, dtype=bool), 0
    for _ in range(studies):
        gains, mean = study(kind, entries, units, rng)
        intervals, truth = differences(gains, resamples=resamples), mean[:, None] - mean
        holds = (intervals.low <= truth) & (truth <= intervals.high)  # (entries, entries)
        hits += bool(holds[is_pair].all())
    return hits / studies


def table() -> str:
    """Return the table of coverage by kind of study and number of units."""
    head = ["Scores of an entry", "entries", *(f"{units} units" for units in UNITS)]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for kind, name in KINDS.items():
        for entries in (2, ENTRIES):
            shares = [covered(kind, entries, units, studies=STUDIES, resamples=400) for units in UNITS]
            lines.append(f"| {name} | {entries} | {' | '.join(f'{share:.3f}' for share in shares)} |")
    return "\n".join(lines)


def margin(kind: str, entries: int, units: int, rng: np.random.Generator) -> tuple[list[Floats], list[Sequence[float]]]:
    """Return a simulated study of means: numbers whose true mean is 0, as of entries exactly at the margin of a gate.

    Returns:
        For each entry, its numbers ``(units,)``; and for each entry the values that its numbers can have, or no list at
        all if they are continuous.
    """
    if kind in ("lost", "swapped"):
        return _answers(0.05 if kind == "lost" else 0.1, entries, units, rng)
    if kind == "correlations":
        return _correlations(entries, units, rng), []
    noise = rng.normal(size=(entries, units))
    spread = {"lognormal": 0.5, "skewed": 1.0}.get(kind)
    return list(noise if spread is None else np.exp(spread * noise) - np.exp(spread**2 / 2)), []


def _answers(
    lost: float, entries: int, units: int, rng: np.random.Generator
) -> tuple[list[Floats], list[Sequence[float]]]:
    """Return `margin` for accuracy: entries that lose exactly the share `SHARE` of an undefended accuracy of 90 %.

    An entry loses the share `lost` of the right answers, and turns so many wrong answers right that its accuracy is at
    the margin.
    """
    plain = (rng.random(units) < 0.9).astype(float)
    turned_right = (lost - SHARE) * 0.9 / 0.1
    correct = {
        str(entry): np.where(plain == 1, rng.random(units) >= lost, rng.random(units) < turned_right)
        for entry in range(entries)
    }
    gate = share_of("accuracy", "none", SHARE, lambda entry: (correct[entry], plain), answers=True)
    return [np.asarray(gate.above(entry)) for entry in correct], [gate.values(entry) for entry in correct]


def _correlations(entries: int, units: int, rng: np.random.Generator) -> list[Floats]:
    """Return `margin` for SROCC: entries with (1 - `SHARE`) 0.9 beside an undefended one with 0.9, by the jackknife.

    Scores and labels are normal with the Pearson correlation r; then Spearman's rho is 6 / pi asin(r / 2). An entry
    shares most of its errors with the undefended one.
    """
    plain, defended = (2 * np.sin(np.pi * rho / 6) for rho in (0.9, (1 - SHARE) * 0.9))  # Pearson correlations
    labels, shared = rng.normal(size=(2, units))
    errors = np.vstack([shared, 0.8 * shared + 0.6 * rng.normal(size=(entries, units))])
    slopes = np.array([plain, *[defended] * entries])[:, None]
    scores = slopes * labels + np.sqrt(1 - slopes**2) * errors
    unit_values = jackknife(lambda retained: spearman_rows(scores[:, retained], labels[retained]), np.arange(units))
    return list(unit_values[1:] - (1 - SHARE) * unit_values[0])


def held(kind: str, entries: int, units: int, *, studies: int, seed: int = 0) -> float:
    """Return the share of studies in which no mean is said to be above or below 0; all true means are 0."""
    rng, correct = np.random.default_rng(seed), 0
    for _ in range(studies):
        unit_values, values = margin(kind, entries, units, rng)
        intervals = means(unit_values, entries, values)
        correct += not (intervals.above | intervals.below).any()
    return correct / studies


def means_table() -> str:
    """Return the table of coverage of means by kind of number, number of entries, and number of units."""
    head = ["Numbers", "entries", *(f"{units} units" for units in MEANS_UNITS)]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for kind, name in MEANS_KINDS.items():
        for entries in MEANS_ENTRIES:
            shares = []
            for units in MEANS_UNITS:
                too_few_or_slow = kind == "correlations" and not JACKKNIFED <= units <= 100
                shares.append("" if too_few_or_slow else f"{held(kind, entries, units, studies=STUDIES):.3f}")
            lines.append(f"| {name} | {entries} | {' | '.join(shares)} |")
    return "\n".join(lines)


def naming_table() -> str:
    """Return the table of how often the better entry is named, and how often something false is said."""
    head = [
        *("entries", "units", "gap", "ahead", "scores", "beside", "studies"),
        *("named", "better than none"),
        *("false crown", "false against none", "false of any two", "any of these", "best left out"),
        "measures disagree",
    ]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for setting in SETTINGS:
        measured = shares(setting, setting.studies)
        cells = [str(setting.entries), str(setting.units), f"{setting.gap:g} sd", str(setting.ahead)]
        cells += [setting.scores, BESIDE[setting.beside], str(setting.studies)]
        cells.append(f"{measured.named:.3f}" if setting.ahead == 1 else "")
        cells.append(f"{measured.better:.3f}" if setting.ahead else "")
        false = (measured.crowned, measured.against, measured.pairs, measured.wrong, measured.left_out)
        cells += [f"{share:.3f}" for share in false]
        cells.append(f"{measured.disagree:.3f}" if setting.beside == "deaf" else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


MAKERS = {"naming": naming_table, "coverage": table, "coverage of means": means_table}
"""Mark -> function that makes the table between ``<!-- MARK -->`` and ``<!-- end of MARK -->`` in the page."""


def main(names: Sequence[str]) -> None:
    """Write the tables into the page. `names`: their marks, such as "naming"; without names all are made."""
    for mark, maker in MAKERS.items():
        if names and mark not in names:
            continue
        start, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(start)
        _, _, after = rest.partition(end)
        PAGE.write_text(f"{before}{start}\n\n{maker()}\n\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
