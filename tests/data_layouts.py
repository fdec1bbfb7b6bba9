"""The layouts of published data sets, and stand-ins: files in such a layout with other content.

A text in the folder `layouts/data` lists the files of a data set as they are published: names, archives, columns,
shapes, and what one entry says. Its facts come from the publisher or from code that reads the files, never from the
loader here. After lines of facts (`# source: ...`) there is a line for each file, ``PATH KIND ...``. As in `layouts`,
{1..3} and {a,b} mean several paths. A folder in a path whose name ends like that of an archive means an archive. Lines
that begin with | are the content of the file before them. The kinds are:

- ``image WIDTHxHEIGHT [MODE [FORMAT]]``, of a colour that depends on the path;
- ``text``, where ``<...>*3`` repeats what it encloses and counts in {n}, and ``|*3`` repeats the line and counts in
  {row}, or from 1 in {next};
- ``bytes``, the same in hexadecimal digits;
- ``npy TYPE NUMBER``, an array of one number.

Facts: `source`, which page or code; `scores` or `labels`, their range; `units`, the images or rows that the loader
gives of the stand-in, as `DataSource` counts them; `item`, a data set, one of its images or rows, what its columns say,
and the file that it is; `not-confirmed`, what the sources leave open.
"""

import gzip
import io
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image
from tests.layouts import expanded

from imharness.data import DataSource

FOLDER = Path(__file__).parent / "layouts" / "data"
ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz")
REPEATED = re.compile(r"<(.*?)>\*(\d+)")
LINE = re.compile(r"\|(?:\*(\d+))? (.*)")


@dataclass(frozen=True)
class Item:
    """An image or a row of a data set, and what its columns must say."""

    dataset: str
    name: str
    columns: dict[str, str]


@dataclass(frozen=True)
class File:
    """A published file: path, kind, and the text of its content."""

    path: str
    kind: list[str]
    content: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write a stand-in below a folder, with the archives of its path as folders."""
        target = folder / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        match self.kind:
            case ["image", size, *how]:
                width, height = map(int, size.split("x"))
                mode, form = [*how, *("RGB", "")[len(how) :]]
                pixels = np.random.default_rng(zlib.crc32(self.path.encode())).integers(-15, 16, (6, 6, 3))
                image = Image.fromarray((pixels + colour(self.path)).astype(np.uint8))
                image.resize((width, height), Image.Resampling.NEAREST).convert(mode).save(target, form or None)
            case ["npy", kind, number]:
                np.save(target, np.array([number], kind))
            case ["text"]:
                target.write_text("".join(f"{line}\n" for line in self.content), encoding="utf-8")
            case ["bytes"]:
                content = bytes.fromhex("".join(self.content))
                target.write_bytes(gzip.compress(content, 1) if target.suffix == ".gz" else content)
            case _:
                raise AssertionError(f"{self.path}: no file is of the kind {' '.join(self.kind)}")


@dataclass(frozen=True)
class DataLayout:
    """The published files of a data set."""

    facts: dict[str, str]
    items: list[Item]
    files: list[File]

    def of_stand_in(self, source: DataSource) -> DataSource:
        """Return what a source states, but the number of images or rows of the stand-in, and no digests."""
        archives = tuple(archive.model_copy(update={"sha256": ""}) for archive in source.archives)
        return source.model_copy(update={"archives": archives, "units": int(self.facts.get("units", 0))})

    def write(self, folder: Path, spoil: Callable[[Path], None] = lambda folder: None) -> list[Path]:
        """Write a stand-in of all files into a new folder; return the archives, files and folders in it.

        `spoil`: what changes the files before they are packed.
        """
        folder.mkdir(parents=True)
        for file in self.files:
            file.write(folder)
        spoil(folder)
        archives = [path for path in folder.rglob("*") if path.is_dir() and path.name.endswith(ARCHIVES)]
        for archive in sorted(archives, key=lambda path: -len(path.parts)):
            content = _packed(archive)
            shutil.rmtree(archive)
            archive.write_bytes(content)
        return sorted(folder.iterdir())


def colour(path: str) -> np.ndarray:
    """Return the mean colour ``(3,)``, 0 to 255, of the stand-in of an image."""
    return np.random.default_rng(zlib.crc32(path.encode())).integers(30, 226, 3)


def _packed(folder: Path) -> bytes:
    """Return an archive of a folder, as its name says."""
    names = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    buffer = io.BytesIO()
    if folder.suffix == ".zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in names:
                archive.write(folder / name, name)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            tar.add(folder / name, name)
    return buffer.getvalue() if folder.suffix == ".tar" else gzip.compress(buffer.getvalue(), 1)


def read(text: Path) -> DataLayout:
    """Return the layout in a text."""
    facts, items, files, entries = list[list[str]](), list[Item](), list[File](), list[File]()
    for line in text.read_text(encoding="utf-8").splitlines():
        if line.startswith("#   "):
            facts[-1][1] += f" {line.removeprefix('#   ')}"
        elif line.startswith("# "):
            key, _, fact = line.removeprefix("# ").partition(": ")
            facts.append([key, fact])
        elif match := LINE.fullmatch(line):
            for entry in entries:
                entry.content.extend(_repeated(match[2], row) for row in range(int(match[1] or 1)))
        else:
            pattern, *kind = line.split()
            entries = [File(path, kind) for path in expanded(pattern)]
            files += entries
    for key, fact in facts:
        if key == "item":
            dataset, name, *columns = fact.split()
            items.append(Item(dataset, name, dict(column.split("=", 1) for column in columns)))
    return DataLayout({key: fact for key, fact in facts if key != "item"}, items, files)


def _repeated(line: str, row: int) -> str:
    def several(match: re.Match[str]) -> str:
        return "".join(match[1].format(n=n, row=row, next=row + 1) for n in range(int(match[2])))

    return REPEATED.sub(several, line).format(row=row, next=row + 1) if "{" in line or "<" in line else line


DATA_LAYOUTS = {file.stem: read(file) for file in sorted(FOLDER.glob("*.txt"))}
"""Name of a data set -> the layout of its files."""
