"""What every component is: a frozen configuration with facts about a method; `build` makes what the harness uses.

That is mostly a function; for data sets it is an `ImageSet`.

A component is cheap to make, to compare and to send. Only `build` loads what is large or slow: weights, data, networks.
The parameters are part of the label and of the identity of every result.
"""

import functools
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
"""The kinds of components; each contract belongs to one."""
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
    """What a reader of the results needs to know about a component.

    `control` says in a few words what a control is, such as "a flat image"; a control has no rank and never wins.
    `version` is the version of the numbers: if you raise it, every result of the component is computed again.
    Author, licence and package come from the package's metadata.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=ID_PATTERN, description="owner/method")
    version: str = Field(min_length=1)
    control: str = ""
    paper: Paper | str | None = Field(default=None, description="or its key in the package's papers.toml")


@functools.lru_cache(maxsize=1000)
def _defaults(component: type[BaseModel]) -> dict[str, Any]:
    """Return the default of each field, made once: plans ask for a hundred thousand labels."""
    return {name: field.get_default(call_default_factory=True) for name, field in component.model_fields.items()}


class Component(BaseModel):
    """Base of everything that a plugin can register: hyper-parameters are fields, facts are in `info`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    info: ClassVar[Info]
    call: ClassVar[Any] = None
    """How the function that `build` returns is called. Every contract states its own; see `imharness.extending`."""
    declares: ClassVar[tuple[str, ...]] = ()
    """The names of class attributes, tuples or sets of words, that components of a contract may set beside `info`."""
    address: ClassVar[str] = ""
    """The field that ``--dataset method:VALUE`` sets, if there is one."""
    opt_in: ClassVar[bool] = False
    """Whether only its name selects it: ``*`` leaves it out, so that profiles with ``*`` stay as they are."""

    @property
    def label(self) -> str:
        """The label ``owner/method[field=value]``, with the fields that differ from their defaults."""
        defaults = _defaults(type(self))
        changed = {name: value for name, default in defaults.items() if (value := getattr(self, name)) != default}
        return label_of(self.info.id, changed)

    @property
    def summary(self) -> str:
        """The first line of the class's own docstring."""
        return inspect.cleandoc(vars(type(self)).get("__doc__") or "").partition("\n")[0]

    @property
    def control(self) -> str:
        """What this control is, or "" for an entry. Override it where the parameters decide."""
        return self.info.control

    @property
    def isolation(self) -> str:
        """What isolates the component's code from this process; empty if nothing does."""
        return ""

    def ref(self) -> ComponentRef:
        """Return this component as pure data, from which `Registry.revive` restores it."""
        return ComponentRef(
            kind=self.kind,
            id=self.info.id,
            version=self.info.version,
            label=self.label,
            parameters=self.model_dump(mode="json"),
            content=self.content(),
        )

    def variants(self) -> list[Self]:
        """Return what ``method[*]`` means: this component at each value of its parameter study, or only itself."""
        return [self]

    def content(self) -> str:
        """Return a digest of the files that parameters point to, for the identity of results; never raises."""
        return ""

    def assets(self) -> tuple[Asset, ...]:
        """Return the files that `build` needs on this machine."""
        return ()

    def data_sources(self) -> tuple["DataSource", ...]:
        """Return the sources of the data that `build` reads, for `harness assets get` and `harness assets import`."""
        return ()

    def require(self) -> None:
        """Raise `Unavailable` unless everything that `build` needs is on this machine."""
        for asset in self.assets():
            asset.path()

    def is_here(self) -> bool:
        """Return whether everything that `build` needs is on this machine."""
        with suppress(Unavailable):
            self.require()
            return True
        return False

    def with_parameters(self, **changes: Any) -> Self:
        """Return a copy with other hyper-parameters.

        Raises:
            pydantic.ValidationError: a value is outside the bounds of its field, or there is no such field.
        """
        return type(self).model_validate({**self.model_dump(), **changes})
