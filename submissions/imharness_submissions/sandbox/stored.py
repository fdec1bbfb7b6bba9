"""Submissions in a store: what is needed to show their entries without starting their code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from imharness.components.registry import Registry
from imharness.errors import DamagedError, PluginError, StoreError
from imharness.results.store import Store
from imharness_submissions.sandbox.proxies import PackageDescription

SUBMISSIONS = "submissions"
"""The folder of a store that holds one file for each submission."""


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


def read_submission(store: Store, name: str) -> StoredSubmission:
    """Return a submission of a store; raises `StoreError` when its file is damaged."""
    file = f"{SUBMISSIONS}/{name}.json"
    try:
        submission = store.current(file, StoredSubmission)
    except DamagedError:
        raise DamagedError(f"{store.address}/{file} is damaged; run the submission again") from None
    if submission is None:
        raise StoreError(f"store {store.address} has no submission {name!r}")
    return submission


def with_submissions(registry: Registry, store: Store) -> Registry:
    """Return a registry that also holds the components of a store's submissions; they can be shown, but not built."""
    for name in store.names(SUBMISSIONS):
        try:
            registry = registry.joined(read_submission(store, name).description.entries())
        except PluginError:
            continue  # it is installed by now, or two submissions register it: then the first one is shown
    return registry
