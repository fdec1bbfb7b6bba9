"""`harness evidence`: attacked images that somebody hands in lower the best-known value of a listed entry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import Group, device_option, json_option, site_option, store_option
from imharness.cli.secret import secret_option
from imharness.errors import UsageError

if TYPE_CHECKING:
    from imharness_submissions.evidence.checking import Verdict

_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
_store = store_option("address")
_trust = click.option("--trust", is_flag=True, help="Run a submitted entry without a sandbox.")


@click.group(cls=Group)
def evidence() -> None:
    """Break a listed entry: write, check and accept attacked images as evidence against it."""


@evidence.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--track", required=True, metavar="NAME", help="Track of the entry.")
@click.option("--entry", required=True, metavar="NAME", help="Listed entry, by id or label.")
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="NAME=VALUE",
    help="A listed attack on the entry, whose budget counts: dataset, metric, method, strength; several times.",
)
@_store
def new(folder: Path, track: str, entry: str, tasks: tuple[str, ...], address: str) -> None:
    """Write FOLDER with evidence.toml and the original images, which you replace by attacked ones.

    Take out the images that you do not attack.
    """
    from imharness.components.registry import installed
    from imharness.results.store import Store
    from imharness_submissions.evidence.starting import start_evidence

    wrong = next((text for text in tasks if "=" not in text), None)
    if wrong is not None:
        raise UsageError(f"cannot read --task {wrong!r:.80}; write NAME=VALUE, such as strength=medium.")
    named = installed().track(track).info.id
    many = start_evidence(folder, Store(address), named, entry, dict(text.split("=", 1) for text in tasks))
    console.say(f"{folder}/evidence.toml: {many} originals; replace them, fill in summary, authors and contact, then:")
    console.say(f"harness evidence check {folder}")


@evidence.command()
@_folder
@_store
@device_option()
@secret_option
@_trust
@json_option()
def check(folder: Path, address: str, device: str, secret: Path | None, trust: bool, as_json: bool) -> None:
    """Compute the evidence in FOLDER again, with the data and the entry's code of here, and say whether it counts."""
    from imharness.results.store import Store
    from imharness.running.device import resolve_devices
    from imharness_submissions.evidence.checking import check as check_evidence
    from imharness_submissions.evidence.folder import read_evidence

    verdict = check_evidence(
        read_evidence(folder), Store(address), device=resolve_devices([device])[0], secret=_seed(secret), trusted=trust
    )
    _show(verdict, as_json)


@evidence.command()
@_folder
@_store
@site_option()
@device_option()
@secret_option
@_trust
@json_option()
def accept(
    folder: Path, address: str, site_dir: Path, device: str, secret: Path | None, trust: bool, as_json: bool
) -> None:
    """Check the evidence in FOLDER, and if it counts, lower the entry's value, and name who broke it and when."""
    from imharness.cli.commands import build_site
    from imharness.results.store import Store
    from imharness.running.device import resolve_devices
    from imharness_submissions.evidence.accepting import accept as accept_evidence
    from imharness_submissions.evidence.folder import read_evidence

    verdict, line = accept_evidence(
        read_evidence(folder), Store(address), device=resolve_devices([device])[0], secret=_seed(secret), trusted=trust
    )
    build_site(address, site_dir)
    _show(verdict, as_json)
    if not as_json:
        console.say(f"decision {line.number}, {line.date}: {line.reason}")


def _seed(secret: Path | None) -> str:
    from imharness.planning.secret import read_seed

    return read_seed(secret) if secret is not None else ""


def _show(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        console.emit(
            {
                "entry": verdict.listed.entry.label,
                "column": verdict.before.column,
                "before": verdict.before.value,
                "after": verdict.after.value,
                "digest": verdict.digest,
                "by_its_author": verdict.by_its_author,
            }
        )
        return
    console.say(f"It counts against {verdict.listed.entry.label}: {verdict.sentence}.")
    if verdict.by_its_author:
        console.warn("it comes from the author of the entry, and the leaderboard will say so")
