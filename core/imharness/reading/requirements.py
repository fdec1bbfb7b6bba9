"""Reads the requirements of a stranger's package, which may only name packages of the index and their versions."""

from __future__ import annotations

from packaging.requirements import InvalidRequirement, Requirement

from imharness.errors import UsageError
from imharness.reading.text import is_plain

LONGEST = 500


def requirement_of(text: str, where: str) -> Requirement:
    """Return a stranger's requirement; raises `UsageError` unless it is a name with versions, extras or a marker.

    An address, a path, a repository or an option of an installer would bring in code that no index lists, and building
    it would run that code on this machine.
    """
    try:
        if len(text) <= LONGEST and is_plain(text):
            requirement = Requirement(text)
            if requirement.url is None:
                return requirement
    except (InvalidRequirement, RecursionError):
        pass
    raise UsageError(
        f"{where} asks for {text!r:.100}, which is not a name with versions; only wheels of the index are allowed."
    )
