"""Finds the images in a folder, and says which files that hold images are left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from imharness.errors import UsageError
from imharness.reading.images import SHOWN, formats
from imharness.reading.opening import plain_file, printable

ENDINGS: dict[str, tuple[str, ...]] = {
    "PNG": (".png", ".apng"),
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"),
    "BMP": (".bmp", ".dib"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "JPEG2000": (".jp2", ".j2k", ".jpx"),
    "AVIF": (".avif",),
    "HEIF": (".heic", ".heif", ".hif"),
}
"""Format -> the endings of its files, in lower case."""
FORMAT_OF = {ending: name for name, endings in ENDINGS.items() for ending in endings}
NEVER = (
    *(".svg", ".psd", ".jxl", ".exr", ".hdr", ".tga", ".ico", ".eps", ".raw", ".dng"),
    *(".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf", ".pef", ".srw"),
)
"""Endings of images that are not read."""
THUMBNAILS = ("__MACOSX", "@eaDir")
"""Folders of copies that archives and file servers make. Like names that begin with a dot, they are skipped."""
_BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*")
_BRANDS = (b"ftypavif", b"ftyphei", b"ftypmif1", b"WEBP")
SAVE = "save them as PNG"
PLUGINS = {"HEIF": "install pillow-heif, or ", "AVIF": "install Pillow 11.3 or later, or "}


@dataclass(frozen=True)
class Census:
    """The images below a folder: the `names` of those that are used, sorted, and why each other one is left out."""

    folder: Path
    names: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> list[Path]:
        """The files that are used."""
        return [self.folder / name for name in self.names]

    def only(self, wanted: Callable[[str], bool], why: str) -> Census:
        """Return a census that uses only the images whose names are `wanted`, and says `why` of the others."""
        others = {name: why for name in self.names if not wanted(name)}
        return Census(self.folder, tuple(name for name in self.names if wanted(name)), {**self.left_out, **others})

    def sentence(self) -> str:
        """Return a sentence that counts the files and names those that are left out, or "" without any."""
        if not self.left_out:
            return ""
        reasons: dict[str, list[str]] = {}
        for name, why in sorted(self.left_out.items()):
            reasons.setdefault(why, []).append(name)
        clauses = [f"{len(names)} {why} ({_some(names)})" for why, names in reasons.items()]
        total = len(self.names) + len(self.left_out)
        used = f"of {total} image files {len(self.names)} are used"
        return f"{printable(self.folder)}: {used}; left out: {'; '.join(clauses)}"


def images_below(folder: Path) -> Census:
    """Return the images in a folder and in all folders below it.

    Entries whose names begin with a dot and folders of thumbnails are not looked into, and a folder that links lead to
    is read once. Raises `UsageError` for a folder that cannot be read.
    """
    names: list[str] = []
    left_out: dict[str, str] = {}
    links: list[str] = []
    for entry, name in _files(folder, "", set(), left_out):
        why = _why_not(Path(entry.path))
        if why == "":
            names.append(name)
            links += [name] * entry.is_symlink()
        elif why is not None:
            left_out[name] = why
    if links:
        plain = {os.path.realpath(folder / name) for name in set(names).difference(links)}
        again = [name for name in links if os.path.realpath(folder / name) in plain]
        left_out |= dict.fromkeys(again, "links to another one of them")
    return Census(folder, tuple(sorted(set(names).difference(left_out))), left_out)


def said_of_misnamed(table: Path) -> str:
    """Return a sentence on files that may be meant to be a table that is not there, such as ``mos.xlsx``, or ""."""
    if table.is_file():
        return ""
    names = sorted(
        file.name
        for file in table.parent.iterdir()
        if file.name.casefold().startswith(f"{table.stem}.") and file.is_file() and not is_image_name(file.name)
    )
    they = "they are not read; save one of them" if len(names) > 1 else "it is not read; save it"
    return f"{printable(table.parent)} has {_some(names)}; {they} as {table.name}, with commas" if names else ""


def is_image_name(name: str) -> bool:
    """Return whether a name ends as the names of image files do."""
    ending = os.path.splitext(name)[1].lower()
    return ending in NEVER or ending in FORMAT_OF


def _files(
    folder: Path, below: str, visited: set[str], left_out: dict[str, str]
) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Yield entry and name below the first folder of every file that is not hidden, in the order of names."""
    visited.add(os.path.realpath(folder))
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: (entry.is_symlink(), entry.name))
    except OSError as error:
        raise UsageError(f"{printable(folder)} cannot be read: {error.strerror}.") from None
    for entry in entries:
        if entry.name.startswith(".") or entry.name in THUMBNAILS:
            continue
        if not entry.is_dir():
            yield entry, below + entry.name
        elif os.path.realpath(entry.path) in visited:
            left_out[f"{below}{entry.name}/"] = "links to a folder that is read already"
        else:
            yield from _files(Path(entry.path), f"{below}{entry.name}/", visited, left_out)


def _why_not(path: Path) -> str | None:
    """Return why a file is left out, "" if it is used, and None if it is no image."""
    ending = path.suffix.lower()
    name = FORMAT_OF.get(ending)
    if name in formats():
        return ""
    if name is not None:
        return f"{'HEIC' if name == 'HEIF' else name}: {PLUGINS.get(name, '')}{SAVE}"
    if ending in NEVER:
        return f"{ending.removeprefix('.').upper()}: {SAVE}"
    return "whose names do not end as those of images do: rename them" if _begins_as_an_image(path) else None


def _begins_as_an_image(path: Path) -> bool:
    try:
        with plain_file(path, 1 << 62) as file:
            start = file.read(16)
    except (UsageError, OSError):
        return False
    return start.startswith(_BEGINNINGS) or any(brand in start[4:] for brand in _BRANDS)


def _some(names: list[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(printable(Path(name)) for name in names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
