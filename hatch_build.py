"""Where the project is kept, in the metadata of what is built: the release workflow says it by HARNESS_REPOSITORY."""

import os
import re
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ADDRESS = re.compile(r"^https://[\w.-]+(/[\w.-]+)+$")


class ProjectUrls(MetadataHookInterface):
    """Sets [project.urls] of a release; a build by hand has none, since nobody knows where it will be kept."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the addresses; raises `ValueError` for one that is no https address."""
        repository = os.environ.get("HARNESS_REPOSITORY", "")
        if not repository:
            return
        if not ADDRESS.match(repository):
            raise ValueError(f"HARNESS_REPOSITORY must be an https address of a repository, got {repository!r}")
        metadata["urls"] = {
            "Repository": repository,
            "Documentation": f"{repository}/blob/main/docs/index.md",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }
