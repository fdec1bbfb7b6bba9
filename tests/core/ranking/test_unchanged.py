"""Tables and pages are made again if something that they depend on has changed, and otherwise not."""

import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from imharness.cli import cli
from imharness.documents.stored import read_leaderboard
from imharness.errors import DamagedError
from imharness.ranking import leaderboard, unchanged
from imharness.ranking.entries import rank
from imharness.results.store import Store, file_of
from imharness_leaderboard.pages import _Build, build_site

WORDS = ("--limit", "3", "--device", "cpu", "--workers", "0", "--progress", "none")
PERCEPTUAL = ("--track", "perceptual", "--dataset", "distorted-pairs[size=64]", "--metric", "l2", "--metric", "mse")
IQA = ("--track", "iqa", "--metric", "embedded-cnn", "--attack", "ifgsm", "--defense", "none", "--defense", "flip")
TRACKS = ["harness/iqa", "harness/perceptual"]


def invoke(store: Path, *words: str) -> None:
    site = () if words[0] == "results" else ("--site", str(store.parent / "site"), *WORDS)
    done = CliRunner().invoke(cli, [*words, "--store", str(store), *site])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module", autouse=True)
def code() -> Iterator[None]:
    """Let no source file count as changed since this process started, though people may edit files meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unchanged, "_STARTED", math.inf)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store and a site of runs of two tracks; tests work on copies of it."""
    folder = tmp_path_factory.mktemp("finished")
    for words in (PERCEPTUAL, IQA):
        invoke(folder / "store", "run", *words)
    return folder


@pytest.fixture
def store(finished: Path, tmp_path: Path) -> Store:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return Store(tmp_path / "store")


@pytest.fixture
def remade_tracks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the id of each track whose tables are made."""
    tracks, make = list[str](), leaderboard.made_leaderboard

    def counted(store, track, *arguments):
        tracks.append(track.info.id)
        return make(store, track, *arguments)

    monkeypatch.setattr(unchanged, "made_leaderboard", counted)
    return tracks


def tables(store: Store) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (store.root / "leaderboards").iterdir()}


def test_a_finished_store_makes_no_tables(
    store: Store, remade_tracks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the command of the run differs."""
    monkeypatch.setattr("sys.argv", ["harness", "run", "--workers", "7"])
    before = tables(store)
    invoke(store.root, "run", *PERCEPTUAL)
    invoke(store.root, "run", *IQA)
    invoke(store.root, "results", "rank")
    assert remade_tracks == []
    assert tables(store) == before


