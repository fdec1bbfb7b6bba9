"""What readers take along: citations, what data stands behind them, and the commands that compute a number again.

Citations are BibTeX and CFF files of the leaderboard and of each of its entries, with release and date.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from imharness.documents.entries import Entry
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness.documents.tables import joined
from imharness.exports.marks import proxies_of, standing_of
from imharness.results.labels import LABEL
from imharness_leaderboard.addresses import slug
from imharness_leaderboard.wording import partial

NAME = "Image privacy leaderboard"
AUTHORS = "The image-privacy-harness authors"
_PAPER = re.compile(r"(?P<authors>.+?): (?P<title>.+) \((?P<year>\d{4})\)")
_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\textbraceleft{}",
        "}": r"\textbraceright{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        **{c: f"\\{c}" for c in "&%$#_"},
    }
)


@dataclass(frozen=True)
class Citation:
    """What a reader cites. `file` is its address without extension, `day` the ISO date of the numbers."""

    file: str
    title: str
    author: str
    version: str
    day: str
    note: str
    url: str = ""
    paper: str = ""
    paper_url: str = ""

    @property
    def bibtex(self) -> str:
        """The citation as BibTeX; the paper of a method is an entry of its own."""
        key = re.sub(r"[^A-Za-z0-9]+", "-", self.file.rpartition("/")[2]).strip("-")
        fields = {
            "title": f"{{{tex(self.title)}}}",
            "author": f"{{{tex(self.author)}}}",
            "year": self.day[:4],
            "version": tex(self.version),
            "note": tex(self.note),
            "url": _plain(self.url),
        }
        records = [_entry("misc", f"{key}-{self.day}", fields)]
        if match := _PAPER.fullmatch(self.paper):
            authors = " and ".join(f"{{{tex(name)}}}" for name in re.split(r", | & ", match["authors"]))
            fields = {
                "title": f"{{{tex(match['title'])}}}",
                "author": authors,
                "year": match["year"],
                "url": _plain(self.paper_url),
            }
            records.append(_entry("misc", f"{key}-paper", fields))
        return "\n".join(records)

    @property
    def cff(self) -> str:
        """The citation as a Citation File Format file, version 1.2.0."""
        lines = [
            "cff-version: 1.2.0",
            f"message: {_yaml('If you use these numbers, please cite them.')}",
            f"title: {_yaml(self.title)}",
            "type: dataset",
            "authors:",
            f"  - name: {_yaml(self.author)}",
            f"version: {_yaml(self.version)}",
            f"date-released: {_yaml(self.day)}",
            f"abstract: {_yaml(self.note)}",
        ]
        if self.url:
            lines.append(f"url: {_yaml(self.url)}")
        if match := _PAPER.fullmatch(self.paper):
            lines += [
                "references:",
                "  - type: article",
                f"    title: {_yaml(match['title'])}",
                "    authors:",
                *(f"      - family-names: {_yaml(name)}" for name in re.split(r", | & ", match["authors"])),
                f"    year: {match['year']}",
            ]
            lines += [f"    url: {_yaml(self.paper_url)}"] if _plain(self.paper_url) else []
        return "\n".join(lines) + "\n"


def tex(text: str) -> str:
    """Return text as BibTeX and LaTeX read it: special characters escaped, and one space for any run of white space."""
    return _tidy(text).translate(_SPECIAL)


def bibtex(leaderboard: Leaderboard, release: str, *, row: str = "", author: str = "", version: str = "") -> str:
    """Return the BibTeX entry of a track's leaderboard, or of its row with a label.

    `release`: name of the release, "" before one. `version`: that of the row's numbers.
    """
    words = (NAME, leaderboard.title, brief(row), leaderboard.finished[:4])
    key = "-".join(slug for slug in (re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in words) if slug)
    about = [_upper(named(release)), f"profile {leaderboard.profile}, seed {leaderboard.seed}"]
    about += [f"version {version} of the numbers"] if version else []
    about += [f"digest of the results {leaderboard.sources[:12]}", *caveats(leaderboard, row)]
    what = f"{brief(row)}, in: {leaderboard.title}" if row else leaderboard.title
    fields = {
        "title": f"{{{tex(f'{what}, {NAME}')}}}",
        "author": f"{{{tex(author or AUTHORS)}}}",
        "year": leaderboard.finished[:4],
        "note": tex("; ".join(about)),
    }
    return _entry("misc", key, fields)


def caveats(leaderboard: Leaderboard, row: str = "") -> list[str]:
    """Return what a citation must say beside numbers: whether a row is a control, flagged or the like, and proxies."""
    texts = [
        text for ranking in leaderboard.rankings if row in ranking.places and (text := standing_of(ranking.places[row]))
    ]
    proxies = proxies_of(leaderboard)
    return [*dict.fromkeys(texts), *([f"do not cite as results: proxies: {', '.join(proxies)}"] if proxies else [])]


def cff(leaderboards: Sequence[Leaderboard], release: str, day: str) -> str:
    """Return the content of a ``CITATION.cff`` for this state of the leaderboard."""
    message = "If you use these numbers, please cite this release, and the studies whose methods it ran."
    lines = [
        "cff-version: 1.2.0",
        f"message: {_yaml(message)}",
        f"title: {_yaml(NAME)}",
        "type: dataset",
        "authors:",
        f"  - name: {_yaml(AUTHORS)}",
        f"version: {_yaml(named(release))}",
        f"date-released: {_yaml(day)}",
        "identifiers:",
    ]
    for leaderboard in leaderboards:
        lines += [
            "  - type: other",
            f"    value: {_yaml(leaderboard.sources)}",
            f"    description: {_yaml('; '.join([f'Digest of {leaderboard.title}', *caveats(leaderboard)]))}",
        ]
    return "\n".join(lines) + "\n"


def entry_citation(
    kind: str, label: str, facts: Entry | None, stands: Sequence[str], release: str, day: str
) -> Citation:
    """Return the citation of an entry; `stands` says in words where it stands, track by track."""
    phrases = [f"{_upper(named(release))} of {day} of the {NAME}"]
    if facts is not None and facts.package:
        phrases.append(f"{kind} of {facts.package} {facts.package_version}")
    return Citation(
        f"cite/{slug(kind)}-{slug(label)}",
        f"{brief(label)}, {kind} on the {NAME}",
        facts.author if facts is not None and facts.author else AUTHORS,
        facts.version if facts is not None else named(release),
        day,
        "; ".join([*phrases, *stands]),
        url=_plain(facts.home) if facts is not None else "",
        paper=facts.paper if facts is not None else "",
        paper_url=_plain(facts.paper_url) if facts is not None else "",
    )


def named(release: str) -> str:
    """Return a release in words."""
    return f"release {release}" if release else "unreleased state"


def last_day(leaderboards: Sequence[Leaderboard]) -> str:
    """Return the date of the last run, ISO."""
    return max(leaderboard.finished for leaderboard in leaderboards)[:10]


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _entry(form: str, key: str, fields: dict[str, str]) -> str:
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    return f"@{form}{{{key},\n" + ",\n".join(lines) + "\n}\n"


def _plain(url: str) -> str:
    """Return a web address if it has only characters that are safe in BibTeX and in pages; "" for anything else."""
    return url if re.fullmatch(r"https?://[A-Za-z0-9./_~?=&:+,;@%#-]+", url) else ""


def _tidy(text: str) -> str:
    text = " ".join(text.split())
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _yaml(text: str) -> str:
    """Return text as a quoted YAML scalar; every JSON string is one."""
    return json.dumps(_tidy(text), ensure_ascii=False)


def data_line(leaderboards: Sequence[Leaderboard]) -> tuple[bool, str]:
    """Return whether the site shows data that nobody should cite, and a line that says what the data are.

    Tables of a run that is not finished are no better than stand-in data.
    """
    unfinished = [f"{leaderboard.title} {partial(leaderboard)}" for leaderboard in leaderboards if leaderboard.waiting]
    split = "secret split, " if any(leaderboard.secret for leaderboard in leaderboards) else ""
    if unfinished:
        return True, f"Unfinished run: {joined(unfinished)}; do not cite"
    demo = [leaderboard.title for leaderboard in leaderboards if proxies_of(leaderboard)]
    if len(demo) == len(leaderboards):
        return True, f"Demo: {split}stand-in data, not citable."
    if demo:
        others = [leaderboard.title for leaderboard in leaderboards if not proxies_of(leaderboard)]
        return True, f"Demo: {split}stand-in data, not citable, in {joined(demo)}; citable: {joined(others)}."
    profiles = joined(dict.fromkeys(leaderboard.profile for leaderboard in leaderboards))
    limits = sorted({leaderboard.limit for leaderboard in leaderboards if leaderboard.limit})
    return False, f"Data: {split}{profiles}" + (f", at most {limits[-1]} images" if limits else "")


SELECTABLE = ("attack", "defense", "metric", "evaluator", "model", "dataset")
"""The kinds by which `harness run` narrows a run."""


def try_out(kind: str, label: str, facts: Entry | None) -> list[str]:
    """Return the commands that install an entry's package, describe the entry, and score images with a metric."""
    if facts is None or not LABEL.fullmatch(label):
        return []
    commands = [["pip", "install", f"{facts.package}=={facts.package_version}"]] if facts.package else []
    commands.append(["harness", "plugins", "show", facts.id])
    if kind == "metric":
        commands.append(["harness", "score", label, "IMAGE"])
    return [shlex.join(words) for words in commands]


