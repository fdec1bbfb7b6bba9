"""NIPS 2017 adversarial learning development set: photographs without opinion scores.

Kurakin et al., "Adversarial Attacks and Defences Competition" (2018). Expected in the asset folder ``nips2017``: the
images in ``images`` (the names are ``ImageId`` of ``images.csv``, if that table exists).
"""

from imharness.data import Archive, DataSource, ImageDataset, Info, data_folder, hookimpl
from imharness.errors import Unavailable, UsageError
from imharness.files import images_below, read_csv
from imharness_iqa.folders import NO_LABELS, FolderDataset, Listing, named_file

SOURCE = DataSource(
    name="nips2017",
    licence="as stated on the page",
    page="https://www.kaggle.com/datasets/google-brain/nips-2017-adversarial-learning-development-set",
    archives=(Archive(file="archive.zip"),),
    steps="sign in at https://www.kaggle.com/datasets/google-brain/nips-2017-adversarial-learning-development-set, "
    "press Download, and keep archive.zip",
    members=("images/", "images.csv"),
    units=1_000,
    shape=(299, 299),
)


class Nips2017(FolderDataset):
    """1,000 photographs of 299x299 px, without opinion scores."""

    info = Info(id="harness/nips2017", version="1", paper="kurakin2018")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the images come from."""
        return (SOURCE,)

    def listing(self) -> Listing:
        folder = data_folder("nips2017", SOURCE.page)
        if not (folder / "images").is_dir():
            raise Unavailable(f"{folder} lacks the folder images", SOURCE.by_hand())
        table = folder / "images.csv"
        if not table.is_file():
            return Listing(folder / "images", images_below(folder / "images").names, proxy=NO_LABELS)
        content = read_csv(table)
        if "ImageId" not in content.columns:
            raise UsageError(f"{table} has no column ImageId.")
        names = [f"{named_file(table, line, row['ImageId'])}.png" for line, row in content.rows()]
        return Listing(folder / "images", names, proxy=NO_LABELS)


@hookimpl
def components() -> list[ImageDataset]:
    return [Nips2017()]
