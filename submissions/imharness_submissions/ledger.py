"""The ledger: every decision about submitted entries, with its reason.

Lines are only added, and each is sealed together with the one before it. Who can write the file can seal all of it
again, or take its last lines away. Two things find that: a key, which the maintainer keeps elsewhere and which marks
each seal, and the number of decisions with the last seal, which stands in tables and on the site. A line that adds a
submission holds its whole manifest, so that the leaderboard can be built again from this file alone. Loads no torch.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from imharness.contracts.component import ID_PATTERN
from imharness.documents.entries import Decided, Standing
from imharness.documents.seasons import NAME_PATTERN as SEASON_PATTERN
from imharness.errors import DamagedError, UsageError
from imharness.planning.secret import read_seed
from imharness.reading.structured import read_json
from imharness.reading.text import plain
from imharness.results.identity import digest
from imharness.results.storage import open_backend
from imharness.results.store import Store
from imharness_submissions.manifest import NAME_PATTERN
from imharness_submissions.seasons import check_open

FILE = "ledger.jsonl"
KEY = "HARNESS_LEDGER_KEY"
"""The environment variable that names the file with the key, 32 to 128 hexadecimal digits."""
Decision = Literal[
    "added",
    "re-scored",
    "accepted",
    "flagged",
    "withdrawn",
    "reproduced",
    "not reproduced",
    "not judged yet",
    "refused",
    "evidence",
    "opened",
]


class Line(BaseModel):
    """One decision. `ids` are the components it is about; `report` is the seal of the report or evidence behind it.

    `name` is that of a submission, the id of an installed component, or the season that was opened. A line with a
    manifest has that of a submission, because it becomes the name of a folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    date: str
    name: str = Field(pattern=f"{NAME_PATTERN}|{ID_PATTERN}|{SEASON_PATTERN}")
    ids: tuple[str, ...]
    decision: Decision
    reason: str
    report: str = ""
    manifest: Mapping[str, Any] | None = None
    lock: tuple[str, ...] = ()
    previous: str
    seal: str = ""
    mark: str = ""
    """HMAC-SHA256 of the seal with the maintainer's key; empty where none was used."""

    @model_validator(mode="after")
    def _names_a_folder(self) -> Self:
        if self.manifest is not None and not re.fullmatch(NAME_PATTERN, self.name):
            raise ValueError(f"{self.name!r} is not the name of a submission")
        return self

    def expected_seal(self) -> str:
        """Return the digest that `seal` must equal."""
        return digest(self.model_dump(mode="json", exclude={"seal", "mark"}))

    def expected_mark(self, key: str) -> str:
        """Return what `mark` must equal with a key; empty for none."""
        return hmac.digest(bytes.fromhex(key), self.seal.encode(), "sha256").hex() if key else ""


def own_key() -> str:
    """Return the key in the file that `KEY` names, "" without one; raises `UsageError` for a file that holds none."""
    file = os.environ.get(KEY, "")
    return read_seed(Path(file)) if file else ""


def published(file: Path) -> list[Decided]:
    """Return what ``data/results.json`` of a site knows of decisions; raises `UsageError` for another file."""
    content = read_json(file)
    try:
        decisions = [
            Decided.model_validate(leaderboard["decided"])
            for leaderboard in content["leaderboards"]
            if leaderboard.get("decided")
        ]
    except (KeyError, TypeError, AttributeError, ValidationError):
        decisions = []
    if not decisions:
        raise UsageError(f"{file} knows of no decisions; give data/results.json of a site.")
    return decisions


