"""Which defense holds at equal measured distortion: pairs reversed against how far an attack really moved the image.

Strengths are nominal: an attack through one defense may move an image further than the same attack through another. So
distortion is measured, as 1 - SSIM(x', x) or L-inf(x', x). For each image and attack, a curve shows the pairs reversed
up to each distortion: straight lines from the origin from strength to strength. The curve never falls, as an attacker
may always do less, and beyond the largest strength it is flat. The worst attack at each distortion is the upper
envelope of the curves of all attacks. The area below it over a common range, divided by the width of that range, is the
mean share of pairs that an attacker reverses there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imharness.leaderboard import (
    Blocks,
    Chart,
    ColumnSpec,
    Contest,
    Lazy,
    Row,
    Series,
    Table,
    Value,
    mean_value,
    missing,
    ranked,
)
from imharness.tracks import Query, TrackReport
from imharness_iqa.tables.data import BASELINE, MEASURES, UNIT, Study
from imharness_iqa.tables.naming import Naming
from imharness_iqa.tables.worst import stacked

WIDEST = {"loss": 0.25, "linf": 8 / 255}
"""The largest distortion that counts, by measure: that of strong attacks."""
STEPS = 25
"""The number of intervals of the grid of distortions on which areas are computed."""
AT_ONCE = 2**11
"""How many curves, one for each entry and image, are interpolated together: they fit into a processor's cache."""
POINTS = (0.95, 0.9, 0.8)
"""The values of SSIM at which the table shows pairs reversed."""
LINES = 8
"""The number of defenses that the chart shows."""
_ROWS = """
SELECT dataset, metric, strength, method AS attack, CASE WHEN adaptive THEN 'adaptive' ELSE 'fixed' END AS attacker,
       CASE WHEN adaptive THEN {through} ELSE '' END AS through, {unit} AS unit, greatest(0, 1 - ssim) AS loss,
       CASE WHEN norm = 'linf' THEN linf END AS linf
FROM attack
"""
SETTING = ("dataset", "metric", "attack", "attacker", "strength")


@dataclass(frozen=True)
class Tried:
    """What attacks did, and at which distortion.

    Attributes:
        blocks: the measures ``score`` (pairs reversed, %), ``loss`` (1 - SSIM) and ``linf`` of each attacked image.
        attacks: (data set, metric) -> (attack, attacker) -> the positions of its strengths among the conditions.
        units: the names of all images, sorted.
        photographs: the photograph that each of these images is made of.
        naming: looks up names of images.
    """

    blocks: Blocks
    attacks: Mapping[tuple[str, str], Mapping[tuple[str, str], list[int]]]
    units: np.ndarray
    photographs: np.ndarray
    naming: Naming

    def curves(
        self, measure: str, grid: np.ndarray, *, attacker: str = "", attack: str = "", entry: str = ""
    ) -> np.ndarray:
        """Return the most pairs reversed up to each distortion ``(entries, units, grid)``, by the worst attack on each.

        Means over metrics and data sets. `measure`: ``loss`` or ``linf``; `grid`: the distortions. `attacker`, `attack`
        and `entry`: if given, only these count. NaN where nothing was tried.
        """
        rows = [i for i, label in enumerate(self.blocks.entries) if not entry or entry == label]
        shape = (len(rows), len(self.units), len(grid))
        total, count = np.zeros(shape), np.zeros(shape[:2])
        for settings_by_attack in self.attacks.values():
            envelope = np.full(shape, np.nan)
            for (name, kind), settings in settings_by_attack.items():
                if (not attacker or attacker == kind) and (not attack or attack == name):
                    stacks = (self._stacked(m, settings, rows) for m in (measure, "score"))
                    np.fmax(envelope, joined(*stacks, grid), out=envelope)
            mask = ~np.isnan(envelope).all(axis=2)
            total[mask] += envelope[mask]
            count += mask
        with np.errstate(invalid="ignore"):
            return np.asarray(total / count[..., None])

    def reach(self, measure: str) -> np.ndarray:
        """Return the largest distortion of attacks that know the defense, median over images ``(entries,)``, or NaN.

        Every attack on the undefended metric counts: there is no defense to know.
        """
        reaches = np.full((len(self.blocks.entries), len(self.units)), np.nan)
        plain = np.array([label == BASELINE for label in self.blocks.entries])
        for settings_by_attack in self.attacks.values():
            for (_, attacker), settings in settings_by_attack.items():
                largest = np.fmax.reduce(self._stacked(measure, settings, range(len(plain))))
                counts = plain | (attacker == "adaptive")
                reaches[counts] = np.fmax(reaches[counts], largest[counts])
        return np.array(
            [
                np.median(entry_reach[~np.isnan(entry_reach)]) if np.isfinite(entry_reach).any() else np.nan
                for entry_reach in reaches
            ]
        )

    def _stacked(self, name: str, settings: Sequence[int], rows: Sequence[int]) -> np.ndarray:
        """Return a measure under some settings for some entries ``(settings, entries, units)``, NaN where missing."""
        values = self.blocks.values[name]
        some = values if len(rows) == len(self.blocks.entries) else Lazy(len(values), lambda c: values[c][rows])
        return stacked(self.blocks, some, settings, self.units, self.naming)


