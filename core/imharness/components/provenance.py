"""Where a component comes from: the installed package that registers it, as the package's metadata describe it."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

from imharness.components.code import Code
from imharness.contracts.component import Component


@dataclass(frozen=True)
class Provenance:
    """The installed package that a plugin comes from, as the package's metadata describe it.

    `code` is None for the harness's own packages, whose components count by their versions.
    """

    distribution: str
    version: str
    author: str = ""
    licence: str = ""
    home: str = ""
    code: Code | None = None

    def numbered(self, version: str) -> str:
        """Return a version with the digest of the package's code, for the identity of results."""
        return version if self.code is None else f"{version}+{self.code.digest}"


@dataclass(frozen=True)
class Registered:
    """A component, the name `plugin` under which it is registered, and the package it comes from."""

    component: Component
    plugin: str
    provenance: Provenance


def provenance(distribution: importlib.metadata.Distribution | None) -> Provenance:
    """Return the provenance that the metadata of a distribution state; `home` is its first web address."""
    if distribution is None:
        return Provenance("unknown", "")
    facts = distribution.metadata
    author = next((facts[name] for name in ("Author", "Author-email", "Maintainer") if name in facts), "")
    licence = next((facts[name] for name in ("License-Expression", "License") if name in facts), "")
    urls = [url.partition(",")[2].strip() for url in facts.get_all("Project-URL") or []]
    home = next((url for url in urls if url.startswith(("https://", "http://"))), "")
    return Provenance(distribution.name, distribution.version, author, " ".join(licence.split())[:300], home)
