"""Who may import whom. The rules are derived from the folders and packages of the project.

A door is a file directly in core/imharness: plugins import these. A room is a folder there, whose modules other
packages do not import, except for those in `APPLICATIONS`. Imports for type checking count, too. Each rule is also
tested on pairs of modules that do not import each other: `refused` must refuse the wrong pairs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

from imharness.errors import HarnessError

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "core" / "imharness"
PARTS = ("core", "plugins", "leaderboard", "submissions")
PACKAGES = sorted(file.parent.name for root in PARTS for file in (ROOT / root).glob("*/__init__.py"))
DOORS = {file.stem for file in CORE.glob("*.py")} - {"__init__", "__main__"}
MOST = {"leaderboard": 70, "extending": 60}
"""Door -> the most names that it may list; any other door may list 30."""
ROOMS = {file.parent.name for file in CORE.glob("*/__init__.py")}
STORIES = (
    ("notebook", "training_runs"),
    ("cli",),
    ("exports", "papers", "testing"),
    ("running",),
    ("planning",),
    ("ranking",),
    ("components",),
    ("contracts",),
    ("documents",),
    ("results",),
    ("statistics", "reading"),
)
"""The rooms of the core in layers: each room imports rooms of the layers after its own, and `imharness.errors`."""
HEIGHT = {room: -story for story, rooms in enumerate(STORIES) for room in rooms}
"""Room -> a number that is larger for rooms that may import more."""
APPLICATIONS = {"imharness_leaderboard", "imharness_submissions"}
"""Packages that are parts of the harness, and may import its rooms; the leaderboard only those in `SHOWN`."""
SHARED = {"imharness_vision"}
"""Packages that several first-party plugins import."""
SHOWN = {"results", "documents", "ranking", "statistics", "reading", "exports", "papers", "errors", "commands", "cli"}
"""Rooms and doors that the leaderboard may import: they compute nothing."""
LIGHT = ("results", "documents", "ranking", "planning", "statistics", "papers")
"""Rooms that can be imported without torch, like the leaderboard."""
Edge = tuple[str, str]
"""A module, and a module that it imports."""


@cache
def graph_of(*, types: bool) -> grimp.ImportGraph:
    """Return all imports of all packages; with `types` also those for type checking."""
    return grimp.build_graph(
        *PACKAGES, include_external_packages=True, exclude_type_checking_imports=not types, cache_dir=None
    )


def edges() -> set[Edge]:
    graph = graph_of(types=True)
    ours = [module for module in graph.modules if module.startswith("imharness")]
    return {(module, other) for module in ours for other in graph.find_modules_directly_imported_by(module)}


def room_of(module: str) -> str:
    """Return the room or door of a module of the core, "" for the package itself."""
    return [*module.split("."), ""][1]


def refused(importer: str, imported: str) -> str:
    """Return why an import is against the rules, "" where it is not."""
    home, package = importer.partition(".")[0], imported.partition(".")[0]
    if not package.startswith("imharness"):
        return ""
    if package != "imharness":
        beside = home != package and (home in SHARED | {"imharness"} or package not in SHARED)
        return "packages do not import each other" if beside else ""
    if home == "imharness":
        return _inside(room_of(importer), room_of(imported))
    if home == "imharness_leaderboard":
        return "" if room_of(imported) in SHOWN else "the leaderboard reads results and rankings"
    open_to_all = (imported.count(".") == 1 and room_of(imported) in DOORS) or room_of(imported) in ("", "testing")
    return "" if home in APPLICATIONS or open_to_all else "plugins import doors"


def _inside(room: str, other: str) -> str:
    if room in ("", "__main__", other) or other == "errors" or (room in DOORS and room != "errors" and other in ROOMS):
        return ""  # the package itself is what notebooks import, and the command
    below = HEIGHT.get(other, 0) < HEIGHT.get(room, -len(STORIES))
    return "" if room in ROOMS and other in ROOMS and below else "data flows one way through the core"


def modules_of(package: str) -> Iterator[str]:
    return (module for module in sorted(graph_of(types=True).modules) if (module + ".").startswith(package + "."))


def test_every_import_keeps_the_rules() -> None:
    problems = [
        f"{importer} -> {imported}: {why}"
        for importer, imported in sorted(edges())
        if (why := refused(importer, imported))
    ]
    assert not problems, "\n".join(problems)


def test_every_room_has_a_story_and_there_are_twelve_packages() -> None:
    """There are at most twelve packages, among them the applications and the shared ones."""
    assert set(HEIGHT) == ROOMS
    assert len(PACKAGES) <= 12
    assert set(PACKAGES) >= APPLICATIONS | SHARED


def circles(edges: Iterable[Edge]) -> list[str]:
    """Return the modules that remain when modules which import none of the remaining ones are removed repeatedly.

    They are the modules in circles of imports, and those that import them; without a circle none remains.
    """
    needs: dict[str, set[str]] = {}
    for importer, imported in edges:
        if imported.startswith("imharness") and not importer.startswith(f"{imported}."):
            needs.setdefault(importer, set()).add(imported)
            needs.setdefault(imported, set())
    while free := [module for module, others in needs.items() if not others]:
        needs = {module: others.difference(free) for module, others in needs.items() if others}
    return sorted(needs)


def test_no_module_imports_itself_in_a_circle() -> None:
    assert circles(edges()) == []
    assert circles({*edges(), ("imharness.results.store", "imharness.results.query")}) != []


def test_a_plugin_may_import_doors_and_the_conformance_kit_alone() -> None:
    allowed = {module for module in modules_of("imharness") if not refused("imharness_iqa.track", module)}
    assert allowed == {"imharness", *(f"imharness.{door}" for door in DOORS), *modules_of("imharness.testing")}
    assert not any(refused("imharness_submissions.running", module) for module in modules_of("imharness"))


@pytest.mark.parametrize("door", sorted(DOORS - {"errors"}))
def test_a_door_lists_few_names_and_no_error(door: str) -> None:
    module = importlib.import_module(f"imharness.{door}")
    assert len(module.__all__) <= MOST.get(door, 30)
    assert len(set(module.__all__)) == len(module.__all__)
    offered = {name: getattr(module, name) for name in module.__all__}
    wrong = {name for name, member in offered.items() if isinstance(member, type) and issubclass(member, HarnessError)}
    assert not wrong, "errors have a door of their own, imharness.errors"


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_what_is_below_alone(room: str) -> None:
    for module in modules_of(f"imharness.{room}"):
        for other in sorted(ROOMS - {room}):
            for imported in modules_of(f"imharness.{other}"):
                below = HEIGHT[other] < HEIGHT[room]
                assert bool(refused(module, imported)) != below, (module, imported)
        for door in DOORS - {"errors"}:
            assert refused(module, f"imharness.{door}")
        for package in set(PACKAGES) - {"imharness"}:
            assert refused(module, f"{package}.track")


def test_packages_do_not_import_each_other() -> None:
    for home in set(PACKAGES) - {"imharness"}:
        for other in set(PACKAGES) - {home, "imharness"}:
            assert bool(refused(f"{home}.track", f"{other}.track")) == (other not in SHARED)


def test_the_leaderboard_reads_and_computes_nothing() -> None:
    for room in ROOMS - SHOWN:
        assert all(refused("imharness_leaderboard.pages", module) for module in modules_of(f"imharness.{room}"))


def test_rooms_that_only_read_load_no_torch() -> None:
    graph = graph_of(types=False)
    for start in (*(f"imharness.{room}" for room in LIGHT), "imharness_leaderboard"):
        chains = [chain for module in modules_of(start) if (chain := graph.find_shortest_chain(module, "torch"))]
        assert not chains, chains[:3]
