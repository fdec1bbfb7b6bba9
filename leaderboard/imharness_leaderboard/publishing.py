"""Publishes a release: the site in a folder that a static host serves, and a snapshot of it that never changes.

A release is also written as a dataset repository of the Hugging Face Hub, and uploaded where that can be done.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard
from imharness.errors import DamagedError, StoreError, UsageError
from imharness.exports.dataset import dataset_files, repository_in
from imharness.reading.text import reason
from imharness.results.disk import UNFINISHED
from imharness.results.identity import LEFT_HERE, LOCAL
from imharness.results.store import Store
from imharness_leaderboard.changes import read_releases
from imharness_leaderboard.folder import MANIFEST, ORIGIN
from imharness_leaderboard.leaderboards import current_leaderboards
from imharness_leaderboard.pages import Built, build_site

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def publish_site(store: str | Path, folder: Path, release: str, secret: str | Path | None = None) -> Built:
    """Build the site into `folder` and copy it to ``folder/v/<release>``.

    `secret` as in `build_site`. Raises `UsageError` for a name that is taken or not allowed and for tables with objects
    of a notebook or script, and `StoreError` when something cannot be written.
    """
    if not NAME.fullmatch(release):
        raise UsageError(f"{release!r} cannot name a release; use letters, digits, dots, dashes and underscores.")
    snapshot = folder / "v" / release
    releases = read_releases(folder)
    if releases and releases[-1].name == release and not snapshot.exists():
        releases.pop()  # an earlier publication was cut off before its snapshot was there
    if snapshot.exists() or release in {past_release.name for past_release in releases}:
        raise UsageError(f"release {release} is published already and never changes; choose another name.")
    refuse_local(published_leaderboards(store), store)
    built = build_site(store, folder, releases, release, secret)
    temporary = folder / "v" / f".{release}"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(folder, temporary, ignore=lambda path, names: _not_copied(folder, path, names))
        temporary.rename(snapshot)
        (folder / ".nojekyll").touch()
    except OSError as error:
        raise StoreError(f"snapshot {snapshot} cannot be written: {error.strerror or error}") from None
    return built


def published_leaderboards(address: str | Path) -> list[Leaderboard]:
    """Return the tables of a store that can be read; others are made again before they are shown."""
    store, leaderboards = Store(address), list[Leaderboard | None]()
    for track in store.ranked():
        with suppress(DamagedError):
            leaderboards.append(read_leaderboard(store, track))
    return [leaderboard for leaderboard in leaderboards if leaderboard is not None]


def refuse_local(leaderboards: Sequence[Leaderboard], address: str | Path) -> None:
    """Raise `UsageError` where tables of a store rank objects of a notebook or script."""
    for leaderboard in leaderboards:
        local = [entry.label for entry in leaderboard.entries if entry.id.startswith(f"{LOCAL}/")]
        if local:
            raise UsageError(
                f"the tables of {leaderboard.track} contain {', '.join(local)}: {LEFT_HERE}; "
                f"`harness results rank --store {address}` makes them again without."
            )


def _not_copied(folder: Path, path: str, names: list[str]) -> set[str]:
    return {"v", ".git", ".nojekyll", MANIFEST, ORIGIN, UNFINISHED} & set(names) if Path(path) == folder else set()


FOLDER = Path("hub")
"""The folder below which repositories are written, as OWNER/NAME."""


class Published(NamedTuple):
    """Where a release was written on this machine, its address on the Hub ("" if there is none), and problems."""

    folder: Path
    url: str
    problems: Sequence[str]


def publish_dataset(store: str | Path, address: str, release: str) -> Published:
    """Write the repository of ``hf://datasets/OWNER/NAME`` below `FOLDER`, and upload it as a commit with a tag.

    Without the package huggingface_hub, a token or a network it is only written, and a problem tells how to upload it.
    Raises `UsageError` for a wrong address or name, for a release that the Hub has already, and for tables with objects
    of a notebook or script; `StoreError` for a store without tables.
    """
    repository = repository_in(address)
    if not NAME.fullmatch(release):
        raise UsageError(f"{release!r} cannot name a release; use letters, digits, dots, dashes and underscores.")
    leaderboards, problems = current_leaderboards(store)
    if not leaderboards:
        raise StoreError(f"store {store} has no tables; `harness run` makes them")
    refuse_local(leaderboards, store)
    folder = FOLDER / repository
    for name, content in dataset_files(leaderboards, repository, release).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    url, why = _upload(repository, folder, release)
    how = f"hf upload {repository} {folder} --repo-type dataset --commit-message {release}"
    return Published(folder, url, [*problems, *([f"not uploaded: {why}; upload it with: {how}"] if why else [])])


def _upload(repository: str, folder: Path, release: str) -> tuple[str, str]:
    """Return the address of the release, and "" or the reason why it was not uploaded."""
    try:
        import huggingface_hub
    except ImportError:
        return "", "the package huggingface_hub is not installed (pip install 'image-privacy-harness[huggingface]')"
    if huggingface_hub.get_token() is None:
        return "", "there is no token (hf auth login, or HF_TOKEN)"
    api: Any = huggingface_hub.HfApi()
    options: dict[str, Any] = {"repo_id": repository, "repo_type": "dataset"}
    try:
        api.create_repo(**options, exist_ok=True)
        if release in {tag.name for tag in api.list_repo_refs(**options).tags}:
            raise UsageError(f"release {release} is published already and never changes; choose another name.")
        api.upload_folder(**options, folder_path=folder, commit_message=release, delete_patterns=["data/*"])
        api.create_tag(**options, tag=release)
    except OSError as error:  # the base of huggingface_hub's own errors and of those of the network
        return "", reason(error)
    return f"https://huggingface.co/datasets/{repository}/tree/{release}", ""
