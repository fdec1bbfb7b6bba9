"""A season on photographs that nobody has published: committed to, computed on, hidden, published, computed again."""

import csv
import hashlib
import importlib.metadata
import json
import random
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image
from tests.conftest import install
from tests.submissions.test_evidence import PROFILE

from imharness.cli import cli
from imharness.components.loading import load_plugins
from imharness.components.registry import build_registry, installed
from imharness.contracts.assets import asset_path
from imharness.documents.entries import Standing
from imharness.documents.seasons import Season, season_of
from imharness.documents.stored import read_leaderboard
from imharness.errors import UsageError
from imharness.planning.photographs import (
    check_prepared,
    checked,
    commitment,
    listed,
    on_photographs,
    prepared,
    root_of,
)
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.profiles import load_profile
from imharness.planning.secret import digest_of, read_seed
from imharness.ranking.entries import StoreEntries
from imharness.ranking.leaderboard import make_leaderboard
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness.running.merging import merged_sweep
from imharness_submissions import seasons
from imharness_submissions.evidence.checking import check
from imharness_submissions.ledger import Ledger

LATER = datetime.now(UTC).date() + timedelta(days=90)
SEED = "5eed" * 16
SECRET = digest_of(SEED)


@pytest.fixture(autouse=True)
def tools() -> None:
    """Nothing of a stranger is run here: no sandbox is needed."""


@pytest.fixture(autouse=True)
def _places(empty_places: Path) -> None:
    """Keep the copies of photographs among the assets of the test."""


