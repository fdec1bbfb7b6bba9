"""Evidence against listed entries: accepted pieces lower a value and name their author, all others are refused."""

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image
from tests.conftest import without_site
from tests.submissions.conftest import MakeSubmission, unexamined
from tests.submissions.test_run import entry, silent

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard
from imharness.errors import UsageError
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness_iqa.tables.evidence import least
from imharness_submissions.evidence.accepting import accept
from imharness_submissions.evidence.checking import _differing, check
from imharness_submissions.evidence.folder import FILE, read_evidence
from imharness_submissions.ledger import Ledger
from imharness_submissions.run import Run
from imharness_submissions.running import run_submission

PROFILE = """
name = "tiny"
description = "One metric, one attack that asks twice, a few photographs."
[tracks."harness/iqa"]
select.dataset = ["harness/severity-ladder[severities=[2,4],size=48]"]
select.metric = ["embedded-cnn"]
select.attack = ["square"]
select.defense = ["none", "jpeg", "flip", "random-noise"]
options = { strengths = ["strong"], adaptive = ["harness/square"], samples = 1, shown = [] }
parameters."harness/square" = { queries = 2 }
"""
TASK = ("--task", "method=harness/square[queries=2]", "--task", "strength=strong")
Break = Callable[..., Path]


def invoke(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def listed_by(root: Path, profile: str, *words: object) -> Path:
    """Run a profile below a folder, and return the store."""
    (root / "tiny.toml").write_text(profile)
    where = ("--store", root / "store", "--site", root / "site", "--profile", root / "tiny.toml")
    with without_site():
        done = invoke("run", "--all", *where, *words, "--device", "cpu", "--workers", 0, "--progress", "none")
    assert done.exit_code == 0, done.output
    return root / "store"


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which a weak attack was run against three defenses."""
    return listed_by(tmp_path_factory.mktemp("listed"), PROFILE, "--limit", 12)


@pytest.fixture
def started(listed: Path, tmp_path: Path) -> Break:
    """Return a function: an entry -> a folder of evidence with the originals, and the facts that a person fills in."""

    def make(entry: str = "harness/flip", name: str = "evidence") -> Path:
        folder = tmp_path / name
        done = invoke("evidence", "new", folder, "--track", "iqa", "--entry", entry, *TASK, "--store", listed)
        assert done.exit_code == 0, done.output
        text = (folder / FILE).read_text()
        for placeholder, replacement in (
            ("The author", "A. Breaker"),
            ("you@example.org", "https://breaker.test/flip"),
            ("say in a sentence how these images were found", "I-FGSM through the defense, 20 steps."),
        ):
            assert placeholder in text
            text = text.replace(placeholder, replacement)
        (folder / FILE).write_text(text)
        return folder

    return make


def attacked(folder: Path, by: int = 7, *, through: str = "flip") -> Path:
    """Attack each image of a folder by sign gradients, through the mirror or not, within `by` of 255, and write it."""
    metric = installed().one("metric", "harness/embedded-cnn").build(torch.device("cpu"))
    for file in sorted((folder / "images").glob("*.png")):
        clean = torch.from_numpy(np.asarray(Image.open(file)).copy()).permute(2, 0, 1)[None].float() / 255
        x = clean.clone()
        for _ in range(20):
            leaf = x.clone().requires_grad_(True)
            transformed = leaf.flip(-1) if through == "flip" else leaf
            (gradient,) = torch.autograd.grad(metric(transformed).sum(), leaf)
            x = (x + 1 / 255 * gradient.sign()).clamp(clean - by / 255, clean + by / 255).clamp(0, 1)
        pixels = x[0].mul(255).round().byte().permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(file)
    return folder


def value(leaderboard: Leaderboard | None, label: str) -> float:
    assert leaderboard is not None
    row = next(row for row in leaderboard.tables[0].rows if row.label == label)
    number = row.number("worst")
    assert number is not None
    return number


def sample_leaderboard(store: Path) -> Leaderboard | None:
    return read_leaderboard(Store(store), "harness/iqa")


def test_accepted_evidence_lowers_the_value_of_its_entry_alone_and_names_who_broke_it(
    store: Path, started: Break, tmp_path: Path
) -> None:
    folder, before = attacked(started()), sample_leaderboard(store)
    where = ("--store", store, "--device", "cpu")
    result = invoke("evidence", "check", folder, *where)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("It counts against harness/flip: ")
    assert value(sample_leaderboard(store), "harness/flip") == value(before, "harness/flip"), "a check keeps nothing"

    done = invoke("evidence", "accept", folder, *where, "--site", tmp_path / "site")
    assert done.exit_code == 0, done.output
    after = sample_leaderboard(store)
    assert value(after, "harness/flip") > value(before, "harness/flip") + 1
    assert after is not None
    positions = after.rankings[0].places
    assert positions["harness/flip"].broken_by["evidence"] > 0
    for label in ("harness/jpeg", "harness/none", "harness/random-noise"):
        assert value(after, label) == value(before, label)
        assert "evidence" not in positions[label].broken_by
        assert positions[label].complete
    (line,) = Ledger(store).lines()
    assert (line.decision, line.ids) == ("evidence", ("harness/flip",))
    assert "A. Breaker" in line.reason
    entry = next(candidate for candidate in after.entries if candidate.id == "harness/flip")
    assert [flag.decision for flag in entry.standing] == ["evidence"]
    (page,) = (tmp_path / "site" / "entries").glob("*harness*flip*")
    assert "A. Breaker" in page.read_text()
    results = json.loads((tmp_path / "site" / "data" / "results.json").read_text())
    assert "A. Breaker" in json.dumps(results)

    again = invoke("evidence", "accept", folder, *where, "--site", tmp_path / "site")
    assert isinstance(again.exception, UsageError)
    assert "was accepted before" in str(again.exception)
    ran = invoke("results", "rank", "--store", store)
    assert ran.exit_code == 0, ran.output
    assert value(sample_leaderboard(store), "harness/flip") == value(after, "harness/flip"), (
        "tables that are made again have it too"
    )


def test_evidence_that_changes_nothing_is_refused(store: Path, started: Break) -> None:
    with pytest.raises(UsageError, match="harness/flip stays where it is"):
        check(read_evidence(started()), Store(store))


def test_draws_of_a_random_entry_are_not_taken_for_evidence(store: Path, started: Break) -> None:
    with pytest.raises(UsageError, match="harness/random-noise stays where it is"):
        check(read_evidence(started("harness/random-noise")), Store(store))


def test_draws_that_change_nothing_seldom_prove_that_an_image_is_worse() -> None:
    """Evidence that changes nothing has an image that counts in at most about 5 % of cases, by its one draw."""
    rng, cases, images = np.random.default_rng(0), 2000, 12
    proven = sum(bool((rng.normal(size=images) < least(rng.normal(size=(16, images)))).any()) for _ in range(cases))
    assert 0.02 * cases < proven < 0.065 * cases
    assert (least(rng.normal(3, 0.1, (16, images))) > rng.normal(0, 0.1, images)).all(), "what changed is found"
    assert least(np.full((1, images), 2.0)).tolist() == [2.0] * images


def test_entries_and_attacks_go_by_short_names_and_what_is_left_open_is_said(listed: Path, tmp_path: Path) -> None:
    begin = ("evidence", "new", "--track", "iqa", "--store", listed)
    done = invoke(*begin, tmp_path / "one", "--entry", "flip", "--task", "method=square", "--task", "adaptive=true")
    assert done.exit_code == 0, done.output
    assert invoke(*begin, tmp_path / "two", "--entry", "flip").exit_code == 0, "one attack is listed"
    none = invoke(*begin, tmp_path / "three", "--entry", "flip", "--task", "strenght=strong")
    assert "no attack with strenght strong is listed" in str(none.exception)


def test_where_several_fit_the_message_has_the_values_that_tell_them_apart() -> None:
    def spec(method: str) -> TaskSpec:
        options = {"method": method, "strength": "strong"}
        return TaskSpec(
            track="x/y", step="evaluate", version="1", components={}, options=options, limit=None, seed=0, needs={}
        )

    assert _differing([spec("harness/ifgsm"), spec("harness/square[queries=2]")]) == (
        "--task method=harness/ifgsm or harness/square[queries=2]"
    )


def test_a_random_entry_is_broken_by_more_than_its_noise(store: Path, started: Break) -> None:
    result = check(read_evidence(attacked(started("harness/random-noise"), through="nothing")), Store(store))
    assert result.records[-1].spec.options["draws"] == 16
    assert result.after.value > result.before.value + 1


def test_a_piece_that_was_accepted_gains_nothing_in_another_order(
    store: Path, started: Break, tmp_path: Path, no_site: None
) -> None:
    folder = attacked(started())
    done = invoke("evidence", "accept", folder, "--store", store, "--site", tmp_path / "s", "--device", "cpu")
    assert done.exit_code == 0
    head, *blocks = (folder / FILE).read_text().split("[[images]]")
    (folder / FILE).write_text("[[images]]".join([head + "\n", *[b + "\n" for b in blocks[::-1]][1:]]))
    with pytest.raises(UsageError, match="stays where it is"):
        check(read_evidence(folder), Store(store))


def change(folder: Path, old: str, new: str) -> None:
    text = (folder / FILE).read_text()
    assert old in text
    (folder / FILE).write_text(text.replace(old, new, 1))


def first(folder: Path) -> Path:
    return sorted((folder / "images").glob("*.png"))[0]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: attacked(f, 30), "its distance from the original is .* are allowed"),
        (lambda f: change(f, 'clean = "', f'clean = "{"0" * 64}" #'), "the sha256 of the original is"),
        (lambda f: change(f, 'name = "', 'name = "no-such-'), "has no such image here"),
        (lambda f: change(f, "harness/flip", "harness/flop"), "is no entry of harness/iqa in this store"),
        (lambda f: change(f, 'strength = "strong"', 'strength = "huge"'), "no attack with .* is listed"),
        (lambda f: change(f, 'track = "harness/iqa"', 'track = "harness/membership"'), "takes no images as evidence"),
        (lambda f: first(f).write_bytes(first(f).read_bytes()[:200]), "is not a readable image"),
        (lambda f: Image.new("RGB", (8, 8)).save(first(f)), "width and height differ"),
        (lambda f: Image.new("L", (48, 48)).save(first(f)), "PNG of three colours"),
        (lambda f: change(f, "images/", "../"), "file"),
        (lambda f: change(f, "images/0000.png", "/etc/passwd.png"), "file"),
        (lambda f: change(f, "A. Breaker", "The author"), "placeholder"),
    ],
    ids=["budget", "original", "name", "entry", "task", "track", "cut", "size", "grey", "parent", "root", "author"],
)
def test_false_evidence_is_refused_in_one_line(
    listed: Path, started: Break, spoil: Callable[[Path], object], message: str
) -> None:
    folder = started()
    spoil(folder)
    with pytest.raises(UsageError, match=message) as refused:
        check(read_evidence(folder), Store(listed))
    assert len(str(refused.value).splitlines()) == 1


def test_a_link_out_of_the_folder_is_refused(started: Break, tmp_path: Path) -> None:
    folder = started()
    image_file = first(folder)
    image_file.rename(tmp_path / "elsewhere.png")
    image_file.symlink_to(tmp_path / "elsewhere.png")
    with pytest.raises(UsageError, match="leads out of the folder, or is a link"):
        read_evidence(folder)


def with_array(folder: Path, array: np.ndarray) -> Path:
    np.savez(folder / "images.npz", own=array)
    change(folder, f"images/{first(folder).name}", "images.npz:own")
    return folder


def test_arrays_hold_eight_bits_and_no_nan(started: Break) -> None:
    whole = np.linspace(0, 255, 48 * 48 * 3).round().reshape(48, 48, 3)
    read = read_evidence(with_array(started(), whole / 255))
    assert np.array_equal(read.pixels[0], whole)
    for n, (array, message) in enumerate(
        (
            (np.full((48, 48, 3), np.nan), "NaN or infinity"),
            (whole / 255 + 0.001, "multiples of 1/255"),
            (whole.transpose(2, 0, 1) / 255, "an image is"),
            (whole.astype(np.int16), "an image is uint8"),
        )
    ):
        with pytest.raises(UsageError, match=message):
            read_evidence(with_array(started(name=f"evidence-{n}"), array))


def bomb(folder: Path) -> None:
    """Name an array of 900 MB that takes 4 MB on the disk."""
    facts = b"{'descr': '|u1', 'fortran_order': False, 'shape': (30000, 10000, 3), }\n"
    with (
        zipfile.ZipFile(folder / "images.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("own.npy", "w") as member,
    ):
        member.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(facts)) + facts)
        for _ in range(900):
            member.write(bytes(1_000_000))
    change(folder, f"images/{first(folder).name}", "images.npz:own")


def test_a_bomb_is_refused_before_it_is_unpacked(started: Break) -> None:
    folder = started()
    bomb(folder)
    with pytest.raises(UsageError, match="bytes of arrays; at most"):
        read_evidence(folder)
    chunk = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    picture = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    for kind, content in ((b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")):
        picture += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    other = started(name="other")
    first(other).write_bytes(picture)
    with pytest.raises(UsageError, match="60000 x 60000 pixels; at most"):
        read_evidence(other)


@pytest.mark.usefixtures("described_once")
def test_a_submitted_entry_is_broken_by_its_own_code_in_the_sandbox(
    submission: MakeSubmission, listed: Path, store: Path, tmp_path: Path
) -> None:
    profile = listed.parent / "tiny.toml"
    run = Run(submission("honest/median", entry("good/median")), Store(store), load_profile(str(profile)), limit=12)
    with unexamined():
        assert run_submission(run, silent).tasks
    folder = tmp_path / "evidence"
    began = invoke("evidence", "new", folder, "--track", "iqa", "--entry", "good/median", *TASK, "--store", store)
    assert began.exit_code == 0, began.output
    change(folder, "The author", "A stranger")
    change(folder, "you@example.org", "a@b.example")
    result, line = accept(read_evidence(attacked(folder, through="nothing")), Store(store))
    record = Store(store).record(result.records[-1].key)
    assert record is not None
    assert record.isolation.startswith("bubblewrap"), "its code ran apart"
    assert result.after.value > result.before.value
    assert result.by_its_author
    assert line.name == "median"
    assert "(its own author)" in line.reason
    flags = next(candidate for candidate in sample_leaderboard(store).entries if candidate.id == "good/median").standing  # type: ignore[union-attr]
    assert [flag.decision for flag in flags][-1] == "evidence"
