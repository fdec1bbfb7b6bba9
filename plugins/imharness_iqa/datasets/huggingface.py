"""A data set that the library ``datasets`` of Hugging Face saved on this disk: ``huggingface:PATH``.

PATH is the folder that `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote; from the latter, one split is used.
The files are read without that library. Images must be inside the files, as they are by default.
"""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageDataset, Images, ImageSet, Info, by_looks, hookimpl, said_of_copies, thumbnails
from imharness.errors import ContractError, HarnessError, Unavailable, UsageError
from imharness.files import files_digest, image_shape, read_json, read_pixels, read_stream, said_of_spellings
from imharness_iqa.folders import NO_LABELS
from imharness_vision.image_files import remembered

HINT = "--dataset huggingface:PATH"


@dataclass(frozen=True)
class Saved:
    """A data set on the disk: its files, and the library's description of each column, by name."""

    files: Sequence[Path]
    features: dict[str, dict[str, Any]]


class HuggingFace(ImageDataset):
    """Images of a data set that the library datasets saved, with labels and opinion scores if it has any.

    The column photograph says which images were made from one photograph; without it, images that look alike
    count as such.
    """

    info = Info(id="harness/huggingface", version="2")
    address = "path"
    path: str = Field(default="", description="Folder that save_to_disk wrote.")
    split: str = Field(default="", description="Split, where the folder has several, such as test.")
    image: str = Field(default="", description="Column of images; by default the first.")
    mos: str = Field(default="mos", description="Column of opinion scores, higher is better, if there is one.")

    def saved(self) -> Saved:
        """Return the data set on the disk; raises `Unavailable` or `UsageError`."""
        if not self.path:
            raise Unavailable("no folder is named", HINT)
        folder = Path(self.path)
        if (folder / "dataset_dict.json").is_file():
            splits = [str(name) for name in _part(read_json(folder / "dataset_dict.json"), "splits", list)]
            if self.split not in splits:
                raise UsageError(f"{self.label}: split must be one of {', '.join(splits)}, got {self.split!r}.")
            folder = folder / self.split
        if not (folder / "state.json").is_file():
            raise Unavailable(f"{folder} is not a folder that save_to_disk of the library datasets wrote", HINT)
        state = read_json(folder / "state.json")
        if isinstance(state, dict) and state.get("_indices_files"):
            raise UsageError(f"{folder} holds a selection of rows by number; call flatten_indices() before saving it.")
        names = [str(_part(file, "filename", str)) for file in _part(state, "_data_files", list)]
        if not names or any(Path(name).name != name for name in names):
            raise UsageError(f"{folder / 'state.json'} names no files of that folder.")
        return Saved(
            [folder / name for name in names], _part(read_json(folder / "dataset_info.json"), "features", dict)
        )

    def require(self) -> None:
        """Raise `Unavailable` or `UsageError` unless the data set is on the disk."""
        self.saved()

    def content(self) -> str:
        """Return a digest of the files and of the descriptions of their columns."""
        try:
            saved = self.saved()
        except (HarnessError, OSError):
            return ""
        return hashlib.sha256(f"{saved.features} {self._digest(saved)}".encode()).hexdigest()

    def _digest(self, saved: Saved) -> str:
        return files_digest(Path(self.path), saved.files)

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, grouped by size and in the order of the rows; their names are row numbers, from 0."""
        import pyarrow as pa

        saved = self.saved()
        pictures = [name for name, kind in saved.features.items() if kind.get("_type") == "Image"]
        chosen = self.image or next(iter(pictures), "")
        if chosen not in pictures:
            raise UsageError(
                f"{self.label}: image must be one of the columns of images: {', '.join(pictures) or 'none'}."
            )
        table = pa.concat_tables([read_stream(file) for file in saved.files])
        chunks = [table.column(chosen).chunk(i).field("bytes") for i in range(table.column(chosen).num_chunks)]
        bytes_of = pa.chunked_array(chunks, type=pa.binary())
        if bytes_of.null_count:
            raise ContractError(f"{self.label}: {bytes_of.null_count} rows hold no image, or only a path to one")

        def named(row: int) -> Path:
            """Return what messages call a row."""
            return Path(f"{self.path}, row {row}")

        sizes = [image_shape(named(row), value.as_py()) for row, value in enumerate(bytes_of)]
        order = sorted(range(len(sizes)), key=lambda row: (sizes[row], row))

        def load(positions: Sequence[int]) -> Images:
            rows = [order[position] for position in positions]
            stack = np.stack([read_pixels(named(row), bytes_of[row].as_py()) for row in rows])
            return torch.from_numpy(stack).permute(0, 3, 1, 2).float().div(255).contiguous()

        names = tuple(f"{row:07}" for row in order)
        columns = self._columns(table, saved.features, order)
        state = f"{chosen}\n{self._digest(saved)}"
        images = (load([position]) for position in range(len(order)))

        def image_thumbnails() -> np.ndarray:
            return remembered("thumbnails", state, images, thumbnails)

        if "photograph" in table.column_names:
            photographs = [str(table.column("photograph")[row].as_py()) for row in order]
            columns["photograph"] = np.array(photographs)
            copies = said_of_copies(dict(zip(names, photographs, strict=True)), image_thumbnails)
            for sentence in filter(None, (said_of_spellings(photographs, "photographs"), copies)):
                warnings.warn(f"{self.path}: {sentence}", stacklevel=2)
        else:
            looks = by_looks(names, image_thumbnails)
            columns["photograph"] = np.array(looks.photographs)
            if looks.sentence:
                warnings.warn(
                    f"{self.path}: {looks.sentence}; if that is wrong, say what each image was made from in a column "
                    "photograph",
                    stacklevel=2,
                )
        judged = not np.isnan(columns["mos"]).all()
        return ImageSet(names, tuple(sizes[row] for row in order), load, columns, "" if judged else NO_LABELS)

    def _columns(self, table: Any, features: dict[str, dict[str, Any]], order: Sequence[int]) -> dict[str, np.ndarray]:
        """Return opinion scores, and the first column of classes with their names."""
        scores = table.column(self.mos).to_numpy() if self.mos in table.column_names else np.full(len(order), np.nan)
        if scores.dtype.kind not in "iuf":
            raise UsageError(f"{self.label}: column {self.mos} must hold numbers.")
        if np.isinf(scores).any():
            raise UsageError(f"{self.label}: column {self.mos} holds infinity.")
        columns = {"mos": scores.astype(float)[list(order)]}
        label = next((name for name, kind in features.items() if kind.get("_type") == "ClassLabel"), None)
        if label is not None:
            numbers = table.column(label).to_numpy().astype(np.int64)[list(order)]
            classes = np.array([str(name) for name in features[label].get("names", ())])
            if len(classes) <= numbers.max() or numbers.min() < 0:
                raise UsageError(f"{self.label}: column {label} holds a class that has no name.")
            columns |= {"label": numbers, "class": classes[numbers]}
        return columns


def _part(content: Any, name: str, kind: type) -> Any:
    """Return the member `name` of a JSON object; raises `UsageError` where the file is not in the library's format."""
    if not isinstance(content, dict) or not isinstance(content.get(name), kind):
        raise UsageError(f"the data set has no {name} in the format of the library datasets.")
    return content[name]


@hookimpl
def components() -> list[ImageDataset]:
    return [HuggingFace()]
