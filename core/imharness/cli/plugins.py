"""`harness plugins`: what is installed. The conformance package adds `new` and `check`."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import click

from imharness.cli import LazyGroup, console
from imharness.cli.completion import ComponentName
from imharness.cli.options import json_option
from imharness.contracts.component import KINDS, Component
from imharness.documents.tables import several
from imharness.errors import UsageError, unknown_name
from imharness.results.identity import DISTRIBUTION
from imharness.results.labels import printed

WIDEST_KIND = max(map(len, KINDS))


@click.group(cls=LazyGroup, prefix="plugins.")
def plugins() -> None:
    """List and describe components, start a package with a new one, and check that one keeps its contract."""


@plugins.command("list")
@click.option("--kind", metavar="KIND", help=f"Only components of this kind: {', '.join(KINDS)}.")
@json_option()
def list_plugins(kind: str | None, as_json: bool) -> None:
    """List every component, and every plugin that was left out, with the reason."""
    from imharness.cli.index import index

    if kind is not None and kind not in KINDS:
        raise UsageError(unknown_name(f"{kind!r} is not a kind of component", kind, KINDS, "Kinds"))
    plugin_index = index()
    listed = [component for component in plugin_index.components if kind in (None, component.kind)]
    if as_json:
        facts = [component.model_dump(include={"kind", "label", "plugin"}) for component in listed]
        console.emit({"components": facts, "left_out": [gap.model_dump() for gap in plugin_index.left_out]})
        return
    counts = Counter(component.kind for component in listed)
    console.say(f"{several(len(listed), 'component')}: {', '.join(several(n, name) for name, n in counts.items())}")
    across = max((len(printed(one.label)) for one in listed), default=0)
    for one in listed:
        package = "" if one.distribution == DISTRIBUTION else f" ({one.distribution})"
        console.say(f"{one.kind:<{WIDEST_KIND}} {printed(one.label):<{across}} {one.summary}{package}")
    if plugin_index.left_out:
        console.say(f"{several(len(plugin_index.left_out), 'plugin')} left out:")
    for gap in plugin_index.left_out:
        console.say(f"{gap.name} {gap.reason}")


@plugins.command()
@click.argument("name", type=ComponentName())
@json_option()
def show(name: str, as_json: bool) -> None:
    """Show one component, NAME: what it is, its parameters with bounds and defaults, its package."""
    from imharness.cli.index import registry_for
    from imharness.components.papers import paper_of
    from imharness.reading.credits import credits

    registry, components = registry_for(name), list[Component]()
    for kind in KINDS:
        with suppress(UsageError):
            components.append(registry.one(kind, name))
    if not components:
        ids = [e.component.info.id for e in registry.entries.values()]
        raise UsageError(unknown_name(f"no component is called {name!r}", name, ids))
    for component in components:
        origin = registry.provenance(component).provenance
        info = component.info.model_copy(update={"paper": paper_of(component)})
        properties = type(component).model_json_schema().get("properties", {})
        facts: dict[str, Any] = {"kind": component.kind, "label": component.label, "summary": component.summary}
        facts |= info.model_dump(mode="json")
        facts |= {"package": f"{origin.distribution} {origin.version}", "author": origin.author}
        facts |= {"licence": origin.licence, "assets": [asset.name for asset in component.assets()]}
        facts["credits"] = [one.line for one in credits() if component.info.id in one.used_by]
        if as_json:
            console.emit(facts | {"parameters": properties})
            continue
        console.table(component.label, ["", ""], [(k, _shown(v)) for k, v in facts.items() if v not in (None, "", [])])
        if properties:
            rows = [
                (n, p.get("type", ""), p.get("default", ""), _bounds(p), p.get("description", ""))
                for n, p in properties.items()
            ]
            console.table("Parameters", ["name", "type", "default", "bounds", "meaning"], rows)


def _shown(value: object) -> str:
    if isinstance(value, dict) and {"title", "authors", "year"} <= set(value):
        return f"{value['authors']}: {value['title']} ({value['year']}) {value['url']}".strip()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _bounds(schema: dict[str, Any]) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    limits = [f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema]
    return ", ".join(limits) or "|".join(map(str, schema.get("enum", [])))
