"""Submissions as a store keeps them: enough to show their entries without starting their code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import PluginError, StoreError
from harness.registry import Registry
from harness.sandbox.proxies import Offer
from harness.store import Store


class Kept(BaseModel):
    """A submission with what became of it. `report` is a `harness.submissions.report.SubmissionReport`, as data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    manifest: Mapping[str, Any]
    lock: tuple[str, ...] = ()
    folder: str = ""
    """Where the manifest lies, for a package that is given as a file."""
    offer: Offer
    report: Mapping[str, Any]


def kept(path: Path) -> Kept:
    """Return a submission of a store; raises `StoreError` when its file is damaged."""
    try:
        return Kept.model_validate_json(path.read_bytes())
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
