"""Which tasks `harness results list` shows, by the names that people use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from imharness.errors import UsageError, unknown_name
from imharness.results.tasks import TaskRecord


def name_of(label: str) -> str:
    """Return a label, alone or after ``role=``, without the owner of first-party components."""
    return label.removeprefix("harness/").replace("=harness/", "=", 1)


@dataclass
class Filter:
    """Selects tasks by track, step, components and status; None and () select all.

    It remembers all names of the tasks that it was asked about, so that `check` can distinguish a name that no task has
    from names that no task has together.
    """

    track: str | None
    step: str | None
    components: tuple[str, ...]
    status: str | None
    _names_seen: dict[str, dict[str, None]] = field(default_factory=dict)
    """"track", "step" or "component" -> the names of the tasks that were asked about."""
    _selected_any: bool = False

    def takes(self, record: TaskRecord) -> bool:
        """Return whether a task is wanted."""
        spec = record.spec
        names = {name for ref in spec.components.values() for name in (ref.label, ref.id)}
        return self._selects(spec.track, spec.step, names, record.status)

    def takes_failed(self, track: str, address: str) -> bool:
        """Return whether a task that failed without a record is wanted; see `imharness.results.tasks.address_of`."""
        step, *words = address.split(" ")
        labels = [word.partition("=")[2] for word in words]
        names = {name for label in labels if "/" in label for name in (label, label.partition("[")[0])}
        return self._selects(track, step, names, "failed")

    def _selects(self, track: str, step: str, names: set[str], status: str) -> bool:
        """Return whether a task is wanted; `names` are the labels and ids of its components."""
        methods = {name.rpartition("/")[2] for name in names if "[" not in name}
        component_names = names | {name_of(name) for name in names} | methods
        self._remember("track", [track.rpartition("/")[2]])
        self._remember("step", [step])
        self._remember("component", component_names)
        wanted = (
            self.track in (None, track, track.rpartition("/")[2])
            and self.step in (None, step)
            and component_names.issuperset(self.components)
            and self.status in (None, status)
        )
        self._selected_any |= wanted
        return wanted

    def check(self) -> None:
        """Raise `UsageError` if nothing was selected because no task has a name that was given."""
        if self._selected_any:
            return
        track = (self.track or "").rpartition("/")[2]
        for kind, names in (("track", [track]), ("step", [self.step or ""]), ("component", self.components)):
            names_seen = self._names_seen.get(kind, {})
            for name in filter(None, names):
                if name not in names_seen:
                    plain = sorted(word for word in names_seen if not {"/", "["} & set(word))
                    raise UsageError(unknown_name(f"no task has the {kind} {name!r}", name, plain, "There are"))

    def _remember(self, kind: str, names: Iterable[str]) -> None:
        self._names_seen.setdefault(kind, {}).update(dict.fromkeys(names))
