"""Submissions as a store keeps them: enough to show their entries without starting their code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from imharness.components.registry import Registry
from imharness.errors import PluginError, StoreError
from imharness.results.store import Store
from imharness_submissions.sandbox.proxies import PackageDescription


class StoredSubmission(BaseModel):
    """A submission with what became of it. `report` is a `imharness_submissions.report.SubmissionReport`, as data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    manifest: Mapping[str, Any]
    lock: tuple[str, ...] = ()
    folder: str = ""
    """Where the manifest lies, for a package that is given as a file."""
    offer: PackageDescription
    report: Mapping[str, Any]


def kept(path: Path) -> StoredSubmission:
    """Return a submission of a store; raises `StoreError` when its file is damaged."""
    try:
        return StoredSubmission.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise StoreError(f"{path} is damaged: {str(error).splitlines()[0]}; run the submission again") from None


def with_submissions(registry: Registry, store: Store) -> Registry:
    """Return a registry with the components of a store's submissions, which can be shown but not built."""
    for path in store.submissions():
        try:
            registry = registry.joined(kept(path).offer.entries())
        except PluginError:
            continue  # it is installed by now, or registered by two submissions: the first one is shown
    return registry