def test_tables_that_are_made_again_are_those_that_were_kept(
    store: Store, remade_tracks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {track: read_leaderboard(store, track) for track in TRACKS}
    monkeypatch.setattr(unchanged, "origin_of", lambda *_: "")
    remade = {fresh.track: fresh for fresh in rank(store)}
    assert remade_tracks == TRACKS
    for track, stored in before.items():
        assert stored is not None
        assert stored.origin != remade[track].origin == ""
        assert remade[track].model_copy(update={"origin": stored.origin}) == stored


def test_a_further_task_makes_the_tables_of_its_track_alone(store: Store, remade_tracks: list[str]) -> None:
    invoke(store.root, "run", *PERCEPTUAL, "--metric", "mae")
    invoke(store.root, "results", "rank")
    assert remade_tracks == ["harness/perceptual"]


def pages(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the content and the time of each file below a folder."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_site_is_built_where_something_changed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    site, built = store.root.parent / "site", list[str]()
    before, write_all = pages(site), _Build.write_all

    def counted(self, *arguments):
        built.append("site")
        write_all(self, *arguments)

    monkeypatch.setattr(_Build, "write_all", counted)
    invoke(store.root, "run", *IQA)
    assert built == []
    assert pages(site) == before
    build_site(store.address, store.root.parent / "other")
    assert {n: b for n, (b, _) in pages(site).items()} == {
        n: b for n, (b, _) in pages(store.root.parent / "other").items()
    }
    for spoil in (lambda: (site / "index.html").write_text("mine"), (site / "methods.html").unlink):
        built.clear()
        spoil()
        build_site(store.address, site)
        assert built == ["site"]
        assert {n: b for n, (b, _) in pages(site).items()} == {n: b for n, (b, _) in before.items()}
    recompute(store)
    list(rank(store))
    built.clear()
    build_site(store.address, site)
    assert built == ["site"]


def recompute(store: Store) -> None:
    """Replace the rows of one task by others, as a computation with other code would."""
    record = next(r for _, r in store.records() if r.spec.track == TRACKS[1] and r.rows)
    rows = store.rows(record)
    name = next(name for name, column in rows.items() if column.dtype.kind == "f")
    arrays = store.arrays(record)
    store.commit(record, rows | {name: np.full_like(rows[name], 0.25)}, arrays)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


CHANGES: dict[str, Callable[[Store], None]] = {
    "rows": recompute,
    "a result that is gone": lambda store: store.forget(
        next(r.key for _, r in store.records() if r.spec.track == TRACKS[1] and r.rows)
    ),
    "damaged tables": lambda store: flip(store.root / "leaderboards" / "harness--perceptual.json"),
    "damaged scores": lambda store: flip(next((store.root / "leaderboards").glob("harness--perceptual.*.safetensors"))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_tables_makes_them_again(store: Store, remade_tracks: list[str], change: str) -> None:
    CHANGES[change](store)
    invoke(store.root, "results", "rank")
    assert remade_tracks == [TRACKS[1]]
    remade_tracks.clear()
    invoke(store.root, "results", "rank")
    assert remade_tracks == [], "they are kept again"


def test_other_code_makes_all_tables_again(
    store: Store, remade_tracks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unchanged, "installed_code", lambda: "another")
    list(rank(store))
    assert remade_tracks == TRACKS
    remade_tracks.clear()
    monkeypatch.setattr(unchanged, "installed_code", lambda: "")
    list(rank(store))
    list(rank(store))
    assert remade_tracks == 2 * TRACKS, "code that no digest stands for is never taken for the same"


def test_one_file_that_changed_after_the_start_is_code_that_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unchanged.installed_code.cache_clear()
    assert unchanged.installed_code()
    unchanged.installed_code.cache_clear()
    new, files_before = tmp_path / "new.py", unchanged.package_files
    new.touch()
    os.utime(new, (2**33, 2**33))
    monkeypatch.setattr(unchanged, "_STARTED", 2.0**33 - 1)
    monkeypatch.setattr(unchanged, "package_files", lambda package: {**files_before(package), "new.py": new})
    assert unchanged.installed_code() == ""
    unchanged.installed_code.cache_clear()


def test_a_damaged_result_is_named_though_tables_were_kept(store: Store) -> None:
    record = next(r for _, r in store.records() if r.spec.track == TRACKS[1] and r.rows)
    flip(store.root / file_of(record).name)
    with pytest.raises(DamagedError, match=record.key[:12]):
        list(rank(store))


def arrays_of(store: Store) -> Path:
    return store.root / next(r.arrays.file for _, r in store.records() if r.spec.track == TRACKS[0] and r.arrays)


def rows_of(store: Store) -> Path:
    return store.root / file_of(next(r for _, r in store.records() if r.spec.track == TRACKS[0] and r.rows)).name


DAMAGES: dict[str, Callable[[Store], object]] = {
    "rows": lambda store: flip(rows_of(store)),
    "arrays": lambda store: flip(arrays_of(store)),
    "arrays that are gone": lambda store: arrays_of(store).unlink(),
    "rows that are gone": lambda store: rows_of(store).unlink(),
    "arrays, beside other files": lambda store: [
        flip(arrays_of(store)),
        arrays_of(store).with_name("notes").touch(),
        arrays_of(store).with_name(f"{arrays_of(store).name[:64]}.safetensors").touch(),
    ],
    "the configuration": lambda store: flip(next((store.root / "sweeps" / "harness--iqa").glob("*.json"))),
}


def whole(store: Store) -> bool:
    """Say whether the store has no damaged record and knows its latest run; raises if rows or arrays are damaged."""
    for _, record in store.records():
        if isinstance(record, DamagedError):
            return False
        store.rows(record)
        store.arrays(record)
    return store.latest(TRACKS[0]) is not None


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_computes_again_what_is_damaged_though_tables_were_kept(store: Store, damage: str) -> None:
    before = {key for key, _ in store.records()}
    DAMAGES[damage](store)
    invoke(store.root, "run", *IQA)
    assert whole(store)
    assert {key for key, _ in store.records()} == before


def test_a_finished_run_opens_no_result_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[str]()
    monkeypatch.setattr(Store, "opened", lambda self, file, content: opened.append(file.name))
    invoke(store.root, "run", *IQA)
    assert opened == []
