"""How to cite the leaderboard, and each of its entries: BibTeX and CFF files, with release and date."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from imharness.exports.marks import proxies_of, standing_of
from imharness.results.boards import Board
from imharness.results.entries import Entry
from imharness_leaderboard.addresses import slug
from imharness_leaderboard.wording import brief

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
        found = [_entry("misc", f"{key}-{self.day}", fields)]
        if known := _PAPER.fullmatch(self.paper):
            authors = " and ".join(f"{{{tex(name)}}}" for name in re.split(r", | & ", known["authors"]))
            fields = {
                "title": f"{{{tex(known['title'])}}}",
                "author": authors,
                "year": known["year"],
                "url": _plain(self.paper_url),
            }
            found.append(_entry("misc", f"{key}-paper", fields))
        return "\n".join(found)

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
        if known := _PAPER.fullmatch(self.paper):
            lines += [
                "references:",
                "  - type: article",
                f"    title: {_yaml(known['title'])}",
                "    authors:",
                *(f"      - family-names: {_yaml(name)}" for name in re.split(r", | & ", known["authors"])),
                f"    year: {known['year']}",
            ]
            lines += [f"    url: {_yaml(self.paper_url)}"] if _plain(self.paper_url) else []
        return "\n".join(lines) + "\n"


def tex(text: str) -> str:
    """Return text as BibTeX and LaTeX read it: special characters escaped, one space for every other white space."""
    return _tidy(text).translate(_SPECIAL)


def bibtex(board: Board, release: str, *, row: str = "", author: str = "", version: str = "") -> str:
    """Return the BibTeX entry of a track's board, or of a row of it; `version` is that of the row's numbers."""
    words = (NAME, board.title, brief(row), board.finished[:4])
    key = "-".join(part for part in (re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in words) if part)
    about = [_upper(named(release)), f"profile {board.profile}, seed {board.seed}"]
    about += [f"version {version} of the numbers"] if version else []
    about += [f"digest of the results {board.sources[:12]}", *caveats(board, row)]
    what = f"{brief(row)}, in: {board.title}" if row else board.title
    fields = {
        "title": f"{{{tex(f'{what}, {NAME}')}}}",
        "author": f"{{{tex(author or AUTHORS)}}}",
        "year": board.finished[:4],
        "note": tex("; ".join(about)),
    }
    return _entry("misc", key, fields)


def caveats(board: Board, row: str = "") -> list[str]:
    """Return what a citation must say beside numbers: whether a row is a control, flagged or the like, and proxies."""
    found = [text for own in board.rankings if row in own.places and (text := standing_of(own.places[row]))]
    proxies = proxies_of(board)
    return [*dict.fromkeys(found), *([f"do not cite as results: proxies: {', '.join(proxies)}"] if proxies else [])]


def cff(boards: Sequence[Board], release: str, day: str) -> str:
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
    for board in boards:
        lines += [
            "  - type: other",
            f"    value: {_yaml(board.sources)}",
            f"    description: {_yaml('; '.join([f'Digest of the results of {board.title}', *caveats(board)]))}",
        ]
    return "\n".join(lines) + "\n"


def entry_citation(
    kind: str, label: str, facts: Entry | None, stands: Sequence[str], release: str, day: str
) -> Citation:
    """Return the citation of an entry; `stands` says in words where it stands, track by track."""
    parts = [f"{_upper(named(release))} of {day} of the {NAME}"]
    if facts is not None and facts.package:
        parts.append(f"{kind} of {facts.package} {facts.package_version}")
    return Citation(
        f"cite/{slug(kind)}-{slug(label)}",
        f"{brief(label)}, {kind} on the {NAME}",
        facts.author if facts is not None and facts.author else AUTHORS,
        facts.version if facts is not None else named(release),
        day,
        "; ".join([*parts, *stands]),
        url=_plain(facts.home) if facts is not None else "",
        paper=facts.paper if facts is not None else "",
        paper_url=_plain(facts.paper_url) if facts is not None else "",
    )


def named(release: str) -> str:
    """Return a release in words."""
    return f"release {release}" if release else "unreleased state"


def last_day(boards: Sequence[Board]) -> str:
    """Return the date of the last run, ISO."""
    return max(board.finished for board in boards)[:10]


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _entry(form: str, key: str, fields: dict[str, str]) -> str:
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    return f"@{form}{{{key},\n" + ",\n".join(lines) + "\n}\n"


def _plain(url: str) -> str:
    """Return a web address that neither BibTeX nor a reader can mistake; empty for anything else."""
    return url if re.fullmatch(r"https?://[A-Za-z0-9./_~?=&:+,;@%#-]+", url) else ""


def _tidy(text: str) -> str:
    text = " ".join(text.split())
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _yaml(text: str) -> str:
    """Return text as a quoted YAML scalar; every JSON string is one."""
    return json.dumps(_tidy(text), ensure_ascii=False)