def joined(distortion: np.ndarray, moved: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return the curve of an attack: the most that it reaches up to each distortion ``(entries, units, grid)``.

    `distortion` and `moved` ``(strengths, entries, units)``: how far each strength moved an image, and what it reached;
    NaN where a strength was not tried. The result is NaN where no strength was tried.
    """
    mask = np.isfinite(distortion) & np.isfinite(moved)
    x = np.where(mask, distortion, np.inf)
    order = x.argsort(axis=0)  # strengths by distortion, those that were not tried last
    x = np.take_along_axis(x, order, axis=0)
    y = np.maximum.accumulate(np.take_along_axis(np.where(mask, moved, 0.0), order, axis=0), axis=0)
    flat_x, flat_y = (array.reshape(len(array), -1) for array in (x, y))  # (strengths, entries * units)
    curves = np.zeros((flat_x.shape[1], len(grid)))
    for start in range(0, len(curves), AT_ONCE):
        chunk = slice(start, start + AT_ONCE)
        _add_rises(curves[chunk], flat_x[:, chunk], flat_y[:, chunk], grid)
    curves = curves.reshape(*x.shape[1:], len(grid))
    curves[~mask.any(axis=0)] = np.nan
    return curves


def _add_rises(curves: np.ndarray, x: np.ndarray, y: np.ndarray, grid: np.ndarray) -> None:
    """Add to `curves` ``(n, grid)`` what each of n curves rises from one strength to the next, up to each of `grid`.

    `x`, `y` ``(strengths, n)``: distortion and height of each strength, both ascending. The first line starts at the
    origin.
    """
    previous_x, previous_y = (np.concatenate([np.zeros_like(array[:1]), array[:-1]]) for array in (x, y))
    for left_x, right_x, left_y, right_y in zip(previous_x, x, previous_y, y, strict=True):
        rising = (right_y > left_y) & np.isfinite(right_x)
        rises = slice(None) if rising.all() else rising
        start, end = left_x[rises][:, None], right_x[rises][:, None]
        share = grid - start  # of the line, 0 before its start and 1 after its end
        with np.errstate(invalid="ignore", divide="ignore"):
            share /= end - start
        np.minimum(np.maximum(share, 0, out=share), 1, out=share)
        vertical = np.flatnonzero(end <= start)
        share[vertical] = grid >= end[vertical]
        share *= (right_y - left_y)[rises][:, None]
        curves[rises] += share


def tried(query: Query, study: Study, rules: Contest) -> Tried | None:
    """Return what the attacks of the ranking did; None for results without a measure of distortion."""
    columns = query("SELECT * FROM attack LIMIT 0") if "attack" in query.steps else {}
    if not {"ssim", "linf", "norm"} <= set(columns) or "evaluate" not in query.steps:
        return None
    sql = _ROWS.format(unit=UNIT, through="defense" if "defense" in columns else "''")
    blocks = query.blocks(sql, entry="through", by=SETTING, unit="unit", measures=["loss", "linf"])
    scores = rules.scores
    naming = Naming()
    values = {
        "score": scores.values["reversed"],
        **{name: _beside(blocks, name, scores, study, naming) for name in WIDEST},
    }
    attacks: dict[tuple[str, str], dict[tuple[str, str], list[int]]] = {}
    for c in rules.settings:
        condition = scores.conditions[c]
        group = attacks.setdefault((condition["dataset"], condition["metric"]), {})
        group.setdefault((condition["attack"], condition["attacker"]), []).append(c)
    units = naming.joined(scores.units[c] for c in rules.settings)
    photographs = np.array([study.sources[unit][0] for unit in units], dtype=object)
    return Tried(replace(scores, values=values), attacks, units, photographs, naming) if attacks else None


def _beside(blocks: Blocks, measure: str, scores: Blocks, study: Study, naming: Naming) -> Lazy:
    """Return a measure of attacked images beside every score: for each condition ``(entries, units)``, NaN if missing.

    `blocks`: the measure by the defense that was attacked through, "" for attacks that do not know it; their images are
    the same for all entries.
    """
    positions: dict[tuple[str, ...], list[int]] = {}
    for c, condition in enumerate(blocks.conditions):
        dataset = study.sources[blocks.units[c][0]][1]
        positions.setdefault((dataset, *(condition[name] for name in SETTING[1:])), []).append(c)
    rows = {
        "adaptive": [(i, label) for i, label in enumerate(scores.entries) if label in blocks.entries],
        "fixed": [(i, "") for i in range(len(scores.entries)) if "" in blocks.entries],
    }

    def made(c: int) -> np.ndarray:
        score_condition, names = scores.conditions[c], naming.joined([scores.units[c]])
        filled = np.full((len(scores.entries), len(names)), np.nan)
        lines = positions.get(tuple(score_condition[name] for name in SETTING))
        pairs = rows[score_condition["attacker"]]
        if lines and pairs:
            measured = np.fmax.reduce(stacked(blocks, blocks.values[measure], lines, names, naming))
            filled[[i for i, _ in pairs]] = measured[[blocks.entries.index(label) for _, label in pairs]]
        return filled

    return Lazy(len(scores.conditions), made)


def report(query: Query, study: Study, rules: Contest) -> TrackReport:
    """Return the table of defenses and the curves of defenses and of attacks; nothing without measured distortion."""
    attempts = tried(query, study, rules)
    if attempts is None:
        return TrackReport()
    entries = attempts.blocks.entries
    coverage = {label: rules.coverage(rules.scores.entries.index(label)) for label in entries}
    complete = np.array([coverage[label] == 1 for label in entries])
    ends = {
        measure: _end(attempts.reach(measure)[complete if complete.any() else slice(None)], widest)
        for measure, widest in WIDEST.items()
    }
    grids = {measure: np.linspace(0, end, STEPS + 1) for measure, end in ends.items()}
    thresholds = [ssim for ssim in POINTS if 1 - ssim <= ends["loss"]]
    both = attempts.curves("loss", np.concatenate([grids["loss"], [1 - ssim for ssim in thresholds]]))
    worst, points = both[..., : STEPS + 1], both[..., STEPS + 1 :]
    areas = {
        "area": worst,
        "unaware": attempts.curves("loss", grids["loss"], attacker="fixed"),
        "linf": attempts.curves("linf", grids["linf"]),
    }
    rows = []
    for i, label in enumerate(entries):
        values = {key: _mean(_area(curves[i]), attempts) for key, curves in areas.items()}
        values |= {f"at{100 * ssim:.0f}": _mean(points[i, :, k], attempts) for k, ssim in enumerate(thresholds)}
        rows.append(Row(label=label, values={**values, "coverage": Value(value=100 * coverage[label])}))
    rows = sorted(ranked(rows, _columns(ends, thresholds)[0]), key=lambda row: coverage[row.label] < 1)
    table = Table(
        id="measured",
        title="Defenses at equal measured distortion",
        caption="How many pairs the worst attack reverses at equal distortion, which is measured on the attacked "
        "image; the names of strengths do not count. Between the strengths of an attack, numbers are interpolated; "
        "beyond the largest one, its number counts. Area: mean over the range that attackers who know the defense "
        f"reach on every complete entry (median image; at most SSIM {1 - WIDEST['loss']:g} and L-inf 8/255). "
        f"Incomplete entries stand last.{study.half}",
        entry="defense",
        columns=_columns(ends, thresholds),
        rows=tuple(rows),
        ranked_by="area",
        note=study.note,
    )
    best = dict.fromkeys([BASELINE, *(row.label for row in rows)])
    lines = {label: worst[entries.index(label)] for label in [*best][:LINES] if label in entries}
    names = sorted({attack for group in attempts.attacks.values() for attack, _ in group})
    by_attack = (
        {}
        if BASELINE not in entries
        else {attack: attempts.curves("loss", grids["loss"], attack=attack, entry=BASELINE)[0] for attack in names}
    )
    charts = [
        _chart(
            "curves-defenses",
            "Defenses against measured distortion",
            "The worst attack on each defense: the "
            f"undefended metric and the {LINES - 1} defenses with the smallest area.",
            grids["loss"],
            lines,
        ),
        _chart(
            "curves-attacks",
            "Attacks against measured distortion",
            "Each attack on the undefended metrics.",
            grids["loss"],
            by_attack,
        ),
    ]
    return TrackReport([table], charts=[chart for chart in charts if chart.series])


def _end(reach: np.ndarray, widest: float) -> float:
    """Return the end of the common range: the smallest of the entries' largest distortions, at most `widest`."""
    finite = reach[np.isfinite(reach)]
    return min([widest, *(finite[finite > 0].tolist())])


def _area(curve: np.ndarray) -> np.ndarray:
    """Return the mean height ``(units,)`` of curves ``(units, grid)`` over an even grid, by the trapezoidal rule."""
    return np.asarray((curve[:, 1:] + curve[:, :-1]).mean(axis=1) / 2)


def _mean(numbers: np.ndarray, attempts: Tried) -> Value:
    mask = np.isfinite(numbers)
    return mean_value(numbers[mask], attempts.photographs[mask]) if mask.any() else missing("no such attack on it")


def _columns(ends: Mapping[str, float], points: Sequence[float]) -> tuple[ColumnSpec, ...]:
    description = MEASURES["reversed"].description

    def of(key: str, label: str, text: str) -> ColumnSpec:
        return MEASURES["reversed"].model_copy(
            update={"key": key, "label": label, "description": f"{description} {text}"}
        )

    scope = f"Mean over SSIM from 1 to {1 - ends['loss']:.3f}"
    return (
        of("area", "area, worst attack", f"{scope}, the worst attack at each."),
        of(
            "unaware",
            "area, attacker does not know the defense",
            f"{scope}, the worst attack that does not know the defense.",
        ),
        *(
            of(f"at{100 * ssim:.0f}", f"pairs reversed at SSIM {ssim:g}", "The worst attack with at least this SSIM.")
            for ssim in points
        ),
        of(
            "linf",
            "area, L-inf",
            f"Mean over L-inf from 0 to {255 * ends['linf']:.1f}/255, the worst of the attacks that L-inf bounds.",
        ),
        ColumnSpec(key="coverage", label="coverage", decimals=0, better="higher", description="As in the ranking, %."),
    )


def _chart(id: str, title: str, caption: str, grid: np.ndarray, curves: Mapping[str, np.ndarray]) -> Chart:
    means = {
        label: curve[np.isfinite(curve[:, 0])].mean(axis=0)
        for label, curve in curves.items()
        if np.isfinite(curve[:, 0]).any()
    }
    return Chart(
        id=id,
        title=title,
        caption=f"{caption} Mean over images, metrics and data sets.",
        kind="curves",
        x_label="SSIM of the attacked image to the original",
        y_label="pairs reversed %",
        series=tuple(
            Series(label=label, x=tuple((1 - grid[::-1]).tolist()), y=tuple(mean[::-1].tolist()))
            for label, mean in means.items()
        ),
    )
