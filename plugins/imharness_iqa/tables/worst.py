"""Who wins: whose images the worst attack moves past fewest others, beside the order that is kept without an attack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from imharness.contests import Contest, contest, controls_of, flags_of, share_of, with_evidence
from imharness.tables import Blocks, Column, Lazy, Wins
from imharness.tracks import Query, TrackReport
from imharness_iqa.audit import flags
from imharness_iqa.folders import NO_LABELS
from imharness_iqa.tables.data import BASELINE, EXTERNAL, IMPORTED_BASELINES, KINDS, MEASURES, Study
from imharness_iqa.tables.fidelity import Fidelity
from imharness_iqa.tables.handed_in import handed_in
from imharness_iqa.tables.naming import Naming
from imharness_iqa.tables.order import Ruler
from imharness_iqa.tables.part import Part
from imharness_iqa.tables.unmoved import looked_up

OVER = ("attack", "attacker", "strength", "type")
"""The facets over which an attacker takes the worst, image by image."""
LARGEST = ("dd", "turned", "shift", "d", "gain")
"""The measures of which the largest that any attack reaches is shown."""
GRADIENTS = {"own": "its own", "identity": "that of the identity in its place (BPDA)", "none": "queries alone"}
"""How an attack had the gradient of a defense, as rows name it -> in words."""
CLAIM = (
    "Attackers who may know the defense and attack one image change its order with {protection}% of the others behind "
    "{winner} at worst, and with {without}% without a defense; where nobody attacks, its SROCC with the quality labels "
    "is {utility} of {plain}."
)
NO_ORDER = "not defined: the scores of clean images are nearly equal, or from fewer than two photographs"


@dataclass(frozen=True)
class Worst:
    """What attacks do to each defense at worst. `study`: the finished cells; `rules`: what is ranked, and how."""

    study: Study
    rules: Contest

    @cached_property
    def part(self) -> Part:
        """The worst of each image, by data set and metric, over the settings that count in the ranking.

        ``turned``, ``shift``, ``dd``, ``d`` and ``gain``: the largest of any attack. ``score``: what the attack with
        the largest D^D leaves. ``both``: the share of the pairs that an image is in whose order attacks on one image
        or on both can turn, %.
        """
        scores, clean = self.rules.scores, self.study.reported_clean.blocks
        rows = [clean.entries.index(label) for label in scores.entries]
        groups: dict[tuple[str, str], list[int]] = {}
        for c in self.rules.settings:
            groups.setdefault((scores.conditions[c]["dataset"], scores.conditions[c]["metric"]), []).append(c)
        lines: dict[tuple[str, str], list[int]] = {}
        for c, own in enumerate(clean.conditions):
            lines.setdefault((_set_of(self.study, clean, c), own["metric"]), []).append(c)
        naming = Naming()
        found = [_worst(scores, own, clean, lines[key], rows, naming) for key, own in groups.items()]
        joined = Blocks(
            scores.entries,
            tuple({"dataset": dataset, "metric": metric} for dataset, metric in groups),
            tuple(own.units[0] for own in found),
            {name: tuple(own.values[name][0] for own in found) for name in ("score", *LARGEST, "both")},
            {name: tuple(own.about[name][0] for own in found) for name in ("mos", "sign")},
        )
        return Part.whole(joined, self.study.sources)


def rules(query: Query, study: Study, share: float, least: float = 0.0) -> Contest:
    """Return what the track ranks by.

    `share`: the largest share of the undefended SROCC that a winner may lose. `least`: the SSIM of D(x) to x that it
    must keep.
    """
    spec = MEASURES["turned"]
    wins = Wins(
        id="wins-turned",
        title="Whose images attacks move past fewer others",
        about=f"fewer pairs turned ({spec.description.rstrip('.')})",
        families={**dict.fromkeys(study.trained, "training"), **study.groups},
    )
    protection = Column(**spec.model_dump(), of="turned", wins=wins, cluster="photograph")
    utility = Column(
        "srocc",
        "SROCC, clean",
        "Spearman correlation of f(D(x)) with the quality labels, mean over metrics.",
        "higher",
        value=lambda label: study.reported_clean.of(label).correlation(resampled=True),
        unit="image",
        cluster_unit="photograph",
    )
    scores = _scores(study)
    undefended = [label for label in (BASELINE, *IMPORTED_BASELINES) if label in scores.entries] or [BASELINE]
    plain = undefended[0]
    controls = {**dict.fromkeys(undefended, "no defense"), **controls_of(query)}
    own = Contest(
        scores=scores,
        protection=protection,
        utility=utility,
        undefended=plain,
        claim=CLAIM,
        over=OVER,
        share=share,
        controls=controls,
        flags=flags_of(query, scores.entries, _flags(query, study, controls)),
        proxies=_proxies(query),
        unknown=_without_order(scores),
        gates=(
            share_of(
                utility.label,
                plain,
                share,
                lambda label: study.reported_clean.correlations_beside(label, plain),
                jackknifed=True,
            ),
            Fidelity.of(query, study, least).gate,
        ),
    )
    ruler, spans = Ruler.of(study.reported_clean), _spans(study)
    return with_evidence(own, list(handed_in(query, study, ruler, spans)))


def ranking(study: Study, own: Contest, had: Mapping[str, str]) -> TrackReport:
    """Return the main table with its ranking and the comparison behind it. `had`: what `gradients` says."""
    groups = {**study.groups, **dict.fromkeys(study.trained, "training")}
    found = contest(
        own,
        id="ranking",
        title="Defenses by the worst attack on each image",
        caption="An attack on one image moves its score past those of others. The table shows the share of the clean "
        "images of other photographs, behind the same defense, whose order with it changes. No rescaling of the scores "
        "changes that; D^D, which small scores make small, stands in the study tables. For each image the attack that "
        "turns most pairs counts, at any strength, and whether it knows the defense or not; then comes the mean over "
        f"metrics and data sets. Without a defense ({BASELINE}) there is nothing that an attacker does not know. "
        "A training defense is compared on the metrics that it exists for, and so is its SROCC. Intervals of one entry "
        "take the clean images with which it is compared as given; differences of two entries, which share them, hold "
        f"their level.{study.half}",
        entry="defense",
        note=study.note,
    )
    facets = {"family": groups, "gradient": had}
    rows = tuple(
        row.model_copy(update={"facets": {name: by[row.label] for name, by in facets.items() if row.label in by}})
        for row in found.tables[0].rows
    )
    return replace(found, tables=[found.tables[0].model_copy(update={"rows": rows})])


def gradients(query: Query) -> dict[str, str]:
    """Return in words how attacks that know a defense had its gradient, by the label of the defense."""
    known = query("SELECT * FROM attack LIMIT 0") if {"attack", "evaluate"} <= query.steps else {}
    if "defense" not in known or "gradient" not in query("SELECT * FROM evaluate LIMIT 0"):
        return {}
    draws = query("SELECT defense, max(samples) AS n FROM attack WHERE adaptive GROUP BY defense")
    averaged = {label: n for label, n in zip(draws["defense"], draws["n"].tolist(), strict=True) if n > 1}
    rows = query("SELECT DISTINCT defense, gradient FROM evaluate WHERE adaptive ORDER BY ALL")
    found: dict[str, list[str]] = {}
    for label, own in zip(rows["defense"], rows["gradient"], strict=True):
        found.setdefault(label, []).append(GRADIENTS.get(own, f"that of {own} in its place (BPDA)"))
    return {
        label: "; ".join([*own, *([f"mean over {averaged[label]} draws (EOT)"] if label in averaged else [])])
        for label, own in found.items()
    }


def _flags(query: Query, study: Study, controls: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return why the protection of defenses is an upper bound; a control is no look-up, whatever it answers."""
    audited = {
        label: tuple(f"audit of gradients: {check}" for check in failed) for label, failed in flags(query).items()
    }
    known = {label: found for label, found in looked_up(study).items() if label not in controls}
    return {label: (*audited.get(label, ()), *known.get(label, ())) for label in audited | known}


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
    """Return the most pairs turned for each image over some facets, as the measure ``score`` by the other facets."""
    naming = Naming()
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for c, own in enumerate(scores.conditions):
        groups.setdefault(tuple((name, value) for name, value in own.items() if name not in facets), []).append(c)
    units = [naming.joined(scores.units[c] for c in own) for own in groups.values()]
    found = [
        np.fmax.reduce(stacked(scores, scores.values["turned"], own, seen, naming))
        for own, seen in zip(groups.values(), units, strict=True)
    ]
    shared = {id(own): own.astype(object) for own in units}
    return Blocks(
        scores.entries, tuple(map(dict, groups)), tuple(shared[id(own)] for own in units), {"score": tuple(found)}
    )


