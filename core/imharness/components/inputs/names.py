"""Names of components in the options of a track: an unknown name is refused, not ignored."""

from collections.abc import Iterable

from imharness.contracts.track import Planner
from imharness.errors import PluginError, UsageError

ALL = "*"
NOT = "!"


def check_names(planner: Planner, option: str, kind: str, names: Iterable[str]) -> None:
    """Raise `UsageError` for a name in an option that is neither the id nor the label of an installed component.

    ``*`` stands for all of a kind, and ``!`` before a name leaves it out. A name that may belong to a package that did
    not load is not checked.
    """
    for name in dict.fromkeys(name.removeprefix(NOT) for name in names):
        if name != ALL:
            _check(planner, option, kind, name)


def _check(planner: Planner, option: str, kind: str, name: str) -> None:
    try:
        chosen = planner.component(kind, name)
    except PluginError:
        return
    except UsageError as error:
        raise UsageError(f"option {option}: {error}") from None
    if name not in (chosen.info.id, chosen.label):
        raise UsageError(f"option {option}: write {chosen.label!r} instead of {name!r}.")
