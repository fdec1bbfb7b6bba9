"""What components need that does not ship: weights, parameters and data sets, and which of these are missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from imharness.contracts.assets import Asset
from imharness.contracts.component import Component
from imharness.contracts.data_source import DataSource
from imharness.errors import Unavailable


@dataclass
class Input:
    """A file or a data set that components need.

    `what` is its description, and `users` are these components, sorted by kind and label.
    """

    what: Asset | DataSource
    users: list[Component] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.what.name

    @property
    def gap(self) -> Unavailable | None:
        """Why it is not on this machine, or None if it is."""
        try:
            if isinstance(self.what, Asset):
                self.what.path()
            else:
                for user in self.users:
                    user.require()
        except Unavailable as error:
            return error
        return None

    @property
    def downloads(self) -> bool:
        """Whether `harness assets get` can fetch it without a person."""
        return bool(self.what.address) if isinstance(self.what, Asset) else self.what.has_address

    @property
    def size(self) -> int:
        """The size of the download in bytes, or 0 if it is not published."""
        if isinstance(self.what, Asset):
            return self.what.size
        sizes = [archive.size for archive in self.what.archives]
        return sum(sizes) if all(sizes) else 0

    @property
    def steps(self) -> str:
        """How to get it: a command, after what a person must do first."""
        if isinstance(self.what, Asset):
            return self.what.remedy()
        return f"harness assets get {self.name}" if self.downloads else self.what.by_hand()


def inputs_of(components: Iterable[Component]) -> dict[str, Input]:
    """Return name -> asset or data set, sorted by name, for all that components need."""
    resources = dict[str, Input]()
    for component in sorted(components, key=lambda item: (item.kind, item.label)):
        needs: list[Asset | DataSource] = [*component.assets(), *component.data_sources()]
        for what in needs:
            resources.setdefault(what.name, Input(what)).users.append(component)
    return dict(sorted(resources.items()))
