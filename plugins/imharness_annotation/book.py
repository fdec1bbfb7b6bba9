"""The SQLite file of a judgement: its questions and votes. Every vote is on disk before the request is answered."""

from __future__ import annotations

import io
import json
import os
import secrets
import sqlite3
import stat
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from imharness.errors import UsageError
from imharness.files import number, parsed_json
from imharness_annotation import CUTOFF
from imharness_annotation.turns import Item, Turns

Kind = Literal["class", "pair", "better", "2afc", "jnd"]
Side = Literal["reference", "left", "right"]
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS items (
    id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, facts TEXT NOT NULL, choices TEXT NOT NULL, truth TEXT NOT NULL,
    decoy INTEGER NOT NULL, training INTEGER NOT NULL, reference_png BLOB, left_png BLOB, right_png BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS votes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL REFERENCES items(id), annotator TEXT NOT NULL,
    answer TEXT NOT NULL, at TEXT NOT NULL, UNIQUE (item, annotator));
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, annotator TEXT NOT NULL);
"""
WAIT_S = 10
ROUNDING = 0.5
"""The largest mean difference between two pictures of one image, in grey levels of 0..255."""
ONCE = ("class", "pair")
"""The kinds of which a person answers only one question about an original, because the answer to the first one helps
with the next."""


@dataclass(frozen=True)
class Question:
    """A question about one or two images.

    Attributes:
        key: the same in every book that asks the question.
        facts: the names of what was shown, such as the data set, the attack and the image.
        choices: the possible answers.
        truth: the right answer; "" if opinions are asked for.
        decoy: whether the question tests the person.
        left: the original, or the left image of a choice between two, as PNG; None: a single image is shown.
        right: the image to judge, or the right one of a choice, as PNG.
        reference: the image that both images of a choice are compared with, as PNG.
        training: whether the question is for practice: it comes first, the right answer is shown afterwards, and its
            votes never count.
    """

    key: str
    facts: Mapping[str, str]
    choices: tuple[str, ...]
    truth: str
    decoy: bool
    left: bytes | None
    right: bytes
    reference: bytes | None = None
    training: bool = False


@dataclass(frozen=True)
class Asked:
    """A question as an annotator sees it."""

    id: int
    choices: tuple[str, ...]
    has_left: bool
    has_reference: bool


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
    training: bool = False


def _originals(facts: Mapping[str, str]) -> frozenset[str]:
    """Return the originals that a question shows or shows a reconstruction of."""
    return frozenset(f"{facts.get('dataset', '')}\x1f{facts[fact]}" for fact in ("name", "shown") if fact in facts)


def _alike(one: bytes | None, other: bytes | None) -> bool:
    """Return whether two pictures, as PNG, are equal up to `ROUNDING`: another machine may round otherwise."""
    if one == other or one is None or other is None:
        return one == other
    first, second = (np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(int) for picture in (one, other))
    return first.shape == second.shape and bool(np.abs(first - second).mean() < ROUNDING)


def _shown(db: sqlite3.Connection, question: Question) -> bool | None:
    """Return whether a question is asked with the same pictures; None if it is not asked."""
    row = db.execute("SELECT left_png, right_png FROM items WHERE key = ?", (question.key,)).fetchone()
    return None if row is None else all(map(_alike, row, (question.left, question.right)))


class Book:
    """Questions and votes in one file; any number of processes and threads may use it.

    One connection stays open, because the last one to close copies the whole journal. What people are asked next is
    kept in memory until another connection writes.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.RLock()
        self._turns: tuple[int, Turns] | None = None
        self._close_to_others()
        self._db = sqlite3.connect(file, timeout=WAIT_S, check_same_thread=False)
        weakref.finalize(self, self._db.close)
        with self._open() as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
        with self._open() as db:
            db.executescript(SCHEMA)
            db.execute("INSERT OR IGNORE INTO about VALUES ('secret', ?)", (secrets.token_hex(32),))

    def _close_to_others(self) -> None:
        """Let the owner alone read and write the file, which holds the secret of all sessions."""
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600)
        except OSError as error:
            raise UsageError(f"{self._file} cannot be used ({error.strerror}); choose another --file.") from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{self._file} is not a plain file; choose another --file.")
            with suppress(PermissionError):
                os.chmod(descriptor if os.chmod in os.supports_fd else self._file, 0o600)
        finally:
            os.close(descriptor)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock, self._db:
                yield self._db
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{self._file} cannot be used ({error}); choose another --file.") from error

    def about(self, name: str) -> str:
        """Return a setting, or ""."""
        with self._open() as db:
            row = db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    @property
    def identity(self) -> str:
        """What this file and its copies are known by, whatever they are called and however many votes they have."""
        return sha256(f"identity {self.about('secret')}".encode()).hexdigest()[:16]

    @property
    def planned(self) -> int:
        """Votes that a question needs before its verdict counts."""
        return int(self._setting("votes", 1))

    @property
    def cutoff(self) -> float:
        """Share of decoys that a person must answer right for their votes to count."""
        return self._setting("cutoff", CUTOFF)

    @property
    def each(self) -> int:
        """The most questions that a person is asked, decoys and training apart; 0: all."""
        return int(self._setting("each", 0))

    def _setting(self, name: str, default: float) -> float:
        text = self.about(name)
        return number(text, f"{self._file}: {name}") if text else default

    def fill(self, kind: Kind, votes: int, questions: Iterable[Question], cutoff: float = CUTOFF, each: int = 0) -> int:
        """Add questions that are not there yet; return how many there are then. A file has questions of one kind."""
        have = self.about("kind")
        if have and have != kind:
            raise UsageError(f"{self._file} asks for {have!r} already; choose another --file for {kind!r}.")
        with self._open() as db:
            for name, value in {"kind": kind, "votes": votes, "cutoff": cutoff, "each": each}.items():
                db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, str(value)))
            rows = (
                (
                    question.key,
                    json.dumps(question.facts),
                    json.dumps(question.choices),
                    question.truth,
                    int(question.decoy),
                    int(question.training),
                    question.reference,
                    question.left,
                    question.right,
                )
                for question in self._unchanged(db, questions)
            )
            db.executemany(
                "INSERT OR IGNORE INTO items (key, facts, choices, truth, decoy, training, reference_png, left_png, "
                "right_png) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._turns = None
            return int(db.execute("SELECT COUNT(*) FROM items").fetchone()[0])

    def _unchanged(self, db: sqlite3.Connection, questions: Iterable[Question]) -> Iterator[Question]:
        """Yield questions; raises `UsageError` at one that is here with other pictures, on which votes may be."""
        for question in questions:
            if not question.decoy and _shown(db, question) is False:
                raise UsageError(
                    f"{self._file} asks about other images of {question.facts.get('name', 'the same names')}: the "
                    "store was computed again, or is another one; choose another --file."
                )
            yield question

    def shows(self, question: Question) -> bool:
        """Return whether this file asks a question, with the same pictures but for rounding."""
        with self._open() as db:
            return _shown(db, question) is True

    def following(self, annotator: str) -> Asked | None:
        """Return this annotator's next question, in an order of their own; None when nothing is left."""
        with self._read_turns() as turns:
            ahead = turns.ahead(annotator)
            if not ahead:
                return None
            item = turns.items[ahead[0]]
            return Asked(ahead[0], item.choices, item.has_left, item.has_reference)

    def progress(self, annotator: str) -> tuple[int, int]:
        """Return how many questions this annotator has judged, and how many they will have judged in the end."""
        with self._read_turns() as turns:
            done = turns.answered(annotator)
            return done, done + len(turns.ahead(annotator))

    def count(self, *, decoy: bool) -> int:
        """Return how many decoys there are, or how many other questions; none of them for training."""
        with self._open() as db:
            return int(
                db.execute("SELECT COUNT(*) FROM items WHERE decoy = ? AND NOT training", (int(decoy),)).fetchone()[0]
            )

    @property
    def demand(self) -> str:
        """What people must do for their votes to count, in words."""
        return f"{self.cutoff:.0%} of the decoys right" if self.count(decoy=True) else "nothing, there are no decoys"

    def left_out(self) -> frozenset[str]:
        """Return the people who have not passed the decoys, as `Turns.left_out` says; their votes do not count."""
        with self._read_turns() as turns:
            return turns.left_out()

    @contextmanager
    def _read_turns(self) -> Iterator[Turns]:
        """Yield what is kept in memory, read again if another connection has written; nobody changes it meanwhile."""
        with self._lock:
            if self._turns is None or self._turns[0] != self._version():
                self._turns = self._version(), self._read_all()
            yield self._turns[1]

    def _version(self) -> int:
        """Return a number that changes when another connection has written."""
        with self._open() as db:
            return int(db.execute("PRAGMA data_version").fetchone()[0])

    def _read_all(self) -> Turns:
        """Return all questions and votes of the file."""
        once, needed, cutoff, each = self.about("kind") in ONCE, self.planned, self.cutoff, self.each
        with self._open() as db:
            rows = db.execute(
                "SELECT id, facts, truth, decoy, choices, left_png IS NOT NULL, reference_png IS NOT NULL, training "
                "FROM items"
            ).fetchall()
            votes = db.execute("SELECT item, annotator, answer FROM votes ORDER BY number").fetchall()
        items = {
            number: Item(
                _originals(self._read(facts, dict)) if once and not training else frozenset(),
                truth,
                bool(decoy),
                tuple(self._read(choices, list)),
                bool(has_left),
                bool(has_reference),
                bool(training),
            )
            for number, facts, truth, decoy, choices, has_left, has_reference, training in rows
        }
        return Turns(items, needed, cutoff, votes, each)

    def vote(self, item: int, annotator: str, answer: str) -> None:
        """Write an answer; a second one of the same annotator on the same question changes nothing."""
        with self._lock:
            with self._open() as db:
                row = db.execute("SELECT choices FROM items WHERE id = ?", (item,)).fetchone()
                if row is None or answer not in self._read(row[0], list):
                    raise UsageError(f"question {item} has no answer {answer!r:.60}.")
                written = db.execute(
                    "INSERT OR IGNORE INTO votes (item, annotator, answer, at) VALUES (?, ?, ?, ?)",
                    (item, annotator, answer, datetime.now(UTC).isoformat(timespec="seconds")),
                ).rowcount
            if written and self._turns is not None:
                self._turns[1].change(annotator, item, answer)

    def open_session(self, annotator: str) -> str:
        """Return the id of a new session of an annotator."""
        id = secrets.token_urlsafe(32)
        with self._open() as db:
            db.execute("INSERT INTO sessions VALUES (?, ?)", (id, annotator))
        return id

    def annotator(self, session: str) -> str:
        """Return whose session this is, or "" when it has ended."""
        with self._open() as db:
            row = db.execute("SELECT annotator FROM sessions WHERE id = ?", (session,)).fetchone()
        return str(row[0]) if row else ""

    def close_session(self, session: str) -> None:
        """End a session, if it exists."""
        with self._open() as db:
            db.execute("DELETE FROM sessions WHERE id = ?", (session,))

    def _read(self, text: str, kind: type) -> Any:
        """Return a list of texts, or texts by name; raises `UsageError` where the file holds something else."""
        parsed = parsed_json(str(text).encode(errors="replace"), str(self._file))
        if not isinstance(parsed, kind) or not all(
            isinstance(element, str) for element in (parsed if kind is list else parsed.values())
        ):
            raise UsageError(f"{self._file} is damaged; choose another --file.")
        return parsed

    def undo(self, annotator: str) -> None:
        """Take back the annotator's latest answer."""
        latest = "(SELECT MAX(number) FROM votes WHERE annotator = ?)"
        with self._lock:
            with self._open() as db:
                gone = db.execute(f"DELETE FROM votes WHERE number = {latest} RETURNING item", (annotator,)).fetchall()
            if self._turns is not None:
                for (item,) in gone:
                    self._turns[1].change(annotator, item, None)

    def pictures(self, key: str) -> tuple[bytes | None, bytes | None, bytes]:
        """Return the reference, the left and the right image of a question as PNG, by its key."""
        with self._open() as db:
            row = db.execute("SELECT reference_png, left_png, right_png FROM items WHERE key = ?", (key,)).fetchone()
        reference, left_picture, right = row
        return reference, left_picture, right

    def trained(self, annotator: str) -> Vote | None:
        """Return the annotator's latest vote if it was for training."""
        training_votes = [vote for vote in self.votes(annotator)[-1:] if vote.training]
        return training_votes[0] if training_votes else None

    def image(self, item: int, side: Side) -> bytes | None:
        """Return one image of a question as PNG."""
        column = {"reference": "reference_png", "left": "left_png", "right": "right_png"}[side]
        with self._open() as db:
            row = db.execute(f"SELECT {column} FROM items WHERE id = ?", (item,)).fetchone()
        return bytes(row[0]) if row and row[0] is not None else None

    def counted(self) -> Sequence[Vote]:
        """Return the votes of the people who are not left out, decoys too, in the order they were given.

        Those for training are not among them.
        """
        out = self.left_out()
        return [vote for vote in self.votes() if vote.annotator not in out and not vote.training]

    def votes(self, annotator: str | None = None) -> Sequence[Vote]:
        """Return all votes, or those of one person, in the order they were given."""
        with self._open() as db:
            rows = db.execute(
                "SELECT key, facts, truth, decoy, annotator, answer, at, training FROM votes "
                "JOIN items ON items.id = votes.item WHERE ?1 IS NULL OR annotator = ?1 ORDER BY number",
                (annotator,),
            ).fetchall()
        return [
            Vote(key, self._read(facts, dict), truth, bool(decoy), who, answer, at, bool(training))
            for key, facts, truth, decoy, who, answer, at, training in rows
        ]
