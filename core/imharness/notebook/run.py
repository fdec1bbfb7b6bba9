"""`run`: computes and ranks a profile, or a part of it, in one call, as `harness run` does."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from imharness.cli import console
from imharness.documents.findings import cannot_win
from imharness.errors import UsageError
from imharness.notebook.arguments import address_of, flag, listed, naming, seed_of, text, whole, wrong
from imharness.notebook.load import joined, stored
from imharness.notebook.progress import view_of_run
from imharness.notebook.result import Result
from imharness.planning.plan import Graph, named
from imharness.planning.profiles import load_profile
from imharness.planning.selection import chosen_tracks, refuse_missing, refuse_unused
from imharness.results.store import Store
from imharness.running.device import resolve_devices
from imharness.running.session import Session
from imharness.running.views import Watcher
from imharness.testing.examination import examine

COMMAND = "imharness.run"
Names = str | Sequence[str]


def run(
    profile: str | os.PathLike[str] = "embedded",
    *,
    track: Names | None = None,
    attack: Names = (),
    defense: Names = (),
    metric: Names = (),
    evaluator: Names = (),
    model: Names = (),
    dataset: Names = (),
    store: str | os.PathLike[str] = "store",
    site: str | os.PathLike[str] | None = None,
    seed: int = 0,
    limit: int | None = None,
    workers: int | None = None,
    device: Names = "auto",
    fresh: bool = False,
    progress: bool = True,
) -> Result:
    """Run a profile, or a part of it: compute the tasks that the store lacks, and rank the entries of its tracks.

    The tasks, their rows and the tables are those of `harness run` with the same arguments. Finished tasks stay in the
    store, even if the run is interrupted; repeat the call to continue.

    Args:
        profile: the name of a profile, such as "embedded" or "quick", or a file ``.toml``.
        track: the names of the tracks to run; None means all tracks of the profile.
        attack, defense, metric, evaluator, model, dataset: only these components of the profile's selection, by name as
            on the command line, such as ``"jpeg[quality=40]"``; with a "!" before a name, all but that one.
        store: the folder or address of the results.
        site: the folder for the leaderboard's pages, which are written during the run; None means no pages.
        seed: the seed of all randomness, from 0 to 2^63 - 1.
        limit: use only this many images of each data set; None means all.
        workers: the number of processes; 0 computes in this one, on one thread; None means as many per GPU as the
            profile says, and one per core (at most 8) where the CPU computes.
        device: "auto" (GPUs, and the CPU for tracks that the profile leaves to it), "cpu", "cuda", "cuda:N" or "mps",
            or several of them.
        fresh: whether to compute again what the store already holds.
        progress: whether to show how far the run is.

    Returns:
        The tables of the tracks, as `imharness.load` returns them: if several tracks ran, the names of tables and steps
        begin with the track, as in ``iqa/ranking``. ``result.table().to_dataframe()`` is the main table, and
        `Result.failed` says which tasks failed, and why.

    Raises:
        UsageError: an argument makes no sense; the message names it.
        Unavailable: something that was asked for is not on this machine; the message says how to get it.
        StoreError: the store cannot be read or written.
    """
    requested = {"attack": attack, "defense": defense, "metric": metric}
    requested |= {"evaluator": evaluator, "model": model, "dataset": dataset}
    only = {kind: _names(kind, value) for kind, value in requested.items()}
    with naming("profile"):
        chosen = load_profile(address_of("profile", profile, "the name of a profile or a file"))
    with naming("device"):
        devices = _names("device", device)
        resolve_devices(devices)
    session = Session(
        Store(address_of("store", store, "a folder or an address")),
        chosen,
        seed=seed_of(seed),
        limit=None if limit is None else _at_least(1, "limit", limit),
        command=COMMAND,
        devices=devices,
        workers=None if workers is None else _at_least(0, "workers", workers),
    )
    pages = None if site is None else Path(address_of("site", site, "a folder"))
    fresh, view = flag("fresh", fresh), view_of_run(flag("progress", progress))
    graphs = _planned(session, None if track is None else _names("track", track), only)
    if sentence := session.said_of_limit(graphs):
        console.warn(sentence)
    for failure in session.registry.failures:
        console.warn(f"left out {failure.name}: {failure.reason}")
    for label, failed in examine(session.store, session.registry, graphs, session.seed).items():
        console.warn(f"{label} {cannot_win(failed)}")
    ran = session.run(graphs, site=pages, fresh=fresh, watcher=Watcher(view, warn=console.warn))
    return joined([stored(session.store, leaderboard) for leaderboard in ran.leaderboards], str(session.store.address))


def _planned(session: Session, tracks: Sequence[str] | None, only: Mapping[str, Sequence[str]]) -> Sequence[Graph]:
    """Return the graphs of a selection; raises a `UsageError` that names the argument, or `Unavailable`."""
    with naming("track"):
        if tracks is not None and not chosen_tracks(session.registry, session.profile, tracks):
            raise UsageError("track: name at least one, or give None for all of the profile.")
    for kind, names in only.items():
        if kind == "dataset" and any(Path(name).is_dir() for name in names):
            continue  # the plan says how to name a folder
        with naming(kind):
            named(session.registry, kind, names)
    with _without_dashes():
        graphs = session.plan(tracks, only=only)
        refuse_unused(graphs, session.registry, only)
        refuse_missing(graphs, session.registry, only)
    return graphs


@contextmanager
def _without_dashes() -> Iterator[None]:
    """Let messages name the argument instead of the option of the command line."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--")) from None


def _names(argument: str, value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else listed(argument, value, "a name or a list of names")
    return [text(argument, name, "a name or a list of names") for name in names]


def _at_least(lowest: int, argument: str, value: Any) -> int:
    number = whole(argument, value)
    if number < lowest:
        raise wrong(argument, f"a whole number from {lowest} or None", value)
    return number
