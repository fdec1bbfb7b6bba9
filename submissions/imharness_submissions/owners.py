"""Who may use an owner in ids: the name before the slash belongs to whoever brought it first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from imharness.errors import UsageError
from imharness.results.identity import DISTRIBUTION, HARNESS
from imharness_submissions.ledger import Ledger
from imharness_submissions.manifest import Submission

MOST_OF_A_CONTACT = 16
"""Each further entry makes the intervals of all pairs longer."""
_ALIKE = (("rn", "m"), ("vv", "w"), ("cl", "d"), ("0", "o"), ("1", "l"), ("i", "l"), ("5", "s"), ("3", "e"), ("4", "a"))


def check_reserved(submission: Submission) -> None:
    """Raise `UsageError` for a submission under the name of this project, or under one that looks like it."""
    for owner in _owners(entry.id for entry in submission.entries):
        if _reads_like(owner, HARNESS):
            raise UsageError(
                f"the owner {owner!r} of ids is, or looks like, {HARNESS!r}, which is reserved; use your own"
            )
    if _reads_like(submission.package.name, DISTRIBUTION):
        raise UsageError(f"the package is called {submission.package.name!r}, which is, or looks like, this project")


def check_registered(submission: Submission, ids: Iterable[str]) -> None:
    """Raise `UsageError` when a package registers components under an owner that none of the entries has.

    They would stand in the place of those of the owner.
    """
    owners = _owners(entry.id for entry in submission.entries)
    foreign = [owner for owner in _owners(ids) if owner not in owners]
    if foreign:
        raise UsageError(f"the package registers components of the owner {foreign[0]!r:.80}, of which no entry is")


def look_alikes(submission: Submission, ledger: Ledger, name: str = "") -> Iterator[str]:
    """Yield a line for each owner that looks like one of an earlier submission by somebody else.

    Raises `UsageError` for an owner, or for the `name` of a submission, that belongs to another contact, and for more
    entries of one contact than a leaderboard takes.
    """
    manifests = [line.manifest for line in ledger.active() if line.name != name and line.manifest is not None]
    others = sum(len(facts["entries"]) for facts in manifests if str(facts.get("contact", "")) == submission.contact)
    if others + len(submission.entries) > MOST_OF_A_CONTACT:
        raise UsageError(
            f"{submission.contact} would have {others + len(submission.entries)} entries, and a leaderboard takes "
            f"{MOST_OF_A_CONTACT} of one contact; withdraw some."
        )
    registered: dict[str, tuple[str, str]] = {}
    for line in ledger.lines():
        if line.manifest is not None and line.decision in ("added", "re-scored"):
            for owner in _owners(line.ids):
                registered.setdefault(owner, (line.name, str(line.manifest.get("contact", ""))))
            if line.name == name and str(line.manifest.get("contact", "")) != submission.contact:
                raise UsageError(f"there is a submission {name} with another contact; give yours another name")
    for owner in _owners(entry.id for entry in submission.entries):
        if owner in registered:
            name, contact = registered[owner]
            if contact != submission.contact:
                raise UsageError(f"the owner {owner!r} of ids belongs to the submission {name}, with another contact")
            continue
        for other, (name, contact) in registered.items():
            if _skeleton(other) == _skeleton(owner) and contact != submission.contact:
                yield f"the owner {owner!r} looks like {other!r} of the submission {name}"


def _owners(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(id.partition("/")[0] for id in ids))


def _reads_like(one: str, other: str) -> bool:
    """Say whether two names look alike, or differ by a slip of the pen."""
    return _nearly(_plain(one), _plain(other)) or _nearly(_skeleton(one), _skeleton(other))


def _nearly(one: str, other: str) -> bool:
    """Say whether two names are nearly equal: at most one sign of each has to be left out."""
    return not {one, *_shorter(one)}.isdisjoint({other, *_shorter(other)})


def _shorter(name: str) -> Iterator[str]:
    """Yield a name without each of its signs."""
    return (name[:index] + name[index + 1 :] for index in range(len(name)))


def _skeleton(name: str) -> str:
    """Return what is left of a name when signs that look alike, capital letters and separators are made equal.

    Ids are ASCII, so that letters of other scripts cannot occur in them.
    """
    plain = _plain(name)
    for sign, alike in _ALIKE:
        plain = plain.replace(sign, alike)
    return plain


def _plain(name: str) -> str:
    return "".join(sign for sign in name.casefold() if sign.isalnum())
