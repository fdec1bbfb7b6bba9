"""`harness doctor`: is this machine ready?"""

from __future__ import annotations

import platform
import shutil
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import json_option
from imharness.documents.naming import brief
from imharness.documents.tables import several
from imharness.errors import Unavailable

if TYPE_CHECKING:
    from imharness.components.registry import Registry

PROFILE = "embedded"
"""The profile of the data and weights that ship."""


@click.command()
@json_option()
def doctor(as_json: bool) -> None:
    """Show versions, devices, free disk space, plugins that do not load and assets that are missing."""
    import torch

    from imharness.components.loading import LoadFailure, load_plugins
    from imharness.components.registry import installed
    from imharness.reading.text import reason
    from imharness.results.version import __version__
    from imharness.running.device import device_name, resolve_devices

    registry = installed()
    assets = {a.name: a for e in registry.entries.values() for a in e.component.assets()}
    missing = {}
    for name, asset in sorted(assets.items()):
        try:
            asset.path()
        except Unavailable as error:
            missing[name] = str(error)
    devices = resolve_devices(["auto"])
    facts = {
        "harness": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "devices": ", ".join(f"{d} ({device_name(torch.device(d))})" for d in devices),
        "free disk": f"{shutil.disk_usage('.').free / 1e9:.1f} GB",
        "components": len(registry.entries),
    }
    checks = load_plugins(hook="doctor")
    failures = [*registry.failures, *checks.failures]
    for plugin in checks.plugins:
        try:
            for answer in checks.ask(plugin):
                facts |= answer
        except Exception as error:
            failures.append(LoadFailure(plugin.name, f"doctor() raised {type(error).__name__}: {reason(error)}"))
    if as_json:
        left_out = {f.name: f.reason for f in failures}
        console.emit(facts | {"left_out": left_out, "missing_assets": missing})
        return
    console.say(_verdict(registry, len(failures)))
    across = max(map(len, facts))
    for name, value in facts.items():
        console.say(f"  {name:<{across}}  {value}")
    if failures:
        console.say(f"{several(len(failures), 'plugin')} left out:")
    for failure in failures:
        console.say(f"  {failure.name}: {failure.reason}")
    if missing:
        console.say(f"{several(len(missing), 'asset')} of other profiles or entries missing; to get one:")
    across = max(map(len, missing), default=0)
    for name, why in missing.items():
        console.say(f"  {name:<{across}}  {why.partition('get it with: ')[2] or why}")


def _verdict(registry: Registry, failures: int) -> str:
    """Say whether a run of the embedded profile would compute everything, and otherwise what it would leave out."""
    from imharness.planning.plan import plan_track
    from imharness.planning.profiles import load_profile

    profile = load_profile(PROFILE)
    graphs = (plan_track(id, profile, registry) for id in profile.tracks)
    gaps = {gap.what: gap for graph in graphs for gap in graph.missing.values()}
    broken = f" {several(failures, 'plugin')} left out, named below." if failures else ""
    if not gaps:
        return f"Ready: everything the {PROFILE} profile needs is here.{broken}"
    first = next(iter(gaps.values()))
    return (
        f"Ready, but not complete: the {PROFILE} profile leaves out {several(len(gaps), 'component')}, such as "
        f"{brief(first.what)}: {first.reason}. harness run --all --dry-run lists each.{broken}"
    )