def turned(clean: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return for each image the share ``(n,)`` of its pairs whose order can be turned; NaN where it has no pair.

    `clean` ``(n,)``: scores without an attack; `low` and `high` ``(n,)``: the ends of the scores that can be reached,
    ``low <= clean <= high``. A pair of equal clean scores has no order and does not count. One image of a pair, or
    both, may be attacked: the order stays if the high end of the lower image does not pass the low end of the other.
    """
    kept = np.isfinite(clean) & np.isfinite(low) & np.isfinite(high)
    found = np.full(len(clean), np.nan)
    c, low, high = clean[kept], low[kept], high[kept]
    _, place, equal = np.unique(c, return_inverse=True, return_counts=True)
    tied = [np.bincount(place, end == c, len(equal))[place] for end in (low, high)]
    above = np.searchsorted(np.sort(high), low, side="right") - (low == c) * tied[1]
    below = len(c) - np.searchsorted(np.sort(low), high, side="left") - (high == c) * tied[0]
    pairs = len(c) - equal[place]
    with np.errstate(invalid="ignore"):
        found[kept] = 1 - (above + below) / pairs
    return found


def _scores(study: Study) -> Blocks:
    """Return what every attack did to each defense; the facet ``dataset`` is the data set, whatever was drawn of it.

    Imported scores take part only where nothing was computed: they are of other images, so that computed entries would
    lack them.
    """
    measures = ("dd", "d", "gain", "score", "defended")
    part = study.reported.of(*study.chosen, *study.trained).where(attacker=KINDS)
    found = part.where(type=set(part.values("type")) - {EXTERNAL} or EXTERNAL).blocks_of(*measures)
    named = tuple({**own, "dataset": _set_of(study, found, c)} for c, own in enumerate(found.conditions))
    ruler, spans = Ruler.of(study.reported_clean), _spans(study)
    keys = [(own["dataset"], own["metric"]) for own in named]
    spreads = {key: ruler.spreads(key, found.entries, spans[key[1]]) for key in dict.fromkeys(keys)}
    defended, score, dd = (found.values[name] for name in ("defended", "score", "dd"))

    def shift(c: int) -> np.ndarray:
        return np.asarray(dd[c] / 100 * spans[keys[c][1]] / spreads[keys[c]][:, None])

    def turned(c: int) -> np.ndarray:
        share = ruler.turned(keys[c], found.entries, found.units[c], defended[c], score[c])
        return np.where(np.isnan(spreads[keys[c]])[:, None], np.nan, share).astype(np.float32)

    made = {"shift": Lazy(len(named), shift), "turned": tuple(turned(c) for c in range(len(named)))}
    return replace(found, conditions=named, values={**found.values, **made})


def _spans(study: Study) -> dict[str, float]:
    """Return the range of each metric."""
    blocks = study.attacked.blocks
    found = {}
    for c, own in enumerate(blocks.conditions):
        width = np.asarray(blocks.about["upper"][c] - blocks.about["lower"][c], dtype=float)
        found[own["metric"]] = float(width[np.isfinite(width)][0])
    return found


def _without_order(scores: Blocks) -> dict[str, str]:
    """Return why an entry has no number, for those that were attacked and whose clean scores have no order."""
    some = [~np.isnan(own).all(axis=1) for own in scores.values["turned"]]
    known = np.any(some, axis=0) if some else np.zeros(len(scores.entries), dtype=bool)
    return {label: NO_ORDER for label, ordered in zip(scores.entries, known, strict=True) if not ordered}


def _set_of(study: Study, blocks: Blocks, condition: int) -> str:
    """Return the data set of a condition without its subset; its own name if nothing is left of it."""
    units = blocks.units[condition]
    return study.sources[units[0]][1] if len(units) else blocks.conditions[condition]["dataset"]


def _worst(
    scores: Blocks, settings: Sequence[int], clean: Blocks, lines: Sequence[int], rows: Sequence[int], naming: Naming
) -> Blocks:
    """Return the worst of each image under some settings, as one condition.

    `lines`: the conditions of the clean scores of the same data set and metric; `rows`: the places of entries there.
    """
    units = naming.joined(scores.units[c] for c in settings)
    plain = np.fmax.reduce(stacked(clean, clean.values["score"], lines, units, naming)[:, rows])
    found = {name: np.full(plain.shape, np.nan) for name in ("score", *LARGEST)}
    low, high = plain.copy(), plain.copy()
    for c in settings:
        known = naming.where(scores.units[c], units)
        at = slice(None) if known is None else known[1]
        score, dd, *others = (scores.values[name][c] for name in found)
        worse = (dd > found["dd"][:, at]) | np.isnan(found["dd"][:, at])
        worse &= ~np.isnan(dd) | np.isnan(found["score"][:, at])
        found["score"][:, at] = np.where(worse, score, found["score"][:, at])
        found["dd"][:, at] = np.where(worse, dd, found["dd"][:, at])
        for name, own in zip(LARGEST[1:], others, strict=True):
            found[name][:, at] = np.fmax(found[name][:, at], own)
        low[:, at], high[:, at] = np.fmin(low[:, at], score), np.fmax(high[:, at], score)
    shares = [100 * turned(*own) for own in zip(plain, low, high, strict=True)]
    values = {**found, "both": np.array(shares)}
    about = {
        name: np.fmax.reduce(stacked(clean, [own[None] for own in clean.about[name]], lines, units, naming))[0]
        for name in ("mos", "sign")
    }
    return Blocks(
        scores.entries,
        ({},),
        (units.astype(object),),
        {name: (own,) for name, own in values.items()},
        {name: (own,) for name, own in about.items()},
    )


def stacked(
    blocks: Blocks, values: Sequence[np.ndarray], conditions: Sequence[int], units: np.ndarray, naming: Naming
) -> np.ndarray:
    """Return numbers under some conditions ``(conditions, rows, units)``, NaN where there is none."""
    given = [values[c] for c in conditions]
    found = np.full((len(conditions), len(given[0]), len(units)), np.nan)
    for own, numbers, c in zip(found, given, conditions, strict=True):
        where = naming.where(blocks.units[c], units)
        if where is None:
            own[:] = numbers
        else:
            own[:, where[1]] = numbers[:, where[0]]
    return found
