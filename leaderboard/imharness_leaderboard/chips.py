"""How a row is named: a short name, who owns it, and its parameters as chips."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from imharness_leaderboard.wording import OWNER, SIZE, apart, brief, in_words, without_parameters

_OWNED = re.compile(r"([^\s/]+)/(.+)")
"""An owner and a name; a slash after the first word, as in "ifgsm within 1/255", belongs to the name."""


@dataclass(frozen=True)
class Name:
    """The parts of a label: ``acme/blur[radius=2]`` is `owner` acme, `short` blur and one of the `chips`, "radius 2".

    The owner of first-party components is not named. A label of several components has the names of all.
    """

    owner: str
    short: str
    chips: tuple[str, ...]


def name_of(label: str) -> Name:
    """Return the parts of a label."""
    chips = [
        in_words(chip)
        for part in label.split(" + ")
        for chip in apart(part)[1]
        if not (part.startswith(OWNER) and SIZE.fullmatch(chip))
    ]
    bare = brief(without_parameters(label)).strip() or label
    owned = _OWNED.fullmatch(bare)
    if " + " in bare or owned is None:
        return Name("", bare, tuple(chips))
    return Name(owned[1], owned[2], tuple(chips))


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Return each label's short name, with its parameters where another one has the same name."""
    names = {label: name_of(label) for label in labels}
    shorts = [name.short for name in names.values()]
    return {
        label: name.short
        if shorts.count(name.short) == 1
        else f"{name.short} ({', '.join(name.chips)})"
        if name.chips
        else name.short
        for label, name in names.items()
    }