def invoke(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def refused(*words: object) -> str:
    result = invoke(*words)
    assert isinstance(result.exception, UsageError), result.output
    (line,) = str(result.exception).splitlines()
    return line


def photographs(folder: Path, names: Sequence[str], side: int = 48) -> Path:
    """Write smooth pictures into a folder, and labels by people."""
    folder.mkdir()
    drawn = torch.rand(len(names), 3, 5, 5, generator=torch.Generator().manual_seed(7))
    large = torch.nn.functional.interpolate(drawn, (side, side), mode="bilinear").mul(255).round().byte()
    for name, image in zip(names, large.permute(0, 2, 3, 1).numpy(), strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(image).save(folder / name)
    with (folder / "mos.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ("image", "mos", "photograph"),
                *(
                    (name, image.float().mean().item() / 255, f"of-{Path(name).stem}")
                    for name, image in zip(names, large, strict=True)
                ),
            ]
        )
    return folder


def season_on(folder: Path, seed: str = SEED) -> Season:
    return Season(
        name="2027a",
        opened="",
        until=LATER,
        profile="tiny",
        protocol={},
        secret=digest_of(seed),
        photographs=commitment(folder),
    )


def interrupted(*anything: object, **more: object) -> None:
    raise KeyboardInterrupt


def interrupting(target: Path) -> None:
    """Stop a season that closes when one of its photographs is in the archive, cut off."""
    target.mkdir()
    (target / NAMES[0]).write_bytes(b"half")
    raise KeyboardInterrupt


NAMES = tuple(f"{animal}-by-the-lake.png" for animal in ("heron", "otter", "vole", "newt", "toad", "stork"))


def test_the_root_is_that_of_a_merkle_tree_in_any_order() -> None:
    files = {f"{k}.png": hashlib.sha256(bytes([k])).hexdigest() for k in range(5)}
    leaves = sorted(hashlib.sha256(b"\0" + bytes.fromhex(sha) + name.encode()).digest() for name, sha in files.items())

    def node(first: bytes, second: bytes) -> bytes:
        return hashlib.sha256(b"\1" + first + second).digest()

    four = node(node(leaves[0], leaves[1]), node(leaves[2], leaves[3]))
    assert root_of(files) == node(four, leaves[4]).hex()
    for seed in range(5):
        assert root_of(dict(random.Random(seed).sample(list(files.items()), len(files)))) == root_of(files)
    others = [{**files, "0.png": files["1.png"]}, {**files, "a.png": files["0.png"]}, {"a": files["0.png"]}]
    assert len({root_of(files), *map(root_of, others)}) == 4
    assert (
        root_of({"0.png": files["0.png"]})
        == hashlib.sha256(b"\0" + bytes.fromhex(files["0.png"]) + b"0.png").hexdigest()
    )


def test_what_the_folder_lacks_or_has_besides_is_named(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "lake", NAMES)
    season = season_on(folder)
    prepared(folder, season, SEED)
    assert list(checked(folder, season)) == list(listed(folder))
    other = folder / NAMES[0]
    before = other.read_bytes()
    Image.new("RGB", (48, 48)).save(other)
    with pytest.raises(UsageError, match=f"season 2027a: {NAMES[0]} was changed; restore"):
        checked(folder, season)
    other.unlink()
    with pytest.raises(UsageError, match=f"{NAMES[0]} is missing"):
        checked(folder, season)
    other.write_bytes(before)
    (folder / "mos.csv").write_text((folder / "mos.csv").read_text().replace("mos,", "score,"))
    with pytest.raises(UsageError, match=r"mos\.csv was changed"):
        checked(folder, season)
    (folder / "mos.csv").unlink()
    Image.new("RGB", (48, 48)).save(folder / "new.png")
    with pytest.raises(UsageError, match=r"mos\.csv is missing, new\.png was added"):
        checked(folder, season)


def test_folders_that_cannot_be_committed_to_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no images"):
        commitment(tmp_path / "empty")
    folder = photographs(tmp_path / "lake", NAMES)
    shutil.copy(folder / NAMES[0], folder / "again.png")
    with pytest.raises(UsageError, match="is the same file as again"):
        commitment(folder)
    (folder / "again.png").write_bytes((folder / NAMES[0]).read_bytes()[:200])
    with pytest.raises(UsageError, match=r"again\.png"):
        commitment(folder)


def test_a_copy_that_is_not_what_was_committed_to_is_not_computed_on(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "lake", [f"{kind}/{name}" for kind, name in zip("aabbcc", NAMES, strict=True)])
    season = season_on(folder)
    with pytest.raises(UsageError, match="are not on this machine; `harness season verify FOLDER`"):
        check_prepared(season, SEED)
    with pytest.raises(UsageError, match="with the seed of its secret split"):
        prepared(folder, season, "0dd5eed0" * 8)
    copy = prepared(folder, season, SEED)
    inside = [path.relative_to(copy).as_posix() for path in sorted(copy.rglob("*.png"))]
    assert len({name.split("/")[0] for name in inside}) == 3
    assert not any(word in name for word in ("heron", "lake") for name in inside)
    assert "lake" not in (copy / "mos.csv").read_text()
    for name in (inside[0], "mos.csv", "labels.csv", "listed.json"):
        before = (copy / name).read_bytes()
        (copy / name).write_bytes(before[:-9])
        with pytest.raises(UsageError, match="is not what season 2027a committed itself to"):
            check_prepared(season, SEED)
        (copy / name).write_bytes(before)
    check_prepared(season, SEED)
    Image.new("RGB", (48, 48)).save(copy / "new.png")
    with pytest.raises(UsageError, match=r"new\.png was added"):
        check_prepared(season, SEED)
    assert prepared(folder, season, SEED) == copy


def test_a_season_from_its_opening_to_anyones_recomputation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = photographs(tmp_path / "lake", NAMES)
    (tmp_path / "tiny.toml").write_text(PROFILE.replace('"jpeg", "flip", "random-noise"', '"flip"'))
    store, seed, archive, site = (tmp_path / name for name in ("store", "seed", "archive", "site"))
    where = ("--profile", tmp_path / "tiny.toml", "--secret", seed, "--store", store)
    opening = ("season", "open", "2027a", "--until", LATER, *where, "--photographs", folder)
    for kind, step in ((Ledger, "append"), (Store, "replace")):
        with monkeypatch.context() as stopped:
            stopped.setattr(kind, step, interrupted)
            assert invoke(*opening).exit_code != 0
        assert season_of(Store(store)) is None
    opened = invoke(*opening)
    assert opened.exit_code == 0, opened.output
    season = season_of(Store(store))
    root = root_of(listed(folder))
    assert (season.photographs.root, season.photographs.files, season.photographs.labels) == (root, 7, "people")
    (line,) = Ledger(store).lines()
    assert (line.name, line.decision, line.ids) == ("2027a", "opened", ())
    assert root in line.reason

    run = ("run", "--all", "--site", site, "--device", "cpu", "--workers", 0, "--progress", "none")
    assert "is computed with the seed" in refused(*run, *where[:2], *where[-2:])
    assert "by its protocol alone" in refused(*run, *where, "--dataset", "pictures")
    done = invoke(*run, *where)
    assert done.exit_code == 0, done.output
    leaderboard = read_leaderboard(Store(store), "harness/iqa")
    assert {row.label for table in leaderboard.tables if table.id == "ranking" for row in table.rows} >= {
        "harness/flip"
    }
    status = json.loads(invoke("season", "status", "--store", store, "--json").output)
    assert status["photographs"] == f"7 unpublished files, root {root[:16]}"

    digests = list(listed(folder).values())
    secrets = [b"by-the-lake", *(digest[:16].encode() for digest in digests)]
    documents = [path for root_folder in (store, site) for path in root_folder.rglob("*") if path.is_file()]
    assert len(documents) > 50
    assert [path for path in documents for word in secrets if word in path.read_bytes()] == []
    assert {path.parent.name for path in site.rglob("*.png")} <= {"guides"}
    assert [path for pattern in ("*.f32", "*.f64", "*.vectors.json") for path in site.rglob(pattern)] == []
    assert "unpublished photographs of season 2027a" in refused("results", "copy", store, tmp_path / "copy")
    assert "unpublished photographs" in refused("results", "export", "--format", "csv", "--rows", "--store", store)

    copied = next(asset_path(season.photographs.folder(season.secret)).glob("*.png"))
    before = copied.read_bytes()
    copied.write_bytes(before + b" ")
    task = {"method": "harness/square[queries=2]", "strength": "strong"}
    manifest = SimpleNamespace(track="harness/iqa", entry="harness/flip", task=task)
    with pytest.raises(UsageError, match=f"{copied.name} was changed"):
        check(SimpleNamespace(manifest=manifest, digest=""), Store(store), secret=read_seed(seed))
    copied.write_bytes(before)

    close = ("season", "close", "--archive", archive, "--secret", seed, "--store", store, "--reason", "a test")
    assert "needs --photographs FOLDER" in refused(*close)
    before = (folder / NAMES[1]).read_bytes()
    (folder / NAMES[1]).write_bytes((folder / NAMES[2]).read_bytes() + b" ")
    assert f"{NAMES[1]} was changed" in refused(*close, "--photographs", folder)
    (folder / NAMES[1]).write_bytes(before)
    with monkeypatch.context() as stopped:
        stopped.setattr(seasons, "publish", lambda folder, season, target: interrupting(target))
        assert invoke(*close, "--photographs", folder).exit_code != 0
    assert not archive.exists()
    closed_at = season_of(Store(store)).closed
    closed = invoke(*close, "--photographs", folder)
    assert closed.exit_code == 0, closed.output
    season = season_of(Store(archive))
    assert season.closed == closed_at
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("archive")) == ["archive"]
    assert season.photographs.listed == listed(folder) == listed(archive / "photographs")
    assert "photographs/heron-by-the-lake.png" in (archive / "SHA256SUMS").read_text()

    shutil.rmtree(tmp_path / "shelf")
    assert "are not on this machine" in refused("reproduce", "harness/flip", "--store", archive, "--device", "cpu")
    verified = invoke("season", "verify", archive / "photographs", "--store", archive)
    assert verified.exit_code == 0, verified.output
    assert root in verified.output
    again = invoke("reproduce", "harness/flip", "--store", archive, "--device", "cpu", "--json")
    assert again.exit_code == 0, again.output
    results = json.loads(again.output[again.output.index("{\n") :])["tasks"]
    assert len(results) > 2
    assert all(result["difference"] == 0 for result in results)
    (archive / "photographs" / NAMES[3]).unlink()
    assert f"{NAMES[3]} is missing" in refused("season", "verify", archive / "photographs", "--store", archive)


