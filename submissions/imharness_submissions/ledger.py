"""The ledger: every decision about submitted entries, with its reason.

Lines are only added, and each is sealed together with the one before it. A line that adds a submission holds its whole
manifest, so that the board can be built again from this file alone. Loads no torch.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from imharness.errors import StoreError, UsageError
from imharness.results.identity import digest
from imharness.results.records import Standing
from imharness_files.opening import GIB, read_bytes
from imharness_files.text import plain

if TYPE_CHECKING:
    from imharness.results.store import Store

FILE = "ledger.jsonl"
Decision = Literal["added", "re-scored", "flagged", "withdrawn", "reproduced", "not reproduced", "refused"]


class Line(BaseModel):
    """One decision. `ids` are the components it is about; `report` is the seal of the report behind it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    date: str
    name: str
    ids: tuple[str, ...]
    decision: Decision
    reason: str
    report: str = ""
    manifest: Mapping[str, Any] | None = None
    lock: tuple[str, ...] = ()
    previous: str
    seal: str = ""

    def expected_seal(self) -> str:
        """Return the digest that `seal` must equal."""
        return digest(self.model_dump(mode="json", exclude={"seal"}))


class Ledger:
    """The ledger in the folder `root` of a store."""

    def __init__(self, root: Path, name: str = FILE) -> None:
        self.path = root / name

    def lines(self) -> list[Line]:
        """Return all lines; raises `StoreError` when one was changed, moved or removed.

        A last line whose writing was cut off is no decision.
        """
        if not self.path.exists():
            return []
        found: list[Line] = []
        try:
            content = read_bytes(self.path, GIB)
        except UsageError as error:
            raise StoreError(str(error)) from None
        for text in _whole(content):
            try:
                line = Line.model_validate_json(text)
            except ValidationError:
                raise StoreError(f"{self.path}: line {len(found) + 1} is damaged; restore the file") from None
            before = found[-1].seal if found else ""
            if line.number != len(found) + 1 or line.previous != before or line.seal != line.expected_seal():
                raise StoreError(
                    f"{self.path}: line {len(found) + 1} does not follow from the one before it: the file was changed"
                )
            found.append(line)
        return found

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
        """Add a line, flush it to the disk, and return it; several processes may do so at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = self.lines()
            file.seek(0)
            end = len(b"\n".join(_whole(file.read())))
            file.truncate(end)
            line = Line(
                number=len(before) + 1,
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
            content = (b"\n" if before else b"") + line.model_dump_json().encode() + b"\n"
            try:
                if file.write(content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError as error:
                file.truncate(end)
                raise StoreError(f"cannot write {self.path}: {error.strerror}; nothing was decided") from None
        return line

    def standings(self) -> dict[str, tuple[Standing, ...]]:
        """Return what was decided about each component, by id, oldest first."""
        found: dict[str, tuple[Standing, ...]] = {}
        for line in self.lines():
            decision = Standing(date=line.date, decision=line.decision, reason=line.reason, submission=line.name)
            for id in dict.fromkeys(line.ids):
                found[id] = (*found.get(id, ()), decision)
        return found

    def withdrawn(self) -> dict[str, str]:
        """Return the ids of components that are withdrawn now, each with the reason.

        A component that was added again after that is not withdrawn any more.
        """
        found: dict[str, str] = {}
        for line in self.lines():
            for id in line.ids:
                if line.decision == "withdrawn":
                    found[id] = line.reason
                elif line.decision in ("added", "re-scored"):
                    found.pop(id, None)
        return found

    def active(self) -> list[Line]:
        """Return the line that last added each submission; submissions that are withdrawn now are left out."""
        found: dict[str, Line] = {}
        for line in self.lines():
            if line.decision in ("added", "re-scored"):
                found[line.name] = line
            elif line.decision == "withdrawn":
                found.pop(line.name, None)
        return list(found.values())


def _whole(content: bytes) -> list[bytes]:
    """Return the lines of a ledger, without a last one whose writing was cut off."""
    texts = content.split(b"\n")
    try:
        Line.model_validate_json(texts[-1])
    except ValidationError:
        texts.pop()
    return texts


def submission_files(store: Store) -> dict[str, Path]:
    """Return the file of each submission of a store by its name, sorted."""
    return {path.stem: path for path in sorted((store.root / "submissions").glob("*.json"))}
