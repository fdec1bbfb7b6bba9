"""Reads scores of single images that someone else measured, and checks them line by line."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from imharness.errors import HarnessError, UsageError
from imharness.files import is_plain, number, read_csv, said_of_spellings
from imharness.tracks import Component
from imharness_iqa.opinions import said_of_opinions
from imharness_iqa.signs import FEWEST, said_of_spread, said_of_worse

NAMES = ("image", "metric", "attack", "strength", "defense")
SCORES = ("clear", "attacked", "defended_clear", "defended_attacked")
SHOWN, LONGEST = 20, 300
"""The most columns that a message lists, and the most characters of a name."""
OWN = "harness/"
"""The prefix of the names of the harness's defenses, which imported rows lose: others measured them."""
APART = 0.01
"""The largest difference of two clean scores of an image, as machines differ, as a share of the metric's range."""
MEASURED = ("name", "metric", "method", "strength", "defense", "adaptive", "score", "source", "attacked", "defended")
"""The columns that show that a table is a copy of an earlier one: rows that agree in all of them are the same."""
OPTIONAL = ("mos", "adaptive", "reference")
TRUE, FALSE = ("1", "true", "yes", "adaptive"), ("", "0", "false", "no", "fixed")


def read_external(
    path: Path, renamed: Sequence[str], bounds: Sequence[str], installed: Callable[[str, str], Component]
) -> dict[str, list]:
    """Return the rows of a file as columns of the track's imported scores, all of one length.

    They are name, photograph, dataset, metric, method, strength, defense, adaptive, the scores, the range of the
    metric, and the sign: +1 where a higher score is better, else -1. A clean score must lie within the range; attacked
    and defended ones may lie outside.

    Args:
        path: a CSV file with the columns `NAMES`, `SCORES` and, if they are there, `OPTIONAL`.
        renamed: texts ``COLUMN=NAME``, for columns that have another name in the file.
        bounds: texts ``METRIC=WORST:BEST``, for metrics that are not installed.
        installed: finds a component by kind and name.

    Raises:
        UsageError: the file cannot be read; the message names the column or the line.
    """
    names = _renamed(path, renamed)
    metric_bounds = dict(_bounds(text) for text in bounds)
    values_by_column: dict[str, list] = {column: [] for column in (*NAMES, *SCORES, *OPTIONAL)}
    lines: dict[tuple, int] = {}  # what identifies a row -> its line, in the order of rows
    table = read_csv(path)
    columns = {column: table.column(name) for column, name in names.items()}
    for column, name in names.items():
        if not columns[column] and (column not in OPTIONAL or name != column):
            have = ", ".join(map(repr, table.columns[:SHOWN])) or "none"
            raise UsageError(f"{path} has no column {name}; it has: {have}. Use --map {column}=NAME.")
    for line, row in table.rows():
        read = {name: row[column].strip() if column else "" for name, column in columns.items()}
        _take(path, line, {**read, "defense": read["defense"].removeprefix(OWN)}, values_by_column, lines)
    if not lines:
        raise UsageError(f"{path} has no rows.")
    for metric in sorted(set(values_by_column["metric"]) - set(metric_bounds)):
        metric_bounds[metric] = _installed_bounds(installed, metric)
    for line, metric, value in zip(lines.values(), values_by_column["metric"], values_by_column["clear"], strict=True):
        if not min(metric_bounds[metric]) <= value <= max(metric_bounds[metric]):
            raise UsageError(
                f"{path}, line {line}: clear is {value:g}, outside the range of {metric}, "
                f"{min(metric_bounds[metric]):g} to {max(metric_bounds[metric]):g}."
            )
    for column in ("image", "reference", "attack", "strength", "defense"):
        spelled = said_of_spellings(values_by_column[column], f"names in the column {names[column]}")
        if spelled and columns[column]:
            warnings.warn(f"{path}: {spelled}", stacklevel=2)
    _refuse_other_facts(path, list(lines.values()), values_by_column, metric_bounds)
    sentences = [
        *_said_of_none(values_by_column, metric_bounds),
        *_said_of_signs(values_by_column, metric_bounds),
        *_said_of_opinions(path, values_by_column, metric_bounds),
        *_said_of_ranges(values_by_column, metric_bounds),
    ]
    for sentence in filter(None, sentences):
        warnings.warn(f"{path}: {sentence}", stacklevel=2)
    return {
        "name": values_by_column["image"],
        "photograph": values_by_column["reference"],
        "dataset": [f"external: {path.stem}"] * len(values_by_column["image"]),
        "metric": values_by_column["metric"],
        "method": values_by_column["attack"],
        "strength": values_by_column["strength"],
        "defense": [f"{name} (external)" for name in values_by_column["defense"]],
        "adaptive": values_by_column["adaptive"],
        "score": values_by_column["defended_attacked"],
        "source": values_by_column["clear"],
        "attacked": values_by_column["attacked"],
        "defended": values_by_column["defended_clear"],
        "mos": values_by_column["mos"],
        "lower": [min(metric_bounds[m]) for m in values_by_column["metric"]],
        "upper": [max(metric_bounds[m]) for m in values_by_column["metric"]],
        "sign": [1 if metric_bounds[m][0] < metric_bounds[m][1] else -1 for m in values_by_column["metric"]],
    }


