"""Submissions in a store: what is needed to show their entries without starting their code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imharness.components.registry import Registry
from imharness.errors import PluginError, StoreError
from imharness.results.store import Store
from imharness_submissions.ledger import submission_files
from imharness_submissions.sandbox.proxies import PackageDescription


class StoredSubmission(BaseModel):
    """A submission that was run: its manifest, the description of its package, and its report.

    `report` is a `imharness_submissions.report.SubmissionReport` as data. In files `description` is called ``offer``,
    as in stores that were written before.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    name: str
    manifest: Mapping[str, Any]
    lock: tuple[str, ...] = ()
    folder: str = ""
    """The folder of the manifest, for a package that is given as a file."""
    description: PackageDescription = Field(alias="offer")
    report: Mapping[str, Any]


def read_submission(path: Path) -> StoredSubmission:
    """Return a submission of a store; raises `StoreError` when its file is damaged."""
    try:
        return StoredSubmission.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise StoreError(f"{path} is damaged: {str(error).splitlines()[0]}; run the submission again") from None


def with_submissions(registry: Registry, store: Store) -> Registry:
    """Return a registry that also holds the components of a store's submissions; they can be shown, but not built."""
    for path in submission_files(store).values():
        try:
            registry = registry.joined(read_submission(path).description.entries())
        except PluginError:
            continue  # it is installed by now, or two submissions register it: then the first one is shown
    return registry
