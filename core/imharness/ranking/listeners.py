"""Who is told of new tables: modules with the hook `leaderboard_finished`, and destinations of ``--log-to``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from imharness.components.loading import Loaded, load_plugins
from imharness.documents.leaderboards import Leaderboard
from imharness.errors import PluginError, UsageError, unknown_name
from imharness.reading.text import reason

HOOK = "leaderboard_finished"
DESTINATIONS = "listeners"


def open_listeners(wanted: Sequence[str]) -> dict[str, object]:
    """Return the listeners that ``--log-to`` names.

    Raises `UsageError` for a name that is not known, `PluginError` where it may be of a module that was left out, and
    what the listeners raise.
    """
    if not wanted:
        return {}
    loaded = load_plugins(hook=DESTINATIONS)
    destinations, listeners = _destinations(loaded), dict[str, object]()
    for text in wanted:
        name, _, address = text.partition(":")
        if name not in destinations:
            lines = [unknown_name(f"--log-to: nothing is called {name!r}", name, sorted(destinations))]
            lines += [f"{failure.name} is left out: {failure.reason}" for failure in loaded.failures]
            raise (PluginError if loaded.failures else UsageError)(" ".join(lines))
        listeners[text] = destinations[name](address)
    return listeners


def _destinations(loaded: Loaded) -> dict[str, Callable[[str], object]]:
    """Return what opens each destination, by name; raises `PluginError` where a name is taken twice."""
    openers: dict[str, Callable[[str], object]] = {}
    for plugin in loaded.plugins:
        for name, opens in (item for offered in loaded.ask(plugin) for item in offered.items()):
            if name in openers:
                raise PluginError(f"--log-to: {plugin.name} offers {name!r}, which is taken; rename it")
            openers[name] = opens
    return openers


def announce(
    store: str,
    leaderboards: Sequence[Leaderboard],
    release: str | None,
    listeners: Mapping[str, object],
    warn: Callable[[str], None],
) -> None:
    """Tell every module with the hook, and these listeners, of new tables; `warn` gets a line for each that cannot."""
    loaded = load_plugins(hook=HOOK)
    for failure in loaded.failures:
        warn(f"{failure.name} is not called with the tables: {failure.reason}")
    manager = loaded.manager
    for name, listener in listeners.items():
        manager.register(listener, name=f"--log-to {name}")
    everyone = manager.get_plugins()
    listening = {impl.plugin_name: impl.plugin for impl in manager.hook.leaderboard_finished.get_hookimpls()}
    for name, plugin in sorted(listening.items()):
        call = manager.subset_hook_caller(HOOK, remove_plugins=everyone - {plugin})
        try:
            call(store=store, leaderboards=tuple(leaderboards), release=release)
        except (Exception, SystemExit) as error:
            warn(f"{name} could not take the tables: {type(error).__name__}: {reason(error)}")
