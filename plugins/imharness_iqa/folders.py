"""Image sets from a folder of images and a table of opinion scores."""

import hashlib
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageDataset, Images, ImageSet, by_looks, said_of_copies, thumbnails
from imharness.errors import ContractError, HarnessError, UsageError
from imharness.files import (
    files_digest,
    image_shape,
    is_plain,
    number,
    read_csv,
    read_pixels,
    said_of_spellings,
)
from imharness_iqa.sampling import CLUSTERS, clustered, colourfulness, spatial_information
from imharness_vision.image_files import remembered

SHOWN = 5
"""The most names that a message lists."""
NO_LABELS = "nobody judged these images"


@dataclass(frozen=True)
class Listing:
    """The files that a data set should have, and what is known of each.

    `names`: files below `folder`. `columns`: name of a column -> one value for each file. The column ``photograph`` is
    "" for an image of which nobody said what it was made from; images that look alike then count as one photograph.
    `proxy`: what stands in for opinions of people; "" for nothing.
    """

    folder: Path
    names: Sequence[str]
    columns: Mapping[str, Sequence[float] | Sequence[str]] = field(default_factory=dict)
    proxy: str = ""


class Scores(NamedTuple):
    """The rows of a table of scores: a name of a file and its score in each.

    If the table has such columns, `photographs` names the photograph that each image was made from, and `references`
    the file of the undistorted image; else they are empty.
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
        """Return a digest of the listed files, the scores and the photographs."""
        try:
            listing = self.listing()
        except HarnessError:
            return ""
        columns = (listing.columns.get(name, ()) for name in ("mos", "photograph", "reference"))
        scores = "\n".join(str(value) for column in columns for value in column)
        files = dict.fromkeys(map(str, (*listing.names, *listing.columns.get("reference", ()))))
        images = files_digest(listing.folder, (listing.folder / name for name in files))
        return hashlib.sha256(f"{images}\n{scores}".encode()).hexdigest()

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, grouped by size; raises `ContractError` for missing files.

        Within a size, one image of each photograph comes first, then a second one of each, and so on: a run that is
        limited to some images then has as many photographs as possible.
        """
        listing = self.listing()
        sizes, lost = _sizes(listing)
        if lost:
            more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
            sentence = (
                f"{self.label}: {len(lost)} of {len(listing.names)} images in {listing.folder} are missing or "
                f"unreadable: {', '.join(list(lost)[:SHOWN])}{more}"
            )
            if self.on_missing == "refuse" or not sizes:
                raise ContractError(
                    f"{sentence}; put them there, or set on_missing=skip to continue without them. The first: "
                    f"{next(iter(lost.values()))}"
                )
            warnings.warn(f"{sentence}; they are left out", stacklevel=2)
        positions = [i for i, name in enumerate(listing.names) if name in sizes]
        positions.sort(key=lambda i: (sizes[listing.names[i]], listing.names[i]))
        if self.per_cluster:
            positions = [positions[i] for i in clustered(_features(listing, positions), self.per_cluster, self.draw)]
        listing = _with_sources(listing, positions)
        sources = listing.columns.get("photograph", ())
        photographs = {listing.names[i]: str(sources[i]) for i in positions if sources}
        copies = said_of_copies(photographs, lambda: _cached("thumbnails", listing, positions, thumbnails))
        sentences = (said_of_spellings(photographs.values(), "photographs"), copies)
        for sentence in filter(None, sentences):
            warnings.warn(f"{listing.folder}: {sentence}", stacklevel=2)
        positions = _spread(listing, positions, sizes)
        names = tuple(listing.names[i] for i in positions)
        columns = {key: np.array([values[i] for i in positions]) for key, values in listing.columns.items()}
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


def _loading(paths: Sequence[Path], sizes: Sequence[tuple[int, int]]) -> Callable[[Sequence[int]], Images]:
    """Return a function that loads images by position; a file must have the size (height, width) that is given here."""

    def load(positions: Sequence[int]) -> Images:
        stack = np.stack([_decoded(paths[p], sizes[p]) for p in positions])
        return torch.from_numpy(stack).permute(0, 3, 1, 2).float().div(255).contiguous()

    return load


def _sizes(listing: Listing) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
    """Return name -> (height, width) by the header of the file, and name -> reason for files that are no images."""
    sizes, lost = {}, {}
    for name in listing.names:
        try:
            sizes[name] = image_shape(listing.folder / name)
        except UsageError as error:
            lost[name] = str(error)
    return sizes, lost


def _decoded(path: Path, size: tuple[int, int]) -> np.ndarray:
    try:
        pixels = read_pixels(path)
    except UsageError as error:
        raise ContractError(f"{error}; replace it, or remove it from the list") from None
    if pixels.shape[:2] != size:
        size_text = "x".join(map(str, pixels.shape[1::-1]))
        raise ContractError(
            f"{path} has {size_text} px once it is read, which is not the size that its header or the image made from "
            "it has; replace it"
        )
    return pixels