def test_two_seasons_on_the_same_photographs_have_a_copy_each(tmp_path: Path) -> None:
    """For example a rehearsal and the season itself, or the seasons of two tracks, on one machine."""
    folder = photographs(tmp_path / "lake", NAMES)
    seasons_of_both = [(season_on(folder, seed), seed) for seed in (SEED, "5eee" * 16)]
    for season, seed in seasons_of_both:
        prepared(folder, season, seed)
    for season, seed in seasons_of_both:
        check_prepared(season, seed)


def test_tracks_that_have_no_such_labels_are_left_out_and_the_protocol_covers_the_root(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "lake", NAMES)
    people, profile, registry = commitment(folder), load_profile("embedded"), installed()
    changed = on_photographs(profile, people, SECRET, registry)
    assert list(changed.tracks) == ["harness/iqa"]
    assert changed.tracks["harness/iqa"].select["dataset"] == [f"harness/folder:{people.folder(SECRET)}"]
    (folder / "mos.csv").unlink()
    ladder = commitment(folder)
    assert set(on_photographs(profile, ladder, SECRET, registry).tracks) == {"harness/iqa", "harness/perceptual"}
    digests = {on_photographs(profile, which, SECRET, registry).identity("harness/iqa") for which in (people, ladder)}
    assert len({profile.identity("harness/iqa"), *digests}) == 3
    only = profile.model_copy(update={"tracks": {"harness/membership": profile.tracks["harness/membership"]}})
    with pytest.raises(UsageError, match="no track of profile embedded can be computed on photographs"):
        on_photographs(only, ladder, SECRET, registry)


