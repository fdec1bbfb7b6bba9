"""`harness doctor`: is this machine ready?"""

from __future__ import annotations

import platform
import shutil

import click

from imharness.cli import console
from imharness.cli.options import json_option
from imharness.errors import Unavailable


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
            for found in checks.ask(plugin):
                facts |= found
        except Exception as error:
            failures.append(LoadFailure(plugin.name, f"doctor() raised {type(error).__name__}: {reason(error)}"))
    if as_json:
        left_out = {f.name: f.reason for f in failures}
        console.emit(facts | {"left_out": left_out, "missing_assets": missing})
        return
    console.table("This machine", ["", ""], list(facts.items()))
    if failures:
        console.table("Plugins left out", ["plugin", "why"], [(f.name, f.reason) for f in failures])
    if missing:
        console.table("Assets missing", ["asset", "what to do"], list(missing.items()))
