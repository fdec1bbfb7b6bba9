"""A folder of attacked images that exist already, and its index.

The folder is one that `harness iqa export` wrote, or is laid out as the images of the authors of Guardians of Image
Quality are: ``[PRESET/]ATTACK/METRIC/IMAGE.png``, with the originals in another folder.
"""

import csv
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from imharness.errors import Unavailable, UsageError
from imharness.files import is_image_name, read_csv
from imharness.tracks import Component
from imharness_iqa.adversarial import INDEX
from imharness_iqa.folders import read_scores

NEEDED = ("file", "original", "name", "metric", "attack", "strength")
OPTIONAL = ("dataset", "knows", "mos", "photograph", "proxy")
"""The columns of an index."""
NAMES, SCORES = ("image_name", "image", "name", "filename"), ("MOS", "mos", "score")
"""What the columns of a table of opinion scores may be called."""
HOW = "harness iqa import-images FOLDER"
JPEG = b"\xff\xd8\xff"
"""The first bytes of a JPEG file."""
PUBLISHED = {"koncept": "koncept512"}
"""Folders of metrics in the layout of Guardians of Image Quality that have another name than the metric has here."""
Value = TypeVar("Value")


class Condition(NamedTuple):
    """The metric (its label) that images were attacked on, the attack, and its strength as the index names it."""

    metric: str
    attack: str
    strength: str


@dataclass(frozen=True)
class AttackedFolder:
    """The content of an index.

    `originals`: file -> its facts by column; `attacked`: condition -> original file -> attacked file. `knowing`: how
    many images were attacked with knowledge of a defense; these are in neither of the two.
    """

    originals: Mapping[str, Mapping[str, str]]
    attacked: Mapping[Condition, Mapping[str, str]]
    knowing: int = 0

    @property
    def sets(self) -> list[list[str]]:
        """The different sets of originals, the largest first: each condition has one, as an attack may lack images."""
        distinct = {tuple(sorted(files)) for files in self.attacked.values()}
        return [list(files) for files in sorted(distinct, key=lambda files: (-len(files), files))]

    def set_of(self, condition: Condition) -> int:
        """Return the number of a condition's set of originals in `sets`."""
        return self.sets.index(sorted(self.attacked[condition]))

    def strengths(self, metric: str, attack: str, number: int) -> list[str]:
        """Return the strengths of an attack on a metric that have the set of originals with this number, in order."""
        return [
            condition.strength
            for condition in self.attacked
            if (condition.metric, condition.attack) == (metric, attack) and self.set_of(condition) == number
        ]


def attack_name(label: str) -> str:
    """Return the name of an attack with parentheses in place of brackets, which the settings of a label cannot have."""
    return label.replace("[", "(").replace("]", ")")