class Ledger:
    """The ledger in the store at an address, or another file of that kind there.

    With a key, which is that of `own_key` unless another is given, every line must have its mark.
    """

    def __init__(self, address: str | Path, name: str = FILE, key: str | None = None) -> None:
        self._backend, self._name = open_backend(address), name
        self._key = own_key() if key is None else key

    def lines(self) -> list[Line]:
        """Return all lines; raises `DamagedError` when one was changed, moved or removed.

        A last line whose writing was cut off does not count as a decision.
        """
        return self._read(self._backend.lines(self._name))

    def _read(self, texts: Sequence[bytes]) -> list[Line]:
        """Return the lines; raises `DamagedError` unless each follows from the one before it.

        A line follows if it has the next number and the seal of a line with the number before. Where no file can be
        locked, two processes that write at the same time give their lines the same number; both lines stay.
        """
        ledger_lines: list[Line] = []
        seals: dict[int, set[str]] = {0: {""}}  # number -> the seals of the lines with this number
        where = f"{self._backend.address}/{self._name}"
        for number, text in enumerate(texts, start=1):
            try:
                line = Line.model_validate_json(text)
            except ValidationError:
                raise DamagedError(f"{where}: line {number} is damaged; restore the file") from None
            last = ledger_lines[-1].number if ledger_lines else 0
            follows = line.number in (max(last, 1), last + 1) and line.previous in seals[line.number - 1]
            repeated = line.seal in seals.get(line.number, ())
            if not follows or repeated or line.seal != line.expected_seal():
                raise DamagedError(
                    f"{where}: line {number} does not follow from the one before it: the file was changed"
                )
            if self._key and not hmac.compare_digest(line.mark, line.expected_mark(self._key)):
                raise DamagedError(f"{where}: line {number} was not written with the key that {KEY} names")
            seals.setdefault(line.number, set()).add(line.seal)
            ledger_lines.append(line)
        return ledger_lines

    def append(
        self,
        name: str,
        ids: tuple[str, ...],
        decision: Decision,
        reason: str,
        *,
        report: str = "",
        manifest: Mapping[str, Any] | None = None,
        lock: tuple[str, ...] = (),
    ) -> Line:
        """Add a line, and return it when it is stored; several processes may do so at once.

        Raises `UsageError` where the season of the store is closed.
        """
        check_open(Store(self._backend.address))
        added: list[Line] = []

        def compose(texts: Sequence[bytes]) -> bytes:
            before = self._read(texts)
            line = Line(
                number=before[-1].number + 1 if before else 1,
                date=datetime.now(UTC).isoformat(timespec="seconds"),
                name=name,
                ids=ids,
                decision=decision,
                reason=plain(reason),
                report=report,
                manifest=manifest,
                lock=lock,
                previous=before[-1].seal if before else "",
            )
            line = line.model_copy(update={"seal": line.expected_seal()})
            added.append(line.model_copy(update={"mark": line.expected_mark(self._key)}))
            return added[-1].model_dump_json().encode()

        self._backend.append(self._name, compose)
        return added[-1]

    def decided(self) -> Decided | None:
        """Return how many decisions there are and the seal of the last, for tables and the site; None without any."""
        lines = self.lines()
        return Decided(count=len(lines), seal=lines[-1].seal) if lines else None

    def check_begins_with(self, published: Iterable[Decided], where: str) -> None:
        """Raise `DamagedError` unless the ledger still holds all decisions that were published."""
        seals, file = [line.seal for line in self.lines()], f"{self._backend.address}/{self._name}"
        for publication in published:
            if not 0 < publication.count <= len(seals):
                raise DamagedError(
                    f"{file} has {len(seals)} decisions, {where} knows {publication.count}: some were removed"
                )
            if seals[publication.count - 1] != publication.seal:
                raise DamagedError(
                    f"{file}: decision {publication.count} is not the one that {where} knows: it was changed and "
                    "sealed again"
                )

    def standings(self) -> dict[str, tuple[Standing, ...]]:
        """Return what was decided about each component, by id, oldest first."""
        standings: dict[str, tuple[Standing, ...]] = {}
        for line in self.lines():
            decision = Standing(date=line.date, decision=line.decision, reason=line.reason, submission=line.name)
            for id in dict.fromkeys(line.ids):
                standings[id] = (*standings.get(id, ()), decision)
        return standings

    def withdrawn(self) -> dict[str, str]:
        """Return the ids of components that are withdrawn now, each with the reason.

        A component that was added again after that is not withdrawn any more.
        """
        reasons: dict[str, str] = {}
        for line in self.lines():
            for id in line.ids:
                if line.decision == "withdrawn":
                    reasons[id] = line.reason
                elif line.decision in ("added", "re-scored"):
                    reasons.pop(id, None)
        return reasons

    def active(self) -> list[Line]:
        """Return the line that last added each submission; submissions that are withdrawn now are left out."""
        active_lines: dict[str, Line] = {}
        for line in self.lines():
            if line.decision in ("added", "re-scored"):
                active_lines[line.name] = line
            elif line.decision == "withdrawn":
                active_lines.pop(line.name, None)
        return list(active_lines.values())
