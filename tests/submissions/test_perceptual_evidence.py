"""Evidence against perceptual metrics: of judged choices with a known truth, exactly the broken ones are lost."""

import hashlib
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.conftest import without_site
from tests.submissions.conftest import MakeSubmission, unexamined
from tests.submissions.test_evidence import bomb, change, first, invoke, listed_by, value
from tests.submissions.test_honest import PLACED, numbers
from tests.submissions.test_run import entry, silent

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard
from imharness.errors import UsageError
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness_submissions.evidence.accepting import accept
from imharness_submissions.evidence.checking import check
from imharness_submissions.evidence.folder import FILE, read_evidence
from imharness_submissions.ledger import Ledger
from imharness_submissions.run import Run
from imharness_submissions.running import run_submission

CHOICES, NEARER, FARTHER, RADIUS = 8, 20, 23, 4
"""Choices of each family; distances of the nearer and the farther alternative from a reference, and the radius of
attacks, in 1/255."""
FAMILIES = ("blur", "noise")
PROFILE = """
name = "tiny"
description = "An attack of one step, on judged patches."
[tracks."harness/perceptual"]
select = {{ dataset = ["bapps:{}"], metric = ["l2", "mae", "ssim-uniform7"], attack = ["ifgsm"] }}
options = {{ radii = [1, 4], substitutes = ["harness/ssim-uniform7"] }}
parameters."harness/ifgsm" = {{ iterations = 1 }}
"""
TASK = ("--task", "radius=4")
Start = Callable[..., Path]


