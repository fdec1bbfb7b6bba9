"""Who wins: the defense of which the worst attack reverses fewest pairs, among those that keep the order of quality."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from imharness.leaderboard import (
    Blocks,
    Column,
    Contest,
    Lazy,
    Wins,
    Words,
    contest,
    controls_of,
    flags_of,
    share_of,
    with_evidence,
)
from imharness.tracks import Query, TrackReport
from imharness_iqa.audit import flags
from imharness_iqa.folders import NO_LABELS
from imharness_iqa.tables.data import BASELINE, EXTERNAL, IMPORTED_BASELINES, KINDS, MEASURES, Study
from imharness_iqa.tables.evidence import evidence_of
from imharness_iqa.tables.families import Family
from imharness_iqa.tables.fidelity import Fidelity
from imharness_iqa.tables.naming import Naming
from imharness_iqa.tables.order import Ruler
from imharness_iqa.tables.part import Part
from imharness_iqa.tables.suspected import Beside, may_know_labels
from imharness_iqa.tables.unmoved import looked_up

OVER = ("attack", "attacker", "strength", "type")
"""The facets of which the worst counts, image by image."""
LARGEST = ("dd", "reversed", "shift", "d", "gain")
"""The measures of which the largest number of any attack is shown."""
GRADIENTS = {"own": "its own", "identity": "that of the identity in its place (BPDA)", "none": "queries alone"}
"""Whose gradient an attack used, as rows name it -> in words."""
WORDS = Words(
    "holds best",
    lambda share: f"{share:.1f} %",
    "of pairs reversed",
    "takes more than {bound} off the {plain} {of} {without}",
)
NO_ORDER = "not defined: the scores of clean images are nearly equal, or from fewer than two photographs"


@dataclass(frozen=True)
class Worst:
    """What the worst attack does to each image, by defense.

    `study`: the results; `rules`: what is ranked, and how.
    """

    study: Study
    rules: Contest

    @cached_property
    def part(self) -> Part:
        """The worst of each image over the settings that count in the ranking, by data set and metric.

        Measures: ``reversed``, ``shift``, ``dd``, ``d`` and ``gain`` are the largest of any attack. ``score`` is the
        score after the attack with the largest D^D. ``both`` is the share of an image's pairs whose order attacks can
        reverse if they may change either image or both, %.
        """
        scores, clean = self.rules.scores, self.study.reported_clean.blocks
        rows = [clean.entries.index(label) for label in scores.entries]
        groups: dict[tuple[str, str], list[int]] = {}
        for c in self.rules.settings:
            groups.setdefault((scores.conditions[c]["dataset"], scores.conditions[c]["metric"]), []).append(c)
        lines: dict[tuple[str, str], list[int]] = {}
        for c, condition in enumerate(clean.conditions):
            lines.setdefault((_set_of(self.study, clean, c), condition["metric"]), []).append(c)
        naming = Naming()
        worst_blocks = [_worst(scores, group, clean, lines[key], rows, naming) for key, group in groups.items()]
        joined = Blocks(
            scores.entries,
            tuple({"dataset": dataset, "metric": metric} for dataset, metric in groups),
            tuple(block.units[0] for block in worst_blocks),
            {name: tuple(block.values[name][0] for block in worst_blocks) for name in ("score", *LARGEST, "both")},
            {name: tuple(block.about[name][0] for block in worst_blocks) for name in ("mos", "sign")},
        )
        return Part.whole(joined, self.study.sources)


def rules(query: Query, study: Study, share: float, least: float = 0.0) -> Contest:
    """Return the rules of the ranking: its scores, gates, controls, flags and words.

    `share`: the largest share of the undefended SROCC that a winner may lose. `least`: the SSIM of D(x) to x that it
    must keep.
    """
    spec = MEASURES["reversed"]
    wins = Wins(
        id="wins-reversed",
        title="Who keeps more pairs of images in order",
        about=f"fewer pairs reversed ({spec.description.rstrip('.')})",
        families={**dict.fromkeys(study.trained, "training"), **study.groups},
    )
    protection = Column(**spec.model_dump(), of="reversed", wins=wins, cluster="photograph")
    utility = Column(
        "srocc",
        "SROCC, clean",
        "Spearman correlation of f(D(x)) with the quality labels, mean over metrics.",
        "higher",
        value=lambda label: study.graded.of(label).correlation(resampled=True),
        unit="image",
        cluster_unit="photograph",
    )
    scores = _scores(study)
    undefended = [label for label in (BASELINE, *IMPORTED_BASELINES) if label in scores.entries] or [BASELINE]
    plain = undefended[0]
    controls = {**dict.fromkeys(undefended, "no defense"), **controls_of(query)}

    @cache
    def beside(label: str) -> tuple[np.ndarray, np.ndarray] | None:
        return study.graded.correlations_beside(label, plain)

    rule_set = Contest(
        scores=scores,
        protection=protection,
        utility=utility,
        undefended=plain,
        words=WORDS,
        over=OVER,
        share=share,
        controls=controls,
        flags=flags_of(query, scores.entries, _flags(query, study, controls, beside)),
        proxies=_proxies(query),
        unknown=_without_order(scores),
        gates=(
            share_of(
                utility.label,
                plain,
                share,
                beside,
                jackknifed=True,
            ),
            Fidelity.of(query, study, least).gate,
        ),
    )
    ruler, spans = Ruler.of(study.reported_clean), _spans(study)
    return with_evidence(rule_set, list(evidence_of(query, study, ruler, spans)))


def ranking(
    study: Study, rule_set: Contest, gradients_used: Mapping[str, str], family: Family | None = None
) -> TrackReport:
    """Return a ranking with its table and the comparison behind it: the main one, or that of a family.

    `gradients_used`: what `gradients` returns.
    """
    groups = {**study.groups, **dict.fromkeys(study.trained, "training")}
    opening = "" if family is None else f"{family.caption} "
    report = contest(
        rule_set,
        id="ranking" if family is None else family.id,
        title="Defenses by the worst attack on each image" if family is None else family.title,
        caption=f"{opening}An attack on one image moves its score past those of others. The table shows the share of "
        "the clean images of other photographs, behind the same defense, whose order with it changes. No rescaling of "
        "the scores changes that; D^D, which small scores make small, stands in the study tables. For each image the "
        "attack that reverses most pairs counts, at any strength, and whether it knows the defense or not; then comes "
        f"the mean over metrics and data sets. Without a defense ({BASELINE}) there is nothing that an attacker does "
        "not know. A training defense is compared on the metrics that it exists for, and so is its SROCC. Intervals of "
        "one entry take the clean images with which it is compared as given; differences of two entries, which share "
        f"them, hold their level.{study.half}",
        entry="defense",
        note=study.note,
    )
    facets = {"family": groups, "gradient": gradients_used}
    rows = tuple(
        row.model_copy(update={"facets": {name: by[row.label] for name, by in facets.items() if row.label in by}})
        for row in report.tables[0].rows
    )
    return replace(report, tables=[report.tables[0].model_copy(update={"rows": rows})])


def gradients(query: Query) -> dict[str, str]:
    """Return label of a defense -> in words, whose gradient the attacks that know it used."""
    columns = query("SELECT * FROM attack LIMIT 0") if {"attack", "evaluate"} <= query.steps else {}
    if "defense" not in columns or "gradient" not in query("SELECT * FROM evaluate LIMIT 0"):
        return {}
    draws = query("SELECT defense, max(samples) AS n FROM attack WHERE adaptive GROUP BY defense")
    averaged = {label: n for label, n in zip(draws["defense"], draws["n"].tolist(), strict=True) if n > 1}
    rows = query("SELECT DISTINCT defense, gradient FROM evaluate WHERE adaptive ORDER BY ALL")
    texts: dict[str, list[str]] = {}
    for label, gradient in zip(rows["defense"], rows["gradient"], strict=True):
        texts.setdefault(label, []).append(GRADIENTS.get(gradient, f"that of {gradient} in its place (BPDA)"))
    return {
        label: "; ".join([*phrases, *([f"mean over {averaged[label]} draws (EOT)"] if label in averaged else [])])
        for label, phrases in texts.items()
    }


def _flags(query: Query, study: Study, controls: Mapping[str, str], beside: Beside) -> dict[str, tuple[str, ...]]:
    """Return label -> reasons why the protection of a defense is an upper bound.

    Controls are never flagged as look-ups. Whether entries know the labels is not asked of training defenses, which may
    agree better with labels for good reasons, nor on folders of a user, whose labels nobody else knows.
    """
    reasons: dict[str, list[str]] = {}
    for label, failed in flags(query).items():
        reasons.setdefault(label, []).extend(f"audit of gradients: {check}" for check in failed)
    for label, unmoved in looked_up(study).items():
        if label not in controls:
            reasons.setdefault(label, []).extend(unmoved)
    if any("/folder" not in dataset for dataset in study.graded.values("dataset")):
        entries = (label for label in study.graded.blocks.entries if label not in {*controls, *study.trained})
        for label, why in may_know_labels(entries, beside):
            reasons.setdefault(label, []).append(why)
    return {label: tuple(lines) for label, lines in reasons.items()}


def _proxies(query: Query) -> tuple[str, ...]:
    """Return what stands in for people's labels and for published networks, in words."""
    if "clean" not in query.steps:
        return ()
    labels = query("SELECT DISTINCT proxy FROM clean WHERE proxy <> '' ORDER BY ALL")["proxy"]
    kinds = query(
        "SELECT labelled, count(DISTINCT metric) AS n FROM clean WHERE labelled <> '' GROUP BY ALL ORDER BY ALL"
    )
    metrics = zip(kinds["labelled"], kinds["n"].tolist(), strict=True)
    return (
        *(label if label == NO_LABELS else f"quality labels are {label}" for label in labels),
        *(f"{n} metric{'' if n == 1 else 's'}: {label}" for label, n in metrics),
    )


