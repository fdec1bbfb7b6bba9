"""Real photographs that ship inside scikit-image, scikit-learn and matplotlib, cut and distorted.

Quality labels: nobody judged these images, so the mean opinion score is replaced by a stated proxy, minus the severity
of the distortion. The ladder follows KADID-10k (Lin et al., QoMEX 2019): five severities per distortion family.

No shipped weights were trained on the test photographs. Astronaut, chelsea, rocket (scikit-image), china (scikit-learn)
and grace_hopper (matplotlib) are in colour; clock_motion (blurred by motion), moon, page (of a book) and text
(handwriting), of scikit-image, are grey. Its images cell and microaneurysms are left out, as most crops of them show
nothing.
"""

import functools
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageDataset, ImageSet, Info, asset_path, derive_seed, hookimpl
from imharness.errors import ContractError, Unavailable, UsageError
from imharness.files import Census, files_digest, images_below, read_pixels
from imharness_embedded.shipped import shipped

Array = np.ndarray
SCENES = ("astronaut", "chelsea", "china", "rocket")
TEST = (*SCENES, "clock_motion", "grace_hopper", "moon", "page", "text")
SMALL = {"page": 191, "text": 172}
"""The shorter side of test photographs that are too small for the largest crops, px."""
TRAIN = ("coffee", "flower", "ruins", "moonwalk", "hubble_deep_field")
FURTHER = ("coffee", "flower", "goshawk", "zebra", "hubble_deep_field")
"""The photographs of thumbnails beside the scenes; all are free."""
TEXTURES = ("brick", "camera", "coins", "grass", "gravel", "immunohistochemistry", "retina")
"""Further training photographs for the ladder; some are grey."""
FILES = {"immunohistochemistry": "ihc"}
"""The name of a photograph's file, if it differs from the photograph's name."""
PICTURES = Path(__file__).parent / "pictures"
"""Photographs that ship with this package, all free; ``sources.toml`` says whose they are."""
TRAINING_PICTURES = PICTURES / "training"
"""Photographs that ship for training alone; no data set shows them in its test split."""
SEVERITIES = (1, 2, 3, 4, 5)
TRAINING_CROPS = 20


def photograph(name: str) -> Array:
    """Return uint8 ``(H, W, 3)``, RGB, of a photograph that ships, or of a file."""
    if Path(name).is_absolute():
        try:
            return read_pixels(Path(name))
        except UsageError as error:
            raise ContractError(str(error)) from None
    if (PICTURES / f"{name}.jpg").is_file() and name not in (*TEST, *TRAIN):
        return photograph(str(PICTURES / f"{name}.jpg"))
    if (TRAINING_PICTURES / f"{name}.jpg").is_file():
        return photograph(str(TRAINING_PICTURES / f"{name}.jpg"))
    if name == "grace_hopper":
        return photograph(str(shipped("matplotlib", "mpl-data/sample_data", name)))
    sklearn = name in ("china", "flower")
    path = shipped("sklearn", "datasets/images", name) if sklearn else shipped("skimage", "data", FILES.get(name, name))
    return read_pixels(path)


def held_out(size: int) -> tuple[str, ...]:
    """Return the test photographs that are large enough for crops of `size` px: nine up to 172 px, seven beyond 191."""
    return tuple(name for name in TEST if SMALL.get(name, size) >= size)


def sources_in(folder: str) -> tuple[str, ...]:
    """Return the image files of a folder by full path, and warn of those left out; raises `Unavailable` without any."""
    census = images_below(asset_path(folder)) if asset_path(folder).is_dir() else Census(asset_path(folder), ())
    if not census.names:
        raise Unavailable(census.sentence() or f"{folder} contains no images", "name another folder")
    if sentence := census.sentence():
        warnings.warn(sentence, stacklevel=2)
    return tuple(str(path.absolute()) for path in census.paths)


def titles(sources: Sequence[str]) -> list[str]:
    """Return a distinct name for each photograph: the name of its file, or its path where two files share a name."""
    stems = [Path(source).stem for source in sources]
    base = os.path.commonpath([str(Path(source).parent) for source in sources]) if len(set(stems)) < len(stems) else ""
    return [os.path.relpath(source, base) if base else stem for source, stem in zip(sources, stems, strict=True)]


def content_of(folder: str) -> str:
    """Return a digest of the names and bytes of a folder's images, or "" without any."""
    try:
        files = [Path(source) for source in sources_in(folder)] if folder else []
    except (Unavailable, UsageError):
        return ""
    return files_digest(asset_path(folder).absolute(), files) if files else ""


