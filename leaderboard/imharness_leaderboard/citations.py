"""How to cite the leaderboard, a track, or a row of it: BibTeX, and a CFF file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from imharness.results.records import Board
from imharness_leaderboard.wording import brief

TITLE = "Image privacy leaderboard"
_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "{": r"\{", "}": r"\}",
    **{mark: f"\\{mark}" for mark in "&%$#_"},
}  # fmt: skip


def bibtex(board: Board, release: str, *, row: str = "", author: str = "", version: str = "") -> str:
    """Return the BibTeX entry of a track's board, or of a row of it; `version` is that of the row's numbers."""
    key = "-".join(part for part in (_key(TITLE), _key(board.title), _key(brief(row)), board.finished[:4]) if part)
    what = f"{brief(row)}, in: {board.title}" if row else board.title
    about = [f"Release {release}" if release else "Not a release", f"profile {board.profile}, seed {board.seed}"]
    about += [f"version {version} of the numbers"] if version else []
    about += [f"digest of the results {board.sources[:12]}"]
    fields = {
        "title": f"{{{_tex(f'{what}, {TITLE}')}}}",
        "author": f"{{{_tex(author or f'The {TITLE}')}}}",
        "year": board.finished[:4],
        "note": _tex("; ".join(about)),
    }
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items()]
    return f"@misc{{{key},\n" + ",\n".join(lines) + "\n}"


def cff(boards: list[Board], release: str) -> str:
    """Return the content of a ``CITATION.cff`` for this state of the leaderboard."""
    finished = max(board.finished for board in boards)
    facts: Mapping[str, str] = {
        "cff-version": "1.2.0",
        "message": "If you use these numbers, please cite this release, and the studies whose methods it ran.",
        "title": TITLE,
        "type": "dataset",
        "version": release or "not released",
        "date-released": finished[:10],
    }
    lines = [f"{name}: {_quoted(value)}" for name, value in facts.items()]
    lines += ["authors:", f"  - name: {_quoted(f'The {TITLE}')}", "identifiers:"]
    for board in boards:
        lines += ["  - type: other", f"    value: {_quoted(board.sources)}",
                  f"    description: {_quoted(f'Digest of the results of {board.title}')}"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _tex(text: str) -> str:
    return "".join(_TEX.get(mark, mark) for mark in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
