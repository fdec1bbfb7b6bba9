"""The ladder of distortions on photographs of a folder: ``folder-ladder:PATH``."""

from pydantic import Field

from imharness.data import ImageDataset, Info, hookimpl
from imharness.errors import Unavailable
from imharness_embedded.photographs import SeverityLadder, content_of, sources_in


class FolderLadder(SeverityLadder):
    """Crops of the photographs of a folder, clean and in five severities of four distortions; labels are a proxy."""

    info = Info(id="harness/folder-ladder", version="1")
    address = "folder"
    folder: str = Field(default="", description="The folder, here or among the assets; it has no split.")

    def require(self) -> None:
        """Raise `Unavailable` unless the folder contains images."""
        if not self.folder:
            raise Unavailable("no folder is named", "--dataset folder-ladder:PATH")
        sources_in(self.folder)

    def content(self) -> str:
        """Return a digest of the images."""
        return content_of(self.folder)

    def sources(self) -> tuple[str, ...]:
        """Return the images of the folder."""
        return sources_in(self.folder)


@hookimpl
def components() -> list[ImageDataset]:
    return [FolderLadder()]