def crops(name: str, size: int, count: int) -> list[Array]:
    """Return `count` squares of `size` px, spread over the photograph; it is shrunk first so that they show content."""
    ships = not Path(name).is_absolute() or Path(name).is_relative_to(PICTURES)  # others may change
    image = (_shrunk if ships else _shrunk.__wrapped__)(name, size)
    if min(image.shape[:2]) < size:
        shape = f"{image.shape[1]} x {image.shape[0]}"
        raise ContractError(f"{name} has {shape} px, which is too small for crops of {size} px; leave it out")
    rng = np.random.default_rng(derive_seed("crops", Path(name).name, size))
    corners = [
        (int(rng.integers(0, image.shape[0] - size + 1)), int(rng.integers(0, image.shape[1] - size + 1)))
        for _ in range(count)
    ]
    return [image[y : y + size, x : x + size] for y, x in corners]


@functools.lru_cache(maxsize=64)
def _shrunk(name: str, size: int) -> Array:
    """Return a photograph, shrunk so that crops of `size` px show content; it cannot be written to."""
    image = photograph(name)
    scale = 2.2 * size / min(image.shape[:2])
    if scale < 1:
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    image.flags.writeable = False
    return image


def gaussian_noise(image: Array, severity: int, rng: np.random.Generator) -> Array:
    """Add white noise of standard deviation 6 to 50 grey levels."""
    return image + rng.normal(0, (6, 12, 20, 32, 50)[severity - 1], image.shape)


def gaussian_blur(image: Array, severity: int, rng: np.random.Generator) -> Array:
    """Blur with a standard deviation of 0.6 to 4 px."""
    return cv2.GaussianBlur(image, (0, 0), (0.6, 1.0, 1.6, 2.5, 4.0)[severity - 1])


def jpeg(image: Array, severity: int, rng: np.random.Generator) -> Array:
    """Compress with JPEG at quality 60 down to 4."""
    quality = (60, 35, 20, 10, 4)[severity - 1]
    _, code = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return cv2.imdecode(code, cv2.IMREAD_COLOR)[..., ::-1]


def pixelate(image: Array, severity: int, rng: np.random.Generator) -> Array:
    """Shrink 1.3 to 6 times and enlarge again without smoothing."""
    factor = (1.3, 1.7, 2.4, 3.6, 6.0)[severity - 1]
    height, width = image.shape[:2]
    small = cv2.resize(image, (round(width / factor), round(height / factor)), interpolation=cv2.INTER_AREA)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST)


def _levels(image: Array) -> Array:
    levels: Array = np.clip(np.rint(image), 0, 255).astype(np.uint8)
    return levels


FAMILIES: dict[str, Callable[[Array, int, np.random.Generator], Array]] = {
    "gaussian-noise": gaussian_noise,
    "gaussian-blur": gaussian_blur,
    "jpeg": jpeg,
    "pixelate": pixelate,
}


class SeverityLadder(ImageDataset):
    """Crops of real photographs, clean and in five severities of four distortions; labels are a proxy."""

    info = Info(id="harness/severity-ladder", version="4")
    split: Literal["test", "train"] = Field(
        default="test", description="Which photographs to use; no photograph is in both splits."
    )
    size: int = Field(default=128, ge=16, le=256, description="Side of a crop, px.")
    per_photograph: int = Field(default=1, ge=1, le=500, description="Crops per photograph.")
    severities: tuple[int, ...] = Field(default=SEVERITIES, description="The severities to include, of 1 to 5.")
    rotating: bool = Field(
        default=False,
        description="Make each severity by one distortion, which changes from crop to crop, not by all four.",
    )

    def sources(self) -> tuple[str, ...]:
        """Return the photographs: names of those that ship, or full paths."""
        return held_out(self.size) if self.split == "test" else (*TRAIN, *TEXTURES)

    def rungs(self, crop: int) -> list[tuple[str, int]]:
        """Return (distortion, severity) of each image made of the crop with this number; severity 0 is clean."""
        names = list(FAMILIES)
        if self.rotating:
            return [("clean", 0), *((names[(crop + turn) % len(names)], s) for turn, s in enumerate(self.severities))]
        return [("clean", 0), *((family, s) for s in self.severities for family in names)]

    def build(self, device: torch.device) -> ImageSet:
        """Return the clean crops and their distortions; severity 0 is clean."""
        names, stack, clean = [], [], []
        columns = {key: [] for key in ("mos", "reference", "photograph", "family", "severity")}
        sources = self.sources()
        for number, (source, title) in enumerate(zip(sources, titles(sources), strict=True)):
            for position, crop in enumerate(crops(source, self.size, self.per_photograph)):
                reference = f"{title}-{position}"
                for family, severity in self.rungs(number + position):
                    name = f"{reference}-{family}-{severity}" if severity else reference
                    rng = np.random.default_rng(derive_seed("distortion", name, self.size))
                    image = FAMILIES[family](crop, severity, rng) if severity else crop
                    names.append(name)
                    stack.append(image if image.dtype == np.uint8 else _levels(image))
                    clean.append(crop)
                    facts = (-float(severity), reference, title, family, severity)
                    for column, value in zip(columns, facts, strict=True):
                        columns[column].append(value)
        proxy = "minus the severity of the distortion, not human judgements"
        return image_set(names, np.stack(stack), columns, proxy, np.stack(clean))


