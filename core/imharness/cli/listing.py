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
        tracks, names = {spec.track, spec.track.rpartition("/")[2]}, set[str]()
        for ref in spec.components.values():
            names |= {ref.label, ref.id, name_of(ref.label), ref.id.rpartition("/")[2]}
        self._note("track", [spec.track.rpartition("/")[2]])
        self._note("step", [spec.step])
        self._note("component", names)
        wanted = (
            self.track in (None, *tracks)
            and self.step in (None, spec.step)
            and names.issuperset(self.components)
            and self.status in (None, record.status)
        )
        self._took |= wanted
        return wanted

    def check(self) -> None:
        """Raise `UsageError` if nothing was selected because no task has a name that was given."""
        if self._took:
            return
        track = (self.track or "").rpartition("/")[2]
        for kind, names in (("track", [track]), ("step", [self.step or ""]), ("component", self.components)):
            known = self._met.get(kind, {})
            for name in filter(None, names):
                if name not in known:
                    plain = sorted(word for word in known if not {"/", "["} & set(word))
                    raise UsageError(unknown_name(f"no task has the {kind} {name!r}", name, plain, "There are"))

    def _note(self, kind: str, names: Iterable[str]) -> None:
        self._met.setdefault(kind, {}).update(dict.fromkeys(names))
