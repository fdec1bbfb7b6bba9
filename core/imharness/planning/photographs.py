"""Photographs that nobody has published, on which a season is computed. Imports no torch.

When a season opens, it publishes a commitment to the folder of photographs: the root of a Merkle tree, and the number
of files. Nobody can exchange a photograph later without changing the root. In the tree, a leaf is the sha256 of a byte
0, the sha256 of a file and its name; a node is the sha256 of a byte 1 and of the two nodes below it. Leaves are sorted,
and a node without a partner moves up a level. Names and digests of the files stay secret until the season is closed.

Runs read a copy of the folder among the assets, with other file names: each name is computed from the seed of the
season and the content of the file. So no message and no result can reveal what a photograph was called, and a person
who has one of the photographs cannot recognise it by its name.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from imharness.components.registry import Registry
from imharness.contracts.assets import asset_path, import_folder
from imharness.documents.seasons import Photographs, Season
from imharness.errors import UsageError
from imharness.planning.profile import Profile
from imharness.planning.secret import digest_of
from imharness.reading.digests import file_digest
from imharness.reading.image_folders import images_below
from imharness.reading.images import SHOWN, read_pixels
from imharness.reading.opening import printable, read_bytes
from imharness.reading.structured import read_json

MOS = "mos.csv"
"""The file of labels by people, as the data set ``folder:PATH`` reads it."""
LIST = "listed.json"
"""The file of the copy with the name and the sha256 of every file; it is as secret as the photographs."""
LABELS = "labels.csv"
"""The file of the copy with the labels as they were committed to."""


def listed(folder: Path) -> dict[str, str]:
    """Return name -> sha256 of all images of a folder, and of its file of labels, if it has one.

    Raises `UsageError` for a folder without images, and for images that cannot be used or are there twice.
    """
    if not folder.is_dir():
        raise UsageError(f"{printable(folder)} is not a folder.")
    census = images_below(folder)
    if census.left_out or not census.names:
        raise UsageError(f"{census.sentence() or f'{printable(folder)} has no images'}; every image must be used.")
    names = [*census.names, *([MOS] if (folder / MOS).is_file() else [])]
    files = {name: file_digest(folder / name) for name in names}
    first: dict[str, str] = {}
    for name, digest in files.items():
        if first.setdefault(digest, name) != name:
            raise UsageError(f"{printable(folder)}: {name} is the same file as {first[digest]}; remove one of them.")
    return files


def root_of(files: Mapping[str, str]) -> str:
    """Return the root of the Merkle tree of files, given as name -> sha256; their order does not matter."""
    level = sorted(hashlib.sha256(b"\0" + bytes.fromhex(sha) + name.encode()).digest() for name, sha in files.items())
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\1" + b"".join(pair)).digest() if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0].hex()


def commitment(folder: Path) -> Photographs:
    """Return what a season publishes of a folder when it opens; raises `UsageError` for one that cannot be used."""
    files = listed(folder)
    for name in files:
        if name != MOS:
            read_pixels(folder / name)
    return Photographs(root=root_of(files), files=len(files), labels="people" if MOS in files else "ladder")


def checked(folder: Path, season: Season) -> dict[str, str]:
    """Return name -> sha256 of the files of a folder; raises `UsageError` unless the season committed itself to them.

    The message names the files that differ, if the season or the copy among the assets has the list of files.
    """
    photographs = _of(season)
    files = listed(folder)
    if root_of(files) == photographs.root:
        return files
    committed = photographs.listed or _known(asset_path(photographs.folder(season.secret)), photographs)
    where = f"{printable(folder)} does not hold the photographs of season {season.name}"
    if not committed:
        raise UsageError(
            f"{where}: {len(files)} files with the root {root_of(files)[:16]}, not {photographs.files} with "
            f"{photographs.root[:16]}; restore the folder as it was when the season opened."
        )
    changes = [
        *(f"{name} was changed" for name in committed if name in files and files[name] != committed[name]),
        *(f"{name} is missing" for name in committed if name not in files),
        *(f"{name} was added" for name in files if name not in committed),
    ]
    more = f" and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
    raise UsageError(f"{where}: {', '.join(changes[:SHOWN])}{more}; restore the folder.")


def prepared(folder: Path, season: Season, seed: str) -> Path:
    """Put a copy of a season's photographs among the assets, where runs read it, and return it.

    Raises `UsageError` for another folder, and for another seed.
    """
    files, photographs = checked(folder, season), _of(season)
    check_seed(season, seed)
    target = import_folder() / photographs.folder(season.secret)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".photographs-", dir=target.parent) as beside:
        fresh = Path(beside) / "copy"
        fresh.mkdir(mode=0o700)
        for name, inside in _names(files, seed).items():
            (fresh / inside).parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / name, fresh / inside)
        if MOS in files:
            labels = read_bytes(folder / MOS)
            (fresh / LABELS).write_bytes(labels)
            (fresh / MOS).write_bytes(_renamed(labels, files, seed))
        (fresh / LIST).write_text(json.dumps(files, indent=1) + "\n", encoding="utf-8", newline="\n")
        if target.exists():
            os.replace(target, Path(beside) / "before")
        os.replace(fresh, target)
    check_prepared(season, seed)
    return target


def check_prepared(season: Season, seed: str) -> None:
    """Raise `UsageError` unless the copy among the assets is what the season committed itself to."""
    photographs = _of(season)
    check_seed(season, seed)
    copy = asset_path(photographs.folder(season.secret))
    remedy = f"`harness season verify FOLDER`, with the folder of season {season.name}, makes it again."
    if not copy.is_dir():
        raise UsageError(f"the photographs of season {season.name} are not on this machine; {remedy}")
    where = f"{printable(copy)} is not what season {season.name} committed itself to"
    files = _known(copy, photographs)
    if not files:
        raise UsageError(f"{where}: its list of files was changed; {remedy}")
    names = _names(files, seed)
    others = set(images_below(copy).names).difference(names.values())
    if others:
        raise UsageError(f"{where}: {min(others)} was added; {remedy}")
    expected = {inside: files[name] for name, inside in names.items()}
    if photographs.labels == "people":
        expected[LABELS] = files[MOS]
    for inside, sha256 in expected.items():
        if file_digest(copy / inside) != sha256:
            raise UsageError(f"{where}: {inside} was changed or is missing; {remedy}")
    labels = _renamed(read_bytes(copy / LABELS), files, seed) if photographs.labels == "people" else None
    if labels != (read_bytes(copy / MOS) if (copy / MOS).is_file() else None):
        raise UsageError(f"{where}: {MOS} was changed; {remedy}")


def on_photographs(profile: Profile, photographs: Photographs, secret: str, registry: Registry) -> Profile:
    """Return a profile whose data sets are the photographs of a season, without tracks that they have no labels for.

    `secret` is the digest of the season's seed. Raises `UsageError` where no track is left.
    """
    tracks = {}
    for name, track in profile.tracks.items():
        reader = registry.track(name).season_datasets.get(photographs.labels, "")
        if reader:
            select = {**track.select, "dataset": [f"{reader}:{photographs.folder(secret)}"]}
            tracks[name] = track.model_copy(update={"select": select})
    if not tracks:
        raise UsageError(
            f"no track of profile {profile.name} can be computed on photographs with labels by "
            f"{'people' if photographs.labels == 'people' else 'a ladder of severities'}."
        )
    return profile.model_copy(update={"tracks": tracks})


def _of(season: Season) -> Photographs:
    if season.photographs is None:
        raise UsageError(f"season {season.name} is computed on the data sets of its profile, not on photographs.")
    return season.photographs


def check_seed(season: Season, seed: str) -> None:
    """Raise `UsageError` unless a seed is that of a season."""
    if digest_of(seed) != season.secret:
        raise UsageError(
            f"season {season.name} is computed with the seed of its secret split, {season.secret}; give it with "
            "--secret FILE."
        )


def _known(copy: Path, photographs: Photographs) -> dict[str, str]:
    """Return name -> sha256 of the committed files, from the copy among the assets; {} if its list is lost or wrong."""
    try:
        files = read_json(copy / LIST)
        return files if root_of(files) == photographs.root else {}
    except (UsageError, ValueError, TypeError, AttributeError, IndexError):
        return {}


def _token(text: str, seed: str) -> str:
    """Return 16 hexadecimal digits that stand for a text; they cannot be computed without the seed."""
    return hmac.digest(seed.encode(), text.encode(), "sha256").hex()[:16]


def _names(files: Mapping[str, str], seed: str) -> dict[str, str]:
    """Return name of an image -> its name in the copy; images of one folder are in one folder of the copy."""
    names = {}
    for name, sha256 in files.items():
        path = PurePosixPath(name)
        folder = f"{_token(f'folder {path.parent}', seed)}/" if path.parent.name else ""
        if name != MOS:
            names[name] = f"{folder}{_token(f'file {sha256}', seed)}{path.suffix.lower()}"
    return names


def _renamed(labels: bytes, files: Mapping[str, str], seed: str) -> bytes:
    """Return a table of labels with the names of the copy. Other texts become tokens; numbers and the head stay."""
    names, text = _names(files, seed), io.StringIO(newline="")
    head, *rows = csv.reader(io.StringIO(labels.decode("utf-8-sig"), newline=""))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_cell(cell, names, seed) for cell in row])
    return text.getvalue().encode()


def _cell(cell: str, names: Mapping[str, str], seed: str) -> str:
    inside = names.get(str(PurePosixPath(cell.replace("\\", "/"))))
    if inside is not None:
        return inside
    try:
        float(cell or 0)
    except ValueError:
        return _token(f"text {cell}", seed)
    return cell