class Pictures(SeverityLadder):
    """One crop of each of 36 free photographs, clean or in one severity of one distortion; labels are a proxy."""

    info = Info(id="harness/pictures", version="1")
    split: Literal["test"] = Field(default="test", description="No photograph is trained on.")
    severities: tuple[int, ...] = Field(default=(1, 3, 5), description="The severities to include, of 1 to 5.")
    per_photograph: int = Field(default=1, ge=1, le=1, description="Crops per photograph: units are independent.")
    rotating: bool = Field(default=True, description="Each crop by one distortion, which changes from crop to crop.")
    graded: bool = Field(
        default=False,
        description="Each photograph clean and in every severity of its distortion, not in one of these: first the "
        "images that there are otherwise, then the next severity of each.",
    )

    def sources(self) -> tuple[str, ...]:
        """Return the photographs that ship with this package, by full path."""
        return tuple(str(path) for path in sorted(PICTURES.glob("*.jpg")))

    def rungs(self, crop: int) -> list[tuple[str, int]]:
        """Return (distortion, severity) of each image that is made of the crop with this number: one, or all if graded.

        The severity changes from crop to crop; the distortion changes once every severity has had its turn.
        """
        severities = (0, *self.severities)
        family = list(FAMILIES)[crop // len(severities) % len(FAMILIES)]
        turns = len(severities) if self.graded else 1
        rungs = [severities[(crop + turn) % len(severities)] for turn in range(turns)]
        return [(family, severity) if severity else ("clean", 0) for severity in rungs]

    def build(self, device: torch.device) -> ImageSet:
        """Return the crops; of graded ones first one image of each photograph, then the next of each."""
        images = super().build(device)
        turns = 1 + len(self.severities) if self.graded else 1
        return images.at([position for turn in range(turns) for position in range(turn, len(images), turns)])


class Thumbnails(ImageDataset):
    """Crops of real photographs, shrunk to a few pixels; the label is the photograph."""

    info = Info(id="harness/thumbnails", version="4")
    split: Literal["test", "train"] = Field(
        default="test", description="Which crops to use; training crops may overlap."
    )
    shows: Literal["scenes", "textures"] = Field(
        default="scenes", description="Which photographs to use; none is in both splits."
    )
    size: int = Field(default=32, ge=8, le=72, description="Side of a thumbnail, px.")
    per_photograph: int = Field(
        default=2, ge=1, le=500, description="Crops per photograph; the training split has 20 times as many."
    )

    def build(self, device: torch.device) -> ImageSet:
        """Return thumbnails with their label."""
        names, stack, labels, classes, sources = [], [], [], [], []
        count = self.per_photograph * (1 if self.split == "test" else TRAINING_CROPS)
        side = 4 * self.size + (self.split == "train")  # crops of another size are cut at other places
        for label, source in enumerate((*SCENES, *FURTHER) if self.shows == "scenes" else TEXTURES):
            for position, crop in enumerate(crops(source, side, count)):
                names.append(f"{source}-{position}" if self.split == "test" else f"{source}-train-{position}")
                stack.append(cv2.resize(crop, (self.size, self.size), interpolation=cv2.INTER_AREA))
                labels.append(label)
                classes.append(source.replace("_", " "))
                sources.append(source)
        columns = {"label": labels, "class": classes, "source": sources}
        return image_set(names, np.stack(stack), columns, "the photograph a crop comes from")


def image_set(
    names: Sequence[str], stack: Array, columns: dict[str, list], proxy: str, originals: Array | None = None
) -> ImageSet:
    """Return uint8 ``(N, H, W, 3)`` as images with columns, and perhaps with the undistorted images."""

    def loading(pixels: torch.Tensor) -> Callable[[Sequence[int]], torch.Tensor]:
        return lambda positions: pixels[list(positions)].permute(0, 3, 1, 2).float().div(255).contiguous()

    shapes = tuple((stack.shape[1], stack.shape[2]) for _ in names)
    clean = None if originals is None else loading(torch.from_numpy(originals))
    arrays = {k: np.array(v) for k, v in columns.items()}
    return ImageSet(tuple(names), shapes, loading(torch.from_numpy(stack)), arrays, proxy, clean)


@hookimpl
def components() -> list[ImageDataset]:
    return [
        SeverityLadder(),
        SeverityLadder(split="train", per_photograph=12),
        Pictures(),
        Thumbnails(),
    ]