def over(scores: Blocks, *facets: str) -> Blocks:
    """Return the most pairs reversed of each image over all values of some facets, by the other facets.

    The measure is called ``score``.
    """
    naming = Naming()
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for c, condition in enumerate(scores.conditions):
        groups.setdefault(tuple((name, value) for name, value in condition.items() if name not in facets), []).append(c)
    units = [naming.joined(scores.units[c] for c in group) for group in groups.values()]
    strongest = [
        np.fmax.reduce(stacked(scores, scores.values["reversed"], group, seen, naming))
        for group, seen in zip(groups.values(), units, strict=True)
    ]
    shared = {id(names): names.astype(object) for names in units}
    return Blocks(
        scores.entries,
        tuple(map(dict, groups)),
        tuple(shared[id(names)] for names in units),
        {"score": tuple(strongest)},
    )


def reversed_shares(clean: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return for each image the share ``(n,)`` of its pairs whose order can be reversed; NaN where it has no pair.

    `clean` ``(n,)``: scores without an attack; `low` and `high` ``(n,)``: the lowest and the highest score that attacks
    reach, ``low <= clean <= high``. A pair of equal clean scores has no order and does not count. One image of a pair,
    or both, may be attacked: the order stays if `high` of the lower image is at most `low` of the other.
    """
    mask = np.isfinite(clean) & np.isfinite(low) & np.isfinite(high)
    shares = np.full(len(clean), np.nan)
    c, low, high = clean[mask], low[mask], high[mask]
    _, inverse, equal = np.unique(c, return_inverse=True, return_counts=True)
    # for each image: of those with its clean score, itself too, how many no attack lowers, and how many none raises
    tied_low, tied_high = (np.bincount(inverse, end == c, len(equal))[inverse] for end in (low, high))
    # it stays above the images with `high` at most its `low`; those with an equal clean score, no pairs, are taken off
    stays_above = np.searchsorted(np.sort(high), low, side="right") - (low == c) * tied_high
    stays_below = len(c) - np.searchsorted(np.sort(low), high, side="left") - (high == c) * tied_low
    pairs = len(c) - equal[inverse]
    with np.errstate(invalid="ignore"):
        shares[mask] = 1 - (stays_above + stays_below) / pairs
    return shares


def _scores(study: Study) -> Blocks:
    """Return the measures of every attack on each defense; the facet ``dataset`` has no fields that draw a subset.

    Imported scores take part only if nothing was computed: they are of other images, which computed entries lack.
    """
    measures = ("dd", "d", "gain", "score", "defended")
    subset = study.reported.of(*study.chosen, *study.trained).where(attacker=KINDS)
    blocks = subset.where(type=set(subset.values("type")) - {EXTERNAL} or EXTERNAL).blocks_of(*measures)
    named = tuple({**condition, "dataset": _set_of(study, blocks, c)} for c, condition in enumerate(blocks.conditions))
    ruler, spans = Ruler.of(study.reported_clean), _spans(study)
    keys = [(condition["dataset"], condition["metric"]) for condition in named]
    spreads = {key: ruler.spreads(key, blocks.entries, spans[key[1]]) for key in dict.fromkeys(keys)}
    defended, score, dd = (blocks.values[name] for name in ("defended", "score", "dd"))

    def shift(c: int) -> np.ndarray:
        return np.asarray(dd[c] / 100 * spans[keys[c][1]] / spreads[keys[c]][:, None])

    def reversed_shares(c: int) -> np.ndarray:
        share = ruler.reversed_shares(keys[c], blocks.entries, blocks.units[c], defended[c], score[c])
        return np.where(np.isnan(spreads[keys[c]])[:, None], np.nan, share).astype(np.float32)

    derived = {"shift": Lazy(len(named), shift), "reversed": tuple(reversed_shares(c) for c in range(len(named)))}
    return replace(blocks, conditions=named, values={**blocks.values, **derived})


def _spans(study: Study) -> dict[str, float]:
    """Return the range of each metric."""
    blocks = study.attacked.blocks
    widths = {}
    for c, condition in enumerate(blocks.conditions):
        width = np.asarray(blocks.about["upper"][c] - blocks.about["lower"][c], dtype=float)
        widths[condition["metric"]] = float(width[np.isfinite(width)][0])
    return widths


def _without_order(scores: Blocks) -> dict[str, str]:
    """Return label -> reason for the entries without pairs reversed, because their clean scores have no order."""
    some = [~np.isnan(array).all(axis=1) for array in scores.values["reversed"]]
    flags = np.any(some, axis=0) if some else np.zeros(len(scores.entries), dtype=bool)
    return {label: NO_ORDER for label, ordered in zip(scores.entries, flags, strict=True) if not ordered}


def _set_of(study: Study, blocks: Blocks, condition: int) -> str:
    """Return the data set of a condition without the fields that draw a subset; if it has no image, as it is named."""
    units = blocks.units[condition]
    return study.sources[units[0]][1] if len(units) else blocks.conditions[condition]["dataset"]


def _worst(
    scores: Blocks, settings: Sequence[int], clean: Blocks, lines: Sequence[int], rows: Sequence[int], naming: Naming
) -> Blocks:
    """Return the worst of each image under some settings, as one condition with the measures of `Worst.part`.

    `lines`: the conditions of `clean` with the same data set and metric; `rows`: the positions of the entries in
    `clean`.
    """
    units = naming.joined(scores.units[c] for c in settings)
    unattacked = np.fmax.reduce(stacked(clean, clean.values["score"], lines, units, naming)[:, rows])
    largest = {name: np.full(unattacked.shape, np.nan) for name in ("score", *LARGEST)}
    low, high = unattacked.copy(), unattacked.copy()
    for c in settings:
        positions = naming.where(scores.units[c], units)
        at = slice(None) if positions is None else positions[1]
        score, dd, *others = (scores.values[name][c] for name in largest)
        worse = (dd > largest["dd"][:, at]) | np.isnan(largest["dd"][:, at])
        worse &= ~np.isnan(dd) | np.isnan(largest["score"][:, at])  # a score without a D^D never replaces another
        largest["score"][:, at] = np.where(worse, score, largest["score"][:, at])
        largest["dd"][:, at] = np.where(worse, dd, largest["dd"][:, at])
        for name, numbers in zip(LARGEST[1:], others, strict=True):
            largest[name][:, at] = np.fmax(largest[name][:, at], numbers)
        low[:, at], high[:, at] = np.fmin(low[:, at], score), np.fmax(high[:, at], score)
    shares = [100 * reversed_shares(*ends) for ends in zip(unattacked, low, high, strict=True)]
    values = {**largest, "both": np.array(shares)}
    about = {
        name: np.fmax.reduce(stacked(clean, [array[None] for array in clean.about[name]], lines, units, naming))[0]
        for name in ("mos", "sign")
    }
    return Blocks(
        scores.entries,
        ({},),
        (units.astype(object),),
        {name: (array,) for name, array in values.items()},
        {name: (array,) for name, array in about.items()},
    )


def stacked(
    blocks: Blocks, values: Sequence[np.ndarray], conditions: Sequence[int], units: np.ndarray, naming: Naming
) -> np.ndarray:
    """Return a measure under some conditions, over the same units: ``(conditions, rows, units)``, NaN where missing.

    `values`: the measure under each condition of the blocks, ``(rows, units of the condition)``.
    """
    arrays = [values[c] for c in conditions]
    stack = np.full((len(conditions), len(arrays[0]), len(units)), np.nan)
    for layer, numbers, c in zip(stack, arrays, conditions, strict=True):
        where = naming.where(blocks.units[c], units)
        if where is None:
            layer[:] = numbers
        else:
            layer[:, where[1]] = numbers[:, where[0]]
    return stack
