"""What is wrong with a file of a store, and what to do about it: one line for each kind of file."""

from __future__ import annotations

from imharness.errors import DamagedError

_AGAIN = "a run computes it again, in an object store after `harness results verify`"
_REMEDIES = {
    "tasks": _AGAIN,
    "artifacts": _AGAIN,
    "sweeps": "the same run writes it again, with what it plans alone: repeat earlier runs with other selections, too",
    "leaderboards": "`harness results rank` makes it again",
    "examined": "delete it: the next run with that component examines it again",
    "submissions": "run the submission again",
    "runs": "delete it: it only says how far a run was",
    "times": "delete it: the next run measures again",
    "logs": "delete it: no result depends on it",
}
_RESTORE = "restore it from a copy of the store"


def damage(address: str, name: str, what: str) -> DamagedError:
    """Return the error of a file that `what` is true of, such as "is missing"."""
    return DamagedError(f"{address}/{name} {what}; {_REMEDIES.get(name.partition('/')[0], _RESTORE)}")


def changed(address: str, name: str, content: object) -> DamagedError:
    """Return the error of a file whose sha256 is not the recorded one; there is none if its content is None."""
    return damage(address, name, "is missing" if content is None else "is damaged: its sha256 is not the recorded one")
