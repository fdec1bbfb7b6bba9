"""What makes two results the same: canonical JSON, digests, references to components."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from imharness.results.version import DISTRIBUTION as DISTRIBUTION

HARNESS = "harness"
"""The owner of this project's own components; no other package may use it."""
LOCAL = "local"
"""The owner of objects that a notebook or script makes, as by `imharness.defense`; no published table has them."""
LEFT_HERE = "an object of a notebook or script, which nobody else can run"
"""Why tables for others leave such an object out."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
"""Made once: plans ask for the texts of a million values, and to make it takes longer than most of them."""


def owner_of(id: str) -> str:
    """Return who a component belongs to: what stands before the slash of its id or label."""
    return id.partition("/")[0]


def canonical_json(value: object) -> str:
    """Return `value` as JSON with sorted keys, no spaces and no NaN, so that equal values give equal text."""
    return _ENCODER.encode(value)


def canonical_object(members: Mapping[str, str]) -> str:
    """Return the canonical JSON of an object; `members` is name -> the canonical JSON of the value."""
    return f"{{{','.join(f'{_quoted(name)}:{text}' for name, text in sorted(members.items()))}}}"


_quoted = functools.lru_cache(maxsize=1000)(canonical_json)
"""Names of members, of which there are few, in plans of many thousand tasks."""


def digest(value: object) -> str:
    """Return the sha256 of the canonical JSON of `value`, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


class ComponentRef(BaseModel):
    """A component as data: enough to build it again, and its part in the identity of a result."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    id: str
    version: str
    label: str
    parameters: Mapping[str, Any]
    content: str = ""
    """The digest of the files that the parameters only point to."""

    def identity(self) -> dict[str, Any]:
        """Return what a result depends on; the label is left out, because it follows from the rest."""
        return self.model_dump(exclude={"label"} if self.content else {"label", "content"})


def version_of(distribution: str) -> str:
    """Return the installed version of a distribution, or an empty string."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
