"""A card for each component: what it is, who published it, its parameters, what it needs, and what it costs.

Cost and standing are those of a finished store, where ``HARNESS_DOCS_STORE`` names one; without it the cards say where
to find them, so that no page shows a number that nobody measured with this version.
"""

import os
from collections import defaultdict
from collections.abc import Mapping

from imharness.components.registry import Registry, installed
from imharness.contracts.component import Component
from imharness.documents.entries import Entry
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard
from imharness.ranking.entries import entry_of
from imharness.reading.credits import credits
from imharness.results.store import Store
from making.formats import cell

STORE = "HARNESS_DOCS_STORE"
TITLES = {
    "attack": "Attacks", "defense": "Defenses", "metric": "Metrics", "evaluator": "Membership-inference evaluators",
    "model": "Models", "dataset": "Data sets", "track": "Tracks", "weight-training": "Trainings of weights",
}  # fmt: skip
UNMEASURED = "Cost and standing: on the leaderboard of a run, where every component has a page (`harness site serve`)."


def pages() -> dict[str, str]:
    """Return a page for each kind, with the cards of its components, by name."""
    registry, leaderboards = installed(), _leaderboards()
    components: dict[str, dict[str, list[Component]]] = defaultdict(dict)
    for entry in registry.entries.values():
        components[entry.component.kind].setdefault(entry.component.info.id, []).append(entry.component)
    return {
        f"cards-{kind}": "\n".join(
            [_head(kind, of_kind), *(_card(c, registry, leaderboards) for c in of_kind.values())]
        )
        for kind, of_kind in components.items()
    }


def _head(kind: str, components: Mapping[str, list[Component]]) -> str:
    return f"# {TITLES[kind]}\n\nThe {len(components)} components of the kind `{kind}` in the first-party packages.\n"


def _card(components: list[Component], registry: Registry, leaderboards: list[Leaderboard]) -> str:
    """Return the card of one component; the first of them stands for it where a package offers several."""
    first = next((one for one in components if one.label == one.info.id), components[0])
    entry = entry_of(first.ref(), [], registry)
    facts = {"version of its numbers": entry.version, "package": f"{entry.package} {entry.package_version}"}
    facts |= {"licence": entry.licence} | dict(entry.traits)
    if entry.paper:
        facts["paper"] = f"[{entry.paper}]({entry.paper_url})" if entry.paper_url else entry.paper
    if first.control:
        facts["control"] = first.control
    if len(components) > 1:
        facts["offered as"] = ", ".join(f"`{one.label}`" for one in components)
    for asset in first.assets():
        facts[f"needs {asset.name}"] = f"{asset.licence}; `harness assets get {asset.name}`"
    for one in credits():
        if first.info.id in one.used_by:
            facts[f"uses {one.title}"] = f"{one.attribution}; {one.licence} {one.terms}".strip()
    rows = "\n".join(f"| {cell(name)} | {cell(value)} |" for name, value in facts.items())
    sections = [f"## {entry.id}\n\n{entry.summary}", entry.about, f"| | |\n|---|---|\n{rows}", _parameters(entry)]
    return "\n\n".join(filter(None, [*sections, _measured(entry, leaderboards)])) + "\n"


def _parameters(entry: Entry) -> str:
    if not entry.parameters:
        return ""
    rows = [
        f"| `{p.name}` | `{cell(_short(p.default))}` | {cell(p.bounds)} | {cell(p.description)} |"
        for p in entry.parameters
    ]
    return "| parameter | default | bounds | meaning |\n|---|---|---|---|\n" + "\n".join(rows)


def _short(default: str) -> str:
    """Return a default as a label shows it, with six digits of a number."""
    try:
        return f"{float(default):.6g}"
    except ValueError:
        return default


def _leaderboards() -> list[Leaderboard]:
    """Return the leaderboards of the store that the environment names, if it names one."""
    address = os.environ.get(STORE, "")
    if not address:
        return []
    store = Store(address)
    return [leaderboard for track in store.ranked() if (leaderboard := read_leaderboard(store, track)) is not None]


def _measured(entry: Entry, leaderboards: list[Leaderboard]) -> str:
    """Return what a component cost and where it stands, of each leaderboard that it took part in."""
    if not leaderboards:
        return UNMEASURED
    lines = [line for leaderboard in leaderboards if (line := on_leaderboard(entry, leaderboard))]
    return "\n".join(lines) or "It took part in no task of the run that these pages were made from."


def on_leaderboard(entry: Entry, leaderboard: Leaderboard) -> str:
    """Return what a component cost in a run, and its ranks; "" where it took no part."""
    matches = [one for one in leaderboard.entries if (one.kind, one.id) == (entry.kind, entry.id)]
    tasks, seconds = sum(one.tasks for one in matches), sum(one.seconds for one in matches)
    if not tasks:
        return ""
    ranked = {table.id: [row for row in table.rows if row.number("rank") is not None] for table in leaderboard.tables}
    places = [
        f"`{row.label}` has rank {row.values['rank'].value:.0f} of {len(ranked[table.id])} in *{table.title}*"
        for table in leaderboard.tables
        if table.id in {ranking.table for ranking in leaderboard.rankings}
        for row in ranked[table.id]
        if row.label in {one.label for one in matches}
    ]
    run = f"{leaderboard.title}, profile {leaderboard.profile}, {leaderboard.finished[:10]}"
    cost = f"{run}: it took part in {tasks} tasks, which took {seconds:.0f} s"
    return "- " + "; ".join([cost, *places]) + "."
