"""The commands with which a reader runs an entry, computes its row again, and checks a published number."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise

from imharness.results.boards import Board
from imharness.results.entries import Entry
from imharness.results.labels import LABEL

SELECTABLE = ("attack", "defense", "metric", "evaluator", "model", "dataset")
"""The kinds by which `harness run` narrows a run."""


def try_out(kind: str, label: str, facts: Entry | None) -> list[str]:
    """Return the commands that install an entry's package, describe the entry, and score images with a metric."""
    if facts is None or not LABEL.fullmatch(label):
        return []
    found = [["pip", "install", f"{facts.package}=={facts.package_version}"]] if facts.package else []
    found.append(["harness", "plugins", "show", facts.id])
    if kind == "metric":
        found.append(["harness", "score", label, "IMAGE"])
    return [shlex.join(words) for words in found]


def compute_again(board: Board, parts: Sequence[tuple[str, str]]) -> str:
    """Return the command that computes a row's cells in a fresh store; that of the whole run where no filter fits.

    `parts`: kind and label of the components that make the row.
    """
    if not parts or any(kind not in SELECTABLE or not LABEL.fullmatch(label) for kind, label in parts):
        return board.command
    words = ["harness", "run", "--track", board.track, "--profile", _profile(board), "--seed", str(board.seed)]
    words += ["--limit", str(board.limit)] if board.limit else []
    words += ["--secret", "SEED-FILE"] if board.secret else []
    for kind, label in parts:
        words += [f"--{kind}", label]
    return shlex.join([*words, "--store", "again", "--site", "again-site"])


def check(facts: Entry | None) -> str:
    """Return the command that computes a sample of an entry's cells again and compares them with those of a store."""
    if facts is None or not facts.cells:
        return ""
    submission = next((own.submission for own in reversed(facts.standing) if own.submission), "")
    return shlex.join(["harness", "reproduce", submission or facts.id, "--store", "STORE"])


def _profile(board: Board) -> str:
    """Return the profile as the run named it, which may be a file."""
    try:
        words = shlex.split(board.command)
    except ValueError:
        return board.profile
    named = [after for word, after in pairwise(words) if word == "--profile"]
    named += [word.partition("=")[2] for word in words if word.startswith("--profile=")]
    return named[-1] if named else board.profile
