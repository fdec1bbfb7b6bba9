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

    It remembers the names that it met, so that `check` can tell an unknown name from one without matching tasks.
    """

    track: str | None
    step: str | None
    components: tuple[str, ...]
    status: str | None
    _met: dict[str, dict[str, None]] = field(default_factory=dict)
    _took: bool = False

    def takes(self, record: TaskRecord) -> bool:
        """Return whether a task is wanted."""
        spec = record.spec
        names = {name for ref in spec.components.values() for name in (ref.label, ref.id)}
        return self._takes(spec.track, spec.step, names, record.status)

    def takes_failed(self, track: str, address: str) -> bool:
        """Return whether a task that failed without a record is wanted; see `imharness.results.tasks.address_of`."""
        step, *words = address.split(" ")
        labels = [word.partition("=")[2] for word in words]
        names = {name for label in labels if "/" in label for name in (label, label.partition("[")[0])}
        return self._takes(track, step, names, "failed")

    def _takes(self, track: str, step: str, names: set[str], status: str) -> bool:
        short = {name_of(name) for name in names} | {n.rpartition("/")[2] for n in names if "[" not in n}
        self._note("track", [track.rpartition("/")[2]])
        self._note("step", [step])
        self._note("component", names | short)
        wanted = (
            self.track in (None, track, track.rpartition("/")[2])
            and self.step in (None, step)
            and (names | short).issuperset(self.components)
            and self.status in (None, status)
        )
        self._took |= wanted
        return wanted

    def check(self) -> None:
        """Raise `UsageError` if nothing was selected because no task has a name that was given."""
        if self._took:
            return
        track = (self.track or "").rpartition("/")[2]
        for kind, names in (("track", [track]), ("step", [self.step or ""]), ("component", self.components)):
            seen_names = self._met.get(kind, {})
            for name in filter(None, names):
                if name not in seen_names:
                    plain = sorted(word for word in seen_names if not {"/", "["} & set(word))
                    raise UsageError(unknown_name(f"no task has the {kind} {name!r}", name, plain, "There are"))

    def _note(self, kind: str, names: Iterable[str]) -> None:
        self._met.setdefault(kind, {}).update(dict.fromkeys(names))