def outside_range(rows: Mapping[str, Sequence[float]]) -> int:
    """Return how many scores of attacked and of defended images lie outside the range of their metric."""
    lower, upper = (np.array(rows[column], dtype=float) for column in ("lower", "upper"))
    scores = np.array([rows[column] for column in ("attacked", "defended", "score")], dtype=float)
    return int(((scores < lower) | (scores > upper)).sum())


def _refuse_other_facts(
    path: Path, lines: Sequence[int], columns: Mapping[str, list], bounds: Mapping[str, tuple[float, float]]
) -> None:
    """Raise `UsageError` if an image has another clean score, opinion score or reference in a later line."""
    before: dict[tuple[str, ...], tuple[int, float | str]] = {}  # column and names -> line and value seen first
    for i, line in enumerate(lines):
        image, metric = columns["image"][i], columns["metric"][i]
        tolerance = APART * (max(bounds[metric]) - min(bounds[metric]))
        for key, value in (
            (("clear", image, metric), columns["clear"][i]),
            (("mos", image), columns["mos"][i]),
            (("reference", image), columns["reference"][i]),
        ):
            first, other = before.setdefault(key, (line, value))
            if isinstance(value, str) or isinstance(other, str):
                differs = value != other
            else:
                differs = abs(value - other) > (tolerance if key[0] == "clear" else 0)
            if differs:
                raise UsageError(
                    f"{path}, line {line}: {key[0]} of {', '.join(key[1:])} is {value} here and {other} in line "
                    f"{first}; it is the same whatever the attack and the defense. Are columns or rows mixed up?"
                )


