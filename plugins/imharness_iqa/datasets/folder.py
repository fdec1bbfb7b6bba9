"""Any folder of images, with or without opinion scores: ``folder:PATH``."""

from pydantic import Field

from imharness.data import ImageDataset, Info, hookimpl, place
from imharness.errors import Unavailable, UsageError
from imharness_iqa.folders import NO_LABELS, FolderDataset, Listing, images_below, read_scores

NAMES = ("image", "image_name", "name", "filename")
SCORES = ("mos", "MOS", "score")


class Folder(FolderDataset):
    """The images of a folder; a file mos.csv in it (columns image, mos) gives opinion scores."""

    info = Info(id="harness/folder", version="1")
    address = "path"
    path: str = Field(default="", description="Folder of images, here or among the assets.")
    mos: str = Field(default="", description="Table of scores, if not PATH/mos.csv; higher is better.")

    def listing(self) -> Listing:
        """Return the images of the folder, or those that the table of scores names."""
        if not self.path:
            raise Unavailable("no folder is named", "--dataset folder:PATH")
        folder = place(self.path)
        if not folder.is_dir():
            raise Unavailable(f"{folder} is not a folder", "--dataset folder:PATH")
        table = place(self.mos) if self.mos else folder / "mos.csv"
        if not table.is_file():
            if self.mos:
                raise UsageError(f"{table} does not exist.")
            names = images_below(folder)
            if not names:
                raise Unavailable(f"{folder} has no images", "--dataset folder:PATH")
            return Listing(folder, names, proxy=NO_LABELS)
        names, scores = read_scores(table, NAMES, SCORES)
        return Listing(folder, names, {"mos": scores})


@hookimpl
def components() -> list[ImageDataset]:
    return [Folder()]
