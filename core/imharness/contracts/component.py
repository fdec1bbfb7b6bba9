"""What every component is: a frozen configuration with facts about a method; `build` turns it into a plain callable.

A component is cheap to make, to compare and to send; what is large or slow (weights, data, networks) is loaded by
`build` alone. Its parameters are part of its label and of the identity of every result.
"""

import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from imharness.contracts.assets import Asset
from imharness.errors import Unavailable
from imharness.results.identity import ComponentRef
from imharness.results.labels import ID, label_of

if TYPE_CHECKING:
    from imharness.contracts.data_source import DataSource

KINDS = ("attack", "defense", "metric", "evaluator", "model", "dataset", "track", "weight-training")
"""What a component can be; a contract says which."""
SELECTABLE = KINDS[:6]
"""The kinds that a profile or a command line selects."""
ID_PATTERN = rf"^{ID}$"


class Paper(BaseModel):
    """Where a method was published."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    authors: str
    year: int = Field(ge=1900, le=2100)
    url: str = ""


class Info(BaseModel):
    """What the science needs to know about a component.

    `control`: for a control, which is ranked and never crowned, what it is, in a few words: "a flat image".
    `version` is the version of the numbers: bump it and every result computed with the component is computed again.
    Author, licence and package come from the package's metadata.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=ID_PATTERN, description="owner/method")
    version: str = Field(min_length=1)
    control: str = ""
    paper: Paper | str | None = Field(default=None, description="or its key in the package's papers.toml")


class Component(BaseModel):
    """Base of everything a plugin can register: hyper-parameters as fields, facts as `info`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    info: ClassVar[Info]
    call: ClassVar[Any] = None
    """How what `build` returns is called; every contract states its own: see `imharness.contracts.call`."""
    declares: ClassVar[tuple[str, ...]] = ()
    """The attributes, words in a tuple or a set, that a contract lets its components state beside `info`."""
    address: ClassVar[str] = ""
    """The field that ``--dataset method:VALUE`` sets, if there is one."""

    @property
    def label(self) -> str:
        """``owner/method[field=value]`` with the fields that differ from their defaults."""
        changed = {
            name: getattr(self, name)
            for name, field in type(self).model_fields.items()
            if getattr(self, name) != field.get_default(call_default_factory=True)
        }
        return label_of(self.info.id, changed)

    @property
    def summary(self) -> str:
        """The first line of the class's own docstring."""
        return inspect.cleandoc(vars(type(self)).get("__doc__") or "").partition("\n")[0]

    @property
    def control(self) -> str:
        """What this is a control for, or "" for an entry; a component whose parameters decide overrides it."""
        return self.info.control

    @property
    def isolation(self) -> str:
        """What keeps the component's code apart from this process; empty where nothing does."""
        return ""

    def ref(self) -> ComponentRef:
        """Return this component as pure data, from which `Registry.revive` makes it again."""
        return ComponentRef(
            kind=self.kind, id=self.info.id, version=self.info.version, label=self.label,
            parameters=self.model_dump(mode="json"), content=self.content(),
        )  # fmt: skip

    def variants(self) -> list[Self]:
        """Return what ``method[*]`` means: this component with each value of its parameter study, or it alone."""
        return [self]

    def content(self) -> str:
        """Return a digest of the files that parameters point to; part of every result's identity. Never raises."""
        return ""

    def assets(self) -> tuple[Asset, ...]:
        """Return the files `build` needs on this machine."""
        return ()

    def data_sources(self) -> tuple["DataSource", ...]:
        """Return where the data come from that `build` reads; `harness assets get` and `import` follow from it."""
        return ()

    def require(self) -> None:
        """Raise `Unavailable` unless everything `build` needs is on this machine."""
        for asset in self.assets():
            asset.path()

    def is_here(self) -> bool:
        """Say whether everything `build` needs is on this machine."""
        with suppress(Unavailable):
            self.require()
            return True
        return False

    def with_parameters(self, **changes: Any) -> Self:
        """Return a copy with other hyper-parameters.

        Raises:
            pydantic.ValidationError: a value is out of the bounds of its field, or there is no such field.
        """
        return type(self).model_validate({**self.model_dump(), **changes})