def _said_of_none(columns: Mapping[str, list], bounds: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return a sentence if rows of the defense "none" have other scores behind it than without it."""
    rows = [i for i, defense in enumerate(columns["defense"]) if defense == "none"]
    other = [
        i
        for i in rows
        if max(abs(columns[f"defended_{kind}"][i] - columns[kind][i]) for kind in ("clear", "attacked"))
        > APART * np.ptp(bounds[columns["metric"][i]])
    ]
    if not other:
        return []
    return [
        f"{len(other)} of {len(rows)} rows of the defense none, such as that of {columns['image'][other[0]]}, have "
        "other scores behind it than without it, although it changes no image; are columns mixed up?"
    ]


def _said_of_signs(columns: Mapping[str, list], bounds: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return a sentence for each metric whose attacks make most images worse, or move none."""
    moved: dict[str, dict[tuple[str, ...], float]] = {}
    for i, metric in enumerate(columns["metric"]):
        worst, best = bounds[metric]
        attack = tuple(columns[column][i] for column in ("image", "attack", "strength"))
        moved.setdefault(metric, {})[attack] = (columns["attacked"][i] - columns["clear"][i]) * np.sign(best - worst)
    sentences = []
    for metric, by_attack in moved.items():
        changes = np.array(list(by_attack.values()))
        if len(changes) >= FEWEST and not changes.any():
            sentences.append(f"by {metric} no attack moved the score of any image; is attacked a copy of clear?")
        else:
            question = f"are clear and attacked swapped, or is the range of {metric} given from best to worst?"
            sentences.append(said_of_worse(metric, changes, question))
    return sentences


def _said_of_opinions(path: Path, columns: Mapping[str, list], bounds: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return a sentence for each metric whose clean scores follow opinions the other way round."""
    clean = {
        (metric, image): (clear * np.sign(bounds[metric][1] - bounds[metric][0]), mos)
        for metric, image, clear, mos in zip(*(columns[c] for c in ("metric", "image", "clear", "mos")), strict=True)
    }
    by_metric: dict[str, list[tuple[float, float]]] = {}
    for (metric, _), pair in clean.items():
        by_metric.setdefault(metric, []).append(pair)
    return [said_of_opinions(metric, path.stem, *np.array(pairs).T) for metric, pairs in by_metric.items()]


def _said_of_ranges(columns: Mapping[str, list], bounds: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return a sentence for each metric whose scores use hardly any of its range."""
    scores: dict[str, list[float]] = {}
    images: dict[str, set[str]] = {}
    for i, metric in enumerate(columns["metric"]):
        images.setdefault(metric, set()).add(columns["image"][i])
        scores.setdefault(metric, []).extend(columns[kind][i] for kind in SCORES)
    return [
        said_of_spread(metric, np.array(values), bounds[metric], len(images[metric]))
        for metric, values in scores.items()
    ]


def _take(path: Path, line: int, read: dict[str, str], columns: dict[str, list], lines: dict[tuple, int]) -> None:
    """Check one line of the file, and append its values to `columns` and its number to `lines`."""
    for column in (*NAMES, "reference"):
        if not read[column] and column != "reference":
            raise UsageError(f"{path}, line {line}: {column} is empty.")
        if not is_plain(read[column]) or len(read[column]) > LONGEST:
            raise UsageError(
                f"{path}, line {line}: {column} must be a single line of at most {LONGEST} printable characters."
            )
    flag = read["adaptive"].lower()
    if flag not in (*TRUE, *FALSE):
        raise UsageError(f"{path}, line {line}: adaptive is {read['adaptive']!r:.60}; write 0 or 1.")
    key = (*(read[column] for column in NAMES), flag in TRUE)
    if key in lines:
        raise UsageError(
            f"{path}, line {line}: the same image, metric, attack, strength and defense as line {lines[key]}."
        )
    lines[key] = line
    for column in NAMES:
        columns[column].append(read[column])
    for column in SCORES:
        columns[column].append(number(read[column], f"{path}, line {line}: {column}"))
    columns["mos"].append(number(read["mos"], f"{path}, line {line}: mos") if read["mos"] else float("nan"))
    columns["adaptive"].append(flag in TRUE)
    columns["reference"].append(read["reference"] or read["image"])


def _renamed(path: Path, renamed: Sequence[str]) -> dict[str, str]:
    """Return column -> its name in the file."""
    names = {column: column for column in (*NAMES, *SCORES, *OPTIONAL)}
    for pair in renamed:
        column, equals, name = pair.partition("=")
        if not equals or column not in names or not name:
            raise UsageError(f"cannot read --map {pair!r}; write COLUMN=NAME, COLUMN one of {', '.join(names)}.")
        names[column] = name
    return names


def _bounds(text: str) -> tuple[str, tuple[float, float]]:
    """Return a metric and its range, from the worst score to the best."""
    metric, _, span = text.rpartition("=")
    try:
        worst, best = (number(piece, "a bound") for piece in span.split(":"))
    except (UsageError, ValueError):
        worst = best = 0.0
    if not metric or worst == best:
        raise UsageError(f"cannot read --bounds {text!r}; write METRIC=WORST:BEST, two different numbers.")
    return metric, (worst, best)


def _installed_bounds(installed: Callable[[str, str], Component], metric: str) -> tuple[float, float]:
    """Return the range of an installed metric, from the worst score to the best."""
    try:
        component = installed("metric", metric)
        return component.bounds[:: component.closeness]  # -1: lower is better, so the upper bound is the worst score
    except HarnessError:
        raise UsageError(f"the range of metric {metric!r} is not known; give --bounds {metric}=WORST:BEST.") from None
