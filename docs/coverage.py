"""How often simultaneous intervals of differences cover: simulated studies, and the table of the page on statistics.

python docs/coverage.py        some minutes on one core; writes the table between its marks
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from imharness.statistics.differences import RESAMPLES, differences

Floats = npt.NDArray[np.float64]
PAGE = Path(__file__).parent / "concepts" / "statistics.md"
START, END = "<!-- coverage -->", "<!-- end of coverage -->"
ENTRIES, UNITS = 5, (5, 6, 8, 9, 12, 20, 40)
STUDIES = 500
KINDS = {
    "normal": "normal",
    "correlated": "normal, entries correlated",
    "lognormal": "lognormal, medians 1 to 2",
    "discrete": "shares of 4 choices",
    "skewed": "lognormal, medians 0.1 to 3",
}


def study(kind: str, entries: int, units: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return gains ``(entries, units)`` of a simulated study, and the entries' true means ``(entries,)``."""
    shared, own = rng.normal(size=(1, units)), rng.normal(size=(entries, units))
    if kind == "normal":
        return shared + own, np.zeros(entries)
    if kind == "correlated":
        slope = np.linspace(0.4, 2, entries)[:, None]
        return shared + slope * rng.normal(size=(1, units)) + 0.3 * own, np.zeros(entries)
    if kind == "discrete":
        share = np.linspace(0.3, 0.7, entries)
        return rng.binomial(4, share[:, None], (entries, units)) / 4, share
    level = np.linspace(1, 2, entries) if kind == "lognormal" else np.geomspace(0.1, 3, entries)
    return level[:, None] * np.exp(0.5 * shared + 0.5 * own), level * np.exp(0.25)


def covered(kind: str, entries: int, units: int, *, studies: int, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the share of studies in which the intervals of all pairs cover the true difference."""
    rng, apart, held = np.random.default_rng(seed), ~np.eye(entries, dtype=bool), 0
    for _ in range(studies):
        gains, mean = study(kind, entries, units, rng)
        told, truth = differences(gains, resamples=resamples), mean[:, None] - mean
        held += bool(((told.low <= truth) & (truth <= told.high))[apart].all())
    return held / studies


def table() -> str:
    """Return the table of coverage by kind of study and number of units."""
    head = ["Scores of an entry", "entries", *(f"{units} units" for units in UNITS)]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for kind, name in KINDS.items():
        for entries in (2, ENTRIES):
            shares = [covered(kind, entries, units, studies=STUDIES, resamples=400) for units in UNITS]
            lines.append(f"| {name} | {entries} | {' | '.join(f'{share:.3f}' for share in shares)} |")
    return "\n".join(lines)


def main() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text().partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n\n{table()}\n\n{END}{after}")


if __name__ == "__main__":
    main()
