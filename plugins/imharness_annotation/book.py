"""The SQLite file of a judgement: its questions and votes. Every vote is on disk before the request is answered."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from imharness.images import UsageError

Kind = Literal["class", "pair", "better"]
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS items (
    id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, facts TEXT NOT NULL, choices TEXT NOT NULL, truth TEXT NOT NULL,
    decoy INTEGER NOT NULL, left_png BLOB, right_png BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS votes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL REFERENCES items(id), annotator TEXT NOT NULL,
    answer TEXT NOT NULL, at TEXT NOT NULL, UNIQUE (item, annotator));
"""
WAIT_S = 10


@dataclass(frozen=True)
class Question:
    """One thing to judge. `left` is the original, or the other image of a choice of two; None where there is none."""

    key: str
    facts: Mapping[str, str]
    choices: tuple[str, ...]
    truth: str
    """The answer that is right, or "" where opinions are asked for."""
    decoy: bool
    left: bytes | None
    right: bytes


@dataclass(frozen=True)
class Asked:
    """A question as an annotator sees it."""

    id: int
    choices: tuple[str, ...]
    has_left: bool


@dataclass(frozen=True)
class Vote:
    """One answer of one annotator, with what was asked."""

    key: str
    facts: Mapping[str, str]
    truth: str
    decoy: bool
    annotator: str
    answer: str
    at: str


class Book:
    """Questions and votes in one file; any number of processes and threads may use it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with self._open() as db:
            db.executescript(SCHEMA)
            db.execute("INSERT OR IGNORE INTO about VALUES ('secret', ?)", (secrets.token_hex(32),))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self._file, timeout=WAIT_S)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            with db:
                yield db
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{self._file} cannot be used ({error}); choose another --file.") from error
        finally:
            db.close()

    def about(self, name: str) -> str:
        """Return a setting, or ""."""
        with self._open() as db:
            row = db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def fill(self, kind: Kind, votes: int, questions: Iterable[Question]) -> int:
        """Add questions that are not there yet; return how many there are. A file holds one kind."""
        have = self.about("kind")
        if have and have != kind:
            raise UsageError(f"{self._file} asks for {have!r} already; choose another --file for {kind!r}.")
        with self._open() as db:
            for name, value in (("kind", kind), ("votes", str(votes))):
                db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))
            db.executemany(
                "INSERT OR IGNORE INTO items (key, facts, choices, truth, decoy, left_png, right_png) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (q.key, json.dumps(q.facts), json.dumps(q.choices), q.truth, int(q.decoy), q.left, q.right)
                    for q in questions
                ),
            )
            return int(db.execute("SELECT COUNT(*) FROM items").fetchone()[0])

    def following(self, annotator: str) -> Asked | None:
        """Return this annotator's next question, in an order of their own; None when nothing is left."""
        left = self._open_for(annotator)
        if not left:
            return None
        chosen = min(left, key=lambda id: hashlib.sha256(f"{annotator}\x1f{id}".encode()).digest())
        with self._open() as db:
            choices, has_left = db.execute(
                "SELECT choices, left_png IS NOT NULL FROM items WHERE id = ?", (chosen,)
            ).fetchone()
        return Asked(chosen, tuple(json.loads(choices)), bool(has_left))

    def progress(self, annotator: str) -> tuple[int, int]:
        """Return how many this annotator has judged, and how many they will have when nothing is left."""
        with self._open() as db:
            done = int(db.execute("SELECT COUNT(*) FROM votes WHERE annotator = ?", (annotator,)).fetchone()[0])
        return done, done + len(self._open_for(annotator))

    def _open_for(self, annotator: str) -> list[int]:
        needed = int(self.about("votes") or 1)
        with self._open() as db:
            rows = db.execute(
                "SELECT items.id FROM items LEFT JOIN votes ON votes.item = items.id GROUP BY items.id "
                "HAVING SUM(COALESCE(votes.annotator, '') = ?) = 0 AND (decoy OR COUNT(votes.number) < ?)",
                (annotator, needed),
            ).fetchall()
        return [int(row[0]) for row in rows]

    def vote(self, item: int, annotator: str, answer: str) -> None:
        """Write an answer; a second one of the same annotator on the same question changes nothing."""
        with self._open() as db:
            row = db.execute("SELECT choices FROM items WHERE id = ?", (item,)).fetchone()
            if row is None or answer not in json.loads(row[0]):
                raise UsageError(f"question {item} has no answer {answer!r}.")
            db.execute(
                "INSERT OR IGNORE INTO votes (item, annotator, answer, at) VALUES (?, ?, ?, ?)",
                (item, annotator, answer, datetime.now(UTC).isoformat(timespec="seconds")),
            )

    def undo(self, annotator: str) -> None:
        """Take back the annotator's latest answer."""
        with self._open() as db:
            db.execute(
                "DELETE FROM votes WHERE number = (SELECT MAX(number) FROM votes WHERE annotator = ?)", (annotator,)
            )

    def image(self, item: int, side: Literal["left", "right"]) -> bytes | None:
        """Return one image of a question as PNG."""
        column = {"left": "left_png", "right": "right_png"}[side]
        with self._open() as db:
            row = db.execute(f"SELECT {column} FROM items WHERE id = ?", (item,)).fetchone()
        return bytes(row[0]) if row and row[0] is not None else None

    def votes(self) -> Sequence[Vote]:
        """Return all votes in the order they were given."""
        with self._open() as db:
            rows = db.execute(
                "SELECT key, facts, truth, decoy, annotator, answer, at FROM votes JOIN items ON items.id = votes.item "
                "ORDER BY number"
            ).fetchall()
        return [Vote(k, json.loads(f), t, bool(d), a, answer, at) for k, f, t, d, a, answer, at in rows]
