"""Checks wheels and the metadata of packages before anything of them is unpacked or shown."""

from __future__ import annotations

import email.parser
import email.policy
import re
import stat
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

from imharness.errors import UsageError
from imharness.reading.opening import DAMAGED, GIB, MIB, plain_file, printable, read_bytes
from imharness.reading.requirements import requirement_of
from imharness.reading.text import is_plain, reason

BYTES = GIB
MEMBERS = 10_000
UNPACKED = 2 * GIB
FREE = 64 * MIB
RATIO = 100
"""The most unpacked bytes for each byte of a wheel, if they are more than `FREE`."""
METADATA = MIB
WHEEL_NAME = re.compile(
    r"^(?P<name>[A-Za-z0-9_.]+)-(?P<version>[A-Za-z0-9_.!+]+)(-\d[^-/]*)?-[\w.]+-[\w.]+-[\w.]+\.whl$", re.ASCII
)
SHOWN = (
    "Name",
    "Version",
    "Summary",
    "Author",
    "Author-email",
    "License",
    "License-Expression",
    "Home-page",
    "Project-URL",
    "Maintainer",
    "Maintainer-email",
    "Requires-Dist",
)
"""The fields of metadata that the harness reads or shows; each must be one line without control characters."""


@dataclass(frozen=True)
class WheelFacts:
    """What a wheel states about itself."""

    name: str
    version: str
    requirements: tuple[Requirement, ...]
    members: tuple[str, ...]


def check_wheel(path: Path) -> WheelFacts:
    """Return what a wheel states about itself; raises `UsageError` unless unpacking it is harmless.

    It must be a plain file and not a link. The number, size and compression of its files are bounded. No name leads
    outside or occurs twice. There is one file of metadata, which is text and asks only for packages of the index.
    """
    with plain_file(path, BYTES, links=False) as file:
        try:
            with zipfile.ZipFile(file) as content:
                members = content.infolist()
                _check_sizes(path, members, file.seek(0, 2))
                _check_names(path, members)
                for member in members:
                    content.open(member).close()  # fails where its header has another name than the list of files
                name, version, wanted = _facts(content.read(_metadata(path, members)), printable(path))
        except DAMAGED as error:
            raise UsageError(f"{printable(path)} is not a wheel: {reason(error)}") from None
    return WheelFacts(name, version, wanted, tuple(member.filename for member in members))


def _metadata(path: Path, members: Iterable[zipfile.ZipInfo]) -> zipfile.ZipInfo:
    """Return the file METADATA; raises `UsageError` if Python could take other metadata for those of the package."""
    tops = {top for member in members for top in PurePosixPath(member.filename).parts[:1]}
    folders = [top for top in tops if top.casefold().endswith((".dist-info", ".egg-info", ".egg"))]
    matches = [m for m in members if len(folders) == 1 and m.filename == f"{folders[0]}/METADATA"]
    if len(matches) != 1 or not folders[0].endswith(".dist-info") or matches[0].file_size > METADATA:
        raise UsageError(
            f"{printable(path)} must hold exactly one folder .dist-info, with a file METADATA of at most 1 MiB."
        )
    return matches[0]


def _check_sizes(path: Path, members: Iterable[zipfile.ZipInfo], packed: int) -> None:
    sizes = [member.file_size for member in members]
    room = min(UNPACKED, max(FREE, RATIO * packed))
    if len(sizes) > MEMBERS:
        raise UsageError(f"{printable(path)} holds {len(sizes)} files; at most {MEMBERS} are unpacked.")
    if sum(sizes) > room:
        raise UsageError(
            f"{printable(path)} would unpack to {sum(sizes)} bytes; at most {room} are allowed for {packed} packed "
            "ones."
        )


def _check_names(path: Path, members: Iterable[zipfile.ZipInfo]) -> None:
    seen = set[str]()
    for member in members:
        name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
        segments = PurePosixPath(name).parts
        if not is_plain(name) or "\\" in name or name.startswith("/") or ".." in segments or len(name) > 300:
            raise UsageError(
                f"{printable(path)} holds a file with the name {name!r:.100}, which leads outside or is not one "
                "plain line of at most 300 characters."
            )
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise UsageError(f"{printable(path)} holds {name}, which is not a plain file.")
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UsageError(f"{printable(path)} holds {name}, which is encrypted or compressed in an unknown way.")
        if name.casefold().rstrip("/") in seen:
            raise UsageError(f"{printable(path)} holds {name} twice, perhaps in capital and small letters.")
        seen.add(name.casefold().rstrip("/"))


def check_unpacked(folder: Path) -> None:
    """Raise `UsageError` unless a folder of unpacked packages holds only plain files, and their metadata are text."""
    total = 0
    other = next(folder.glob("*.egg-info"), None) or next(folder.glob("EGG-INFO"), None)
    if other is not None:
        raise UsageError(f"the package holds {other.name!r:.100}, metadata of a kind that wheels do not have")
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        inside = path.relative_to(folder)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise UsageError(
                f"the package holds {str(inside)!r:.100}, which is not a plain file; a package holds only plain files"
            )
        total += status.st_size
        if total > UNPACKED:
            raise UsageError(f"the package and what it needs have more than {UNPACKED} bytes")
        if path.name == "METADATA" and path.parent.suffix == ".dist-info":
            _facts(read_bytes(path, METADATA, links=False), str(inside))


def _facts(content: bytes, where: str) -> tuple[str, str, tuple[Requirement, ...]]:
    """Return name, version and requirements.

    Raises `UsageError` unless the metadata are text, each shown field is one line, and requirements are valid.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{where}: METADATA is not UTF-8: byte {error.start} is {content[error.start]:#04x}."
        ) from None
    head = email.parser.Parser(policy=email.policy.compat32).parsestr(text, headersonly=True)
    for field in SHOWN:
        for value in head.get_all(field, []):
            if not is_plain(str(value)):
                raise UsageError(f"{where}: METADATA has {field} {str(value)!r:.100}, which is not one line of text.")
    if not head["Name"] or not head["Version"]:
        raise UsageError(f"{where}: METADATA lacks the name or the version of the package.")
    wanted = tuple(requirement_of(str(text), where) for text in head.get_all("Requires-Dist", []))
    return str(head["Name"]), str(head["Version"]), wanted
