"""The harness for notebooks and scripts: evaluate your own object in a few lines, with ``import imharness``.

Packages add names by entry points in the group ``imharness.notebook``, as ``audit = "my_package.notebook:audit"``.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Any

from imharness.errors import PluginError
from imharness.results.identity import DISTRIBUTION

GROUP = "imharness.notebook"
OFFERS = {
    "PublishedLeaderboard": "published",
    "Result": "result",
    "attack": "objects",
    "compare": "compare",
    "defense": "objects",
    "evaluate": "evaluate",
    "evaluator": "objects",
    "load": "load",
    "load_leaderboard": "published",
    "metric": "objects",
    "run": "run",
    "score": "score",
}
"""What the core offers: name -> the module here that defines it, loaded when it is used."""


def offers(points: Iterable[EntryPoint] | None = None) -> dict[str, list[EntryPoint]]:
    """Return what `imharness` offers besides its modules, by name; the harness's own names are not overruled."""
    further: dict[str, list[EntryPoint]] = {}
    for point in importlib.metadata.entry_points(group=GROUP) if points is None else points:
        same = further.setdefault(point.name, [])
        if point.value not in [other.value for other in same]:  # two entries of the path may show one installation
            same.append(point)
    return {
        **further,
        **{name: [EntryPoint(name, f"{__name__}.{home}:{name}", GROUP)] for name, home in OFFERS.items()},
    }


def offered(name: str, points: Iterable[EntryPoint] | None = None) -> Any:
    """Return what `imharness` offers by a name; what first-party packages add, such as `audit`, is not overruled.

    Raises:
        AttributeError: nothing has the name.
        PluginError: two packages offer it, or the one that does cannot be loaded.
    """
    entries = offers(points).get(name, [])
    if not entries:
        raise AttributeError(f"module 'imharness' has no attribute {name!r}")
    first_party = [point for point in entries if point.dist and point.dist.name == DISTRIBUTION]
    (entry, *others) = first_party or entries
    if others:
        both = " and ".join(sorted(map(_owner, [entry, *others])))
        raise PluginError(f"imharness.{name}: packages {both} both offer it; uninstall one of them.")
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise PluginError(f"imharness.{name}, of package {_owner(entry)}, cannot be loaded: {error}") from error


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
