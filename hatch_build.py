"""README and addresses in the metadata of what is built: HARNESS_REPOSITORY says where the project is kept."""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ADDRESS = re.compile(r"^https://[\w.-]+(/[\w.-]+)+$")
LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?://|#)([^)\s]+)\)")
"""A link or a picture of Markdown that leads to a file of the repository."""


class Described(MetadataHookInterface):
    """Sets the README and, in a release, addresses; a build by hand has none: nobody knows where it will be kept."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both; links of the README are absolute in a release. Raises `ValueError` for a wrong address."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        repository = os.environ.get("HARNESS_REPOSITORY", "")
        if not repository:
            return
        if not ADDRESS.match(repository):
            raise ValueError(f"HARNESS_REPOSITORY must be an https address of a repository, got {repository!r}")
        metadata["readme"]["text"] = absolute(text, repository)
        metadata["urls"] = {
            "Repository": repository,
            "Documentation": f"{repository}/blob/main/docs/index.md",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }


def absolute(text: str, repository: str) -> str:
    """Return Markdown whose links and pictures lead to the files of a repository, as the package index has none."""

    def led(match: re.Match[str]) -> str:
        picture, words, path = match.groups()
        return f"{picture}{words}({repository}/{'raw' if picture else 'blob'}/main/{path})"

    return LINK.sub(led, text)
