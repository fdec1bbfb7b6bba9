"""How often a leaderboard names the better entry, and intervals cover: the tables of the page on statistics.

python -m docs.coverage            some minutes a table on one core; writes the tables between their marks
python -m docs.coverage naming     only the one with this mark
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
START, END = "<!-- coverage -->", "<!-- end of coverage -->"
ENTRIES, UNITS = 5, (5, 6, 8, 9, 12, 20, 40)
STUDIES = 500
NAMING_START, NAMING_END = "<!-- naming -->", "<!-- end of naming -->"
MEANS_START, MEANS_END = "<!-- coverage of means -->", "<!-- end of coverage of means -->"
MEANS_UNITS, SENTENCES = (5, 8, 16, 36, 100, 300), (1, 3, 20)
SHARE = 0.05
"""What an entry at the margin of the gate has lost of the utility of the undefended one."""
KINDS = {
    "normal": "normal",
    "correlated": "normal, entries correlated",
    "lognormal": "lognormal, medians 1 to 2",
    "discrete": "shares of 4 choices",
    "skewed": "lognormal, medians 0.1 to 3",
}
BESIDE = {"": "", "spam": "32 more that do nothing", "matched": "another one's control", "deaf": "a deaf measure"}
MEANS_KINDS = {
    "normal": "normal",
    "lognormal": "lognormal, skewness 1.8",
    "skewed": "lognormal, skewness 6.2",
    "lost": "right answers of 90 %, 5 % of them lost",
    "swapped": "right answers of 90 %, 10 % lost and some won",
    "correlations": "SROCC of 0.9 and 0.855, by the jackknife",
}


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
    """Return the share of studies in which the intervals of all pairs cover the true difference."""
    rng, apart, hits = np.random.default_rng(seed), ~np.eye(entries, dtype=bool), 0
    for _ in range(studies):
        gains, mean = study(kind, entries, units, rng)
        intervals, truth = differences(gains, resamples=resamples), mean[:, None] - mean
        hits += bool(((intervals.low <= truth) & (truth <= intervals.high))[apart].all())
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
    """Return numbers ``(units,)`` of each entry whose true mean is 0, and the values that they can have, if few."""
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
    plain = (rng.random(units) < 0.9).astype(float)
    won = (lost - SHARE) * 0.9 / 0.1
    correct = {str(e): np.where(plain == 1, rng.random(units) >= lost, rng.random(units) < won) for e in range(entries)}
    gate = share_of("accuracy", "none", SHARE, lambda entry: (correct[entry], plain), answers=True)
    return [np.asarray(gate.above(entry)) for entry in correct], [gate.values(entry) for entry in correct]


def _correlations(entries: int, units: int, rng: np.random.Generator) -> list[Floats]:
    """Spearman's rho of normal numbers is 6 / pi asin(r / 2); an entry shares most of its errors with the plain one."""
    plain, defended = (2 * np.sin(np.pi * rho / 6) for rho in (0.9, (1 - SHARE) * 0.9))
    labels, shared = rng.normal(size=(2, units))
    errors = np.vstack([shared, 0.8 * shared + 0.6 * rng.normal(size=(entries, units))])
    slopes = np.array([plain, *[defended] * entries])[:, None]
    scores = slopes * labels + np.sqrt(1 - slopes**2) * errors
    unit_values = jackknife(lambda retained: spearman_rows(scores[:, retained], labels[retained]), np.arange(units))
    return list(unit_values[1:] - (1 - SHARE) * unit_values[0])


def held(kind: str, entries: int, units: int, *, studies: int, seed: int = 0) -> float:
    """Return the share of studies in which no mean of 0 is shown to be above or below 0."""
    rng, correct = np.random.default_rng(seed), 0
    for _ in range(studies):
        unit_values, values = margin(kind, entries, units, rng)
        intervals = means(unit_values, entries, values)
        correct += not (intervals.above | intervals.below).any()
    return correct / studies


def means_table() -> str:
    """Return the table of coverage of means by kind of number, how many are asked, and number of units."""
    head = ["Numbers", "entries", *(f"{units} units" for units in MEANS_UNITS)]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for kind, name in MEANS_KINDS.items():
        for entries in SENTENCES:
            shares = [
                f"{held(kind, entries, units, studies=STUDIES):.3f}"
                if kind != "correlations" or JACKKNIFED <= units <= 100
                else ""
                for units in MEANS_UNITS
            ]
            lines.append(f"| {name} | {entries} | {' | '.join(shares)} |")
    return "\n".join(lines)


def naming_table() -> str:
    """Return the table of how often the better entry is named, and how often something false is said."""
    head = [
        *("entries", "units", "gap", "ahead", "scores", "beside", "studies", "named", "better than none"),
        *(
            "false crown",
            "false against none",
            "false of any two",
            "any of these",
            "best left out",
            "measures disagree",
        ),
    ]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for setting in SETTINGS:
        got = shares(setting, setting.studies)
        named = [f"{share:.3f}" if setting.ahead else "" for share in (got.named, got.better)]
        named[0] = named[0] if setting.ahead == 1 else ""
        false = [f"{share:.3f}" for share in (got.crowned, got.against, got.pairs, got.wrong, got.left_out)]
        disagree = f"{got.disagree:.3f}" if setting.beside == "deaf" else ""
        kind = [f"{setting.gap:g} sd", str(setting.ahead), setting.scores, BESIDE[setting.beside], str(setting.studies)]
        numbers = [str(setting.entries), str(setting.units), *kind]
        lines.append(f"| {' | '.join([*numbers, *named, *false, disagree])} |")
    return "\n".join(lines)


def main(names: Sequence[str]) -> None:
    """Write the tables into the page. `names`: which ones, such as "naming"; all by default."""
    makers = (
        (NAMING_START, NAMING_END, naming_table),
        (START, END, table),
        (MEANS_START, MEANS_END, means_table),
    )
    for start, end, maker in makers:
        if names and start.strip("<!- >") not in names:
            continue
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(start)
        _, _, after = rest.partition(end)
        PAGE.write_text(f"{before}{start}\n\n{maker()}\n\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