def compute_again(leaderboard: Leaderboard, components: Sequence[tuple[str, str]]) -> str:
    """Return the command that computes a row's tasks in a fresh store; that of the whole run where no filter fits.

    `components`: kind and label of the components that make the row.
    """
    if not components or any(kind not in SELECTABLE or not LABEL.fullmatch(label) for kind, label in components):
        return leaderboard.command
    words = [
        "harness",
        "run",
        "--track",
        leaderboard.track,
        "--profile",
        _profile(leaderboard),
        "--seed",
        str(leaderboard.seed),
    ]
    words += ["--limit", str(leaderboard.limit)] if leaderboard.limit else []
    words += ["--secret", "SEED-FILE"] if leaderboard.secret else []
    for kind, label in components:
        words += [f"--{kind}", label]
    return shlex.join([*words, "--store", "again", "--site", "again-site"])


def check(facts: Entry | None) -> str:
    """Return the command that computes a sample of an entry's tasks again and compares them with those of a store."""
    if facts is None or not facts.tasks:
        return ""
    submission = next((decision.submission for decision in reversed(facts.standing) if decision.submission), "")
    return shlex.join(["harness", "reproduce", submission or facts.id, "--store", "STORE"])


def _profile(leaderboard: Leaderboard) -> str:
    """Return the profile as the run named it, which may be a file."""
    try:
        words = shlex.split(leaderboard.command)
    except ValueError:
        return leaderboard.profile
    named = [after for word, after in pairwise(words) if word == "--profile"]
    named += [word.partition("=")[2] for word in words if word.startswith("--profile=")]
    return named[-1] if named else leaderboard.profile