def test_a_look_up_of_public_photographs_protects_none_of_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No secret split moves images here: that the photographs are unpublished is enough to defeat the look-up."""
    (tmp_path / "packages").mkdir()
    packages = install(tmp_path / "packages", "acme-truth")
    monkeypatch.syspath_prepend(str(packages))
    points = [p for d in importlib.metadata.distributions(path=[str(packages)]) for p in d.entry_points]
    registry = build_registry(load_plugins([*importlib.metadata.entry_points(group="imharness"), *points]))
    track_profile = TrackProfile(
        select={
            "dataset": ["acme/patterns"],
            "metric": ["light/brightness"],
            "attack": ["harness/ifgsm"],
            "defense": ["harness/none", "acme/recogniser"],
        },
        options={"strengths": ["strong"], "shown_images": 1, "samples": 1},
    )
    public = Profile(name="truth", description="", tracks={"harness/iqa": track_profile})
    folder = photographs(tmp_path / "lake", [f"{name}-{k}.png" for name in NAMES for k in range(2)], side=24)
    season = season_on(folder)
    prepared(folder, season, SEED)
    accepted = {"light/brightness": (Standing(date="", decision="accepted", reason="its numbers are known"),)}
    worst = []
    for number, profile in enumerate((public, on_photographs(public, season.photographs, season.secret, registry))):
        store, graph = Store(tmp_path / f"store{number}"), plan_track("harness/iqa", profile, registry)
        cache = BuildCache(registry, store, torch.device("cpu"), 16)
        records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
        assert [record.failure for record in records if record.failure] == []
        sweep = merged_sweep(
            store, graph, done=set(graph.tasks), failed={}, profile="truth", seed=0, limit=None, command="harness run"
        )
        store.save_sweep(sweep)
        leaderboard = make_leaderboard(store, graph.track, sweep, StoreEntries(registry, standing=accepted))
        rows = next(table for table in leaderboard.tables if table.id == "ranking").rows
        worst.append({row.label: row.values["worst"].value for row in rows})
    assert worst[0]["acme/recogniser"] == pytest.approx(0, abs=0.01)
    assert worst[0]["harness/none"] > 10
    assert worst[1]["acme/recogniser"] == worst[1]["harness/none"] > 5
