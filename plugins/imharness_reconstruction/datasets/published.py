"""The five data sets of SemSim (Sun et al., NeurIPS 2023, section 5), from the assets in their published layouts.

The paper does not state the size of the images. All are resized to 32 px, the size of CIFAR-100, unless `size` says
otherwise.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from imharness.data import Archive, DataSource, ImageDataset, Images, ImageSet, Info, data_folder, hookimpl
from imharness.errors import ContractError, Unavailable
from imharness.files import MIB, Census, file_digest, images_below, read_text
from imharness_reconstruction.datasets.class_folder import ClassFolder
from imharness_vision.cifar100 import CIFAR100, binary

IDENTITIES = "identity_CelebA.txt"
IMAGES = "Private images that are used, one of each class in turn; 0: all. The training part is always whole."


class _Published(ClassFolder):
    """A class folder that is found among the assets."""

    source: ClassVar[DataSource]
    folder: ClassVar[str] = ""
    """The folder, below that of the asset, that contains the classes or the parts."""
    published_counts: ClassVar[tuple[int, int]]
    """The number of classes, and the number of images in the published test part; 0 if none was published."""
    images: int = Field(default=0, ge=0, description=IMAGES)

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the images come from."""
        return () if self.path else (self.source,)

    @property
    def root(self) -> Path:
        """The folder of the classes: the one that is named, or that of the asset."""
        return Path(self.path) if self.path else data_folder(self.source.name, self.source.page) / self.folder

    def published_units(self) -> int:
        """Return how many private images of the published set are used."""
        classes, held_out = self.published_counts
        if self.path:
            return 0
        return self._used_of(held_out if held_out and not self.per_class else self._per_class * classes)

    @property
    def _per_class(self) -> int:
        """How many private images a class has."""
        return self.per_class if self.published_counts[1] else min(self.per_class or self.held_out, self.held_out)

    def _used_of(self, units: int) -> int:
        """Return how many of `units` private images are used; 0 for the training part, whose size is not stated."""
        return 0 if self.split == "train" else min(self.images or units, units)

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, one of each class in turn."""
        image_set = super().build(device)
        return image_set if self.split == "train" else image_set.first(self.images or None)

    def require(self) -> None:
        """Raise `Unavailable` unless the folder is there."""
        if not self.root.is_dir():
            raise Unavailable(f"{self.root} is not a folder", self.source.by_hand())


class Imagenette(_Published):
    """13,394 photographs of ten classes of ImageNet, in a training and a validation part."""

    info = Info(id="harness/imagenette", version="2", paper="sun2023")
    published_counts = (10, 3_925)
    source = DataSource(
        name="imagenette",
        licence="Apache-2.0",
        page="https://github.com/fastai/imagenette",
        archives=(
            Archive(
                file="imagenette2-320.tgz", address="https://s3.amazonaws.com/fast-ai-imageclas/imagenette2-320.tgz"
            ),
        ),
        members=("train/", "val/"),
        units=3_925,
    )


class Caltech101(_Published):
    """9,144 photographs of 101 kinds of objects and of backgrounds, with a folder for each kind."""

    info = Info(id="harness/caltech101", version="2", paper="sun2023")
    published_counts = (102, 0)
    folder = "101_ObjectCategories"
    source = DataSource(
        name="caltech101",
        licence="CC BY 4.0",
        page="https://data.caltech.edu/records/mzrjq-6wc02",
        archives=(
            Archive(
                file="caltech-101.zip", address="https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip"
            ),
        ),
        nested=("101_ObjectCategories.tar.gz",),
        members=("101_ObjectCategories/",),
        units=204,
    )


class StanfordDogs(_Published):
    """20,580 photographs of dogs of 120 breeds, with a folder for each breed."""

    info = Info(id="harness/stanford-dogs", version="2", paper="sun2023")
    published_counts = (120, 0)
    folder = "Images"
    source = DataSource(
        name="stanford-dogs",
        licence="free for research",
        page="http://vision.stanford.edu/aditya86/ImageNetDogs",
        archives=(Archive(file="images.tar"),),
        steps="get http://vision.stanford.edu/aditya86/ImageNetDogs/images.tar (about 757 MB)",
        members=("Images/",),
        units=240,
    )


class CelebA(_Published):
    """202,599 faces of 10,177 people; a class is a person."""

    info = Info(id="harness/celeba", version="2", paper="sun2023")
    published_counts = (10_177, 0)
    folder = "img_align_celeba"
    source = DataSource(
        name="celeba",
        licence="free for research",
        page="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        archives=(Archive(file="img_align_celeba.zip"), Archive(file=IDENTITIES)),
        steps="follow the link to Google Drive on https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, get "
        f"Img/img_align_celeba.zip (about 1.4 GB) and Anno/{IDENTITIES}",
        members=("img_align_celeba/", IDENTITIES),
    )
    people: int = Field(
        default=100, ge=2, le=10_177, description="How many people are used, in the order of their numbers."
    )

    def published_units(self) -> int:
        """Return how many private images these people have."""
        return 0 if self.path else self._used_of(self._per_class * self.people)

    def _census(self) -> Census:
        """Return all images; they are in one folder, and a list of identities says which person each shows."""
        return images_below(self.root)

    def classes(self) -> dict[str, list[Path]]:
        """Return person -> images of this split, both in natural order."""
        file, by_person = self.root.parent / IDENTITIES, dict[int, list[Path]]()
        for count, line in enumerate(read_text(file, 64 * MIB).splitlines(), 1):
            name, _, person = line.strip().partition(" ")
            if not name.endswith(".jpg") or "/" in name or not person.isdigit():
                raise ContractError(f"{file}, line {count}: {line!r:.60} is not an image and the number of a person")
            by_person.setdefault(int(person), []).append(self.root / name)
        first = sorted(by_person)[: self.people]
        return {str(person): self.used(sorted(by_person[person]), parted=False) for person in first}


class Cifar100Images(ImageDataset):
    """CIFAR-100 as images: 10,000 private ones in 100 classes, and 50,000 to train on."""

    info = Info(id="harness/cifar100-images", version="1", paper="krizhevsky2009")
    split: Literal["test", "train"] = Field(default="test", description="Private images, or those to train on.")
    per_class: int = Field(default=0, ge=0, description="Images per class that are used; 0: all.")
    images: int = Field(default=0, ge=0, description=IMAGES)

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the images come from."""
        return (CIFAR100,)

    def published_units(self) -> int:
        """Return how many images of the split are used."""
        whole = 10_000 if self.split == "test" else 50_000
        used = min(100 * self.per_class, whole) or whole
        return used if self.split == "train" else min(self.images or used, used)

    def require(self) -> None:
        """Raise `Unavailable` unless the file is there."""
        if not self._file.is_file():
            raise Unavailable(f"{self._file} does not exist", CIFAR100.by_hand())

    def content(self) -> str:
        """Return a digest of the file."""
        try:
            return file_digest(self._file)
        except Unavailable:
            return ""

    @property
    def _file(self) -> Path:
        return data_folder(CIFAR100.name, CIFAR100.page) / f"{self.split}.bin"

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, one of each class in turn."""
        self.require()
        try:
            pixels, labels = binary(self._file)
        except ValueError as error:
            raise ContractError(f"{self._file}: {error}") from None
        # the rank of each image within its class, then all images by rank and class
        order = np.argsort(labels, kind="stable")
        rank = np.empty(len(labels), dtype=int)
        starts = np.searchsorted(labels[order], labels[order])
        rank[order] = np.arange(len(labels)) - starts
        turns = np.lexsort((labels, rank))
        selected = turns[rank[turns] < self.per_class] if self.per_class else turns

        def load(positions: Sequence[int]) -> Images:
            return torch.from_numpy(pixels[selected[list(positions)]]).float() / 255

        names = tuple(f"{self.split}/{labels[i]}/{i}" for i in selected)
        columns = {"label": labels[selected].astype(int), "class": labels[selected].astype(str)}
        image_set = ImageSet(names, ((32, 32),) * len(selected), load, columns)
        return image_set if self.split == "train" else image_set.first(self.images or None)


@hookimpl
def components() -> list[ImageDataset]:
    return [Caltech101(), CelebA(), Cifar100Images(), Imagenette(), StanfordDogs()]
