"""Publishes a release as a dataset repository of the Hugging Face Hub: writes it here, and uploads it where it can."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from imharness.errors import StoreError, UsageError
from imharness.exports.dataset import dataset_files, repository_in
from imharness.reading.text import reason
from imharness_leaderboard.current import current_boards
from imharness_leaderboard.publishing import NAME, refuse_local

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
    of a notebook or script.
    """
    repository = repository_in(address)
    if not NAME.fullmatch(release):
        raise UsageError(f"{release!r} cannot name a release; use letters, digits, dots, dashes and underscores.")
    boards, problems = current_boards(store)
    if not boards:
        raise StoreError(f"store {store} has no tables; `harness run` makes them")
    refuse_local(boards, store)
    folder = FOLDER / repository
    for name, content in dataset_files(boards, repository, release).items():
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
    known: dict[str, Any] = {"repo_id": repository, "repo_type": "dataset"}
    try:
        api.create_repo(**known, exist_ok=True)
        if release in {tag.name for tag in api.list_repo_refs(**known).tags}:
            raise UsageError(f"release {release} is published already and never changes; choose another name.")
        api.upload_folder(**known, folder_path=folder, commit_message=release, delete_patterns=["data/*"])
        api.create_tag(**known, tag=release)
    except OSError as error:  # the base of huggingface_hub's own errors and of those of the network
        return "", reason(error)
    return f"https://huggingface.co/datasets/{repository}/tree/{release}", ""
