"""Flips one bit in a file of each kind; `python -m tests.faults.flipped_bits` flips a thousand."""

import shutil
from pathlib import Path

import pytest
from tests.faults.flipped_bits import Flips, drawn, small_store

KINDS = ("artifacts", "leaderboards", "examined", "ledger.jsonl", "logs", "runs", "sweeps", "tasks", "times")
WHOLE = ("leaderboards", "sweeps", "tasks")
"""The kinds for which all commands run, also the long ones: site, publication, and a repeated run."""


@pytest.fixture(scope="module")
def flips(tmp_path_factory: pytest.TempPathFactory) -> Flips:
    folder: Path = tmp_path_factory.mktemp("flips")
    small_store(folder / "made")
    shutil.copytree(folder / "made" / "store", folder / "pristine")
    return Flips(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_noticed_or_changes_nothing(flips: Flips, kind: str) -> None:
    names = [name for name in flips.names if name.startswith(kind)]
    ((name, position, bit),) = drawn(names, flips.pristine, 1, seed=0)
    flips.flip(name, position, bit, whole=kind in WHOLE)
    wrong, flips.wrong = flips.wrong, []
    assert wrong == []


def test_every_kind_of_file_is_tried(flips: Flips) -> None:
    assert {name.partition("/")[0] for name in flips.names} == {".lock", *KINDS}
