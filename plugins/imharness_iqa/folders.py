"""Image sets from a folder of images and a table of opinion scores."""

import hashlib
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageDataset, Images, ImageSet, cache_folder
from imharness.errors import ContractError, HarnessError, UsageError
from imharness.files import image_shape, is_plain, number, read_array, read_csv, read_pixels
from imharness_iqa.alike import groups, thumbnails
from imharness_iqa.sampling import CLUSTERS, clustered, colourfulness, spatial_information

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
SHOWN = 5
NO_LABELS = "nobody judged these images"


@dataclass(frozen=True)
class Listing:
    """The files that a data set should hold: names below `folder`, and columns with one value for each file."""

    folder: Path
    names: Sequence[str]
    columns: Mapping[str, Sequence[float] | Sequence[str]] = field(default_factory=dict)
    proxy: str = ""
    unknown_sources: bool = False
    """Whether nobody said which images were made from one photograph, so that they are told by their looks."""


class Scores(NamedTuple):
    """The rows of a table of scores: names of files, their scores and, if columns have them, what they were made of.

    `photographs` says which images are not independent, `references` names files of undistorted images.
    """

    names: list[str]
    scores: list[float]
    photographs: list[str]
    references: list[str]


class FolderDataset(ImageDataset):
    """Images of a folder as a listing names them; files that are missing or unreadable are reported."""

    on_missing: Literal["refuse", "skip"] = Field(
        default="refuse", description="What to do about files that are missing or are not images."
    )
    per_cluster: int = Field(
        default=0, ge=0, description="Images drawn from each of ten clusters of SI, CF and score; 0: all images."
    )
    draw: int = Field(default=0, ge=0, description="Number of the random draw, for repeated subsets.")

    @abstractmethod
    def listing(self) -> Listing:
        """Return the files that the data set should hold; raises `Unavailable` when it is not on this machine."""

    def require(self) -> None:
        """Raise `Unavailable` unless the data set is on this machine."""
        self.listing()

    def published_units(self) -> int:
        """Return how many images the published set has, or how many are drawn from it."""
        return self.drawn_of(next((source.units for source in self.data_sources()), 0))

    def drawn_of(self, units: int) -> int:
        """Return how many of `units` images are drawn if every cluster has enough."""
        return min(CLUSTERS * self.per_cluster or units, units)

    def content(self) -> str:
        """Return a digest of the listed names, sizes, modification times and scores."""
        try:
            listing = self.listing()
        except HarnessError:
            return ""
        known = (listing.columns.get(name, ()) for name in ("mos", "photograph", "reference"))
        scores = "\n".join(str(value) for column in known for value in column)
        files = dict.fromkeys(map(str, (*listing.names, *listing.columns.get("reference", ()))))
        return hashlib.sha256(f"{_state(listing.folder / name for name in files)}\n{scores}".encode()).hexdigest()

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, grouped by size; raises `ContractError` for missing files.

        Within a size one image of each photograph comes first, so that a limit takes as many photographs as it can.
        """
        listing = self.listing()
        sizes = {name: _size(listing.folder / name) for name in listing.names}
        lost = [name for name, size in sizes.items() if size is None]
        if lost and (self.on_missing == "refuse" or len(lost) == len(sizes)):
            more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
            raise ContractError(
                f"{self.label}: {len(lost)} of {len(sizes)} images in {listing.folder} are missing or unreadable: "
                f"{', '.join(lost[:SHOWN])}{more}; put them there, or set on_missing=skip to continue without them"
            )
        kept = [i for i, name in enumerate(listing.names) if sizes[name] is not None]
        kept.sort(key=lambda i: (sizes[listing.names[i]], listing.names[i]))
        if self.per_cluster:
            kept = [kept[i] for i in clustered(_features(listing, kept), self.per_cluster, self.draw)]
        if listing.unknown_sources:
            listing = _with_sources(listing, kept)
        kept = _spread(listing, kept, sizes)
        names = tuple(listing.names[i] for i in kept)
        columns = {key: np.array([values[i] for i in kept]) for key, values in listing.columns.items()}
        columns.setdefault("mos", np.full(len(names), np.nan))
        shapes, originals = tuple(sizes[name] for name in names), columns.get("reference")
        return ImageSet(
            names,
            shapes,
            _loading([listing.folder / name for name in names], shapes),
            columns,
            listing.proxy,
            None if originals is None else _loading([listing.folder / str(name) for name in originals], shapes),
        )


def _loading(paths: Sequence[Path], sizes: Sequence[tuple[int, int] | None]) -> Callable[[Sequence[int]], Images]:
    """Return what loads files, each of the size that it must have."""

    def load(positions: Sequence[int]) -> Images:
        stack = np.stack([_decoded(paths[p], sizes[p]) for p in positions])
        return torch.from_numpy(stack).permute(0, 3, 1, 2).float().div(255).contiguous()

    return load


def _size(path: Path) -> tuple[int, int] | None:
    """Return (height, width) from the header of a file, or None when it is not an image."""
    try:
        return image_shape(path)
    except UsageError:
        return None


def _decoded(path: Path, size: tuple[int, int] | None) -> np.ndarray:
    try:
        pixels = read_pixels(path)
    except UsageError as error:
        raise ContractError(f"{error}; replace it, or remove it from the list") from None
    if pixels.shape[:2] != size:
        shown = "x".join(map(str, pixels.shape[1::-1]))
        raise ContractError(
            f"{path} has {shown} px once it is read, which is not the size that its header or the image made from it "
            "has; replace it"
        )
    return pixels


def _features(listing: Listing, kept: Sequence[int]) -> np.ndarray:
    """Return SI, CF and the score, if there is one, ``(n, 2 or 3)``; SI and CF are cached between runs."""
    paths = [listing.folder / listing.names[i] for i in kept]
    seen = _cached(
        "features",
        paths,
        lambda images: np.array([[float(spatial_information(x)), float(colourfulness(x))] for x in images]),
    )
    if "mos" not in listing.columns:
        return seen
    return np.column_stack([seen, np.array([listing.columns["mos"][i] for i in kept], dtype=float)])


def _cached(what: str, paths: Sequence[Path], find: Callable[[Iterable[torch.Tensor]], np.ndarray]) -> np.ndarray:
    """Return what is found in images ``(1, 3, H, W)`` in [0, 1], kept for as long as no file changes."""
    state = hashlib.sha256(_state(paths).encode()).hexdigest()
    stored = cache_folder().parent / what / f"{state[:32]}.npy"
    if stored.is_file():
        return read_array(stored)
    images = (torch.tensor(_decoded(path, _size(path)).copy()).permute(2, 0, 1)[None].float() / 255 for path in paths)
    found = find(images)
    stored.parent.mkdir(parents=True, exist_ok=True)
    np.save(stored, found, allow_pickle=False)
    return found


def _with_sources(listing: Listing, kept: Sequence[int]) -> Listing:
    """Return a listing that says which images look as if they were made from one photograph."""
    own = groups(_cached("thumbnails", [listing.folder / listing.names[i] for i in kept], thumbnails))
    first = {group: listing.names[i] for group, i in reversed(list(zip(own.tolist(), kept, strict=True)))}
    sources = list(listing.names)
    for group, i in zip(own.tolist(), kept, strict=True):
        sources[i] = first[group]
    if len(first) < len(kept):
        twin = next(i for group, i in zip(own.tolist(), kept, strict=True) if first[group] != listing.names[i])
        warnings.warn(
            f"{listing.folder}: {len(kept)} images look like {len(first)} photographs, and count as so many, such as "
            f"{listing.names[twin]} like {sources[twin]}; if that is wrong, say what each image was made from in a "
            "column photograph of mos.csv, or in folders, one for each photograph",
            stacklevel=2,
        )
    return replace(listing, columns={**listing.columns, "photograph": sources})


def _spread(listing: Listing, kept: Sequence[int], sizes: Mapping[str, tuple[int, int] | None]) -> list[int]:
    """Return the positions by size, and within a size first one image of each photograph, then a second of each."""
    if "photograph" not in listing.columns:
        return list(kept)
    seen: dict[tuple[object, object], int] = {}
    turn = []
    for i in kept:
        place = (sizes[listing.names[i]], listing.columns["photograph"][i])
        seen[place] = seen.get(place, -1) + 1
        turn.append(seen[place])
    order = sorted(range(len(kept)), key=lambda k: (sizes[listing.names[kept[k]]] or (0, 0), turn[k], k))
    return [kept[k] for k in order]


def _state(paths: Iterable[Path]) -> str:
    """Return a line per file: its name, size and modification time, or that it is missing."""
    lines = []
    for path in paths:
        try:
            found = path.stat()
            lines.append(f"{path.name} {found.st_size} {found.st_mtime_ns}")
        except OSError:
            lines.append(f"{path.name} missing")
    return "\n".join(lines)


def images_below(folder: Path) -> list[str]:
    """Return the names of all image files in a folder, sorted; without any, those in its folders."""
    found = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    return found or sorted(
        path.relative_to(folder).as_posix() for path in folder.glob("*/*") if path.suffix.lower() in SUFFIXES
    )


def read_scores(
    path: Path,
    name: Sequence[str],
    score: Sequence[str],
    only: Mapping[str, str] | None = None,
    photograph: Sequence[str] = (),
    reference: Sequence[str] = (),
) -> Scores:
    """Return the rows of a table, each fact from the first of the given column names that the table has.

    `only`: column -> the value that a row must have there. `photograph` and `reference` need not be there. Raises
    `UsageError` that names the column or the line.
    """
    table, only = read_csv(path), only or {}
    have = ", ".join(map(repr, table.columns[:20])) or "none"
    columns = [next((c for c in wanted if c in table.columns), "") for wanted in (name, score, photograph, reference)]
    for wanted, column in [*zip((name, score), columns[:2], strict=True), *(((key,), key) for key in only)]:
        if column not in table.columns:
            raise UsageError(f"{path} has no column {' or '.join(wanted)}; it has: {have}.")
    found = Scores([], [], [], [])
    for line, row in table.rows():
        if all(row[column] == value for column, value in only.items()):
            found.names.append(named_file(path, line, row[columns[0]]))
            found.scores.append(number(row[columns[1]], f"{path}, line {line}: {columns[1]}"))
            if columns[2]:
                found.photographs.append(row[columns[2]])
            if columns[3]:
                found.references.append(named_file(path, line, row[columns[3]]))
    names = found.names
    doubles = sorted({n for n in names if names.count(n) > 1}) if len(set(names)) < len(names) else []
    if doubles:
        raise UsageError(f"{path} names {len(doubles)} images more than once: {', '.join(doubles[:SHOWN])}.")
    return found


def named_file(path: Path, line: int, name: str) -> str:
    """Return the name of a file below a data set's folder; raises `UsageError` where it leads elsewhere."""
    place = PurePosixPath(name)
    if not name or not is_plain(name) or len(name) > 300 or place.is_absolute() or ".." in place.parts:
        raise UsageError(f"{path}, line {line}: {name!r:.60} is not the name of a file below {path.parent}.")
    return name
