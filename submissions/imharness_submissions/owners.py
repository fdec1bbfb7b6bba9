"""Who may use an owner in ids: the name before the slash.

An owner belongs to the contact that has submissions under it now. If another contact hands in a package from the
account of that name on a forge, such as GitHub, that is a proof: a person looks at both, and withdraws what is not
theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from imharness.errors import UsageError
from imharness.results.identity import DISTRIBUTION, HARNESS
from imharness_submissions.ledger import Ledger
from imharness_submissions.manifest import Submission

MOST_OF_A_CONTACT = 16
"""The most entries of one contact: each further one makes the intervals of all pairs longer."""
_ALIKE = (("rn", "m"), ("vv", "w"), ("cl", "d"), ("0", "o"), ("1", "l"), ("i", "l"), ("5", "s"), ("3", "e"), ("4", "a"))
"""Signs, and the letter that they look like."""


def check_reserved(submission: Submission) -> None:
    """Raise `UsageError` for a submission under the name of this project, or under one that looks like it."""
    if _reads_like(submission.owner, HARNESS):
        raise UsageError(
            f"the owner {submission.owner!r} of ids is, or looks like, {HARNESS!r}, which is reserved; use your own"
        )
    if _reads_like(submission.package.name, DISTRIBUTION):
        raise UsageError(f"the package is called {submission.package.name!r}, which is, or looks like, this project")


def check_registered(submission: Submission, ids: Iterable[str]) -> None:
    """Raise `UsageError` when a package registers components under another owner than that of its entries.

    Such components would take the place of that owner's.
    """
    foreign = [owner for owner in _owners(ids) if owner != submission.owner]
    if foreign:
        raise UsageError(f"the package registers components of the owner {foreign[0]!r:.80}, of which no entry is")


def look_alikes(submission: Submission, ledger: Ledger, name: str = "") -> Iterator[str]:
    """Yield a line for each owner of a submission by somebody else that this submission's owner looks like.

    Raises `UsageError` for an owner, or for the `name` of a submission, that belongs to another contact, and for more
    entries of one contact than a leaderboard takes. The names of withdrawn submissions are free again.
    """
    contact, owner = _plain_contact(submission.contact), submission.owner
    of_contact = dict[str, Mapping[str, Any]]()  # name of a submission -> its manifest
    of_others = dict[str, Mapping[str, Any]]()
    for line in ledger.active():
        if line.manifest is not None:
            is_same_contact = _plain_contact(str(line.manifest.get("contact", ""))) == contact
            (of_contact if is_same_contact else of_others)[line.name] = line.manifest
    entries = len(submission.entries)
    entries += sum(len(facts["entries"]) for other, facts in of_contact.items() if other != name)
    if entries > MOST_OF_A_CONTACT:
        raise UsageError(
            f"{submission.contact} would have {entries} entries, and a leaderboard takes {MOST_OF_A_CONTACT} of one "
            "contact; withdraw some."
        )
    for other, facts in of_others.items():
        if other == name:
            raise UsageError(f"there is a submission {name} with another contact; give yours another name")
        if owner in _owners_of(facts):
            reason = f"the owner {owner!r} of ids belongs to the submission {other}, with another contact"
            raise UsageError(reason + _proof(submission))
    if any(owner in _owners_of(facts) for facts in of_contact.values()):
        return
    for other, facts in of_others.items():
        for alike in _owners_of(facts):
            if _skeleton(alike) == _skeleton(owner):
                yield f"the owner {owner!r} looks like {alike!r} of the submission {other}"


def _proof(submission: Submission) -> str:
    """Say that a package comes from the account of its owner, and what a person may do; empty if it does not."""
    package = submission.package
    if package.account != submission.owner:
        return ""
    return (
        f"; but this package comes from the account {package.account!r}: look at both, and withdraw what is not theirs"
    )


def _plain_contact(contact: str) -> str:
    """Return a contact as it is compared: letters of either case are one address."""
    return contact.casefold().removesuffix("/")


def _owners_of(facts: Mapping[str, Any]) -> list[str]:
    """Return the owners of a manifest in the ledger."""
    return _owners(entry["id"] for entry in facts["entries"])


def _owners(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(id.partition("/")[0] for id in ids))


def _reads_like(one: str, other: str) -> bool:
    """Say whether two names look alike, or differ by a single typing error."""
    return _nearly(_plain(one), _plain(other)) or _nearly(_skeleton(one), _skeleton(other))


def _nearly(one: str, other: str) -> bool:
    """Say whether two names are equal after at most one sign of each is left out."""
    return not {one, *_shorter(one)}.isdisjoint({other, *_shorter(other)})


def _shorter(name: str) -> Iterator[str]:
    """Yield a name without one of its signs, for each of them."""
    return (name[:index] + name[index + 1 :] for index in range(len(name)))


def _skeleton(name: str) -> str:
    """Return a name without separators, in small letters, with one sign for all that look alike.

    Ids are ASCII, so that letters of other scripts cannot occur in them.
    """
    plain = _plain(name)
    for sign, alike in _ALIKE:
        plain = plain.replace(sign, alike)
    return plain


def _plain(name: str) -> str:
    return "".join(sign for sign in name.casefold() if sign.isalnum())