def judged(root: Path) -> Path:
    """Write choices in the layout of BAPPS: all judges find p0 nearer, which every pixel-wise distance does, too.

    Both alternatives differ from grey by the same number in every value, so that a change by four steps outwards
    makes p0 the farther one, and one by one step does not.
    """
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        folder = root / "2afc" / "val" / family
        for subfolder in ("ref", "p0", "p1", "judge"):
            (folder / subfolder).mkdir(parents=True)
        for number in range(CHOICES):
            sign = rng.choice([-1, 1], (64, 64, 3))
            for subfolder, far in (("ref", 0), ("p0", NEARER), ("p1", FARTHER)):
                Image.fromarray((128 + far * sign).astype(np.uint8)).save(folder / subfolder / f"{number:06}.png")
            np.save(folder / "judge" / f"{number:06}.npy", np.zeros(1, np.float32))
    return root


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which an attack that breaks nothing was run on three metrics."""
    root = tmp_path_factory.mktemp("listed")
    return listed_by(root, PROFILE.format(judged(root / "bapps")))


@pytest.fixture
def started(listed: Path, tmp_path: Path) -> Start:
    """Return a function: an entry -> a folder of evidence with the originals, and the facts that a person fills in."""

    def make(entry: str = "l2", name: str = "evidence", store: Path = listed) -> Path:
        folder = tmp_path / name
        done = invoke("evidence", "new", folder, "--track", "perceptual", "--entry", entry, *TASK, "--store", store)
        assert done.exit_code == 0, done.output
        change(folder, "The author", "A. Breaker")
        change(folder, "you@example.org", "https://breaker.test/l2")
        return folder

    return make


def pushed(folder: Path, by: int = RADIUS, *, many: int = 2 * CHOICES) -> Path:
    """Push the first `many` images of a folder away from the reference that lies beside them, by `by` of 255."""
    text = (folder / FILE).read_text()
    for block in text.split("[[images]]")[1:][:many]:
        file = block.split('file = "')[1].split('"')[0]
        reference = block.split("# its reference: ")[1].split()[0]
        pixels, grey = (np.asarray(Image.open(folder / name)).astype(int) for name in (file, reference))
        Image.fromarray((pixels + by * np.sign(pixels - grey)).astype(np.uint8)).save(folder / file)
    return folder


def sample_leaderboard(store: Path) -> Leaderboard:
    result = read_leaderboard(Store(store), "harness/perceptual")
    assert result is not None
    return result


BESIDE_IT = ("rank", "behind", "gain", "p")
"""Columns in which an entry is compared with others, of which one was broken."""


def test_what_is_lost_is_the_share_of_the_choices_that_were_broken_and_the_entry_alone_loses_it(
    store: Path, started: Start, tmp_path: Path
) -> None:
    folder, before = pushed(started(), many=6), sample_leaderboard(store)
    assert value(before, "harness/l2") == 1.0
    where = ("--store", store, "--device", "cpu")
    result = invoke("evidence", "check", folder, *where)
    assert result.exit_code == 0, result.output
    assert "It counts against harness/l2: agreement, worst attack 1 → 0.625 by 16 images" in result.output
    assert value(sample_leaderboard(store), "harness/l2") == 1.0, "a check keeps nothing"

    done = invoke("evidence", "accept", folder, *where, "--site", tmp_path / "site")
    assert done.exit_code == 0, done.output
    after = sample_leaderboard(store)
    assert value(after, "harness/l2") == pytest.approx(1 - 6 / (2 * CHOICES))
    assert after.rankings[0].places["harness/l2"].broken_by["evidence"] == pytest.approx(6 / (2 * CHOICES))
    rows = {row.label: row for row in before.tables[0].rows}
    for row in after.tables[0].rows:
        if row.label != "harness/l2":
            values = {name: value for name, value in row.values.items() if name not in BESIDE_IT}
            assert values.items() <= rows[row.label].values.items(), "nobody else's numbers change"
        assert row.values["aware"] == rows[row.label].values["aware"], "the mean over the leaderboard's own attacks"
    (line,) = Ledger(store).lines()
    assert (line.decision, line.ids) == ("evidence", ("harness/l2",))
    assert "A. Breaker" in line.reason
    (page,) = (tmp_path / "site" / "entries").glob("metric-harness--l2.html")
    assert "A. Breaker" in page.read_text()
    assert "A. Breaker" in json.dumps(json.loads((tmp_path / "site" / "data" / "results.json").read_text()))

    again = invoke("evidence", "accept", folder, *where, "--site", tmp_path / "site")
    assert "was accepted before" in str(again.exception)
    profile = store.parent / "tiny.toml"
    profile.write_text(PROFILE.format(listed_data(store)))
    for words in (
        ("results", "rank", "--store", store),
        ("run", "--all", *where, "--site", tmp_path / "site", "--profile", profile, "--workers", 0),
    ):
        with without_site():
            ran = invoke(*words)
        assert ran.exit_code == 0, ran.output
        assert value(sample_leaderboard(store), "harness/l2") == value(after, "harness/l2"), (
            "tables that are made again have it too"
        )


def listed_data(store: Path) -> str:
    """Return the folder of the data of a store."""
    record = next(r for key in Store(store).all_keys() if (r := Store(store).record(key)) and r.spec.step == "distance")
    return str(record.spec.components["dataset"].parameters["path"])


def farther(folder: Path) -> Path:
    """Name the other alternative of the first choice, which judges find farther."""
    record = (folder / FILE).read_text().split("[[images]]")
    section = record[1]
    name = section.split('name = "')[1].split('"')[0]
    assert name.endswith("/p0")
    change(folder, name, name.removesuffix("p0") + "p1")
    return folder


def bits_of_16(folder: Path) -> None:
    """Write a PNG of three colours with 16 bits each, whose upper bytes are the attacked image."""
    pixels = np.asarray(Image.open(first(folder)))
    rows = (pixels.astype(">u2") * 257).reshape(pixels.shape[0], -1)
    lines = b"".join(b"\x00" + row.tobytes() for row in rows)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    )
    first(folder).write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
            for kind, body in chunks
        )
    )


def one_value(folder: Path) -> None:
    """Change one value of the first image far: little in L2, too much in the norm of the attack."""
    pixels = np.asarray(Image.open(first(folder))).copy()
    pixels[0, 0, 0] = pixels[0, 0, 0] - 60
    Image.fromarray(pixels).save(first(folder))


def linked(folder: Path) -> None:
    image_file = first(folder)
    image_file.rename(folder.parent / "elsewhere.png")
    image_file.symlink_to(folder.parent / "elsewhere.png")


def with_alpha(folder: Path) -> None:
    """Write the attacked image with an alpha channel of 0, so that it is invisible."""
    pixels = np.asarray(Image.open(first(folder)))
    Image.fromarray(np.dstack([pixels, np.zeros_like(pixels[:, :, 0])]), "RGBA").save(first(folder))


def in_colours_of_a_table(folder: Path) -> None:
    Image.open(first(folder)).convert("P").save(first(folder))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: pushed(f, RADIUS + 1), "its distance from the original is .* are allowed"),
        (one_value, "its distance from the original is .* are allowed"),
        (lambda f: change(f, 'clean = "', f'clean = "{"0" * 64}" #'), "the sha256 of the original is"),
        (lambda f: change(f, 'name = "blur/000000/p0"', 'name = "blur/000001/p0" #'), "an image is named twice"),
        (lambda f: change(f, 'name = "blur', 'name = "traditional'), "has no such image here"),
        (farther, "the sha256 of the original is"),
        (lambda f: change(f, "harness/l2", "harness/l3"), "is no entry of harness/perceptual in this store"),
        (lambda f: change(f, "[task]", '[task]\nattack = "harness/pgd-l2"'), "no attack with .* is listed"),
        (lambda f: change(f, 'radius = "4"', 'radius = "16"'), "no attack with .* is listed"),
        (lambda f: change(f, 'radius = "4"', 'dataset = "harness/tid2013"'), "no attack with .* is listed"),
        (lambda f: Image.new("RGB", (8, 8)).save(first(f)), "width and height differ"),
        (bits_of_16, "PNG of three colours with 8 bits each"),
        (with_alpha, "PNG of three colours with 8 bits each"),
        (in_colours_of_a_table, "PNG of three colours with 8 bits each"),
        (bomb, "bytes of arrays; at most"),
        (linked, "leads out of the folder, or is a link"),
        (lambda f: change(f, "images/", "../"), "file"),
        (lambda f: change(f, "images/", "/etc/"), "file"),
        (lambda f: f, "harness/l2 stays where it is"),
        (lambda f: pushed(f, 2), "harness/l2 stays where it is"),
        (lambda f: pushed(f, -RADIUS), "harness/l2 stays where it is"),
    ],
    ids=[
        "budget",
        "norm",
        "digest",
        "twice",
        "name",
        "alternative",
        "entry",
        "attack",
        "radius",
        "data",
        "size",
        "16-bits",
        "alpha",
        "palette",
        "bomb",
        "link",
        "parent",
        "root",
        "originals",
        "too-little",
        "nearer",
    ],
)
def test_false_evidence_and_what_changes_nothing_are_refused_in_one_line(
    listed: Path, started: Start, spoil: Callable[[Path], object], message: str
) -> None:
    folder = started()
    spoil(folder)
    with pytest.raises(UsageError, match=message) as refused:
        check(read_evidence(folder), Store(listed))
    assert len(str(refused.value).splitlines()) == 1


def test_the_alternative_that_judges_find_farther_proves_nothing(listed: Path, started: Start) -> None:
    """It is within the budget and has the right digest, but to push it away makes no choice wrong."""
    folder = farther(started())
    pixels = np.asarray(Image.open(Path(listed_data(listed)) / "2afc" / "val" / "blur" / "p1" / "000000.png"))
    Image.fromarray(pixels).save(first(folder))
    text = (folder / FILE).read_text()
    digest = text.split('clean = "')[1].split('"')[0]
    change(folder, digest, hashlib.sha256(pixels.tobytes()).hexdigest())
    grey = np.full_like(pixels, 128)
    Image.fromarray((pixels.astype(int) + RADIUS * np.sign(pixels.astype(int) - grey)).astype(np.uint8)).save(
        first(folder)
    )
    with pytest.raises(UsageError, match="harness/l2 stays where it is"):
        check(read_evidence(folder), Store(listed))


def test_images_that_broke_one_metric_are_measured_again_by_another(store: Path, started: Start) -> None:
    """A piece that names another entry counts by what that entry makes of it, not by what it did to the first."""
    accept(read_evidence(pushed(started())), Store(store))
    other = pushed(started("mae", "other"))
    assert check(read_evidence(other), Store(store)).after.value == 0.0
    same = started(name="same")
    shutil.copytree(other / "images", same / "images", dirs_exist_ok=True)
    with pytest.raises(UsageError, match="accepted before"):
        check(read_evidence(same), Store(store))
    fewer = pushed(started(name="fewer"), many=3)
    with pytest.raises(UsageError, match="stays where it is"):
        check(read_evidence(fewer), Store(store))


@pytest.mark.usefixtures("described_once")
def test_a_submitted_metric_is_broken_by_its_own_code_in_the_sandbox(
    submission: MakeSubmission, listed: Path, store: Path, started: Start
) -> None:
    profile = load_profile(str(listed.parent / "tiny.toml"))
    folder = submission("../submissions/tracks/stranger", entry("good/blurred", "metric"))
    with unexamined():
        assert run_submission(Run(folder, Store(store), profile), silent).tasks
    columns, beside = (
        set(numbers(sample_leaderboard(store), "attacked", label)) - PLACED for label in ("good/blurred", "harness/l2")
    )
    assert columns == beside, "a distance without bounds has every number that one of the harness has"
    assert "moved-4" in columns
    assert value(sample_leaderboard(store), "good/blurred") == 1.0
    result, line = accept(read_evidence(pushed(started("good/blurred", store=store), many=4)), Store(store))
    record = Store(store).record(result.records[-1].key)
    assert record is not None
    assert record.isolation.startswith("bubblewrap"), "its code ran apart"
    assert value(sample_leaderboard(store), "good/blurred") == pytest.approx(1 - 4 / (2 * CHOICES))
    assert value(sample_leaderboard(store), "harness/l2") == 1.0
    assert line.name == "stranger"
