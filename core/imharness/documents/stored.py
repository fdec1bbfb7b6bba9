"""Leaderboards as documents of a store, ``leaderboards/TRACK.json``, and the scores that they compare. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from imharness.documents.leaderboards import Leaderboard
from imharness.errors import DamagedError
from imharness.results.storage import sha256_of
from imharness.results.storage.files import packed
from imharness.results.store import Store, folder_name


def write_leaderboard(
    store: Store, leaderboard: Leaderboard, numbers: Mapping[str, npt.NDArray[np.floating]] | None = None
) -> Leaderboard:
    """Write the scores of a track's comparisons and then its tables; return the leaderboard as it was written.

    `numbers`: id of a comparison -> its scores ``(entries, total)``; None where they are written already.
    """
    file = f"leaderboards/{folder_name(leaderboard.track)}"
    if numbers:
        content = packed(numbers)
        stored = store.put(f"{file}.{sha256_of(content)[:16]}.safetensors", content)
        leaderboard = leaderboard.model_copy(update={"numbers": stored})
    before = None
    with suppress(DamagedError):
        before = read_leaderboard(store, leaderboard.track)
    store.replace(f"{file}.json", leaderboard)
    if before is not None and before.numbers is not None and before.numbers != leaderboard.numbers:
        store.backend.delete(before.numbers.file)
    return leaderboard


def read_leaderboard(store: Store, track: str) -> Leaderboard | None:
    """Return the tables of a track, or None; raises `DamagedError` if they are damaged."""
    return store.current(f"leaderboards/{folder_name(track)}.json", Leaderboard)


def read_numbers(store: Store, leaderboard: Leaderboard) -> dict[str, npt.NDArray[np.floating]]:
    """Return the scores of a leaderboard's comparisons, id -> ``(entries, total)``, verified."""
    return store.arrays_in(leaderboard.numbers)
