"""A task as pure data, and the record of what happened to it. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from imharness.results.identity import ComponentRef, canonical_json, canonical_object
from imharness.results.storage.backend import sha256_of
from imharness.results.storage.files import StoredFile
from imharness.results.version import SCHEMA

EXTERNAL = "external"
"""The configuration and the step of results that were measured elsewhere; the tables of all runs show them."""
IMPORTED = f"{EXTERNAL} file="
"""What the names of imported tasks begin with, before the name of the file."""
SECRET = "secret"
"""The option of every task of a secret split; its value is the digest of the split's seed."""


def address_of(step: str, labels: Mapping[str, str], options: Mapping[str, Any]) -> str:
    """Return the address of a task; `labels`: role -> label, of which measures, ``group.name``, are left out."""
    words = [step, *(f"{role}={label}" for role, label in labels.items() if "." not in role)]
    return " ".join([*words, *(f"{name}={value}" for name, value in options.items())])


class TaskSpec(BaseModel, frozen=True, extra="forbid"):
    """A task as pure data; its key is the sha256 of `identity()`."""

    track: str
    step: str
    version: str
    components: Mapping[str, ComponentRef]
    """Role -> component. A measure of a group (see `Planner.task`) has the role ``group.name``."""
    options: Mapping[str, str | int | float | bool]
    limit: int | None
    seed: int
    needs: Mapping[str, str]

    @property
    def split(self) -> str:
        """The digest of the seed of the secret split that the task is of, or "" for the public one."""
        return str(self.options.get(SECRET, ""))

    def named(self) -> dict[str, ComponentRef]:
        """Return the components that say which task this is, which are all but the measures."""
        return {role: ref for role, ref in self.components.items() if "." not in role}

    @property
    def address(self) -> str:
        """A text that says which task this is, without version numbers and without its measures."""
        return address_of(self.step, {role: ref.label for role, ref in self.components.items()}, self.options)

    def identity(self) -> dict[str, Any]:
        """Return everything that the result depends on."""
        components = {role: ref.identity() for role, ref in self.components.items()}
        return dict(self) | {"components": components, "options": dict(self.options), "needs": dict(self.needs)}

    def key_with(self, components: Mapping[str, str]) -> str:
        """Return the key; `components`: role -> canonical JSON of a component's identity, made once for many tasks."""
        rest = canonical_json({name: value for name, value in vars(self).items() if name != "components"})
        text = (
            f'{{"components":{canonical_object(components)},{rest[1:]}'  # no field has a name that is sorted before it
        )
        return sha256_of(text.encode())

    def describe(self) -> str:
        """Return one line by which a person can recognise the task."""
        roles = ", ".join(f"{role}={ref.label}" for role, ref in self.named().items())
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.step}: " + ", ".join(text for text in (roles, options) if text)


class Failure(BaseModel, frozen=True, extra="forbid"):
    """Why a task has no result. `who` is the component at fault, or the harness."""

    who: str
    error: str
    message: str
    traceback: str = ""


class TaskRecord(BaseModel, frozen=True, extra="forbid"):
    """What happened to a task.

    `rows`: a digest of its rows, which equal rows have, or "" without rows. `read`: name of a need -> the `outcome` of
    its record when this task read it. `seal`: the sha256 of its file, which has
    `size` bytes and this `number` (see `TaskFile`); all three are known once it is stored.
    """

    schema_version: int = SCHEMA
    key: str
    spec: TaskSpec
    status: Literal["done", "failed"]
    failure: Failure | None = None
    rows: str = ""
    n_rows: int = 0
    arrays: StoredFile | None = None
    read: Mapping[str, str] = Field(default_factory=dict)
    facts: Mapping[str, float] = Field(default_factory=dict)
    started: str
    seconds: float
    device: str
    versions: Mapping[str, str]
    isolation: str = "none"
    """What isolated the code of its components from the runner: "none", or "bubblewrap+seccomp" and the like."""
    notes: tuple[str, ...] = ()
    """What isolated code tried although it may not, and which objects of a notebook drew from global randomness."""
    seal: str = ""
    size: int = 0
    number: int = 0

    @property
    def outcome(self) -> str:
        """A digest of its rows and arrays, which equal results have however often they are computed."""
        return sha256_of(f"{self.rows} {self.arrays.sha256 if self.arrays else ''}".encode())

    @property
    def kind(self) -> str:
        """What the name of its file says: "done", "arrays" where it has some, or "failed"."""
        return "arrays" if self.arrays is not None and self.status == "done" else self.status