def _features(listing: Listing, positions: Sequence[int]) -> np.ndarray:
    """Return SI, CF and the score, if there is one, ``(n, 2 or 3)``; SI and CF are cached between runs."""
    seen = _cached(
        "features",
        listing,
        positions,
        lambda images: np.array([[float(spatial_information(x)), float(colourfulness(x))] for x in images]),
    )
    if "mos" not in listing.columns:
        return seen
    return np.column_stack([seen, np.array([listing.columns["mos"][i] for i in positions], dtype=float)])


def _cached(
    what: str, listing: Listing, positions: Sequence[int], find: Callable[[Iterable[torch.Tensor]], np.ndarray]
) -> np.ndarray:
    """Return what `find` returns for the images ``(1, 3, H, W)`` in [0, 1] at some positions; the result is cached.

    `what` names the cache; a result is used again until a file changes.
    """
    paths = [listing.folder / listing.names[i] for i in positions]
    images = (torch.tensor(_decoded(path, image_shape(path))).permute(2, 0, 1)[None].float() / 255 for path in paths)
    return remembered(what, files_digest(listing.folder, paths), images, find)


def _with_sources(listing: Listing, positions: Sequence[int]) -> Listing:
    """Return the listing with a photograph for every image at `positions`: by looks where nobody named one."""
    sources = list(listing.columns.get("photograph", ()))
    unknown = [i for i in positions if sources and sources[i] == ""]
    if not unknown:
        return listing
    names = [listing.names[i] for i in unknown]
    looks = by_looks(names, lambda: _cached("thumbnails", listing, unknown, thumbnails))
    if looks.sentence:
        warnings.warn(
            f"{listing.folder}: {looks.sentence}; if that is wrong, say what each image was made from in a column "
            "photograph of mos.csv, or in folders, one for each photograph",
            stacklevel=2,
        )
    for i, photograph in zip(unknown, looks.photographs, strict=True):
        sources[i] = photograph
    return replace(listing, columns={**listing.columns, "photograph": sources})


def _spread(listing: Listing, positions: Sequence[int], sizes: Mapping[str, tuple[int, int]]) -> list[int]:
    """Return the positions by size, and within a size in turns, one image of each photograph in each turn."""
    if "photograph" not in listing.columns:
        return list(positions)
    seen: dict[tuple[object, object], int] = {}  # size and photograph -> how many images came before, from 0
    turn = []  # of each position, the number of its image among those of its size and photograph
    for i in positions:
        group = (sizes[listing.names[i]], listing.columns["photograph"][i])
        seen[group] = seen.get(group, -1) + 1
        turn.append(seen[group])
    order = sorted(range(len(positions)), key=lambda k: (sizes[listing.names[positions[k]]], turn[k], k))
    return [positions[k] for k in order]


def read_scores(
    path: Path,
    name: Sequence[str],
    score: Sequence[str],
    only: Mapping[str, str] | None = None,
    photograph: Sequence[str] = (),
    reference: Sequence[str] = (),
) -> Scores:
    """Return the rows of a table of scores.

    Args:
        path: a CSV file.
        name: what the column of file names may be called; of several that the table has, the first is taken.
        score: the same for the column of scores.
        only: column -> the value that a row must have there; other rows are left out.
        photograph: what the column of photographs may be called, which the table need not have.
        reference: what the column of undistorted files may be called, which the table need not have.

    Raises:
        UsageError: the message names the column or the line.
    """
    table, only = read_csv(path), only or {}
    have = ", ".join(map(repr, table.columns[:20])) or "none"
    name_column, score_column, photograph_column, reference_column = (
        table.column(*wanted) for wanted in (name, score, photograph, reference)
    )
    for wanted, column in [(name, name_column), (score, score_column), *(((key,), key) for key in only)]:
        if not column or column not in table.columns:
            raise UsageError(f"{path} has no column {' or '.join(wanted)}; it has: {have}.")
    result = Scores([], [], [], [])
    for line, row in table.rows():
        if all(row[column] == value for column, value in only.items()):
            result.names.append(named_file(path, line, row[name_column]))
            result.scores.append(number(row[score_column], f"{path}, line {line}: {score_column}"))
            if photograph_column:
                result.photographs.append(row[photograph_column].strip())
            if reference_column:
                result.references.append(named_file(path, line, row[reference_column]))
    names = result.names
    doubles = sorted({n for n in names if names.count(n) > 1}) if len(set(names)) < len(names) else []
    if doubles:
        raise UsageError(f"{path} names {len(doubles)} images more than once: {', '.join(doubles[:SHOWN])}.")
    return result


def named_file(path: Path, line: int, name: str) -> str:
    """Return the normalised name of a file below a data set's folder: ``./a//b.png`` and ``a\\b.png`` are ``a/b.png``.

    Raises `UsageError` for a name that leads out of the folder of `path`.
    """
    file = PurePosixPath(name.replace("\\", "/"))
    wrong = not file.name or file.is_absolute() or ".." in file.parts or PureWindowsPath(name).drive
    if wrong or not is_plain(name) or len(name) > 300:
        raise UsageError(f"{path}, line {line}: {name!r:.60} is not the name of a file below {path.parent}.")
    return str(file)