def attacked_folder(folder: Path) -> AttackedFolder:
    """Return the content of a folder's index; raises `Unavailable` without one, `UsageError` for a wrong line."""
    index = folder / INDEX
    if not index.is_file():
        raise Unavailable(f"{folder} has no {INDEX}", HOW)
    status = index.stat()
    return _read(index, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _read(index: Path, size: int, modified: int) -> AttackedFolder:
    """Return the content of an index; a file of another size or time is read again."""
    table = read_csv(index)
    if missing := [name for name in NEEDED if not table.column(name)]:
        raise UsageError(f"{index} has no column {missing[0]}; it needs {', '.join(NEEDED)}.")
    originals: dict[str, dict[str, str]] = {}
    attacked: dict[Condition, dict[str, str]] = {}
    lines: dict[str, int] = {}
    knowing = 0
    for line, row in table.rows():
        read = {name: row.get(name, "") or "" for name in (*NEEDED, *OPTIONAL)}
        if empty := [name for name in NEEDED if not read[name]]:
            raise UsageError(f"{index}, line {line}: {empty[0]} is empty.")
        if lines.setdefault(read["file"], line) != line:
            raise UsageError(
                f"{index}, line {line}: {read['file']} is the attacked image of line {lines[read['file']]}, too; are "
                "the columns file and original swapped?"
            )
        facts = {name: read[name] for name in ("name", "dataset", "mos", "photograph", "proxy")}
        if originals.setdefault(read["original"], facts) != facts:
            raise UsageError(f"{index}, line {line}: {read['original']} has another name or score in an earlier line.")
        if read["knows"]:
            knowing += 1
            continue
        condition = Condition(read["metric"], attack_name(read["attack"]), read["strength"])
        if read["original"] in attacked.setdefault(condition, {}):
            raise UsageError(f"{index}, line {line}: a second image of {read['original']} for {' '.join(condition)}.")
        attacked[condition][read["original"]] = read["file"]
    if not attacked:
        raise UsageError(f"{index} lists no image that was attacked without knowledge of a defense.")
    return AttackedFolder(_with_unique_names(originals), attacked, knowing)


def _with_unique_names(originals: Mapping[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Return the originals; where several have one name, the name of the data set is put before it."""
    counts: dict[str, int] = {}
    for facts in originals.values():
        counts[facts["name"]] = counts.get(facts["name"], 0) + 1
    return {
        file: {**facts, "name": facts["name"] if counts[facts["name"]] == 1 else f"{facts['dataset']}: {facts['name']}"}
        for file, facts in originals.items()
    }


def index_of(folder: Path, originals: Path, scores: Path | None, metrics: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the lines of an index of ``[PRESET/]ATTACK/METRIC/IMAGE.png`` below a folder.

    Args:
        folder: the attacked images.
        originals: the folder of originals, each with the name of its attacked images, whatever its extension.
        scores: a table of opinion scores (image_name, MOS); None without any.
        metrics: name of a folder -> label of the metric.

    Raises:
        UsageError: there are no such images, an original or a score is missing or there twice.
    """
    files = _by_stem(originals, ((path, path) for path in sorted(originals.iterdir()) if is_image_name(path.name)))
    table = None if scores is None else read_scores(scores, NAMES, SCORES)
    judged = () if table is None else zip(map(Path, table.names), table.scores, strict=True)
    mos = {} if scores is None else _by_stem(scores, judged)
    lines = []
    for path, (strength, attack, metric) in _laid_out(folder):
        relative = path.relative_to(folder).as_posix()
        if path.stem not in files:
            raise UsageError(f"{relative}: {originals} has no original called {path.stem}.")
        if scores is not None and path.stem not in mos:
            raise UsageError(f"{relative}: {scores} has no score of {path.stem}.")
        facts = {"file": relative, "original": str(files[path.stem].resolve()), "name": files[path.stem].name}
        facts |= {"metric": metrics[metric], "attack": attack, "strength": strength}
        lines.append({**facts, "mos": repr(mos[path.stem]) if mos else "", "photograph": path.stem})
    if not lines:
        raise UsageError(f"{folder} has no images ATTACK/METRIC/IMAGE.png or PRESET/ATTACK/METRIC/IMAGE.png.")
    return lines


def _by_stem(where: Path, values: Iterable[tuple[Path, Value]]) -> dict[str, Value]:
    """Return the values by the file name without extension; raises `UsageError` where two files share that name."""
    stems: dict[str, Path] = {}
    by_stem: dict[str, Value] = {}
    for path, value in values:
        if path.stem in stems:
            raise UsageError(
                f"{where} has {_short(stems[path.stem], where)} and {_short(path, where)}: attacked images are matched "
                "by the name without the extension; leave one of them."
            )
        stems[path.stem], by_stem[path.stem] = path, value
    return by_stem


def _short(path: Path, where: Path) -> str:
    return path.relative_to(where).as_posix() if path.is_relative_to(where) else path.as_posix()


def _laid_out(folder: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yield each attacked image with its strength, attack and metric; without a preset the strength is "given"."""
    for depth, pattern in ((3, "*/*/*"), (4, "*/*/*/*")):
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and is_image_name(path.name):
                above = path.relative_to(folder).parts[: depth - 1]
                preset, attack, metric = above if depth == 4 else ("given", *above)
                number = re.fullmatch(r"preset[_-]?(-?\d+)", preset)
                yield path, (number[1] if number else preset, attack, metric)


def lossy_files(folder: Path, listed: AttackedFolder) -> list[str]:
    """Return the attacked files that are JPEG by their first bytes, whatever their names say.

    Raises `UsageError` for a file that cannot be read.
    """
    files = dict.fromkeys(file for attacked in listed.attacked.values() for file in attacked.values())
    lossy = []
    for file in files:
        try:
            with (folder / file).open("rb") as opened:
                if opened.read(len(JPEG)) == JPEG:
                    lossy.append(file)
        except OSError as error:
            raise UsageError(f"{folder / file} cannot be read: {error.strerror}.") from None
    return lossy


def write_index(folder: Path, lines: Sequence[Mapping[str, str]]) -> None:
    """Write the index of a folder."""
    with (folder / INDEX).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def opinion(facts: Mapping[str, str]) -> float:
    """Return the opinion score of an original, NaN without one."""
    return float(facts["mos"]) if facts["mos"] else float("nan")


def indexed(
    folder: Path,
    originals: Path | None,
    scores: Path | None,
    renamed: Sequence[str],
    installed: Callable[[str, str], Component],
) -> AttackedFolder:
    """Return the content of a folder's index, and write the index first if there is none, see `index_of`.

    `renamed`: texts ``FOLDER=METRIC``, for folders that are not called like their metric. `installed`: finds a
    component by kind and name, and raises an error with similar names where there is none.
    """
    options = {"--originals": originals, "--mos": scores, "--metric-name": renamed}
    unused = [option for option, value in options.items() if value]
    if unused and (folder / INDEX).is_file():
        raise UsageError(
            f"{folder} has {INDEX}, which says what {' and '.join(unused)} would say: leave the options out, or remove "
            f"{INDEX} for another one."
        )
    if not (folder / INDEX).is_file():
        if originals is None:
            raise UsageError(f"{folder} has no {INDEX}; name the folder of the originals: --originals FOLDER.")
        named = dict(PUBLISHED)
        for pair in renamed:
            name, equals, metric = pair.partition("=")
            if not (name and equals and metric):
                raise UsageError(f"cannot read --metric-name {pair!r}; write FOLDER=NAME.")
            named[name] = metric
        folders = {metric for _, (_, _, metric) in _laid_out(folder)}
        labels = {name: installed("metric", named.get(name, name)).label for name in sorted(folders)}
        write_index(folder, index_of(folder, originals, scores, labels))
    return attacked_folder(folder)


def profile(folder: Path, listed: AttackedFolder, defenses: Sequence[str]) -> str:
    """Return the profile of a run that evaluates `defenses`, or else all of them, on the images of a folder."""
    metrics = dict.fromkeys(condition.metric for condition in listed.attacked)
    attacks = dict.fromkeys(condition.attack for condition in listed.attacked)
    select = {
        "dataset": [f"harness/attacked-originals[part={i},path={folder}]" for i in range(len(listed.sets))],
        "metric": list(metrics),
        "attack": [f"harness/recorded[method={attack},path={folder}]" for attack in attacks],
        "defense": ["harness/none", *(d for d in defenses if d != "harness/none")] if defenses else ["*"],
    }
    lines = [f"{kind} = {json.dumps(names, ensure_ascii=False)}" for kind, names in select.items()]
    return "\n".join(
        [
            'name = "attacked"',
            'description = "Defenses on attacked images that exist: attackers that do not know the defense."',
            '[tracks."harness/iqa".select]',
            *lines,
            "",
        ]
    )
